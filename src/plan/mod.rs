//! The plan: every write of one night as a value. It is built from what NREM and REM found (`build`), stored with its
//! before-images, and executed (`apply`) by code that decides nothing.

pub mod apply;
pub mod build;
pub mod events;
mod exact;
mod forgotten;
pub mod run;
pub mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::memory::{Category, RawMemory, Source, Trace};
use crate::queues::decisions::Decision;
use crate::queues::retry::RetryQueue;
use crate::report::DreamReport;
use crate::state::StateError;
use crate::state::audit::Subject;
use crate::state::calibrations::Calibrated;
use crate::state::journal::{ChunkRecord, JudgedPair};
use crate::state::recalls::RecallEvent;
use crate::state::tombstones::Tombstone;
use crate::store::{Leaving, NewRow, StoredTrace};

pub use run::{Phase, Run};

/// The format of `plan.json` that this program writes. It reads those from 1 on, which wrote importances as numbers.
pub const FORMAT: u32 = 2;

/// The id of a run: `20261130-030000-1a2b3c`, UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(String);

impl RunId {
    /// The id of a run that starts at `now`; `random` tells two runs of one second apart.
    pub fn new(now: DateTime<Utc>, random: u32) -> Self {
        Self(format!("{}-{:06x}", now.format("%Y%m%d-%H%M%S"), random & 0x00ff_ffff))
    }

    /// A run named by the operator. Anything that could leave the runs folder is no run.
    pub fn parse(name: &str) -> Option<Self> {
        let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        (fits && !name.is_empty()).then(|| Self(name.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// When the run started, as its id says; none for an id that was not made by [`RunId::new`].
    pub fn started_at(&self) -> Option<DateTime<Utc>> {
        let time = self.0.get(..15)?;
        Some(NaiveDateTime::parse_from_str(time, "%Y%m%d-%H%M%S").ok()?.and_utc())
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a new row: UUID v5 of run, agent and text, so that applying a plan twice inserts once.
pub fn id_of_new(run: &RunId, agent: &str, text: &str) -> String {
    let namespace = Uuid::new_v5(&Uuid::NAMESPACE_OID, run.as_str().as_bytes());
    Uuid::new_v5(&namespace, format!("{agent}\n{text}").as_bytes()).to_string()
}

/// The id of a successor: another one than a draft of the same words would have.
pub fn id_of_successor(run: &RunId, agent: &str, text: &str) -> String {
    id_of_new(run, agent, &format!("successor\n{text}"))
}

/// The id of a chunk's row in `raw_memories`: UUID v5 of its digest.
pub fn id_of_raw(chunk_digest: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, chunk_digest.as_bytes()).to_string()
}

/// A row's importance, changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportanceChange {
    /// The row.
    pub id: String,
    /// Its text as read: another text by now is left alone.
    pub text: String,
    /// Before, bit for bit: an undo writes it again.
    #[serde(with = "exact")]
    pub from: f64,
    /// After.
    #[serde(with = "exact")]
    pub to: f64,
}

/// A row that becomes again what a run's before-images hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBack {
    /// The row.
    pub id: String,
    /// Its text: of the row that comes back, or of the live one that makes room. Another text by then is left alone.
    pub text: String,
    /// The run whose before-images hold it.
    pub run: RunId,
}

/// A draft that was merged before it ever was a row: kept in the archive as one of its successor's originals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedDraft {
    /// The row it would have been.
    pub row: NewRow,
    /// Where it went.
    pub leaving: Leaving,
    /// `model`, `verbatim` or `extractive`.
    #[serde(default)]
    pub worded_by: String,
    /// Digest of the prompt that led to it; none where no model was asked.
    #[serde(default)]
    pub prompt: Option<String>,
}

/// A done episode that moves to the archive folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeMove {
    /// Where it lies.
    pub from: PathBuf,
    /// The folder it goes to; a file of that name and other content there is never overwritten.
    pub to: PathBuf,
    /// Digest of its bytes as read: a file that changed since stays.
    pub digest: String,
}

