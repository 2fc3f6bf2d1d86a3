//! The episodes: whether the folder can be read, how old the newest is, and whether the gateway's hook writes whole days.

use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use super::Line;
use crate::config::Config;
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
    folder: PathBuf,
    /// How many there are and the date of the newest, or why the folder cannot be listed.
    listed: Result<(usize, Option<NaiveDate>), String>,
    /// Files in the archive.
    archived: usize,
    today: NaiveDate,
    writer: Option<Writer>,
}

/// The gateway's hook, and what it should be writing to.
#[derive(Debug, Clone)]
struct Writer {
    hook: Hook,
    kept: u64,
    /// Episodes with exactly as many messages as the hook keeps, and of how many.
    cut: (usize, usize),
    longest: Option<LongDay>,
    /// Where the gateway has the notes and the table, where that is not where we look.
    elsewhere: Vec<(&'static str, String)>,
    slot: String,
}

pub(super) fn look(config: &Config, openclaw: Option<&OpenClaw>, now: DateTime<Utc>) -> Found {
    let listed = episode::find(&config.episodes_dir);
    let mut written: Vec<_> = Vec::new();
    if let Ok(found) = &listed {
        let newest = found.iter().rev().take(LOOKED_AT);
        written.extend(newest.filter_map(|f| hook::read(&std::fs::read_to_string(&f.path).ok()?)));
    }
    let writer = openclaw.filter(|openclaw| openclaw.found() && config.has_gateway()).map(|openclaw| {
        let kept = openclaw.messages_kept();
        let full = written.iter().filter(|written| written.messages as u64 >= kept).count();
        Writer {
            hook: openclaw.hook(),
            kept,
            cut: (full, written.len()),
            longest: longest_day(openclaw.state_dir(), &config.agent),
            elsewhere: elsewhere(config, openclaw),
            slot: openclaw.memory().slot,
        }
    });
    Found {
        folder: config.episodes_dir.clone(),
        listed: listed
            .map(|found| (found.len(), found.iter().map(|found| found.date).max()))
            .map_err(|error| format!("could not {}", chain(&error))),
        archived: episode::find(&config.archive_dir()).map_or(0, |found| found.len()),
        today: now.with_timezone(&config.timezone).date_naive(),
        writer,
    }
}

fn elsewhere(config: &Config, openclaw: &OpenClaw) -> Vec<(&'static str, String)> {
    let mut elsewhere = Vec::new();
    let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let notes = openclaw.workspace(&config.agent).join("memory");
    if real(&notes) != real(&config.episodes_dir) {
        elsewhere.push(("DREAMER_EPISODES_DIR", notes.display().to_string()));
    }
    let memory = openclaw.memory();
    if let (Some(_), Database::Folder(folder)) = (&memory.embedding, &memory.database)
        && real(folder) != real(std::path::Path::new(&config.lancedb_uri))
    {
        elsewhere.push(("DREAMER_LANCEDB_URI", folder.display().to_string()));
    }
    elsewhere
}

pub(super) fn lines(found: &Found) -> Vec<Line> {
    let mut lines = vec![of_folder(found)];
    if let Some(writer) = &found.writer {
        lines.extend(of_writer(writer));
    }
    lines
}

fn of_folder(found: &Found) -> Line {
    let folder = found.folder.display();
    match &found.listed {
        Err(why) => Line::fail(CHECK, why.clone(), "correct DREAMER_EPISODES_DIR"),
        Ok((_, Some(newest))) if *newest > found.today + TimeDelta::days(1) => Line::warn(
            CHECK,
            format!("the newest in {folder} is of {newest}, which is still to come"),
            "check the clock, DREAMER_TIMEZONE and that file's name",
        ),
        Ok((count, Some(newest))) => {
            let age = found.today.signed_duration_since(*newest);
            let what = format!("{} in {folder}, the newest of {newest}", counted(*count, "episode"));
            match &found.writer {
                Some(_) if age > OLD => Line::warn(
                    CHECK,
                    format!("{what}, {} ago", counted(age.num_days().max(0) as usize, "day")),
                    "if the agent was used since, see session-flush, its timer and the hook",
                ),
                _ => Line::ok(CHECK, what),
            }
        }
        Ok((_, None)) if found.writer.is_none() || found.archived > 0 => {
            Line::ok(CHECK, format!("none new in {folder}, {} archived", found.archived))
        }
        Ok((_, None)) => {
            Line::warn(CHECK, format!("none yet in {folder}"), "talk to the agent and run `session-flush`")
        }
    }
}

fn of_writer(writer: &Writer) -> Vec<Line> {
    const CHECK: &str = "hook";
    let enable = "`openclaw hooks enable session-memory`, then restart the gateway";
    let mut lines = vec![match writer.hook {
        Hook::Off => Line::fail(CHECK, "session-memory is switched off: no episode is written", enable),
        Hook::NotSelected => {
            Line::fail(CHECK, "session-memory is not switched on: no episode is written", enable)
        }
        Hook::On => of_length(writer),
    }];
    for (variable, place) in &writer.elsewhere {
        let what = format!("the gateway has them in {place}, and {variable} names another folder");
        lines.push(Line::warn("folders", what, format!("set {variable}={place}")));
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
                "session-memory keeps {kept} messages; on {date} one session had {messages}, {} would be missing",
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
        Found {
            folder: "/ws/memory".into(),
            listed: Ok((count, newest.map(day))),
            archived: 0,
            today: day("2026-03-10"),
            writer,
        }
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
        assert_eq!(level(&Found { archived: 3, ..found(0, None, Some(writer())) }), Level::Ok);
        assert_eq!(level(&Found { listed: Err("could not".into()), ..found(0, None, None) }), Level::Fail);
    }

    #[test]
    fn a_hook_that_is_off_or_too_short_is_told() {
        let told = |writer: Writer| {
            let lines = of_writer(&writer);
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
    }

    #[test]
    fn folders_and_slots_that_do_not_fit_are_told() {
        let elsewhere = vec![("DREAMER_LANCEDB_URI", "/g/lancedb".to_owned())];
        let lines = of_writer(&Writer { elsewhere, slot: "memory-core".into(), ..writer() });
        assert_eq!(lines[1].remedy.as_deref(), Some("set DREAMER_LANCEDB_URI=/g/lancedb"));
        assert!(lines[2].what.contains("memory-core's"), "{lines:?}");
    }
}
