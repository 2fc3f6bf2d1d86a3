//! The episodes: whether the folder can be read, how old the newest is, and whether the gateway's hook writes whole days.

use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use super::Line;
use crate::config::{Config, EpisodeSource, Folder};
use crate::episode;
use crate::error::chain;
use crate::language::counted;
use crate::openclaw::config::OpenClaw;
use crate::openclaw::hook;
use crate::openclaw::lengths::{LongDay, longest_day};
use crate::openclaw::memory_settings::{Database, PLUGIN};
use crate::openclaw::wanted::{ENOUGH_MESSAGES, Hook, WANTED_MESSAGES};

const CHECK: &str = "episodes";
/// A gateway that has written nothing for so many days is looked at.
const OLD: TimeDelta = TimeDelta::days(3);
/// So many of the newest episodes are looked at for whether they were cut.
const LOOKED_AT: usize = 30;

/// The episodes and what writes them.
#[derive(Debug, Clone)]
pub(super) struct Found {
    folders: Vec<Place>,
    source: EpisodeSource,
    today: NaiveDate,
    writer: Option<Writer>,
}

/// A folder of episodes.
#[derive(Debug, Clone)]
struct Place {
    folder: PathBuf,
    /// Whose it is, where there are several.
    of: Option<String>,
    /// How many there are and the date of the newest, or why the folder cannot be listed.
    listed: Result<(usize, Option<NaiveDate>), String>,
    /// Whether the folder is there.
    is_there: bool,
    /// Files in the archive.
    archived: usize,
}

/// The gateway's hook, and what it should be writing to.
#[derive(Debug, Clone)]
struct Writer {
    hook: Hook,
    kept: u64,
    /// Episodes with exactly as many messages as the hook keeps, and of how many.
    cut: (usize, usize),
    longest: Option<LongDay>,
    /// Where the gateway has the notes and the table, where that is not where we look, with the setting up to the value.
    elsewhere: Vec<(String, String)>,
    slot: String,
}

pub(super) fn look(config: &Config, openclaw: Option<&OpenClaw>, now: DateTime<Utc>) -> Found {
    let folders = config.folders();
    let mut written: Vec<_> = Vec::new();
    for found in folders.iter().filter_map(|folder| episode::find(&folder.path).ok()) {
        let newest = found.iter().rev().take(LOOKED_AT);
        written.extend(newest.filter_map(|f| hook::read(&std::fs::read_to_string(&f.path).ok()?)));
    }
    let writer = openclaw.filter(|openclaw| openclaw.found() && config.has_gateway()).map(|openclaw| {
        let kept = openclaw.messages_kept();
        let full = written.iter().filter(|written| written.messages as u64 >= kept).count();
        let days = agents(config).into_iter().filter_map(|(id, _)| longest_day(openclaw.state_dir(), &id));
        Writer {
            hook: openclaw.hook(),
            kept,
            cut: (full, written.len()),
            longest: days.max_by_key(|day| day.messages),
            elsewhere: elsewhere(config, openclaw),
            slot: openclaw.memory().slot,
        }
    });
    let several = folders.len() > 1;
    Found {
        folders: folders.iter().map(|folder| place(folder, several)).collect(),
        source: config.episode_source,
        today: now.with_timezone(&config.timezone).date_naive(),
        writer,
    }
}

fn place(folder: &Folder, several: bool) -> Place {
    let of = if folder.of.is_empty() { &folder.agent } else { &folder.of.join(", ") };
    Place {
        folder: folder.path.clone(),
        of: several.then(|| of.clone()),
        listed: episode::find(&folder.path)
            .map(|found| (found.len(), found.iter().map(|found| found.date).max()))
            .map_err(|error| format!("could not {}", chain(&error))),
        is_there: folder.path.is_dir(),
        archived: episode::find(&folder.archive).map_or(0, |found| found.len()),
    }
}

/// The agents with the folders in which their episodes are looked for.
fn agents(config: &Config) -> Vec<(String, PathBuf)> {
    if config.agents.is_empty() {
        return vec![(config.agent.clone(), config.episodes_dir.clone())];
    }
    let folder = |own: &Option<PathBuf>| own.clone().unwrap_or_else(|| config.episodes_dir.clone());
    config.agents.iter().map(|agent| (agent.id.clone(), folder(&agent.folder))).collect()
}

