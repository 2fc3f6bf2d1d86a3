//! Executing a plan: the writes in their order, each idempotent and guarded by what was read. Decides nothing; where a
//! guard finds the world changed, the change wins, and what depended on the row is left undone and told.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{DreamPlan, EpisodeMove, PlanError, Purpose, PutBack, Run, forgotten};
use crate::config::Config;
use crate::error::Error;
use crate::forget::erase;
use crate::language::counted;
use crate::memory::{Memory, Reconciled, Trace, text_digest};
use crate::memory_archive;
use crate::queues;
use crate::state::calibrations::Calibrations;
use crate::state::journal::{ChunkRecord, Fate, Journal, JudgedPair};
use crate::state::ledger::Ledger;
use crate::state::recalls::RecallBook;
use crate::state::tombstones::Tombstones;
use crate::state::{StateError, read_if_there, sync_folder};
use crate::store::{Imaged, Leaving, Store, Touched, read_before};

/// Differences below this come from writing a number to the plan and reading it back.
const SAME_IMPORTANCE: f64 = 1e-9;

/// What did not go as planned, because somebody else was there first. For the report.
#[derive(Debug, Default)]
pub struct Applied {
    /// For the operator, a sentence each.
    pub notes: Vec<String>,
    /// New rows that were not inserted.
    pub dropped: HashSet<String>,
    /// Rows and drafts that are in the archive now because this plan put them there.
    pub archived: HashSet<String>,
    /// Rows whose importance was not changed.
    pub kept_importance: HashSet<String>,
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
    Copy,
    Archive,
    ArchiveDrafts,
    Rearchive,
    Traces,
    Raw,
    Importance,
    Insert,
    PutBack,
    Delete,
    Unarchive,
    Settle,
    DropTraces,
    Journal,
    Judged,
    Mark,
    Ledger,
    Calibration,
    Review,
    Forget,
    Move,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 21] = [
        Self::Copy,
        Self::Archive,
        Self::ArchiveDrafts,
        Self::Rearchive,
        Self::Traces,
        Self::Raw,
        Self::Importance,
        Self::Insert,
        Self::PutBack,
        Self::Delete,
        Self::Unarchive,
        Self::Settle,
        Self::DropTraces,
        Self::Journal,
        Self::Judged,
        Self::Mark,
        Self::Ledger,
        Self::Calibration,
        Self::Review,
        Self::Forget,
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
    let leaving = plan.leaving.iter().map(|leaving| &leaving.id);
    let memories: Vec<String> = leaving.chain(plan.rearchive.iter().map(|row| &row.id)).cloned().collect();
    let traces = plan.traces.iter().map(|trace| &trace.id);
    let back = plan.traces_back.iter().map(|trace| &trace.id);
    let traces: Vec<String> = traces.chain(back).chain(&plan.drop_traces).cloned().collect();
    let touched = Touched { memories: &memories, archived: &plan.unarchive, traces: &traces };
    Ok(store.before_images(touched, folder).await?)
}

