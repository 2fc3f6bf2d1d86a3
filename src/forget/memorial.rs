//! The memorial: all tombstones in force, asked whether a claim is one of those that were forgotten on purpose. Pure.
//! What follows from the answer is decided by who asks.

use chrono::{DateTime, NaiveDate, Utc};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::fingerprint::Fingerprint;
use crate::episode::Speaker;
use crate::language;
use crate::memory::{Memory, text_digest};
use crate::nrem::chunk::Chunk;
use crate::nrem::cluster::dot;
use crate::nrem::quote::words_of;
use crate::providers;
use crate::state::tombstones::{How, Tombstone, Tombstones};

/// Why a chunk is not remembered; the fate's reason in journal and log.
pub const WHY: &str = "forgotten on purpose";

/// A claim that somebody wants to remember.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// Whose memory it would be.
    pub agent: &'a str,
    /// What it says.
    pub text: &'a str,
    /// The day it was said.
    pub said_on: Option<NaiveDate>,
    /// Its vector and the embedding model; none where it has none.
    pub vector: Option<(&'a [f32], &'a str)>,
}

/// The tombstones in force, and those tonight adds.
#[derive(Debug, Clone, Default)]
pub struct Memorial {
    tombstones: Tombstones,
}

impl Memorial {
    /// Of the tombstones on disk and new ones.
    pub fn new(mut tombstones: Tombstones, new: &[Tombstone]) -> Self {
        for tombstone in new {
            tombstones.insert(tombstone.clone());
        }
        Self { tombstones }
    }

    /// Whether nothing was forgotten.
    pub fn is_empty(&self) -> bool {
        self.tombstones.all().next().is_none()
    }

    /// The tombstone of a memory.
    pub fn of(&self, id: &str) -> Option<&Tombstone> {
        self.tombstones.get(id)
    }

    /// The tombstones of what a claim says: of its agent, with the same words, or at or above `duplicate` with the same
    /// details.
    pub fn matching(&self, said: Said<'_>, duplicate: f32) -> Vec<&Tombstone> {
        if self.is_empty() {
            return vec![];
        }
        let (digest, words) = (text_digest(said.text), words_digest(said.text));
        let mut unit = said.vector.map(|(vector, _)| vector.to_vec()).unwrap_or_default();
        let model = said.vector.map_or("", |(_, model)| model);
        let has_vector = providers::normalise(&mut unit);
        let near = |tombstone: &Tombstone| {
            let vector = tombstone.vector.as_ref().filter(|v| has_vector && v.len() == unit.len());
            vector.is_some_and(|vector| tombstone.model == model && dot(vector, &unit) >= duplicate)
        };
        let same_details = |tombstone: &Tombstone| {
            tombstone.details.as_ref().is_none_or(|details| details.agrees(said.text, said.said_on))
        };
        let is_it = |tombstone: &&Tombstone| {
            let same_words = tombstone.digest == digest || tombstone.words.as_ref() == Some(&words);
            tombstone.agent == said.agent && (same_words || near(tombstone) && same_details(tombstone))
        };
        self.tombstones.all().filter(is_it).collect()
    }
}

/// Whether the user said it again after it was forgotten. When it was read does not matter.
pub fn is_said_again(chunks: &[Chunk], forgotten_at: DateTime<Utc>) -> bool {
    chunks.iter().any(|chunk| chunk.speaker == Speaker::User && chunk.said_at > forgotten_at)
}

/// What is left of a memory whose text is known.
pub fn bury(
    memory: &Memory,
    said_on: NaiveDate,
    vector: Option<Vec<f32>>,
    model: &str,
    at: DateTime<Utc>,
    how: How,
) -> Tombstone {
    let mut vector = vector.unwrap_or_default();
    let has_vector = providers::normalise(&mut vector);
    Tombstone {
        id: memory.id.clone(),
        agent: memory.partition.agent.clone(),
        digest: text_digest(&memory.text),
        words: Some(words_digest(&memory.text)),
        vector: has_vector.then_some(vector),
        model: model.to_owned(),
        details: Some(Fingerprint::of(&memory.text, Some(said_on), &Uuid::new_v4().simple().to_string())),
        forgotten_at: at,
        how,
    }
}

/// Digest of what a text says, however it is spaced, quoted or capitalised.
pub fn words_digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(language::normalise(&words_of(text)).as_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::memory::{Category, Partition};

    fn memory(text: &str) -> Memory {
        Memory {
            id: text.into(),
            text: text.into(),
            importance: 0.7,
            category: Category::Fact,
            created_at: 0,
            partition: Partition::of_agent("main"),
        }
    }

    fn memorial(text: &str, vector: Option<Vec<f32>>) -> Memorial {
        let (day, at) = ("2026-03-10".parse().unwrap(), "2026-03-10T02:00:00Z".parse().unwrap());
        let tombstone = bury(&memory(text), day, vector, "m", at, How::Vanished);
        Memorial::new(Tombstones::default(), &[tombstone])
    }

    #[test]
    fn a_claim_is_known_by_its_words_or_by_its_vector_and_its_details() {
        let forgotten = memorial("Standup is at 9:00.", Some(vec![2.0, 0.0]));
        let said = Said { agent: "main", text: "", said_on: None, vector: None };
        let (near, far): (&[f32], &[f32]) = (&[0.95, 0.3], &[0.0, 1.0]);
        for (agent, text, vector, expected) in [
            ("main", "Standup is at 9:00.", None, true),
            ("main", "standup is  at 9:00.", None, true),
            ("other", "Standup is at 9:00.", None, false),
            ("main", "The team stands up at 9:00.", Some((near, "m")), true),
            ("main", "The team stands up at 10:00.", Some((near, "m")), false),
            ("main", "The team stands up at 9:00.", Some((near, "another model")), false),
            ("main", "The team stands up at 9:00.", Some((far, "m")), false),
            ("main", "The team stands up at 9:00.", None, false),
        ] {
            let found = forgotten.matching(Said { agent, text, vector, ..said }, 0.9);
            assert_eq!(!found.is_empty(), expected, "{agent}: {text} {vector:?}");
        }
    }

    #[test]
    fn a_quote_of_another_day_is_the_same_words() {
        let forgotten = memorial("User (2026-03-10): “I am allergic to peanuts.”", None);
        let text = "User (2026-03-11): “I am allergic to peanuts.”";
        let said = Said { agent: "main", text, said_on: None, vector: None };
        assert_eq!(forgotten.matching(said, 0.9).len(), 1);
    }

    #[test]
    fn nothing_forgotten_matches_nothing() {
        let said = Said { agent: "main", text: "", said_on: None, vector: None };
        assert!(Memorial::default().matching(said, 0.0).is_empty());
    }
}
