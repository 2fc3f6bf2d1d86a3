//! A run's folder `runs/<run>/`: the plan, the before-images and how far it got. What is there decides how a killed
//! night goes on.

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{DreamPlan, FORMAT, PlanError, Purpose, RunId};
use crate::providers::recorded::Replies;
use crate::report::Status;
use crate::state::{StateError, read_if_there, write_atomically};

/// A plan that was not started within this many hours no longer describes the table.
const FRESH_HOURS: i64 = 12;
/// Replies of an interrupted run are used again for so many days.
const REPLIES_DAYS: i64 = 7;
/// A plan that failed so often is parked: it must not block every later night.
const FAILURES: u32 = 2;

/// How far a run got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Models are asked; their replies are recorded. There is no plan yet.
    Started,
    /// A dry run: finished at the plan, waits for `dreamer apply`.
    Previewed,
    /// The plan and its before-images are stored; nothing is written yet.
    Planned,
    /// Writing.
    Applying,
    /// Everything is written.
    Finished,
    /// Given up: killed before it was planned, not started in time, or what it read no longer holds.
    Abandoned,
    /// Set aside after it failed twice, or because it cannot be read: `dreamer apply` tries it once more.
    Parked,
}

impl Phase {
    /// The word for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Previewed => "previewed",
            Self::Planned => "planned",
            Self::Applying => "being applied",
            Self::Finished => "finished",
            Self::Abandoned => "abandoned",
            Self::Parked => "parked",
        }
    }

    /// Whether some of it, or all, may be written.
    pub fn has_written(self) -> bool {
        matches!(self, Self::Applying | Self::Finished | Self::Parked)
    }

    /// Whether a night was killed in it that a later one goes on with.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Planned | Self::Applying)
    }

    /// Whether replies paid in it are in no memory yet.
    fn leaves_replies(self) -> bool {
        matches!(self, Self::Started | Self::Previewed | Self::Abandoned | Self::Parked)
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
    /// Hex SHA-256 of `plan.json`: a plan that somebody edited is not carried out.
    #[serde(default)]
    pub plan: Option<String>,
    /// How often carrying it out failed.
    #[serde(default)]
    pub failures: u32,
    /// Why it is parked, or why it failed last; of one that finished, what it could not do besides writing the memories.
    #[serde(default)]
    pub why: Option<String>,
    /// The run that used its replies.
    #[serde(default)]
    pub replies_used_by: Option<RunId>,
    /// The run that took back what it changed, unless that one was taken back itself.
    #[serde(default)]
    pub undone_by: Option<RunId>,
}

impl State {
    /// The state of a run that has come so far.
    pub(crate) fn of(phase: Phase, planned_at: DateTime<Utc>) -> Self {
        Self {
            phase,
            purpose: Purpose::Night,
            planned_at,
            finished_at: None,
            plan: None,
            failures: 0,
            why: None,
            replies_used_by: None,
            undone_by: None,
        }
    }
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

    /// Runs with their states, oldest first. One whose state cannot be read is left out: [`Self::damaged`] finds it.
    ///
    /// # Errors
    /// When the folder exists and cannot be listed.
    pub fn states(runs_dir: &Path) -> Result<Vec<(Self, State)>, StateError> {
        let runs = Self::all(runs_dir)?;
        let with_state = |run: Self| run.state().ok().map(|state| (run, state));
        Ok(runs.into_iter().filter_map(with_state).collect())
    }

    /// Runs whose state is there and makes no sense.
    ///
    /// # Errors
    /// When the folder exists and cannot be listed.
    pub fn damaged(runs_dir: &Path) -> Result<Vec<Self>, StateError> {
        let unreadable = |run: &Self| matches!(run.state(), Err(PlanError::Unreadable { .. }));
        Ok(Self::all(runs_dir)?.into_iter().filter(unreadable).collect())
    }

