//! The runs: how the last one ended, which are parked, interrupted or damaged, and what waits for a person.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

use super::Line;
use crate::config::Config;
use crate::error::chain;
use crate::language::counted;
use crate::plan::Run;
use crate::plan::run::Phase;
use crate::preview::{LastRun, Waiting, last_run, waiting};
use crate::queues::Queues;

const CHECK: &str = "runs";
/// A home whose last night is longer ago is looked at.
const LONG_AGO: TimeDelta = TimeDelta::days(2);

/// The runs of a home.
#[derive(Debug, Clone)]
pub(super) struct Found {
    last: Option<LastRun>,
    parked: Vec<(String, String)>,
    interrupted: Vec<String>,
    damaged: Vec<String>,
    waiting: Waiting,
    /// What could not be read.
    trouble: Vec<String>,
    /// What could not be read and is not needed.
    odd: Vec<String>,
    now: DateTime<Utc>,
}

impl Found {
    /// When the last run that changed something ended.
    pub(super) fn last_change(&self) -> Option<DateTime<Utc>> {
        self.last
            .as_ref()
            .filter(|last| last.status.as_deref() != Some("nothing_new"))
            .map(|last| last.finished_at)
    }

    /// When the last run ended.
    pub(super) fn last_end(&self) -> Option<DateTime<Utc>> {
        self.last.as_ref().map(|last| last.finished_at)
    }
}

pub(super) fn look(config: &Config, now: DateTime<Utc>) -> Found {
    let mut trouble = Vec::new();
    let dir = config.runs_dir();
    let states = Run::states(&dir).unwrap_or_else(|error| {
        trouble.push(format!("could not {}", chain(&error)));
        Vec::new()
    });
    let damaged = Run::damaged(&dir).unwrap_or_default();
    let mut told = Vec::new();
    let last = match damaged.is_empty() {
        true => last_run(config, &mut told).unwrap_or_else(|error| {
            trouble.push(format!("could not {}", chain(&error)));
            None
        }),
        false => None,
    };
    let id = |run: &Run| run.id.as_str().to_owned();
    let parked = states.iter().filter(|(_, state)| state.phase == Phase::Parked);
    let interrupted = states.iter().filter(|(run, _)| run.is_pending(now).unwrap_or(false));
    let queues = Queues::read(config, now.with_timezone(&config.timezone).date_naive());
    let waiting = match &queues {
        Ok(queues) => waiting(queues),
        Err(error) => {
            trouble.push(format!("could not {}", chain(error)));
            Waiting::default()
        }
    };
    Found {
        parked: parked.map(|(run, state)| (id(run), state.why.clone().unwrap_or_default())).collect(),
        interrupted: interrupted.map(|(run, _)| id(run)).collect(),
        damaged: damaged.iter().map(id).collect(),
        last,
        waiting,
        trouble,
        odd: told,
        now,
    }
}

pub(super) fn lines(found: &Found, timezone: Tz) -> Vec<Line> {
    let mut lines = Vec::new();
    if found.damaged.is_empty() {
        lines.push(of_last(found, timezone));
    }
    for (run, why) in &found.parked {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        lines.push(Line::warn(
            CHECK,
            format!("{run} is parked{why}"),
            format!("`dreamer apply {run}` tries it once more"),
        ));
    }
    for run in &found.interrupted {
        lines.push(Line::warn(CHECK, format!("{run} was interrupted"), "the next run goes on with it first"));
    }
    for run in &found.damaged {
        lines.push(Line::fail(
            CHECK,
            format!("the state of {run} cannot be read"),
            "the next night parks it; then see `dreamer snapshots list`",
        ));
    }
    for why in &found.trouble {
        lines.push(Line::fail(CHECK, why.clone(), "see what it says"));
    }
    for why in &found.odd {
        lines.push(Line::warn(CHECK, why.clone(), "how that run ended is not known; see its dream log"));
    }
    if found.waiting.questions > 0 {
        let what = format!("{} for you", counted(found.waiting.questions, "question"));
        lines.push(Line::warn("questions", what, "`dreamer review list`"));
    }
    lines
}

