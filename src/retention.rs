//! Which runs are kept and which may go, each with its reason, and whether the clock can be trusted tonight. Pure: what
//! there is and what time it is come in, decisions go out. Removing is `housekeeping`'s work.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};

/// A dry run can be applied for so long.
const APPLICABLE: TimeDelta = TimeDelta::hours(12);
/// A clock may lag behind the last run by this much: two machines, or a correction of the time.
const LAG: TimeDelta = TimeDelta::hours(1);
/// A longer pause than this is more likely a wrong clock.
const PAUSE: TimeDelta = TimeDelta::days(60);

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// Its id.
    pub id: String,
    /// The word in its state; none when that cannot be read.
    pub phase: Option<String>,
    /// When it was planned.
    pub planned_at: Option<DateTime<Utc>>,
    /// When it finished, if it did.
    pub finished_at: Option<DateTime<Utc>>,
    /// Bytes of its folder.
    pub size: u64,
}

impl RunFacts {
    /// The time it counts by: when it finished, else when it was planned.
    fn time(&self) -> Option<DateTime<Utc>> {
        self.finished_at.or(self.planned_at)
    }

    fn is(&self, word: &str) -> bool {
        self.phase.as_deref() == Some(word)
    }
}

/// Why a run is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Its state cannot be read, or says what this program does not know.
    Unknown,
    /// The next night goes on with it.
    Unfinished,
    /// It failed and waits for a person.
    Parked,
    /// The last one that finished: it tells when the next is due.
    Newest,
    /// A dry run that can still be applied.
    Applicable,
    /// Younger than the days snapshots are kept.
    Young,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "its state cannot be understood",
            Self::Unfinished => "it is not finished",
            Self::Parked => "it is parked",
            Self::Newest => "it is the last one that finished",
            Self::Applicable => "it can still be applied",
            Self::Young => "it is young",
        })
    }
}

/// Why a run may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It is over, and older than so many days.
    Older {
        /// `DREAMER_SNAPSHOT_DAYS`.
        days: u32,
    },
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Older { days } = self;
        write!(f, "it is over and older than {days} days")
    }
}

/// What becomes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It stays.
    Keep(Kept),
    /// It goes.
    Remove(Removed),
}

/// Decides for each run, in the order of `runs`. Whatever speaks for keeping one wins.
pub fn decide(runs: &[RunFacts], now: DateTime<Utc>, days: u32) -> Vec<Decision> {
    let finished = runs.iter().filter(|run| run.is("finished"));
    let newest = finished.max_by_key(|run| (run.time(), run.id.clone())).map(|run| run.id.as_str());
    runs.iter()
        .map(|run| match reason_to_keep(run, newest, now, days) {
            Some(reason) => Decision::Keep(reason),
            None => Decision::Remove(Removed::Older { days }),
        })
        .collect()
}

fn reason_to_keep(run: &RunFacts, newest: Option<&str>, now: DateTime<Utc>, days: u32) -> Option<Kept> {
    let Some(time) = run.time() else { return Some(Kept::Unknown) };
    match run.phase.as_deref() {
        Some("finished") if newest == Some(run.id.as_str()) => return Some(Kept::Newest),
        Some("finished" | "abandoned") => {}
        Some("previewed") if now - time < APPLICABLE => return Some(Kept::Applicable),
        Some("previewed") => {}
        Some("started" | "planned" | "applying" | "applied") => return Some(Kept::Unfinished),
        Some("parked") => return Some(Kept::Parked),
        _ => return Some(Kept::Unknown),
    }
    (now - time < TimeDelta::days(days.into())).then_some(Kept::Young)
}

/// Whether tonight's time goes with that of the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// It does.
    Steady,
    /// It is earlier than the last run.
    Back {
        /// By how much.
        by: TimeDelta,
    },
    /// It is so much later that the clock is more likely wrong than the pause true.
    Leap {
        /// By how much.
        by: TimeDelta,
    },
}

/// Compares tonight's time with that of the last run: over an hour back, or over 60 days ahead, is no steady clock.
pub fn clock(now: DateTime<Utc>, last_finished: Option<DateTime<Utc>>) -> Clock {
    match last_finished {
        Some(last) if last - now > LAG => Clock::Back { by: last - now },
        Some(last) if now - last > PAUSE => Clock::Leap { by: now - last },
        _ => Clock::Steady,
    }
}

