//! Whether a timed run is due: the window, a missed night, new material. Pure; `now` is an argument.
//! Counting the material and finding the last finished run are the caller's.

use chrono::{DateTime, NaiveTime, TimeDelta, TimeZone, Utc};

use crate::state::maintenance::Maintenance;

/// A start and an end in local time; the end may lie after midnight.
pub type Window = (NaiveTime, NaiveTime);

/// Whether `--if-due` should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// It should.
    Yes,
    /// It should not.
    No {
        /// Why, for the operator: a sentence without a full stop.
        reason: String,
    },
}

/// Whether a night is due. `window` and `min_new` are `None` when the operator switched them off.
pub fn due<Tz: TimeZone>(
    now: DateTime<Tz>,
    last_finished: Option<DateTime<Utc>>,
    new_material: usize,
    window: Option<Window>,
    min_new: Option<usize>,
) -> Due {
    match in_time(&now, last_finished, window) {
        Due::Yes => enough(new_material, min_new),
        no => no,
    }
}

/// The first check, which needs only one small file: whether the operator works on the home.
pub fn outside_maintenance<Tz: TimeZone>(maintenance: Option<&Maintenance>, now: &DateTime<Tz>) -> Due
where
    Tz::Offset: std::fmt::Display,
{
    let Some(maintenance) = maintenance.filter(|maintenance| maintenance.is_on(now.to_utc())) else {
        return Due::Yes;
    };
    let local = |at: DateTime<Utc>| at.with_timezone(&now.timezone()).format("%Y-%m-%d %H:%M").to_string();
    let until = match maintenance.until {
        Some(until) => format!("until {}", local(until)),
        None => "until `dreamer maintenance off`".to_owned(),
    };
    let why = maintenance.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Due::No { reason: format!("maintenance is on {until}{why}") }
}

/// The clock's half of [`due`], which needs no file to be read: inside the window, or a night was missed.
/// Outside it, a home that never finished a night waits for the window.
pub fn in_time<Tz: TimeZone>(
    now: &DateTime<Tz>,
    last_finished: Option<DateTime<Utc>>,
    window: Option<Window>,
) -> Due {
    let Some((start, end)) = window else { return Due::Yes };
    // A night that finished in the future had a wrong clock: it must not keep all others from being due.
    let last_finished = last_finished.filter(|last| *last - now.to_utc() <= TimeDelta::hours(1));
    let time = now.naive_local().time();
    let inside = if start < end { start <= time && time < end } else { start <= time || time < end };
    if inside {
        // One night a window: the chunks a night held back would lose their three tries in one.
        return match last_finished.filter(|last| now.to_utc() - *last < since_start(time, start)) {
            Some(last) => Due::No {
                reason: format!("the last night finished {}, in this window", ago(now.to_utc() - last)),
            },
            None => Due::Yes,
        };
    }
    let outside = format!(
        "{} is outside the window {}-{}",
        time.format("%H:%M"),
        start.format("%H:%M"),
        end.format("%H:%M")
    );
    let Some(last) = last_finished else {
        return Due::No {
            reason: format!("{outside}, and no night has finished here yet that could be missed"),
        };
    };
    let since = now.to_utc() - last;
    if since > TimeDelta::hours(24) {
        return Due::Yes;
    }
    let reason = format!("{outside}, and the last night finished {}", ago(since));
    Due::No { reason }
}

/// How long a window that began at `start` has been open at `time`, by the clock on the wall.
fn since_start(time: NaiveTime, start: NaiveTime) -> TimeDelta {
    let open = time - start;
    if open < TimeDelta::zero() { open + TimeDelta::hours(24) } else { open }
}

/// The material's half of [`due`]: new chunks or captured rows.
pub fn enough(new_material: usize, min_new: Option<usize>) -> Due {
    match min_new {
        Some(least) if new_material < least => Due::No {
            reason: format!(
                "{}; a night needs {least} (DREAMER_MIN_NEW)",
                match new_material {
                    1 => "1 new chunk or captured memory".to_owned(),
                    other => format!("{other} new chunks or captured memories"),
                }
            ),
        },
        _ => Due::Yes,
    }
}

