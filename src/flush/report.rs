//! What came of a flush, as people and programs read it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::file::{Wanted, name_of, same};
use super::{FlushError, Outcome, Settings, Target};
use crate::error::chain;
use crate::openclaw::config::OpenClaw;
use crate::openclaw::gateway::session::{History, Session};
use crate::openclaw::hook::Written;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The session was ended and its episode is there.
    Flushed,
    /// Nobody said anything since the last reset; nothing was changed.
    NothingToFlush,
    /// It would have been ended.
    DryRun,
}

impl Status {
    /// As the summary has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flushed => "flushed",
            Self::NothingToFlush => "nothing_to_flush",
            Self::DryRun => "dry_run",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub status: Status,
    /// The session's key, as the gateway writes it.
    pub session_key: String,
    /// The session's id, where it is known.
    pub session_id: Option<String>,
    /// The episode that was written.
    pub episode: Option<PathBuf>,
    /// Messages of user and assistant: in the episode, else in the session since its last reset.
    pub messages: usize,
    /// Those of the user.
    pub by_user: usize,
    /// How the gateway was asked: `ws`, `cli` or `http`.
    pub way: &'static str,
    /// Why there was nothing to flush.
    pub why: Option<&'static str>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

pub(super) fn nothing(key: &str, why: &'static str, history: &History, way: &'static str) -> Report {
    Report {
        status: Status::NothingToFlush,
        session_key: key.to_string(),
        session_id: history.session_id.clone(),
        episode: None,
        messages: history.messages,
        by_user: history.by_user,
        way,
        why: Some(why),
        warnings: Vec::new(),
    }
}

pub(super) fn would_flush(session: &Session, history: &History, way: &'static str) -> Report {
    Report {
        status: Status::DryRun,
        session_key: session.key.clone(),
        session_id: Some(session.id.clone()),
        episode: None,
        messages: history.messages,
        by_user: history.by_user,
        way,
        why: None,
        warnings: Vec::new(),
    }
}

/// The report of an episode that appeared.
///
/// # Errors
/// When the hook could not read the session.
pub(super) fn flushed(
    wanted: Wanted,
    (path, written): (PathBuf, Written),
    way: &'static str,
) -> Result<Report, FlushError> {
    if let Some(why) = written.unavailable {
        return Err(FlushError::Unread { path, why: why.chars().take(240).collect() });
    }
    Ok(Report {
        status: Status::Flushed,
        session_key: wanted.keys.last().cloned().unwrap_or_default(),
        session_id: wanted.id.or(Some(written.id).filter(|id| !id.is_empty())),
        episode: Some(path),
        messages: written.messages,
        by_user: written.by_user,
        way,
        why: None,
        warnings: Vec::new(),
    })
}

impl Report {
    /// Adds what is wrong with an episode that appeared: it lacks something, or Dreamer will not see it.
    pub(super) fn with_warnings(
        mut self,
        history: Option<&History>,
        target: &Target,
        settings: &Settings,
        openclaw: &OpenClaw,
    ) -> Self {
        let path = self.episode.clone().unwrap_or_default();
        let said = history.map_or(0, |history| history.messages);
        self.warnings.extend(lacking(said, self.messages, openclaw.messages_kept(), &name_of(&path)));
        if self.by_user == 0 {
            self.warnings.push(format!("{} holds no message of the user", name_of(&path)));
        }
        let read = settings.episodes_of(&target.agent);
        if !path.parent().is_some_and(|folder| same(folder, read)) {
            self.warnings.push(format!(
                "Dreamer reads {} and will not see this episode; set {}{}",
                read.display(),
                if target.is_one_of_many || !settings.agents.is_empty() {
                    format!("in DREAMER_AGENTS {}=", target.agent)
                } else {
                    "DREAMER_EPISODES_DIR=".to_string()
                },
                path.parent().unwrap_or(Path::new("")).display()
            ));
        }
        self
    }
}

/// Why an episode holds fewer messages than the session had.
fn lacking(said: usize, written: usize, kept: u64, name: &str) -> Option<String> {
    if said <= written {
        return None;
    }
    Some(if written as u64 >= kept {
        format!(
            "the session had {said} messages and the hook keeps the last {kept}: raise \
             hooks.internal.entries.session-memory.messages in openclaw.json"
        )
    } else {
        format!(
            "the session had {said} messages and {name} holds {written} of them; the gateway's transcript has the rest"
        )
    })
}

/// The summary object: what came of it, for programs.
pub fn summary(report: &Report) -> Value {
    let episode = report.episode.as_deref();
    json!({
        "status": report.status.as_str(),
        "why": report.why,
        "session_key": report.session_key,
        "session_id": report.session_id,
        "episode": episode.map(name_of),
        "path": episode.map(|path| path.display().to_string()),
        "messages": report.messages,
        "user_messages": report.by_user,
        "transport": report.way,
        "warnings": report.warnings,
    })
}

/// One summary object an agent; of one that failed, the error and the exit code it alone would have had.
pub fn summaries(outcomes: &[Outcome]) -> Value {
    let of = |outcome: &Outcome| {
        let mut object = match &outcome.result {
            Ok(report) => summary(report),
            Err(error) => json!({
                "status": "failed",
                "error": format!("could not {}", chain(error)),
                "exit_code": error.exit_code(),
            }),
        };
        object["agent"] = json!(outcome.agent);
        object
    };
    outcomes.iter().map(of).collect()
}

/// The worst exit code of several: one that needs a person (78, then 1) before one that another try may mend (75).
pub fn exit_code(outcomes: &[Outcome]) -> u8 {
    let codes =
        outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err()).map(FlushError::exit_code);
    codes.max_by_key(|code| [0, 75, 1, 78].iter().position(|known| known == code)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: FlushError) -> Outcome {
        Outcome { agent: "main".into(), result: Err(error) }
    }

    #[test]
    fn what_needs_a_person_is_worse_than_what_another_try_may_mend() {
        let changed = || failed(FlushError::Changed { key: "k".into() });
        let unknown = || failed(FlushError::UnknownSession { key: "k".into() });
        let unseen = || failed(FlushError::NoFolder { key: "k".into(), workspace: "w".into() });
        assert_eq!(exit_code(&[]), 0);
        assert_eq!(exit_code(&[changed()]), 75);
        assert_eq!(exit_code(&[unknown(), changed()]), 1);
        assert_eq!(exit_code(&[changed(), unseen(), unknown()]), 78);
    }

    #[test]
    fn an_episode_that_holds_less_than_was_said_tells_why() {
        assert_eq!(lacking(40, 40, 60, "f"), None);
        assert!(lacking(40, 15, 15, "f").is_some_and(|why| why.contains("keeps the last 15: raise")));
        assert!(lacking(40, 39, 60, "f").is_some_and(|why| why.contains("f holds 39 of them")));
    }
}
