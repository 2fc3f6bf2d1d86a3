//! Looking at runs: which there are, until when each can be taken back, and what one changed. Reads only.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::UndoError;
use crate::config::Config;
use crate::error::Error;
use crate::memory::Departure;
use crate::plan::run::State;
use crate::plan::{DreamPlan, PlanError, Purpose, Run, RunId};
use crate::report::Importance;
use crate::store::{Images, has_images, read_images};

/// A run and what it changed, in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// The run.
    pub run: RunId,
    /// `night`, `rollback` or `unmerge`.
    pub what: &'static str,
    /// The run or the memory it takes back; none for a night.
    pub of: Option<String>,
    /// How far it got.
    pub phase: &'static str,
    /// Whether some of it, or all, may be written.
    pub written: bool,
    /// When it finished; where it did not, when it was planned.
    pub at: DateTime<Utc>,
    /// What it changed; none where its plan is gone or cannot be read.
    pub counts: Option<Counts>,
    /// Bytes of the run's folder.
    pub bytes: u64,
    /// The run that took it back.
    pub undone_by: Option<RunId>,
    /// Until when it can be taken back; none where its before-images are gone.
    pub kept_until: Option<DateTime<Utc>>,
}

/// What a run changed, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Rows that came: new, merged, back.
    pub came: usize,
    /// Rows that went: merged, faded, duplicates, taken back.
    pub went: usize,
    /// Rows whose importance changed.
    pub importance: usize,
}

/// What a run changed, one change after the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The run.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Rows that came and went.
    pub changes: Vec<Change>,
    /// Rows whose importance changed.
    pub importance: Vec<Importance>,
    /// How many traces changed.
    pub traces: usize,
}

/// Rows that came and went for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// `new`, `state_change`, `different_aspects`, `duplicate`, `faded`, `came_back`, `taken_back` or `rearchived`.
    pub kind: String,
    /// Why, in the judge's words, if a judge was asked.
    pub reason: String,
    /// Rows that went.
    pub went: Vec<Line>,
    /// Rows that came.
    pub came: Vec<Line>,
    /// The row that stays and carries what went, if it is none that came.
    pub stays: Option<Line>,
}

/// A row of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// Its importance, where it is known.
    pub importance: Option<f64>,
}

/// Every run, oldest first.
///
/// # Errors
/// When the runs folder cannot be read.
pub fn list(config: &Config) -> Result<Vec<Snapshot>, Error> {
    let runs = Run::all(&config.runs_dir())?;
    Ok(runs.iter().filter_map(|run| Some(snapshot(run, &run.state().ok()?, config.snapshot_days))).collect())
}

/// What a run changed, or would have: of a preview, too.
///
/// # Errors
/// When there is no such run, or its plan or before-images cannot be read.
pub fn show(config: &Config, run: &str) -> Result<Diff, Error> {
    let id = RunId::parse(run.trim()).ok_or_else(|| UndoError::NoRun { run: run.to_owned() })?;
    let run = Run::of(&config.runs_dir(), id);
    let state = match run.state() {
        Err(PlanError::NoSuchRun { .. }) => return Err(UndoError::NoSuchRun { run: run.id }.into()),
        state => state?,
    };
    let plan = run.read_plan()?;
    let images = match has_images(&run.folder) {
        true => read_images(&run.folder, &config.agent)?,
        false => Images::default(),
    };
    let importance = |c: &crate::plan::ImportanceChange| Importance {
        id: c.id.clone(),
        text: c.text.clone(),
        from: c.from,
        to: c.to,
    };
    Ok(Diff {
        snapshot: snapshot(&run, &state, config.snapshot_days),
        changes: changes(&plan, &images),
        importance: plan.importance.iter().map(importance).collect(),
        traces: plan.traces.len() + plan.traces_back.len() + plan.drop_traces.len(),
    })
}

