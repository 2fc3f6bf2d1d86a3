//! The traces: what Dreamer knows of memories beyond the shared row, one JSON document a row.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::lance::Store;
use super::memories::build;
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
        for (id, json, format) in self.stored_traces().await? {
            match serde_json::from_str::<Trace>(&json) {
                Ok(trace) if format <= i64::from(FORMAT) => {
                    traces.traces.insert(id, trace);
                }
                _ => traces.unreadable.push(id),
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
        let stored: HashMap<String, String> =
            self.stored_traces().await?.into_iter().map(|(id, json, _)| (id, json)).collect();
        let latest: HashMap<&str, &Trace> = traces.iter().map(|trace| (trace.id.as_str(), trace)).collect();
        let mut outcome = Outcome::default();
        let mut due: Vec<(&Trace, String)> = Vec::new();
        let mut latest: Vec<&Trace> = latest.into_values().collect();
        latest.sort_by(|a, b| a.id.cmp(&b.id));
        for trace in latest {
            let json = serde_json::to_string(trace)
                .map_err(|error| StoreError::Write { table: TRACES, source: error.into() })?;
            if stored.get(&trace.id) == Some(&json) {
                outcome.already.push(trace.id.clone());
            } else {
                outcome.written.push(trace.id.clone());
                due.push((trace, json));
            }
        }
        if !due.is_empty() {
            let view = View::new(TRACES, self.ours_or_create(TRACES, schema()).await?);
            let names = ["id", "agentId", "digest", "trace", "format"];
            let batch = build(&view.schema(), &names, |field| match field.name().as_str() {
                "id" => rows::text_column(field, due.iter().map(|(trace, _)| trace.id.clone())),
                "agentId" => rows::text_column(field, due.iter().map(|(trace, _)| trace.agent.clone())),
                "digest" => rows::text_column(field, due.iter().map(|(trace, _)| trace.digest.clone())),
                "trace" => rows::text_column(field, due.iter().map(|(_, json)| json.clone())),
                _ => Ok(Arc::new(Int32Array::from(vec![FORMAT; due.len()])) as ArrayRef),
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
        let stored: HashSet<String> = self.stored_traces().await?.into_iter().map(|(id, ..)| id).collect();
        let due: Vec<String> = ids.iter().filter(|id| stored.contains(*id)).cloned().collect();
        let Some(dataset) = self.ours(TRACES).await?.filter(|_| !due.is_empty()) else { return Ok(()) };
        let view = View::new(TRACES, dataset);
        let batch = build(&view.schema(), &["id"], |field| rows::text_column(field, due.iter().cloned()))?;
        view.delete_matching(&["id"], batch).await
    }

    /// Id, JSON and format of every row.
    async fn stored_traces(&self) -> Result<Vec<(String, String, i64)>, StoreError> {
        let Some(dataset) = self.ours(TRACES).await? else { return Ok(Vec::new()) };
        let batch = View::new(TRACES, dataset).scan(&["id", "trace", "format"]).await?;
        let columns = || {
            let id = rows::strings(&batch, "id")?;
            Ok((id, rows::strings(&batch, "trace")?, rows::integers(&batch, "format")?))
        };
        let (id, trace, format) = columns().map_err(unreadable(TRACES))?;
        let rows = (0..batch.num_rows()).filter_map(|row| {
            let format = format.as_ref().map_or(0, |format| format.value(row));
            Some((text_at(id.as_ref(), row)?, text_at(trace.as_ref(), row).unwrap_or_default(), format))
        });
        Ok(rows.collect())
    }
}
