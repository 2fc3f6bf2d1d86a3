//! A chunk: one self-contained piece of an episode, cut so that code blocks and tables stay whole.
//! Pure: an episode in, chunks out. Fates are decided later.

mod notes;
mod split;
mod tag;

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;
use sha2::{Digest, Sha256};

use crate::episode::{Content, Episode, Message, Speaker};
use crate::openclaw::noise;

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

/// Characters a neighbour is shortened to.
const CONTEXT_CHARS: usize = 200;

/// Recalled memories a chunk carries at most, the latest: a session that recalled more is no evidence of re-occurrence
/// anyway, and a copy of all of them on every chunk would grow with the square of the session.
const MAX_INJECTED: usize = 100;

/// Cuts an episode into chunks, in the order of the file. Every message of a session is the text of one chunk (of several
/// in a row if it is long) or the `reply_to` of exactly one; every line of notes that is not blank, a heading or a rule
/// is in exactly one chunk.
pub fn chunk(episode: &Episode, timezone: Tz) -> Vec<Chunk> {
    let mut chunks = match &episode.content {
        Content::Session(messages) => of_session(episode, messages, timezone),
        Content::Notes(text) if text.trim_start().starts_with("# Dream log") => {
            let lines = (1, text.trim_end().split('\n').count());
            let standing = Standing::Noise(noise::DREAM_LOG);
            vec![Chunk { lines, standing, ..blank(episode, Speaker::Note, episode.said_at, timezone) }]
        }
        Content::Notes(text) => of_notes(episode, text, 0, episode.said_at, timezone),
    };
    number(&mut chunks);
    chunks
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is a chunk of its own.
    Own,
    /// A chunk of its own, and excluded.
    Excluded,
    /// It is what the next message that somebody said answers.
    ReplyTo,
}

fn of_session(episode: &Episode, messages: &[Message], timezone: Tz) -> Vec<Chunk> {
    let places = places(messages);
    let mut injected: Vec<String> = Vec::new();
    let mut reply_to: Option<usize> = None;
    let mut chunks = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        recall(&mut injected, &message.injected);
        if places[index] == Place::ReplyTo {
            reply_to = Some(index);
            continue;
        }
        let said_at = message.at.unwrap_or(episode.said_at);
        let whole = blank(episode, message.speaker.clone(), said_at, timezone);
        let whole = Chunk { lines: message.lines, injected: injected.clone(), ..whole };
        if let Some(reason) = message.noise {
            chunks.push(Chunk { standing: Standing::Noise(reason), ..whole });
            continue;
        }
        if message.speaker == Speaker::Note {
            chunks.extend(of_notes(episode, &message.text, message.lines.0 - 1, said_at, timezone));
            continue;
        }
        let excluded = places[index] == Place::Excluded;
        let standing = if excluded { Standing::Excluded } else { Standing::Evidence };
        let answered = reply_to.take();
        let context = context(messages, &places, answered.unwrap_or(index), index);
        for (part, range) in split::parts(&message.text).into_iter().enumerate() {
            let text = message.text[range].trim().to_owned();
            let reply_to = answered.filter(|_| part == 0).map(|answered| messages[answered].text.clone());
            chunks.push(Chunk { text, reply_to, context: context.clone(), standing, ..whole.clone() });
        }
    }
    chunks
}

/// Decides for each message whether it is a chunk or the `reply_to` of one.
fn places(messages: &[Message]) -> Vec<Place> {
    let mut places: Vec<Place> = vec![Place::Own; messages.len()];
    let mut answered: Option<usize> = None;
    let mut after_excluded = false;
    for (index, message) in messages.iter().enumerate() {
        // Noise between two messages is said by nobody: it parts no question from its answer.
        if message.noise.is_some() {
            continue;
        }
        let assistant = message.speaker == Speaker::Assistant;
        // What the agent answers to excluded words repeats them as a rule ("noted, the code is 4711").
        if tag::is_excluded(&message.text) || assistant && after_excluded {
            places[index] = Place::Excluded;
            after_excluded = true;
            answered = None;
            continue;
        }
        if !assistant {
            after_excluded = false;
        }
        match message.speaker {
            Speaker::Assistant => answered = Some(index),
            Speaker::User | Speaker::Person(_) => {
                if let Some(answered) = answered.take() {
                    places[answered] = Place::ReplyTo;
                }
            }
            Speaker::Note => answered = None,
        }
    }
    places
}

/// The neighbours of a chunk that reaches from message `first` to `last`: one before, one after.
fn context(messages: &[Message], places: &[Place], first: usize, last: usize) -> Vec<String> {
    let told = |index: &usize| messages[*index].noise.is_none() && places[*index] != Place::Excluded;
    let before = (0..first).rev().take(8).find(told);
    let after = (last + 1..messages.len()).take(8).find(told);
    before.into_iter().chain(after).map(|index| shortened(&messages[index])).collect()
}

fn shortened(message: &Message) -> String {
    let mut text: String = message.text.chars().take(CONTEXT_CHARS).collect();
    if text.len() < message.text.len() {
        text.push('…');
    }
    format!("{}: {text}", message.speaker.as_str())
}

fn recall(injected: &mut Vec<String>, new: &[String]) {
    for memory in new {
        injected.retain(|known| known != memory);
        injected.push(memory.clone());
    }
    let surplus = injected.len().saturating_sub(MAX_INJECTED);
    injected.drain(..surplus);
}

/// Notes: a whole file, or the hand-written lines in a session; `above` lines stand before them in the file.
fn of_notes(episode: &Episode, text: &str, above: usize, said_at: DateTime<Utc>, timezone: Tz) -> Vec<Chunk> {
    let pieces = notes::pieces(text);
    let chunk = |piece: notes::Piece| Chunk {
        lines: (piece.lines.0 + above, piece.lines.1 + above),
        headings: piece.headings,
        text: piece.text,
        standing: piece.standing,
        ..blank(episode, Speaker::Note, said_at, timezone)
    };
    pieces.into_iter().map(chunk).collect()
}

fn blank(episode: &Episode, speaker: Speaker, said_at: DateTime<Utc>, timezone: Tz) -> Chunk {
    Chunk {
        digest: String::new(),
        agent: episode.agent.clone(),
        episode: episode.name.clone(),
        lines: (1, 1),
        headings: Vec::new(),
        speaker,
        said_at,
        date: said_at.with_timezone(&timezone).date_naive(),
        text: String::new(),
        reply_to: None,
        context: Vec::new(),
        injected: Vec::new(),
        standing: Standing::Evidence,
    }
}

/// Digests the chunks. Neither `reply_to` nor context is in the digest: a file that grew by one message must not give
/// its old chunks a new one.
fn number(chunks: &mut [Chunk]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for chunk in chunks {
        let speaker = match &chunk.speaker {
            // A person who calls herself "user" is not the user.
            Speaker::Person(name) => format!("@{name}"),
            other => other.as_str().to_owned(),
        };
        let mut hash = Sha256::new();
        for part in [&chunk.agent, &chunk.date.to_string(), &speaker, &chunk.text] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest = format!("{:x}", hash.clone().finalize());
        let repeat = seen.entry(digest.clone()).and_modify(|times| *times += 1).or_insert(0);
        chunk.digest = match *repeat {
            0 => digest,
            times => format!("{:x}", hash.chain_update(times.to_string()).finalize()),
        };
    }
}
