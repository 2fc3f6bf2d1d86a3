//! The database: the gateway's table `memories`, which is shared, and ours beside it. `lancedb` and `arrow` are
//! named only here. Decides nothing: it offers reads and idempotent writes; what is written comes from a plan.
//!
//! Every read sees the latest commit, and every write is guarded by what was read, since a gateway writes at the
//! same time. `memories` is never dropped, altered, restored to an older version, or created over.

mod archive;
mod lance;
mod maintain;
mod memories;
mod neighbours;
mod new_row;
mod past;
mod put_back;
mod raw;
mod revector;
mod rows;
mod snapshot;
mod table;
mod traces;

use std::path::PathBuf;

pub use archive::Leaving;
pub use lance::{Created, Store};
pub use maintain::{Layout, Pruned, TABLES};
pub use memories::Rows;
pub use neighbours::{Neighbour, Query};
pub use new_row::{Inherit, NewRow};
pub use past::Past;
pub use put_back::Imaged;
pub use revector::{VECTORED, VectorLog, VectorsByText};
pub use snapshot::{
    Before, Image, Images, Touched, erase_before, has_images, read_before, read_images, set_vectors_before,
    texts_before,
};
pub use traces::{StoredTrace, Traces};

/// What caused an error: LanceDB, Arrow, or the file system.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The table that belongs to the gateway.
pub const MEMORIES: &str = "memories";
/// Whole rows that left `memories`.
pub const ARCHIVE: &str = "memories_archive";
/// What we know of memories beyond the shared row.
pub const TRACES: &str = "memory_traces";
/// The chunks a night used.
pub const RAW: &str = "raw_memories";

/// What became of the rows a write was asked for: every id is in exactly one list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Written (or deleted) now.
    pub written: Vec<String>,
    /// Nothing to do: the table already held it. Doing a thing twice lands here.
    pub already: Vec<String>,
    /// Left alone, because the row, or a row it rests on, is no longer as it was read.
    pub changed: Vec<String>,
    /// Left alone, because the row is no longer there.
    pub gone: Vec<String>,
}

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
    /// The folder is there, the table is not.
    #[error(
        "open the table `memories` in {path}: there is none; run `dreamer setup` or set DREAMER_LANCEDB_URI"
    )]
    NoTable {
        /// The folder.
        path: String,
    },
    /// A database that is not a local folder.
    #[error("open the database {uri}: only local folders are supported; set DREAMER_LANCEDB_URI to one")]
    Remote {
        /// The address as configured.
        uri: String,
    },
    /// The table is there and cannot be read: damaged, or written by something newer.
    #[error(
        "open the table `{table}` in {path}: it is damaged or of a newer format; \
         put back a backup of the folder, or delete the newest file in {table}.lance/_versions if a copy broke off there"
    )]
    Damaged {
        /// The folder.
        path: String,
        /// The table.
        table: &'static str,
        /// What LanceDB said.
        source: Cause,
    },
    /// The table `memories` is not a gateway's.
    #[error(
        "use the table `memories` in {path}: its column `{column}` is {found}; set DREAMER_LANCEDB_URI to the gateway's database"
    )]
    NotMemories {
        /// The folder.
        path: String,
        /// The column that is missing or of an unusable type.
        column: String,
        /// What it is instead.
        found: String,
    },
    /// The folder or an empty table could not be made.
    #[error(
        "create the table `{table}` in {path}; check that the folder can be written and the disk has room"
    )]
    Create {
        /// The folder.
        path: String,
        /// The table.
        table: &'static str,
        /// The reason.
        source: Cause,
    },
    /// A read failed.
    #[error("read the table `{table}`; try again, and if it stays, put back a backup")]
    Read {
        /// The table.
        table: &'static str,
        /// The reason.
        source: Cause,
    },
    /// A write failed; nothing of it was committed.
    #[error("write to the table `{table}`; nothing of this step was changed; check that the disk has room")]
    Write {
        /// The table.
        table: &'static str,
        /// The reason.
        source: Cause,
    },
    /// Other writers kept changing the table. Trying again later is the remedy.
    #[error("write to the table `{table}`: another program keeps changing it; try again later")]
    Contended {
        /// The table.
        table: &'static str,
        /// The conflict.
        source: Cause,
    },
    /// A vector is not as long as the table's.
    #[error(
        "use a vector of {got} numbers for {id}: the table `{table}` holds {expected}; \
         configure the embedding model the table was made with"
    )]
    Dimension {
        /// The table.
        table: &'static str,
        /// The row or query.
        id: String,
        /// The table's dimension.
        expected: usize,
        /// The vector's length.
        got: usize,
    },
    /// The table demands a value in a column we know nothing of.
    #[error(
        "insert into the table `memories`: its column `{column}` is required and Dreamer has no value for it; \
         allow NULL there, or tell us what the column is"
    )]
    Required {
        /// The column.
        column: String,
    },
    /// A snapshot could not be written or read.
    #[error("use the snapshot {path}; check that the folder can be read and written and the disk has room")]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// A snapshot is not what was written.
    #[error("trust the snapshot {path}: its digest differs from the one taken when it was written")]
    SnapshotChanged {
        /// The file.
        path: PathBuf,
    },
}