/// The time to compare tonight's with: the latest of `times`, of those that a clock ahead for good has not made useless.
/// A time further ahead than a believable pause counts only where there is no other.
pub fn last_believable(
    now: DateTime<Utc>,
    times: impl Iterator<Item = DateTime<Utc>> + Clone,
) -> Option<DateTime<Utc>> {
    times.clone().filter(|time| *time - now <= PAUSE).max().or_else(|| times.max())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hour(n: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::hours(n)
    }

    fn run(id: &str, phase: &str, planned: i64) -> RunFacts {
        RunFacts {
            id: id.into(),
            phase: Some(phase.into()),
            planned_at: Some(hour(planned)),
            finished_at: (phase == "finished").then(|| hour(planned + 1)),
            size: 1,
        }
    }

    #[test]
    fn each_run_is_kept_or_removed_for_its_reason() {
        let unreadable = RunFacts { phase: None, planned_at: None, ..run("x", "finished", 0) };
        let unreadable = RunFacts { finished_at: None, ..unreadable };
        let now = hour(24 * 30);
        let ago = |days: i64| 24 * (30 - days);
        let older = Decision::Remove(Removed::Older { days: 7 });
        for (facts, expected) in [
            (unreadable, Decision::Keep(Kept::Unknown)),
            (run("a", "dreaming", ago(20)), Decision::Keep(Kept::Unknown)),
            (run("b", "planned", ago(20)), Decision::Keep(Kept::Unfinished)),
            (run("c", "applying", ago(20)), Decision::Keep(Kept::Unfinished)),
            (run("d", "started", ago(20)), Decision::Keep(Kept::Unfinished)),
            (run("e", "parked", ago(20)), Decision::Keep(Kept::Parked)),
            (run("f", "finished", ago(7) - 2), older),
            (run("g", "finished", ago(7) + 1), Decision::Keep(Kept::Young)),
            (run("h", "abandoned", ago(9)), older),
            (run("i", "abandoned", ago(2)), Decision::Keep(Kept::Young)),
            (run("j", "previewed", ago(9)), older),
            (run("k", "previewed", ago(0) - 2), Decision::Keep(Kept::Applicable)),
            (run("l", "previewed", ago(1)), Decision::Keep(Kept::Young)),
            (run("m", "finished", ago(-3)), Decision::Keep(Kept::Young)),
        ] {
            let newest = run("newest", "finished", ago(-9));
            let decisions = decide(&[facts.clone(), newest], now, 7);
            assert_eq!(decisions, [expected, Decision::Keep(Kept::Newest)], "{facts:?}");
        }
    }

    #[test]
    fn the_last_run_that_finished_stays_however_old_it_is() {
        let runs = [run("a", "finished", 0), run("b", "finished", 24), run("c", "abandoned", 48)];
        let older = Decision::Remove(Removed::Older { days: 1 });
        assert_eq!(decide(&runs, hour(24 * 400), 1), [older, Decision::Keep(Kept::Newest), older]);
    }

    #[test]
    fn a_clock_may_lag_an_hour_and_pause_sixty_days() {
        let now = hour(10_000);
        let day = 24;
        for (last, expected) in [
            (None, Clock::Steady),
            (Some(10_000), Clock::Steady),
            (Some(10_001), Clock::Steady),
            (Some(10_002), Clock::Back { by: TimeDelta::hours(2) }),
            (Some(10_000 - 60 * day), Clock::Steady),
            (Some(9_999 - 60 * day), Clock::Leap { by: TimeDelta::hours(60 * day + 1) }),
        ] {
            assert_eq!(clock(now, last.map(hour)), expected, "{last:?}");
        }
    }

    #[test]
    fn one_run_in_a_far_future_is_not_believed_for_ever() {
        let now = hour(10_000);
        let far = hour(900_000);
        assert_eq!(last_believable(now, [far].into_iter()), Some(far));
        assert_eq!(last_believable(now, [far, hour(9_990)].into_iter()), Some(hour(9_990)));
        assert_eq!(last_believable(now, [hour(10_100), hour(9_990)].into_iter()), Some(hour(10_100)));
        assert_eq!(last_believable(now, [].into_iter()), None);
    }

    const PHASES: [&str; 9] =
        ["started", "planned", "applying", "finished", "abandoned", "previewed", "parked", "dreaming", ""];

    fn runs() -> impl Strategy<Value = Vec<RunFacts>> {
        let one = (0..PHASES.len(), 0i64..2_000, any::<bool>());
        proptest::collection::vec(one, 0..30).prop_map(|list| {
            let facts = |(n, (phase, planned, dated)): (usize, (usize, i64, bool))| RunFacts {
                planned_at: dated.then(|| hour(planned)),
                ..run(&format!("run-{n:02}"), PHASES[phase], planned)
            };
            list.into_iter().enumerate().map(facts).collect()
        })
    }

    proptest! {
        #[test]
        fn only_what_is_over_and_old_goes(runs in runs(), now in 0i64..3_000, days in 1u32..=60) {
            let now = hour(now);
            let decisions = decide(&runs, now, days);
            prop_assert_eq!(decisions.len(), runs.len());
            for (run, decision) in runs.iter().zip(&decisions) {
                let Decision::Remove(_) = decision else { continue };
                prop_assert!(matches!(run.phase.as_deref(), Some("finished" | "abandoned" | "previewed")));
                prop_assert!(now - run.time().unwrap() >= TimeDelta::days(days.into()));
            }
        }

        #[test]
        fn a_run_that_finished_is_left_if_there_was_one(runs in runs(), now in 0i64..3_000, days in 1u32..=60) {
            let decisions = decide(&runs, hour(now), days);
            let finished = |list: &[&RunFacts]| {
                list.iter().filter(|run| run.is("finished")).filter_map(|run| run.time()).max()
            };
            let kept: Vec<&RunFacts> =
                runs.iter().zip(&decisions).filter(|(_, d)| matches!(d, Decision::Keep(_))).map(|(r, _)| r).collect();
            prop_assert_eq!(finished(&kept), finished(&runs.iter().collect::<Vec<_>>()));
        }

        #[test]
        fn deciding_again_on_what_is_left_removes_nothing(runs in runs(), now in 0i64..3_000, days in 1u32..=60) {
            let decisions = decide(&runs, hour(now), days);
            let mut left = runs.clone();
            let mut kept = decisions.iter().map(|d| matches!(d, Decision::Keep(_)));
            left.retain(|_| kept.next().unwrap());
            prop_assert!(decide(&left, hour(now), days).iter().all(|d| matches!(d, Decision::Keep(_))));
        }

        #[test]
        fn what_is_kept_longer_is_kept_the_more(runs in runs(), now in 0i64..3_000, days in 1u32..=59) {
            let (short, long) = (decide(&runs, hour(now), days), decide(&runs, hour(now), days + 1));
            for (short, long) in short.iter().zip(&long) {
                prop_assert!(matches!(short, Decision::Remove(_)) || matches!(long, Decision::Keep(_)));
            }
        }
    }
}
