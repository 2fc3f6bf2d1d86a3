//! The archive: whole rows that left `memories`, with vector, reason, successor and run. Columns Dreamer does not know
//! travel in `extra`, so that a restored row is the row that left.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::sync::Arc;

use ::lance::deps::datafusion::arrow::ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::lance::{Store, vector_type};
use super::memories::{addresses_of, live, vectors_by_id};
use super::new_row::{Carrier, NewRow, new_rows};
use super::rows::{self, Columns, Ownerless, Reading, Vectors, number_at, text_at};
use super::table::{View, unique, unreadable};
use super::{ARCHIVE, MEMORIES, Outcome, StoreError};
use crate::memory::{Archived, Departure};

/// A memory that moves to the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// Its id.
    pub id: String,
    /// Its text as it was read.
    pub text: String,
    /// Why it leaves.
    pub reason: Departure,
    /// The memory that carries its content.
    pub successor: Option<String>,
    /// The run that moves it.
    pub run: String,
    /// When, epoch milliseconds.
    pub at: i64,
}

pub(super) fn schema(dim: usize) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("text", DataType::Utf8, false),
        Field::new("vector", vector_type(dim), true),
        Field::new("importance", DataType::Float64, true),
        Field::new("category", DataType::Utf8, true),
        Field::new("createdAt", DataType::Float64, true),
        Field::new("agentId", DataType::Utf8, true),
        Field::new("scope", DataType::Utf8, true),
        Field::new("extra", DataType::Binary, true),
        Field::new("reason", DataType::Utf8, false),
        Field::new("successor", DataType::Utf8, true),
        Field::new("run", DataType::Utf8, false),
        Field::new("archivedAt", DataType::Float64, false),
    ]))
}

impl Store {
    pub(super) async fn archive_view(&self) -> Result<Option<View>, StoreError> {
        Ok(self.ours(ARCHIVE).await?.map(|dataset| View::new(ARCHIVE, dataset)))
    }

