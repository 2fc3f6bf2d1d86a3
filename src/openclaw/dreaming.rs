//! The gateway's own dreaming, which serves its markdown memory: whether it is on and when it runs. Whether that is in our
//! way is the doctor's to say.
//!
//! Facts, read in the source of openclaw 2026.4.15 and 2026.9.6: the settings are `dreaming` in the config of the plugin with
//! the memory slot, `frequency` is a cron line, `0 3 * * *` by default, in `timezone`, else `agents.defaults.userTimezone`. It
//! is off by default in 2026.4.15, on in 2026.9.6, and does not run where the plugin memory-core is switched off.

use chrono::{DateTime, NaiveTime, TimeZone, Utc};
use chrono_tz::Tz;
use serde_json::Value;

use super::config::OpenClaw;
use super::gateway::hello::{Release, release};
use super::memory_settings::DEFAULT_SLOT;

/// When it runs if nobody says otherwise.
const DEFAULT_FREQUENCY: &str = "0 3 * * *";
/// The newest release known to have it off unless it is switched on.
const OFF_BY_DEFAULT: Release = (2026, 4, 15);

/// The gateway's own dreaming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dreaming {
    /// Whether it runs.
    pub is_on: bool,
    /// When: a cron line.
    pub frequency: String,
    /// In which time zone, where it is said.
    pub timezone: Option<String>,
    /// The key that sets it, for the remedy.
    pub key: String,
}

impl OpenClaw {
    /// The zone that the gateway takes the user to be in.
    pub fn user_timezone(&self) -> Option<String> {
        self.text(&["agents", "defaults", "userTimezone"])
    }

    /// The release that wrote the settings last.
    pub fn written_by(&self) -> Option<String> {
        self.text(&["meta", "lastTouchedVersion"])
    }

    /// Its own dreaming, in a gateway of this version; of the one that wrote the settings where that is not known.
    pub fn dreaming(&self, version: Option<&str>) -> Dreaming {
        let slot = self.text(&["plugins", "slots", "memory"]);
        let plugin =
            slot.filter(|slot| !slot.eq_ignore_ascii_case("none")).unwrap_or_else(|| DEFAULT_SLOT.to_owned());
        let base = ["plugins", "entries", &plugin, "config", "dreaming"];
        let text = |key: &str| self.text(&[&base[..], &[key]].concat());
        let written_by = self.written_by();
        let by_default = version
            .or(written_by.as_deref())
            .and_then(release)
            .is_none_or(|release| release > OFF_BY_DEFAULT);
        let enabled = self.at(&[&base[..], &["enabled"]].concat()).and_then(Value::as_bool);
        let is_blocked = self.at(&["plugins", "entries", DEFAULT_SLOT, "enabled"])
            == Some(&Value::Bool(false))
            || self.at(&["plugins", "enabled"]) == Some(&Value::Bool(false));
        Dreaming {
            is_on: enabled.unwrap_or(by_default) && !is_blocked,
            frequency: text("frequency").unwrap_or_else(|| DEFAULT_FREQUENCY.to_owned()),
            timezone: text("timezone").or_else(|| self.user_timezone()),
            key: base.join("."),
        }
    }
}

impl Dreaming {
    /// The first time of day, in `ours`, at which it begins inside the window; none where it never does, or the cron line is
    /// not one that can be read. Days of the week and of the month are taken as every day.
    pub fn begins_inside(
        &self,
        window: (NaiveTime, NaiveTime),
        ours: Tz,
        now: DateTime<Utc>,
    ) -> Option<NaiveTime> {
        let theirs: Tz = self.timezone.as_deref().and_then(|zone| zone.parse().ok()).unwrap_or(ours);
        let today = now.with_timezone(&theirs).date_naive();
        let (start, end) = window;
        let inside = |time: &NaiveTime| match start < end {
            true => start <= *time && *time < end,
            false => start <= *time || *time < end,
        };
        let times = times_of_day(&self.frequency)?;
        let in_ours = times.into_iter().filter_map(|time| {
            let at = theirs.from_local_datetime(&today.and_time(time)).earliest()?;
            Some(at.with_timezone(&ours).time())
        });
        in_ours.filter(inside).min()
    }
}

