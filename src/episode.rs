//! An episode: one markdown file of raw experience. Finds the files of a night, reads them (the one directory read
//! outside the edges) and says which day and which messages they hold.
//! Cutting the messages into chunks is `nrem::chunk`; the gateway's own grammar is `openclaw::session`.

use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, Utc};

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The owner of the agent.
    User,
    /// The agent.
    Assistant,
    /// Another person, by name.
    Person(String),
    /// Nobody: a note, a document, a free-form file.
    Note,
}

impl Speaker {
    /// `user`, `assistant`, `note`, or the person's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Person(name) => name,
            Self::Note => "note",
        }
    }
}

/// One message of a session, after its envelope was read and stripped.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who said it.
    pub speaker: Speaker,
    /// When, if the message itself says so.
    pub at: Option<DateTime<Utc>>,
    /// The words, cleaned: no envelope, no recalled block. Empty when nothing that anybody said is left.
    pub text: String,
    /// Why nothing is left, for a message that was cleaned away whole.
    pub noise: Option<&'static str>,
    /// Memories the gateway had put before the prompt: recalled text, never evidence.
    pub injected: Vec<String>,
    /// First and last line in the file, counted from 1.
    pub lines: (usize, usize),
}

/// What an episode holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A session written by the gateway's hook.
    Session(Vec<Message>),
    /// Any other markdown: its text, front matter blanked out with the line count kept.
    Notes(String),
}

/// One markdown file of raw experience.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Where it lies.
    pub path: PathBuf,
    /// Its file name: `YYYY-MM-DD.md` or `YYYY-MM-DD-slug.md`.
    pub name: String,
    /// The date in its name.
    pub date: NaiveDate,
    /// Hex SHA-256 of the file's bytes as read.
    pub digest: String,
    /// The agent it belongs to, from the session key; else the configured one.
    pub agent: String,
    /// The session key of the header.
    pub session_key: Option<String>,
    /// When its words were said where a message does not say: session header (one before 05:00 local time belongs to the
    /// previous day: its last second), else the last second of the file's date.
    pub said_at: DateTime<Utc>,
    /// What it holds.
    pub content: Content,
    /// Things the operator should know, such as "3 bytes were not valid UTF-8".
    pub warnings: Vec<String>,
}
