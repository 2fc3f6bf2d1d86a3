//! Opening and creating: the one place that turns a configured address into tables.
//! What is in them is the other files' business.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::lance::Dataset;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lancedb::Connection;
use lancedb::table::Table;

use super::table::{Step, failed};
use super::{Cause, MEMORIES, StoreError};

/// Reads everywhere see the latest commit: a gateway writes while we read.
const ALWAYS_FRESH: Duration = Duration::ZERO;

/// Created or found by [`Store::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// There was none; now there is an empty one.
    New,
    /// There was one already; it was left as it is.
    Existed,
}

/// An open database.
#[derive(Clone)]
pub struct Store {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) memories: Table,
    schema: SchemaRef,
    dim: usize,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path).field("dim", &self.dim).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database in a local folder (`file://` is accepted), which must hold a table `memories`.
    ///
    /// # Errors
    /// When there is no such folder or table, when it is damaged, or when the table is not a gateway's.
    pub async fn open(uri: &str) -> Result<Self, StoreError> {
        let path = local_path(uri)?;
        let shown = path.display().to_string();
        // `connect` would create the folder.
        if !path.is_dir() {
            return Err(StoreError::Missing { path: shown });
        }
        if !table_folder(&path, MEMORIES).is_dir() {
            return Err(StoreError::NoTable { path: shown });
        }
        let (connection, memories) = connect_and_open(&path, MEMORIES).await?;
        let memories = memories.ok_or(StoreError::NoTable { path: shown.clone() })?;
        let dataset = latest(&memories, MEMORIES).await?;
        let schema: SchemaRef = Arc::new(Schema::from(dataset.schema()));
        let dim = check_memories(&schema, &shown)?;
        Ok(Self { connection, path, memories, schema, dim })
    }

    /// Makes an empty `memories` in the current gateway's layout where there is none, with vectors of `dim` numbers.
    /// A table that exists is left as it is.
    ///
    /// # Errors
    /// When the folder cannot be written, or holds a damaged `memories`.
    pub async fn create(uri: &str, dim: usize) -> Result<Created, StoreError> {
        let path = local_path(uri)?;
        let fail =
            |source: Cause| StoreError::Create { path: path.display().to_string(), table: MEMORIES, source };
        crate::state::create_folder(&path).map_err(|source| fail(source.into()))?;
        let (connection, existing) = connect_and_open(&path, MEMORIES).await?;
        if existing.is_some() {
            return Ok(Created::Existed);
        }
        match create_table(&connection, MEMORIES, fresh_memories(dim)).await {
            Ok(_) => Ok(Created::New),
            // A gateway was quicker.
            Err(lancedb::Error::TableAlreadyExists { .. }) => Ok(Created::Existed),
            Err(source) => Err(fail(source.into())),
        }
    }

    /// How many numbers a vector of `memories` has.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Whether `memories` had a column `agentId` when it was opened.
    pub fn has_agent(&self) -> bool {
        self.schema.column_with_name("agentId").is_some()
    }

    /// Whether the database has a table of that name.
    pub fn has_table(&self, name: &str) -> bool {
        self.path.join(format!("{name}.lance")).is_dir()
    }

    /// The names of the columns `memories` had when it was opened, in the table's order.
    pub fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The latest version of `memories`. Every commit counts one up.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn version(&self) -> Result<u64, StoreError> {
        Ok(self.latest_memories().await?.version().version)
    }

    pub(super) async fn latest_memories(&self) -> Result<Arc<Dataset>, StoreError> {
        latest(&self.memories, MEMORIES).await
    }

    /// The latest state of one of our own tables, if it exists.
    pub(super) async fn ours(&self, name: &'static str) -> Result<Option<Arc<Dataset>>, StoreError> {
        match self.table(name).await? {
            Some(table) => Ok(Some(latest(&table, name).await?)),
            None => Ok(None),
        }
    }

    /// A fresh handle on a table, if it exists.
    pub(super) async fn table(&self, name: &'static str) -> Result<Option<Table>, StoreError> {
        if !table_folder(&self.path, name).is_dir() {
            return Ok(None);
        }
        Ok(connect_and_open(&self.path, name).await?.1)
    }

    /// The latest state of one of our own tables, created empty on first use.
    pub(super) async fn ours_or_create(
        &self,
        name: &'static str,
        schema: SchemaRef,
    ) -> Result<Arc<Dataset>, StoreError> {
        if let Some(dataset) = self.ours(name).await? {
            return Ok(dataset);
        }
        let table = create_table(&self.connection, name, schema).await.map_err(|source| {
            StoreError::Create { path: self.path.display().to_string(), table: name, source: source.into() }
        })?;
        latest(&table, name).await
    }
}

