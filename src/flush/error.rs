//! Why a session could not be ended, or its episode is not there, with what to do about it.

use std::path::PathBuf;

use crate::openclaw::config::OpenClawError;
use crate::openclaw::gateway::GatewayError;

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
