//! The tombstones: `tombstones.jsonl`, what is left of memories that were forgotten on purpose. One JSON line an event,
//! the last line of a memory's id counts. Holds digests, vectors and salted hashes, never a text.
//! What matches a tombstone is `forget`'s work.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{StateError, append_lines, read_if_there};
use crate::forget::fingerprint::Fingerprint;

/// The format of the lines that this program writes and reads.
const FORMAT: u32 = 1;

/// How a memory was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Its row was gone without our doing.
    Vanished,
    /// The operator ran `dreamer forget`.
    Command,
    /// The agent was told to forget it.
    MemoryForget,
}

impl How {
    /// How people are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vanished => "deleted from the table",
            Self::Command => "dreamer forget",
            Self::MemoryForget => "memory_forget",
        }
    }
}

/// What is left of a forgotten memory: enough to never learn it again from old text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The memory's id.
    pub id: String,
    /// Its agent.
    pub agent: String,
    /// [`crate::memory::text_digest`] of its text.
    pub digest: String,
    /// Digest of its words, normalised and without the speaker and day of a quote; none where the text was not known.
    #[serde(default)]
    pub words: Option<String>,
    /// Its vector, of unit length; none where it was not known.
    #[serde(default)]
    pub vector: Option<Vec<f32>>,
    /// The embedding model of the vector.
    #[serde(default)]
    pub model: String,
    /// What it stated, hashed; none where the text was not known.
    #[serde(default)]
    pub details: Option<Fingerprint>,
    /// When. Only what the user says after it is learned again.
    pub forgotten_at: DateTime<Utc>,
    /// How.
    pub how: How,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
enum Event {
    Forgotten {
        format: u32,
        #[serde(flatten)]
        tombstone: Box<Tombstone>,
    },
    Lifted {
        format: u32,
        id: String,
        at: DateTime<Utc>,
    },
}

impl Event {
    fn format(&self) -> u32 {
        match self {
            Self::Forgotten { format, .. } | Self::Lifted { format, .. } => *format,
        }
    }
}

/// The tombstones in force, by the memory's id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tombstones {
    standing: BTreeMap<String, Tombstone>,
}

impl Tombstones {
    /// Where they lie.
    pub fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("tombstones.jsonl")
    }

    /// Reads those in force. A torn last line (a crash while appending) is passed over: its run is applied again.
    ///
    /// # Errors
    /// When the file cannot be read, or another line of it cannot be understood: what was forgotten would come back.
    pub fn read(state_dir: &Path) -> Result<Self, StateError> {
        let path = Self::path(state_dir);
        let Some(bytes) = read_if_there(&path)? else { return Ok(Self::default()) };
        let mut standing = BTreeMap::new();
        for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Event>(line) {
                Ok(event) if event.format() > FORMAT => {
                    let detail = format!("line {} is of a newer format", number + 1);
                    return Err(StateError::Malformed { path, detail });
                }
                Ok(Event::Forgotten { tombstone, .. }) => {
                    standing.insert(tombstone.id.clone(), *tombstone);
                }
                Ok(Event::Lifted { id, .. }) => {
                    standing.remove(&id);
                }
                // Torn: nothing follows it, or the newline that the next append closed it with.
                Err(_) if is_torn(line) => {
                    tracing::warn!("{}:{}: passed over a torn line", path.display(), number + 1);
                }
                Err(error) => {
                    let detail = format!("line {}: {error}; take the line out of the file", number + 1);
                    return Err(StateError::Malformed { path, detail });
                }
            }
        }
        Ok(Self { standing })
    }

    /// Appends tombstones that do not stand yet. An id that has one keeps it: forgetting twice is forgetting once.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn append(state_dir: &Path, tombstones: &[Tombstone]) -> Result<(), StateError> {
        let there = Self::read(state_dir)?;
        let new = tombstones.iter().filter(|tombstone| there.get(&tombstone.id).is_none());
        let events =
            new.map(|tombstone| Event::Forgotten { format: FORMAT, tombstone: Box::new(tombstone.clone()) });
        write(state_dir, events)
    }

    /// Writes tombstones in the place of those that stand for the same ids, as when their vectors become another model's.
    /// Ids without one are passed over.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn replace(state_dir: &Path, tombstones: &[Tombstone]) -> Result<(), StateError> {
        let there = Self::read(state_dir)?;
        let standing = tombstones.iter().filter(|tombstone| there.get(&tombstone.id).is_some());
        let events = standing
            .map(|tombstone| Event::Forgotten { format: FORMAT, tombstone: Box::new(tombstone.clone()) });
        write(state_dir, events)
    }

    /// Lifts the tombstones of ids: what they said may be remembered again. Ids without one are passed over.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn lift(state_dir: &Path, ids: &[String], at: DateTime<Utc>) -> Result<(), StateError> {
        let there = Self::read(state_dir)?;
        let standing = ids.iter().filter(|id| there.get(id).is_some());
        write(state_dir, standing.map(|id| Event::Lifted { format: FORMAT, id: id.clone(), at }))
    }

    /// The tombstone of a memory.
    pub fn get(&self, id: &str) -> Option<&Tombstone> {
        self.standing.get(id)
    }

    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = &Tombstone> {
        self.standing.values()
    }

    /// Takes in one more, unless its memory has one.
    pub fn insert(&mut self, tombstone: Tombstone) {
        self.standing.entry(tombstone.id.clone()).or_insert(tombstone);
    }
}

