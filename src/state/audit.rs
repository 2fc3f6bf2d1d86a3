//! `audit.jsonl`: one JSON line for every change of a memory and one for every run, for good. It holds ids, digests,
//! scores, places and counts, never a word of a memory or a chunk. Which events a plan makes is `plan::events`' work;
//! what they say of one memory is told by `why`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::journal::read_lines;
use super::{StateError, append_lines, read_if_there};
use crate::config::Config;
use crate::memory::text_digest;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A draft became a memory.
    Created,
    /// A draft went straight into a merge: it is in the archive and never was a row.
    Drafted,
    /// A state change: a successor carries both.
    Merged,
    /// Aspects joined: a successor carries both.
    Consolidated,
    /// A memory left because another one says the same.
    Duplicate,
    /// A row left because the gateway had captured again what was superseded before.
    Recaptured,
    /// A memory's importance fell below the threshold, and it left.
    Faded,
    /// A faded memory was said again and came back.
    Revived,
    /// A memory was said again.
    Reinforced,
    /// A memory was recalled, and its importance rose.
    Recalled,
    /// Rows seen for the first time: one event a run, with their number, the digest of the list, and, up to
    /// [`LISTED`], which they are.
    FirstSeen,
    /// Importance that went down with time: one event a run, with the number of memories and the digest of the list
    /// (`id from to`, sorted, a line each). Which memories they were and by how much follows from their traces.
    Decayed,
    /// A change of another run was taken back.
    RolledBack,
    /// A merge was taken apart: its originals are back.
    Unmerged,
    /// A person brought an archived memory back.
    Restored,
    /// A person took one change back.
    Undone,
    /// A memory was forgotten on purpose.
    Forgotten,
    /// A person pinned a memory.
    Pinned,
    /// A person took a pin away.
    Unpinned,
    /// A person answered a question.
    Reviewed,
    /// Every vector became another model's: `model`, in the place of `of`; `count` texts have one.
    Reembedded,
    /// A run as a whole.
    Run,
    /// What a newer Dreamer wrote.
    #[serde(untagged)]
    Other(String),
}

impl Kind {
    /// The word in the file.
    pub fn word(&self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(word)) => word,
            _ => String::new(),
        }
    }

    /// Whether a run has at most one event of it.
    fn is_once_a_run(&self) -> bool {
        matches!(self, Self::FirstSeen | Self::Decayed | Self::Run)
    }
}

/// Rows that a `first_seen` event names at most.
pub const LISTED: usize = 500;

/// A memory in an event: which, and the digest of what it said then.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// Its id.
    pub id: String,
    /// [`text_digest`] of its text.
    pub digest: String,
}

impl Subject {
    /// The memory of that id with that text.
    pub fn of(id: &str, text: &str) -> Self {
        Self { id: id.to_owned(), digest: text_digest(text) }
    }
}

/// A run as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// `the whole night`, `NREM only`, `REM only`, or what else the run was for.
    pub mode: String,
    /// How it ended.
    pub outcome: String,
    /// [`input_digest`] of what it read.
    pub input: String,
    /// Digest of the writes that came of it.
    pub output: String,
    /// Chunks by fate.
    pub fates: BTreeMap<String, usize>,
    /// Pairs by relation; `vetoed` are those a rule kept apart against the judge.
    pub relations: BTreeMap<String, usize>,
    /// The embedding model.
    pub embedding: String,
    /// The language model, or `extractive`.
    pub language: String,
    /// Requests to models.
    pub calls: u32,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
}

/// One line of `audit.jsonl`. Fields that say nothing are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The run, or the command, such as `restore`.
    pub run: String,
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub kind: Kind,
    /// The agent the memories belong to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// What was there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Subject>,
    /// What is there since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Subject>,
    /// Cosine of the two in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
    /// `state_change`, `different_aspects` or `duplicate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The importance that counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<f64>,
    /// Who worded it: `model`, `verbatim` (the source's own words, after the model's failed the check) or `extractive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worded_by: Option<String>,
    /// The language model that worded or judged; `rules` where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Digest of the prompt that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Where it was said: `episode:first-last`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The run that was rolled back, the merge that was taken apart, the run that had archived what was restored, or the
    /// embedding model before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// How many, where one event stands for many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Digest of the list of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
}

impl Event {
    /// An event that says nothing more yet.
    pub fn new(run: &str, at: DateTime<Utc>, kind: Kind) -> Self {
        Self {
            run: run.to_owned(),
            at,
            kind,
            agent: String::new(),
            before: Vec::new(),
            after: Vec::new(),
            similarity: None,
            relation: None,
            importance: None,
            worded_by: None,
            model: None,
            prompt: None,
            sources: Vec::new(),
            of: None,
            count: None,
            list: None,
            totals: None,
        }
    }

    /// Every memory it names.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.before.iter().chain(&self.after).map(|subject| subject.id.as_str())
    }

    /// Whether it names the memory.
    pub fn names(&self, id: &str) -> bool {
        self.ids().any(|named| named == id)
    }

    fn line(&self) -> String {
        serde_json::to_string(self).expect("an event is plain data")
    }
}