fn snapshot(run: &Run, state: &State, days: u32) -> Snapshot {
    let (what, of) = match &state.purpose {
        Purpose::Night => ("night", None),
        Purpose::Rollback { of } => ("rollback", Some(of.to_string())),
        Purpose::Unmerge { id } => ("unmerge", Some(id.clone())),
    };
    let at = state.finished_at.unwrap_or(state.planned_at);
    let counts = run.read_plan().ok().map(|plan| Counts {
        came: plan.inserts.len() + plan.put_back.len(),
        went: plan.leaving.len() + plan.rearchive.len(),
        importance: plan.importance.len(),
    });
    Snapshot {
        run: run.id.clone(),
        what,
        of,
        phase: state.phase.as_str(),
        written: state.phase.has_written(),
        at,
        counts,
        bytes: bytes_of(&run.folder),
        undone_by: state.undone_by.clone(),
        kept_until: has_images(&run.folder).then(|| at + TimeDelta::days(i64::from(days))),
    }
}

/// Bytes of the files in a folder and below; what cannot be read counts nothing.
fn bytes_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Merges and duplicates first, then what faded or was taken back, then what came.
fn changes(plan: &DreamPlan, images: &Images) -> Vec<Change> {
    let line = |id: &String, text: &String| Line {
        id: id.clone(),
        text: text.clone(),
        importance: images.rows.get(&(id.clone(), text.clone())).map(|row| row.importance),
    };
    let mut joined: BTreeMap<&String, Change> = BTreeMap::new();
    let mut alone: Vec<Change> = Vec::new();
    let drafts = plan.merged_drafts.iter().map(|draft| &draft.leaving);
    for leaving in plan.leaving.iter().chain(drafts) {
        let went = line(&leaving.id, &leaving.text);
        match (&leaving.successor, leaving.reason) {
            (Some(successor), _) => joined
                .entry(successor)
                .or_insert_with(|| join(plan, successor, leaving.reason))
                .went
                .push(went),
            (None, reason) => {
                alone.push(Change { kind: word(reason), went: vec![went], ..Change::default() })
            }
        }
    }
    let mut changes: Vec<Change> = joined.into_values().collect();
    changes.extend(alone);
    for row in &plan.rearchive {
        let went = vec![line(&row.id, &row.text)];
        changes.push(Change { kind: "rearchived".into(), went, ..Change::default() });
    }
    let told = |id: &String| changes.iter().any(|change| change.came.iter().any(|came| came.id == *id));
    let inserted = plan.inserts.iter().filter(|row| !told(&row.memory.id)).map(|row| {
        let kind = if plan.unarchive.contains(&row.memory.id) { "came_back" } else { "new" };
        Change { kind: kind.into(), came: vec![line_of(&row.memory)], ..Change::default() }
    });
    let back = plan.put_back.iter().map(|row| {
        let came = Line { id: row.id.clone(), text: row.text.clone(), importance: None };
        Change { kind: "came_back".into(), came: vec![came], ..Change::default() }
    });
    let came: Vec<Change> = inserted.chain(back).collect();
    changes.extend(came);
    changes
}

fn line_of(memory: &crate::memory::Memory) -> Line {
    Line { id: memory.id.clone(), text: memory.text.clone(), importance: Some(memory.importance) }
}

/// What was made one under a successor, without the rows that went.
fn join(plan: &DreamPlan, successor: &String, reason: Departure) -> Change {
    let joins = plan.report.joined.iter();
    let told = joins.clone().find(|join| join.after.iter().any(|after| after.id == *successor));
    let written = |id: &String| plan.inserts.iter().find(|row| row.memory.id == *id);
    let together: Vec<&String> = match told {
        Some(join) => join.after.iter().map(|after| &after.id).collect(),
        None => vec![successor],
    };
    let came: Vec<Line> = together.into_iter().filter_map(written).map(|row| line_of(&row.memory)).collect();
    let text = plan.carriers.get(successor).cloned();
    let stays = text.filter(|_| written(successor).is_none());
    Change {
        kind: told.map_or_else(|| word(reason), |join| join.relation.clone()),
        reason: told.map(|join| join.reason.clone()).unwrap_or_default(),
        came: if reason == Departure::Duplicate { vec![] } else { came },
        stays: stays.map(|text| Line { id: successor.clone(), text, importance: None }),
        went: Vec::new(),
    }
}

fn word(reason: Departure) -> String {
    match reason {
        Departure::Undone => "taken_back".into(),
        reason => reason.as_str().to_owned(),
    }
}
