//! Rows the gateway captured that say what was forgotten on purpose. They are the gateway's: told, never deleted.

use crate::dream::Night;
use crate::error::Error;
use crate::forget::memorial::Said;
use crate::remembered::Remembered;

/// Ids named in the warning at most.
const NAMED: usize = 5;

/// The warning about rows seen for the first time tonight that match a tombstone, if there are any.
pub(super) async fn captured_again(night: &Night<'_>, known: &Remembered) -> Result<Option<String>, Error> {
    if night.memorial.is_empty() {
        return Ok(None);
    }
    let new: Vec<String> = known.rows.keys().filter(|id| !known.traces.contains_key(*id)).cloned().collect();
    let vectors = night.store.vectors(&new).await?;
    let is_forgotten = |id: &&String| {
        let row = &known.rows[*id];
        let said = Said {
            agent: &row.partition.agent,
            text: &row.text,
            said_on: Some(known.said_on(id)),
            vector: vectors.get(*id).map(|vector| (vector.as_slice(), night.embedder.model())),
        };
        !night.memorial.matching(said, night.thresholds.duplicate).is_empty()
    };
    let again: Vec<&String> = new.iter().filter(is_forgotten).collect();
    if again.is_empty() {
        return Ok(None);
    }
    let few = again.iter().take(NAMED).map(|id| id.as_str()).collect::<Vec<_>>().join(", ");
    let more = if again.len() > NAMED { format!(" and {} more", again.len() - NAMED) } else { String::new() };
    Ok(Some(format!(
        "{} memories that the gateway captured say what was forgotten on purpose: they are the gateway's and stay; \
         `dreamer forget ID` takes one away ({few}{more})",
        again.len()
    )))
}
