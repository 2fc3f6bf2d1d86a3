//! The few things done to any Lance table: scan, take rows, append, merge, and sorting LanceDB's errors into ours.
//! Which rows and columns is decided by the callers.

use std::sync::Arc;

use ::lance::Dataset;
use ::lance::dataset::{
    InsertBuilder, MergeInsertBuilder, MergeInsertWriteMode, WhenMatched, WhenNotMatched, WriteMode,
    WriteParams,
};
use ::lance::deps::datafusion::arrow::compute::concat_batches;
use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{Schema, SchemaRef};
use futures::TryStreamExt;

use super::{Cause, StoreError};

/// What was being done, for the error.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Read,
    Write,
}

/// Sorts a LanceDB error: what another writer caused can be tried again, the rest cannot.
pub(super) fn failed(table: &'static str, step: Step, error: impl Into<lancedb::Error>) -> StoreError {
    let error = error.into();
    let contended = matches!(
        &error,
        lancedb::Error::Lance {
            source: ::lance::Error::TooMuchWriteContention { .. }
                | ::lance::Error::IncompatibleTransaction { .. }
                | ::lance::Error::RetryableCommitConflict { .. }
                | ::lance::Error::CommitConflict { .. }
        }
    );
    let source: Cause = error.into();
    match step {
        _ if contended => StoreError::Contended { table, source },
        Step::Read => StoreError::Read { table, source },
        Step::Write => StoreError::Write { table, source },
    }
}

/// A read error of Arrow's.
pub(super) fn unreadable(table: &'static str) -> impl Fn(arrow_schema::ArrowError) -> StoreError {
    move |error| StoreError::Read { table, source: error.into() }
}

/// One table at one version, with its name for errors.
#[derive(Clone)]
pub(super) struct View {
    pub(super) name: &'static str,
    pub(super) dataset: Arc<Dataset>,
}

impl View {
    pub(super) fn new(name: &'static str, dataset: Arc<Dataset>) -> Self {
        Self { name, dataset }
    }

    /// The live Arrow schema.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::from(self.dataset.schema()))
    }

    /// Those of `columns` that the table has, of all rows, with the row's address as `_rowid`.
    pub(super) async fn scan(&self, columns: &[&str]) -> Result<RecordBatch, StoreError> {
        let schema = self.schema();
        let present: Vec<&str> =
            columns.iter().copied().filter(|name| schema.column_with_name(name).is_some()).collect();
        let read = |error| failed(self.name, Step::Read, lance_error(error));
        let mut scanner = self.dataset.scan();
        scanner.project(&present).map_err(read)?.with_row_id();
        let schema = scanner.schema().await.map_err(read)?;
        let stream = scanner.try_into_stream().await.map_err(read)?;
        let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(read)?;
        concat_batches(&schema, &batches).map_err(unreadable(self.name))
    }

    /// Whole rows by address, in the order of `addresses`; without the column `vector` if so asked.
    pub(super) async fn take(&self, addresses: &[u64], with_vector: bool) -> Result<RecordBatch, StoreError> {
        let mut schema = self.dataset.schema().clone();
        if !with_vector {
            schema.fields.retain(|field| field.name != "vector");
        }
        if addresses.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::new(Schema::from(&schema))));
        }
        let read = |error| failed(self.name, Step::Read, lance_error(error));
        self.dataset.take_rows(addresses, schema).await.map_err(read)
    }

    /// Adds rows in one commit.
    pub(super) async fn append(&self, rows: RecordBatch) -> Result<(), StoreError> {
        let params =
            WriteParams { mode: WriteMode::Append, skip_auto_cleanup: true, ..WriteParams::default() };
        let appended =
            InsertBuilder::new(self.dataset.clone()).with_params(&params).execute(vec![rows]).await;
        appended.map(|_| ()).map_err(|error| failed(self.name, Step::Write, lance_error(error)))
    }

    /// Writes whole rows in one commit: those whose `id` exists replace it, the others are added.
    pub(super) async fn upsert(&self, rows: RecordBatch) -> Result<(), StoreError> {
        self.merge(&["id"], rows, |job| {
            job.when_matched(WhenMatched::UpdateAll).when_not_matched(WhenNotMatched::InsertAll);
        })
        .await
    }

    /// Deletes, in one commit, the rows that agree with a row of `rows` in every column of `keys`. The keys are
    /// compared when it commits, also after a conflict, and no text gets into a transaction file as part of a filter.
    pub(super) async fn delete_matching(&self, keys: &[&str], rows: RecordBatch) -> Result<(), StoreError> {
        self.merge(keys, rows, |job| {
            job.when_matched(WhenMatched::Delete).when_not_matched(WhenNotMatched::DoNothing);
        })
        .await
    }

    /// Sets the columns of `rows` that are not keys, in one commit, where a row agrees in every key. No row moves
    /// and no other column is written (18 ms for 10k rows, against 308 ms and 63 MB when whole rows are rewritten).
    pub(super) async fn patch(&self, keys: &[&str], rows: RecordBatch) -> Result<(), StoreError> {
        let patched = self
            .merge(keys, rows.clone(), |job| {
                job.when_matched(WhenMatched::UpdateAll)
                    .when_not_matched(WhenNotMatched::DoNothing)
                    .write_mode(MergeInsertWriteMode::RewriteColumns);
            })
            .await;
        match patched {
            // Some layouts (an old file format) cannot be patched. The same merge with whole rows keeps the other
            // columns' values too; it only writes more.
            Err(StoreError::Write { .. }) => {
                self.merge(keys, rows, |job| {
                    job.when_matched(WhenMatched::UpdateAll).when_not_matched(WhenNotMatched::DoNothing);
                })
                .await
            }
            other => other,
        }
    }

    async fn merge(
        &self,
        keys: &[&str],
        rows: RecordBatch,
        configure: impl FnOnce(&mut MergeInsertBuilder),
    ) -> Result<(), StoreError> {
        let write = |error| failed(self.name, Step::Write, lance_error(error));
        let keys = keys.iter().map(ToString::to_string).collect();
        let mut builder = MergeInsertBuilder::try_new(self.dataset.clone(), keys).map_err(write)?;
        builder.skip_auto_cleanup(true);
        configure(&mut builder);
        let job = builder.try_build().map_err(write)?;
        job.execute_batches(vec![rows]).await.map(|_| ()).map_err(write)
    }
}

fn lance_error(source: ::lance::Error) -> lancedb::Error {
    lancedb::Error::Lance { source }
}

/// The `_rowid` column of a scan.
pub(super) fn addresses(batch: &RecordBatch) -> &UInt64Array {
    batch
        .column_by_name("_rowid")
        .and_then(|column| column.as_any().downcast_ref())
        .expect("a scan is made with row addresses")
}
