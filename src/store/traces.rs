//! The traces: what Dreamer knows of memories beyond the shared row, one JSON document a row.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::lance::Store;
use super::rows::{self, text_at};
use super::table::{View, unreadable};
use super::{Outcome, StoreError, TRACES};
use crate::memory::Trace;

/// Bumped when the JSON of a trace changes in a way that older ones must be converted.
const FORMAT: i32 = 1;

/// The traces of all memories, also of archived ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traces {
    /// By the memory's id.
    pub traces: HashMap<String, Trace>,
    /// Ids whose trace could not be read (damaged, or of a newer Dreamer): as if they had none.
    pub unreadable: Vec<String>,
}

/// A trace as the table holds it, to the last byte: what a newer Dreamer wrote is one, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTrace {
    /// The memory's id.
    pub id: String,
    /// The memory's agent.
    pub agent: String,
    /// Digest of the text it was made for.
    pub digest: String,
    /// The document.
    pub trace: String,
    /// The format of the document.
    pub format: i32,
}

impl StoredTrace {
    /// The trace as the table would hold it.
    ///
    /// # Errors
    /// Never in practice: a trace is plain data.
    pub fn of(trace: &Trace) -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: trace.id.clone(),
            agent: trace.agent.clone(),
            digest: trace.digest.clone(),
            trace: serde_json::to_string(trace)?,
            format: FORMAT,
        })
    }

    /// What it says; none if it is damaged or of a newer Dreamer.
    pub fn read(&self) -> Option<Trace> {
        (self.format <= FORMAT).then(|| serde_json::from_str(&self.trace).ok()).flatten()
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("agentId", DataType::Utf8, false),
        Field::new("digest", DataType::Utf8, false),
        Field::new("trace", DataType::Utf8, false),
        Field::new("format", DataType::Int32, false),
    ]))
}

impl Store {
    /// All traces.
    ///
    /// # Errors
    /// When the table cannot be read; a trace that cannot is no error.
    pub async fn traces(&self) -> Result<Traces, StoreError> {
        let mut traces = Traces::default();
        for stored in self.stored_traces().await? {
            match stored.read() {
                Some(trace) => {
                    traces.traces.insert(stored.id, trace);
                }
                None => traces.unreadable.push(stored.id),
            }
        }
        traces.unreadable.sort();
        Ok(traces)
    }

    /// Writes traces by id, the last of each id, in one commit; in none if all are there already.
    ///
    /// # Errors
    /// When the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn put_traces(&self, traces: &[Trace]) -> Result<Outcome, StoreError> {
        let stored = traces.iter().map(StoredTrace::of).collect::<Result<Vec<_>, _>>();
        let failed = |error: serde_json::Error| StoreError::Write { table: TRACES, source: error.into() };
        self.put_stored_traces(&stored.map_err(failed)?).await
    }

    /// [`Self::put_traces`] of traces as they once were stored, to the last byte.
    ///
    /// # Errors
    /// As there.
    pub async fn put_stored_traces(&self, traces: &[StoredTrace]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        if traces.is_empty() {
            return Ok(outcome);
        }
        let stored: HashMap<String, StoredTrace> =
            self.stored_traces().await?.into_iter().map(|trace| (trace.id.clone(), trace)).collect();
        let latest: HashMap<&str, &StoredTrace> =
            traces.iter().map(|trace| (trace.id.as_str(), trace)).collect();
        let mut due: Vec<&StoredTrace> = Vec::new();
        let mut latest: Vec<&StoredTrace> = latest.into_values().collect();
        latest.sort_by(|a, b| a.id.cmp(&b.id));
        for trace in latest {
            let same = stored.get(&trace.id).is_some_and(|there| there.trace == trace.trace);
            let list = if same { &mut outcome.already } else { &mut outcome.written };
            list.push(trace.id.clone());
            due.extend((!same).then_some(trace));
        }
        if !due.is_empty() {
            let view = View::new(TRACES, self.ours_or_create(TRACES, schema()).await?);
            let names = ["id", "agentId", "digest", "trace", "format"];
            let batch =
                view.build(&names, |field| match field.name().as_str() {
                    "id" => rows::text_column(field, due.iter().map(|trace| trace.id.clone())),
                    "agentId" => rows::text_column(field, due.iter().map(|trace| trace.agent.clone())),
                    "digest" => rows::text_column(field, due.iter().map(|trace| trace.digest.clone())),
                    "trace" => rows::text_column(field, due.iter().map(|trace| trace.trace.clone())),
                    _ => Ok(Arc::new(due.iter().map(|trace| Some(trace.format)).collect::<Int32Array>())
                        as ArrayRef),
                })?;
            view.upsert(batch).await?;
        }
        Ok(outcome)
    }

    /// Removes traces of rows that were not written after all: one commit, or none.
    ///
    /// # Errors
    /// When the table cannot be read or written; [`StoreError::Contended`] when trying later helps.
    pub async fn remove_traces(&self, ids: &[String]) -> Result<(), StoreError> {
        let stored: HashSet<String> = self.stored_traces().await?.into_iter().map(|trace| trace.id).collect();
        let due: Vec<String> = ids.iter().filter(|id| stored.contains(*id)).cloned().collect();
        let Some(dataset) = self.ours(TRACES).await?.filter(|_| !due.is_empty()) else { return Ok(()) };
        let view = View::new(TRACES, dataset);
        let batch = view.build(&["id"], |field| rows::text_column(field, due.iter().cloned()))?;
        view.delete_matching(&["id"], batch).await
    }

    /// All traces as the table holds them.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn stored_traces(&self) -> Result<Vec<StoredTrace>, StoreError> {
        let Some(dataset) = self.ours(TRACES).await? else { return Ok(Vec::new()) };
        let batch = View::new(TRACES, dataset).scan(&["id", "agentId", "digest", "trace", "format"]).await?;
        let columns = || {
            let text = |name| rows::strings(&batch, name);
            Ok((
                text("id")?,
                text("agentId")?,
                text("digest")?,
                text("trace")?,
                rows::integers(&batch, "format")?,
            ))
        };
        let (id, agent, digest, trace, format) = columns().map_err(unreadable(TRACES))?;
        let rows = (0..batch.num_rows()).filter_map(|row| {
            let format = format.as_ref().map_or(0, |format| format.value(row));
            let text = |column: &Option<_>| text_at(column.as_ref(), row).unwrap_or_default();
            Some(StoredTrace {
                id: text_at(id.as_ref(), row)?,
                agent: text(&agent),
                digest: text(&digest),
                trace: text(&trace),
                // A format beyond an i32 is a newer one, whatever it is.
                format: i32::try_from(format).unwrap_or(i32::MAX),
            })
        });
        Ok(rows.collect())
    }
}
