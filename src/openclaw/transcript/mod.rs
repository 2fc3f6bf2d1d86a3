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
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use line::Line;
pub(crate) use standing::Standing;

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
                all.warnings.push(format!(
                    "{}: {error}: transcripts are not read",
                    state_dir.join("agents").display()
                ));
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
        let database = folder.join("agent").join("openclaw-agent.sqlite");
        let mut known = BTreeSet::new();
        if database.is_file() {
            match sqlite::read(&database, agent, session) {
                Ok((transcripts, warnings)) => {
                    known = transcripts.iter().map(|transcript| transcript.session.clone()).collect();
                    self.take(agent, transcripts, warnings);
                }
                Err(error) => {
                    self.warnings.push(format!("{}: {error}: its transcripts wait", database.display()))
                }
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
                Err(error) => {
                    self.warnings.push(format!("{}: {error}: its transcripts wait", sessions.display()))
                }
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

/// A session's id as it stands in an episode's name.
pub(crate) fn plain(session: &str) -> String {
    session.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
