//! The end of the day's session, so that its episode exists before the dream: look, end, wait for the file, report.
//! Success is the episode file and not the gateway's answer. How the gateway is asked is `openclaw::gateway`'s work, what
//! its files look like `openclaw::hook`'s.

mod error;
mod file;
mod look;
mod report;
mod settings;

use std::path::PathBuf;

use crate::openclaw::config::{Endpoint, OpenClaw};
use crate::openclaw::gateway::session::{self, Agent};
use crate::openclaw::gateway::{Gateway, Why, http};
use crate::openclaw::hook;
use crate::openclaw::session::agent_of;
use file::Wanted;
use look::Step;

pub use error::FlushError;
pub use report::{Report, Status, exit_code, summaries, summary};
pub use settings::{Settings, Transport, seconds};

/// What is to be ended.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Whose sessions.
    pub which: Which,
    /// Only look.
    pub dry_run: bool,
}

/// Whose sessions are to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The main session of `DREAMER_AGENT`.
    Agent,
    /// The session with this key.
    Session(String),
    /// The main session of every agent: of `DREAMER_AGENTS`, else all that the gateway has.
    All,
}

/// What came of one agent's session.
#[derive(Debug)]
pub struct Outcome {
    /// The agent.
    pub agent: String,
    /// The report, or why there is none.
    pub result: Result<Report, FlushError>,
}

/// A session to end, and what is known of where its episode goes.
struct Target {
    agent: String,
    key: String,
    /// Whether somebody asked for this session by its key.
    is_named: bool,
    is_one_of_many: bool,
    folders: Vec<PathBuf>,
}

/// Ends sessions over the WebSocket or the gateway's program, one after the other: a failure of one does not stop the
/// others. There is one outcome a session.
///
/// # Errors
/// When the gateway cannot be asked at all, or its hook is off.
pub async fn flush(
    ask: &Ask,
    settings: &Settings,
    openclaw: &OpenClaw,
    gateway: &mut dyn Gateway,
) -> Result<Vec<Outcome>, FlushError> {
    openclaw.check_hook()?;
    let agents = session::agents(gateway).await?;
    tell_left_out(ask, settings, openclaw, agents.as_deref());
    let mut outcomes = Vec::new();
    for target in targets(ask, settings, openclaw, agents.as_deref()) {
        let result = match check_agent(&target.agent, agents.as_deref()) {
            Ok(()) => flush_one(&target, ask.dry_run, settings, openclaw, gateway).await,
            Err(error) => Err(error),
        };
        outcomes.push(Outcome { agent: target.agent, result });
    }
    Ok(outcomes)
}

/// Ends sessions through a route of the operator's own. What was said in them cannot be asked over HTTP.
///
/// # Errors
/// When the hook is off.
pub async fn flush_over_http(
    ask: &Ask,
    settings: &Settings,
    openclaw: &OpenClaw,
    endpoint: &Endpoint,
) -> Result<Vec<Outcome>, FlushError> {
    openclaw.check_hook()?;
    tell_left_out(ask, settings, openclaw, None);
    let mut outcomes = Vec::new();
    for target in targets(ask, settings, openclaw, None) {
        let result = post_one(&target, settings, openclaw, endpoint).await;
        outcomes.push(Outcome { agent: target.agent, result });
    }
    Ok(outcomes)
}

/// The sessions. The gateway itself maps `agent:<id>:main` to the main session, whatever `session.mainKey` and
/// `session.scope` call it.
fn targets(ask: &Ask, settings: &Settings, openclaw: &OpenClaw, known: Option<&[Agent]>) -> Vec<Target> {
    let agents = match &ask.which {
        Which::Session(key) => vec![agent_of(key).unwrap_or(&settings.agent).to_string()],
        Which::Agent => vec![settings.agent.clone()],
        Which::All => all_agents(settings, openclaw, known),
    };
    let is_one_of_many = agents.len() > 1;
    let target = |agent: String| Target {
        key: match &ask.which {
            Which::Session(key) => key.clone(),
            Which::Agent | Which::All => format!("agent:{agent}:main"),
        },
        is_named: matches!(ask.which, Which::Session(_)),
        is_one_of_many,
        folders: file::folders(openclaw, known, &agent, settings),
        agent,
    };
    agents.into_iter().map(target).collect()
}

/// An agent that came after `DREAMER_AGENTS` was written would be forgotten without a word.
fn tell_left_out(ask: &Ask, settings: &Settings, openclaw: &OpenClaw, known: Option<&[Agent]>) {
    if ask.which != Which::All {
        return;
    }
    let known = known.into_iter().flatten().map(|agent| agent.id.clone());
    for agent in left_out(settings, known.chain(openclaw.agent_ids())) {
        tracing::warn!("the gateway has the agent `{agent}`, DREAMER_AGENTS does not name it: left out");
    }
}

