//! Which pairs later nights keep apart, because a person took back that they were made one. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::world::World;
use crate::memory::{Departure, text_digest};
use crate::plan::DreamPlan;
use crate::state::journal::JudgedPair;

/// Each pair of what was made one by the run `of` and comes apart now: sources, the originals behind them, the duplicate
/// that left and what carried it.
pub(super) fn pairs_kept_apart(of: &DreamPlan, world: &World, coming: &BTreeSet<String>) -> Vec<JudgedPair> {
    let mut joined: BTreeMap<&str, BTreeSet<Said<'_>>> = BTreeMap::new();
    let together = |reason| matches!(reason, Departure::Superseded | Departure::Duplicate);
    let returning = of.leaving.iter().filter(|row| together(row.reason) && coming.contains(&row.id));
    for row in returning {
        if let Some(successor) = &row.successor {
            joined.entry(successor).or_default().insert((&row.id, &row.text));
        }
    }
    for draft in &of.merged_drafts {
        // A merge of two drafts has no row that comes back: they stay in the archive.
        let others = draft.leaving.successor.as_deref().and_then(|successor| joined.get_mut(successor));
        others.into_iter().for_each(|said| {
            said.insert((&draft.leaving.id, &draft.leaving.text));
        });
    }
    let mut pairs = BTreeSet::new();
    for (successor, mut said) in joined {
        said.extend(said_by(of, world, successor));
        pairs.extend(pairs_of(&said));
    }
    pairs.into_iter().map(|(one, other)| JudgedPair::of(&one, &other)).collect()
}

/// A memory's id and text.
pub(super) type Said<'a> = (&'a str, &'a str);

/// The successor, as it was written and as it is, and the originals it was written from.
fn said_by<'a>(of: &'a DreamPlan, world: &'a World, successor: &'a str) -> Vec<Said<'a>> {
    let written = of.inserts.iter().find(|row| row.memory.id == successor);
    let trace = of.traces.iter().find(|trace| trace.id == successor);
    let originals = trace.filter(|_| written.is_some()).map(|trace| trace.merged_from.as_slice());
    let original = |id: &'a String| -> Option<Said<'a>> {
        let draft = of.merged_drafts.iter().find(|draft| draft.row.memory.id == *id);
        let text = world.text(id).or_else(|| draft.map(|draft| draft.leaving.text.as_str()))?;
        Some((id, text))
    };
    let own = written.map(|row| row.memory.text.as_str());
    let own = own.into_iter().chain(of.carriers.get(successor).map(String::as_str));
    let own = own.chain(world.text(successor)).map(|text| (successor, text));
    own.chain(originals.unwrap_or_default().iter().filter_map(original)).collect()
}

/// Each pair of memories by the digests of their texts. Two rows with the same words are a pair, too.
pub(super) fn pairs_of(said: &BTreeSet<Said<'_>>) -> BTreeSet<(String, String)> {
    let digests: Vec<(&str, String)> = said.iter().map(|(id, text)| (*id, text_digest(text))).collect();
    let mut pairs = BTreeSet::new();
    for (place, (id, one)) in digests.iter().enumerate() {
        for (_, other) in digests[..place].iter().filter(|(other, _)| other != id) {
            pairs.insert((one.min(other).clone(), one.max(other).clone()));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_two_memories_are_a_pair_and_one_is_none_with_itself() {
        let pair = |one: &str, other: &str| {
            let (one, other) = (text_digest(one), text_digest(other));
            (one.clone().min(other.clone()), one.max(other))
        };
        let said = BTreeSet::from([("a", "tea"), ("b", "coffee"), ("c", "tea"), ("b", "coffee, edited")]);
        let expected =
            BTreeSet::from([pair("tea", "coffee"), pair("tea", "tea"), pair("tea", "coffee, edited")]);
        assert_eq!(pairs_of(&said), expected);
        assert!(pairs_of(&BTreeSet::from([("a", "tea")])).is_empty());
    }
}
