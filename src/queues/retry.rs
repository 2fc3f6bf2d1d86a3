//! The retry queue: chunks and pairs of claims about which a model's reply could not be read. They are asked about again
//! on the next night, and after three nights a person is. Also how a call about several things is halved, so that only
//! what cannot be answered is held back. Pure, but for reading and writing `queues/retry.jsonl` whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::read_lines;
use crate::state::journal::JudgedPair;
use crate::state::{StateError, read_if_there, write_atomically};

/// After so many nights a person is asked.
pub const NIGHTS: u32 = 3;

/// What a reply that could not be read was about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A chunk, by its digest.
    Chunk(String),
    /// Two claims, by the digests of their texts, smaller first.
    Pair(String, String),
}

impl About {
    /// The pair as REM keeps it.
    pub fn pair(&self) -> Option<JudgedPair> {
        match self {
            Self::Chunk(_) => None,
            Self::Pair(first, second) => Some(JudgedPair::of(first, second)),
        }
    }
}

impl From<JudgedPair> for About {
    fn from(pair: JudgedPair) -> Self {
        Self::Pair(pair.first, pair.second)
    }
}

/// One line of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// What is tried again.
    pub about: About,
    /// Whose it is.
    pub agent: String,
    /// Where it stands, for people: the chunk's place, or the ids of the memories.
    pub place: String,
    /// Why the last reply could not be read.
    pub why: String,
    /// Nights on which it was asked about in vain.
    pub nights: u32,
    /// The last run that asked in vain.
    pub run: String,
    /// The review item that asks a person about it; nobody else is asked meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// The queue by what it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryQueue {
    entries: Vec<Retry>,
}

impl RetryQueue {
    /// Reads the queue; a missing file is an empty one.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(queues_dir: &Path) -> Result<Self, StateError> {
        Ok(Self::of(read_lines(&path(queues_dir))?))
    }

    /// A queue of these entries; of two about one thing the later counts.
    pub fn of(entries: Vec<Retry>) -> Self {
        let by_about: BTreeMap<About, Retry> =
            entries.into_iter().map(|entry| (entry.about.clone(), entry)).collect();
        Self { entries: by_about.into_values().collect() }
    }

    /// Writes the queue whole, if it differs from what is there: what was settled is gone from the file, too.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, queues_dir: &Path) -> Result<(), StateError> {
        let path = path(queues_dir);
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&serde_json::to_string(entry).expect("an entry is plain data"));
            text.push('\n');
        }
        let there = read_if_there(&path)?;
        if there.as_deref().unwrap_or_default() == text.as_bytes() {
            return Ok(());
        }
        write_atomically(&path, text.as_bytes())
    }

    /// Everything in it.
    pub fn entries(&self) -> &[Retry] {
        &self.entries
    }

    /// What is known about one thing.
    pub fn get(&self, about: &About) -> Option<&Retry> {
        self.entries.iter().find(|entry| entry.about == *about)
    }

    /// Nights on which it was asked about in vain. Runs of one date (that of `now`) are one night.
    pub fn nights(&self, about: &About, now: DateTime<Utc>) -> u32 {
        let today = now.format("%Y%m%d-").to_string();
        self.get(about)
            .map_or(0, |entry| entry.nights - u32::from(entry.nights > 0 && entry.run.starts_with(&today)))
    }

    /// Takes an entry in, in place of what was known about the same thing.
    pub fn put(&mut self, entry: Retry) {
        let entries = std::mem::take(&mut self.entries);
        *self = Self::of(entries.into_iter().chain([entry]).collect());
    }

    /// Takes everything out that these are about.
    pub fn settle(&mut self, settled: &BTreeSet<About>) {
        self.entries.retain(|entry| !settled.contains(&entry.about));
    }

    /// Pairs about which a person is asked: no model is, meanwhile.
    pub fn asked_of_a_person(&self) -> HashSet<JudgedPair> {
        self.entries
            .iter()
            .filter(|entry| entry.item.is_some())
            .filter_map(|entry| entry.about.pair())
            .collect()
    }
}

fn path(queues_dir: &Path) -> PathBuf {
    queues_dir.join("retry.jsonl")
}

/// Calls that halving a call about `count` things may cost besides it: two a step, until one thing is alone.
pub fn extra_calls(count: usize) -> usize {
    2 * count.max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(about: About, nights: u32, run: &str) -> Retry {
        let text = |text: &str| text.to_owned();
        Retry {
            about,
            agent: text("main"),
            place: text("p"),
            why: text("w"),
            nights,
            run: text(run),
            item: None,
        }
    }

    #[test]
    fn the_extra_calls_grow_with_the_logarithm() {
        for (count, calls) in [(0, 0), (1, 0), (2, 2), (3, 4), (8, 6), (9, 8), (64, 12)] {
            assert_eq!(extra_calls(count), calls, "{count}");
        }
    }

    #[test]
    fn the_queue_is_rewritten_without_what_was_settled_and_counts_dates() {
        let dir = tempfile::tempdir().unwrap();
        let (chunk, pair) = (About::Chunk("c".into()), About::from(JudgedPair::of("b", "a")));
        let mut queue = RetryQueue::default();
        queue.put(entry(chunk.clone(), 1, "20260310-030000-000001"));
        queue.put(entry(pair.clone(), 1, "20260310-030000-000001"));
        queue.put(entry(pair.clone(), 2, "20260311-030000-000001"));
        queue.write(dir.path()).unwrap();
        let mut queue = RetryQueue::read(dir.path()).unwrap();
        assert_eq!(queue.entries().len(), 2);
        for (now, nights) in [("2026-03-11T15:00:00Z", 1), ("2026-03-12T03:00:00Z", 2)] {
            assert_eq!(queue.nights(&pair, now.parse().unwrap()), nights, "{now}");
        }
        queue.settle(&BTreeSet::from([pair.clone()]));
        queue.write(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("retry.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(RetryQueue::read(dir.path()).unwrap().get(&pair).is_none());
    }
}
