//! The shared nouns of the store: a remembered claim, what Dreamer knows beyond the shared row, and the
//! small value types (similarity, importance, partition) that every stage uses.
//! Reading and writing them is `store/`'s work.

use std::collections::BTreeSet;
use std::fmt;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Cosine similarity of two unit vectors, −1 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Similarity(pub f32);

impl fmt::Display for Similarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.0)
    }
}

/// How much a memory matters, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Importance(f64);

impl Importance {
    /// Clamps to 0..=1; a value that is not a number becomes 0.
    pub fn new(value: f64) -> Self {
        Self(if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) })
    }

    /// The value, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Importance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.0)
    }
}

/// The gateway's five categories. Anything else it may write reads as `Other`; Dreamer never rewrites a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// What somebody likes, wants or avoids.
    Preference,
    /// What is the case.
    Fact,
    /// What was decided.
    Decision,
    /// A person, a thing or a place and what it is.
    Entity,
    /// Everything else.
    Other,
}

impl Category {
    /// Reads the gateway's word; an unknown word is `Other`.
    pub fn from_word(word: &str) -> Self {
        match word.trim().to_ascii_lowercase().as_str() {
            "preference" => Self::Preference,
            "fact" => Self::Fact,
            "decision" => Self::Decision,
            "entity" => Self::Entity,
            _ => Self::Other,
        }
    }

    /// The word the gateway uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preference => "preference",
            Self::Fact => "fact",
            Self::Decision => "decision",
            Self::Entity => "entity",
            Self::Other => "other",
        }
    }
}

/// The rows that may be clustered, compared and merged with each other: one agent's, in one scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Partition {
    /// The agent's id, as in `agentId`.
    pub agent: String,
    /// The `scope` column where the table has one.
    pub scope: Option<String>,
}

impl Partition {
    /// The partition that new memories of an agent go to: no scope.
    pub fn of_agent(agent: impl Into<String>) -> Self {
        Self { agent: agent.into(), scope: None }
    }
}

/// One remembered claim: a row of `memories` without its vector, which stays in the store until it is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// UUID.
    pub id: String,
    /// The claim.
    pub text: String,
    /// 0 to 1 as stored; the gateway's automatic captures have 0.7.
    pub importance: f64,
    /// The gateway's category.
    pub category: Category,
    /// When the row was written, epoch milliseconds. Not when the thing was said.
    pub created_at: i64,
    /// Agent and scope.
    pub partition: Partition,
}

/// Hex SHA-256 of a text, trimmed. Two rows with the same digest say the same words.
pub fn text_digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.trim().as_bytes()))
}

/// The piece of an episode that a memory rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The episode's file name.
    pub episode: String,
    /// First and last line, counted from 1.
    pub lines: (usize, usize),
    /// Digest of the chunk.
    pub chunk: String,
    /// Who said it.
    pub speaker: String,
    /// When it was said.
    pub said_at: DateTime<Utc>,
}

/// Whether a memory has been compared with everything else.
/// The more is left to do, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reconciled {
    /// Compared; nothing is open.
    Done,
    /// A night took it up and left a conflict of it open: the next one takes it up again, but it is nothing new.
    Open,
    /// Not yet compared: a later night takes it up.
    Waiting,
}

/// What Dreamer knows of a memory beyond the shared row. Kept in `memory_traces`, also for archived memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The memory's id.
    pub id: String,
    /// The memory's agent.
    pub agent: String,
    /// [`text_digest`] of the text this trace was made for.
    pub digest: String,
    /// Importance at the last reinforcement, 0 to 1: the base of the decay formula.
    pub base: f64,
    /// The importance Dreamer last read or wrote; another value in the row is somebody else's and a new base.
    pub written: f64,
    /// The day the decay clock started; active days after it count.
    pub clock: NaiveDate,
    /// 1 to 10; divides the active days in the decay formula.
    pub stability: f64,
    /// Days on which the memory was recalled.
    #[serde(default)]
    pub recalled: BTreeSet<NaiveDate>,
    /// Days on which the user said it again.
    #[serde(default)]
    pub reinforced: BTreeSet<NaiveDate>,
    /// Where it comes from.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// Ids of the originals it was merged from, oldest first; never ids of merges.
    #[serde(default)]
    pub merged_from: Vec<String>,
    /// People, places and things it names.
    #[serde(default)]
    pub entities: Vec<String>,
    /// Free tags from the distiller.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Emotion strength, 0 to 1.
    #[serde(default)]
    pub emotion: f64,
    /// When it was said; unknown for rows the gateway wrote.
    pub said_at: Option<DateTime<Utc>>,
    /// The latest date the claim speaks of; it does not fade before.
    pub about: Option<NaiveDate>,
    /// Pinned memories neither fade nor merge.
    #[serde(default)]
    pub pinned: bool,
    /// Whether REM has dealt with it.
    pub reconciled: Reconciled,
    /// The embedding model of the run that wrote this trace.
    pub model: String,
    /// The run that last changed this trace.
    pub run: String,
}

impl Trace {
    /// The trace of a row nobody has traced yet: its importance is its base, and its clock starts `today`.
    pub fn of_row(memory: &Memory, today: NaiveDate, model: &str, run: &str) -> Self {
        Self {
            id: memory.id.clone(),
            agent: memory.partition.agent.clone(),
            digest: text_digest(&memory.text),
            base: memory.importance,
            written: memory.importance,
            clock: today,
            stability: 1.0,
            recalled: BTreeSet::new(),
            reinforced: BTreeSet::new(),
            sources: Vec::new(),
            merged_from: Vec::new(),
            entities: Vec::new(),
            tags: Vec::new(),
            emotion: 0.0,
            said_at: None,
            about: None,
            pinned: false,
            reconciled: Reconciled::Done,
            model: model.to_owned(),
            run: run.to_owned(),
        }
    }
}

/// Why a memory left `memories`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Departure {
    /// Its importance fell below the threshold.
    Faded,
    /// A merge or consolidation carries its content.
    Superseded,
    /// Another memory says the same.
    Duplicate,
    /// The run that brought it was undone.
    Undone,
    /// The operator had it forgotten; it has a tombstone.
    Forgotten,
}

impl Departure {
    /// The word stored in the archive's `reason` column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Faded => "faded",
            Self::Superseded => "superseded",
            Self::Duplicate => "duplicate",
            Self::Undone => "undone",
            Self::Forgotten => "forgotten",
        }
    }
}

/// A memory in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Archived {
    /// The row as it was.
    pub memory: Memory,
    /// Why it left.
    pub reason: Departure,
    /// The memory that carries its content, if any.
    pub successor: Option<String>,
    /// The run that moved it.
    pub run: String,
    /// When it was moved, epoch milliseconds.
    pub archived_at: i64,
}

/// A chunk as it is kept in `raw_memories`: without secrets, with its vector and the memories that rest on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawMemory {
    /// UUID v5 of the chunk digest, so that writing it twice is one row.
    pub id: String,
    /// The chunk's text.
    pub text: String,
    /// Its vector.
    pub vector: Vec<f32>,
    /// The agent it was said to.
    pub agent: String,
    /// Where and when it was said, and by whom.
    pub source: Source,
    /// Ids of the memories that rest on it.
    pub memories: Vec<String>,
    /// The run that wrote it.
    pub run: String,
}
