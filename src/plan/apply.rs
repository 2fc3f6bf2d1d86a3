//! Executing a plan: the writes in their order, each idempotent and guarded by what was read. Decides nothing; where a
//! guard finds the world changed, the change wins, and what depended on the row is left undone and told.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{DreamPlan, EpisodeMove, PlanError, Run};
use crate::config::Config;
use crate::error::Error;
use crate::memory::{Memory, Reconciled, Trace, text_digest};
use crate::queues;
use crate::state::calibrations::Calibrations;
use crate::state::journal::{ChunkRecord, Fate, Journal, JudgedPair};
use crate::state::ledger::Ledger;
use crate::state::{StateError, read_if_there, sync_folder};
use crate::store::{Leaving, Store, Touched, read_before};

/// Differences below this come from writing a number to the plan and reading it back.
const SAME_IMPORTANCE: f64 = 1e-9;

/// What did not go as planned, because somebody else was there first. For the report.
#[derive(Debug, Default)]
pub struct Applied {
    /// For the operator, a sentence each.
    pub notes: Vec<String>,
    /// New rows that were not inserted.
    pub dropped: HashSet<String>,
    /// Chunks that are held back again, by the fate they would have had.
    pub held_back: BTreeMap<Fate, usize>,
    /// Names of episodes that were to move and stay.
    pub stayed: Vec<String>,
    /// What failed after the memories were written: a night does not go back for it.
    pub failed: Vec<String>,
    /// Live rows at the end.
    pub live: usize,
}

/// The steps of [`apply`], in their order.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Archive,
    ArchiveDrafts,
    Traces,
    Raw,
    Importance,
    Insert,
    Delete,
    Unarchive,
    Journal,
    Judged,
    Ledger,
    Calibration,
    Review,
    Move,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 14] = [
        Self::Archive,
        Self::ArchiveDrafts,
        Self::Traces,
        Self::Raw,
        Self::Importance,
        Self::Insert,
        Self::Delete,
        Self::Unarchive,
        Self::Journal,
        Self::Judged,
        Self::Ledger,
        Self::Calibration,
        Self::Review,
        Self::Move,
    ];
}

/// Stores the before-images of everything the plan touches. Comes before the first write: a plan without them could
/// not be undone.
///
/// # Errors
/// When the database cannot be read or the folder cannot be written.
pub async fn store_before_images(plan: &DreamPlan, store: &Store, folder: &Path) -> Result<(), Error> {
    // The old importance of rows that only decay stands in the plan: their vectors need no copy.
    let memories: Vec<String> = plan.leaving.iter().map(|leaving| leaving.id.clone()).collect();
    let traces: Vec<String> = plan.traces.iter().map(|trace| trace.id.clone()).collect();
    let touched = Touched { memories: &memories, archived: &plan.unarchive, traces: &traces };
    Ok(store.before_images(touched, folder).await?)
}

/// Executes a plan. Doing it twice, or again after it was killed half-way, ends in the same state.
///
/// Order: archive, traces and raw memories, then `memories` (importance, inserts, deletes), then our own files, then the
/// episodes. A row is never gone before its copy in the archive and its successor are durable.
///
/// # Errors
/// When the database or a file cannot be written. What was written stays; applying again goes on.
pub async fn apply(plan: &DreamPlan, store: &Store, config: &Config) -> Result<Applied, Error> {
    apply_until(plan, store, config, Step::Move).await
}

