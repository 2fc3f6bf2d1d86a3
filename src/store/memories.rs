//! Reading and writing the gateway's table. Every batch is built from the live schema; every write is guarded by what
//! was read, touches nothing else, and done twice equals done once.

use std::collections::{HashMap, HashSet};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use serde_json::{Map, Value};

use super::lance::Store;
use super::rows::{self, Columns, Ownerless, Reading, SENTINEL, Vectors, number_at, text_at};
use super::table::{View, addresses, unique, unreadable};
use super::{MEMORIES, Outcome, StoreError};
use crate::memory::Memory;

/// What `memories` holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Every memory of every agent.
    pub memories: Vec<Memory>,
    /// Rows with NULL in `agentId` where the table has the column. Never touched.
    pub ownerless: usize,
    /// Rows without an id or a text. Never touched.
    pub unreadable: usize,
}

/// A live row as it is now.
pub(super) struct Live {
    pub(super) address: u64,
    pub(super) text: String,
    pub(super) importance: Option<f64>,
}

/// Every readable row by id; of rows that share an id, the first.
pub(super) async fn live(view: &View) -> Result<HashMap<String, Live>, StoreError> {
    let batch = view.scan(&["id", "text", "importance"]).await?;
    let at = addresses(&batch);
    let columns = || -> Result<_, ArrowError> {
        Ok((
            rows::strings(&batch, "id")?,
            rows::strings(&batch, "text")?,
            rows::numbers(&batch, "importance")?,
        ))
    };
    let (id, text, importance) = columns().map_err(unreadable(view.name))?;
    let mut live = HashMap::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let (Some(id), Some(text)) = (text_at(id.as_ref(), row), text_at(text.as_ref(), row)) else {
            continue;
        };
        if id == SENTINEL {
            continue;
        }
        let importance = number_at(importance.as_ref(), row);
        live.entry(id).or_insert(Live { address: at.value(row), text, importance });
    }
    Ok(live)
}

/// Addresses of the given ids in a table, ascending, unknown ids left out.
pub(super) async fn addresses_of(view: &View, ids: &[String]) -> Result<Vec<u64>, StoreError> {
    let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let batch = view.scan(&["id"]).await?;
    let at = addresses(&batch);
    let id = rows::strings(&batch, "id").map_err(unreadable(view.name))?;
    let mut found: Vec<u64> = (0..batch.num_rows())
        .filter(|row| text_at(id.as_ref(), *row).is_some_and(|id| wanted.contains(id.as_str())))
        .map(|row| at.value(row))
        .collect();
    found.sort_unstable();
    Ok(found)
}

impl Store {
    pub(super) async fn memories_view(&self) -> Result<View, StoreError> {
        Ok(View::new(MEMORIES, self.latest_memories().await?))
    }

