//! The report: what a night did, as a value. Rendered three ways: the dream log a person reads at breakfast, the
//! summary object of `--json`, and the last lines of a verbose run. Decides nothing.

mod agents;
mod confirm;
mod log;
mod summary;
mod undone;

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::plan::ReviewItem;
use crate::state::journal::Fate;

pub use agents::AgentRead;
pub use log::dream_log;
pub use summary::{story, summary};
pub use undone::{Importance, LeftAlone, Row, Undone};

/// How a night ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Memories changed, or chunks got their fate.
    #[default]
    Done,
    /// There was nothing new and nothing changed.
    NothingNew,
    /// A provider failed: what was settled is applied, the rest waits.
    Failed,
    /// The plan was made and not executed.
    DryRun,
    /// `--if-due`: not due.
    NotDue,
}

impl Status {
    /// The word for logs and `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NothingNew => "nothing_new",
            Self::Failed => "failed",
            Self::DryRun => "dry_run",
            Self::NotDue => "not_due",
        }
    }
}

/// A memory as the log shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// Its agent.
    pub agent: String,
    /// Its text.
    pub text: String,
    /// Its category's word.
    pub category: String,
    /// Its importance.
    pub importance: f64,
    /// The day it was said.
    pub said_on: NaiveDate,
    /// Where it comes from: `episode:first-last (speaker)`.
    pub sources: Vec<String>,
}

/// A new memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The memory.
    pub memory: Shown,
    /// `model`, `verbatim` or `extractive`.
    pub worded_by: String,
    /// Digest of the prompt that led to it; none where no model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A known memory that was said again, or came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strengthened {
    /// The memory.
    pub memory: Shown,
    /// What said it.
    pub said: String,
    /// Where.
    pub sources: Vec<String>,
    /// Cosine of the two.
    pub similarity: f32,
    /// Whether it had faded and came back.
    pub revived: bool,
    /// Digest of the prompt that led to it; none where no model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A merge, a consolidation, or a duplicate that left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// `state_change`, `different_aspects` or `duplicate`.
    pub relation: String,
    /// What was there.
    pub before: Vec<Shown>,
    /// What is there now.
    pub after: Vec<Shown>,
    /// Cosine of the two.
    pub similarity: f32,
    /// The judge's reason.
    pub reason: String,
    /// Whether the gateway had only captured again what was superseded before.
    #[serde(default)]
    pub recaptured: bool,
    /// Digest of the prompt that led to it; none where no model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A pair that was kept, both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// One text.
    pub new: String,
    /// The other.
    pub old: String,
    /// Cosine of the two.
    pub similarity: f32,
    /// The judge's reason.
    pub reason: String,
    /// The rule that forbade joining them, where the judge wanted to.
    pub veto: Option<String>,
}

/// A memory that faded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Faded {
    /// The memory.
    pub memory: Shown,
    /// Its importance when it left.
    pub importance: f64,
}

/// Chunks that share a fate and a reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Their fate.
    pub fate: Fate,
    /// Why.
    pub why: String,
    /// Where they are: `episode:line`, at most a few.
    pub places: Vec<String>,
    /// How many.
    pub count: usize,
}

/// Counts of REM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemCounts {
    /// Pairs that were looked at.
    pub candidates: usize,
    /// Of them, pairs that were not unrelated: merged, consolidated, duplicate, vetoed or asked about.
    pub conflicts: usize,
    /// State changes merged with their history.
    pub merged: usize,
    /// Aspects joined.
    pub consolidated: usize,
    /// Duplicates settled: one stays, reinforced.
    pub reinforced: usize,
    /// Pairs kept, both.
    pub kept_both: usize,
    /// Of them, pairs a rule kept apart against the judge.
    pub vetoed: usize,
    /// Pairs a person is asked about.
    pub pending_review: usize,
    /// Memories recalled since the last night.
    pub recalled: usize,
    /// Memories whose importance went down.
    pub decayed: usize,
    /// Memories that faded.
    pub faded: usize,
}

/// What was forgotten on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenCounts {
    /// Memories that were gone from the table without our doing.
    pub vanished: usize,
    /// Memories that an agent was told to forget and that were still there.
    #[serde(default)]
    pub told: usize,
    /// Claims that were not learned again.
    pub skipped: usize,
    /// Memories that the user said again, so that they may be learned again.
    pub said_again: usize,
}

/// What is left for later nights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Rows not yet reconciled.
    pub rows: usize,
    /// Memories below the threshold beyond the loss budget.
    pub fading: usize,
    /// Rows that could not leave by merging because of the loss budget.
    pub merging: usize,
    /// Days of episodes beyond `MAX_EPISODES_PER_RUN`.
    pub days: usize,
    /// Conflicts whose reply could not be read.
    pub unreadable: usize,
    /// Claims with an open conflict.
    pub conflicts: usize,
}

/// What the models were and cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
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

/// What a night did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DreamReport {
    /// The run.
    pub run: String,
    /// How it ended.
    pub status: Status,
    /// When it started.
    pub started: DateTime<Utc>,
    /// `the whole night`, `NREM only` or `REM only`.
    pub mode: String,
    /// Episodes chunks were taken from.
    pub episodes: Vec<String>,
    /// What was read of each agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, AgentRead>,
    /// Chunks tonight.
    pub chunks: usize,
    /// Of them, chunks held back on earlier nights.
    pub held_back_before: usize,
    /// Clusters they made.
    pub clusters: usize,
    /// Chunks by fate: they add up to `chunks`.
    pub fates: BTreeMap<Fate, usize>,
    /// The chunks that are not in a memory, by fate and reason.
    pub groups: Vec<Group>,
    /// New memories.
    pub created: Vec<Created>,
    /// Memories said again.
    pub strengthened: Vec<Strengthened>,
    /// Merges, consolidations, duplicates.
    pub joined: Vec<Joined>,
    /// Pairs kept, both, where the judge wanted otherwise or something was at stake.
    pub kept: Vec<Kept>,
    /// Memories that faded.
    pub faded: Vec<Faded>,
    /// Counts of REM.
    pub rem: RemCounts,
    /// What was forgotten on purpose.
    #[serde(default)]
    pub forgotten: ForgottenCounts,
    /// Rows settled without a model.
    pub settled_by_rules: usize,
    /// Rows seen for the first time.
    pub first_seen: usize,
    /// What waits.
    pub waiting: Waiting,
    /// Questions to a person.
    pub questions: Vec<String>,
    /// The same as review items.
    #[serde(default)]
    pub asked: Vec<ReviewItem>,
    /// Questions of earlier nights that are open, and those that had no place yet.
    #[serde(default)]
    pub questions_open: usize,
    /// What became of what a person decided, a sentence each.
    #[serde(default)]
    pub carried_out: Vec<String>,
    /// What is in the retry queue, a line each.
    #[serde(default)]
    pub retrying: Vec<String>,
    /// Live memories before and after.
    pub live: (usize, usize),
    /// Whether memories may fade at all, and why not: by agent.
    pub fading: BTreeMap<String, String>,
    /// Things the operator should know.
    pub warnings: Vec<String>,
    /// Why a provider's failure held something back.
    pub failure: Option<String>,
    /// Which limit held something back.
    pub limit: Option<String>,
    /// The models and their cost.
    pub cost: Cost,
    /// Episodes that moved to the archive.
    pub archived_episodes: Vec<String>,
    /// Milliseconds from start to end.
    pub elapsed_ms: u64,
    /// The dream log, once it is written.
    pub dream_log: Option<String>,
    /// What was taken back, where the run was no night.
    #[serde(default)]
    pub undone: Option<Undone>,
}