fn ago(since: TimeDelta) -> String {
    match (since.num_hours(), since.num_minutes()) {
        (_, minutes) if minutes < 1 => "just now".to_string(),
        (0, 1) => "1 minute ago".to_string(),
        (0, minutes) => format!("{minutes} minutes ago"),
        (1, _) => "1 hour ago".to_string(),
        (hours, _) => format!("{hours} hours ago"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use chrono_tz::Tz;

    fn local(text: &str) -> DateTime<Tz> {
        let naive = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
        Tz::Europe__Berlin.from_local_datetime(&naive).unwrap()
    }

    fn window(start: (u32, u32), end: (u32, u32)) -> Option<Window> {
        let time = |(h, m)| NaiveTime::from_hms_opt(h, m, 0).unwrap();
        Some((time(start), time(end)))
    }

    fn is_due(now: &str, last: Option<&str>, new: usize, window: Option<Window>) -> bool {
        due(local(now), last.map(|l| local(l).to_utc()), new, window, Some(5)) == Due::Yes
    }

    #[test]
    fn the_window_counts_local_time_and_may_span_midnight() {
        let night = window((1, 0), (5, 0));
        let spanning = window((23, 0), (4, 0));
        for (now, window, expected) in [
            ("2026-03-10 00:59", night, false),
            ("2026-03-10 01:00", night, true),
            ("2026-03-10 04:59", night, true),
            ("2026-03-10 05:00", night, false),
            ("2026-03-10 22:59", spanning, false),
            ("2026-03-10 23:30", spanning, true),
            ("2026-03-10 03:59", spanning, true),
            ("2026-03-10 04:00", spanning, false),
            ("2026-03-10 12:00", None, true),
        ] {
            assert_eq!(is_due(now, None, 5, window), expected, "{now}");
        }
    }

    #[test]
    fn a_night_missed_for_over_a_day_is_due_outside_the_window() {
        let night = window((1, 0), (5, 0));
        assert!(
            !is_due("2026-03-10 12:00", Some("2026-03-09 12:00"), 5, night),
            "exactly a day is not over a day"
        );
        assert!(is_due("2026-03-10 12:01", Some("2026-03-09 12:00"), 5, night));
        assert!(!is_due("2026-03-10 12:00", Some("2026-03-10 03:00"), 5, night));
        assert!(!is_due("2026-03-10 12:00", None, 5, night), "a home that never ran waits for the window");
        assert!(
            !is_due("2026-03-10 12:00", Some("2026-03-12 12:00"), 5, night),
            "a clock set back misses nothing"
        );
    }

    #[test]
    fn one_night_a_window_is_enough() {
        for (now, last, due) in [
            ("2026-03-10 03:30", "2026-03-10 03:05", false),
            ("2026-03-10 03:30", "2026-03-09 22:00", true),
            ("2026-03-10 03:30", "2026-03-09 03:05", true),
            // A clock that was wrong, and one that is a little behind.
            ("2026-03-10 03:30", "2096-03-09 03:05", true),
            ("2026-03-10 03:30", "2026-03-10 03:35", false),
        ] {
            assert_eq!(is_due(now, Some(last), 9, window((1, 0), (5, 0))), due, "{now} after {last}");
        }
        assert!(!is_due("2026-03-10 02:00", Some("2026-03-09 23:30"), 9, window((23, 0), (4, 0))));
        assert!(is_due("2026-03-10 02:00", Some("2026-03-09 22:30"), 9, window((23, 0), (4, 0))));
    }

    #[test]
    fn a_night_without_material_is_not_due_even_when_missed() {
        let night = window((1, 0), (5, 0));
        assert!(!is_due("2026-03-10 02:00", None, 4, night));
        assert!(!is_due("2026-03-10 12:00", Some("2026-03-01 02:00"), 4, night));
        assert_eq!(due(local("2026-03-10 02:00"), None, 0, night, None), Due::Yes, "off disables the check");
    }

    #[test]
    fn maintenance_keeps_a_timed_run_away_until_it_ends() {
        let on = Maintenance {
            since: local("2026-03-10 01:00").to_utc(),
            until: Some(local("2026-03-10 03:00").to_utc()),
            reason: Some("new disk".into()),
        };
        assert_eq!(outside_maintenance(None, &local("2026-03-10 02:00")), Due::Yes);
        assert_eq!(outside_maintenance(Some(&on), &local("2026-03-10 03:00")), Due::Yes);
        let Due::No { reason } = outside_maintenance(Some(&on), &local("2026-03-10 02:59")) else {
            panic!("due")
        };
        assert_eq!(reason, "maintenance is on until 2026-03-10 03:00: new disk");
        let on = Maintenance { until: None, reason: None, ..on };
        let Due::No { reason } = outside_maintenance(Some(&on), &local("2036-03-10 02:59")) else {
            panic!("due")
        };
        assert_eq!(reason, "maintenance is on until `dreamer maintenance off`");
    }

    #[test]
    fn reasons_are_for_people() {
        let reason = |d| match d {
            Due::No { reason } => reason,
            Due::Yes => panic!("due"),
        };
        let night = window((1, 0), (5, 0));
        let last = Some(local("2026-03-10 03:10").to_utc());
        insta::assert_snapshot!(
            reason(due(local("2026-03-10 12:00"), last, 9, night, Some(5))),
            @"12:00 is outside the window 01:00-05:00, and the last night finished 8 hours ago"
        );
        insta::assert_snapshot!(
            reason(due(local("2026-03-10 02:00"), None, 1, night, Some(5))),
            @"1 new chunk or captured memory; a night needs 5 (DREAMER_MIN_NEW)"
        );
    }
}
