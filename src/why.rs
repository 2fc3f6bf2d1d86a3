//! `dreamer why`: the story of one memory, live, archived or known from the audit alone. Where it comes from, who worded
//! it, what was merged into it or what it was merged into, how it fares, why it left, and the way back. Reads only.
//! What is known is gathered in `known`, excerpts are found in `excerpt`, and `story` puts them together.

mod excerpt;
mod known;
mod story;

use std::path::PathBuf;

use chrono::{DateTime, FixedOffset, NaiveDate};
use serde::Serialize;

use crate::config::Config;
use crate::error::Error;
use crate::memory::{RawMemory, Trace};
use crate::state::audit::Event;
use crate::store::Store;
use known::Known;

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhyError {
    /// No memory there ever was has such an id.
    #[error(
        "tell about {id:?}: no memory, live, archived or ever noted, has an id that begins so; \
         `dreamer memories list` and `dreamer memories list --archived` show the ids"
    )]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// More than one memory has such an id.
    #[error("tell about {id:?}: {count} memories have ids that begin so; give more of it: {some}")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
        /// A few of them.
        some: String,
    },
}

/// Where a memory is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// In `memories`.
    Live,
    /// In the archive.
    Archived,
    /// In neither: what is told comes from traces, copies and the audit.
    Gone,
}

/// Who worded a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WordedBy {
    /// The language model.
    Model,
    /// The source's own words, after the model's failed the check.
    Verbatim,
    /// The source's own words, chosen by rules.
    Extractive,
    /// A merge of others, by the model or by rules.
    Merge,
    /// The gateway captured it.
    Gateway,
    /// Dreamer, before there was an audit.
    Unknown,
}

/// How a memory came to its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wording {
    /// Who.
    pub by: WordedBy,
    /// The run.
    pub run: Option<String>,
    /// When.
    pub at: Option<DateTime<FixedOffset>>,
    /// The language model, or `rules`.
    pub model: Option<String>,
    /// Digest of the prompt.
    pub prompt: Option<String>,
    /// Of a merge: what the two were to each other.
    pub relation: Option<String>,
    /// Of a merge: cosine of the two.
    pub similarity: Option<f32>,
    /// Of a merge: the judge's reason, while the run's plan is kept.
    pub reason: Option<String>,
}

/// Where an excerpt was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// In the episode's file, whose chunk is still the one the memory rests on.
    Episode,
    /// In `raw_memories`; the file is gone or changed.
    Raw,
    /// Nowhere any more.
    Nowhere,
}

/// A piece of an episode that a memory rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// The episode's file name.
    pub episode: String,
    /// First and last line, counted from 1: in the file where it was found there, else as they were.
    pub lines: (usize, usize),
    /// Who said it.
    pub speaker: Option<String>,
    /// When.
    pub said_at: Option<DateTime<FixedOffset>>,
    /// What was said there, without secrets.
    pub excerpt: Option<String>,
    /// Where the excerpt is from.
    pub kept: Kept,
    /// The file.
    pub file: Option<PathBuf>,
}

/// A memory that went into another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Its id.
    pub id: String,
    /// Its text, if that is still kept anywhere.
    pub text: Option<String>,
    /// Where it is now.
    pub standing: Standing,
    /// The day it was said; where nobody knows, the day it was written.
    pub said_on: Option<NaiveDate>,
    /// `merged`, `consolidated`, `duplicate`, `recaptured`, or `original`.
    pub how: String,
    /// The run that did it.
    pub run: Option<String>,
    /// Where it was said.
    pub sources: Vec<Place>,
    /// What had gone into it before.
    pub parts: Vec<Part>,
}

/// The memory that carries another one's content.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Carrier {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: Option<String>,
    /// Where it is now.
    pub standing: Standing,
    /// The run that made it the carrier.
    pub run: Option<String>,
}

