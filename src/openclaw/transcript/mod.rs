//! The gateway's own transcripts: everything that was said in a session, with times and senders, where the hook's file
//! keeps the last messages only. Finds and reads them for all agents; never writes, never fails a night: what cannot be
//! read is told. What they yield as episodes is `episodes`, what stands in a hook's file too `twins`.

pub(crate) mod episodes;
mod jsonl;
pub(crate) mod line;
mod sqlite;
mod standing;
pub(crate) mod tree;
pub(crate) mod twins;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::Value;

use line::Line;
pub(crate) use standing::Standing;

/// Where an agent's database lies in its folder.
const DATABASE: &str = "agent/openclaw-agent.sqlite";
/// So many of the newest sessions are looked at, where not all are read.
const SESSIONS: usize = 200;
/// So many of the newest events of a database, likewise.
const EVENTS: u32 = 20_000;
/// Bytes of a first line at most.
const FIRST_LINE: u64 = 64 * 1024;
/// The end of what is told of a store that cannot be read.
const WAIT: &str = "its transcripts wait";
/// The end of what is told where no agent's folder can be read.
const NOT_READ: &str = "transcripts are not read";
/// The beginning of what is told where there are none.
pub(crate) const NONE_LIES: &str = "no transcript lies under";

/// Whether that warning of a night says that transcripts were not read at all, which the operator must hear of.
pub(crate) fn is_trouble(warning: &str) -> bool {
    warning.ends_with(WAIT) || warning.ends_with(NOT_READ) || warning.starts_with(NONE_LIES)
}

/// One session as the gateway wrote it down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transcript {
    /// The agent in whose folder it lies.
    pub agent: String,
    /// The session's id.
    pub session: String,
    /// Its key, as far as the gateway still knows it.
    pub key: Option<String>,
    /// What it is.
    pub standing: Standing,
    /// The file it lies in.
    pub path: PathBuf,
    /// Its events.
    pub lines: Vec<Line>,
    /// When it was left, where its file's name says so.
    pub ended: Option<DateTime<Utc>>,
}

/// The transcripts that could be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Transcripts {
    /// All of them, by agent.
    pub list: Vec<Transcript>,
    /// Agents of whom at least one store could be read.
    pub readable: BTreeSet<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Reads the transcripts of the agents that `wanted` lets pass, or one session of them.
pub(crate) fn read(state_dir: &Path, wanted: impl Fn(&str) -> bool, session: Option<&str>) -> Transcripts {
    let mut all = Transcripts::default();
    let folders = match std::fs::read_dir(state_dir.join("agents")) {
        Ok(folders) => folders,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                all.warnings.push(format!("{}: {error}: {NOT_READ}", state_dir.join("agents").display()));
            }
            return all;
        }
    };
    let mut folders: Vec<PathBuf> =
        folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    for folder in folders {
        let agent = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if wanted(&agent) {
            all.of_agent(&folder, &agent, session);
        }
    }
    all
}

impl Transcripts {
    fn of_agent(&mut self, folder: &Path, agent: &str, session: Option<&str>) {
        let database = folder.join(DATABASE);
        let mut known = BTreeSet::new();
        if database.is_file() {
            match sqlite::read(&database, agent, session) {
                Ok((transcripts, warnings)) => {
                    known = transcripts.iter().map(|transcript| transcript.session.clone()).collect();
                    self.take(agent, transcripts, warnings);
                }
                Err(error) => self.warnings.push(format!("{}: {error}: {WAIT}", database.display())),
            }
        }
        let sessions = folder.join("sessions");
        if sessions.is_dir() {
            match jsonl::read(&sessions, agent, session) {
                // What moved to the database may still lie in its old file.
                Ok((transcripts, warnings)) => {
                    let own = transcripts.into_iter().filter(|t| !known.contains(&t.session)).collect();
                    self.take(agent, own, warnings);
                }
                Err(error) => self.warnings.push(format!("{}: {error}: {WAIT}", sessions.display())),
            }
        }
    }

    fn take(&mut self, agent: &str, transcripts: Vec<Transcript>, warnings: Vec<String>) {
        // A folder without any session tells nothing of recalls.
        if !transcripts.is_empty() {
            self.readable.insert(agent.to_owned());
        }
        self.list
            .extend(transcripts.into_iter().filter(|transcript| transcript.standing != Standing::Private));
        self.warnings.extend(warnings);
    }
}

/// The first line of a session: where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// When it began.
    pub at: Option<DateTime<Utc>>,
    /// The folder in which the agent works.
    pub cwd: PathBuf,
}

/// The first lines of an agent's newest sessions, as far as they can be read.
pub(crate) fn headers(state_dir: &Path, agent: &str) -> Vec<Header> {
    let folder = state_dir.join("agents").join(agent);
    let of_files = files(&folder.join("sessions")).into_iter().filter_map(|path| {
        let mut first = String::new();
        BufReader::new(std::fs::File::open(path).ok()?).take(FIRST_LINE).read_line(&mut first).ok()?;
        Some(first)
    });
    let of_database = sqlite::events(&folder.join(DATABASE), sqlite::Which::First, SESSIONS as u32);
    let lines = of_files.chain(of_database.unwrap_or_default().into_iter().map(|(_, event)| event));
    lines.filter_map(|line| header(&line)).collect()
}

fn header(line: &str) -> Option<Header> {
    let event: Value = serde_json::from_str(line).ok()?;
    let is_header = event.get("type")? == "session";
    let at = event.get("timestamp").and_then(Value::as_str).and_then(super::memory_folder::time);
    is_header.then_some(Header { at, cwd: PathBuf::from(event.get("cwd")?.as_str()?) })
}

/// The events of an agent's newest sessions as they are written, with the session each is of, in the order in which they
/// happened. What cannot be read is left out: for figures.
pub(crate) fn raw(state_dir: &Path, agent: &str) -> Vec<(String, String)> {
    let folder = state_dir.join("agents").join(agent);
    let of_file = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.display().to_string();
        text.lines().map(|line| (name.clone(), line.to_owned())).collect::<Vec<_>>()
    };
    let mut events: Vec<_> = files(&folder.join("sessions")).into_iter().flat_map(of_file).collect();
    events.extend(sqlite::events(&folder.join(DATABASE), sqlite::Which::All, EVENTS).unwrap_or_default());
    events
}

/// The newest session files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .filter_map(|path| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    files.sort();
    files.into_iter().rev().take(SESSIONS).map(|(_, path)| path).collect()
}

/// A session's id as it stands in an episode's name.
pub(crate) fn plain(session: &str) -> String {
    session.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
