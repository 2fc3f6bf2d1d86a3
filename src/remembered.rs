//! What is remembered when a night begins: live rows, traces and archive, read once. Pure look-ups on them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;

use crate::memory::{Archived, Departure, Memory, Trace};

/// Live rows, traces and archive as they were when the night began.
#[derive(Debug, Clone)]
pub struct Remembered {
    /// Live rows by id.
    pub rows: BTreeMap<String, Memory>,
    /// Traces by id, of live and archived memories.
    pub traces: HashMap<String, Trace>,
    /// Archived memories by id.
    pub archived: HashMap<String, Archived>,
    /// The zone in which days are counted.
    pub timezone: Tz,
}

impl Remembered {
    /// What is remembered of one agent: `--agent`.
    #[must_use]
    pub fn only(self, agent: &str) -> Self {
        self.of(|other| other == agent)
    }

    /// What is remembered of the agents that are `wanted`.
    #[must_use]
    pub fn of(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.rows.retain(|_, row| wanted(&row.partition.agent));
        self.traces.retain(|_, trace| wanted(&trace.agent));
        self.archived.retain(|_, archived| wanted(&archived.memory.partition.agent));
        self
    }

    /// The same without these live rows: the night leaves them as they are.
    #[must_use]
    pub fn without(mut self, rows: &BTreeSet<String>) -> Self {
        self.rows.retain(|id, _| !rows.contains(id));
        self
    }

    /// Text of a live or archived memory.
    pub fn text(&self, id: &str) -> Option<&str> {
        let live = self.rows.get(id);
        live.or_else(|| self.archived.get(id).map(|a| &a.memory)).map(|memory| memory.text.as_str())
    }

    /// When a memory was said; where nobody knows, when the row was written.
    pub fn said_at(&self, id: &str) -> DateTime<Utc> {
        if let Some(said_at) = self.traces.get(id).and_then(|trace| trace.said_at) {
            return said_at;
        }
        let memory = self.rows.get(id).or_else(|| self.archived.get(id).map(|a| &a.memory));
        memory.and_then(|m| DateTime::from_timestamp_millis(m.created_at)).unwrap_or_default()
    }

    /// The day of [`Self::said_at`], in the configured time zone.
    pub fn said_on(&self, id: &str) -> NaiveDate {
        self.said_at(id).with_timezone(&self.timezone).date_naive()
    }

    /// The live memory at the end of a chain of successors.
    pub fn live_successor(&self, id: &str) -> Option<&str> {
        let mut next = self.archived.get(id)?.successor.as_deref()?;
        // A chain is as long as the archive at most; a loop would be a corrupted archive.
        for _ in 0..=self.archived.len() {
            if let Some((id, _)) = self.rows.get_key_value(next) {
                return Some(id);
            }
            next = self.archived.get(next)?.successor.as_deref()?;
        }
        None
    }

    /// Ids of the originals a memory stands for: those it was merged from, else itself.
    pub fn originals(&self, id: &str) -> Vec<String> {
        match self.traces.get(id) {
            Some(trace) if !trace.merged_from.is_empty() => trace.merged_from.clone(),
            _ => vec![id.to_owned()],
        }
    }

    /// Live rows of an agent.
    pub fn rows_of<'a>(&'a self, agent: &'a str) -> impl Iterator<Item = &'a Memory> {
        self.rows.values().filter(move |row| row.partition.agent == agent)
    }

    /// Memories that are gone without our doing, by agent: a trace, but neither a row nor a copy in the archive.
    pub fn vanished(&self) -> BTreeMap<String, Vec<String>> {
        let mut vanished: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let gone = |id: &&String| !self.rows.contains_key(*id) && !self.archived.contains_key(*id);
        for id in self.traces.keys().filter(gone) {
            vanished.entry(self.traces[id].agent.clone()).or_default().push(id.clone());
        }
        vanished
    }

    /// Every agent that has a live row.
    pub fn agents(&self) -> Vec<String> {
        let mut agents: Vec<String> = self.rows.values().map(|row| row.partition.agent.clone()).collect();
        agents.sort();
        agents.dedup();
        agents
    }

    /// How many of an agent's memories faded at or after `since`, epoch milliseconds, and are still gone.
    pub fn faded_since(&self, agent: &str, since: i64) -> usize {
        let faded = |a: &&Archived| {
            a.reason == Departure::Faded && a.archived_at >= since && a.memory.partition.agent == agent
        };
        self.archived.values().filter(faded).count()
    }
}