/// Takes back what a run that is given up half-way has left where it would mislead later nights: archive copies of rows
/// that never left, traces of rows it never inserted, and what it noted on rows as if it had dealt with them. What is
/// live stays as it is.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn give_up(run: &Run, store: &Store, config: &Config) -> Result<(), Error> {
    let id = run.id.as_str();
    let live: HashSet<String> =
        store.rows(&config.agent).await?.memories.into_iter().map(|row| row.id).collect();
    let archived = store.archived_all(&config.agent).await?;
    let copies = archived.iter().filter(|copy| copy.run == id).map(|copy| copy.memory.id.clone());
    store.unarchive(&copies.filter(|id| live.contains(id)).collect::<Vec<_>>()).await?;
    let gone: HashSet<&String> = archived.iter().map(|copy| &copy.memory.id).collect();
    // Without its snapshot the traces it wrote are kept, and REM takes their rows up again.
    let before = read_before(&run.folder).map(|before| before.traces).unwrap_or_default();
    let before: HashMap<String, Trace> = before.into_iter().map(|trace| (trace.id.clone(), trace)).collect();
    let (mut back, mut never_came) = (Vec::new(), Vec::new());
    for trace in store.traces().await?.traces.into_values().filter(|trace| trace.run == id) {
        match before.get(&trace.id) {
            Some(old) => back.push(old.clone()),
            None if live.contains(&trace.id) => back.push(Trace { reconciled: Reconciled::Waiting, ..trace }),
            None if gone.contains(&trace.id) => {}
            None => never_came.push(trace.id),
        }
    }
    store.put_traces(&back).await?;
    Ok(store.remove_traces(&never_came).await?)
}

/// [`apply`] that ends after a step, as if it had been killed there.
///
/// # Errors
/// As [`apply`].
#[doc(hidden)]
pub async fn apply_until(
    plan: &DreamPlan,
    store: &Store,
    config: &Config,
    last: Step,
) -> Result<Applied, Error> {
    let mut applying = Applying { plan, store, config, applied: Applied::default(), lost: HashSet::new() };
    for step in Step::ALL.into_iter().filter(|step| *step <= last) {
        applying.take(step).await?;
    }
    let mut applied = applying.applied;
    let counts = |row: &&Memory| plan.only_agent.as_ref().is_none_or(|agent| *agent == row.partition.agent);
    applied.live = store.rows(&config.agent).await?.memories.iter().filter(counts).count();
    Ok(applied)
}

struct Applying<'a> {
    plan: &'a DreamPlan,
    store: &'a Store,
    config: &'a Config,
    applied: Applied,
    /// Digests of chunks whose claim is in no memory, because its row was edited or deleted meanwhile.
    lost: HashSet<String>,
}