fn elsewhere(config: &Config, openclaw: &OpenClaw) -> Vec<(String, String)> {
    let mut elsewhere = Vec::new();
    let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for (agent, ours) in agents(config) {
        let notes = openclaw.memory_folder(&agent);
        // One that is not there is no better place than one that is.
        if real(&notes) != real(&ours) && (notes.is_dir() || !ours.is_dir()) {
            let variable = match config.agents.is_empty() || ours == config.episodes_dir {
                true => "DREAMER_EPISODES_DIR=".to_owned(),
                false => format!("in DREAMER_AGENTS {agent}="),
            };
            elsewhere.push((variable, notes.display().to_string()));
        }
    }
    let memory = openclaw.memory();
    if let (Some(_), Database::Folder(folder)) = (&memory.embedding, &memory.database)
        && real(folder) != real(std::path::Path::new(&config.lancedb_uri))
    {
        elsewhere.push(("DREAMER_LANCEDB_URI=".to_owned(), folder.display().to_string()));
    }
    elsewhere
}

pub(super) fn lines(found: &Found) -> Vec<Line> {
    let mut lines: Vec<Line> = match found.source {
        EpisodeSource::Transcripts => Vec::new(),
        _ => found.folders.iter().map(|place| of_folder(place, found)).collect(),
    };
    if let Some(writer) = &found.writer {
        lines.extend(of_writer(writer, found.source));
    }
    lines
}

fn of_folder(place: &Place, found: &Found) -> Line {
    let folder = place.folder.display();
    let whose = place.of.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    let variable =
        if place.of.is_some() { "DREAMER_AGENTS or DREAMER_EPISODES_DIR" } else { "DREAMER_EPISODES_DIR" };
    match &place.listed {
        // A night goes on as long as there is one folder.
        Err(_) if !place.is_there && found.folders.iter().any(|place| place.is_there) => {
            let instead = if found.source.has_transcripts() { "; its transcripts are read" } else { "" };
            Line::warn(
                CHECK,
                format!("{whose}{folder} is not there (yet){instead}"),
                format!("talk to the agent, the gateway makes it; or correct {variable}"),
            )
        }
        Err(why) => Line::fail(CHECK, format!("{whose}{why}"), format!("correct {variable}")),
        Ok((_, Some(newest))) if *newest > found.today + TimeDelta::days(1) => Line::warn(
            CHECK,
            format!("{whose}the newest in {folder} is of {newest}, which is still to come"),
            "check the clock, DREAMER_TIMEZONE and that file's name",
        ),
        Ok((count, Some(newest))) => {
            let age = found.today.signed_duration_since(*newest);
            let what = format!("{whose}{} in {folder}, the newest of {newest}", counted(*count, "episode"));
            match &found.writer {
                Some(_) if age > OLD => Line::warn(
                    CHECK,
                    format!("{what}, {} ago", counted(age.num_days().max(0) as usize, "day")),
                    "if the agent was used since, see session-flush, its timer and the hook",
                ),
                _ => Line::ok(CHECK, what),
            }
        }
        Ok((_, None)) if found.writer.is_none() || place.archived > 0 => {
            Line::ok(CHECK, format!("{whose}none new in {folder}, {} archived", place.archived))
        }
        Ok((_, None)) => Line::warn(
            CHECK,
            format!("{whose}none yet in {folder}"),
            "talk to the agent and run `session-flush`",
        ),
    }
}

fn of_writer(writer: &Writer, source: EpisodeSource) -> Vec<Line> {
    const CHECK: &str = "hook";
    let enable = "`openclaw hooks enable session-memory`, then restart the gateway";
    let mut lines = vec![match writer.hook {
        Hook::Off => Line::fail(CHECK, "session-memory is switched off: no episode is written", enable),
        Hook::NotSelected => {
            Line::fail(CHECK, "session-memory is not switched on: no episode is written", enable)
        }
        Hook::On if source.has_transcripts() => Line::ok(
            CHECK,
            format!(
                "session-memory is on and keeps {} messages; Dreamer misses none, it reads the transcripts",
                writer.kept
            ),
        ),
        Hook::On => of_length(writer),
    }];
    for (setting, place) in &writer.elsewhere {
        let what = format!("the gateway has them in {place}, and our settings name another folder");
        lines.push(Line::warn("folders", what, format!("set {setting}{place}")));
    }
    if writer.slot != PLUGIN {
        let what = format!("the memory slot is {}'s: the agent recalls nothing from the table", writer.slot);
        lines.push(Line::warn(
            "memory slot",
            what,
            format!("set plugins.slots.memory to {PLUGIN} in openclaw.json"),
        ));
    }
    lines
}

