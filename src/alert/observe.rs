//! What the end of a run says about each kind of trouble: it is there, it is over, or the run could not tell. Pure.

use super::state::Kind;
use super::words;
use crate::dream::{Mode, Options};
use crate::error::Error;
use crate::report::{DreamReport, Status};
use crate::state::journal::Fate;

/// What a run says about one kind of trouble.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Signal {
    /// It is there.
    Raised(Trouble),
    /// It is not, or not any more.
    Clear,
    /// The run did not get far enough to know, or is not one that could.
    #[default]
    Unknown,
}

/// What is told of a trouble. Every text is in Dreamer's own words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trouble {
    /// What happened.
    pub what: String,
    /// What is left undone by it; may be empty.
    pub waits: String,
    /// What the operator can do.
    pub remedy: String,
}

impl Trouble {
    /// So many of an agent's rows vanished since the last run, more than anybody forgets on purpose.
    pub fn of_vanished(vanished: usize, of: usize) -> Self {
        Self {
            what: format!("{vanished} of {of} memories vanished since the last run and nobody forgot them"),
            waits: "no night changes anything until that is settled".into(),
            remedy: "put the database back, or run `dreamer --accept-vanished` if it was meant".into(),
        }
    }
}

/// Whether a night that had material changed anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Idle {
    /// It had material and changed nothing.
    Yes(Trouble),
    /// It changed something.
    No,
    /// It had no material, or did not end.
    #[default]
    Unknown,
}

/// All that the end of a run says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// The run, where there was one.
    pub run: Option<String>,
    /// Its dream log, where there is one.
    pub dream_log: Option<String>,
    /// One signal a kind; a kind that is not named is unknown.
    pub signals: Vec<(Kind, Signal)>,
    /// Whether it changed nothing, which is trouble only several times in a row.
    pub idle: Idle,
}

impl Observation {
    /// A run that failed before it could say more.
    pub fn failed(trouble: Trouble) -> Self {
        Self { signals: vec![(Kind::Failure, Signal::Raised(trouble))], ..Self::default() }
    }

    /// A unit of systemd failed, or works again. `result` is systemd's word for how it ended.
    pub fn of_unit(unit: &str, is_over: bool, result: Option<&str>) -> Self {
        let kind = Kind::of_unit(unit);
        if is_over {
            return Self { signals: vec![(kind, Signal::Clear)], ..Self::default() };
        }
        let how = result.map(|result| format!(" ({result})")).unwrap_or_default();
        let trouble = Trouble {
            what: format!("the unit {unit} failed{how}"),
            waits: String::new(),
            remedy: format!("see why: journalctl -u {unit} -n 50"),
        };
        Self { signals: vec![(kind, Signal::Raised(trouble))], ..Self::default() }
    }
}

/// What the end of a run says. A dry run, one that was not due and one that is to be tried again later say nothing;
/// neither do settings that cannot be used, to the person who started the run by hand and reads it.
pub fn observe(options: Options, outcome: Result<&DreamReport, &Error>) -> Observation {
    if options.dry_run {
        return Observation::default();
    }
    match outcome {
        Ok(report) => of_report(report),
        Err(Error::Vanished { count, of, .. }) => Observation {
            signals: vec![(Kind::VanishedRows, Signal::Raised(Trouble::of_vanished(*count, *of)))],
            ..Observation::default()
        },
        Err(error) if error.exit_code() == 75 => Observation::default(),
        Err(error) if matches!(error.exit_code(), 2 | 78) && !options.if_due => Observation::default(),
        Err(error) => Observation::failed(words::of_error(error)),
    }
}

fn of_report(report: &DreamReport) -> Observation {
    if matches!(report.status, Status::DryRun | Status::NotDue) {
        return Observation::default();
    }
    let signals = vec![
        (Kind::Failure, failure(report)),
        (Kind::LossBudget, loss_budget(report)),
        // A run that meets them stops with an error, so one that has a report met none.
        (Kind::VanishedRows, Signal::Clear),
    ];
    Observation {
        run: Some(report.run.clone()),
        dream_log: report.dream_log.clone(),
        signals,
        idle: idle(report),
    }
}

fn failure(report: &DreamReport) -> Signal {
    match &report.failure {
        None => Signal::Clear,
        Some(failure) => {
            let mut trouble = words::of_failure(failure);
            trouble.waits = waits(report);
            Signal::Raised(trouble)
        }
    }
}

