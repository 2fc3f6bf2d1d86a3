//! The book of recalls: `recalls.jsonl`, what was read of the use of memories, one JSON line an event. It is why the same
//! transcript read twice raises nothing more, and no prompt is embedded twice to see what it recalled. Holds ids and
//! digests, never a text.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::journal::read_lines;
use super::{StateError, append_lines};

/// The format of the lines that this program writes and reads.
const FORMAT: u32 = 1;

/// How a memory was recalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The agent looked for it: `memory_recall`.
    Asked,
    /// The gateway put it before a prompt that it has to do with.
    Injected,
    /// An agent noted it in `recalls/*.jsonl`.
    Noted,
}

impl Way {
    /// How people are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "memory_recall",
            Self::Injected => "put before a prompt",
            Self::Noted => "noted",
        }
    }
}

/// One thing that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum RecallEvent {
    /// A memory was recalled on a day.
    Recalled {
        /// The memory.
        id: String,
        /// The day.
        day: NaiveDate,
        /// How.
        way: Way,
        /// The transcript's or the file's name.
        place: String,
    },
    /// A prompt was compared with what had been put before it.
    Compared {
        /// Digest of agent, session, day, prompt and what was put before it.
        prompt: String,
    },
    /// A `memory_forget` call was carried out.
    Forgot {
        /// Session and call.
        call: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    format: u32,
    #[serde(flatten)]
    event: RecallEvent,
}

/// Everything that was read so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecallBook {
    /// Memory and day, with every way and place it was recalled.
    recalled: BTreeMap<(String, NaiveDate), BTreeSet<(Way, String)>>,
    compared: HashSet<String>,
    forgot: HashSet<String>,
}

impl RecallBook {
    /// Where it lies.
    pub fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("recalls.jsonl")
    }

    /// Reads the book. A line that makes no sense is passed over: at worst a prompt is compared again.
    ///
    /// # Errors
    /// When the file exists and cannot be read, or is of a newer format.
    pub fn read(state_dir: &Path) -> Result<Self, StateError> {
        let path = Self::path(state_dir);
        let mut book = Self::default();
        for line in read_lines::<serde_json::Value>(&path)? {
            if line["format"].as_u64().is_some_and(|format| format > u64::from(FORMAT)) {
                let detail = "a line is of a newer format than this program".to_owned();
                return Err(StateError::Malformed { path, detail });
            }
            match serde_json::from_value::<Line>(line) {
                Ok(line) => book.take(line.event),
                Err(error) => tracing::warn!("{}: passed over an unreadable line: {error}", path.display()),
            }
        }
        Ok(book)
    }

    fn take(&mut self, event: RecallEvent) {
        match event {
            RecallEvent::Recalled { id, day, way, place } => {
                self.recalled.entry((id, day)).or_default().insert((way, place));
            }
            RecallEvent::Compared { prompt } => {
                self.compared.insert(prompt);
            }
            RecallEvent::Forgot { call } => {
                self.forgot.insert(call);
            }
        }
    }

    /// Appends events that are not in it yet.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn append(state_dir: &Path, events: &[RecallEvent]) -> Result<(), StateError> {
        if events.is_empty() {
            return Ok(());
        }
        let mut book = Self::read(state_dir)?;
        let mut lines = Vec::new();
        for event in events {
            if book.holds(event) {
                continue;
            }
            let line = Line { format: FORMAT, event: event.clone() };
            lines.push(serde_json::to_string(&line).expect("an event is plain data"));
            book.take(event.clone());
        }
        append_lines(&Self::path(state_dir), &lines)
    }

    /// Whether it is in the book.
    pub fn holds(&self, event: &RecallEvent) -> bool {
        match event {
            RecallEvent::Recalled { id, day, way, place } => self
                .recalled
                .get(&(id.clone(), *day))
                .is_some_and(|places| places.contains(&(*way, place.clone()))),
            RecallEvent::Compared { prompt } => self.is_compared(prompt),
            RecallEvent::Forgot { call } => self.is_forgot(call),
        }
    }

    /// Whether the memory was recalled on that day.
    pub fn is_recalled(&self, id: &str, day: NaiveDate) -> bool {
        self.recalled.contains_key(&(id.to_owned(), day))
    }

    /// Whether the prompt was compared already.
    pub fn is_compared(&self, prompt: &str) -> bool {
        self.compared.contains(prompt)
    }

    /// Whether the `memory_forget` call was carried out already.
    pub fn is_forgot(&self, call: &str) -> bool {
        self.forgot.contains(call)
    }

    /// Every memory and day.
    pub fn all(&self) -> impl Iterator<Item = (&str, NaiveDate)> {
        self.recalled.keys().map(|(id, day)| (id.as_str(), *day))
    }

    /// The recalls of a memory, the oldest first: day, way and place.
    pub fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (NaiveDate, Way, &'a str)> {
        let of_id = self.recalled.iter().filter(move |((known, _), _)| known == id);
        of_id.flat_map(|((_, day), places)| places.iter().map(|(way, place)| (*day, *way, place.as_str())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn recalled(id: &str, day: &str) -> RecallEvent {
        let (way, place) = (Way::Asked, "2026-03-10-transcript-s.jsonl".to_owned());
        RecallEvent::Recalled { id: id.into(), day: day.parse().unwrap(), way, place }
    }

    #[test]
    fn an_event_is_written_once_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let events = [
            recalled("a", "2026-03-10"),
            recalled("a", "2026-03-10"),
            recalled("a", "2026-03-11"),
            RecallEvent::Compared { prompt: "p".into() },
            RecallEvent::Forgot { call: "s c".into() },
        ];
        for _ in 0..2 {
            RecallBook::append(dir.path(), &events).unwrap();
        }
        assert_eq!(std::fs::read_to_string(RecallBook::path(dir.path())).unwrap().lines().count(), 4);
        let book = RecallBook::read(dir.path()).unwrap();
        let days: Vec<String> = book.of("a").map(|(day, way, _)| format!("{day} {}", way.as_str())).collect();
        assert_eq!(days, ["2026-03-10 memory_recall", "2026-03-11 memory_recall"]);
        assert!(
            book.is_compared("p")
                && book.is_forgot("s c")
                && !book.is_recalled("b", "2026-03-10".parse().unwrap())
        );
    }

    #[test]
    fn a_torn_line_is_passed_over_and_a_newer_format_refused() {
        let dir = tempfile::tempdir().unwrap();
        RecallBook::append(dir.path(), &[recalled("a", "2026-03-10")]).unwrap();
        let path = RecallBook::path(dir.path());
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{}", &whole[..20])).unwrap();
        assert_eq!(RecallBook::read(dir.path()).unwrap().all().count(), 1);
        std::fs::write(&path, whole.replace("\"format\":1", "\"format\":2")).unwrap();
        assert!(matches!(RecallBook::read(dir.path()), Err(StateError::Malformed { .. })));
    }

    #[test]
    fn a_file_of_format_1_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            RecallBook::path(dir.path()),
            include_str!("../../tests/fixtures/state/recalls-1.jsonl"),
        )
        .unwrap();
        let book = RecallBook::read(dir.path()).unwrap();
        assert_eq!(book.of("row-a").count(), 2);
        assert!(book.is_compared("3f1a") && book.is_forgot("s-1 call_1"));
    }
}