    /// Copies live rows, whole, into the archive: one commit, or none if nothing is new. Rows that are gone or have
    /// another text are left alone. A row this run has archived already is not copied again; the copy of an older
    /// run (the memory had come back since) is replaced.
    ///
    /// # Errors
    /// When a table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn archive(&self, leaving: &[Leaving]) -> Result<Outcome, StoreError> {
        let view = View::new(MEMORIES, self.latest_memories().await?);
        let live = live(&view).await?;
        let runs = match self.archive_view().await? {
            Some(archive) => runs(&archive).await?,
            None => HashMap::new(),
        };
        let mut outcome = Outcome::default();
        let mut due: HashMap<u64, &Leaving> = HashMap::new();
        for row in unique(leaving, |row| &row.id) {
            if runs.get(&row.id) == Some(&row.run) {
                outcome.already.push(row.id.clone());
                continue;
            }
            match live.get(&row.id) {
                None => outcome.gone.push(row.id.clone()),
                Some(found) if found.text != row.text => outcome.changed.push(row.id.clone()),
                Some(found) => {
                    due.insert(found.address, row);
                    outcome.written.push(row.id.clone());
                }
            }
        }
        if due.is_empty() {
            return Ok(outcome);
        }
        let mut addresses: Vec<u64> = due.keys().copied().collect();
        addresses.sort_unstable();
        let batch = view.take(&addresses, true).await?;
        let leaving: Vec<&Leaving> = addresses.iter().map(|address| due[address]).collect();
        let archive = View::new(ARCHIVE, self.ours_or_create(ARCHIVE, schema(self.dim())).await?);
        // The archive of a table that was made anew for another model.
        archive.check_dimension(&leaving[0].id, view.dim())?;
        let rows = archive_rows(&archive, &batch, &leaving)?;
        archive.upsert(rows).await?;
        Ok(outcome)
    }

    /// Puts rows into the archive that never were in `memories`: drafts that went straight into a merge. One commit, or
    /// none; an id that is in the archive already is left as it is.
    ///
    /// # Errors
    /// When a table cannot be read or written, or a vector is of the wrong length.
    pub async fn archive_new(&self, rows: &[(NewRow, Leaving)]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        if rows.is_empty() {
            return Ok(outcome);
        }
        let there = match self.archive_view().await? {
            Some(archive) => runs(&archive).await?,
            None => HashMap::new(),
        };
        let memories = View::new(MEMORIES, self.latest_memories().await?);
        let mut due: Vec<&(NewRow, Leaving)> = Vec::new();
        for pair in unique(rows, |(row, _)| &row.memory.id) {
            let id = pair.0.memory.id.clone();
            memories.check_dimension(&id, pair.0.vector.len())?;
            if there.contains_key(&id) {
                outcome.already.push(id);
            } else {
                outcome.written.push(id);
                due.push(pair);
            }
        }
        if due.is_empty() {
            return Ok(outcome);
        }
        let rows: Vec<&NewRow> = due.iter().map(|(row, _)| row).collect();
        let batch = new_rows(&memories, &rows, &vec![None; rows.len()])?;
        let leaving: Vec<&Leaving> = due.iter().map(|(_, leaving)| leaving).collect();
        let archive = View::new(ARCHIVE, self.ours_or_create(ARCHIVE, schema(self.dim())).await?);
        archive.upsert(archive_rows(&archive, &batch, &leaving)?).await?;
        Ok(outcome)
    }

    /// Everything in the archive. Rows of a table without agents are `default_agent`'s.
    ///
    /// # Errors
    /// When the archive cannot be read.
    pub async fn archived_all(&self, default_agent: &str) -> Result<Vec<Archived>, StoreError> {
        let Some(view) = self.archive_view().await? else { return Ok(Vec::new()) };
        let names = [&Columns::NAMES[..], &["reason", "successor", "run", "archivedAt"]].concat();
        archived(&view.scan(&names).await?, default_agent).map_err(unreadable(ARCHIVE))
    }

    /// Those of `ids` that are in the archive.
    ///
    /// # Errors
    /// When the archive cannot be read.
    pub async fn archived(&self, ids: &[String], default_agent: &str) -> Result<Vec<Archived>, StoreError> {
        let wanted: HashSet<&String> = ids.iter().collect();
        let mut all = self.archived_all(default_agent).await?;
        all.retain(|archived| wanted.contains(&archived.memory.id));
        Ok(all)
    }

    /// The vectors of archived memories, by id. Ids that are not there or whose vector is null are not in the map.
    ///
    /// # Errors
    /// When the archive cannot be read.
    pub async fn archived_vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, StoreError> {
        let Some(view) = self.archive_view().await? else { return Ok(HashMap::new()) };
        let batch = view.take(&addresses_of(&view, ids).await?, true).await?;
        vectors_by_id(&batch).map_err(unreadable(ARCHIVE))
    }

    /// Removes rows from the archive, in one commit, or in none if none of them is there: they came back, or never
    /// left.
    ///
    /// # Errors
    /// When the archive cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn unarchive(&self, ids: &[String]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        let Some(view) = self.archive_view().await? else {
            outcome.gone = ids.to_vec();
            return Ok(outcome);
        };
        let there = runs(&view).await?;
        for id in unique(ids, |id| id) {
            let list = if there.contains_key(id) { &mut outcome.written } else { &mut outcome.gone };
            list.push(id.clone());
        }
        if !outcome.written.is_empty() {
            let batch =
                view.build(&["id"], |field| rows::text_column(field, outcome.written.iter().cloned()))?;
            view.delete_matching(&["id"], batch).await?;
        }
        Ok(outcome)
    }

    /// What restored rows take over: the archive's own columns where a row of `memories` has them, and `extra`.
    pub(super) async fn archived_carriers(
        &self,
        ids: &[String],
    ) -> Result<HashMap<String, Carrier>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let Some(view) = self.archive_view().await? else { return Ok(HashMap::new()) };
        let batch = view.take(&addresses_of(&view, ids).await?, false).await?;
        let carriers = || -> Result<HashMap<String, Carrier>, ArrowError> {
            let id = rows::strings(&batch, "id")?;
            let own = batch.project(&indices(&batch, &["category", "createdAt", "scope"]))?;
            let extra = binary(&batch)?;
            let mut carriers = HashMap::new();
            for row in 0..batch.num_rows() {
                let Some(id) = text_at(id.as_ref(), row) else { continue };
                let mut carrier = Carrier::of_row(&own, row);
                if let Some(bytes) = extra.as_ref().filter(|extra| extra.is_valid(row)) {
                    carrier = carrier.with(Carrier::of_row(&unpack(bytes.value(row))?, 0));
                }
                carriers.insert(id, carrier);
            }
            Ok(carriers)
        };
        carriers().map_err(unreadable(ARCHIVE))
    }
}

/// Which run archived which id.
pub(super) async fn runs(view: &View) -> Result<HashMap<String, String>, StoreError> {
    let batch = view.scan(&["id", "run"]).await?;
    let columns = || Ok((rows::strings(&batch, "id")?, rows::strings(&batch, "run")?));
    let (id, run) = columns().map_err(unreadable(view.name))?;
    let pairs = (0..batch.num_rows())
        .filter_map(|row| Some((text_at(id.as_ref(), row)?, text_at(run.as_ref(), row).unwrap_or_default())));
    Ok(pairs.collect())
}