/// Executes a plan. Doing it twice, or again after it was killed half-way, ends in the same state.
///
/// Order: readable copies, archive, traces and raw memories, then `memories` (importance, inserts, deletes), then our own files, then the
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
    let counts = |row: &&Memory| plan.touches(&row.partition.agent);
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
            Step::Copy => memory_archive::copy(plan, store, self.config).await?,
            Step::Archive => {
                store.archive(&plan.leaving).await?;
            }
            Step::ArchiveDrafts => {
                let drafts: Vec<_> =
                    plan.merged_drafts.iter().map(|m| (m.row.clone(), m.leaving.clone())).collect();
                store.archive_new(&drafts).await?;
            }
            Step::Rearchive => {
                store.rearchive(&self.imaged(&plan.rearchive)).await?;
            }
            Step::Traces => {
                store.put_traces(&plan.traces).await?;
                store.put_stored_traces(&plan.traces_back).await?;
            }
            Step::Raw => {
                store.put_raw(&plan.raw).await?;
            }
            Step::Importance => self.change_importance().await?,
            Step::Insert => self.insert().await?,
            Step::PutBack => self.put_back().await?,
            Step::Delete => self.delete().await?,
            Step::Unarchive => {
                let dropped = &self.applied.dropped;
                let back: Vec<String> =
                    plan.unarchive.iter().filter(|id| !dropped.contains(*id)).cloned().collect();
                store.unarchive(&back).await?;
            }
            Step::Settle => self.settle_copies().await?,
            Step::DropTraces => store.remove_traces(&plan.drop_traces).await?,
            Step::Journal => self.write_journal().await?,
            Step::Judged => JudgedPair::append(&state, &plan.judged)?,
            Step::Mark => mark(plan, &self.config.runs_dir())?,
            Step::Ledger => {
                RecallBook::append(&state, &plan.recalls)?;
                write_ledger(plan, &state)?;
            }
            Step::Calibration => {
                if let Some(calibrated) = &plan.calibrated {
                    Calibrations::keep(&state, calibrated)?;
                }
            }
            Step::Review => queues::write(plan, &self.config.queues_dir())?,
            Step::Forget => self.forget().await?,
            Step::Move => self.move_episodes(),
        }
        Ok(())
    }

    fn note(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.applied.notes.push(format!("{} {what}", counted(count, "memory")));
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
        let kept = theirs.iter().map(|change| &change.id).chain(&outcome.changed).chain(&outcome.gone);
        self.applied.kept_importance = kept.cloned().collect();
        self.note(outcome.changed.len(), "edited meanwhile: importance kept");
        self.note(outcome.gone.len(), "deleted meanwhile");
        self.note(theirs.len(), "given another importance meanwhile: kept");
        Ok(())
    }

    /// Inserts the new rows. One is dropped when a row it rests on had changed; what was to carry it goes, too.
    async fn insert(&mut self) -> Result<(), Error> {
        let (plan, store) = (self.plan, self.store);
        let (forgotten, inserts) = forgotten::without_forgotten(plan, self.config)?;
        self.note(forgotten.len(), "were not written: they were forgotten on purpose");
        let outcome = match store.insert(&inserts).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Nothing of the step was written; their traces would look like rows somebody deleted.
                let live = self.live().await?;
                let new = plan.inserts.iter().map(|row| row.memory.id.clone());
                store.remove_traces(&new.filter(|id| !live.contains_key(id)).collect::<Vec<_>>()).await?;
                return Err(error.into());
            }
        };
        let changed = outcome.changed.len();
        let dropped: HashSet<String> = outcome.changed.into_iter().chain(forgotten).collect();
        if !dropped.is_empty() {
            store.remove_traces(&dropped.iter().cloned().collect::<Vec<_>>()).await?;
            let lost =
                |m: &&super::MergedDraft| m.leaving.successor.as_ref().is_some_and(|id| dropped.contains(id));
            let drafts: Vec<String> =
                plan.merged_drafts.iter().filter(lost).map(|m| m.row.memory.id.clone()).collect();
            store.unarchive(&drafts).await?;
            store.remove_traces(&drafts).await?;
        }
        self.note(changed, "not merged: a row underneath had been edited or deleted meanwhile");
        self.applied.dropped = dropped;
        Ok(())
    }

    fn imaged(&self, rows: &[PutBack]) -> Vec<Imaged> {
        let folder = |row: &PutBack| self.config.runs_dir().join(row.run.as_str());
        let imaged =
            |row: &PutBack| Imaged { id: row.id.clone(), text: row.text.clone(), run_folder: folder(row) };
        rows.iter().map(imaged).collect()
    }

    /// Inserts rows again as before-images hold them. One that is live with other words keeps its copy in the archive.
    async fn put_back(&mut self) -> Result<(), Error> {
        let forgotten = forgotten::forgotten_rows(self.plan, self.store, self.config).await?;
        let (gone, rows): (Vec<PutBack>, Vec<PutBack>) =
            self.plan.put_back.iter().cloned().partition(|row| forgotten.contains(&row.id));
        self.note(gone.len(), "do not come back: they were forgotten on purpose");
        self.applied.dropped.extend(gone.into_iter().map(|row| row.id));
        let outcome = self.store.put_back(&self.imaged(&rows)).await?;
        self.note(outcome.changed.len(), "do not come back: a row with their id is there meanwhile");
        self.note(outcome.gone.len(), "do not come back: they had been deleted or forgotten meanwhile");
        // What is not live keeps its copy in the archive, if it has one.
        self.applied.dropped.extend(outcome.changed.into_iter().chain(outcome.gone));
        Ok(())
    }

    /// Deletes the rows that left, each only if its copy is in the archive, its text is still the one that was read,
    /// and its successor, where it has one, is there and still says what it said.
    async fn delete(&mut self) -> Result<(), Error> {
        let (plan, store) = (self.plan, self.store);
        if plan.leaving.is_empty() && plan.rearchive.is_empty() {
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
        let again = plan.rearchive.iter().filter(|row| archived.contains_key(&row.id));
        let again = again.map(|row| (row.id.clone(), row.text.clone()));
        let rows: Vec<(String, String)> =
            going.iter().map(|l| (l.id.clone(), l.text.clone())).chain(again).collect();
        let outcome = store.delete(&rows).await?;
        let is_live = |leaving: &&&Leaving| live.contains_key(&leaving.id);
        let uncopied = || staying.iter().filter(|l| !copied(l));
        let edited = outcome.changed.len() + uncopied().filter(is_live).count();
        let deleted = uncopied().count() - uncopied().filter(is_live).count();
        let mut back: Vec<String> = outcome.changed;
        let uncarried: Vec<String> =
            staying.iter().filter(is_live).filter(|l| copied(l)).map(|l| l.id.clone()).collect();
        self.note(edited, "edited meanwhile: left in place");
        self.note(deleted, "to leave, deleted meanwhile");
        self.note(
            uncarried.len(),
            "kept: what was to carry the content had been edited or deleted meanwhile",
        );
        back.extend(uncarried);
        store.unarchive(&back).await?;
        Ok(())
    }

    /// Notes what is in the archive for good, and takes the readable copies of all else away again.
    async fn settle_copies(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        let drafts = plan.merged_drafts.iter().map(|merged| &merged.leaving);
        let leaving: Vec<&Leaving> = plan.leaving.iter().chain(drafts).collect();
        if leaving.is_empty() {
            return Ok(());
        }
        let archived = self.store.archived_all(&self.config.agent).await?;
        let runs: HashMap<String, String> = archived.into_iter().map(|a| (a.memory.id, a.run)).collect();
        let left = leaving.into_iter().filter(|leaving| runs.get(&leaving.id) == Some(&leaving.run));
        let left: HashSet<String> = left.map(|leaving| leaving.id.clone()).collect();
        let folder = self.config.memory_archive_dir();
        memory_archive::retain(&folder, plan.run.as_str(), |copy| left.contains(copy.id()))?;
        self.applied.archived = left;
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

    /// What was forgotten on purpose: tombstones first, so that nothing of it comes back, then our copies of it.
    async fn forget(&mut self) -> Result<(), Error> {
        let (plan, state) = (self.plan, self.config.state_dir());
        if plan.erased.is_empty() && plan.tombstones.is_empty() && plan.lifted.is_empty() {
            return Ok(());
        }
        // Somebody may have put a row back since it was found missing.
        let live = self.live().await?;
        let leaves: HashSet<&String> = plan.leaving.iter().map(|leaving| &leaving.id).collect();
        let gone = |id: &String| !live.contains_key(id) || leaves.contains(id);
        let tombstones: Vec<_> = plan.tombstones.iter().filter(|t| gone(&t.id)).cloned().collect();
        Tombstones::append(&state, &tombstones)?;
        Tombstones::lift(&state, &plan.lifted, plan.planned_at)?;
        let erased = plan.erased.iter().filter(|id| gone(id)).cloned().collect();
        let forgotten = tombstones.into_iter().map(|tombstone| tombstone.id).collect();
        erase::copies(self.config, self.store, &plan.run, &erased, &forgotten).await
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

/// Notes at the run that is taken back which run did it. Where that one had taken back another run itself, what that had
/// done holds again, and so on.
fn mark(plan: &DreamPlan, runs: &Path) -> Result<(), PlanError> {
    let (mut by, mut purpose, mut undone) = (plan.run.clone(), plan.purpose.clone(), true);
    while let Purpose::Rollback { of } = purpose {
        let run = Run::of(runs, of);
        // A run whose folder was pruned cannot be taken back any more: there is nothing to note.
        let Ok(state) = run.state() else { return Ok(()) };
        run.set_undone_by(undone.then_some(&by))?;
        (by, purpose, undone) = (run.id, state.purpose, !undone);
    }
    Ok(())
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
    crate::state::create_folder(&episode.to).map_err(failed)?;
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