/// The audit of a home.
#[derive(Debug)]
pub struct Audit;

impl Audit {
    /// Where it lies.
    pub fn path(home: &Path) -> PathBuf {
        home.join("audit.jsonl")
    }

    /// Every event, oldest first. A torn line (a crash while appending) is passed over: its run appends it again.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(home: &Path) -> Result<Vec<Event>, StateError> {
        read_lines(&Self::path(home))
    }

    /// Appends events that are not there yet and makes them durable. A run that is applied again, because it was killed,
    /// doubles none of its events.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn append(home: &Path, events: &[Event]) -> Result<(), StateError> {
        let path = Self::path(home);
        let there = read_if_there(&path)?.unwrap_or_default();
        let there = String::from_utf8_lossy(&there);
        let runs: HashSet<&str> = events.iter().map(|event| event.run.as_str()).collect();
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut once: HashSet<(String, Kind)> = HashSet::new();
        for line in there.lines().filter(|line| runs.iter().any(|run| line.contains(run))) {
            *known.entry(line).or_default() += 1;
            if let Ok(event) = serde_json::from_str::<Event>(line) {
                once.insert((event.run, event.kind));
            }
        }
        let mut lines = Vec::new();
        for event in events {
            let line = event.line();
            // One memory may be said again twice a night: an event is new as often as it was not yet found.
            match known.get_mut(line.as_str()).filter(|times| **times > 0) {
                Some(times) => *times -= 1,
                None if event.kind.is_once_a_run()
                    && once.contains(&(event.run.clone(), event.kind.clone())) => {}
                None => lines.push(line),
            }
        }
        append_lines(&path, &lines)
    }
}

/// Notes what a command did to memories outside a night. To be called when it is done.
///
/// # Errors
/// When the audit cannot be written; what the command did stays done.
pub fn note(config: &Config, event: Event) -> Result<(), StateError> {
    append_lines(&Audit::path(&config.home), &[event.line()])
}

/// Digest of everything a run read: over the sorted digests of its chunks and of the texts of all live rows.
pub fn input_digest(chunks: impl Iterator<Item = String>, rows: impl Iterator<Item = String>) -> String {
    list_digest(chunks.chain(rows).collect())
}

/// Hex SHA-256 of a list, sorted, a line each.
pub fn list_digest(mut list: Vec<String>) -> String {
    list.sort();
    let mut hash = Sha256::new();
    for line in list {
        hash.update(line.as_bytes());
        hash.update(b"\n");
    }
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event(run: &str, kind: Kind, id: &str) -> Event {
        let at = "2026-03-10T03:00:00Z".parse().unwrap();
        Event { after: vec![Subject::of(id, "tea")], ..Event::new(run, at, kind) }
    }

    fn lines(home: &Path) -> Vec<String> {
        std::fs::read_to_string(Audit::path(home)).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_run_that_is_applied_again_doubles_nothing_and_mends_what_was_torn() {
        let dir = tempfile::tempdir().unwrap();
        let again = event("r1", Kind::Reinforced, "a");
        let events = [
            event("r1", Kind::Created, "a"),
            again.clone(),
            again,
            Event { count: Some(3), ..event("r1", Kind::Decayed, "a") },
            event("r1", Kind::Run, "a"),
        ];
        Audit::append(dir.path(), &events).unwrap();
        let whole = std::fs::read(Audit::path(dir.path())).unwrap();
        assert_eq!(lines(dir.path()).len(), 5);
        // What was counted is counted once, even if the second time finds fewer.
        let mut fewer = events.clone();
        fewer[3].count = Some(2);
        Audit::append(dir.path(), &fewer).unwrap();
        assert_eq!(std::fs::read(Audit::path(dir.path())).unwrap(), whole);

        std::fs::write(Audit::path(dir.path()), &whole[..whole.len() - 30]).unwrap();
        Audit::append(dir.path(), &events).unwrap();
        assert_eq!(lines(dir.path()).len(), 6, "the torn line stays a line of its own");
        assert_eq!(Audit::read(dir.path()).unwrap(), events);
        Audit::append(dir.path(), &[event("r2", Kind::Created, "a")]).unwrap();
        assert_eq!(lines(dir.path()).len(), 7, "another run's event is another event");
    }

    #[test]
    fn kinds_are_words_and_unknown_ones_are_kept() {
        assert_eq!(Kind::FirstSeen.word(), "first_seen");
        let line = event("r", Kind::Created, "a").line().replace("created", "dreamt_of");
        let read: Event = serde_json::from_str(&line).unwrap();
        assert_eq!((read.kind.clone(), read.line()), (Kind::Other("dreamt_of".into()), line));
    }

    #[test]
    fn the_input_digest_does_not_depend_on_the_order() {
        let digest = |list: [&str; 3]| {
            input_digest(
                list[..2].iter().map(|s| (*s).to_string()),
                list[2..].iter().map(|s| (*s).to_string()),
            )
        };
        assert_eq!(digest(["a", "b", "c"]), digest(["b", "c", "a"]));
        assert_ne!(digest(["a", "b", "c"]), digest(["a", "b", "d"]));
    }
}
