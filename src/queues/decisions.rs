//! What a person decided about review items and undo boxes, and what became of it: `queues/decisions.jsonl`, one event a
//! line, the last line of an id counts. It is why nothing that was ticked or answered is carried out twice.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::read_lines;
use crate::plan::ReviewItem;
use crate::state::{StateError, append_lines};

/// What a person wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The merge the judge proposed.
    Merge,
    /// They say the same: the better one stays.
    Duplicate,
    /// Both stay, and no model is asked about them again.
    Keep,
    /// The draft becomes a memory.
    Store,
    /// The chunks stay raw text, and no model is asked about them again.
    RawOnly,
    /// A model is asked anew.
    Again,
    /// What a night did is taken back.
    Undo,
}

impl Answer {
    /// Every answer.
    pub const ALL: [Self; 7] =
        [Self::Merge, Self::Duplicate, Self::Keep, Self::Store, Self::RawOnly, Self::Again, Self::Undo];

    /// The word for commands, markers and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Duplicate => "duplicate",
            Self::Keep => "keep",
            Self::Store => "store",
            Self::RawOnly => "raw_only",
            Self::Again => "again",
            Self::Undo => "undo",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.as_str() == word.trim().replace('-', "_"))
    }
}

/// The answers an item can be given, the approving ones first; the last one rejects it.
pub fn answers_to(item: &ReviewItem) -> Vec<Answer> {
    match item.kind.as_str() {
        "draft" => vec![Answer::Store, Answer::RawOnly],
        "unreadable" if item.memories.is_empty() => vec![Answer::Again, Answer::RawOnly],
        "unreadable" => vec![Answer::Again, Answer::Keep],
        _ if item.proposal.is_empty() => vec![Answer::Duplicate, Answer::Keep],
        _ => vec![Answer::Merge, Answer::Duplicate, Answer::Keep],
    }
}

/// How far a decision got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The next run carries it out.
    Decided,
    /// Done.
    CarriedOut,
    /// It could not be done any more; that was told.
    Moot,
    /// Nobody decided in time.
    Expired,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The review item, or `RUN/ID` of what is undone.
    pub id: String,
    /// What is wanted.
    pub answer: Answer,
    /// How far it got.
    pub state: State,
    /// `command`, `expiry`, or the dream log with the tick.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
    /// The run that carried it out, or found that it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The last word on every id.
#[derive(Debug, Clone, Default)]
pub struct Decisions {
    last: HashMap<String, Decision>,
}

impl Decisions {
    /// Reads them; a missing file holds none.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(queues_dir: &Path) -> Result<Self, StateError> {
        let lines: Vec<Decision> = read_lines(&path(queues_dir))?;
        Ok(Self { last: lines.into_iter().map(|line| (line.id.clone(), line)).collect() })
    }

    /// Appends decisions that are not yet the last word. What a person decided meanwhile is not overruled by an item's
    /// running out.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(queues_dir: &Path, decisions: &[Decision]) -> Result<(), StateError> {
        let known = Self::read(queues_dir)?;
        let is_news = |decision: &&Decision| match known.last.get(&decision.id) {
            Some(last) if last.state == State::Decided => {
                decision.state != State::Expired && last != *decision
            }
            Some(last) => last != *decision,
            None => true,
        };
        let line = |decision: &Decision| serde_json::to_string(decision).expect("a decision is plain data");
        let lines: Vec<String> = decisions.iter().filter(is_news).map(line).collect();
        append_lines(&path(queues_dir), &lines)
    }

    /// The last word on an id.
    pub fn get(&self, id: &str) -> Option<&Decision> {
        self.last.get(id)
    }

    /// Whether nothing is left to do or to decide about an id.
    pub fn is_closed(&self, id: &str) -> bool {
        self.get(id).is_some_and(|last| last.state != State::Decided)
    }
}

fn path(queues_dir: &Path) -> PathBuf {
    queues_dir.join("decisions.jsonl")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn decision(answer: Answer, state: State) -> Decision {
        let at = "2026-03-11T03:00:00Z".parse().unwrap();
        Decision { id: "a".into(), answer, state, by: "command".into(), at, run: None }
    }

    #[test]
    fn the_last_word_counts_is_written_once_and_a_decision_does_not_run_out() {
        let dir = tempfile::tempdir().unwrap();
        let last = || Decisions::read(dir.path()).unwrap().get("a").cloned();
        let append = |decision: Decision| Decisions::append(dir.path(), &[decision]).unwrap();
        append(decision(Answer::Keep, State::Decided));
        append(decision(Answer::Merge, State::Decided));
        append(decision(Answer::Keep, State::Expired));
        assert_eq!(last(), Some(decision(Answer::Merge, State::Decided)));
        for _ in 0..2 {
            append(decision(Answer::Merge, State::CarriedOut));
        }
        assert!(Decisions::read(dir.path()).unwrap().is_closed("a"));
        let text = std::fs::read_to_string(dir.path().join("decisions.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn every_answer_has_a_word_that_is_read_back() {
        for answer in Answer::ALL {
            assert_eq!(Answer::from_word(answer.as_str()), Some(answer));
        }
        assert_eq!(Answer::from_word("raw-only"), Some(Answer::RawOnly));
        assert_eq!(Answer::from_word("burn"), None);
    }
}
