//! What was forgotten on purpose is not learned again: chunks that say it are set aside before a model sees them, drafts
//! that say it are dropped, unless the user said it again later, which lifts the tombstone.

use crate::dream::Night;
use crate::forget::memorial::{Said, WHY, is_said_again};
use crate::nrem::chunk::Chunk;
use crate::nrem::cluster::dot;
use crate::nrem::dedup::Outcome;
use crate::nrem::draft::MemoryDraft;
use crate::nrem::{ChunkFate, Compressed};
use crate::state::journal::Fate;
use crate::state::tombstones::Tombstone;

/// Sets aside the chunks that say what was forgotten; returns the others.
pub(super) fn set_aside(
    night: &Night<'_>,
    chunks: Vec<(Chunk, Vec<f32>)>,
    compressed: &mut Compressed,
) -> Vec<(Chunk, Vec<f32>)> {
    if night.memorial.is_empty() {
        return chunks;
    }
    let is_forgotten = |(chunk, vector): &(Chunk, Vec<f32>)| {
        let said = Said {
            agent: &chunk.agent,
            text: &chunk.text,
            said_on: Some(chunk.date),
            vector: Some((vector, night.embedder.model())),
        };
        let found = night.memorial.matching(said, night.thresholds.duplicate);
        found.iter().any(|tombstone| !is_said_again(std::slice::from_ref(chunk), tombstone.forgotten_at))
    };
    let (gone, left): (Vec<_>, Vec<_>) = chunks.into_iter().partition(is_forgotten);
    for (chunk, _) in &gone {
        forget(chunk, compressed);
    }
    compressed.skipped += gone.len();
    left
}

/// Whether a draft may become a memory, or bring one back. If not, its chunks are forgotten; if the user said it again, the
/// tombstones it matches are lifted.
pub(super) fn may_be_learned(
    night: &Night<'_>,
    draft: &MemoryDraft,
    vector: &[f32],
    outcome: &Outcome,
    compressed: &mut Compressed,
) -> bool {
    let found = matching(night, draft, Some(vector), outcome);
    let (again, old): (Vec<&Tombstone>, Vec<&Tombstone>) =
        found.into_iter().partition(|tombstone| is_said_again(&draft.chunks, tombstone.forgotten_at));
    // A living memory that says the same is somebody else's doing: it is reinforced as any other.
    let is_living = matches!(outcome, Outcome::Reinforce { .. });
    if !old.is_empty() && !is_living {
        compressed.skipped += 1;
        for chunk in &draft.chunks {
            forget(chunk, compressed);
        }
        forget_the_like(night, vector, compressed);
        return false;
    }
    compressed.lifted.extend(again.into_iter().map(|tombstone| tombstone.id.clone()));
    true
}

fn matching<'n>(
    night: &'n Night<'_>,
    draft: &MemoryDraft,
    vector: Option<&[f32]>,
    outcome: &Outcome,
) -> Vec<&'n Tombstone> {
    let said = Said {
        agent: draft.agent(),
        text: &draft.text,
        said_on: Some(draft.said_on()),
        vector: vector.map(|vector| (vector, night.embedder.model())),
    };
    let mut found = night.memorial.matching(said, night.thresholds.duplicate);
    if let Outcome::Revive { id, .. } = outcome
        && let Some(own) = night.memorial.of(id)
        && found.iter().all(|tombstone| tombstone.id != own.id)
    {
        found.push(own);
    }
    found
}

/// Nobody is asked whether to remember what was forgotten on purpose.
pub(super) fn drop_questions(night: &Night<'_>, compressed: &mut Compressed) {
    let asks = std::mem::take(&mut compressed.review);
    let nothing = Outcome::New { against: vec![] };
    for draft in asks {
        let found = matching(night, &draft, None, &nothing);
        if found.iter().all(|tombstone| is_said_again(&draft.chunks, tombstone.forgotten_at)) {
            compressed.review.push(draft);
            continue;
        }
        compressed.skipped += 1;
        for chunk in &draft.chunks {
            forget(chunk, compressed);
        }
    }
}

/// The chunk has the fate that keeps nothing, unless something else in it was learned. No text of it is kept either way.
fn forget(chunk: &Chunk, compressed: &mut Compressed) {
    compressed.forgotten.insert(chunk.digest.clone());
    let learned = |fate: &ChunkFate| matches!(fate.fate, Fate::Stored | Fate::Reinforced | Fate::Merged);
    if !compressed.fates.get(&chunk.digest).is_some_and(learned) {
        let fate = ChunkFate { fate: Fate::Excluded, nights: 0, why: WHY.to_owned() };
        compressed.fates.insert(chunk.digest.clone(), fate);
    }
}

/// Chunks of the same cluster that no draft rests on would be kept as raw text, because the draft covers them.
fn forget_the_like(night: &Night<'_>, vector: &[f32], compressed: &mut Compressed) {
    let like = |digest: &String| {
        compressed
            .vectors
            .get(digest)
            .is_some_and(|of_chunk| dot(of_chunk, vector) >= night.thresholds.cluster)
    };
    let raw = compressed.fates.iter().filter(|(_, fate)| fate.fate == Fate::RawOnly);
    let gone: Vec<String> = raw.map(|(digest, _)| digest.clone()).filter(like).collect();
    for digest in gone {
        let fate = ChunkFate { fate: Fate::Excluded, nights: 0, why: WHY.to_owned() };
        compressed.fates.insert(digest.clone(), fate);
        compressed.forgotten.insert(digest);
    }
}
