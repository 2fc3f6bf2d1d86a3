//! Other vectors for the rows there are: which texts have one, putting new ones in their place, and the database once
//! more in another folder with vectors of another length. Whose vectors they are is the caller's business; a row whose
//! text is not among them keeps its own.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use futures::TryStreamExt;

use super::lance::{Store, connect_and_open, create_table, latest, vector_type};
use super::rows::{self, SENTINEL, Vectors, text_at, text_column, vector_column};
use super::snapshot::{failed as broken, from_file, to_file, write_atomically};
use super::table::{Step, View, failed, lance_error, unreadable};
use super::{ARCHIVE, Cause, MEMORIES, RAW, StoreError, TABLES};

/// The tables whose rows have vectors.
pub const VECTORED: [&str; 3] = [MEMORIES, ARCHIVE, RAW];

/// Vectors by the text they are of.
pub type VectorsByText = HashMap<String, Vec<f32>>;

impl Store {
    async fn vectored(&self, table: &'static str) -> Result<Option<View>, StoreError> {
        let dataset = match table {
            MEMORIES => Some(self.latest_memories().await?),
            ours => self.ours(ours).await?,
        };
        Ok(dataset.map(|dataset| View::new(table, dataset)))
    }

    /// Every text that has a vector in one of [`VECTORED`], or might have one. Blank texts mean nothing to a model.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub async fn texts(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut texts = BTreeSet::new();
        for table in VECTORED {
            let Some(view) = self.vectored(table).await? else { continue };
            let batch = view.scan(&["id", "text"]).await?;
            texts.extend(keys_of(&batch).map_err(unreadable(table))?.into_iter().map(|(_, text)| text));
        }
        Ok(texts)
    }

    /// The vectors that the tables hold now, by text; those of `memories` where several tables have one.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub async fn vectors_by_text(&self) -> Result<VectorsByText, StoreError> {
        let mut all = VectorsByText::new();
        for table in VECTORED {
            let Some(view) = self.vectored(table).await? else { continue };
            let batch = view.scan(&["id", "text", "vector"]).await?;
            let found = vectors_of(&batch).map_err(unreadable(table))?;
            for (text, vector) in found {
                all.entry(text).or_insert(vector);
            }
        }
        Ok(all)
    }

    /// Sets the vectors of every row of a table whose text has one, in one commit, or in none if there is no such row.
    /// No other column is touched; a row that is edited meanwhile is left alone. Returns how many rows it asked for.
    /// Needs about three times the vectors' memory.
    ///
    /// # Errors
    /// When a vector has another length than the table's; when the table cannot be read or written.
    pub async fn set_vectors(
        &self,
        table: &'static str,
        vectors: &VectorsByText,
    ) -> Result<usize, StoreError> {
        let Some(view) = self.vectored(table).await? else { return Ok(0) };
        let batch = view.scan(&["id", "text"]).await?;
        let mut due = keys_of(&batch).map_err(unreadable(table))?;
        due.retain(|(_, text)| vectors.contains_key(text));
        due.sort();
        due.dedup();
        for (id, text) in &due {
            view.check_dimension(id, vectors[text].len())?;
        }
        if due.is_empty() {
            return Ok(0);
        }
        let rows = view.build(&["id", "text", "vector"], |field| match field.name().as_str() {
            "id" => text_column(field, due.iter().map(|(id, _)| id.clone())),
            "text" => text_column(field, due.iter().map(|(_, text)| text.clone())),
            _ => vector_column(field, due.iter().map(|(_, text)| Some(vectors[text].as_slice()))),
        })?;
        view.patch(&["id", "text"], rows).await?;
        Ok(due.len())
    }

    /// Copies all four tables, every column and row, into a database in `folder`, which must not exist, with these
    /// vectors of `dim` numbers. A row whose text has none among them gets NULL there, or zeros where NULL is not allowed.
    ///
    /// # Errors
    /// When a table cannot be read, or the folder cannot be written.
    pub async fn copy_with_vectors(
        &self,
        folder: &Path,
        dim: usize,
        vectors: &VectorsByText,
    ) -> Result<(), StoreError> {
        let create = |table| {
            let path = folder.display().to_string();
            move |source: Cause| StoreError::Create { path, table, source }
        };
        crate::state::create_folder(folder).map_err(|error| create(MEMORIES)(error.into()))?;
        for table in TABLES {
            let dataset = match table {
                MEMORIES => Some(self.latest_memories().await?),
                ours => self.ours(ours).await?,
            };
            let Some(dataset) = dataset else { continue };
            let schema = Arc::new(with_dimension(&Schema::from(dataset.schema()), dim));
            let (connection, _) = connect_and_open(folder, table).await?;
            let made = create_table(&connection, table, schema.clone()).await;
            let made = made.map_err(|error| create(table)(error.into()))?;
            let read = |error| failed(table, Step::Read, lance_error(error));
            let mut stream = dataset.scan().try_into_stream().await.map_err(read)?;
            while let Some(batch) = stream.try_next().await.map_err(read)? {
                let batch = revectored(&batch, &schema, vectors).map_err(unreadable(table))?;
                View::new(table, latest(&made, table).await?).append(batch).await?;
            }
            let read = |error| failed(table, Step::Read, lance_error(error));
            let there = dataset.count_rows(None).await.map_err(read)?;
            let copied = latest(&made, table).await?.count_rows(None).await.map_err(read)?;
            if there != copied {
                let told = format!("{copied} of {there} rows arrived");
                return Err(StoreError::Write { table, source: told.into() });
            }
        }
        Ok(())
    }
}

