//! The end of the day's session, so that its episode exists before the dream: look, end, wait for the file, report.
//! Success is the episode file and not the gateway's answer. What is decided is pure; how the gateway is asked is
//! `openclaw::gateway`'s work, what its files look like `openclaw::hook`'s.

mod settings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::openclaw::config::{Endpoint, OpenClaw, OpenClawError};
use crate::openclaw::gateway::session::{self, Agent, Described, History, Session};
use crate::openclaw::gateway::{Gateway, GatewayError, Why, http};
use crate::openclaw::hook::{self, Seen, Written};
use crate::openclaw::session::agent_of;

pub use settings::{Settings, Transport, seconds};

/// What is to be ended.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The session that was named; without one the agent's main session.
    pub session_key: Option<String>,
    /// Only look.
    pub dry_run: bool,
}

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
    /// Why there was nothing to flush.
    pub why: Option<&'static str>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Why the session could not be ended, or its episode is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// The gateway's settings cannot be used.
    #[error(transparent)]
    OpenClaw(#[from] OpenClawError),
    /// The gateway cannot be reached or refuses.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The gateway has no such agent.
    #[error(
        "flush the agent {agent}: the gateway has no such agent, only {known}; name one with --agent or DREAMER_AGENT"
    )]
    UnknownAgent {
        /// The agent.
        agent: String,
        /// Those it has.
        known: String,
    },
    /// The session that was named does not exist.
    #[error(
        "flush {key}: the gateway has no such session, and none is created; `openclaw sessions` lists those it has"
    )]
    UnknownSession {
        /// Its key.
        key: String,
    },
    /// The agent is at work.
    #[error(
        "flush {key}: {what}, also after {seconds} s; ending the session would interrupt it, try again later"
    )]
    Busy {
        /// The session.
        key: String,
        /// What goes on.
        what: String,
        /// How long it was waited for.
        seconds: f64,
    },
    /// Somebody else ended the session meanwhile, twice.
    #[error(
        "flush {key}: the session changed twice between looking and ending; nothing was ended, try again later"
    )]
    Changed {
        /// The session.
        key: String,
    },
    /// No folder in which the episode could appear can be seen.
    #[error(
        "flush {key}: the agent's workspace {} cannot be seen from here, so nobody could tell whether the episode was \
         written; set OPENCLAW_CONFIG_PATH to the gateway's openclaw.json, or DREAMER_EPISODES_DIR to its memory folder",
        workspace.display()
    )]
    NoFolder {
        /// The session.
        key: String,
        /// Where it was looked for.
        workspace: PathBuf,
    },
    /// The gateway said that it ended the session, and no episode appeared.
    #[error(
        "find the episode of {key}: the gateway says that it ended the session, but within {seconds} s no file of it \
         appeared in {folders}{other}; enable the session-memory hook (`openclaw hooks enable session-memory`, then \
         restart the gateway), check that this is the agent's workspace, or give it longer with --wait; what was said \
         stays in the gateway's own transcript"
    )]
    NoFile {
        /// The session.
        key: String,
        /// How long it was waited for.
        seconds: f64,
        /// Where it was looked for.
        folders: String,
        /// ` (…)`, what appeared instead.
        other: String,
    },
    /// The hook wrote an episode and could not read the session.
    #[error(
        "use the episode {}: the gateway's hook could not read the session ({why}); what was said stays in the gateway's \
         own transcript, see its log",
        path.display()
    )]
    Unread {
        /// The file.
        path: PathBuf,
        /// What the hook said.
        why: String,
    },
}

impl FlushError {
    /// The exit code: 75 where it may work later by itself, 78 where a setting must change, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::OpenClaw(_) | Self::NoFolder { .. } => 78,
            Self::Gateway(error) => error.exit_code(),
            Self::Busy { .. } | Self::Changed { .. } => 75,
            _ => 1,
        }
    }
}

/// What to do with a session, after looking.
#[derive(Debug, PartialEq)]
enum Step {
    /// There is no such session.
    Unknown,
    /// Nothing was said.
    Nothing,
    /// Something goes on in it.
    Busy(String),
    /// End it.
    End(Session),
}

