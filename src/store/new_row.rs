//! New rows of the gateway's table: built from the live schema, with the values of columns Dreamer does not know taken
//! over from the row they succeed, or that they once were.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field};
use serde::{Deserialize, Serialize};

use super::lance::Store;
use super::memories::{Live, live};
use super::rows::{self, number_at, text_at};
use super::table::{View, unique, unreadable};
use super::{MEMORIES, Outcome, StoreError};
use crate::memory::{Category, Memory};

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

impl Store {
    /// Inserts rows in one commit, or in none if nothing is new. A row whose id exists is left as it is; a row that
    /// rests on rows which are not as they were read is not written.
    ///
    /// # Errors
    /// Before anything is written: a vector of the wrong length, or a required column nobody has a value for.
    /// Else when the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn insert(&self, new: &[NewRow]) -> Result<Outcome, StoreError> {
        let view = self.memories_view().await?;
        for row in new {
            view.check_dimension(&row.memory.id, row.vector.len())?;
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
            let batch = new_rows(&view, &due, &carriers)?;
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
    view: &View,
    due: &[&NewRow],
    carriers: &[Option<Carrier>],
) -> Result<RecordBatch, StoreError> {
    let schema = view.schema();
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
    view.build(&names, |field| new_column(field, due, carriers))
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