fn loss_budget(report: &DreamReport) -> Signal {
    let waiting = &report.waiting;
    let parts = [
        counted(waiting.fading, "memory below the threshold", "memories below the threshold"),
        counted(
            waiting.merging,
            "memory that would leave by merging",
            "memories that would leave by merging",
        ),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        false => Signal::Raised(Trouble {
            what: "more memories would leave than one night or 30 days may take away; the loss budget stopped it"
                .into(),
            waits: parts.join(", "),
            remedy: "read the dream log. If it is right, there is nothing to do: they follow on later nights. If not, \
                     `dreamer restore ID` brings one back and DREAMER_FADE=off stops the fading"
                .into(),
        }),
        // A night that failed, or that compressed only, may not have come to the end of REM.
        true if report.failure.is_some() || report.mode == Mode::NremOnly.as_str() => Signal::Unknown,
        true => Signal::Clear,
    }
}

fn idle(report: &DreamReport) -> Idle {
    let excluded = report.fates.get(&Fate::Excluded).copied().unwrap_or(0);
    let changed = !report.created.is_empty()
        || !report.strengthened.is_empty()
        || !report.joined.is_empty()
        || !report.faded.is_empty();
    if changed {
        return Idle::No;
    }
    if report.failure.is_some() || report.chunks <= excluded {
        return Idle::Unknown;
    }
    let limit = report.limit.as_deref().map(|limit| format!(" ({limit})")).unwrap_or_default();
    Idle::Yes(Trouble {
        what: format!("several nights in a row had material and changed nothing{limit}"),
        waits: waits(report),
        remedy: "the dream log says what became of each chunk: a model whose replies cannot be used, a budget that \
                 is too small, or only small talk"
            .into(),
    })
}

