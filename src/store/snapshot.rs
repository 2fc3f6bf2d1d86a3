//! Before-images: the whole rows a plan is going to touch, stored in the run's folder before the first write. They do
//! not depend on LanceDB keeping old versions, and put nothing on a table the gateway owns.
//! Who may throw them away, and when, is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use ::lance::deps::datafusion::arrow::compute::{concat_batches, filter_record_batch};
use ::lance::deps::datafusion::arrow::ipc::{reader::FileReader, writer::FileWriter};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::lance::Store;
use super::memories::addresses_of;
use super::revector::{self, VectorsByText};
use super::rows::{self, Columns, Ownerless, Reading};
use super::table::View;
use super::traces::StoredTrace;
use super::{Cause, MEMORIES, StoreError, archive};
use crate::memory::{Archived, Memory, Trace, text_digest};

const FOLDER: &str = "before";
pub(super) const ROWS: &str = "memories.arrow";
pub(super) const ARCHIVED: &str = "archive.arrow";
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

/// What a snapshot holds, as an undo needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Images {
    /// Rows of `memories` by id and text.
    pub rows: BTreeMap<(String, String), Memory>,
    /// Rows of the archive by id.
    pub archived: BTreeMap<String, Archived>,
    /// Traces by id, to the last byte.
    pub traces: BTreeMap<String, StoredTrace>,
    /// How many numbers the vectors of its rows have; none where it holds no row.
    pub dim: Option<usize>,
}

/// A trace as `traces.json` holds it: as the table did, or the bare document of older snapshots.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TraceImage {
    Stored(StoredTrace),
    Bare(Box<Trace>),
}

impl TraceImage {
    fn id(&self) -> &str {
        match self {
            Self::Stored(stored) => &stored.id,
            Self::Bare(trace) => &trace.id,
        }
    }
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
        let mut traces = self.stored_traces().await?;
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

/// Whether a run's folder holds a complete snapshot: a pruned one is gone.
pub fn has_images(run_folder: &Path) -> bool {
    run_folder.join(FOLDER).join(DIGESTS).exists()
}

/// Reads back what [`Store::before_images`] wrote to a run's folder.
///
/// # Errors
/// When it is incomplete or unreadable, and when a file is not the one that was written.
pub fn read_before(run_folder: &Path) -> Result<Before, StoreError> {
    let snapshot = Snapshot::open(run_folder)?;
    let rows = |name: &str| -> Result<Vec<Image>, StoreError> {
        let (path, batch) = snapshot.batch(name)?;
        images(&batch).map_err(|error| failed(&path, error))
    };
    let traces = snapshot.traces()?.iter().filter_map(StoredTrace::read).collect();
    Ok(Before { memories: rows(ROWS)?, archived: rows(ARCHIVED)?, traces })
}

/// Reads what an undo needs of a run's snapshot. Rows of a table without agents are `default_agent`'s.
///
/// # Errors
/// As [`read_before`].
pub fn read_images(run_folder: &Path, default_agent: &str) -> Result<Images, StoreError> {
    let snapshot = Snapshot::open(run_folder)?;
    let (path, rows) = snapshot.batch(ROWS)?;
    let dim_of = |batch: &RecordBatch| match batch.num_rows() {
        0 => None,
        _ => rows::Vectors::of(batch).ok().flatten().map(|vectors| vectors.dim()),
    };
    let dim = dim_of(&rows);
    let memories = memories(&rows, default_agent).map_err(|error| failed(&path, error))?;
    let (path, rows) = snapshot.batch(ARCHIVED)?;
    let dim = dim.or(dim_of(&rows));
    let archived = match rows.num_columns() {
        0 => Vec::new(),
        _ => archive::archived(&rows, default_agent).map_err(|error| failed(&path, error))?,
    };
    Ok(Images {
        rows: memories.into_iter().map(|row| ((row.id.clone(), row.text.clone()), row)).collect(),
        archived: archived.into_iter().map(|copy| (copy.memory.id.clone(), copy)).collect(),
        traces: snapshot.traces()?.into_iter().map(|trace| (trace.id.clone(), trace)).collect(),
        dim,
    })
}

/// A complete snapshot. Every file is checked against the digest taken when it was written.
pub(super) struct Snapshot {
    folder: PathBuf,
    digests: Digests,
}

impl Snapshot {
    pub(super) fn open(run_folder: &Path) -> Result<Self, StoreError> {
        let folder = run_folder.join(FOLDER);
        let path = folder.join(DIGESTS);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        let digests = serde_json::from_slice(&bytes).map_err(|error| failed(&path, error))?;
        Ok(Self { folder, digests })
    }

