//! The database: the gateway's table `memories`, which is shared, and ours beside it. `lancedb` and `arrow` are
//! named only here. Decides nothing: what is written comes from a plan.

pub mod lance;
pub mod snapshot;

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no database where the configuration points.
    #[error("open the database {path}: there is none; run `dreamer setup` or set DREAMER_LANCEDB_URI")]
    Missing {
        /// The folder.
        path: String,
    },
}