/// Why a memory left.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Left {
    /// `faded`, `superseded`, `duplicate`, another word of the audit, or `vanished`: it is gone without our doing.
    pub reason: String,
    /// The run.
    pub run: Option<String>,
    /// When.
    pub at: Option<DateTime<FixedOffset>>,
    /// Its importance then.
    pub importance: Option<f64>,
    /// What the two were to each other.
    pub relation: Option<String>,
    /// Cosine of the two.
    pub similarity: Option<f32>,
    /// Who judged: a model, or `rules`.
    pub judge: Option<String>,
    /// The judge's reason, while the run's plan is kept.
    pub judged: Option<String>,
}

/// How a live memory fares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// Its importance today.
    pub importance: f64,
    /// Importance at its last reinforcement.
    pub base: f64,
    /// The day of that.
    pub clock: NaiveDate,
    /// 1 to 10; divides the active days.
    pub stability: f64,
    /// Active days since.
    pub active_days: usize,
    /// Active days from today until it is below the threshold, if nobody recalls it or says it again.
    pub days_left: Option<usize>,
    /// The day it would fade at the earliest: if every day from now on is an active one.
    pub earliest: Option<NaiveDate>,
    /// Why it does not fade, if it does not.
    pub stays: Option<String>,
}

/// A command that undoes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WayBack {
    /// The command.
    pub command: String,
    /// What it does.
    pub does: String,
}

/// The story of a memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// Its id.
    pub id: String,
    /// What it says, or said, if that is still kept anywhere.
    pub text: Option<String>,
    /// Where it is now.
    pub standing: Standing,
    /// Its agent.
    pub agent: Option<String>,
    /// Its category.
    pub category: Option<String>,
    /// Its importance, as it stands in the table or the archive.
    pub importance: Option<f64>,
    /// When the row was written.
    pub written_at: Option<DateTime<FixedOffset>>,
    /// When it was said.
    pub said_at: Option<DateTime<FixedOffset>>,
    /// The latest date it is about.
    pub about: Option<NaiveDate>,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How it came to its words.
    pub wording: Wording,
    /// Where it comes from, oldest first.
    pub sources: Vec<Place>,
    /// What was merged into it.
    pub parts: Vec<Part>,
    /// Days on which it was recalled.
    pub recalled: Vec<NaiveDate>,
    /// Days on which the user said it.
    pub said_on: Vec<NaiveDate>,
    /// How it fares, while it lives.
    pub outlook: Option<Outlook>,
    /// Why it left, if it did.
    pub left: Option<Left>,
    /// What carries its content since, up to the living one.
    pub carriers: Vec<Carrier>,
    /// What the audit has of it, oldest first.
    pub history: Vec<Event>,
    /// The file with its readable copy.
    pub copy: Option<PathBuf>,
    /// How to undo what was done with it.
    pub ways_back: Vec<WayBack>,
}

/// The story of the memory whose id is `id` or begins so. `today` is the day up to which it is told.
///
/// # Errors
/// When no memory, or more than one, has such an id, or the database or a file of the home cannot be read.
pub async fn why(config: &Config, id: &str, today: NaiveDate) -> Result<Why, Error> {
    let known = Known::read(config, today).await?;
    let id = known.resolve(id)?;
    Ok(story::tell(&known, &id))
}

/// The raw memories a memory rests on, oldest first: the chunks themselves, while they are kept.
///
/// # Errors
/// When the database cannot be read.
pub async fn raw_of(store: &Store, id: &str, trace: Option<&Trace>) -> Result<Vec<RawMemory>, Error> {
    let rests = |raw: &RawMemory| {
        let named = trace.is_some_and(|trace| trace.sources.iter().any(|s| s.chunk == raw.source.chunk));
        named || raw.memories.iter().any(|memory| memory == id)
    };
    let mut raw: Vec<RawMemory> = store.raw_all().await?.into_iter().filter(rests).collect();
    raw.sort_by(|a, b| {
        let place = |raw: &RawMemory| (raw.source.said_at, raw.source.episode.clone(), raw.source.lines);
        place(a).cmp(&place(b))
    });
    Ok(raw)
}