    /// Every memory, without vectors. A table without `agentId` is all `default_agent`'s.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn rows(&self, default_agent: &str) -> Result<Rows, StoreError> {
        let batch = self.memories_view().await?.scan(&Columns::NAMES).await?;
        let columns = Columns::of(&batch, Ownerless::Nobodys).map_err(unreadable(MEMORIES))?;
        let mut rows = Rows::default();
        for row in 0..batch.num_rows() {
            match columns.read(row, default_agent) {
                Reading::Memory(memory) => rows.memories.push(memory),
                Reading::Ownerless => rows.ownerless += 1,
                Reading::Unreadable => rows.unreadable += 1,
                Reading::Sentinel => {}
            }
        }
        Ok(rows)
    }

    /// Whether `memories` holds nothing at all, not even a row that cannot be read.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        // Whose a row is without an agent makes no difference here.
        let rows = self.rows("").await?;
        Ok(rows.memories.is_empty() && rows.ownerless == 0 && rows.unreadable == 0)
    }

    /// The vectors of memories, by id. Ids that are gone or whose vector is null are not in the map.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, StoreError> {
        let view = self.memories_view().await?;
        let batch = view.take(&addresses_of(&view, ids).await?, true).await?;
        vectors_by_id(&batch).map_err(unreadable(MEMORIES))
    }

    /// Rows with every column, also those Dreamer does not know: of the given ids, or of all. The vector, long as it
    /// is, only if asked for.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn row_json(
        &self,
        ids: Option<&[String]>,
        with_vector: bool,
    ) -> Result<Vec<Map<String, Value>>, StoreError> {
        let view = self.memories_view().await?;
        let found = match ids {
            Some(ids) => addresses_of(&view, ids).await?,
            None => addresses(&view.scan(&["id"]).await?).values().to_vec(),
        };
        let batch = view.take(&found, with_vector).await?;
        let mut rows = rows::json(&batch).map_err(unreadable(MEMORIES))?;
        rows.retain(|row| row.get("id").and_then(Value::as_str) != Some(SENTINEL));
        Ok(rows)
    }

    /// Sets the importance of rows (id, importance, text as read) in one commit, or in none if nothing changes.
    /// Rows that are gone or have another text are left alone; no other column is touched.
    ///
    /// # Errors
    /// When the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn set_importance(&self, changes: &[(String, f64, String)]) -> Result<Outcome, StoreError> {
        let view = self.memories_view().await?;
        let live = live(&view).await?;
        let changes: Vec<&(String, f64, String)> = unique(changes, |change| &change.0).collect();
        let schema = view.schema();
        let stored = schema
            .field_with_name("importance")
            .and_then(|field| rows::as_stored(field, changes.iter().map(|change| change.1)))
            .map_err(unreadable(MEMORIES))?;
        let mut outcome = Outcome::default();
        let mut due: Vec<&(String, f64, String)> = Vec::new();
        for (place, change) in changes.into_iter().enumerate() {
            let (id, _, text) = change;
            match live.get(id) {
                None => outcome.gone.push(id.clone()),
                Some(row) if row.text != *text => outcome.changed.push(id.clone()),
                Some(row) if row.importance == number_at(stored.as_ref(), place) => {
                    outcome.already.push(id.clone());
                }
                Some(_) => due.push(change),
            }
        }
        if !due.is_empty() {
            let batch = view.build(&["id", "text", "importance"], |field| match field.name().as_str() {
                "id" => rows::text_column(field, due.iter().map(|change| change.0.clone())),
                "text" => rows::text_column(field, due.iter().map(|change| change.2.clone())),
                _ => rows::number_column(field, due.iter().map(|change| Some(change.1))),
            })?;
            // The text is a key: an edit between our read and the commit leaves the row alone, too.
            view.patch(&["id", "text"], batch).await?;
            outcome.written = due.iter().map(|change| change.0.clone()).collect();
        }
        Ok(outcome)
    }

    /// Deletes rows (id, text as read) in one commit, or in none if nothing is there to delete. Rows that have
    /// another text by now are left alone.
    ///
    /// # Errors
    /// When the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn delete(&self, going: &[(String, String)]) -> Result<Outcome, StoreError> {
        let view = self.memories_view().await?;
        let before = live(&view).await?;
        let mut outcome = Outcome::default();
        let mut due: Vec<&(String, String)> = Vec::new();
        for row @ (id, text) in unique(going, |row| &row.0) {
            match before.get(id) {
                None => outcome.gone.push(id.clone()),
                Some(row) if row.text != *text => outcome.changed.push(id.clone()),
                Some(_) => due.push(row),
            }
        }
        if due.is_empty() {
            return Ok(outcome);
        }
        let batch = view.build(&["id", "text"], |field| match field.name().as_str() {
            "id" => rows::text_column(field, due.iter().map(|row| row.0.clone())),
            _ => rows::text_column(field, due.iter().map(|row| row.1.clone())),
        })?;
        view.delete_matching(&["id", "text"], batch).await?;
        // What is still there was edited between our read and the commit.
        let after = live(&self.memories_view().await?).await?;
        for (id, _) in due {
            let list = if after.contains_key(id) { &mut outcome.changed } else { &mut outcome.written };
            list.push(id.clone());
        }
        Ok(outcome)
    }
}

/// Vectors of a batch by id, null ones left out.
pub(super) fn vectors_by_id(batch: &RecordBatch) -> Result<HashMap<String, Vec<f32>>, ArrowError> {
    let id = rows::strings(batch, "id")?;
    let Some(vectors) = Vectors::of(batch)? else { return Ok(HashMap::new()) };
    let pairs =
        (0..batch.num_rows()).filter_map(|row| Some((text_at(id.as_ref(), row)?, vectors.at(row)?.to_vec())));
    Ok(pairs.collect())
}