fn of_last(found: &Found, timezone: Tz) -> Line {
    let Some(last) = &found.last else {
        return Line::ok(CHECK, "none has finished yet; `dreamer preview` tells what the first would do");
    };
    let at = last.finished_at.with_timezone(&timezone).format("%Y-%m-%d %H:%M");
    let held = last.held_back.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    if last.status.as_deref() == Some("failed") {
        return Line::fail(
            CHECK,
            format!("the last one, {}, failed at {at}{held}", last.run),
            "see its dream log and the journal",
        );
    }
    let what = format!("the last one, {}, ended well at {at}{held}", last.run);
    match found.now - last.finished_at {
        ago if ago > LONG_AGO => {
            let what = format!("{what}, {} ago", counted(ago.num_days().max(0) as usize, "day"));
            Line::warn(CHECK, what, "see the timers; without new material a timed run is not due")
        }
        _ if !held.is_empty() => {
            Line::warn(CHECK, what, "the next night takes up what waits; see its dream log")
        }
        _ => Line::ok(CHECK, what),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn found(status: &str, at: &str) -> Found {
        let last = LastRun {
            run: "r-1".into(),
            finished_at: at.parse().unwrap(),
            status: Some(status.into()),
            held_back: None,
        };
        Found {
            last: Some(last),
            parked: vec![],
            interrupted: vec![],
            damaged: vec![],
            waiting: Waiting::default(),
            trouble: vec![],
            odd: vec![],
            now: "2026-03-10T12:00:00Z".parse().unwrap(),
        }
    }

    fn told(found: &Found) -> Vec<(Level, String)> {
        lines(found, Tz::UTC).into_iter().map(|line| (line.level, line.what)).collect()
    }

    #[test]
    fn the_last_run_is_told_with_its_outcome_and_age() {
        let night = "2026-03-10T03:10:00Z";
        assert_eq!(
            told(&found("done", night)),
            [(Level::Ok, "the last one, r-1, ended well at 2026-03-10 03:10".into())]
        );
        assert_eq!(told(&found("failed", night))[0].0, Level::Fail);
        let old = told(&found("done", "2026-03-05T03:10:00Z"));
        assert!(old[0].0 == Level::Warn && old[0].1.ends_with("5 days ago"), "{old:?}");
        assert_eq!(told(&Found { last: None, ..found("done", night) })[0].0, Level::Ok);
        let mut held = found("done", night);
        held.last.as_mut().unwrap().held_back = Some("DREAMER_MAX_CALLS is reached".into());
        assert_eq!(told(&held)[0].0, Level::Warn);
        assert_eq!(found("nothing_new", night).last_change(), None);
        assert_eq!(found("done", night).last_change(), found("done", night).last_end());
    }

    #[test]
    fn what_waits_for_a_person_is_told() {
        let waiting = Waiting { questions: 2, ..Waiting::default() };
        let parked = vec![("r-2".to_owned(), "it failed twice".to_owned())];
        let all = Found {
            parked,
            interrupted: vec!["r-3".into()],
            trouble: vec!["could not read x".into()],
            waiting,
            ..found("done", "2026-03-10T03:10:00Z")
        };
        let told = told(&all);
        assert_eq!(told[1], (Level::Warn, "r-2 is parked: it failed twice".into()));
        assert_eq!(told[2], (Level::Warn, "r-3 was interrupted".into()));
        assert_eq!(told[3].0, Level::Fail);
        assert_eq!(told[4], (Level::Warn, "2 questions for you".into()));
        let damaged = Found { damaged: vec!["r-4".into()], ..found("done", "2026-03-10T03:10:00Z") };
        assert_eq!(lines(&damaged, Tz::UTC)[0].level, Level::Fail);
    }
}