/// What waits for later nights, in counts.
fn waits(report: &DreamReport) -> String {
    let held = report.fates.get(&Fate::HeldBack).copied().unwrap_or(0);
    let waiting = &report.waiting;
    let parts = [
        counted(held, "chunk held back", "chunks held back"),
        counted(waiting.days, "day of episodes", "days of episodes"),
        counted(waiting.rows, "memory to compare", "memories to compare"),
        counted(waiting.conflicts, "open conflict", "open conflicts"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("{}; what was settled is saved", parts.join(", ")),
    }
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::ConfigError;
    use crate::report::{Created, Shown, Waiting};
    use crate::state::StateError;

    const TIMED: Options = Options { mode: Mode::Full, dry_run: false, if_due: true, accept_vanished: false };
    const BY_HAND: Options =
        Options { mode: Mode::Full, dry_run: false, if_due: false, accept_vanished: false };

    fn report(chunks: usize) -> DreamReport {
        DreamReport { run: "r".into(), chunks, mode: "the whole night".into(), ..DreamReport::default() }
    }

    fn created() -> Created {
        let memory = Shown {
            id: "1".into(),
            agent: "main".into(),
            text: "PRIVATE".into(),
            category: "fact".into(),
            importance: 0.5,
            said_on: "2026-03-10".parse().unwrap(),
            sources: vec![],
        };
        Created { memory, worded_by: "model".into(), prompt: None }
    }

    fn signal(observation: &Observation, kind: &Kind) -> Signal {
        observation.signals.iter().find(|(k, _)| k == kind).map(|(_, s)| s.clone()).unwrap_or_default()
    }

    #[test]
    fn which_ends_of_a_run_are_failures() {
        let config =
            || Error::from(ConfigError::Missing { variable: "OPENAI_API_KEY", remedy: "set it".into() });
        let locked = || Error::from(StateError::Locked { path: "/lock".into() });
        let broken = || Error::from(StateError::Malformed { path: "/x".into(), detail: "x".into() });
        let dry = Options { dry_run: true, ..BY_HAND };
        for (options, error, raised) in [
            (TIMED, broken(), true),
            (BY_HAND, broken(), true),
            (dry, broken(), false),
            (TIMED, config(), true),
            (BY_HAND, config(), false),
            (TIMED, locked(), false),
        ] {
            let observation = observe(options, Err(&error));
            let is_raised = matches!(signal(&observation, &Kind::Failure), Signal::Raised(_));
            assert_eq!(is_raised, raised, "{options:?} {error}");
            assert_eq!(observation.idle, Idle::Unknown);
        }
    }

    #[test]
    fn a_night_that_ended_clears_a_failure_and_one_that_did_not_run_says_nothing() {
        let done = report(3);
        assert_eq!(signal(&observe(TIMED, Ok(&done)), &Kind::Failure), Signal::Clear);
        for status in [Status::NotDue, Status::DryRun] {
            let report = DreamReport { status, ..report(3) };
            assert_eq!(observe(TIMED, Ok(&report)), Observation::default(), "{status:?}");
        }
    }

    #[test]
    fn the_loss_budget_is_raised_by_what_waits_and_cleared_only_by_a_whole_night() {
        let waiting = |fading, merging| Waiting { fading, merging, rows: 9, ..Waiting::default() };
        for (mode, failure, waiting, expected) in [
            (Mode::Full, None, waiting(2, 0), Some("2 memories below the threshold")),
            (Mode::Full, None, waiting(0, 1), Some("1 memory that would leave by merging")),
            (Mode::Full, Some("x"), waiting(1, 1), Some("1 memory below")),
        ] {
            let failure = failure.map(str::to_string);
            let report = DreamReport { waiting, failure, mode: mode.as_str().into(), ..report(0) };
            match signal(&observe(TIMED, Ok(&report)), &Kind::LossBudget) {
                Signal::Raised(trouble) => assert!(trouble.waits.contains(expected.unwrap()), "{trouble:?}"),
                other => panic!("{other:?}"),
            }
        }
        for (mode, failure, expected) in [
            (Mode::Full, None, Signal::Clear),
            (Mode::RemOnly, None, Signal::Clear),
            (Mode::NremOnly, None, Signal::Unknown),
            (Mode::Full, Some("x"), Signal::Unknown),
        ] {
            let failure = failure.map(str::to_string);
            let report = DreamReport { failure, mode: mode.as_str().into(), ..report(0) };
            assert_eq!(signal(&observe(TIMED, Ok(&report)), &Kind::LossBudget), expected, "{mode:?}");
        }
    }

    #[test]
    fn a_night_is_idle_only_with_material_and_without_any_change() {
        let with = |chunks, change: fn(&mut DreamReport)| {
            let mut report = report(chunks);
            change(&mut report);
            report
        };
        for (what, report, expected) in [
            ("no material", with(0, |_| ()), "unknown"),
            ("material, no change", with(3, |_| ()), "yes"),
            ("a new memory", with(3, |r| r.created.push(created())), "no"),
            ("decay alone is no change", with(3, |r| r.rem.decayed = 5), "yes"),
            ("all excluded by tag", with(3, |r| r.fates = [(Fate::Excluded, 3)].into()), "unknown"),
            ("all noise", with(3, |r| r.fates = [(Fate::Noise, 3)].into()), "yes"),
            ("a failure has its own alert", with(3, |r| r.failure = Some("x".into())), "unknown"),
        ] {
            let idle = match observe(TIMED, Ok(&report)).idle {
                Idle::Yes(_) => "yes",
                Idle::No => "no",
                Idle::Unknown => "unknown",
            };
            assert_eq!(idle, expected, "{what}");
        }
    }

    #[test]
    fn vanished_rows_are_over_with_the_next_night_that_runs() {
        let observation = observe(TIMED, Ok(&report(0)));
        assert_eq!(signal(&observation, &Kind::VanishedRows), Signal::Clear);
        let error = Error::Vanished { agent: "main".into(), count: 12, of: 40 };
        match signal(&observe(TIMED, Err(&error)), &Kind::VanishedRows) {
            Signal::Raised(trouble) => assert!(trouble.what.contains("12 of 40 memories"), "{trouble:?}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_unit_of_the_night_is_the_same_trouble_as_a_failed_night() {
        let failed = Observation::of_unit("dreamer.service", false, Some("oom-kill"));
        assert!(
            matches!(signal(&failed, &Kind::Failure), Signal::Raised(t) if t.what.contains("(oom-kill)"))
        );
        let flush = Observation::of_unit("session-flush.service", true, None);
        assert_eq!(signal(&flush, &Kind::Unit("session-flush.service".into())), Signal::Clear);
        assert_eq!(signal(&flush, &Kind::Failure), Signal::Unknown);
    }
}