impl Applying<'_> {
    async fn take(&mut self, step: Step) -> Result<(), Error> {
        let (plan, store, state) = (self.plan, self.store, self.config.state_dir());
        match step {
            Step::Archive => {
                store.archive(&plan.leaving).await?;
            }
            Step::ArchiveDrafts => {
                let drafts: Vec<_> =
                    plan.merged_drafts.iter().map(|m| (m.row.clone(), m.leaving.clone())).collect();
                store.archive_new(&drafts).await?;
            }
            Step::Traces => {
                store.put_traces(&plan.traces).await?;
            }
            Step::Raw => {
                store.put_raw(&plan.raw).await?;
            }
            Step::Importance => self.change_importance().await?,
            Step::Insert => self.insert().await?,
            Step::Delete => self.delete().await?,
            Step::Unarchive => {
                let dropped = &self.applied.dropped;
                let back: Vec<String> =
                    plan.unarchive.iter().filter(|id| !dropped.contains(*id)).cloned().collect();
                store.unarchive(&back).await?;
            }
            Step::Journal => self.write_journal().await?,
            Step::Judged => JudgedPair::append(&state, &plan.judged)?,
            Step::Ledger => write_ledger(plan, &state)?,
            Step::Calibration => {
                if let Some(calibrated) = &plan.calibrated {
                    Calibrations::keep(&state, calibrated)?;
                }
            }
            Step::Review => queues::write(plan, &self.config.queues_dir())?,
            Step::Move => self.move_episodes(),
        }
        Ok(())
    }

    fn note(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.applied.notes.push(format!("{count} memories {what}"));
        }
    }

    async fn live(&self) -> Result<HashMap<String, Memory>, Error> {
        let rows = self.store.rows(&self.config.agent).await?.memories;
        Ok(rows.into_iter().map(|row| (row.id.clone(), row)).collect())
    }

    /// Writes the importance of today, except where somebody gave the row another one since it was read.
    async fn change_importance(&mut self) -> Result<(), Error> {
        if self.plan.importance.is_empty() {
            return Ok(());
        }
        let live = self.live().await?;
        let same = |one: f64, other: f64| (one - other).abs() < SAME_IMPORTANCE;
        let (ours, theirs): (Vec<_>, Vec<_>) = self.plan.importance.iter().partition(|change| {
            let known = |row: &Memory| {
                row.text != change.text
                    || same(row.importance, change.from)
                    || same(row.importance, change.to)
            };
            live.get(&change.id).is_none_or(known)
        });
        let changes: Vec<_> = ours.iter().map(|c| (c.id.clone(), c.to, c.text.clone())).collect();
        let outcome = self.store.set_importance(&changes).await?;
        self.note(outcome.changed.len(), "had been edited meanwhile and kept their importance");
        self.note(outcome.gone.len(), "had been deleted meanwhile");
        self.note(theirs.len(), "had been given another importance meanwhile and keep it");
        Ok(())
    }

    /// Inserts the new rows. One is dropped when a row it rests on had changed; what was to carry it goes, too.
    async fn insert(&mut self) -> Result<(), Error> {
        let (plan, store) = (self.plan, self.store);
        let outcome = match store.insert(&plan.inserts).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Nothing of the step was written; their traces would look like rows somebody deleted.
                let live = self.live().await?;
                let new = plan.inserts.iter().map(|row| row.memory.id.clone());
                store.remove_traces(&new.filter(|id| !live.contains_key(id)).collect::<Vec<_>>()).await?;
                return Err(error.into());
            }
        };
        let dropped: HashSet<String> = outcome.changed.into_iter().collect();
        if !dropped.is_empty() {
            store.remove_traces(&dropped.iter().cloned().collect::<Vec<_>>()).await?;
            let lost =
                |m: &&super::MergedDraft| m.leaving.successor.as_ref().is_some_and(|id| dropped.contains(id));
            let drafts: Vec<String> =
                plan.merged_drafts.iter().filter(lost).map(|m| m.row.memory.id.clone()).collect();
            store.unarchive(&drafts).await?;
            store.remove_traces(&drafts).await?;
        }
        self.note(dropped.len(), "were not merged: a row they rest on had been edited or deleted meanwhile");
        self.applied.dropped = dropped;
        Ok(())
    }

    /// Deletes the rows that left, each only if its copy is in the archive, its text is still the one that was read,
    /// and its successor, where it has one, is there and still says what it said.
    async fn delete(&mut self) -> Result<(), Error> {
        let (plan, store) = (self.plan, self.store);
        if plan.leaving.is_empty() {
            return Ok(());
        }
        let live = self.live().await?;
        let archived = store.archived_all(&self.config.agent).await?;
        let archived: HashMap<String, String> = archived.into_iter().map(|a| (a.memory.id, a.run)).collect();
        let says = |id: &String| {
            live.get(id).is_some_and(|row| plan.carriers.get(id).is_none_or(|text| *text == row.text))
        };
        let carried = |leaving: &&Leaving| leaving.successor.as_ref().is_none_or(says);
        let copied = |leaving: &&Leaving| archived.get(&leaving.id) == Some(&leaving.run);
        let (going, staying): (Vec<&Leaving>, Vec<&Leaving>) =
            plan.leaving.iter().partition(|leaving| carried(leaving) && copied(leaving));
        let rows: Vec<(String, String)> = going.iter().map(|l| (l.id.clone(), l.text.clone())).collect();
        let outcome = store.delete(&rows).await?;
        let is_live = |leaving: &&&Leaving| live.contains_key(&leaving.id);
        let uncopied = || staying.iter().filter(|l| !copied(l));
        let edited = outcome.changed.len() + uncopied().filter(is_live).count();
        let deleted = uncopied().count() - uncopied().filter(is_live).count();
        let mut back: Vec<String> = outcome.changed;
        let uncarried: Vec<String> =
            staying.iter().filter(is_live).filter(|l| copied(l)).map(|l| l.id.clone()).collect();
        self.note(edited, "had been edited meanwhile and stay as they are");
        self.note(deleted, "that were to leave had been deleted meanwhile");
        self.note(
            uncarried.len(),
            "stay: what was to carry their content had been edited or deleted meanwhile",
        );
        back.extend(uncarried);
        store.unarchive(&back).await?;
        Ok(())
    }

    /// The fates. Chunks whose memory was dropped, edited or deleted are held back: their claim must not be lost.
    async fn write_journal(&mut self) -> Result<(), Error> {
        let live = self.live().await?;
        let plan = self.plan;
        let inserted = plan.inserts.iter().map(|row| &row.memory.id);
        let ours: HashSet<&String> = inserted
            .chain(plan.merged_drafts.iter().map(|m| &m.row.memory.id))
            .chain(plan.leaving.iter().map(|leaving| &leaving.id))
            .collect();
        let lost = |trace: &&crate::memory::Trace| match ours.contains(&trace.id) {
            true => self.applied.dropped.contains(&trace.id),
            false => live.get(&trace.id).is_none_or(|row| text_digest(&row.text) != trace.digest),
        };
        let lost = plan.traces.iter().filter(lost).flat_map(|trace| &trace.sources);
        self.lost = lost.map(|source| source.chunk.clone()).collect();
        let mut journal: Vec<ChunkRecord> = plan.journal.clone();
        for record in journal.iter_mut().filter(|record| self.lost.contains(&record.digest)) {
            *self.applied.held_back.entry(record.fate).or_default() += 1;
            record.fate = Fate::HeldBack;
        }
        Ok(Journal::append(&self.config.state_dir(), &journal)?)
    }

    /// Moves done episodes; one that holds a chunk that is held back again is not done.
    fn move_episodes(&mut self) {
        let lost = |record: &&ChunkRecord| self.lost.contains(&record.digest);
        let open: HashSet<&str> = self.plan.journal.iter().filter(lost).map(|r| r.episode.as_str()).collect();
        for episode in &self.plan.moves {
            let name = episode.from.file_name().unwrap_or_default().to_string_lossy();
            let moved = !open.contains(&*name)
                && move_episode(episode, &mut self.applied).unwrap_or_else(|error| {
                    self.applied.failed.push(crate::error::chain(&error));
                    false
                });
            if !moved {
                self.applied.stayed.push(name.into_owned());
            }
        }
    }
}

