//! The gateway's transcripts: whether those of each agent can be read, and how new the newest message is. A night reads them
//! for what was said, where they are a source of episodes, and for which memories are used. Also which agents there are.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::Line;
use super::table::Table;
use crate::config::{Config, EpisodeSource};
use crate::language::counted;
use crate::openclaw::config::OpenClaw;
use crate::openclaw::transcript;
use crate::openclaw::transcript::line::Event;

const CHECK: &str = "transcripts";

/// What is there of one agent.
#[derive(Debug, Clone)]
struct Of {
    agent: String,
    sessions: usize,
    /// When the newest message was written.
    newest: Option<DateTime<Utc>>,
    /// What could not be read.
    trouble: Vec<String>,
}

/// The transcripts of the agents whose memories a night works on.
#[derive(Debug, Clone)]
pub(super) struct Found {
    all: Vec<Of>,
    source: EpisodeSource,
    place: String,
    /// Agents that the gateway's settings have and ours do not name.
    unnamed: Vec<String>,
    timezone: Tz,
}

/// None where no night reads transcripts.
pub(super) fn look(config: &Config, table: &Table, openclaw: Option<&OpenClaw>) -> Option<Found> {
    let reads = config.has_gateway() || config.episode_source.has_transcripts();
    let state_dir = &config.gateway_state_dir;
    let openclaw = openclaw.filter(|openclaw| openclaw.found() && config.has_gateway());
    reads.then(|| Found {
        all: agents(config, table).into_iter().map(|agent| of_agent(state_dir, agent)).collect(),
        source: config.episode_source,
        place: state_dir.display().to_string(),
        unnamed: openclaw.map(|openclaw| unnamed(config, &openclaw.agent_ids())).unwrap_or_default(),
        timezone: config.timezone,
    })
}

/// Those that are named, else those with memories, as a night has them.
fn agents(config: &Config, table: &Table) -> BTreeSet<String> {
    if !config.agents.is_empty() {
        return config.agents.iter().map(|agent| agent.id.clone()).collect();
    }
    let known = table.iter().flat_map(|open| &open.memories).map(|memory| memory.partition.agent.clone());
    known.filter(|agent| !agent.is_empty()).chain([config.agent.clone()]).collect()
}

fn unnamed(config: &Config, gateway: &[String]) -> Vec<String> {
    let is_named = |id: &String| config.agents.iter().any(|named| named.id.eq_ignore_ascii_case(id));
    match config.agents.is_empty() {
        true => Vec::new(),
        false => gateway.iter().filter(|id| !is_named(id)).cloned().collect(),
    }
}

fn of_agent(state_dir: &Path, agent: String) -> Of {
    let found = transcript::read(state_dir, |known| known == agent, None);
    let said = found.list.iter().flat_map(|transcript| &transcript.lines);
    let newest = said.filter(|line| matches!(line.event, Event::Said(_))).filter_map(|line| line.at).max();
    Of { agent, sessions: found.list.len(), newest, trouble: found.warnings }
}

pub(super) fn lines(found: Option<&Found>) -> Vec<Line> {
    let Some(found) = found else { return Vec::new() };
    let mut lines: Vec<Line> = found.all.iter().map(|of| of_one(of, found)).collect();
    lines.extend(found.unnamed.iter().map(|id| {
        Line::warn(
            "agents",
            format!("the gateway has the agent `{id}`, DREAMER_AGENTS does not name it: nothing of it is remembered"),
            format!("add `{id}=FOLDER` to DREAMER_AGENTS (its workspace's memory folder), then run install-units again"),
        )
    }));
    lines
}

