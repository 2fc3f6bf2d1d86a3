//! The raw memories: the chunks a night used, without secrets, with the memories that rest on them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use chrono::DateTime;

use super::lance::{Store, vector_type};
use super::rows::{self, Vectors, number_at, text_at};
use super::table::{View, check_dimension, unreadable};
use super::{Outcome, RAW, StoreError};
use crate::memory::{RawMemory, Source};

const NAMES: [&str; 12] = [
    "id",
    "text",
    "vector",
    "agentId",
    "episode",
    "firstLine",
    "lastLine",
    "chunk",
    "speaker",
    "saidAt",
    "memories",
    "run",
];

fn schema(dim: usize) -> SchemaRef {
    let field = |name: &str| match name {
        "vector" => Field::new(name, vector_type(dim), true),
        "firstLine" | "lastLine" => Field::new(name, DataType::Int32, false),
        "saidAt" => Field::new(name, DataType::Float64, false),
        _ => Field::new(name, DataType::Utf8, false),
    };
    Arc::new(Schema::new(NAMES.iter().map(|name| field(name)).collect::<Vec<_>>()))
}

impl Store {
    /// Every raw memory, with its vector.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn raw_all(&self) -> Result<Vec<RawMemory>, StoreError> {
        let Some(dataset) = self.ours(RAW).await? else { return Ok(Vec::new()) };
        let batch = View::new(RAW, dataset).scan(&NAMES).await?;
        read(&batch).map_err(unreadable(RAW))
    }

    /// Writes raw memories by id, the last of each id, in one commit; in none if all are there already.
    ///
    /// # Errors
    /// Before anything is written: a vector of the wrong length. Else when the table cannot be read or written;
    /// [`StoreError::Contended`] when trying later helps.
    pub async fn put_raw(&self, raw: &[RawMemory]) -> Result<Outcome, StoreError> {
        for memory in raw {
            check_dimension(RAW, self.dim(), &memory.id, memory.vector.len())?;
        }
        let stored: HashMap<String, RawMemory> =
            self.raw_all().await?.into_iter().map(|memory| (memory.id.clone(), memory)).collect();
        let latest: HashMap<&str, &RawMemory> =
            raw.iter().map(|memory| (memory.id.as_str(), memory)).collect();
        let mut latest: Vec<&RawMemory> = latest.into_values().collect();
        latest.sort_by(|a, b| a.id.cmp(&b.id));
        let (already, due): (Vec<&RawMemory>, Vec<&RawMemory>) = latest
            .into_iter()
            .partition(|memory| stored.get(&memory.id).is_some_and(|old| same(old, memory)));
        if !due.is_empty() {
            let view = View::new(RAW, self.ours_or_create(RAW, schema(self.dim())).await?);
            // The raw memories of a table that was made anew for another model.
            view.check_dimension(&due[0].id, self.dim())?;
            let batch = view.build(&NAMES, |field| column(field, &due))?;
            view.upsert(batch).await?;
        }
        let ids = |list: Vec<&RawMemory>| list.into_iter().map(|memory| memory.id.clone()).collect();
        Ok(Outcome { written: ids(due), already: ids(already), ..Outcome::default() })
    }

    /// Removes raw memories by id: one commit, or none if none of them is there.
    ///
    /// # Errors
    /// When the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn remove_raw(&self, ids: &[String]) -> Result<(), StoreError> {
        let Some(dataset) = self.ours(RAW).await? else { return Ok(()) };
        let view = View::new(RAW, dataset);
        let there = view.scan(&["id"]).await?;
        let id = rows::strings(&there, "id").map_err(unreadable(RAW))?;
        let wanted: HashSet<&String> = ids.iter().collect();
        let due: Vec<String> = (0..there.num_rows())
            .filter_map(|row| text_at(id.as_ref(), row))
            .filter(|id| wanted.contains(id))
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let batch = view.build(&["id"], |field| rows::text_column(field, due.iter().cloned()))?;
        view.delete_matching(&["id"], batch).await
    }
}

/// The same but for parts of a millisecond in said-at, which the column does not hold.
fn same(old: &RawMemory, new: &RawMemory) -> bool {
    let old_source = Source { said_at: new.source.said_at, ..old.source.clone() };
    old.source.said_at.timestamp_millis() == new.source.said_at.timestamp_millis()
        && RawMemory { source: old_source, ..old.clone() } == *new
}

fn column(field: &Field, due: &[&RawMemory]) -> Result<ArrayRef, ArrowError> {
    let source = || due.iter().map(|memory| &memory.source);
    let line = |line: usize| i32::try_from(line).unwrap_or(i32::MAX);
    #[allow(clippy::cast_precision_loss)]
    match field.name().as_str() {
        "id" => rows::text_column(field, due.iter().map(|memory| memory.id.clone())),
        "text" => rows::text_column(field, due.iter().map(|memory| memory.text.clone())),
        "vector" => rows::vector_column(field, due.iter().map(|memory| Some(memory.vector.as_slice()))),
        "agentId" => rows::text_column(field, due.iter().map(|memory| memory.agent.clone())),
        "episode" => rows::text_column(field, source().map(|source| source.episode.clone())),
        "firstLine" => {
            Ok(Arc::new(source().map(|source| Some(line(source.lines.0))).collect::<Int32Array>()))
        }
        "lastLine" => Ok(Arc::new(source().map(|source| Some(line(source.lines.1))).collect::<Int32Array>())),
        "chunk" => rows::text_column(field, source().map(|source| source.chunk.clone())),
        "speaker" => rows::text_column(field, source().map(|source| source.speaker.clone())),
        "saidAt" => {
            rows::number_column(field, source().map(|source| Some(source.said_at.timestamp_millis() as f64)))
        }
        "memories" => rows::text_column(field, due.iter().map(|memory| id_list(&memory.memories))),
        _ => rows::text_column(field, due.iter().map(|memory| memory.run.clone())),
    }
}

fn id_list(ids: &[String]) -> String {
    serde_json::Value::from(ids.to_vec()).to_string()
}

fn read(batch: &RecordBatch) -> Result<Vec<RawMemory>, ArrowError> {
    let texts = NAMES
        .iter()
        .filter(|name| !matches!(**name, "vector" | "firstLine" | "lastLine" | "saidAt"))
        .map(|name| Ok((*name, rows::strings(batch, name)?)))
        .collect::<Result<HashMap<_, _>, ArrowError>>()?;
    let text = |name: &str, row| text_at(texts[name].as_ref(), row).unwrap_or_default();
    let vectors = Vectors::of(batch)?;
    let (first, last) = (rows::integers(batch, "firstLine")?, rows::integers(batch, "lastLine")?);
    let said_at = rows::numbers(batch, "saidAt")?;
    let line = |column: &Option<arrow_array::Int64Array>, row| {
        column.as_ref().map_or(0, |column| usize::try_from(column.value(row)).unwrap_or(0))
    };
    let row = |row| RawMemory {
        id: text("id", row),
        text: text("text", row),
        vector: vectors.as_ref().and_then(|vectors| vectors.at(row)).unwrap_or_default().to_vec(),
        agent: text("agentId", row),
        source: Source {
            episode: text("episode", row),
            lines: (line(&first, row), line(&last, row)),
            chunk: text("chunk", row),
            speaker: text("speaker", row),
            said_at: number_at(said_at.as_ref(), row)
                .and_then(|at| DateTime::from_timestamp_millis(rows::millis(at)))
                .unwrap_or_default(),
        },
        memories: serde_json::from_str(&text("memories", row)).unwrap_or_default(),
        run: text("run", row),
    };
    Ok((0..batch.num_rows()).map(row).collect())
}
