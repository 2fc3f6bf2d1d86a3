//! `dreamer doctor`: one line a check, ok, warn or fail, with the remedy. It changes nothing: it takes no lock, makes no file,
//! and asks each model once at most. Every check is a pure function from what was found to lines; finding it stands beside it.

mod clock;
mod episodes;
mod files;
mod gateway;
mod models;
mod runs;
mod settings;
mod table;
mod timers;
mod transcripts;

use std::fmt::Write as _;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::config::{Config, ConfigError, Layers};
use crate::openclaw::config::OpenClaw;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and not as it should.
    Warn,
    /// A night, or the way to one, does not work.
    Fail,
}

impl Level {
    /// The word at the beginning of a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What was looked at, in a word.
    pub check: &'static str,
    /// How it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Line {
    fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, what: what.into(), remedy: None }
    }

    fn warn(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, what: what.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, what, remedy) }
    }
}

/// Whether models and gateways on other machines are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Each once.
    Once,
    /// Not at all: `--offline`.
    Nobody,
}

/// Every line, in the order of the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// What the checks found.
    pub checks: Vec<Line>,
}

impl Checkup {
    /// Whether a check failed.
    pub fn has_failed(&self) -> bool {
        self.checks.iter().any(|line| line.level == Level::Fail)
    }
}

/// Looks at everything. `layers` may be of settings files that could not be read whole, then `broken` says why.
pub async fn doctor(
    layers: &Layers,
    broken: Option<&ConfigError>,
    asking: Asking,
    now: DateTime<Utc>,
) -> Checkup {
    let Some(home) = layers.home() else {
        let what = "this user has no home directory, and DREAMER_HOME is not set";
        return Checkup { checks: vec![Line::fail("home", what, "set DREAMER_HOME, or give --home")] };
    };
    if !home.is_dir() {
        return Checkup {
            checks: vec![never_set_up(&home.display().to_string(), OpenClaw::read(layers).ok())],
        };
    }
    let mut checks = Vec::new();
    let resolved = Config::resolve(layers);
    checks.extend(settings::lines(broken, resolved.as_ref().map(|(config, _)| config), layers));
    let Ok((config, _)) = resolved else {
        checks.extend(files::lines(&files::look(&home, &[])));
        return Checkup { checks };
    };
    let openclaw = OpenClaw::read(layers);
    // A folder of episodes that is missing is told below, with what that means for its agent.
    let mut written: Vec<PathBuf> = config.folders().into_iter().map(|folder| folder.path).collect();
    let is_there = written.iter().filter(|path| path.is_dir()).cloned();
    let others: Vec<PathBuf> = is_there.chain([config.lancedb_uri.clone().into()]).collect();
    written.extend([home.clone(), config.lancedb_uri.clone().into()]);
    checks.extend(files::lines(&files::look(&home, &others)));
    let table = table::look(&config).await;
    checks.extend(table::lines(&table, &config));
    checks.extend(models::lines(&models::look(&config, &table, asking).await));
    checks.extend(models::of_gateway(&config, openclaw.as_ref().ok()));
    checks.extend(episodes::lines(&episodes::look(&config, openclaw.as_ref().ok(), now)));
    checks.extend(transcripts::lines(transcripts::look(&config, &table, openclaw.as_ref().ok()).as_ref()));
    let runs = runs::look(&config, now);
    checks.extend(gateway::lines(
        &gateway::look(&config, by_program(layers), openclaw, &runs, &table, asking, now).await,
    ));
    checks.extend(timers::lines(&timers::look(config.has_gateway(), &written)));
    checks.extend(runs::lines(&runs, config.timezone));
    checks.extend(clock::lines(&clock::look(&config, layers, &runs, now)));
    Checkup { checks }
}

/// Whether session-flush is told to ask by the gateway's own program.
fn by_program(layers: &Layers) -> bool {
    layers.get("DREAMER_FLUSH_TRANSPORT").is_some_and(|(transport, _)| transport.eq_ignore_ascii_case("cli"))
}

fn never_set_up(home: &str, openclaw: Option<OpenClaw>) -> Line {
    let command = match openclaw.is_some_and(|openclaw| openclaw.found()) {
        true => "run `dreamer setup --openclaw`",
        false => "run `dreamer setup`",
    };
    Line::fail("home", format!("there is no home {home}: nothing was set up"), command)
}

/// The lines as people read them.
pub fn show(checkup: &Checkup) -> String {
    let mut text = String::new();
    for line in &checkup.checks {
        let remedy = line.remedy.as_ref().map(|remedy| format!("  ({})", plain(remedy))).unwrap_or_default();
        writeln!(text, "{:<4}  {}: {}{remedy}", line.level.as_str(), line.check, plain(&line.what))
            .expect("a string takes every line");
    }
    text
}

/// Somebody's names and texts on a terminal: on one line, without control characters.
fn plain(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).collect()
}

/// A count with a percentage that is not zero where the count is not.
fn share(part: usize, all: usize) -> String {
    if all == 0 {
        return "0 %".into();
    }
    let percent = part as f64 * 100.0 / all as f64;
    if percent > 0.0 && percent < 1.0 { "under 1 %".into() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_level_check_finding_and_remedy() {
        let checks = vec![
            Line::ok("disk", "12 GB free"),
            Line::warn("home", "its mode\nis \u{1b}[31m755", "chmod 700 /h"),
            Line::fail("table", "there is none", "run `dreamer setup`"),
        ];
        let checkup = Checkup { checks };
        assert_eq!(
            show(&checkup),
            "ok    disk: 12 GB free\nwarn  home: its mode is [31m755  (chmod 700 /h)\n\
             fail  table: there is none  (run `dreamer setup`)\n"
        );
        assert!(checkup.has_failed());
        assert!(!Checkup { checks: checkup.checks[..2].to_vec() }.has_failed());
        let json = serde_json::to_value(&checkup).unwrap();
        assert_eq!(json["checks"][1]["level"], "warn");
        assert_eq!(json["checks"][0]["remedy"], serde_json::Value::Null);
    }

    #[tokio::test]
    async fn a_home_that_was_never_made_is_one_line_with_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let mut layers = Layers::of(&[]);
        layers.user_home = Some(dir.path().to_owned());
        let told = |layers: Layers| async move { doctor(&layers, None, Asking::Nobody, Utc::now()).await };
        let found = told(layers.clone()).await;
        assert_eq!((found.checks.len(), found.has_failed()), (1, true));
        assert_eq!(found.checks[0].remedy.as_deref(), Some("run `dreamer setup`"));
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), "{}").unwrap();
        assert_eq!(told(layers).await.checks[0].remedy.as_deref(), Some("run `dreamer setup --openclaw`"));
        assert!(!dir.path().join(".dreamer").exists());
    }

    #[test]
    fn a_small_share_is_not_none() {
        assert_eq!(
            (share(0, 7), share(1, 500), share(1, 2)),
            ("0 %".into(), "under 1 %".into(), "50 %".into())
        );
    }
}