/// Ids and texts of the rows that say something.
fn keys_of(batch: &RecordBatch) -> Result<Vec<(String, String)>, ArrowError> {
    let (id, text) = (rows::strings(batch, "id")?, rows::strings(batch, "text")?);
    let key = |row| Some((text_at(id.as_ref(), row)?, text_at(text.as_ref(), row)?));
    let all = (0..batch.num_rows()).filter_map(key);
    Ok(all.filter(|(id, text)| id != SENTINEL && !text.trim().is_empty()).collect())
}

/// Texts and vectors of the rows that have both.
fn vectors_of(batch: &RecordBatch) -> Result<VectorsByText, ArrowError> {
    let (id, text) = (rows::strings(batch, "id")?, rows::strings(batch, "text")?);
    let Some(vectors) = Vectors::of(batch)? else { return Ok(VectorsByText::new()) };
    let pair = |row| {
        let id = text_at(id.as_ref(), row)?;
        let pair = (text_at(text.as_ref(), row)?, vectors.at(row)?.to_vec());
        (id != SENTINEL && !pair.0.trim().is_empty()).then_some(pair)
    };
    Ok((0..batch.num_rows()).filter_map(pair).collect())
}

/// The schema with vectors of another length.
fn with_dimension(schema: &Schema, dim: usize) -> Schema {
    let fields = schema.fields().iter().map(|field| match (field.name().as_str(), field.data_type()) {
        ("vector", DataType::FixedSizeList(item, _)) => {
            let DataType::FixedSizeList(_, size) = vector_type(dim) else { return field.clone() };
            Arc::new(Field::clone(field).with_data_type(DataType::FixedSizeList(item.clone(), size)))
        }
        _ => field.clone(),
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

/// The batch with other vectors.
fn revectored(
    batch: &RecordBatch,
    schema: &Arc<Schema>,
    vectors: &VectorsByText,
) -> Result<RecordBatch, ArrowError> {
    let text = rows::strings(batch, "text")?;
    let columns = schema.fields().iter().map(|field| {
        let column = batch.column_by_name(field.name());
        let column = column.ok_or_else(|| ArrowError::SchemaError(format!("no column {}", field.name())))?;
        let DataType::FixedSizeList(_, size) = field.data_type() else { return Ok(column.clone()) };
        if field.name() != "vector" {
            return Ok(column.clone());
        }
        let zeros = vec![0.0; usize::try_from(*size).unwrap_or(0)];
        let nothing = (!field.is_nullable()).then_some(zeros.as_slice());
        let of_row = |row| {
            let own = text_at(text.as_ref(), row).and_then(|text| vectors.get(&text)).map(Vec::as_slice);
            // The sentinel has zeros.
            own.or(nothing).or_else(|| column.is_valid(row).then_some(zeros.as_slice()))
        };
        vector_column(field, (0..batch.num_rows()).map(of_row))
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
}

/// A batch with other vectors where its texts have one of the same length; none if nothing changes.
pub(super) fn with_vectors(
    batch: &RecordBatch,
    vectors: &VectorsByText,
) -> Result<Option<RecordBatch>, ArrowError> {
    let Some(old) = Vectors::of(batch)? else { return Ok(None) };
    let text = rows::strings(batch, "text")?;
    let new = |row| {
        let text = text_at(text.as_ref(), row)?;
        vectors.get(&text).map(Vec::as_slice).filter(|new| new.len() == old.dim())
    };
    if (0..batch.num_rows()).all(|row| new(row).is_none_or(|new| old.at(row) == Some(new))) {
        return Ok(None);
    }
    let schema = batch.schema();
    let columns =
        schema.fields().iter().zip(batch.columns()).map(|(field, column)| match field.name().as_str() {
            "vector" => {
                vector_column(field, (0..batch.num_rows()).map(|row| new(row).or_else(|| old.at(row))))
            }
            _ => Ok(column.clone()),
        });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?).map(Some)
}

/// The texts of a batch that have a vector.
pub(super) fn texts_of(batch: &RecordBatch) -> Result<BTreeSet<String>, ArrowError> {
    Ok(keys_of(batch)?.into_iter().map(|(_, text)| text).collect())
}

/// Vectors on disk by the digest of their text, a file a call: what was paid for is durable before it is used.
#[derive(Debug, Clone)]
pub struct VectorLog {
    folder: PathBuf,
}

impl VectorLog {
    /// The log in a folder, which need not exist.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Everything that was kept. A file that is damaged was not durable when its run was killed, and counts for nothing.
    ///
    /// # Errors
    /// When the folder exists and cannot be read.
    pub fn read(&self) -> Result<HashMap<String, Vec<f32>>, StoreError> {
        let mut all = HashMap::new();
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(all),
            Err(error) => return Err(broken(&self.folder, error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| broken(&self.folder, error))?.path();
            if path.extension().is_none_or(|extension| extension != "arrow") {
                continue;
            }
            let bytes = std::fs::read(&path).map_err(|error| broken(&path, error))?;
            let Ok(batch) = from_file(bytes) else { continue };
            all.extend(vectors_of(&batch).unwrap_or_default());
        }
        Ok(all)
    }

    /// Keeps vectors by the digests of their texts.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, vectors: &[(String, Vec<f32>)]) -> Result<(), StoreError> {
        let Some((first, vector)) = vectors.first() else { return Ok(()) };
        let fields = vec![
            Field::new("id", DataType::Utf8, false),
            Field::new("text", DataType::Utf8, false),
            Field::new("vector", vector_type(vector.len()), true),
        ];
        let path = self.folder.join(format!("{first}.arrow"));
        let columns = fields.iter().map(|field| match field.name().as_str() {
            "vector" => vector_column(field, vectors.iter().map(|(_, vector)| Some(vector.as_slice()))),
            _ => text_column(field, vectors.iter().map(|(digest, _)| digest.clone())),
        });
        let batch = columns
            .collect::<Result<_, _>>()
            .and_then(|columns| RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns))
            .and_then(|batch| to_file(&batch));
        let bytes = batch.map_err(|error| broken(&path, error))?;
        crate::state::create_folder(&self.folder).map_err(|error| broken(&self.folder, error))?;
        write_atomically(&path, &bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_keeps_comes_back_bit_for_bit_and_a_torn_file_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let log = VectorLog::in_folder(dir.path().join("log"));
        assert!(log.read().unwrap().is_empty());
        let (one, two) =
            (("aa".to_owned(), vec![0.1, -0.7]), ("bb".to_owned(), vec![1.0, f32::MIN_POSITIVE]));
        log.keep(std::slice::from_ref(&one)).unwrap();
        log.keep(std::slice::from_ref(&two)).unwrap();
        log.keep(&[]).unwrap();
        assert_eq!(log.read().unwrap(), HashMap::from([one.clone(), two]));
        let path = dir.path().join("log/bb.arrow");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(log.read().unwrap(), HashMap::from([one]));
    }
}
