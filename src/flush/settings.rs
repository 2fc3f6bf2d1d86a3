//! What `session-flush` reads from flags, environment and `.env` files. What only the gateway knows is
//! `openclaw::config`'s to read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{ConfigError, Layers, Origin, Problem, folder, named_agents, variable};

/// How the gateway is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Its WebSocket.
    Ws,
    /// A route of the operator's own.
    Http,
    /// Its program.
    Cli,
}

/// Every setting, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `DREAMER_FLUSH_TRANSPORT`.
    pub transport: Transport,
    /// `DREAMER_FLUSH_WAIT`: for the agent to finish, and for the episode.
    pub wait: Duration,
    /// `DREAMER_FLUSH_PROGRAM`.
    pub program: String,
    /// `DREAMER_AGENT`.
    pub agent: String,
    /// `DREAMER_AGENTS`: the agents, each with its own episodes folder where it has one; none where nobody lists them.
    pub agents: Vec<(String, Option<PathBuf>)>,
    /// Where Dreamer reads episodes.
    pub episodes_dir: PathBuf,
}

impl Settings {
    /// Checks every value once.
    ///
    /// # Errors
    /// When a value cannot be used: all such values.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let home = layers.home().unwrap_or_default();
        let settings = Self {
            transport: take(layers, "DREAMER_FLUSH_TRANSPORT", transport, &mut problems)
                .unwrap_or(Transport::Ws),
            wait: take(layers, "DREAMER_FLUSH_WAIT", seconds, &mut problems).unwrap_or_default(),
            program: take(layers, "DREAMER_FLUSH_PROGRAM", word, &mut problems).unwrap_or_default(),
            agent: take(layers, "DREAMER_AGENT", word, &mut problems).unwrap_or_default(),
            agents: take(layers, "DREAMER_AGENTS", |value| named_agents(value, layers), &mut problems)
                .unwrap_or_default()
                .into_iter()
                .map(|agent| (agent.id, agent.folder))
                .collect(),
            episodes_dir: take(layers, "DREAMER_EPISODES_DIR", |value| folder(value, layers), &mut problems)
                .unwrap_or_else(|| home.join("episodes")),
        };
        if problems.is_empty() { Ok(settings) } else { Err(ConfigError::Invalid { problems }) }
    }

    /// Where Dreamer reads this agent's episodes.
    pub(crate) fn episodes_of(&self, agent: &str) -> &Path {
        let own = self.agents.iter().find(|(id, _)| id.eq_ignore_ascii_case(agent));
        own.and_then(|(_, folder)| folder.as_deref()).unwrap_or(&self.episodes_dir)
    }

    /// How long the gateway may take for one answer: it waits up to 15 s itself for an agent to stop.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// A value as it was set, else the default.
fn take<T>(
    layers: &Layers,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let default = || Some((variable(name)?.default?, Origin::Default));
    let (value, origin) = layers.get(name).or_else(default)?;
    parse(value)
        .map_err(|allowed| {
            problems.push(Problem { variable: name, value: Some(value.into()), origin, allowed })
        })
        .ok()
}

fn transport(value: &str) -> Result<Transport, String> {
    match value.to_ascii_lowercase().as_str() {
        "ws" => Ok(Transport::Ws),
        "http" => Ok(Transport::Http),
        "cli" => Ok(Transport::Cli),
        _ => Err("must be one of: ws, http, cli".into()),
    }
}

fn word(value: &str) -> Result<String, String> {
    if value.chars().any(char::is_control) {
        return Err("must be one line without control characters".into());
    }
    Ok(value.to_string())
}

/// A number of seconds from 0.1 to 3600.
///
/// # Errors
/// Says what is allowed, as the end of a sentence that begins with the name.
pub fn seconds(value: &str) -> Result<Duration, String> {
    let number = value.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    number.map(Duration::from_secs_f64).ok_or_else(|| "must be a number of seconds from 0.1 to 3600".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_set_gives_the_documented_defaults() {
        let settings = Settings::resolve(&Layers::of(&[("DREAMER_HOME", "/home/ann/.dreamer")])).unwrap();
        assert_eq!((settings.transport, settings.wait), (Transport::Ws, Duration::from_secs(30)));
        assert_eq!((settings.program.as_str(), settings.agent.as_str()), ("openclaw", "main"));
        assert_eq!(settings.episodes_dir, PathBuf::from("/home/ann/.dreamer/episodes"));
    }

    #[test]
    fn an_agent_may_have_an_episodes_folder_of_its_own() {
        let set = [("DREAMER_AGENTS", "main, ann=/ws/ann/memory"), ("DREAMER_EPISODES_DIR", "/ws/memory")];
        let settings = Settings::resolve(&Layers::of(&set)).unwrap();
        assert_eq!(settings.episodes_of("ann"), Path::new("/ws/ann/memory"));
        assert_eq!(settings.episodes_of("main"), Path::new("/ws/memory"));
        for bad in [",", "=x", "main=", "ma\nin"] {
            let told = Settings::resolve(&Layers::of(&[("DREAMER_AGENTS", bad)])).unwrap_err().to_string();
            assert!(told.contains("DREAMER_AGENTS"), "{bad:?}: {told}");
        }
    }

    #[test]
    fn all_values_that_cannot_be_used_are_named() {
        let bad = [("DREAMER_FLUSH_TRANSPORT", "udp"), ("DREAMER_FLUSH_WAIT", "0")];
        let told = Settings::resolve(&Layers::of(&bad)).unwrap_err().to_string();
        assert!(told.contains("ws, http, cli") && told.contains("from 0.1 to 3600"), "{told}");
        for value in ["-1", "NaN", "inf", "3601", "soon"] {
            assert!(seconds(value).is_err(), "{value}");
        }
        assert_eq!(seconds("0.3").unwrap(), Duration::from_millis(300));
    }
}
