//! Maintenance: while the file `state/maintenance` says so, timed runs stand aside. Only the operator switches it, and it
//! may end by itself. What a run does about it is `trigger`'s work.

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{StateError, read_if_there, sync_folder, write_atomically};

/// The operator works on the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// Since when.
    pub since: DateTime<Utc>,
    /// When it ends by itself.
    #[serde(default)]
    pub until: Option<DateTime<Utc>>,
    /// Why, as the operator worded it.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Maintenance {
    fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("maintenance")
    }

    /// What was switched on last; none when it is off. It may have ended by itself. A file without content, made by
    /// hand, is maintenance without an end.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, StateError> {
        let path = Self::path(state_dir);
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        if bytes.trim_ascii().is_empty() {
            return Ok(Some(Self { since: DateTime::UNIX_EPOCH, until: None, reason: None }));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let detail = format!("{error}; `dreamer maintenance off` removes it");
            StateError::Malformed { path, detail }
        })
    }

    /// Switches it on, in place of what was on.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn switch_on(&self, state_dir: &Path) -> Result<(), StateError> {
        let bytes = serde_json::to_vec(self).expect("maintenance is plain data");
        write_atomically(&Self::path(state_dir), &bytes)
    }

    /// Switches it off. Returns whether it was on, as far as there was a file.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn switch_off(state_dir: &Path) -> Result<bool, StateError> {
        let path = Self::path(state_dir);
        match std::fs::remove_file(&path) {
            Ok(()) => sync_folder(state_dir).map(|()| true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StateError::Write { path, source }),
        }
    }

    /// Whether it holds at `now`.
    pub fn is_on(&self, now: DateTime<Utc>) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// A length of time as people write it: `90s`, `30m`, `2h`, `1d`, or several of them (`1h30m`). None for anything else, for
/// nothing, and for more than ten years.
pub fn length_of_time(text: &str) -> Option<TimeDelta> {
    let (mut whole, mut number) = (TimeDelta::zero(), String::new());
    for c in text.trim().chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let count: i64 = number.parse().ok().filter(|count| *count < 1_000_000_000)?;
        let unit = match c.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        whole = whole.checked_add(&TimeDelta::try_seconds(count.checked_mul(unit)?)?)?;
        number.clear();
    }
    let is_usable = number.is_empty() && whole > TimeDelta::zero() && whole <= TimeDelta::days(3_653);
    is_usable.then_some(whole)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_is_on_until_it_is_switched_off_or_ends() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        assert_eq!(Maintenance::read(&state).unwrap(), None);
        assert!(!Maintenance::switch_off(&state).unwrap());
        let since = at("2026-03-10T12:00:00Z");
        let maintenance =
            Maintenance { since, until: Some(at("2026-03-10T14:00:00Z")), reason: Some("new disk".into()) };
        maintenance.switch_on(&state).unwrap();
        let read = Maintenance::read(&state).unwrap().unwrap();
        assert_eq!(read, maintenance);
        assert!(read.is_on(at("2026-03-10T13:59:59Z")) && !read.is_on(at("2026-03-10T14:00:00Z")));
        assert!(Maintenance { until: None, ..read }.is_on(at("2036-03-10T14:00:00Z")));
        assert!(Maintenance::switch_off(&state).unwrap());
        assert_eq!(Maintenance::read(&state).unwrap(), None);
    }

    #[test]
    fn an_empty_file_is_maintenance_and_a_damaged_one_says_how_to_end_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("maintenance"), "\n").unwrap();
        assert!(Maintenance::read(dir.path()).unwrap().unwrap().is_on(Utc::now()));
        std::fs::write(dir.path().join("maintenance"), "{").unwrap();
        let error = Maintenance::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("dreamer maintenance off"), "{error}");
    }

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, seconds) in
            [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("1d", 86_400), ("1h30m", 5_400), (" 2H ", 7_200)]
        {
            assert_eq!(length_of_time(text), TimeDelta::try_seconds(seconds), "{text}");
        }
        for text in ["", "2", "h", "2w", "-2h", "0h", "2 h 3", "99999999999999999999h", "9999999d"] {
            assert_eq!(length_of_time(text), None, "{text}");
        }
    }
}
