//! Rows become again what a run's before-images hold: every column, those Dreamer does not know too, the vector bit for
//! bit. They are taken from the Arrow batch of the snapshot, never from a value in between.
//! Which rows is decided by a plan; what the live table or the archive says by then wins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use ::lance::deps::datafusion::arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow_array::{Array, BooleanArray, RecordBatch, new_null_array};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::archive::{runs, schema as archive_schema};
use super::lance::Store;
use super::memories::live;
use super::rows::{self, text_at};
use super::snapshot::{ARCHIVED, ROWS, Snapshot, failed};
use super::table::{View, unique};
use super::{ARCHIVE, Outcome, StoreError};

/// A row in the before-images of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imaged {
    /// Its id.
    pub id: String,
    /// Its text: that of the image, or of the live row that makes room for it.
    pub text: String,
    /// The folder of the run.
    pub run_folder: PathBuf,
}

impl Store {
    /// Inserts rows again, whole, as before-images hold them: one commit, or none. A row that is live is left as it is;
    /// so is one whose copy is no longer in the archive, because somebody had it forgotten since.
    ///
    /// # Errors
    /// When a table or a snapshot cannot be read, or the table cannot be written; [`StoreError::Contended`] when trying
    /// later helps.
    pub async fn put_back(&self, wanted: &[Imaged]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        if wanted.is_empty() {
            return Ok(outcome);
        }
        let view = self.memories_view().await?;
        let live = live(&view).await?;
        let archived = self.archived_by().await?;
        let mut due: Vec<&Imaged> = Vec::new();
        for row in unique(wanted, |row| &row.id) {
            match live.get(&row.id) {
                Some(there) if there.text == row.text => outcome.already.push(row.id.clone()),
                Some(_) => outcome.changed.push(row.id.clone()),
                None if archived.contains_key(&row.id) => due.push(row),
                None => outcome.gone.push(row.id.clone()),
            }
        }
        let batches = images(ROWS, &due, &view)?;
        let found: HashSet<&str> = batches.ids.iter().map(String::as_str).collect();
        for row in &due {
            let list = if found.contains(row.id.as_str()) { &mut outcome.written } else { &mut outcome.gone };
            list.push(row.id.clone());
        }
        if batches.rows.num_rows() > 0 {
            view.append(batches.rows).await?;
        }
        Ok(outcome)
    }

    /// Puts copies into the archive again as before-images hold them, for live rows that are going to leave: one commit,
    /// or none. A copy that is there is left as it is; none is made of a row that is gone or has another text.
    ///
    /// # Errors
    /// As [`Self::put_back`].
    pub async fn rearchive(&self, wanted: &[Imaged]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        if wanted.is_empty() {
            return Ok(outcome);
        }
        let live = live(&self.memories_view().await?).await?;
        let archived = self.archived_by().await?;
        let mut due: Vec<&Imaged> = Vec::new();
        for row in unique(wanted, |row| &row.id) {
            match live.get(&row.id) {
                _ if archived.contains_key(&row.id) => outcome.already.push(row.id.clone()),
                None => outcome.gone.push(row.id.clone()),
                Some(there) if there.text != row.text => outcome.changed.push(row.id.clone()),
                Some(_) => due.push(row),
            }
        }
        if due.is_empty() {
            return Ok(outcome);
        }
        let view = View::new(ARCHIVE, self.ours_or_create(ARCHIVE, archive_schema(self.dim())).await?);
        let batches = images(ARCHIVED, &due, &view)?;
        if batches.rows.num_rows() > 0 {
            view.upsert(batches.rows).await?;
        }
        outcome.written = batches.ids;
        Ok(outcome)
    }

    /// Which run archived which id.
    async fn archived_by(&self) -> Result<HashMap<String, String>, StoreError> {
        match self.archive_view().await? {
            Some(view) => runs(&view).await,
            None => Ok(HashMap::new()),
        }
    }
}

/// Rows of snapshots in the columns of a live table, and their ids.
struct Found {
    rows: RecordBatch,
    ids: Vec<String>,
}

fn images(file: &str, due: &[&Imaged], view: &View) -> Result<Found, StoreError> {
    let mut by_folder: BTreeMap<&Path, HashMap<&str, &str>> = BTreeMap::new();
    for row in due {
        by_folder.entry(&row.run_folder).or_default().insert(&row.id, &row.text);
    }
    let schema = view.schema();
    let (mut batches, mut ids) = (Vec::new(), Vec::new());
    for (folder, wanted) in by_folder {
        let (path, batch) = Snapshot::open(folder)?.batch(file)?;
        if batch.num_columns() == 0 {
            continue;
        }
        let chosen = choose(&batch, &wanted, file == ROWS).map_err(|error| failed(&path, error))?;
        let id = rows::strings(&chosen, "id").map_err(|error| failed(&path, error))?;
        ids.extend((0..chosen.num_rows()).filter_map(|row| text_at(id.as_ref(), row)));
        batches.push(align(&chosen, &schema, view)?);
    }
    let write = |error: ArrowError| StoreError::Write { table: view.name, source: error.into() };
    Ok(Found { rows: concat_batches(&schema, &batches).map_err(write)?, ids })
}

/// The rows with these ids; of rows that shared an id, those with the text, too.
fn choose(
    batch: &RecordBatch,
    wanted: &HashMap<&str, &str>,
    by_text: bool,
) -> Result<RecordBatch, ArrowError> {
    let (id, text) = (rows::strings(batch, "id")?, rows::strings(batch, "text")?);
    let chosen = (0..batch.num_rows()).map(|row| {
        let expected = text_at(id.as_ref(), row).and_then(|id| wanted.get(id.as_str()).copied());
        Some(expected.is_some_and(|expected| {
            !by_text || text_at(text.as_ref(), row).is_some_and(|text| text == expected)
        }))
    });
    filter_record_batch(batch, &chosen.collect::<BooleanArray>())
}

/// The rows in the columns of the live table: a column that came since is NULL, one that went is left out.
fn align(batch: &RecordBatch, schema: &SchemaRef, view: &View) -> Result<RecordBatch, StoreError> {
    let write = |error: ArrowError| StoreError::Write { table: view.name, source: error.into() };
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => column.clone(),
            Some(column) => cast(column, field.data_type()).map_err(write)?,
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        if !field.is_nullable() && column.null_count() > 0 {
            return Err(StoreError::Required { column: field.name().clone() });
        }
        columns.push(column);
    }
    // The table's own field metadata, not the snapshot's.
    RecordBatch::try_new(std::sync::Arc::new(Schema::clone(schema)), columns).map_err(write)
}
