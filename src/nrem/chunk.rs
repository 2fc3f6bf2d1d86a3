//! A chunk: one self-contained piece of an episode, cut so that code blocks and tables stay whole.
//! Pure: an episode in, chunks out. Fates are decided later.

use chrono::{DateTime, NaiveDate, Utc};

use crate::episode::Speaker;

/// What a chunk is before anybody judged its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Evidence for the night.
    Evidence,
    /// Nobody said it, or it says nothing (heartbeat, notice, greeting): the reason.
    Noise(&'static str),
    /// Under a heading or in a message tagged `#tmp` or `#no_archive`.
    Excluded,
}

/// One self-contained piece of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// Hex SHA-256 of agent, date of said-at, speaker, text and the repeat number within the file.
    pub digest: String,
    /// The agent it was said to.
    pub agent: String,
    /// The episode's file name.
    pub episode: String,
    /// First and last line of `text` in the file, counted from 1.
    pub lines: (usize, usize),
    /// The headings above it, outermost first; empty in a dialogue.
    pub headings: Vec<String>,
    /// Who said `text`.
    pub speaker: Speaker,
    /// When it was said.
    pub said_at: DateTime<Utc>,
    /// The day it was said, in the configured time zone.
    pub date: NaiveDate,
    /// The words: evidence.
    pub text: String,
    /// In a dialogue, the assistant message just before it, which is evidence too, as said by the assistant.
    pub reply_to: Option<String>,
    /// Its neighbours in the conversation, shortened: they help to understand, they are never evidence.
    pub context: Vec<String>,
    /// Memories recalled into this session before the message.
    pub injected: Vec<String>,
    /// Evidence, noise or excluded.
    pub standing: Standing,
}