/// A line that a crash cut off: it does not even end as an object does.
fn is_torn(line: &[u8]) -> bool {
    line.last() != Some(&b'}')
}

fn write(state_dir: &Path, events: impl Iterator<Item = Event>) -> Result<(), StateError> {
    let lines: Vec<String> =
        events.map(|event| serde_json::to_string(&event).expect("a tombstone is plain data")).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let path = Tombstones::path(state_dir);
    make_private(&path)?;
    append_lines(&path, &lines)?;
    super::sync_folder(state_dir)
}

/// Vectors tell much of what was forgotten: nobody else may read them.
fn make_private(path: &Path) -> Result<(), StateError> {
    let failed = |source| StateError::Write { path: path.to_path_buf(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(|_| ()).map_err(failed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn tombstone(id: &str) -> Tombstone {
        Tombstone {
            id: id.into(),
            agent: "main".into(),
            digest: "d".into(),
            words: None,
            vector: Some(vec![0.6, -0.8]),
            model: "lexical".into(),
            details: Some(Fingerprint::of("standup at 9", None, "salt")),
            forgotten_at: "2026-03-10T02:00:00Z".parse().unwrap(),
            how: How::Vanished,
        }
    }

    fn lines(dir: &Path) -> usize {
        std::fs::read_to_string(Tombstones::path(dir)).unwrap().lines().count()
    }

    #[test]
    fn a_tombstone_stands_until_it_is_lifted_and_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert_eq!(Tombstones::read(&state).unwrap(), Tombstones::default());
        for _ in 0..2 {
            Tombstones::append(&state, &[tombstone("a"), tombstone("b")]).unwrap();
        }
        assert_eq!(lines(&state), 2);
        assert_eq!(Tombstones::read(&state).unwrap().get("a"), Some(&tombstone("a")));
        let at = "2026-03-17T02:00:00Z".parse().unwrap();
        for _ in 0..2 {
            Tombstones::lift(&state, &["a".into(), "never".into()], at).unwrap();
        }
        assert_eq!(lines(&state), 3);
        let left: Vec<String> = Tombstones::read(&state).unwrap().all().map(|t| t.id.clone()).collect();
        assert_eq!(left, ["b"]);
        Tombstones::append(&state, &[tombstone("a")]).unwrap();
        assert!(Tombstones::read(&state).unwrap().get("a").is_some(), "forgotten again");
    }

    #[test]
    fn a_torn_line_is_passed_over_and_a_damaged_one_stops() {
        let dir = tempfile::tempdir().unwrap();
        Tombstones::append(dir.path(), &[tombstone("a")]).unwrap();
        let path = Tombstones::path(dir.path());
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{}", &whole[..40])).unwrap();
        Tombstones::append(dir.path(), &[tombstone("b")]).unwrap();
        assert_eq!(Tombstones::read(dir.path()).unwrap().all().count(), 2);
        for damaged in [
            "{\"event\":\"unknown\"}",
            "{\"event\":\"lifted\",\"format\":2,\"id\":\"a\",\"at\":\"2026-03-17T02:00:00Z\"}",
        ] {
            std::fs::write(&path, format!("{damaged}\n{whole}")).unwrap();
            let error = Tombstones::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("tombstones.jsonl: line 1"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        Tombstones::append(dir.path(), &[tombstone("a")]).unwrap();
        let mode = std::fs::metadata(Tombstones::path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_format_1_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let old = include_str!("../../tests/fixtures/state/tombstones-1.jsonl");
        std::fs::write(Tombstones::path(dir.path()), old).unwrap();
        let read = Tombstones::read(dir.path()).unwrap();
        let ids: Vec<&str> = read.all().map(|t| t.id.as_str()).collect();
        assert_eq!(ids, ["row-b"]);
        assert!(read.get("row-b").unwrap().details.as_ref().unwrap().agrees("Standup is at 9:00.", None));
    }
}