    fn verified(&self, name: &str) -> Result<(PathBuf, Vec<u8>), StoreError> {
        let path = self.folder.join(name);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        if self.digests.files.get(name) != Some(&hex_digest(&bytes)) {
            return Err(StoreError::SnapshotChanged { path });
        }
        Ok((path, bytes))
    }

    /// The rows of a file, every column, with the file's path for errors.
    pub(super) fn batch(&self, name: &str) -> Result<(PathBuf, RecordBatch), StoreError> {
        let (path, bytes) = self.verified(name)?;
        let batch = from_file(bytes).map_err(|error| failed(&path, error))?;
        Ok((path, batch))
    }

    fn traces(&self) -> Result<Vec<StoredTrace>, StoreError> {
        let (path, bytes) = self.verified(TRACES)?;
        let images: Vec<TraceImage> = serde_json::from_slice(&bytes).map_err(|error| failed(&path, error))?;
        let stored = images.into_iter().map(|image| match image {
            TraceImage::Stored(stored) => Ok(stored),
            TraceImage::Bare(trace) => StoredTrace::of(&trace),
        });
        stored.collect::<Result<_, _>>().map_err(|error| failed(&path, error))
    }
}

fn memories(batch: &RecordBatch, default_agent: &str) -> Result<Vec<Memory>, ArrowError> {
    if batch.num_columns() == 0 {
        return Ok(Vec::new());
    }
    let columns = Columns::of(batch, Ownerless::Defaults)?;
    let memory = |row| match columns.read(row, default_agent) {
        Reading::Memory(memory) => Some(memory),
        _ => None,
    };
    Ok((0..batch.num_rows()).filter_map(memory).collect())
}

/// Rewrites a run's before-images without the rows and traces of these memories, digests included. A folder without a
/// complete snapshot is left alone. Returns how many rows and traces went; done twice, the second finds none.
///
/// # Errors
/// When a file cannot be read or written. Killed half-way, the snapshot is trusted again once this was done again.
pub fn erase_before(run_folder: &Path, ids: &BTreeSet<String>) -> Result<usize, StoreError> {
    let edit = |name: &str, bytes: Vec<u8>| match name {
        TRACES => traces_without(&bytes, ids),
        _ => rows_without(bytes, ids),
    };
    rewrite(run_folder, edit, |texts| {
        let listed = texts.len();
        texts.retain(|id, _| !ids.contains(id));
        texts.len() != listed
    })
}

/// The texts in a run's before-images whose vectors a change of the model concerns.
///
/// # Errors
/// When a file cannot be read. A folder without a complete snapshot has none.
pub fn texts_before(run_folder: &Path) -> Result<BTreeSet<String>, StoreError> {
    let mut texts = BTreeSet::new();
    if !has_images(run_folder) {
        return Ok(texts);
    }
    for name in [ROWS, ARCHIVED] {
        let path = run_folder.join(FOLDER).join(name);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        let batch = from_file(bytes).map_err(|error| failed(&path, error))?;
        texts.extend(revector::texts_of(&batch).map_err(|error| failed(&path, error))?);
    }
    Ok(texts)
}

/// Puts other vectors into a run's before-images, digests included, so that an undo brings rows back with vectors of the
/// model the table has by then. Rows whose text has none of that length keep theirs. Returns how many files changed.
///
/// # Errors
/// As [`erase_before`].
pub fn set_vectors_before(run_folder: &Path, vectors: &VectorsByText) -> Result<usize, StoreError> {
    let edit = |name: &str, bytes: Vec<u8>| -> Result<Option<(Vec<u8>, usize)>, Cause> {
        if name == TRACES {
            return Ok(None);
        }
        let changed = revector::with_vectors(&from_file(bytes)?, vectors)?;
        Ok(changed.map(|batch| to_file(&batch)).transpose()?.map(|bytes| (bytes, 1)))
    };
    rewrite(run_folder, edit, |_| false)
}

/// Changes the files of a complete snapshot, then their digests; `edit` returns what a file is to become and how much of
/// it changed, `relist` whether the listed texts changed.
fn rewrite(
    run_folder: &Path,
    edit: impl Fn(&str, Vec<u8>) -> Result<Option<(Vec<u8>, usize)>, Cause>,
    relist: impl FnOnce(&mut BTreeMap<String, String>) -> bool,
) -> Result<usize, StoreError> {
    let folder = run_folder.join(FOLDER);
    let path = folder.join(DIGESTS);
    if !path.exists() {
        return Ok(0);
    }
    let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
    let mut digests: Digests = serde_json::from_slice(&bytes).map_err(|error| failed(&path, error))?;
    let mut rewritten: Vec<(&str, Vec<u8>, usize)> = Vec::new();
    let mut distrusted: BTreeMap<&str, String> = BTreeMap::new();
    for name in [ROWS, ARCHIVED, TRACES] {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        // A file that is not what was written does not become trustworthy by a rewrite.
        if let Some(digest) = digests.files.get(name).filter(|digest| **digest != hex_digest(&bytes)) {
            distrusted.insert(name, digest.clone());
        }
        let edited = edit(name, bytes).map_err(|error| failed(&path, error))?;
        rewritten.extend(edited.map(|(bytes, changed)| (name, bytes, changed)));
    }
    let relisted = relist(&mut digests.texts);
    // No digests: an earlier rewrite was killed between its files and their digests.
    if rewritten.is_empty() && !relisted && !digests.files.is_empty() {
        return Ok(0);
    }
    let store = |digests: &Digests| -> Result<(), StoreError> {
        let bytes = serde_json::to_vec_pretty(digests).map_err(|error| failed(&path, error))?;
        write_atomically(&path, &bytes)
    };
    digests.files.clear();
    store(&digests)?;
    for (name, bytes, _) in &rewritten {
        write_atomically(&folder.join(name), bytes)?;
    }
    for name in [ROWS, ARCHIVED, TRACES] {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        let digest = distrusted.remove(name).unwrap_or_else(|| hex_digest(&bytes));
        digests.files.insert(name.to_string(), digest);
    }
    store(&digests)?;
    Ok(rewritten.iter().map(|(.., changed)| changed).sum())
}

/// The file without those traces and how many went; none if nothing goes.
fn traces_without(bytes: &[u8], ids: &BTreeSet<String>) -> Result<Option<(Vec<u8>, usize)>, Cause> {
    let mut traces: Vec<TraceImage> = serde_json::from_slice(bytes)?;
    let before = traces.len();
    traces.retain(|trace| !ids.contains(trace.id()));
    let gone = before - traces.len();
    Ok((gone > 0).then_some((serde_json::to_vec_pretty(&traces)?, gone)))
}

/// The same of rows.
fn rows_without(bytes: Vec<u8>, ids: &BTreeSet<String>) -> Result<Option<(Vec<u8>, usize)>, Cause> {
    let batch = from_file(bytes)?;
    let kept = without(&batch, ids)?;
    let gone = batch.num_rows() - kept.num_rows();
    Ok(if gone > 0 { Some((to_file(&kept)?, gone)) } else { None })
}

/// The rows whose id is none of these, in buffers of their own: a slice would still hold the bytes of the others.
fn without(batch: &RecordBatch, ids: &BTreeSet<String>) -> Result<RecordBatch, ArrowError> {
    if batch.num_columns() == 0 {
        return Ok(batch.clone());
    }
    let id = rows::strings(batch, "id")?;
    let keep = |row: usize| rows::text_at(id.as_ref(), row).is_none_or(|id| !ids.contains(&id));
    filter_record_batch(batch, &(0..batch.num_rows()).map(|row| Some(keep(row))).collect())
}

pub(super) fn failed(path: &Path, error: impl Into<Cause>) -> StoreError {
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

pub(super) fn to_file(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    Ok(bytes)
}

pub(super) fn from_file(bytes: Vec<u8>) -> Result<RecordBatch, ArrowError> {
    let reader = FileReader::try_new(std::io::Cursor::new(bytes), None)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    if schema.fields().is_empty() {
        return Ok(RecordBatch::new_empty(schema));
    }
    concat_batches(&schema, &batches)
}

/// Either the whole file or none of it, also after a power cut.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
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
