//! Reading and writing the gateway's table. Every batch is built from the live schema; every write is guarded by what
//! was read, touches nothing else, and done twice equals done once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::lance::Store;
use super::rows::{self, Columns, Ownerless, Reading, SENTINEL, Vectors, number_at, text_at};
use super::table::{View, addresses, unreadable};
use super::{MEMORIES, Outcome, StoreError};
use crate::memory::{Category, Memory};

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

/// Where a new row takes the values from that no [`Memory`] has: scope and the columns unknown to us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inherit {
    /// From nowhere: NULL.
    Nothing,
    /// From a live row, by id.
    Row(String),
    /// From the archive, by id.
    Archived(String),
}

/// A row to insert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewRow {
    /// What it says.
    pub memory: Memory,
    /// Its vector, as long as the table's.
    pub vector: Vec<f32>,
    /// Where the other columns' values come from.
    pub inherit: Inherit,
    /// Ids and texts, as read, of the rows it rests on: if one of them is gone or has another text, it is not written.
    pub only_if: Vec<(String, String)>,
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
    async fn memories_view(&self) -> Result<View, StoreError> {
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
        let mut outcome = Outcome::default();
        let mut due: Vec<&(String, f64, String)> = Vec::new();
        for change @ (id, importance, text) in unique(changes, |change| &change.0) {
            match live.get(id) {
                None => outcome.gone.push(id.clone()),
                Some(row) if row.text != *text => outcome.changed.push(id.clone()),
                Some(row) if row.importance.map(f64::to_bits) == Some(importance.to_bits()) => {
                    outcome.already.push(id.clone());
                }
                Some(_) => due.push(change),
            }
        }
        if !due.is_empty() {
            let schema = view.schema();
            let batch = build(&schema, &["id", "text", "importance"], |field| match field.name().as_str() {
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
        let schema = view.schema();
        let batch = build(&schema, &["id", "text"], |field| match field.name().as_str() {
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

    /// Inserts rows in one commit, or in none if nothing is new. A row whose id exists is left as it is; a row that
    /// rests on rows which are not as they were read is not written.
    ///
    /// # Errors
    /// Before anything is written: a vector of the wrong length, or a required column nobody has a value for.
    /// Else when the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn insert(&self, new: &[NewRow]) -> Result<Outcome, StoreError> {
        let view = self.memories_view().await?;
        for row in new {
            check_dimension(MEMORIES, self.dim(), &row.memory.id, &row.vector)?;
        }
        let live = live(&view).await?;
        let mut outcome = Outcome::default();
        let mut due: Vec<&NewRow> = Vec::new();
        for row in unique(new, |row| &row.memory.id) {
            let as_read = |(id, text): &(String, String)| live.get(id).is_some_and(|row| row.text == *text);
            if live.contains_key(&row.memory.id) {
                outcome.already.push(row.memory.id.clone());
            } else if row.only_if.iter().all(as_read) {
                due.push(row);
            } else {
                outcome.changed.push(row.memory.id.clone());
            }
        }
        if !due.is_empty() {
            let carriers = self.carriers(&view, &live, &due).await?;
            let batch = new_rows(&view.schema(), &due, &carriers)?;
            view.append(batch).await?;
            outcome.written = due.iter().map(|row| row.memory.id.clone()).collect();
        }
        Ok(outcome)
    }

    /// For each new row, the row it inherits from.
    async fn carriers(
        &self,
        view: &View,
        live: &HashMap<String, Live>,
        due: &[&NewRow],
    ) -> Result<Vec<Option<Carrier>>, StoreError> {
        let mut from_rows: Vec<u64> = Vec::new();
        let mut from_archive: Vec<String> = Vec::new();
        for row in due {
            match &row.inherit {
                Inherit::Nothing => {}
                Inherit::Row(id) => from_rows.extend(live.get(id).map(|row| row.address)),
                Inherit::Archived(id) => from_archive.push(id.clone()),
            }
        }
        from_rows.sort_unstable();
        from_rows.dedup();
        let live_batch = view.take(&from_rows, false).await?;
        let live_carriers = Carrier::by_id(&live_batch).map_err(unreadable(MEMORIES))?;
        let archived = self.archived_carriers(&from_archive).await?;
        let find = |row: &&NewRow| match &row.inherit {
            Inherit::Nothing => None,
            Inherit::Row(id) => live_carriers.get(id).cloned(),
            Inherit::Archived(id) => archived.get(id).cloned(),
        };
        Ok(due.iter().map(find).collect())
    }
}

/// A row whose values a new row takes over, one cell a column.
#[derive(Clone)]
pub(super) struct Carrier {
    cells: HashMap<String, ArrayRef>,
}

impl Carrier {
    pub(super) fn of_row(batch: &RecordBatch, row: usize) -> Self {
        let schema = batch.schema();
        let cells = schema.fields().iter().zip(batch.columns());
        Self { cells: cells.map(|(field, column)| (field.name().clone(), column.slice(row, 1))).collect() }
    }

    pub(super) fn with(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        self
    }

    fn by_id(batch: &RecordBatch) -> Result<HashMap<String, Self>, ArrowError> {
        let id = rows::strings(batch, "id")?;
        let rows = (0..batch.num_rows())
            .filter_map(|row| text_at(id.as_ref(), row).map(|id| (id, Self::of_row(batch, row))));
        Ok(rows.collect())
    }

    fn cell(&self, column: &str) -> Option<ArrayRef> {
        self.cells.get(column).cloned()
    }

    fn text(&self, column: &str) -> Option<String> {
        let batch = self.single(column)?;
        text_at(rows::strings(&batch, column).ok()?.as_ref(), 0)
    }

    fn number(&self, column: &str) -> Option<f64> {
        let batch = self.single(column)?;
        number_at(rows::numbers(&batch, column).ok()?.as_ref(), 0)
    }

    fn single(&self, column: &str) -> Option<RecordBatch> {
        self.cell(column).and_then(|cell| RecordBatch::try_from_iter([(column, cell)]).ok())
    }
}

/// The batch to append, column by column as the live table has them.
pub(super) fn new_rows(
    schema: &Schema,
    due: &[&NewRow],
    carriers: &[Option<Carrier>],
) -> Result<RecordBatch, StoreError> {
    for field in schema.fields() {
        let has_value = |carrier: &Option<Carrier>| {
            carrier
                .as_ref()
                .and_then(|carrier| carrier.cell(field.name()))
                .is_some_and(|cell| cell.is_valid(0))
        };
        let ours = rows::KNOWN.contains(&field.name().as_str()) && field.name() != "scope";
        if !ours && !field.is_nullable() && !carriers.iter().all(has_value) {
            return Err(StoreError::Required { column: field.name().clone() });
        }
    }
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    build(schema, &names, |field| new_column(field, due, carriers))
}

fn new_column(field: &Field, due: &[&NewRow], carriers: &[Option<Carrier>]) -> Result<ArrayRef, ArrowError> {
    let pairs = || due.iter().map(|row| &row.memory).zip(carriers);
    let carrier_text = |carrier: &Option<Carrier>| carrier.as_ref().and_then(|c| c.text(field.name()));
    match field.name().as_str() {
        "id" => rows::text_column(field, pairs().map(|(memory, _)| memory.id.clone())),
        "text" => rows::text_column(field, pairs().map(|(memory, _)| memory.text.clone())),
        "vector" => rows::vector_column(field, due.iter().map(|row| Some(row.vector.as_slice()))),
        "importance" => rows::number_column(field, pairs().map(|(memory, _)| Some(memory.importance))),
        "agentId" => rows::text_column(field, pairs().map(|(memory, _)| memory.partition.agent.clone())),
        // A word of the gateway's that reads as `Other` comes back as it was.
        "category" => rows::text_column(
            field,
            pairs().map(|(memory, carrier)| {
                carrier_text(carrier)
                    .filter(|word| Category::from_word(word) == memory.category)
                    .unwrap_or_else(|| memory.category.as_str().to_string())
            }),
        ),
        // So does a time with a fraction.
        "createdAt" => rows::number_column(
            field,
            pairs().map(|(memory, carrier)| {
                let stored = carrier.as_ref().and_then(|carrier| carrier.number(field.name()));
                #[allow(clippy::cast_precision_loss)]
                let own = memory.created_at as f64;
                stored.filter(|stored| rows::millis(*stored) == memory.created_at).or(Some(own))
            }),
        ),
        "scope" if pairs().any(|(memory, _)| memory.partition.scope.is_some()) => rows::text_column(
            field,
            pairs().map(|(memory, carrier)| memory.partition.scope.clone().or_else(|| carrier_text(carrier))),
        ),
        name => {
            let cells: Vec<Option<ArrayRef>> =
                carriers.iter().map(|carrier| carrier.as_ref().and_then(|c| c.cell(name))).collect();
            rows::carried_column(field, &cells)
        }
    }
}

/// A batch of some columns of a table, in the table's order and types.
pub(super) fn build(
    schema: &Schema,
    names: &[&str],
    column: impl Fn(&Field) -> Result<ArrayRef, ArrowError>,
) -> Result<RecordBatch, StoreError> {
    let fields: Vec<Arc<Field>> =
        schema.fields().iter().filter(|field| names.contains(&field.name().as_str())).cloned().collect();
    let write = |error: ArrowError| StoreError::Write { table: MEMORIES, source: error.into() };
    let columns = fields.iter().map(|field| column(field)).collect::<Result<Vec<_>, _>>().map_err(write)?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(write)
}

/// Refuses a vector that is not as long as the table's.
pub(super) fn check_dimension(
    table: &'static str,
    expected: usize,
    id: &str,
    vector: &[f32],
) -> Result<(), StoreError> {
    if vector.len() == expected {
        return Ok(());
    }
    Err(StoreError::Dimension { table, id: id.to_string(), expected, got: vector.len() })
}

/// The first of each key: LanceDB refuses a source with repeated keys.
pub(super) fn unique<'a, T>(
    items: &'a [T],
    key: impl Fn(&'a T) -> &'a String,
) -> impl Iterator<Item = &'a T> {
    let mut seen = HashSet::new();
    items.iter().filter(move |item| seen.insert(key(item)))
}

/// Vectors of a batch by id, null ones left out.
pub(super) fn vectors_by_id(batch: &RecordBatch) -> Result<HashMap<String, Vec<f32>>, ArrowError> {
    let id = rows::strings(batch, "id")?;
    let Some(vectors) = Vectors::of(batch)? else { return Ok(HashMap::new()) };
    let pairs =
        (0..batch.num_rows()).filter_map(|row| Some((text_at(id.as_ref(), row)?, vectors.at(row)?.to_vec())));
    Ok(pairs.collect())
}
