//! The errors that end a run, and the one function that turns an outcome into an exit code.

use crate::config::ConfigError;
use crate::providers::ProviderError;
use crate::restore::RestoreError;
use crate::setup::SetupError;
use crate::state::StateError;
use crate::store::StoreError;

/// What ends a run early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A model gave nothing and the night cannot go on without it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of ours could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A home could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A memory could not be brought back.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl Error {
    /// The process's exit code: 1 failed, 75 try again later, 78 configuration.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Setup(SetupError::RealHome { .. })
            | Self::Restore(RestoreError::Dimension { .. }) => 78,
            Self::State(StateError::Locked { .. }) | Self::Store(StoreError::Contended { .. }) => 75,
            _ => 1,
        }
    }
}