pub(super) fn archived(batch: &RecordBatch, default_agent: &str) -> Result<Vec<Archived>, ArrowError> {
    let columns = Columns::of(batch, Ownerless::Defaults)?;
    let reason = rows::strings(batch, "reason")?;
    let successor = rows::strings(batch, "successor")?;
    let run = rows::strings(batch, "run")?;
    let at = rows::numbers(batch, "archivedAt")?;
    let rows = (0..batch.num_rows()).filter_map(|row| {
        let Reading::Memory(memory) = columns.read(row, default_agent) else { return None };
        Some(Archived {
            memory,
            reason: departure(text_at(reason.as_ref(), row).as_deref()),
            successor: text_at(successor.as_ref(), row),
            run: text_at(run.as_ref(), row).unwrap_or_default(),
            archived_at: number_at(at.as_ref(), row).map_or(0, rows::millis),
        })
    });
    Ok(rows.collect())
}

/// The reason's word back to the reason. Only we write the column.
fn departure(word: Option<&str>) -> Departure {
    [Departure::Superseded, Departure::Duplicate, Departure::Undone, Departure::Forgotten]
        .into_iter()
        .find(|reason| Some(reason.as_str()) == word)
        .unwrap_or(Departure::Faded)
}

/// Live rows as archive rows, in the same order.
fn archive_rows(
    archive: &View,
    batch: &RecordBatch,
    leaving: &[&Leaving],
) -> Result<RecordBatch, StoreError> {
    let read = unreadable(MEMORIES);
    let vectors = Vectors::of(batch).map_err(&read)?;
    let extra = pack(batch).map_err(&read)?;
    let schema = archive.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let column = |field: &Field| -> Result<ArrayRef, ArrowError> {
        let own = leaving.iter();
        #[allow(clippy::cast_precision_loss)]
        match field.name().as_str() {
            "vector" => {
                let at = |row| vectors.as_ref().and_then(|vectors: &Vectors| vectors.at(row));
                rows::vector_column(field, (0..batch.num_rows()).map(at))
            }
            "importance" | "createdAt" => {
                let values = rows::numbers(batch, field.name())?;
                rows::number_column(field, (0..batch.num_rows()).map(|row| number_at(values.as_ref(), row)))
            }
            "extra" => Ok(Arc::new(BinaryArray::from_iter(extra.iter().cloned()))),
            "reason" => rows::text_column(field, own.map(|row| row.reason.as_str().to_string())),
            "successor" => rows::text_column(field, own.map(|row| row.successor.clone())),
            "run" => rows::text_column(field, own.map(|row| row.run.clone())),
            "archivedAt" => rows::number_column(field, own.map(|row| Some(row.at as f64))),
            name => {
                let values: Option<StringArray> = rows::strings(batch, name)?;
                rows::text_column(field, (0..batch.num_rows()).map(|row| text_at(values.as_ref(), row)))
            }
        }
    };
    archive.build(&names, column)
}

/// The columns unknown to us, one Arrow IPC stream a row; nothing where the table has none.
fn pack(batch: &RecordBatch) -> Result<Vec<Option<Vec<u8>>>, ArrowError> {
    let schema = batch.schema();
    let unknown: Vec<usize> = (0..schema.fields().len())
        .filter(|place| !rows::KNOWN.contains(&schema.field(*place).name().as_str()))
        .collect();
    if unknown.is_empty() {
        return Ok(vec![None; batch.num_rows()]);
    }
    let unknown = batch.project(&unknown)?;
    (0..batch.num_rows())
        .map(|row| {
            let mut bytes = Vec::new();
            let mut writer = StreamWriter::try_new(&mut bytes, &unknown.schema())?;
            writer.write(&unknown.slice(row, 1))?;
            writer.finish()?;
            drop(writer);
            Ok(Some(bytes))
        })
        .collect()
}

fn unpack(bytes: &[u8]) -> Result<RecordBatch, ArrowError> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    reader.next().unwrap_or_else(|| Err(ArrowError::IpcError("the stream holds no row".into())))
}

fn binary(batch: &RecordBatch) -> Result<Option<BinaryArray>, ArrowError> {
    let Some(column) = batch.column_by_name("extra") else { return Ok(None) };
    let wrong = || ArrowError::SchemaError("the column extra is not binary".into());
    Ok(Some(column.as_any().downcast_ref::<BinaryArray>().ok_or_else(wrong)?.clone()))
}

fn indices(batch: &RecordBatch, names: &[&str]) -> Vec<usize> {
    names.iter().filter_map(|name| batch.schema().index_of(name).ok()).collect()
}