/// Something a person is asked, or will be: a line of `queues/review.jsonl`, of which the last one of an id counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReviewItem {
    /// UUID v5 of run and text.
    pub id: String,
    /// `draft` (shall this be remembered?), `conflict` (how do these relate?) or `unreadable`.
    pub kind: String,
    /// The agent it belongs to.
    pub agent: String,
    /// The texts in question.
    pub texts: Vec<String>,
    /// Ids of the memories in question.
    pub memories: Vec<String>,
    /// Why it is asked.
    pub reason: String,
    /// The run that found it.
    pub run: String,
    /// Digests of the memories' texts as they were judged; a text that changed since is another question.
    #[serde(default)]
    pub digests: Vec<String>,
    /// The text, or two, that would carry both memories of a conflict.
    #[serde(default)]
    pub proposal: Vec<String>,
    /// What the proposal would be: `state_change` or `different_aspects`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The rule that would forbid the proposal, had the judge wanted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veto: Option<String>,
    /// What a draft would be stored as, besides its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<AskedDraft>,
    /// The chunks it rests on.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// How much it deserves one of the night's questions; higher is better.
    #[serde(default)]
    pub weight: f64,
    /// Since when it is in the queue; unknown for lines of older versions, which were asked at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<DateTime<Utc>>,
    /// When a person was asked; until then it competes every night.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<DateTime<Utc>>,
    /// The day on which it runs out: what is in question then stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<NaiveDate>,
}

/// What a draft in question would be stored as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedDraft {
    /// Its category.
    pub category: Category,
    /// Its importance.
    pub importance: f64,
    /// People, places and things it names.
    pub entities: Vec<String>,
    /// Free tags.
    pub tags: Vec<String>,
    /// The latest date it is about.
    pub about: Option<NaiveDate>,
    /// Emotion strength.
    pub emotion: f64,
}

/// What the ledger of active days takes in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerChange {
    /// Days on which the agent's user wrote.
    pub active: BTreeSet<NaiveDate>,
    /// Of them, days on which recall sources were readable.
    pub recalls_readable: BTreeSet<NaiveDate>,
    /// Since when its memories may fade, as of tonight.
    pub fading_since: Option<NaiveDate>,
}

/// What a run is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Purpose {
    /// A night.
    #[default]
    Night,
    /// Takes back what another run changed.
    Rollback {
        /// That run.
        of: RunId,
    },
    /// Brings the originals of a merge back in its place.
    Unmerge {
        /// The merge.
        id: String,
    },
}