/// The gateway's agents that a list does not name, each once.
fn left_out(settings: &Settings, gateway: impl Iterator<Item = String>) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    if settings.agents.is_empty() {
        return left;
    }
    for id in gateway {
        let is_id = |known: &String| known.eq_ignore_ascii_case(&id);
        if !settings.agents.iter().any(|(named, _)| is_id(named)) && !left.iter().any(is_id) {
            left.push(id);
        }
    }
    left
}

/// Those the operator lists, else those the gateway has, else those of its settings; each once.
fn all_agents(settings: &Settings, openclaw: &OpenClaw, known: Option<&[Agent]>) -> Vec<String> {
    let listed = settings.agents.iter().map(|(id, _)| id.clone());
    let known = known.into_iter().flatten().map(|agent| agent.id.clone());
    let written = openclaw.agents().into_iter().map(|(id, _)| id);
    let sources: [Vec<String>; 3] = [listed.collect(), known.collect(), written.collect()];
    let mut agents = sources.into_iter().find(|agents| !agents.is_empty()).unwrap_or_default();
    if agents.is_empty() {
        agents.push(settings.agent.clone());
    }
    let mut once: Vec<String> = Vec::new();
    for agent in agents {
        if !once.iter().any(|seen| seen.eq_ignore_ascii_case(&agent)) {
            once.push(agent);
        }
    }
    once
}

async fn flush_one(
    target: &Target,
    dry_run: bool,
    settings: &Settings,
    openclaw: &OpenClaw,
    gateway: &mut dyn Gateway,
) -> Result<Report, FlushError> {
    let key = &target.key;
    for _ in 0..2 {
        let (step, history) = look::look(key, settings.wait, gateway).await?;
        let session = match step {
            Step::Unknown if target.is_named => return Err(FlushError::UnknownSession { key: key.clone() }),
            Step::Unknown => {
                return Ok(report::nothing(key, "the session does not exist yet", &history, gateway.way()));
            }
            Step::Nothing => {
                let why = "the user said nothing since the last reset";
                return Ok(report::nothing(key, why, &history, gateway.way()));
            }
            Step::Busy(what) => {
                let seconds = settings.wait.as_secs_f64();
                return Err(FlushError::Busy { key: key.clone(), what, seconds });
            }
            Step::End(session) => session,
        };
        tracing::info!("{}: {} messages, {} of the user", session.key, history.messages, history.by_user);
        file::check_folders(key, &target.folders, openclaw, &target.agent)?;
        if dry_run {
            return Ok(report::would_flush(&session, &history, gateway.way()));
        }
        let before = hook::look(&target.folders);
        match session::reset(gateway, &session).await {
            Ok(told) => {
                let wanted = Wanted { keys: vec![key.clone(), session.key, told], id: Some(session.id) };
                let found = file::await_file(&wanted, &target.folders, &before, settings.wait).await?;
                let report = report::flushed(wanted, found, gateway.way())?;
                return Ok(report.with_warnings(Some(&history), target, settings, openclaw));
            }
            Err(error) if error.why() == Some(&Why::SessionChanged) => {
                tracing::warn!("{key} changed between looking and ending; looking again");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(FlushError::Changed { key: key.clone() })
}

async fn post_one(
    target: &Target,
    settings: &Settings,
    openclaw: &OpenClaw,
    endpoint: &Endpoint,
) -> Result<Report, FlushError> {
    file::check_folders(&target.key, &target.folders, openclaw, &target.agent)?;
    let before = hook::look(&target.folders);
    let told = http::post_new(endpoint, &target.key, settings.patience()).await?;
    let wanted = Wanted { keys: vec![target.key.clone(), told], id: None };
    let found = file::await_file(&wanted, &target.folders, &before, settings.wait).await?;
    let report = report::flushed(wanted, found, "http")?;
    Ok(report.with_warnings(None, target, settings, openclaw))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_came_later_is_left_out_with_a_word() {
        let settings = |agents: &str| {
            let set = [("DREAMER_HOME", "/h"), ("DREAMER_AGENTS", agents)];
            Settings::resolve(&crate::config::Layers::of(&set)).expect("they can be used")
        };
        let gateway = || ["main", "Work", "kid", "KID"].map(str::to_owned).into_iter();
        assert_eq!(left_out(&settings("main,work"), gateway()), ["kid"]);
        let all = Settings { agents: vec![], ..settings("main") };
        assert!(left_out(&all, gateway()).is_empty(), "nobody is named, so nobody is left out");
    }
}
