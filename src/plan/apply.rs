//! Executing a plan: the writes in their order, each idempotent and guarded by what was read. Decides nothing; where a
//! guard finds the world changed, the change wins, and what depended on the row is left undone and told.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{DreamPlan, EpisodeMove, PlanError};
use crate::config::Config;
use crate::error::Error;
use crate::state::journal::{ChunkRecord, Fate, Journal, JudgedPair};
use crate::state::ledger::Ledger;
use crate::state::{StateError, append_lines, read_if_there, sync_folder};
use crate::store::{Leaving, Store, Touched};

/// What did not go as planned, because somebody else was there first. For the report.
#[derive(Debug, Default)]
pub struct Applied {
    /// For the operator, a sentence each.
    pub notes: Vec<String>,
    /// Episodes that moved.
    pub moved: Vec<PathBuf>,
    /// Live rows at the end.
    pub live: usize,
}

/// Stores the before-images of everything the plan touches. Comes before the first write: a plan without them could
/// not be undone.
///
/// # Errors
/// When the database cannot be read or the folder cannot be written.
pub async fn store_before_images(plan: &DreamPlan, store: &Store, folder: &Path) -> Result<(), Error> {
    let mut memories: Vec<String> = plan.leaving.iter().map(|leaving| leaving.id.clone()).collect();
    memories.extend(plan.importance.iter().map(|change| change.id.clone()));
    memories.sort();
    memories.dedup();
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
    let mut applied = Applied::default();
    store.archive(&plan.leaving).await?;
    let merged: Vec<_> = plan.merged_drafts.iter().map(|m| (m.row.clone(), m.leaving.clone())).collect();
    store.archive_new(&merged).await?;
    store.put_traces(&plan.traces).await?;
    store.put_raw(&plan.raw).await?;

    let changes: Vec<_> = plan.importance.iter().map(|c| (c.id.clone(), c.to, c.text.clone())).collect();
    let importance = store.set_importance(&changes).await?;
    note(&mut applied, importance.changed.len(), "had been edited meanwhile and kept their importance");
    let dropped = insert(plan, store, &mut applied).await?;
    delete(plan, store, config, &mut applied).await?;
    store
        .unarchive(&plan.unarchive.iter().filter(|id| !dropped.contains(*id)).cloned().collect::<Vec<_>>())
        .await?;

    write_state(plan, config, &dropped)?;
    for episode in &plan.moves {
        move_episode(episode, &mut applied)?;
    }
    applied.live = store.rows(&config.agent).await?.memories.len();
    Ok(applied)
}

fn note(applied: &mut Applied, count: usize, what: &str) {
    if count > 0 {
        applied.notes.push(format!("{count} memories {what}"));
    }
}

/// Inserts the new rows; returns the ids of those that were dropped because a row they rest on had changed.
async fn insert(plan: &DreamPlan, store: &Store, applied: &mut Applied) -> Result<HashSet<String>, Error> {
    let outcome = match store.insert(&plan.inserts).await {
        Ok(outcome) => outcome,
        Err(error) => {
            // Nothing of the step was written; their traces would look like rows somebody deleted.
            let new: Vec<String> = plan.inserts.iter().map(|row| row.memory.id.clone()).collect();
            let live: HashSet<String> =
                store.rows("").await?.memories.into_iter().map(|row| row.id).collect();
            store.remove_traces(&new.into_iter().filter(|id| !live.contains(id)).collect::<Vec<_>>()).await?;
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
    note(applied, dropped.len(), "were not merged: a row they rest on had been edited or deleted meanwhile");
    Ok(dropped)
}

/// Deletes the rows that left, each only if its copy is in the archive, its text is still the one that was read, and its
/// successor, where it has one, is there.
async fn delete(
    plan: &DreamPlan,
    store: &Store,
    config: &Config,
    applied: &mut Applied,
) -> Result<(), Error> {
    let live: HashSet<String> =
        store.rows(&config.agent).await?.memories.into_iter().map(|row| row.id).collect();
    let archived: HashMap<String, String> =
        store.archived_all(&config.agent).await?.into_iter().map(|a| (a.memory.id, a.run)).collect();
    let carried = |leaving: &&Leaving| leaving.successor.as_ref().is_none_or(|id| live.contains(id));
    let copied = |leaving: &&Leaving| archived.get(&leaving.id) == Some(&leaving.run);
    let (going, staying): (Vec<&Leaving>, Vec<&Leaving>) =
        plan.leaving.iter().partition(|leaving| carried(leaving) && copied(leaving));
    let rows: Vec<(String, String)> = going.iter().map(|l| (l.id.clone(), l.text.clone())).collect();
    let outcome = store.delete(&rows).await?;
    note(applied, outcome.changed.len(), "had been edited meanwhile and stay as they are");
    let mut back: Vec<String> = outcome.changed;
    back.extend(staying.iter().filter(|l| live.contains(&l.id) && copied(l)).map(|l| l.id.clone()));
    store.unarchive(&back).await?;
    Ok(())
}

/// Our own files. Chunks whose memory was dropped are held back: their claim must not be lost.
fn write_state(plan: &DreamPlan, config: &Config, dropped: &HashSet<String>) -> Result<(), Error> {
    let state = config.state_dir();
    let lost: HashSet<&String> = plan
        .traces
        .iter()
        .filter(|trace| dropped.contains(&trace.id))
        .flat_map(|trace| trace.sources.iter().map(|source| &source.chunk))
        .collect();
    let journal: Vec<ChunkRecord> = plan
        .journal
        .iter()
        .map(|record| match lost.contains(&record.digest) {
            true => ChunkRecord { fate: Fate::HeldBack, ..record.clone() },
            false => record.clone(),
        })
        .collect();
    Journal::append(&state, &journal)?;
    JudgedPair::append(&state, &plan.judged)?;
    if !plan.ledger.is_empty() {
        write_ledger(plan, &state)?;
    }
    ask(plan, &config.queues_dir().join("review.jsonl"))?;
    Ok(())
}

fn write_ledger(plan: &DreamPlan, state: &Path) -> Result<(), StateError> {
    let mut ledger = Ledger::read(state)?;
    for (agent, change) in &plan.ledger {
        let days = ledger.agents.entry(agent.clone()).or_default();
        days.active.extend(&change.active);
        days.recalls_readable.extend(&change.recalls_readable);
        days.fading_since = change.fading_since;
    }
    ledger.write(state)
}

/// Appends questions that are not in the queue yet.
fn ask(plan: &DreamPlan, path: &Path) -> Result<(), StateError> {
    if plan.review.is_empty() {
        return Ok(());
    }
    let there =
        read_if_there(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<String> = plan
        .review
        .iter()
        .filter(|item| !there.contains(&item.id))
        .map(|item| serde_json::to_string(item).expect("a question is plain data"))
        .collect();
    append_lines(path, &lines)
}

/// Moves a done episode. Never overwrites: same name and other content gets a suffix. A file that changed since it was
/// read stays, and its new chunks come on the next night.
fn move_episode(episode: &EpisodeMove, applied: &mut Applied) -> Result<(), PlanError> {
    let Some(bytes) = read_if_there(&episode.from)? else { return Ok(()) };
    if digest(&bytes) != episode.digest {
        applied.notes.push(format!("{} changed while the night ran: it stays", episode.from.display()));
        return Ok(());
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
                applied.moved.push(target);
                break;
            }
        }
    }
    sync_folder(&episode.to)?;
    Ok(())
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
