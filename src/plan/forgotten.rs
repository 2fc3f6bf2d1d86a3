//! What a plan may no longer write, because it was forgotten on purpose since the plan was made; or at all, where it is no
//! night that checked its drafts but brings old rows back.

use super::{DreamPlan, Purpose};
use crate::config::Config;
use crate::error::Error;
use crate::forget::memorial::{Memorial, Said};
use crate::state::tombstones::Tombstones;
use crate::store::NewRow;
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
