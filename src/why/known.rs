//! Everything a home knows of its memories, read once: rows, archive, traces, raw memories, audit, copies, active days
//! and the plans of runs. Pure look-ups on them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use chrono::{DateTime, FixedOffset, NaiveDate, Utc};

use super::WhyError;
use super::excerpt::Excerpts;
use crate::config::Config;
use crate::error::Error;
use crate::memory::{Archived, Memory, Trace};
use crate::memory_archive::{self, Copy};
use crate::plan::{Run, RunId};
use crate::report::Joined;
use crate::state::audit::{Audit, Event};
use crate::state::ledger::Ledger;
use crate::store::Store;

pub(super) struct Known<'a> {
    pub(super) config: &'a Config,
    pub(super) today: NaiveDate,
    pub(super) rows: BTreeMap<String, Memory>,
    pub(super) archived: HashMap<String, Archived>,
    pub(super) traces: HashMap<String, Trace>,
    pub(super) events: Vec<Event>,
    pub(super) copies: HashMap<String, Copy>,
    pub(super) ledger: Ledger,
    pub(super) excerpts: Excerpts<'a>,
    /// What runs joined, by run, as far as their plans are kept: read when it is asked for.
    joined: RefCell<HashMap<String, Vec<Joined>>>,
}

impl<'a> Known<'a> {
    pub(super) async fn read(config: &'a Config, today: NaiveDate) -> Result<Self, Error> {
        let store = Store::open(&config.lancedb_uri).await?;
        let rows = store.rows(&config.agent).await?.memories;
        let archived = store.archived_all(&config.agent).await?;
        let copies = memory_archive::read_all(&config.memory_archive_dir())?;
        let raw = store.raw_all().await?;
        Ok(Self {
            config,
            today,
            rows: rows.into_iter().map(|row| (row.id.clone(), row)).collect(),
            archived: archived.into_iter().map(|a| (a.memory.id.clone(), a)).collect(),
            traces: store.traces().await?.traces,
            events: Audit::read(&config.home)?,
            copies: copies.into_iter().map(|copy| (copy.id().to_owned(), copy)).collect(),
            ledger: Ledger::read(&config.state_dir())?,
            excerpts: Excerpts::new(config, store.has_agent(), raw),
            joined: RefCell::default(),
        })
    }

    /// The one id that `id` is or begins.
    pub(super) fn resolve(&self, id: &str) -> Result<String, WhyError> {
        let wanted = id.trim().to_ascii_lowercase();
        let ids: BTreeSet<&str> = self
            .rows
            .keys()
            .chain(self.archived.keys())
            .chain(self.traces.keys())
            .chain(self.copies.keys())
            .map(String::as_str)
            .chain(self.events.iter().flat_map(Event::ids))
            .collect();
        if let Some(exact) = ids.iter().find(|id| id.eq_ignore_ascii_case(&wanted)) {
            return Ok((*exact).to_owned());
        }
        let begin = |id: &&&str| !wanted.is_empty() && id.to_ascii_lowercase().starts_with(&wanted);
        let found: Vec<&str> = ids.iter().filter(begin).copied().collect();
        match found[..] {
            [] => Err(WhyError::Unknown { id: id.to_owned() }),
            [one] => Ok(one.to_owned()),
            _ => {
                let more = if found.len() > 5 { ", …" } else { "" };
                let some = format!("{}{more}", found.iter().take(5).copied().collect::<Vec<_>>().join(", "));
                Err(WhyError::Ambiguous { id: id.to_owned(), count: found.len(), some })
            }
        }
    }

    /// The memory as it is, live before archived.
    pub(super) fn memory(&self, id: &str) -> Option<&Memory> {
        self.rows.get(id).or_else(|| self.archived.get(id).map(|archived| &archived.memory))
    }

    pub(super) fn text(&self, id: &str) -> Option<String> {
        let copy = || self.copies.get(id).map(|copy| copy.text().to_owned());
        self.memory(id).map(|memory| memory.text.clone()).or_else(copy)
    }

    /// The day it was said, as far as anybody knows; else the day it was written.
    pub(super) fn said_on(&self, id: &str) -> Option<NaiveDate> {
        let said_at = self.traces.get(id).and_then(|trace| trace.said_at);
        let written = || DateTime::from_timestamp_millis(self.memory(id)?.created_at);
        said_at.or_else(written).map(|at| self.local(at).date_naive())
    }

    /// What the audit has of a memory.
    pub(super) fn history(&self, id: &str) -> Vec<&Event> {
        self.events.iter().filter(|event| event.names(id)).collect()
    }

    pub(super) fn local(&self, at: DateTime<Utc>) -> DateTime<FixedOffset> {
        at.with_timezone(&self.config.timezone).fixed_offset()
    }

    /// Why a run joined memories: the first of its joins that fits, while its plan is kept.
    pub(super) fn reason(&self, run: &str, fits: impl Fn(&Joined) -> bool) -> Option<String> {
        let mut all = self.joined.borrow_mut();
        let joined = all.entry(run.to_owned()).or_insert_with(|| {
            let plan = self.run(run).and_then(|run| run.read_plan().ok());
            plan.map(|plan| plan.report.joined).unwrap_or_default()
        });
        joined.iter().find(|joined| fits(joined)).map(|joined| joined.reason.clone())
    }

    /// Whether a run's before-images are still there, so that it can be rolled back.
    pub(super) fn can_be_rolled_back(&self, run: &str) -> bool {
        self.run(run).is_some_and(|run| run.folder.join("before").is_dir())
    }

    /// The file with the readable copy of a memory, if it holds one.
    pub(super) fn copy_file(&self, id: &str) -> Option<PathBuf> {
        let copy = self.copies.get(id)?;
        Some(memory_archive::path(&self.config.memory_archive_dir(), &copy.run))
    }

    fn run(&self, run: &str) -> Option<Run> {
        Some(Run::of(&self.config.runs_dir(), RunId::parse(run)?))
    }
}