/// Decides from what the gateway says.
fn decide(described: &Described, history: &History, key: &str) -> Step {
    let session = match described {
        Described::Known(session) => session.clone(),
        Described::Unknown => return Step::Unknown,
        Described::Unsaid => match &history.session_id {
            Some(id) => Session { key: key.to_string(), id: id.clone() },
            None => return Step::Unknown,
        },
    };
    // Where not all was looked at, the user's words may be further back.
    if history.by_user == 0 && history.waiting == 0 && !history.is_cut {
        return Step::Nothing;
    }
    match (history.is_active, history.waiting) {
        (true, _) => Step::Busy("the agent is at work in it".into()),
        (false, 0) => Step::End(session),
        (false, 1) => Step::Busy("a message waits for the agent".into()),
        (false, waiting) => Step::Busy(format!("{waiting} messages wait for the agent")),
    }
}

/// Ends a session over the WebSocket or the gateway's program.
///
/// # Errors
/// When the gateway cannot be asked or refuses, the session does not exist or is busy, or no episode appears in time.
pub async fn flush(
    ask: &Ask,
    settings: &Settings,
    openclaw: &OpenClaw,
    gateway: &mut dyn Gateway,
) -> Result<Report, FlushError> {
    openclaw.check_hook()?;
    let agents = session::agents(gateway).await?;
    let key = key_of(ask, settings);
    let agent = agent_of(&key).unwrap_or(&settings.agent).to_string();
    check_agent(&agent, agents.as_deref())?;
    for _ in 0..2 {
        let (step, history) = look(&key, settings.wait, gateway).await?;
        let session = match step {
            Step::Unknown if ask.session_key.is_some() => return Err(FlushError::UnknownSession { key }),
            Step::Unknown => return Ok(nothing(key, "the session does not exist yet", &history)),
            Step::Nothing => {
                return Ok(nothing(key, "the user said nothing since the last reset", &history));
            }
            Step::Busy(what) => {
                return Err(FlushError::Busy { key, what, seconds: settings.wait.as_secs_f64() });
            }
            Step::End(session) => session,
        };
        tracing::info!("{}: {} messages, {} of the user", session.key, history.messages, history.by_user);
        let folders = folders(openclaw, agents.as_deref(), &agent, settings);
        check_folders(&key, &folders, openclaw, &agent)?;
        if ask.dry_run {
            return Ok(would_flush(&session, &history));
        }
        let before = hook::look(&folders);
        match session::reset(gateway, &session).await {
            Ok(told) => {
                let wanted = Wanted { keys: vec![key, session.key, told], id: Some(session.id) };
                let found = await_file(&wanted, &folders, &before, settings.wait).await?;
                return report(wanted, found, Some(&history), settings, openclaw);
            }
            Err(error) if error.why() == Some(&Why::SessionChanged) => {
                tracing::warn!("{key} changed between looking and ending; looking again");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(FlushError::Changed { key })
}

/// Ends a session through a route of the operator's own. What was said in it cannot be asked over HTTP.
///
/// # Errors
/// When the route does not end the session, or no episode appears in time.
pub async fn flush_over_http(
    ask: &Ask,
    settings: &Settings,
    openclaw: &OpenClaw,
    endpoint: &Endpoint,
) -> Result<Report, FlushError> {
    openclaw.check_hook()?;
    let key = key_of(ask, settings);
    let agent = agent_of(&key).unwrap_or(&settings.agent).to_string();
    let folders = folders(openclaw, None, &agent, settings);
    check_folders(&key, &folders, openclaw, &agent)?;
    let before = hook::look(&folders);
    let told = http::post_new(endpoint, &key, settings.patience()).await?;
    let wanted = Wanted { keys: vec![key, told], id: None };
    let found = await_file(&wanted, &folders, &before, settings.wait).await?;
    report(wanted, found, None, settings, openclaw)
}

fn key_of(ask: &Ask, settings: &Settings) -> String {
    ask.session_key.clone().unwrap_or_else(|| format!("agent:{}:main", settings.agent))
}

fn check_agent(agent: &str, agents: Option<&[Agent]>) -> Result<(), FlushError> {
    match agents {
        Some(agents) if !agents.iter().any(|known| known.id.eq_ignore_ascii_case(agent)) => {
            let known = agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ");
            Err(FlushError::UnknownAgent { agent: agent.to_string(), known })
        }
        _ => Ok(()),
    }
}

/// Looks until the session is idle, for as long as `wait`.
async fn look(key: &str, wait: Duration, gateway: &mut dyn Gateway) -> Result<(Step, History), GatewayError> {
    let deadline = Instant::now() + wait;
    let mut told = String::new();
    loop {
        let described = session::describe(gateway, key).await?;
        let history = match &described {
            Described::Unknown => History::default(),
            _ => session::history(gateway, key).await?,
        };
        let step = decide(&described, &history, key);
        let Step::Busy(what) = &step else { return Ok((step, history)) };
        if Instant::now() >= deadline {
            return Ok((step, history));
        }
        if told != *what {
            tracing::info!("{key}: {what}; waiting");
            told.clone_from(what);
        }
        tokio::time::sleep(pause(wait, Duration::from_secs(2))).await;
    }
}

/// How long to wait before looking again: often enough for a short wait, at most `longest`.
fn pause(wait: Duration, longest: Duration) -> Duration {
    (wait / 20).clamp(Duration::from_millis(10), longest)
}

/// The session whose episode is waited for.
struct Wanted {
    /// Its key as it was asked for and as the gateway writes it.
    keys: Vec<String>,
    /// Its id. The hook may write another key where agents share a workspace, never another id.
    id: Option<String>,
}

impl Wanted {
    fn is(&self, written: &Written) -> bool {
        self.keys.contains(&written.key) || self.id.as_ref().is_some_and(|id| *id == written.id)
    }
}

/// The folders in which the episode may appear: the workspace's that the gateway names, or else that its settings name;
/// and where Dreamer reads.
fn folders(openclaw: &OpenClaw, agents: Option<&[Agent]>, agent: &str, settings: &Settings) -> Vec<PathBuf> {
    let said = agents.into_iter().flatten().find(|known| known.id.eq_ignore_ascii_case(agent));
    // In a container the gateway's own path means nothing here.
    let said = said.and_then(|agent| agent.workspace.clone()).filter(|workspace| workspace.is_dir());
    let workspace = said.unwrap_or_else(|| openclaw.workspace(agent));
    let mut folders = vec![workspace.join("memory")];
    for own in settings.folders() {
        if !folders.iter().any(|folder| same(folder, own)) {
            folders.push(own.clone());
        }
    }
    folders
}

fn check_folders(key: &str, folders: &[PathBuf], openclaw: &OpenClaw, agent: &str) -> Result<(), FlushError> {
    // The hook makes the memory folder itself, in a workspace that is there.
    let workspace_is_here = folders.first().and_then(|memory| memory.parent()).is_some_and(Path::is_dir);
    if workspace_is_here || folders.iter().skip(1).any(|folder| folder.is_dir()) {
        return Ok(());
    }
    Err(FlushError::NoFolder { key: key.to_string(), workspace: openclaw.workspace(agent) })
}

fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Waits for a new or changed file of the session that is no longer being written.
async fn await_file(
    wanted: &Wanted,
    folders: &[PathBuf],
    before: &Seen,
    wait: Duration,
) -> Result<(PathBuf, Written), FlushError> {
    let deadline = Instant::now() + wait;
    let mut last = before.clone();
    let mut other = String::new();
    loop {
        let is_over = Instant::now() >= deadline;
        let now = hook::look(folders);
        // Two looks that agree: the hook writes the file in one go, but not atomically.
        let settled = now
            .iter()
            .filter(|(path, size)| before.get(*path) != Some(size) && last.get(*path) == Some(size));
        for (path, _) in settled {
            let Some(written) = std::fs::read_to_string(path).ok().and_then(|text| hook::read(&text)) else {
                continue;
            };
            if wanted.is(&written) {
                return Ok((path.clone(), written));
            }
            other = format!(" ({} appeared, which is of {})", name_of(path), written.key);
        }
        if is_over {
            let key = wanted.keys.first().cloned().unwrap_or_default();
            let folders = folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(" or ");
            return Err(FlushError::NoFile { key, seconds: wait.as_secs_f64(), folders, other });
        }
        last = now;
        tokio::time::sleep(pause(wait, Duration::from_millis(250))).await;
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn nothing(key: String, why: &'static str, history: &History) -> Report {
    Report {
        status: Status::NothingToFlush,
        session_key: key,
        session_id: history.session_id.clone(),
        episode: None,
        messages: history.messages,
        by_user: history.by_user,
        why: Some(why),
        warnings: Vec::new(),
    }
}

fn would_flush(session: &Session, history: &History) -> Report {
    Report {
        status: Status::DryRun,
        session_key: session.key.clone(),
        session_id: Some(session.id.clone()),
        episode: None,
        messages: history.messages,
        by_user: history.by_user,
        why: None,
        warnings: Vec::new(),
    }
}

fn report(
    wanted: Wanted,
    (path, written): (PathBuf, Written),
    history: Option<&History>,
    settings: &Settings,
    openclaw: &OpenClaw,
) -> Result<Report, FlushError> {
    if let Some(why) = written.unavailable {
        return Err(FlushError::Unread { path, why: why.chars().take(240).collect() });
    }
    let mut warnings = Vec::new();
    let kept = openclaw.messages_kept();
    if let Some(history) =
        history.filter(|h| h.messages > written.messages && written.messages as u64 >= kept)
    {
        warnings.push(format!(
            "the session had {} messages and the hook keeps the last {kept}: raise \
             hooks.internal.entries.session-memory.messages in openclaw.json",
            history.messages
        ));
    }
    if written.by_user == 0 {
        warnings.push(format!("{} holds no message of the user", name_of(&path)));
    }
    if !path.parent().is_some_and(|folder| settings.folders().any(|own| same(folder, own))) {
        warnings.push(format!(
            "Dreamer reads {} and will not see this episode; set DREAMER_EPISODES_DIR={}, or name it in DREAMER_AGENTS",
            settings.episodes_dir.display(),
            path.parent().unwrap_or(Path::new("")).display()
        ));
    }
    Ok(Report {
        status: Status::Flushed,
        session_key: wanted.keys.last().cloned().unwrap_or_default(),
        session_id: wanted.id.or(Some(written.id).filter(|id| !id.is_empty())),
        episode: Some(path),
        messages: written.messages,
        by_user: written.by_user,
        why: None,
        warnings,
    })
}

/// The summary object: what came of it, for programs.
pub fn summary(report: &Report) -> serde_json::Value {
    let episode = report.episode.as_deref();
    serde_json::json!({
        "status": report.status.as_str(),
        "why": report.why,
        "session_key": report.session_key,
        "session_id": report.session_id,
        "episode": episode.map(name_of),
        "path": episode.map(|path| path.display().to_string()),
        "messages": report.messages,
        "user_messages": report.by_user,
        "warnings": report.warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_says_decides() {
        let session = Session { key: "agent:main:main".into(), id: "s-1".into() };
        let known = Described::Known(session.clone());
        let said = History { by_user: 2, messages: 4, ..History::default() };
        let with = |change: fn(&mut History)| {
            let mut history = said.clone();
            change(&mut history);
            history
        };
        assert_eq!(decide(&known, &said, "main"), Step::End(session));
        assert_eq!(decide(&Described::Unknown, &said, "main"), Step::Unknown);
        assert_eq!(decide(&Described::Unsaid, &said, "main"), Step::Unknown);
        let old = with(|h| h.session_id = Some("s-2".into()));
        let of_old = Session { key: "main".into(), id: "s-2".into() };
        assert_eq!(decide(&Described::Unsaid, &old, "main"), Step::End(of_old));
        assert_eq!(decide(&known, &with(|h| h.by_user = 0), "main"), Step::Nothing);
        // A heartbeat at work is no reason to wait where nobody said anything.
        assert_eq!(decide(&known, &with(|h| (h.by_user, h.is_active) = (0, true)), "main"), Step::Nothing);
        assert!(matches!(decide(&known, &with(|h| (h.by_user, h.is_cut) = (0, true)), "main"), Step::End(_)));
        for busy in
            [with(|h| h.is_active = true), with(|h| h.waiting = 1), with(|h| (h.by_user, h.waiting) = (0, 2))]
        {
            assert!(matches!(decide(&known, &busy, "main"), Step::Busy(_)), "{busy:?}");
        }
    }

    #[test]
    fn a_short_wait_is_looked_at_often_and_a_long_one_not_too_often() {
        let longest = Duration::from_millis(250);
        assert_eq!(pause(Duration::from_millis(300), longest), Duration::from_millis(15));
        assert_eq!(pause(Duration::ZERO, longest), Duration::from_millis(10));
        assert_eq!(pause(Duration::from_secs(30), longest), longest);
    }
}
