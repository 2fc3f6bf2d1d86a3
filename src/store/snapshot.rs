//! Before-images: the whole rows a plan is going to touch, stored in the run's folder before the first write. They do
//! not depend on LanceDB keeping old versions, and put nothing on a table the gateway owns.
//! Who may throw them away, and when, is decided elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use ::lance::deps::datafusion::arrow::compute::concat_batches;
use ::lance::deps::datafusion::arrow::ipc::{reader::FileReader, writer::FileWriter};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::lance::Store;
use super::memories::addresses_of;
use super::rows;
use super::table::View;
use super::{Cause, MEMORIES, StoreError};
use crate::memory::{Trace, text_digest};

const FOLDER: &str = "before";
const ROWS: &str = "memories.arrow";
const ARCHIVED: &str = "archive.arrow";
const TRACES: &str = "traces.json";
/// Written last: where it is, the snapshot is complete.
const DIGESTS: &str = "digests.json";

/// The rows a plan is going to touch, by id.
#[derive(Debug, Clone, Copy, Default)]
pub struct Touched<'a> {
    /// Rows of `memories` it changes or removes.
    pub memories: &'a [String],
    /// Rows of the archive it replaces or removes.
    pub archived: &'a [String],
    /// Memories whose traces it changes.
    pub traces: &'a [String],
}

/// A row as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// [`text_digest`] of its text.
    pub digest: String,
    /// Every column, with the vector.
    pub row: Map<String, Value>,
}

/// What a snapshot holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Before {
    /// Rows of `memories`.
    pub memories: Vec<Image>,
    /// Rows of the archive.
    pub archived: Vec<Image>,
    /// Traces.
    pub traces: Vec<Trace>,
}

/// Bytes' digests by file name, and the digest of every row's text by id.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Digests {
    files: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
}

impl Store {
    /// Writes the rows as they are now to `before/` in the run's folder. A snapshot that is complete already is left
    /// as it is: what a resumed run would find now is no longer what was there before.
    ///
    /// # Errors
    /// When a table cannot be read or the folder cannot be written.
    pub async fn before_images(&self, touched: Touched<'_>, run_folder: &Path) -> Result<(), StoreError> {
        let folder = run_folder.join(FOLDER);
        if folder.join(DIGESTS).exists() {
            return Ok(());
        }
        let memories = View::new(MEMORIES, self.latest_memories().await?);
        let memories = memories.take(&addresses_of(&memories, touched.memories).await?, true).await?;
        let archived = match self.archive_view().await? {
            Some(view) => view.take(&addresses_of(&view, touched.archived).await?, true).await?,
            None => RecordBatch::new_empty(std::sync::Arc::new(Schema::empty())),
        };
        let mut traces: Vec<Trace> = self.traces().await?.traces.into_values().collect();
        let wanted: HashSet<&String> = touched.traces.iter().collect();
        traces.retain(|trace| wanted.contains(&trace.id));
        traces.sort_by(|a, b| a.id.cmp(&b.id));

        crate::state::create_folder(&folder).map_err(|error| failed(&folder, error))?;
        let mut digests = Digests::default();
        for (name, batch) in [(ROWS, &memories), (ARCHIVED, &archived)] {
            let path = folder.join(name);
            let bytes = to_file(batch).map_err(|error| failed(&path, error))?;
            write_atomically(&path, &bytes)?;
            digests.files.insert(name.to_string(), hex_digest(&bytes));
            let images = images(batch).map_err(|error| failed(&path, error))?;
            digests.texts.extend(images.into_iter().map(|image| (image.id, image.digest)));
        }
        let path = folder.join(TRACES);
        let bytes = serde_json::to_vec_pretty(&traces).map_err(|error| failed(&path, error))?;
        write_atomically(&path, &bytes)?;
        digests.files.insert(TRACES.to_string(), hex_digest(&bytes));
        let path = folder.join(DIGESTS);
        let bytes = serde_json::to_vec_pretty(&digests).map_err(|error| failed(&path, error))?;
        write_atomically(&path, &bytes)
    }
}

/// Reads back what [`Store::before_images`] wrote to a run's folder.
///
/// # Errors
/// When it is incomplete or unreadable, and when a file is not the one that was written.
pub fn read_before(run_folder: &Path) -> Result<Before, StoreError> {
    let folder = run_folder.join(FOLDER);
    let digests: Digests = {
        let path = folder.join(DIGESTS);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        serde_json::from_slice(&bytes).map_err(|error| failed(&path, error))?
    };
    let verified = |name: &str| -> Result<(PathBuf, Vec<u8>), StoreError> {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        if digests.files.get(name) != Some(&hex_digest(&bytes)) {
            return Err(StoreError::SnapshotChanged { path });
        }
        Ok((path, bytes))
    };
    let rows = |name: &str| -> Result<Vec<Image>, StoreError> {
        let (path, bytes) = verified(name)?;
        from_file(bytes).and_then(|batch| images(&batch)).map_err(|error| failed(&path, error))
    };
    let (path, bytes) = verified(TRACES)?;
    let traces = serde_json::from_slice(&bytes).map_err(|error| failed(&path, error))?;
    Ok(Before { memories: rows(ROWS)?, archived: rows(ARCHIVED)?, traces })
}

fn failed(path: &Path, error: impl Into<Cause>) -> StoreError {
    StoreError::Snapshot { path: path.to_path_buf(), source: error.into() }
}

fn hex_digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn images(batch: &RecordBatch) -> Result<Vec<Image>, ArrowError> {
    if batch.num_columns() == 0 {
        return Ok(Vec::new());
    }
    let text = |row: &Map<String, Value>, name| {
        row.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
    };
    let rows = rows::json(batch)?.into_iter();
    Ok(rows
        .map(|row| Image { id: text(&row, "id"), digest: text_digest(&text(&row, "text")), row })
        .collect())
}

fn to_file(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    Ok(bytes)
}

fn from_file(bytes: Vec<u8>) -> Result<RecordBatch, ArrowError> {
    let reader = FileReader::try_new(std::io::Cursor::new(bytes), None)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    if schema.fields().is_empty() {
        return Ok(RecordBatch::new_empty(schema));
    }
    concat_batches(&schema, &batches)
}

/// Either the whole file or none of it, also after a power cut.
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        // The rename itself is durable only once the folder is.
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| failed(path, error))
}