fn of_length(writer: &Writer) -> Line {
    const CHECK: &str = "hook";
    let Writer { kept, cut: (full, of), longest, .. } = writer;
    let remedy =
        format!("set hooks.internal.entries.session-memory.messages to {WANTED_MESSAGES} in openclaw.json");
    match longest {
        Some(LongDay { messages, date }) if messages > kept => Line::warn(
            CHECK,
            format!(
                "session-memory keeps {kept} messages; on {date} one conversation had {messages}, {} would be missing",
                messages - kept
            ),
            remedy,
        ),
        _ if *full > 0 => Line::warn(
            CHECK,
            format!(
                "session-memory keeps {kept} messages, and {full} of the newest {of} episodes hold that many: their beginning is cut off"
            ),
            remedy,
        ),
        None if *kept < ENOUGH_MESSAGES => Line::warn(
            CHECK,
            format!(
                "session-memory keeps the last {kept} messages of a session: of a longer day the beginning is dropped"
            ),
            remedy,
        ),
        _ => Line::ok(CHECK, format!("session-memory is on and keeps {kept} messages")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn day(text: &str) -> NaiveDate {
        text.parse().expect("it is a date")
    }

    fn writer() -> Writer {
        Writer {
            hook: Hook::On,
            kept: 200,
            cut: (0, 5),
            longest: None,
            elsewhere: vec![],
            slot: PLUGIN.into(),
        }
    }

    fn found(count: usize, newest: Option<&str>, writer: Option<Writer>) -> Found {
        let listed = Ok((count, newest.map(day)));
        let place = Place { folder: "/ws/memory".into(), of: None, listed, is_there: true, archived: 0 };
        Found { folders: vec![place], source: EpisodeSource::Files, today: day("2026-03-10"), writer }
    }

    fn level(found: &Found) -> Level {
        lines(found)[0].level
    }

    #[test]
    fn episodes_are_counted_and_old_ones_of_a_gateway_told() {
        assert_eq!(level(&found(2, Some("2026-03-09"), Some(writer()))), Level::Ok);
        let old = found(2, Some("2026-03-01"), Some(writer()));
        assert!(level(&old) == Level::Warn && lines(&old)[0].what.ends_with("9 days ago"));
        assert_eq!(level(&found(2, Some("2026-03-01"), None)), Level::Ok, "nobody writes them");
        assert_eq!(level(&found(1, Some("2026-03-20"), None)), Level::Warn, "of the future");
        assert_eq!(level(&found(0, None, Some(writer()))), Level::Warn);
        let mut archived = found(0, None, Some(writer()));
        archived.folders[0].archived = 3;
        assert_eq!(level(&archived), Level::Ok);
        let mut unlisted = found(0, None, None);
        unlisted.folders[0].listed = Err("could not".into());
        assert_eq!(level(&unlisted), Level::Fail);
    }

    #[test]
    fn every_agent_has_one_line_and_a_missing_folder_is_as_bad_as_it_is_for_the_night() {
        let mut both = found(2, Some("2026-03-09"), Some(writer()));
        let missing =
            Place { listed: Err("could not read".into()), is_there: false, ..both.folders[0].clone() };
        both.folders.push(Place {
            of: Some("work".into()),
            folder: "/ws-work/memory".into(),
            ..missing.clone()
        });
        let told = |found: &Found| {
            let of_check = lines(found).into_iter().filter(|line| line.check == CHECK);
            of_check.map(|line| (line.level, line.what)).collect::<Vec<_>>()
        };
        let warned = told(&both);
        assert_eq!((warned.len(), warned[0].0, warned[1].0), (2, Level::Ok, Level::Warn));
        assert!(warned[1].1.starts_with("work: /ws-work/memory is not there"), "{warned:?}");
        both.source = EpisodeSource::Both;
        assert!(told(&both)[1].1.ends_with("its transcripts are read"));
        let none = Found { folders: vec![missing], ..both.clone() };
        assert_eq!(told(&none)[0].0, Level::Fail, "a night stops");
        assert!(told(&Found { source: EpisodeSource::Transcripts, ..both }).is_empty(), "no folder is read");
    }

    #[test]
    fn a_hook_that_is_off_or_too_short_is_told() {
        let told = |writer: Writer| {
            let lines = of_writer(&writer, EpisodeSource::Files);
            (lines[0].level, lines[0].what.clone())
        };
        assert_eq!(told(writer()).0, Level::Ok);
        assert_eq!(told(Writer { hook: Hook::Off, ..writer() }).0, Level::Fail);
        assert_eq!(told(Writer { hook: Hook::NotSelected, ..writer() }).0, Level::Fail);
        let long = |messages| Some(LongDay { messages, date: "2026-03-09".into() });
        let short = told(Writer { kept: 15, longest: long(40), ..writer() });
        assert!(short.0 == Level::Warn && short.1.contains("25 would be missing"), "{short:?}");
        assert_eq!(told(Writer { kept: 15, longest: long(10), ..writer() }).0, Level::Ok);
        assert_eq!(
            told(Writer { kept: 15, ..writer() }).0,
            Level::Warn,
            "nobody knows how long its days are"
        );
        let cut = told(Writer { kept: 60, cut: (2, 5), longest: long(10), ..writer() });
        assert!(cut.1.contains("2 of the newest 5 episodes"), "{cut:?}");
        let short = Writer { kept: 15, longest: long(40), ..writer() };
        let both = of_writer(&short, EpisodeSource::Both).remove(0);
        assert!(both.level == Level::Ok && both.what.contains("misses none"), "{both:?}");
        let off = Writer { hook: Hook::Off, ..writer() };
        assert_eq!(of_writer(&off, EpisodeSource::Both)[0].level, Level::Fail);
    }

    #[test]
    fn a_folder_that_is_not_there_is_never_advised() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir_all(dir.path().join("ws/main/memory")).unwrap();
        std::fs::create_dir_all(dir.path().join(".openclaw")).unwrap();
        let settings =
            "{agents: {defaults: {workspace: '~/ws'}, list: [{id: 'main', default: true}, {id: 'work'}]}}";
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), settings).unwrap();
        let told = |folder: &str| {
            let (home, folder) = (path("home"), path(folder));
            let agents = format!("main={folder},work={}", path("ws/work/memory"));
            let set =
                [("DREAMER_HOME", &*home), ("DREAMER_AGENTS", &*agents), ("DREAMER_EPISODES_DIR", &*home)];
            let mut layers = crate::config::Layers::of(&set);
            layers.user_home = Some(dir.path().to_owned());
            let config = Config::resolve(&layers).unwrap().0;
            let openclaw = OpenClaw::read(&layers).unwrap();
            elsewhere(&config, &openclaw)
        };
        assert_eq!(told("ws/main/memory"), []);
        assert_eq!(told("ws/memory"), [("in DREAMER_AGENTS main=".to_owned(), path("ws/main/memory"))]);
        std::fs::remove_dir(dir.path().join("ws/main/memory")).unwrap();
        std::fs::create_dir(dir.path().join("ws/memory")).unwrap();
        assert_eq!(told("ws/memory"), [], "there, and the other is not");
    }

    #[test]
    fn folders_and_slots_that_do_not_fit_are_told() {
        let elsewhere = vec![("DREAMER_LANCEDB_URI=".to_owned(), "/g/lancedb".to_owned())];
        let writer = Writer { elsewhere, slot: "memory-core".into(), ..writer() };
        let lines = of_writer(&writer, EpisodeSource::Files);
        assert_eq!(lines[1].remedy.as_deref(), Some("set DREAMER_LANCEDB_URI=/g/lancedb"));
        assert!(lines[2].what.contains("memory-core's"), "{lines:?}");
    }
}
