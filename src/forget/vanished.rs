//! Rows that are gone without our doing were forgotten on purpose: what is left of them, and what of ours goes with
//! them. Reads the table's past; writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, NaiveDate, Utc};

use super::memorial::bury;
use super::{archived_under, words_digest};
use crate::error::Error;
use crate::memory::{Archived, Memory, RawMemory, Trace};
use crate::remembered::Remembered;
use crate::state::recalls::RecallEvent;
use crate::state::tombstones::{How, Tombstone, Tombstones};
use crate::store::{Past, Store};

/// What the night does about vanished rows.
#[derive(Debug, Clone, Default)]
pub struct Buried {
    /// New tombstones.
    pub tombstones: Vec<Tombstone>,
    /// Memories whose copies are erased.
    pub erased: Vec<String>,
    /// How many rows had vanished.
    pub vanished: usize,
    /// Rows that an agent was told to forget and that are still there: they leave for the archive.
    pub leaving: Vec<Memory>,
    /// What the operator is told of them, and of memories that carry on what was forgotten.
    pub told: Vec<String>,
    /// `memory_forget` calls that were carried out: each is once.
    pub carried_out: Vec<RecallEvent>,
}

/// Where a night looks for what vanished rows said.
#[derive(Debug, Clone, Copy)]
pub struct Looking<'a> {
    /// The database.
    pub store: &'a Store,
    /// What was remembered when the night began.
    pub known: &'a Remembered,
    /// The tombstones that stand.
    pub tombstones: &'a Tombstones,
    /// A version of `memories` that held them: the one the last run ended with.
    pub version: Option<u64>,
    /// Whose rows those of a table without agents are.
    pub default_agent: &'a str,
    /// The time of the night: when they were forgotten, as far as anybody knows.
    pub now: DateTime<Utc>,
}

/// Tombstones for rows that vanished, and for the archived rows they carry. A row whose words another row has that was
/// there before is a duplicate that somebody cleaned up: its copies go, its words are not forbidden.
///
/// # Errors
/// When the database cannot be read.
pub async fn bury_vanished(
    looking: Looking<'_>,
    vanished: BTreeMap<String, Vec<String>>,
) -> Result<Buried, Error> {
    let ids: Vec<String> = vanished.into_values().flatten().collect();
    let mut buried = Buried { vanished: ids.len(), ..Buried::default() };
    if ids.is_empty() {
        return Ok(buried);
    }
    let (known, store) = (looking.known, looking.store);
    let past = store.rows_of_the_past(&ids, looking.version, looking.default_agent).await?;
    let raw = store.raw_all().await?;
    let gone: BTreeSet<String> = ids.iter().cloned().collect();
    let mut with_them: BTreeSet<String> = BTreeSet::new();
    for id in &ids {
        buried.erased.push(id.clone());
        let trace = &known.traces[id];
        if looking.tombstones.get(id).is_some() || is_still_said(known, trace, past.get(id)) {
            continue;
        }
        with_them.extend(archived_under(known, id, &gone));
        buried.tombstones.push(of_trace(looking, trace, past.get(id), &raw));
    }
    let archived: Vec<String> = with_them.into_iter().collect();
    let vectors = store.archived_vectors(&archived).await?;
    for id in archived {
        if looking.tombstones.get(&id).is_none() {
            let row = &known.archived[&id];
            buried.tombstones.push(of_archived(looking, row, vectors.get(&id).cloned()));
        }
        buried.erased.push(id);
    }
    Ok(buried)
}

/// Whether another row of the agent that has a trace, so that it was there before, says the same words.
pub(super) fn is_still_said(known: &Remembered, trace: &Trace, past: Option<&Past>) -> bool {
    let words = past.map(|(memory, _)| words_digest(&memory.text));
    known.rows_of(&trace.agent).filter(|row| known.traces.contains_key(&row.id)).any(|row| {
        crate::memory::text_digest(&row.text) == trace.digest
            || words.as_ref().is_some_and(|words| *words == words_digest(&row.text))
    })
}

/// From what is still known, best first: the row as an older version holds it, a raw chunk that the memory alone rests on,
/// the digest in the trace.
fn of_trace(looking: Looking<'_>, trace: &Trace, past: Option<&Past>, raw: &[RawMemory]) -> Tombstone {
    let (model, at) = (trace.model.as_str(), looking.now);
    if let Some((memory, vector)) = past {
        let said_on = said_on(looking, trace, memory);
        let memory = Memory { id: trace.id.clone(), ..memory.clone() };
        return bury(&memory, said_on, vector.clone(), model, at, How::Vanished);
    }
    let only =
        |chunk: &&RawMemory| chunk.memories.iter().all(|id| *id == trace.id) && !chunk.memories.is_empty();
    let chunk = trace
        .sources
        .iter()
        .find_map(|source| raw.iter().filter(only).find(|chunk| chunk.source.chunk == source.chunk));
    let blank = Tombstone {
        id: trace.id.clone(),
        agent: trace.agent.clone(),
        digest: trace.digest.clone(),
        words: None,
        vector: None,
        model: model.to_owned(),
        details: None,
        forgotten_at: at,
        how: How::Vanished,
    };
    let Some(chunk) = chunk else { return blank };
    let said = chunk.source.said_at.with_timezone(&looking.known.timezone).date_naive();
    let words = Memory {
        id: trace.id.clone(),
        text: chunk.text.clone(),
        importance: 0.0,
        category: crate::memory::Category::Other,
        created_at: 0,
        partition: crate::memory::Partition::of_agent(&trace.agent),
    };
    let of_chunk = bury(&words, said, Some(chunk.vector.clone()), model, at, How::Vanished);
    Tombstone { digest: blank.digest, ..of_chunk }
}

fn said_on(looking: Looking<'_>, trace: &Trace, memory: &Memory) -> NaiveDate {
    let written = || DateTime::from_timestamp_millis(memory.created_at).unwrap_or_default();
    trace.said_at.unwrap_or_else(written).with_timezone(&looking.known.timezone).date_naive()
}

pub(super) fn of_archived(looking: Looking<'_>, row: &Archived, vector: Option<Vec<f32>>) -> Tombstone {
    let (known, id) = (looking.known, &row.memory.id);
    let model = known.traces.get(id).map_or("", |trace| trace.model.as_str());
    bury(&row.memory, known.said_on(id), vector, model, looking.now, How::Vanished)
}

/// What was remembered without what is erased or leaves tonight: nothing of it comes back or is merged.
pub fn without_forgotten(mut known: Remembered, buried: &Buried) -> Remembered {
    let gone: HashSet<&String> = buried.erased.iter().collect();
    for row in &buried.leaving {
        known.rows.remove(&row.id);
    }
    known.archived.retain(|id, _| !gone.contains(id));
    known.traces.retain(|id, _| !gone.contains(id));
    known
}
