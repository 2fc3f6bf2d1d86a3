//! The errors that end a run, and the one function that turns an outcome into an exit code.

use crate::alert::AlertError;
use crate::calibrate::CalibrateError;
use crate::check_pairs::PairsError;
use crate::config::ConfigError;
use crate::episode::EpisodeError;
use crate::flush::FlushError;
use crate::forget::ForgetError;
use crate::pin::PinError;
use crate::plan::PlanError;
use crate::providers::ProviderError;
use crate::providers::local::{self, pull::PullError};
use crate::queues::review::ReviewError;
use crate::reembed::ReembedError;
use crate::restore::RestoreError;
use crate::setup::SetupError;
use crate::space::NoSpace;
use crate::state::StateError;
use crate::store::StoreError;
use crate::undo::UndoError;
use crate::undo::redream::RedreamError;
use crate::undo::unmerge::UnmergeError;
use crate::why::WhyError;

/// What ends a run early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An alert that somebody asked for could not be sent.
    #[error(transparent)]
    Alert(#[from] AlertError),
    /// A file of labelled pairs cannot be used.
    #[error(transparent)]
    Pairs(#[from] PairsError),
    /// There is too little to calibrate an embedding model with.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// The episodes folder cannot be listed.
    #[error(transparent)]
    Episode(#[from] EpisodeError),
    /// A model gave nothing and the night cannot go on without it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of ours could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A plan could not be executed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A home could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The table could not be moved to another embedding model.
    #[error(transparent)]
    Reembed(#[from] ReembedError),
    /// A memory could not be brought back.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A run could not be taken back.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A merge could not be taken back.
    #[error(transparent)]
    Unmerge(#[from] UnmergeError),
    /// An episode could not be taken up again.
    #[error(transparent)]
    Redream(#[from] RedreamError),
    /// Nothing is known of a memory that somebody asked about.
    #[error(transparent)]
    Why(#[from] WhyError),
    /// A memory could not be forgotten.
    #[error(transparent)]
    Forget(#[from] ForgetError),
    /// A memory could not be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A question could not be answered.
    #[error(transparent)]
    Review(#[from] ReviewError),
    /// There is no such agent.
    #[error("dream for the agent {agent} alone: no memory and no episode is {agent}'s; there are: {there}")]
    UnknownAgent {
        /// What was asked for.
        agent: String,
        /// Those there are.
        there: String,
    },
    /// Weights could not be fetched, or removed.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// A session could not be ended, or its episode is not there.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// The disk has too little room for the night.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// The table's vectors are not of the configured model.
    #[error(
        "dream: the table's vectors ({dim} numbers) are not of the configured embedding model {model}: \
         re-embedding {probed} rows gave a median cosine of {cosine:.3}, more than 0.99 is needed{last}; \
         set the provider and model that wrote the table{}", way_to_move(model, *dim)
    )]
    OtherModel {
        /// Dimension of the table.
        dim: usize,
        /// The configured model.
        model: String,
        /// Rows that were compared.
        probed: usize,
        /// What the comparison gave.
        cosine: f32,
        /// `; the last run used …`, where traces know it.
        last: String,
    },
    /// The embedding model has no known similarities, and none can be derived.
    #[error(
        "dream: the vectors of the embedding model {model} do not tell a claim said twice from unrelated texts (it is \
         right in {:.0} % of the built-in pairs, 80 % are needed); set another embedding model, or CLUSTER_SIMILARITY, \
         DEDUP_SIMILARITY and CONTRADICTION_SIMILARITY if you know them", auc * 100.0
    )]
    Uncalibrated {
        /// The model.
        model: String,
        /// The chance that a duplicate scores above an unrelated pair.
        auc: f32,
    },
    /// So many rows are gone that it must be an accident.
    #[error(
        "dream: {count} of {of} memories of the agent {agent} vanished from the table since the last run, and nothing was \
         changed; put the database back, or run `dreamer --accept-vanished` if it was meant"
    )]
    Vanished {
        /// Whose they were.
        agent: String,
        /// How many are gone.
        count: usize,
        /// Of how many.
        of: usize,
    },
    /// A table of ours is gone.
    #[error(
        "dream: the table `{table}` was there when the last run ended and is gone from {path}, and nothing was changed; put \
         the database back, or run `dreamer --accept-vanished` to begin without it"
    )]
    TableGone {
        /// The table.
        table: String,
        /// The database folder.
        path: String,
    },
    /// The configured model has another dimension than the table.
    #[error(
        "dream: the table {path} holds vectors of {table} numbers, the embedding model {model} makes {model_dim}{last}; \
         set the provider and model that wrote the table{}{}", way_to_move(model, *table), way_out_if_empty(*empty, path)
    )]
    OtherDimension {
        /// The database folder.
        path: String,
        /// Dimension of the table.
        table: usize,
        /// The configured model.
        model: String,
        /// Its dimension.
        model_dim: usize,
        /// `; the last run used …`, where traces know it.
        last: String,
        /// Whether the table holds no row.
        empty: bool,
    },
}

/// How a table comes to the configured model; and where it may be of the other built-in one, how to stay with that.
pub(crate) fn way_to_move(model: &str, table: usize) -> String {
    let stay = match model == local::use3::MODEL && table == local::lexical::WIDTH {
        true => " (DREAMER_BUILTIN_MODEL=lexical, if it was that one)",
        false => "",
    };
    format!("{stay}, or move the table to the configured one: dreamer reembed")
}

/// What else can be done about a table of another dimension: one without rows was made for another model by mistake.
pub(crate) fn way_out_if_empty(empty: bool, path: &str) -> String {
    if !empty {
        return String::new();
    }
    format!(
        "; the table is empty: if no gateway uses it, remove {path}/memories.lance and run `dreamer setup`"
    )
}

impl Error {
    /// The process's exit code: 1 failed, 2 usage, 75 try again later, 78 configuration.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Alert(AlertError::Off | AlertError::Address { .. })
            | Self::OtherModel { .. }
            | Self::OtherDimension { .. }
            | Self::Uncalibrated { .. }
            | Self::Setup(
                SetupError::RealHome { .. }
                | SetupError::Length { .. }
                | SetupError::NoOpenClaw { .. }
                | SetupError::OpenClaw(_),
            )
            | Self::Restore(RestoreError::Dimension { .. })
            | Self::Forget(ForgetError::OpenClaw(_)) => 78,
            Self::Forget(ForgetError::GatewayRuns { .. })
            | Self::Reembed(ReembedError::GatewayRuns { .. } | ReembedError::Moving { .. }) => 75,
            Self::Reembed(ReembedError::NeedsNoFolder { .. }) => 2,
            Self::Flush(error) => error.exit_code(),
            Self::Pull(error) => error.exit_code(),
            Self::State(StateError::Locked { .. }) | Self::Store(StoreError::Contended { .. }) => 75,
            Self::UnknownAgent { .. } | Self::Review(ReviewError::NoSuchAnswer { .. }) => 2,
            _ => 1,
        }
    }
}

/// An error with its causes, as the operator reads it: `could not …: cause: cause`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
