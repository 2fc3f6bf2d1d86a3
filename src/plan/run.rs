//! A run's folder `runs/<run>/`: the plan, the before-images and how far it got. What is there decides how a killed
//! night goes on.

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{DreamPlan, FORMAT, PlanError, Purpose, RunId};
use crate::state::{StateError, read_if_there, write_atomically};

/// A plan that was not started within this many hours no longer describes the table.
const FRESH_HOURS: i64 = 12;

/// How far a run got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A dry run: finished at the plan, waits for `dreamer apply`.
    Previewed,
    /// The plan and its before-images are stored; nothing is written yet.
    Planned,
    /// Writing.
    Applying,
    /// Everything is written.
    Finished,
    /// Given up: not started in time, or what it read no longer holds.
    Abandoned,
}

impl Phase {
    /// The word for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Previewed => "previewed",
            Self::Planned => "planned",
            Self::Applying => "being applied",
            Self::Finished => "finished",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether some of it, or all, may be written.
    pub fn has_written(self) -> bool {
        matches!(self, Self::Applying | Self::Finished)
    }

    /// Whether a night was killed in it.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Planned | Self::Applying)
    }
}

/// What `state.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// How far it got.
    pub phase: Phase,
    /// What it is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// When it was made.
    pub planned_at: DateTime<Utc>,
    /// When it finished.
    #[serde(default)]
    pub finished_at: Option<DateTime<Utc>>,
    /// The run that took back what it changed, unless that one was taken back itself.
    #[serde(default)]
    pub undone_by: Option<RunId>,
}

/// A run on disk.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its folder.
    pub folder: PathBuf,
}

impl Run {
    /// The run of that id, which may not exist yet.
    pub fn of(runs_dir: &Path, id: RunId) -> Self {
        let folder = runs_dir.join(id.as_str());
        Self { id, folder }
    }

