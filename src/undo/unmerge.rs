//! `dreamer unmerge`: the originals of one merge back in its place. A run of its own, which can be taken back.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use chrono::{DateTime, Utc};

use super::apart::{Said, pairs_of};
use super::world::World;
use super::{carry_out_undo, next_id};
use crate::config::Config;
use crate::dream::recover;
use crate::error::Error;
use crate::memory::{Archived, Departure, Memory, Trace, text_digest};
use crate::plan::{DreamPlan, FORMAT, Purpose, RunId};
use crate::report::{DreamReport, Row, Status, Undone};
use crate::restore::rebased;
use crate::state::journal::JudgedPair;
use crate::state::lock::Lock;
use crate::store::{Inherit, Leaving, NewRow, Store};

/// Why a merge could not be taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnmergeError {
    /// No memory has such an id.
    #[error("unmerge {id}: no memory, live or archived, has an id that begins so")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// More than one memory has such an id.
    #[error("unmerge {id}: {count} memories have ids that begin so; give more of it")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
    },
    /// It was not merged from others.
    #[error("unmerge {id}: it is no merge: nothing is known that it was merged from")]
    NotAMerge {
        /// The memory.
        id: String,
    },
    /// It is no longer what was merged.
    #[error(
        "unmerge {id}: it was edited since it was merged, so it stays; `dreamer restore` brings its originals back \
         beside it: {originals}"
    )]
    Edited {
        /// The memory.
        id: String,
        /// Their ids.
        originals: String,
    },
    /// Originals are neither live nor archived.
    #[error(
        "unmerge {id}: of its originals these are not in the archive any more: {missing}; nothing was changed"
    )]
    OriginalsGone {
        /// The memory.
        id: String,
        /// Their ids.
        missing: String,
    },
    /// All originals are live.
    #[error("unmerge {id}: its originals are live already; nothing was changed")]
    Nothing {
        /// The memory.
        id: String,
    },
}

/// Brings the originals of the merge whose id is `id`, or begins so, back in its place.
///
/// # Errors
/// When there is no such merge, it was edited, its originals are gone, another run holds the lock, or a write fails.
pub async fn unmerge(
    config: &Config,
    id: &str,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    let _lock = Lock::take(&config.state_dir())?;
    let store = Store::open(&config.lancedb_uri).await?;
    for told in recover(config, &store, now).await? {
        tracing::warn!("{told}");
    }
    let world = World::read(&store, &config.agent).await?;
    let merge = find(&world, id)?;
    let originals = originals(&world, &merge)?;
    let ids: Vec<String> = originals.iter().map(|copy| copy.memory.id.clone()).collect();
    let vectors = store.archived_vectors(&ids).await?;
    let gone: Vec<&String> =
        ids.iter().filter(|id| vectors.get(*id).is_none_or(|v| v.len() != store.dim())).collect();
    if !gone.is_empty() {
        let missing = gone.into_iter().cloned().collect::<Vec<_>>().join(", ");
        return Err(UnmergeError::OriginalsGone { id: merge.id, missing }.into());
    }
    let plan = plan(config, &world, &merge, &originals, &vectors, next_id(config, now)?, now);
    carry_out_undo(plan, &store, config, now, started).await
}

/// The one memory whose id is `id` or begins so, live or archived.
fn find(world: &World, id: &str) -> Result<Memory, UnmergeError> {
    let id = id.trim().to_ascii_lowercase();
    let all: BTreeSet<&String> = world.rows.keys().chain(world.archived.keys()).collect();
    let exact = all.iter().any(|known| known.eq_ignore_ascii_case(&id));
    let fits = |known: &&&String| {
        let known = known.to_ascii_lowercase();
        if exact { known == id } else { !id.is_empty() && known.starts_with(&id) }
    };
    let found: Vec<&&String> = all.iter().filter(fits).collect();
    let memory =
        |id: &String| world.rows.get(id).or_else(|| world.archived.get(id).map(|copy| &copy.memory)).cloned();
    match found.as_slice() {
        [one] => memory(one).ok_or(UnmergeError::NotFound { id }),
        [] => Err(UnmergeError::NotFound { id }),
        many => Err(UnmergeError::Ambiguous { id, count: many.len() }),
    }
}

