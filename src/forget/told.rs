//! `memory_forget`: what an agent was told to forget stays forgotten, also where no night had seen the memory yet. Reads the
//! table's past; writes nothing.

use chrono::DateTime;

use super::memorial::bury;
use super::vanished::{Buried, Looking, of_archived};
use super::words_digest;
use crate::error::Error;
use crate::memory::{Category, Memory, Partition};
use crate::openclaw::recall::{Forget, Uses};
use crate::remembered::Remembered;
use crate::state::recalls::{RecallBook, RecallEvent};
use crate::state::tombstones::{How, Tombstone};

/// The calls that no earlier night carried out, the oldest first.
pub(crate) fn open(uses: &Uses, book: &RecallBook) -> Vec<Forget> {
    let mut open: Vec<Forget> =
        uses.forgets.iter().filter(|forget| !book.is_forgot(&forget.call)).cloned().collect();
    open.sort_by(|a, b| (a.at, &a.call).cmp(&(b.at, &b.call)));
    open
}

/// Adds tombstones for what agents were told to forget. A vanished row was forgotten when the agent was told so, not
/// tonight. One that is still there leaves for the archive: a gateway that holds an old version of the table open reports a
/// deletion that hit nothing. One that is younger than the call, or was edited, stays. What carries a forgotten memory on
/// is told, since the call did not mean it.
///
/// # Errors
/// When the database cannot be read.
pub(crate) async fn bury_told(
    looking: Looking<'_>,
    forgets: &[Forget],
    buried: &mut Buried,
) -> Result<(), Error> {
    let (known, store) = (looking.known, looking.store);
    let unknown = |forget: &&Forget| {
        !known.rows.contains_key(&forget.id)
            && !known.archived.contains_key(&forget.id)
            && !known.traces.contains_key(&forget.id)
    };
    let ids: Vec<String> = forgets.iter().filter(unknown).map(|forget| forget.id.clone()).collect();
    let past = match ids.is_empty() {
        true => Default::default(),
        false => store.rows_of_the_past(&ids, looking.version, looking.default_agent).await?,
    };
    let archived: Vec<String> =
        forgets.iter().map(|forget| forget.id.clone()).filter(|id| known.archived.contains_key(id)).collect();
    let mut vectors = store.archived_vectors(&archived).await?;
    let live: Vec<String> =
        forgets.iter().map(|forget| forget.id.clone()).filter(|id| known.rows.contains_key(id)).collect();
    vectors.extend(store.vectors(&live).await?);
    for forget in forgets {
        buried.carried_out.push(RecallEvent::Forgot { call: forget.call.clone() });
        if let Some(tombstone) = buried.tombstones.iter_mut().find(|tombstone| tombstone.id == forget.id) {
            (tombstone.how, tombstone.forgotten_at) = (How::MemoryForget, forget.at);
            continue;
        }
        if looking.tombstones.get(&forget.id).is_some() {
            continue;
        }
        if let Some(row) = known.rows.get(&forget.id) {
            if row.partition.agent == forget.agent && is_as_it_was(known, row, forget) {
                leave(looking, row, vectors.get(&forget.id).cloned(), forget, buried);
            }
            continue;
        }
        if let Some(row) = known.archived.get(&forget.id) {
            if row.memory.partition.agent != forget.agent {
                continue;
            }
            buried.told.extend(carried_on(known, forget));
            let tombstone = of_archived(looking, row, vectors.get(&forget.id).cloned());
            buried.tombstones.push(Tombstone {
                how: How::MemoryForget,
                forgotten_at: forget.at,
                ..tombstone
            });
            buried.erased.push(forget.id.clone());
        } else if let Some(tombstone) = of_unseen(looking, forget, past.get(&forget.id)) {
            buried.tombstones.push(tombstone);
        }
    }
    Ok(())
}

/// Whether the row says what it said when the agent was told to forget it.
fn is_as_it_was(known: &Remembered, row: &Memory, forget: &Forget) -> bool {
    let same = |trace: &crate::memory::Trace| trace.digest == crate::memory::text_digest(&row.text);
    row.created_at <= forget.at.timestamp_millis() && known.traces.get(&row.id).is_none_or(same)
}

fn leave(looking: Looking<'_>, row: &Memory, vector: Option<Vec<f32>>, forget: &Forget, buried: &mut Buried) {
    let known = looking.known;
    let model = known.traces.get(&row.id).map_or("", |trace| trace.model.as_str());
    let said_on = known.said_on(&row.id);
    buried.tombstones.push(bury(row, said_on, vector, model, forget.at, How::MemoryForget));
    buried.leaving.push(row.clone());
    buried.told.push(format!(
        "`{}` was still there although memory_forget had answered on {} that it was forgotten (the gateway held an older \
         version of the table): it is in the archive now, and `dreamer restore {}` brings it back",
        row.id,
        forget.at.with_timezone(&known.timezone).date_naive(),
        row.id
    ));
}

/// A live memory that was merged from the forgotten one and still says it.
fn carried_on(known: &Remembered, forget: &Forget) -> Option<String> {
    let successor = known.live_successor(&forget.id)?;
    Some(format!(
        "`{}` was forgotten by memory_forget on {} after it had been merged: `{successor}` still carries it on, and \
         `dreamer forget {successor}` takes that away, too",
        forget.id,
        forget.at.with_timezone(&known.timezone).date_naive(),
    ))
}

/// For a row that no night saw: as an older version of the table holds it, else as the transcript tells it.
fn of_unseen(looking: Looking<'_>, forget: &Forget, past: Option<&crate::store::Past>) -> Option<Tombstone> {
    let known = looking.known;
    let told = |text: &String| Memory {
        id: forget.id.clone(),
        text: text.clone(),
        importance: 0.0,
        category: Category::Other,
        created_at: forget.at.timestamp_millis(),
        partition: Partition::of_agent(&forget.agent),
    };
    let (memory, vector) = match past {
        Some((memory, vector)) => (Memory { id: forget.id.clone(), ..memory.clone() }, vector.clone()),
        None => (forget.text.as_ref().map(told)?, None),
    };
    // The same words stand in a row that a night knows: what was deleted was its duplicate.
    let words = words_digest(&memory.text);
    let seen = known.rows_of(&memory.partition.agent).filter(|row| known.traces.contains_key(&row.id));
    if seen.into_iter().any(|row| words_digest(&row.text) == words) {
        return None;
    }
    let said = DateTime::from_timestamp_millis(memory.created_at).unwrap_or(forget.at);
    let said_on = said.with_timezone(&known.timezone).date_naive();
    let model =
        known.traces.values().max_by(|a, b| a.run.cmp(&b.run)).map_or("", |trace| trace.model.as_str());
    Some(bury(&memory, said_on, vector, model, forget.at, How::MemoryForget))
}
