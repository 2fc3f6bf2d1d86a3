//! The flags, as people type them. What they mean is decided elsewhere.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, ValueEnum};
use dreamer::flush::{Ask, Which, seconds};

/// Ends an agent's session with `/new`, so that the gateway writes its episode, and waits for the file.
#[derive(Debug, Parser)]
#[command(name = "session-flush", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done or nothing to flush, 1 failed, 2 usage, 75 try again later, 78 configuration"
)]
pub(crate) struct Flags {
    /// The agent whose main session is ended [default: DREAMER_AGENT, else main]
    #[arg(long, value_name = "ID", conflicts_with_all = ["session_key", "all"])]
    pub(crate) agent: Option<String>,
    /// End every agent's main session: of DREAMER_AGENTS, else all that the gateway has
    #[arg(long, conflicts_with = "session_key")]
    pub(crate) all: bool,
    /// The session to end instead, such as agent:main:telegram:direct:42
    #[arg(long, value_name = "KEY")]
    pub(crate) session_key: Option<String>,
    /// How to ask the gateway [default: DREAMER_FLUSH_TRANSPORT, else ws]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) transport: Option<How>,
    /// The gateway's address, or the route's [default: OPENCLAW_GATEWAY_URL, else as openclaw.json says]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The gateway's program, for cli and where ws is refused [default: DREAMER_FLUSH_PROGRAM, else openclaw]
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<String>,
    /// How long to wait for the agent to finish, and for the file [default: DREAMER_FLUSH_WAIT, else 30]
    #[arg(long, value_name = "SECONDS", value_parser = checked_seconds)]
    pub(crate) wait: Option<String>,
    /// Only look whether there is something to flush
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one summary object on stdout, with --all an array of them
    #[arg(long)]
    pub(crate) json: bool,
    /// Where Dreamer keeps everything [default: DREAMER_HOME, else ~/.dreamer]
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Read this file of settings instead of .env in the working directory and in the home
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Tell the story on stderr, step by step
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// The ways to ask the gateway. No doc comments on them: clap would print the long help, a line each.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum How {
    Ws,
    Http,
    Cli,
}

/// A number of seconds, kept as it was typed: it becomes a setting like any other.
fn checked_seconds(value: &str) -> Result<String, String> {
    seconds(value).map(|_| value.to_string())
}

impl Flags {
    /// The flags that set a variable.
    pub(crate) fn as_variables(&self) -> Vec<(&'static str, String)> {
        let transport = self.transport.map(|how| match how {
            How::Ws => "ws".to_string(),
            How::Http => "http".to_string(),
            How::Cli => "cli".to_string(),
        });
        let all = [
            ("DREAMER_AGENT", &self.agent),
            ("DREAMER_FLUSH_TRANSPORT", &transport),
            ("OPENCLAW_GATEWAY_URL", &self.url),
            ("DREAMER_FLUSH_PROGRAM", &self.program),
            ("DREAMER_FLUSH_WAIT", &self.wait),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }

    /// What is to be ended.
    pub(crate) fn ask(&self) -> Ask {
        let which = match &self.session_key {
            Some(key) => Which::Session(key.clone()),
            None if self.all => Which::All,
            None => Which::Agent,
        };
        Ask { which, dry_run: self.dry_run }
    }

    /// What cannot be told from the flags alone, said as a usage error.
    pub(crate) fn no_dry_run_over_http() -> clap::Error {
        let told = "--dry-run needs --transport ws or cli: over HTTP the gateway cannot be asked what there is to flush";
        Self::command().error(ErrorKind::ArgumentConflict, told)
    }
}