/// The archived originals of a merge.
fn originals(world: &World, merge: &Memory) -> Result<Vec<Archived>, UnmergeError> {
    let id = merge.id.clone();
    let trace = world.traces.get(&id).and_then(|trace| trace.read());
    let Some(trace) = trace.filter(|trace| !trace.merged_from.is_empty()) else {
        return Err(UnmergeError::NotAMerge { id });
    };
    if world.rows.get(&id).is_some_and(|row| text_digest(&row.text) != trace.digest) {
        return Err(UnmergeError::Edited { id, originals: trace.merged_from.join(", ") });
    }
    let missing: Vec<String> = trace.merged_from.iter().filter(|id| !world.holds(id)).cloned().collect();
    if !missing.is_empty() {
        return Err(UnmergeError::OriginalsGone { id, missing: missing.join(", ") });
    }
    let archived = trace.merged_from.iter().filter(|id| !world.rows.contains_key(*id));
    let archived: Vec<Archived> = archived.filter_map(|id| world.archived.get(id)).cloned().collect();
    // A merge that is live goes, even if its originals are back already.
    if archived.is_empty() && !world.rows.contains_key(&id) {
        return Err(UnmergeError::Nothing { id });
    }
    Ok(archived)
}

fn plan(
    config: &Config,
    world: &World,
    merge: &Memory,
    originals: &[Archived],
    vectors: &HashMap<String, Vec<f32>>,
    run: RunId,
    now: DateTime<Utc>,
) -> DreamPlan {
    let today = now.with_timezone(&config.timezone).date_naive();
    let is_live = world.rows.contains_key(&merge.id);
    let only_if = if is_live { vec![(merge.id.clone(), merge.text.clone())] } else { vec![] };
    let mut plan = DreamPlan { format: FORMAT, run, planned_at: now, ..DreamPlan::default() };
    let mut undone = Undone {
        what: format!("The merge {} is taken back: its originals stand in its place", merge.id),
        ..Undone::default()
    };
    for copy in originals {
        let id = copy.memory.id.clone();
        let old = world.traces.get(&id).and_then(|trace| trace.read());
        // Forgetting starts anew, or what was merged long ago would fade tonight.
        let trace = Trace { run: plan.run.to_string(), ..rebased(old, &copy.memory, config, today) };
        let memory = Memory { importance: trace.written, ..copy.memory.clone() };
        undone.back.push(Row { id: id.clone(), text: memory.text.clone() });
        plan.traces.push(trace);
        plan.unarchive.push(id.clone());
        let vector = vectors.get(&id).cloned().unwrap_or_default();
        plan.inserts.push(NewRow {
            memory,
            vector,
            inherit: Inherit::Archived(id),
            only_if: only_if.clone(),
        });
    }
    if is_live {
        undone.gone.push(Row { id: merge.id.clone(), text: merge.text.clone() });
        plan.leaving.push(Leaving {
            id: merge.id.clone(),
            text: merge.text.clone(),
            reason: Departure::Undone,
            successor: None,
            run: plan.run.to_string(),
            at: now.timestamp_millis(),
        });
    }
    plan.judged = kept_apart(world, merge);
    undone.kept_apart = plan.judged.len();
    let (before, came, went) = (world.rows.len(), plan.inserts.len(), plan.leaving.len());
    plan.report = DreamReport {
        run: plan.run.to_string(),
        status: Status::Done,
        started: now,
        mode: format!("unmerge of {}", merge.id),
        live: (before, before + came - went),
        undone: Some(undone),
        ..DreamReport::default()
    };
    DreamPlan { purpose: Purpose::Unmerge { id: merge.id.clone() }, home: config.home.clone(), ..plan }
}

/// Each pair of the originals, the merge, and the live memory that carries it on, if it is archived itself.
fn kept_apart(world: &World, merge: &Memory) -> Vec<JudgedPair> {
    let trace = world.traces.get(&merge.id).and_then(|trace| trace.read());
    let originals = trace.map(|trace| trace.merged_from).unwrap_or_default();
    let mut said: BTreeSet<Said<'_>> =
        originals.iter().filter_map(|id| Some((id.as_str(), world.text(id)?))).collect();
    said.insert((&merge.id, &merge.text));
    let mut next = merge.id.as_str();
    // A chain is as long as the archive at most; a loop would be a corrupted archive.
    for _ in 0..=world.archived.len() {
        let Some(successor) = world.archived.get(next).and_then(|copy| copy.successor.as_deref()) else {
            break;
        };
        said.extend(world.text(successor).map(|text| (successor, text)));
        next = successor;
    }
    pairs_of(&said).into_iter().map(|(one, other)| JudgedPair::of(&one, &other)).collect()
}
