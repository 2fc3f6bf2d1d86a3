//! The errors that end a run, and the one function that turns an outcome into an exit code.

use crate::providers::ProviderError;
use crate::store::StoreError;

/// What ends a run early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model gave nothing and the night cannot go on without it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