    /// Every run that has a state, oldest first. Folders that are not runs are passed over.
    ///
    /// # Errors
    /// When the folder exists and cannot be listed.
    pub fn all(runs_dir: &Path) -> Result<Vec<Self>, StateError> {
        let failed = |source| StateError::Read { path: runs_dir.to_path_buf(), source };
        let entries = match std::fs::read_dir(runs_dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(e) => return Err(failed(e)),
        };
        let mut runs = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let id = name.to_str().and_then(RunId::parse);
            runs.extend(id.map(|id| Self::of(runs_dir, id)).filter(|run| run.state_path().exists()));
        }
        runs.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(runs)
    }

    fn state_path(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    fn plan_path(&self) -> PathBuf {
        self.folder.join("plan.json")
    }

    /// Stores the plan. The before-images must be there already: a plan without them could not be undone.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store_plan(&self, plan: &DreamPlan, phase: Phase) -> Result<(), PlanError> {
        let bytes = serde_json::to_vec(plan)
            .map_err(|e| PlanError::Unreadable { path: self.plan_path(), detail: e.to_string() })?;
        write_atomically(&self.plan_path(), &bytes)?;
        let purpose = plan.purpose.clone();
        self.write_state(&State {
            phase,
            purpose,
            planned_at: plan.planned_at,
            finished_at: None,
            undone_by: None,
        })
    }

    /// Reads the plan.
    ///
    /// # Errors
    /// When there is none, or it is damaged or of another format.
    pub fn read_plan(&self) -> Result<DreamPlan, PlanError> {
        let path = self.plan_path();
        let Some(bytes) = read_if_there(&path)? else {
            return Err(PlanError::NoSuchRun { run: self.id.as_str().to_owned(), path });
        };
        let plan: DreamPlan = serde_json::from_slice(&bytes)
            .map_err(|e| PlanError::Unreadable { path: path.clone(), detail: e.to_string() })?;
        if !(1..=FORMAT).contains(&plan.format) {
            let detail = format!("format {} is not one this program reads", plan.format);
            return Err(PlanError::Unreadable { path, detail });
        }
        Ok(plan)
    }

    /// What `state.json` holds.
    ///
    /// # Errors
    /// When there is none, or it cannot be understood.
    pub fn state(&self) -> Result<State, PlanError> {
        let path = self.state_path();
        let Some(bytes) = read_if_there(&path)? else {
            return Err(PlanError::NoSuchRun { run: self.id.as_str().to_owned(), path });
        };
        serde_json::from_slice(&bytes).map_err(|e| PlanError::Unreadable { path, detail: e.to_string() })
    }

    fn write_state(&self, state: &State) -> Result<(), PlanError> {
        let bytes = serde_json::to_vec(state).expect("a state is plain data");
        Ok(write_atomically(&self.state_path(), &bytes)?)
    }

    /// How far it got.
    ///
    /// # Errors
    /// When the run's state cannot be read.
    pub fn phase(&self) -> Result<Phase, PlanError> {
        Ok(self.state()?.phase)
    }

    /// When it finished, if it did.
    ///
    /// # Errors
    /// When the run's state cannot be read.
    pub fn finished_at(&self) -> Result<Option<DateTime<Utc>>, PlanError> {
        Ok(self.state()?.finished_at)
    }

    /// Goes on to a phase.
    ///
    /// # Errors
    /// When the run's state cannot be read or written.
    pub fn enter(&self, phase: Phase, now: DateTime<Utc>) -> Result<(), PlanError> {
        let mut state = self.state()?;
        state.phase = phase;
        if phase == Phase::Finished {
            state.finished_at = Some(now);
        }
        self.write_state(&state)
    }

    /// Notes which run took back what this one changed, or that none did after all.
    ///
    /// # Errors
    /// When the run's state cannot be read or written.
    pub fn set_undone_by(&self, by: Option<&RunId>) -> Result<(), PlanError> {
        let state = self.state()?;
        if state.undone_by.as_ref() == by {
            return Ok(());
        }
        self.write_state(&State { undone_by: by.cloned(), ..state })
    }

    /// Whether the plan is young enough to be started.
    ///
    /// # Errors
    /// When the run's state cannot be read.
    pub fn is_fresh(&self, now: DateTime<Utc>) -> Result<bool, PlanError> {
        Ok(now - self.state()?.planned_at < TimeDelta::hours(FRESH_HOURS))
    }

    /// Refuses a previewed plan that may not be applied any more: too old, over, or overtaken by another run.
    ///
    /// # Errors
    /// [`PlanError::Over`] or [`PlanError::Stale`], with the reason.
    pub fn check_applicable(&self, runs_dir: &Path, now: DateTime<Utc>) -> Result<(), PlanError> {
        let state = self.state()?;
        if matches!(state.phase, Phase::Finished | Phase::Abandoned) {
            return Err(PlanError::Over { run: self.id.clone(), phase: state.phase.as_str() });
        }
        let stale = |why: String| Err(PlanError::Stale { run: self.id.clone(), why });
        if state.phase != Phase::Applying && !self.is_fresh(now)? {
            return stale(format!("it was planned more than {FRESH_HOURS} hours ago"));
        }
        if let Some(other) = self.overtaken(runs_dir)? {
            return stale(format!("run {} has changed the memories since", other.id));
        }
        for other in Self::all(runs_dir)?.iter().filter(|other| other.id != self.id) {
            if other.is_pending(now)? {
                return stale(format!(
                    "run {} was interrupted, and a full run must go on with it first",
                    other.id
                ));
            }
        }
        Ok(())
    }

    /// A run that finished after this one was planned.
    ///
    /// # Errors
    /// When a run's state cannot be read.
    pub fn overtaken(&self, runs_dir: &Path) -> Result<Option<Self>, PlanError> {
        let planned_at = self.state()?.planned_at;
        for other in Self::all(runs_dir)? {
            if other.id != self.id && other.finished_at()?.is_some_and(|at| at > planned_at) {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Whether the next night goes on with it: it was killed while it was applied, or before and not long ago.
    ///
    /// # Errors
    /// When the run's state cannot be read.
    pub fn is_pending(&self, now: DateTime<Utc>) -> Result<bool, PlanError> {
        let phase = self.phase()?;
        Ok(phase == Phase::Applying || phase.is_unfinished() && self.is_fresh(now)?)
    }
}

/// When the last night finished: what takes a night back is none, and does not stand for tonight's.
///
/// # Errors
/// When the runs folder cannot be read.
pub fn last_finished(runs_dir: &Path) -> Result<Option<DateTime<Utc>>, PlanError> {
    let mut last = None;
    for run in Run::all(runs_dir)? {
        let state = run.state()?;
        if state.purpose == Purpose::Night {
            last = last.max(state.finished_at);
        }
    }
    Ok(last)
}
