//! What is there when an undo is planned: live rows, archive and traces, and what they will be once it is done, so that
//! several undoings can be shown before the first one starts.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::memory::{Archived, Memory};
use crate::plan::DreamPlan;
use crate::store::{Images, Store, StoredTrace};

/// Live rows, archive and traces.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// Live rows by id.
    pub(crate) rows: BTreeMap<String, Memory>,
    /// Archived memories by id.
    pub(crate) archived: BTreeMap<String, Archived>,
    /// Traces by id, to the last byte.
    pub(crate) traces: BTreeMap<String, StoredTrace>,
}

impl World {
    /// Reads it from the database.
    pub(crate) async fn read(store: &Store, default_agent: &str) -> Result<Self, Error> {
        let rows = store.rows(default_agent).await?.memories;
        let archived = store.archived_all(default_agent).await?;
        let traces = store.stored_traces().await?;
        Ok(Self {
            rows: rows.into_iter().map(|row| (row.id.clone(), row)).collect(),
            archived: archived.into_iter().map(|copy| (copy.memory.id.clone(), copy)).collect(),
            traces: traces.into_iter().map(|trace| (trace.id.clone(), trace)).collect(),
        })
    }

    /// Text of a live or archived memory.
    pub(crate) fn text(&self, id: &str) -> Option<&str> {
        let live = self.rows.get(id);
        live.or_else(|| self.archived.get(id).map(|copy| &copy.memory)).map(|memory| memory.text.as_str())
    }

    /// Whether somebody has it: it is neither deleted nor forgotten.
    pub(crate) fn holds(&self, id: &str) -> bool {
        self.rows.contains_key(id) || self.archived.contains_key(id)
    }

    /// What is there after an inverse plan; `images` are those of the run it takes back.
    pub(crate) fn take_in(&mut self, plan: &DreamPlan, images: &Images) {
        for leaving in &plan.leaving {
            let Some(memory) = self.rows.remove(&leaving.id) else { continue };
            let copy = Archived {
                memory,
                reason: leaving.reason,
                successor: leaving.successor.clone(),
                run: leaving.run.clone(),
                archived_at: leaving.at,
            };
            self.archived.insert(leaving.id.clone(), copy);
        }
        for row in &plan.rearchive {
            self.rows.remove(&row.id);
            self.archived.extend(images.archived.get(&row.id).map(|copy| (row.id.clone(), copy.clone())));
        }
        for row in &plan.put_back {
            let image = images.rows.get(&(row.id.clone(), row.text.clone()));
            self.rows.extend(image.map(|memory| (row.id.clone(), memory.clone())));
        }
        for id in &plan.unarchive {
            self.archived.remove(id);
        }
        for change in &plan.importance {
            if let Some(row) = self.rows.get_mut(&change.id) {
                row.importance = change.to;
            }
        }
        let again = plan.traces.iter().filter_map(|trace| StoredTrace::of(trace).ok());
        let again = again.chain(plan.traces_back.iter().cloned());
        self.traces.extend(again.map(|trace| (trace.id.clone(), trace)));
        self.traces.retain(|id, _| !plan.drop_traces.contains(id));
    }
}