    /// Begins the run: from now on its replies are recorded.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn start(&self, now: DateTime<Utc>) -> Result<(), PlanError> {
        self.write_state(&State::of(Phase::Started, now))
    }

    /// Removes the folder of a run that failed before it had a plan, if nothing was paid for or it is `useless`: there is
    /// nothing in it to go on with.
    pub fn forget_if(&self, useless: bool) {
        if useless || !Replies::folder(&self.folder).is_dir() {
            // What is left is found by the next run, and is as harmless there.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    /// Stores the plan. The before-images must be there already: a plan without them could not be undone.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store_plan(&self, plan: &DreamPlan, phase: Phase) -> Result<(), PlanError> {
        let bytes = serde_json::to_vec(plan)
            .map_err(|e| PlanError::Unreadable { path: self.plan_path(), detail: e.to_string() })?;
        write_atomically(&self.plan_path(), &bytes)?;
        let state = State::of(phase, plan.planned_at);
        self.write_state(&State { purpose: plan.purpose.clone(), plan: Some(digest(&bytes)), ..state })
    }

    /// The folders of replies that were paid for in runs which used them for nothing: killed, previewed or given up not
    /// long ago.
    ///
    /// # Errors
    /// When the folder exists and cannot be listed.
    pub fn unused_replies(runs_dir: &Path, now: DateTime<Utc>) -> Result<Vec<PathBuf>, StateError> {
        let unused = |state: &State| {
            let recent = now.signed_duration_since(state.planned_at) < TimeDelta::days(REPLIES_DAYS);
            state.phase.leaves_replies() && state.replies_used_by.is_none() && recent
        };
        let runs = Self::states(runs_dir)?.into_iter().filter(|(_, state)| unused(state));
        Ok(runs.map(|(run, _)| Replies::folder(&run.folder)).filter(|folder| folder.is_dir()).collect())
    }

    /// Marks the replies of interrupted runs as used by this one, whose plan rests on them.
    ///
    /// # Errors
    /// When a run's state cannot be written.
    pub fn use_up_replies(&self, runs_dir: &Path) -> Result<(), PlanError> {
        for (run, state) in Self::states(runs_dir)? {
            if run.id != self.id && state.phase.leaves_replies() && state.replies_used_by.is_none() {
                run.write_state(&State { replies_used_by: Some(self.id.clone()), ..state })?;
            }
        }
        Ok(())
    }

    /// Reads the plan. The report of a run that finished with a failure says so: it was planned before that was known.
    ///
    /// # Errors
    /// When there is none, or it is damaged or of another format.
    pub fn read_plan(&self) -> Result<DreamPlan, PlanError> {
        let path = self.plan_path();
        let Some(bytes) = read_if_there(&path)? else {
            return Err(PlanError::NoSuchRun { run: self.id.as_str().to_owned(), path });
        };
        let state = self.state()?;
        if state.plan.is_some_and(|written| written != digest(&bytes)) {
            let detail = "it is not what was written there; nothing of it is carried out".to_owned();
            return Err(PlanError::Unreadable { path, detail });
        }
        let mut plan: DreamPlan = serde_json::from_slice(&bytes)
            .map_err(|e| PlanError::Unreadable { path: path.clone(), detail: e.to_string() })?;
        if !(1..=FORMAT).contains(&plan.format) {
            let detail = format!("format {} is not one this program reads", plan.format);
            return Err(PlanError::Unreadable { path, detail });
        }
        if state.phase == Phase::Finished && state.why.is_some() {
            plan.report.status = Status::Failed;
            plan.report.failure = state.why;
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

    /// Ends it, and notes what it could not do besides writing the memories.
    ///
    /// # Errors
    /// When the run's state cannot be read or written.
    pub fn finish(&self, now: DateTime<Utc>, failure: Option<&str>) -> Result<(), PlanError> {
        let why = failure.map(str::to_owned);
        self.write_state(&State { phase: Phase::Finished, finished_at: Some(now), why, ..self.state()? })
    }

    /// Sets the digest by which the plan is known: of these bytes, or none while the plan is rewritten. A run without a
    /// state that can be read has none to set.
    ///
    /// # Errors
    /// When the run's state cannot be written.
    pub(crate) fn set_plan_digest(&self, plan: Option<&[u8]>) -> Result<(), PlanError> {
        match self.state() {
            Ok(state) => self.write_state(&State { plan: plan.map(digest), ..state }),
            Err(_) => Ok(()),
        }
    }

    /// Notes that carrying it out failed; parks it if that was once too often. Returns whether it is parked.
    ///
    /// # Errors
    /// When the run's state cannot be read or written.
    pub fn note_failure(&self, why: &str) -> Result<bool, PlanError> {
        let mut state = self.state()?;
        state.failures += 1;
        state.why = Some(why.to_owned());
        let parked = state.failures >= FAILURES;
        if parked {
            state.phase = Phase::Parked;
        }
        self.write_state(&state)?;
        Ok(parked)
    }

    /// Parks a run whose state makes no sense; what was in the file stays beside it, as `state.json.damaged`.
    ///
    /// # Errors
    /// When the run's folder cannot be written.
    pub fn park_damaged(&self, now: DateTime<Utc>) -> Result<(), PlanError> {
        let (path, aside) = (self.state_path(), self.folder.join("state.json.damaged"));
        std::fs::copy(&path, &aside).map_err(|source| StateError::Write { path: aside, source })?;
        let why = Some("its state.json could not be read".to_owned());
        self.write_state(&State { why, ..State::of(Phase::Parked, now) })
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
        if matches!(state.phase, Phase::Started | Phase::Finished | Phase::Abandoned) {
            return Err(PlanError::Over { run: self.id.clone(), phase: state.phase.as_str() });
        }
        let stale = |why: String| Err(PlanError::Stale { run: self.id.clone(), why });
        if !matches!(state.phase, Phase::Applying | Phase::Parked) && !self.is_fresh(now)? {
            return stale(format!("it was planned more than {FRESH_HOURS} hours ago"));
        }
        if let Some(other) = self.overtaken(runs_dir)? {
            return stale(format!("run {} has changed the memories since", other.id));
        }
        for (other, _) in Self::states(runs_dir)?.iter().filter(|(other, _)| other.id != self.id) {
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
        let later = |other: &Self, state: &State| {
            other.id != self.id && state.finished_at.is_some_and(|at| at > planned_at)
        };
        let found = Self::states(runs_dir)?.into_iter().find(|(other, state)| later(other, state));
        Ok(found.map(|(other, _)| other))
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

/// When the last night finished. What the operator did by hand is no night.
///
/// # Errors
/// When the runs folder cannot be read.
pub fn last_finished(runs_dir: &Path) -> Result<Option<DateTime<Utc>>, PlanError> {
    let nights = Run::states(runs_dir)?.into_iter().filter(|(_, state)| state.purpose == Purpose::Night);
    Ok(nights.filter_map(|(_, state)| state.finished_at).max())
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::{Config, Layers};
    use crate::preview::last_run;

    #[test]
    fn a_run_that_finished_and_failed_besides_says_so_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (config, _) =
            Config::resolve(&Layers::of(&[("DREAMER_HOME", dir.path().to_str().unwrap())])).unwrap();
        let now: DateTime<Utc> = "2026-03-10T03:00:00Z".parse().unwrap();
        let run = Run::of(&config.runs_dir(), RunId::new(now, 7));
        let plan = DreamPlan { format: FORMAT, run: run.id.clone(), planned_at: now, ..DreamPlan::default() };
        run.store_plan(&plan, Phase::Applying).unwrap();
        run.note_failure("the disk was full").unwrap();
        let last = || {
            let last = last_run(&config, &mut vec![]).unwrap().unwrap();
            (last.status.unwrap(), last.held_back)
        };
        let why = "move 2026-03-08.md: Read-only file system";
        run.finish(now, Some(why)).unwrap();
        assert_eq!(run.state().unwrap().why.as_deref(), Some(why));
        assert_eq!(last(), ("failed".into(), Some(why.into())));
        // What an earlier try failed for is over when a later one ends well.
        run.finish(now, None).unwrap();
        assert_eq!(last().1, None);
        assert_ne!(last().0, "failed");
    }
}