/// Every write of one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DreamPlan {
    /// [`FORMAT`].
    pub format: u32,
    /// The run.
    pub run: RunId,
    /// What it is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// When it was made.
    pub planned_at: DateTime<Utc>,
    /// The home it was made for: its paths hold nowhere else.
    #[serde(default)]
    pub home: PathBuf,
    /// Rows that leave `memories` for the archive.
    pub leaving: Vec<Leaving>,
    /// Live rows that carry the content of rows that leave, with their text as read: one that says something else by
    /// then carries nothing.
    #[serde(default)]
    pub carriers: BTreeMap<String, String>,
    /// Drafts that go straight to the archive.
    pub merged_drafts: Vec<MergedDraft>,
    /// New, successor and revived rows.
    pub inserts: Vec<NewRow>,
    /// Archived rows that come back: they are among the inserts.
    pub unarchive: Vec<String>,
    /// Rows that an undo inserts again, whole, from before-images; their copies are among `unarchive`.
    #[serde(default)]
    pub put_back: Vec<PutBack>,
    /// Live rows that an undo sends back to the archive: the copies they had there return from before-images.
    #[serde(default)]
    pub rearchive: Vec<PutBack>,
    /// Importance of rows that stay.
    pub importance: Vec<ImportanceChange>,
    /// Traces that change.
    pub traces: Vec<Trace>,
    /// Traces that an undo makes again what they were.
    #[serde(default)]
    pub traces_back: Vec<StoredTrace>,
    /// Traces that an undo removes, because there were none before.
    #[serde(default)]
    pub drop_traces: Vec<String>,
    /// Chunks that are kept raw.
    pub raw: Vec<RawMemory>,
    /// Fates of chunks.
    pub journal: Vec<ChunkRecord>,
    /// Pairs that need not be judged again.
    pub judged: Vec<JudgedPair>,
    /// Ledger changes by agent.
    pub ledger: BTreeMap<String, LedgerChange>,
    /// What a person is asked, or will be.
    pub review: Vec<ReviewItem>,
    /// What became of what a person decided.
    #[serde(default)]
    pub decided: Vec<Decision>,
    /// The retry queue as it is after this run; none when it stays as it is.
    #[serde(default)]
    pub retry: Option<RetryQueue>,
    /// The only agent this run touches, if it was told one.
    #[serde(default)]
    pub only_agent: Option<String>,
    /// The agents that `DREAMER_AGENTS` names; empty when it touches every agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Episodes that move.
    pub moves: Vec<EpisodeMove>,
    /// What is left of memories that were forgotten on purpose.
    #[serde(default)]
    pub tombstones: Vec<Tombstone>,
    /// Memories whose copies are erased: those of the tombstones, and duplicates somebody cleaned up.
    #[serde(default)]
    pub erased: Vec<String>,
    /// Tombstones that are lifted, because the user said it again.
    #[serde(default)]
    pub lifted: Vec<String>,
    /// What the book of recalls takes in.
    #[serde(default)]
    pub recalls: Vec<RecallEvent>,
    /// What the embedder was calibrated to, if tonight did that.
    #[serde(default)]
    pub calibrated: Option<Calibrated>,
    /// Digest of everything it was made from, see [`crate::state::audit::input_digest`].
    #[serde(default)]
    pub input: String,
    /// Rows seen for the first time, with the digests of their texts.
    #[serde(default)]
    pub first_seen: Vec<Subject>,
    /// What the operator is told.
    pub report: DreamReport,
}

impl DreamPlan {
    /// Whether the run touches that agent.
    pub fn touches(&self, agent: &str) -> bool {
        let named = self.agents.is_empty() || self.agents.iter().any(|known| known == agent);
        named && self.only_agent.as_ref().is_none_or(|only| only == agent)
    }

    /// Whether it changes any memory.
    pub fn changes_memories(&self) -> bool {
        !(self.leaving.is_empty()
            && self.inserts.is_empty()
            && self.importance.is_empty()
            && self.put_back.is_empty()
            && self.rearchive.is_empty())
    }

    /// Whether it writes anything that an undo takes back: memories, their copies in the archive, or traces.
    pub fn can_be_undone(&self) -> bool {
        self.changes_memories()
            || !(self.traces.is_empty() && self.traces_back.is_empty() && self.drop_traces.is_empty())
    }
}

/// Why a plan could not be executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No such run.
    #[error("find the run {run}: {path} holds no plan; `ls` the folder above it for the runs there are")]
    NoSuchRun {
        /// The run.
        run: String,
        /// Where its plan would be.
        path: PathBuf,
    },
    /// The plan cannot be read.
    #[error("read the plan {path}: {detail}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The run is over.
    #[error("apply the run {run}: it is {phase} already")]
    Over {
        /// The run.
        run: RunId,
        /// What it is.
        phase: &'static str,
    },
    /// What it read no longer holds.
    #[error("apply the run {run}: {why}; run `dreamer --dry-run` again")]
    Stale {
        /// The run.
        run: RunId,
        /// What no longer holds.
        why: String,
    },
    /// A file of the run could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
}