fn write_ledger(plan: &DreamPlan, state: &Path) -> Result<(), StateError> {
    if plan.ledger.is_empty() {
        return Ok(());
    }
    let mut ledger = Ledger::read(state)?;
    for (agent, change) in &plan.ledger {
        let days = ledger.agents.entry(agent.clone()).or_default();
        days.active.extend(&change.active);
        days.recalls_readable.extend(&change.recalls_readable);
        days.fading_since = change.fading_since;
    }
    ledger.write(state)
}

/// Moves a done episode. Never overwrites: same name and other content gets a suffix. A file that changed since it was
/// read stays, and its new chunks come on the next night. False if it stays.
fn move_episode(episode: &EpisodeMove, applied: &mut Applied) -> Result<bool, PlanError> {
    let Some(bytes) = read_if_there(&episode.from)? else { return Ok(true) };
    if digest(&bytes) != episode.digest {
        applied.notes.push(format!("{} changed while the night ran: it stays", episode.from.display()));
        return Ok(false);
    }
    let failed = |source| StateError::Write { path: episode.to.clone(), source };
    std::fs::create_dir_all(&episode.to).map_err(failed)?;
    let name = episode.from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.strip_suffix(".md").unwrap_or(&name);
    for number in 1.. {
        let target = match number {
            1 => episode.to.join(&name),
            n => episode.to.join(format!("{stem}.{n}.md")),
        };
        match read_if_there(&target)? {
            Some(there) if digest(&there) == episode.digest => {
                remove(&episode.from)?;
                break;
            }
            Some(_) => continue,
            None => {
                move_file(&episode.from, &target, &bytes)?;
                break;
            }
        }
    }
    sync_folder(&episode.to)?;
    Ok(true)
}

/// A rename, or where the folders are on two file systems a durable copy, then the removal.
fn move_file(from: &Path, to: &Path, bytes: &[u8]) -> Result<(), StateError> {
    if std::fs::rename(from, to).is_ok() {
        return Ok(());
    }
    crate::state::write_atomically(to, bytes)?;
    remove(from)
}

fn remove(path: &Path) -> Result<(), StateError> {
    std::fs::remove_file(path).map_err(|source| StateError::Write { path: path.to_path_buf(), source })
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