/// The times of day of a cron line of five fields, or of six with seconds first.
fn times_of_day(line: &str) -> Option<Vec<NaiveTime>> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let fields = match fields.len() {
        5 => &fields[..],
        6 => &fields[1..],
        _ => return None,
    };
    let (minutes, hours) = (numbers(fields[0], 60)?, numbers(fields[1], 24)?);
    let times = hours
        .iter()
        .flat_map(|hour| minutes.iter().filter_map(move |minute| NaiveTime::from_hms_opt(*hour, *minute, 0)));
    Some(times.collect())
}

/// The numbers of a cron field: `*`, `5`, `1-5`, `*/6`, `1-9/2`, `10/5`, and lists of them.
fn numbers(field: &str, below: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (0, below - 1),
            Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
            None if part.contains('/') => (range.parse().ok()?, below - 1),
            None => {
                let one: u32 = range.parse().ok()?;
                (one, one)
            }
        };
        if from > to || to >= below {
            return None;
        }
        all.extend((from..=to).step_by(step as usize));
    }
    Some(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;

    fn dreaming(text: &str, version: Option<&str>) -> Dreaming {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), text).unwrap();
        let mut layers = Layers::of(&[]);
        layers.user_home = Some(dir.path().to_owned());
        OpenClaw::read(&layers).unwrap().dreaming(version)
    }

    fn time(hour: u32, minute: u32) -> NaiveTime {
        NaiveTime::from_hms_opt(hour, minute, 0).unwrap()
    }

    #[test]
    fn it_is_on_by_default_in_current_releases_and_off_in_older_ones() {
        assert!(dreaming("{}", Some("2026.9.6")).is_on);
        assert!(!dreaming("{}", Some("2026.4.15")).is_on);
        assert!(!dreaming("{meta: {lastTouchedVersion: '2026.4.15'}}", None).is_on);
        assert!(dreaming("{}", None).is_on, "in doubt it is on");
        let off = "{plugins: {entries: {'memory-core': {config: {dreaming: {enabled: false}}}}}}";
        assert!(!dreaming(off, Some("2026.9.6")).is_on);
        let blocked = "{plugins: {entries: {'memory-core': {enabled: false}}}}";
        assert!(!dreaming(blocked, Some("2026.9.6")).is_on);
    }

    #[test]
    fn its_settings_are_those_of_the_plugin_with_the_slot() {
        let text = "{agents: {defaults: {userTimezone: 'Asia/Shanghai'}}, plugins: {slots: {memory: 'memory-lancedb'},
            entries: {'memory-lancedb': {config: {dreaming: {enabled: true, frequency: '30 5 * * *'}}}}}}";
        let found = dreaming(text, Some("2026.4.15"));
        assert_eq!((found.is_on, found.frequency.as_str()), (true, "30 5 * * *"));
        assert_eq!(found.timezone.as_deref(), Some("Asia/Shanghai"));
        assert_eq!(found.key, "plugins.entries.memory-lancedb.config.dreaming");
        assert_eq!(dreaming("{}", None).frequency, "0 3 * * *");
    }

    #[test]
    fn it_is_told_when_it_begins_in_our_window_in_our_time() {
        let now = "2026-03-10T12:00:00Z".parse().unwrap();
        let night = (time(1, 0), time(5, 0));
        let begins = |frequency: &str, zone: Option<&str>, window| {
            let timezone = zone.map(str::to_owned);
            let dreaming = Dreaming { is_on: true, frequency: frequency.into(), timezone, key: "k".into() };
            dreaming.begins_inside(window, Tz::UTC, now)
        };
        assert_eq!(begins("0 3 * * *", None, night), Some(time(3, 0)));
        assert_eq!(begins("0 6 * * *", None, night), None);
        assert_eq!(begins("15 */6 * * *", None, night), None);
        assert_eq!(begins("15 2-10/2 * * 1", None, night), Some(time(2, 15)));
        assert_eq!(begins("0 23,0 * * *", None, (time(22, 0), time(1, 0))), Some(time(0, 0)));
        assert_eq!(begins("0 3 * * *", Some("Asia/Shanghai"), night), None, "19:00 in UTC");
        assert_eq!(begins("0 10 * * *", Some("Asia/Shanghai"), night), Some(time(2, 0)));
        for odd in ["@daily", "0 25 * * *", "x 3 * * *", "0 3 *", "0 */0 * * *"] {
            assert_eq!(begins(odd, None, night), None, "{odd}");
        }
    }
}