/// A local folder out of the configured address.
fn local_path(uri: &str) -> Result<PathBuf, StoreError> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if path.contains("://") {
        return Err(StoreError::Remote { uri: uri.to_string() });
    }
    Ok(PathBuf::from(path))
}

fn table_folder(path: &std::path::Path, table: &str) -> PathBuf {
    path.join(format!("{table}.lance"))
}

/// Opens in a task of its own, because a truncated manifest panics inside LanceDB's debug assertions.
pub(super) async fn connect_and_open(
    path: &std::path::Path,
    name: &'static str,
) -> Result<(Connection, Option<Table>), StoreError> {
    let shown = path.display().to_string();
    let address = shown.clone();
    let opening = tokio::spawn(async move {
        let connection = lancedb::connect(&address).read_consistency_interval(ALWAYS_FRESH).execute().await?;
        match connection.open_table(name).execute().await {
            Ok(table) => Ok((connection, Some(table))),
            Err(lancedb::Error::TableNotFound { .. }) => Ok((connection, None)),
            Err(error) => Err(error),
        }
    });
    let damaged = |source: Cause| StoreError::Damaged { path: shown.clone(), table: name, source };
    match opening.await {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(damaged(error.into())),
        Err(panic) => Err(damaged(panic.into())),
    }
}

pub(super) async fn latest(table: &Table, name: &'static str) -> Result<Arc<Dataset>, StoreError> {
    let read = |source: Cause| StoreError::Read { table: name, source };
    let dataset = table.dataset().ok_or_else(|| read("it is not a local table".into()))?;
    dataset.get().await.map_err(|error| failed(name, Step::Read, error))
}

/// File format 2.0: every gateway reads it, while the default of this LanceDB makes older ones panic.
pub(super) async fn create_table(
    connection: &Connection,
    name: &str,
    schema: SchemaRef,
) -> lancedb::Result<Table> {
    connection
        .create_empty_table(name, schema)
        .storage_option("new_table_data_storage_version", "2.0")
        .execute()
        .await
}

/// The vector type of our own tables and of a new `memories`.
pub(super) fn vector_type(dim: usize) -> DataType {
    let dim = i32::try_from(dim).expect("a vector's length fits an i32");
    DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), dim)
}

/// The seven columns of a current gateway, nullable as it makes them.
fn fresh_memories(dim: usize) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("vector", vector_type(dim), true),
        Field::new("importance", DataType::Float64, true),
        Field::new("category", DataType::Utf8, true),
        Field::new("createdAt", DataType::Float64, true),
        Field::new("agentId", DataType::Utf8, true),
    ]))
}

/// Checks that the columns every gateway has are there and readable; returns the vectors' length.
fn check_memories(schema: &Schema, path: &str) -> Result<usize, StoreError> {
    let unusable = |column: &str, found: String| StoreError::NotMemories {
        path: path.to_string(),
        column: column.to_string(),
        found,
    };
    for column in ["id", "text", "vector", "importance", "category", "createdAt"] {
        if schema.column_with_name(column).is_none() {
            return Err(unusable(column, "missing".to_string()));
        }
    }
    let (_, vector) = schema.column_with_name("vector").expect("its presence was just checked");
    match vector.data_type() {
        DataType::FixedSizeList(item, dim) if item.data_type().is_floating() && *dim > 0 => {
            Ok(usize::try_from(*dim).expect("a positive i32 fits"))
        }
        other => Err(unusable("vector", format!("{other}"))),
    }
}
