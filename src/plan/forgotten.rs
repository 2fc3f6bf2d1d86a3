//! What a plan may no longer write, because it was forgotten on purpose since the plan was made; or at all, where it is no
//! night that checked its drafts but brings old rows back.

use std::collections::BTreeSet;

use super::{DreamPlan, Purpose};
use crate::config::Config;
use crate::error::Error;
use crate::forget::memorial::{Memorial, Said};
use crate::state::tombstones::Tombstones;
use crate::store::{NewRow, Store};
use crate::thresholds;

/// The ids of the new rows that are forgotten, and the rows that are left.
pub(super) fn without_forgotten(
    plan: &DreamPlan,
    config: &Config,
) -> Result<(Vec<String>, Vec<NewRow>), Error> {
    let memorial = Memorial::new(Tombstones::read(&config.state_dir())?, &[]);
    if memorial.is_empty() {
        return Ok((vec![], plan.inserts.clone()));
    }
    let duplicate = config.thresholds(config.calibrated()?)?.unwrap_or(thresholds::NOTHING_ALIKE).duplicate;
    // A night asked about what stood when it was planned, and knows what the user said again.
    let counts = |at| plan.purpose != Purpose::Night || at > plan.planned_at;
    let is_forgotten = |row: &NewRow| {
        let trace = plan.traces.iter().find(|trace| trace.id == row.memory.id);
        let said = Said {
            agent: &row.memory.partition.agent,
            text: &row.memory.text,
            said_on: trace
                .and_then(|trace| trace.said_at)
                .map(|at| at.with_timezone(&config.timezone).date_naive()),
            vector: Some((&row.vector, config.embedding_model())),
        };
        let by_id = memorial.of(&row.memory.id).into_iter();
        by_id.chain(memorial.matching(said, duplicate)).any(|tombstone| counts(tombstone.forgotten_at))
    };
    let (gone, left): (Vec<NewRow>, Vec<NewRow>) = plan.inserts.iter().cloned().partition(is_forgotten);
    Ok((gone.into_iter().map(|row| row.memory.id).collect(), left))
}

/// The rows to be put back that were forgotten on purpose, by their ids, or by what their copies in the archive say.
pub(super) async fn forgotten_rows(
    plan: &DreamPlan,
    store: &Store,
    config: &Config,
) -> Result<BTreeSet<String>, Error> {
    let memorial = Memorial::new(Tombstones::read(&config.state_dir())?, &[]);
    if memorial.is_empty() || plan.put_back.is_empty() {
        return Ok(BTreeSet::new());
    }
    let duplicate = config.thresholds(config.calibrated()?)?.unwrap_or(thresholds::NOTHING_ALIKE).duplicate;
    let ids: Vec<String> = plan.put_back.iter().map(|row| row.id.clone()).collect();
    let vectors = store.archived_vectors(&ids).await?;
    let mut forgotten: BTreeSet<String> =
        ids.iter().filter(|id| memorial.of(id).is_some()).cloned().collect();
    for copy in store.archived(&ids, &config.agent).await? {
        let memory = copy.memory;
        let vector = vectors.get(&memory.id).map(|vector| (vector.as_slice(), config.embedding_model()));
        let said = Said { agent: &memory.partition.agent, text: &memory.text, said_on: None, vector };
        if !memorial.matching(said, duplicate).is_empty() {
            forgotten.insert(memory.id);
        }
    }
    Ok(forgotten)
}
