//! The chunk journal: what became of every chunk Dreamer ever saw, one JSON line an event, the last line of a digest
//! counts. It is why nothing is learned twice and nothing is forgotten half-way.
//! The judged pairs lie beside it: what REM has already asked about.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{StateError, append_lines, read_if_there};

/// What became of a chunk. Every chunk has exactly one fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A new memory rests on it.
    Stored,
    /// Its claim went into a merge or consolidation.
    Merged,
    /// It said again what was known.
    Reinforced,
    /// Nothing in it to remember.
    Noise,
    /// Tagged `#tmp` or `#no_archive`.
    Excluded,
    /// Kept as raw text only.
    RawOnly,
    /// Lost the ranking on three nights.
    PassedOver,
    /// A person is asked.
    PendingReview,
    /// No fate yet: it is tried again on the next night.
    HeldBack,
}

impl Fate {
    /// Every fate, in the order of the log.
    pub const ALL: [Self; 9] = [
        Self::Stored,
        Self::Merged,
        Self::Reinforced,
        Self::Noise,
        Self::Excluded,
        Self::RawOnly,
        Self::PassedOver,
        Self::PendingReview,
        Self::HeldBack,
    ];

    /// The word for logs and `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Merged => "merged",
            Self::Reinforced => "reinforced",
            Self::Noise => "noise",
            Self::Excluded => "excluded",
            Self::RawOnly => "raw_only",
            Self::PassedOver => "passed_over",
            Self::PendingReview => "pending_review",
            Self::HeldBack => "held_back",
        }
    }

    /// Whether the chunk is settled for good.
    pub fn is_final(self) -> bool {
        self != Self::HeldBack
    }
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRecord {
    /// Digest of the chunk.
    pub digest: String,
    /// What became of it.
    pub fate: Fate,
    /// Nights on which it competed and lost.
    #[serde(default)]
    pub nights: u32,
    /// The episode's file name.
    pub episode: String,
    /// The run that decided.
    pub run: String,
}

/// All that is known of chunks from earlier nights.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    records: HashMap<String, ChunkRecord>,
}

impl Journal {
    /// Where it lies.
    pub fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("chunks.jsonl")
    }

    /// Reads the journal. A torn line (a crash while appending) is passed over: its run is applied again.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(state_dir: &Path) -> Result<Self, StateError> {
        let mut journal = Self::default();
        for record in read_lines::<ChunkRecord>(&Self::path(state_dir))? {
            journal.records.insert(record.digest.clone(), record);
        }
        Ok(journal)
    }

    /// Appends records that are not yet the last word on their chunk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(state_dir: &Path, records: &[ChunkRecord]) -> Result<(), StateError> {
        let known = Self::read(state_dir)?;
        let lines = records
            .iter()
            .filter(|record| known.records.get(&record.digest) != Some(record))
            .map(|record| serde_json::to_string(record).expect("a record is plain data"))
            .collect::<Vec<_>>();
        append_lines(&Self::path(state_dir), &lines)
    }

    /// The last record of a chunk.
    pub fn get(&self, digest: &str) -> Option<&ChunkRecord> {
        self.records.get(digest)
    }

    /// Forgets what became of a chunk, in memory only: it is tried anew tonight, as if it had been held back.
    pub fn reopen(&mut self, digest: &str) {
        if let Some(record) = self.records.get_mut(digest) {
            (record.fate, record.nights) = (Fate::HeldBack, 0);
        }
    }

    /// Names of the episodes that hold a chunk without a fate.
    pub fn open_episodes(&self) -> BTreeSet<String> {
        let open = self.records.values().filter(|record| !record.fate.is_final());
        open.map(|record| record.episode.clone()).collect()
    }

    /// Whether the chunk has its fate.
    pub fn is_settled(&self, digest: &str) -> bool {
        self.get(digest).is_some_and(|record| record.fate.is_final())
    }
}

/// A pair of texts that REM has judged, by their digests, smaller first. It is asked again only when a text changes,
/// because then the digest is another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JudgedPair {
    /// Smaller text digest.
    pub first: String,
    /// Larger text digest.
    pub second: String,
}

impl JudgedPair {
    /// The pair of two text digests, in either order.
    pub fn of(one: &str, other: &str) -> Self {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        Self { first: first.to_owned(), second: second.to_owned() }
    }

    /// Reads all pairs judged so far.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read_all(state_dir: &Path) -> Result<HashSet<Self>, StateError> {
        Ok(read_lines(&Self::path(state_dir))?.into_iter().collect())
    }

    /// Appends pairs that are not there yet.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(state_dir: &Path, pairs: &[Self]) -> Result<(), StateError> {
        let known = Self::read_all(state_dir)?;
        let lines = pairs
            .iter()
            .filter(|pair| !known.contains(pair))
            .map(|pair| serde_json::to_string(pair).expect("a pair is plain data"))
            .collect::<Vec<_>>();
        append_lines(&Self::path(state_dir), &lines)
    }

    fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("judged.jsonl")
    }
}

pub(super) fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, StateError> {
    let Some(bytes) = read_if_there(path)? else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(record) => records.push(record),
            Err(error) => {
                tracing::warn!("{}:{}: passed over an unreadable line: {error}", path.display(), number + 1)
            }
        }
    }
    Ok(records)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(digest: &str, fate: Fate, nights: u32) -> ChunkRecord {
        ChunkRecord { digest: digest.into(), fate, nights, episode: "2026-01-01.md".into(), run: "r".into() }
    }

    #[test]
    fn the_last_word_on_a_chunk_counts_and_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        Journal::append(dir.path(), &[record("a", Fate::HeldBack, 1), record("b", Fate::Noise, 0)]).unwrap();
        Journal::append(dir.path(), &[record("a", Fate::Stored, 1)]).unwrap();
        Journal::append(dir.path(), &[record("a", Fate::Stored, 1)]).unwrap();
        let journal = Journal::read(dir.path()).unwrap();
        assert!(journal.is_settled("a") && journal.is_settled("b") && !journal.is_settled("c"));
        assert_eq!(std::fs::read_to_string(Journal::path(dir.path())).unwrap().lines().count(), 3);
    }

    #[test]
    fn a_pair_is_the_same_in_either_order() {
        let dir = tempfile::tempdir().unwrap();
        JudgedPair::append(dir.path(), &[JudgedPair::of("b", "a")]).unwrap();
        JudgedPair::append(dir.path(), &[JudgedPair::of("a", "b")]).unwrap();
        assert_eq!(JudgedPair::read_all(dir.path()).unwrap().len(), 1);
    }
}