fn of_one(of: &Of, found: &Found) -> Line {
    let Of { agent, sessions, newest, trouble } = of;
    let is_source = found.source.has_transcripts();
    if let Some(why) = trouble.first() {
        let more =
            if trouble.len() > 1 { format!(" (and {} more)", trouble.len() - 1) } else { String::new() };
        let what = format!("{agent}: {why}{more}");
        let remedy = "see what it says; `openclaw doctor` repairs the gateway's files";
        // Passed over single events cost less than a store that nobody can read.
        return match is_source && trouble.iter().any(|why| transcript::is_trouble(why)) {
            true => Line::fail(CHECK, what, remedy),
            false => Line::warn(CHECK, what, remedy),
        };
    }
    let Some(newest) = newest else {
        let what = format!("{agent}: none under {}", found.place);
        let remedy = "set OPENCLAW_STATE_DIR to the gateway's folder, or talk to the agent";
        return match found.source {
            EpisodeSource::Transcripts => Line::fail(CHECK, what, remedy),
            EpisodeSource::Both => Line::warn(CHECK, what, remedy),
            EpisodeSource::Files => Line::warn(
                CHECK,
                format!("{what}: which memories are used is not known, nothing fades"),
                remedy,
            ),
        };
    };
    let at = newest.with_timezone(&found.timezone).format("%Y-%m-%d %H:%M");
    Line::ok(CHECK, format!("{agent}: {}, the newest message of {at}", counted(*sessions, "session")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use crate::doctor::Level;
    use crate::doctor::table::Trouble;
    use std::fs;

    fn config(dir: &Path, more: &[(&str, &str)]) -> Config {
        let path = |name: &str| dir.join(name).display().to_string();
        let (home, state, db) = (path("home"), path("state"), path("db"));
        let mut set = vec![
            ("DREAMER_HOME", home.as_str()),
            ("OPENCLAW_STATE_DIR", state.as_str()),
            ("DREAMER_LANCEDB_URI", db.as_str()),
        ];
        set.extend(more);
        Config::resolve(&Layers::of(&set)).unwrap().0
    }

    fn told(config: &Config) -> Vec<(Level, String)> {
        let table = Err(Trouble::None(String::new()));
        let found = look(config, &table, None);
        lines(found.as_ref()).into_iter().map(|line| (line.level, line.what)).collect()
    }

    #[test]
    fn each_agent_has_a_line_with_its_newest_message() {
        let dir = tempfile::tempdir().unwrap();
        let config =
            config(dir.path(), &[("DREAMER_AGENTS", "main,work"), ("DREAMER_EPISODE_SOURCE", "both")]);
        let sessions = dir.path().join("state/agents/main/sessions");
        fs::create_dir_all(&sessions).unwrap();
        let text = concat!(
            r#"{"type":"session","id":"s","version":3,"timestamp":"2026-11-30T07:00:00.000Z"}"#,
            "\n",
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-11-30T07:01:00.000Z","message":{"role":"user","content":"hello"}}"#,
            "\n"
        );
        fs::write(sessions.join("s.jsonl"), text).unwrap();
        let told = told(&config);
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].0, Level::Ok, "{told:?}");
        assert!(told[0].1.starts_with("main: 1 session, the newest message of 2026-11-30"), "{told:?}");
        assert!(told[1].0 == Level::Warn && told[1].1.starts_with("work: none under"), "{told:?}");
    }

    #[test]
    fn what_cannot_be_read_is_told_as_bad_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let of = |source: &str| told(&config(dir.path(), &[("DREAMER_EPISODE_SOURCE", source)])).remove(0);
        assert_eq!(of("transcripts").0, Level::Fail, "there is nothing to learn from");
        assert_eq!((of("both").0, of("files").0), (Level::Warn, Level::Warn));
        let agent = dir.path().join("state/agents/main/agent");
        fs::create_dir_all(&agent).unwrap();
        fs::write(
            agent.join("openclaw-agent.sqlite"),
            "no database, and longer than a header of one hundred bytes is: \
            that it is none is seen by its first sixteen",
        )
        .unwrap();
        let garbage = of("both");
        assert!(garbage.0 == Level::Fail && garbage.1.contains("openclaw-agent.sqlite"), "{garbage:?}");
        assert_eq!((of("transcripts").0, of("files").0), (Level::Fail, Level::Warn));
    }

    #[test]
    fn an_agent_that_came_later_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let pinned = config(dir.path(), &[("DREAMER_AGENTS", "main,work")]);
        let gateway = ["main".to_owned(), "Work".to_owned(), "kid".to_owned()];
        assert_eq!(unnamed(&pinned, &gateway), ["kid"]);
        assert_eq!(unnamed(&config(dir.path(), &[]), &gateway), [""; 0], "nobody is left out");
        let mut found = look(&pinned, &Err(Trouble::None(String::new())), None).unwrap();
        found.unnamed = vec!["kid".into()];
        let last = lines(Some(&found)).pop().unwrap();
        assert!(last.level == Level::Warn && last.what.contains("has the agent `kid`"), "{last:?}");
    }
}
