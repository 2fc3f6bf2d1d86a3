//! Which version each table was at when a run ended: what can be looked up as it was then, and which versions nobody can
//! be reading any more. LanceDB itself only knows when a version was made, not when it stopped being the latest one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{StateError, read_if_there, write_atomically};
use crate::store::MEMORIES;

/// A record that lies further ahead than this was made by a clock that was wrong, and counts for nothing.
const BELIEVED_AHEAD: TimeDelta = TimeDelta::days(60);

/// A version that was the latest one when a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The version.
    pub version: u64,
    /// The end of the first run that saw it; a clock that goes back a little does not make it earlier than its elders.
    pub at: DateTime<Utc>,
}

/// The record of all tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    format: u32,
    #[serde(default)]
    tables: BTreeMap<String, Vec<Seen>>,
}

impl Default for Versions {
    fn default() -> Self {
        Self { format: 1, tables: BTreeMap::new() }
    }
}

impl Versions {
    /// Reads the record; a missing one is empty.
    ///
    /// # Errors
    /// When it cannot be read, or is of a newer format.
    pub fn read(state_dir: &Path) -> Result<Self, StateError> {
        let path = Self::path(state_dir);
        let Some(bytes) = read_if_there(&path)? else { return Ok(Self::default()) };
        let versions: Self = serde_json::from_slice(&bytes)
            .map_err(|error| StateError::Malformed { path: path.clone(), detail: error.to_string() })?;
        if versions.format != 1 {
            let detail = format!("format {} is newer than this program", versions.format);
            return Err(StateError::Malformed { path, detail });
        }
        Ok(versions)
    }

    /// The tables that were there when a run ended.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Forgets a table that is gone, because that was meant.
    pub fn forget_table(&mut self, table: &str) {
        self.tables.remove(table);
    }

    /// Writes the record whole, if it differs from what is there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, state_dir: &Path) -> Result<(), StateError> {
        let bytes = serde_json::to_vec_pretty(self).expect("versions are plain data");
        if read_if_there(&Self::path(state_dir))?.as_deref() == Some(&bytes) {
            return Ok(());
        }
        write_atomically(&Self::path(state_dir), &bytes)
    }

    /// Takes in that a run that ended at `at` left a table at a version. A lower version than the last one means that
    /// somebody put another table there: what was known of the old one is forgotten.
    pub fn see(&mut self, table: &str, version: u64, at: DateTime<Utc>) {
        let seen = self.tables.entry(table.to_owned()).or_default();
        if seen.last().is_some_and(|last| version < last.version) {
            seen.clear();
        }
        let last = seen.last().copied();
        if last.is_none_or(|last| version > last.version) {
            let believed = last.filter(|last| last.at - at <= BELIEVED_AHEAD);
            seen.push(Seen { version, at: believed.map_or(at, |last| last.at.max(at)) });
        }
    }

    /// The version a table was last seen at.
    pub fn last(&self, table: &str) -> Option<Seen> {
        self.tables.get(table)?.last().copied()
    }

    /// The newest version that had been seen by `until`: every older one had stopped being the latest by then.
    pub fn settled(&self, table: &str, until: DateTime<Utc>) -> Option<u64> {
        let seen = self.tables.get(table)?;
        seen.iter().rev().find(|seen| seen.at <= until).map(|seen| seen.version)
    }

    /// Forgets versions older than `version`: they are gone.
    pub fn forget_before(&mut self, table: &str, version: u64) {
        if let Some(seen) = self.tables.get_mut(table) {
            seen.retain(|seen| seen.version >= version);
        }
    }

    fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("versions.json")
    }
}

/// The version of `memories` at the end of the last run that changed it, and when that was; none before the first run,
/// or when the record cannot be read. The version is there as long as nobody else prunes the table: ours keeps 8 days.
pub fn last_version(state_dir: &Path) -> Option<(u64, DateTime<Utc>)> {
    let last = Versions::read(state_dir).ok()?.last(MEMORIES)?;
    Some((last.version, last.at))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn day(n: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(n)
    }

    fn seen(list: &[(u64, i64)]) -> Versions {
        let mut versions = Versions::default();
        list.iter().for_each(|(version, n)| versions.see(MEMORIES, *version, day(*n)));
        versions
    }

    #[test]
    fn a_version_counts_from_the_first_run_that_saw_it() {
        let versions = seen(&[(3, 1), (3, 2), (3, 5), (7, 6)]);
        assert_eq!(versions.settled(MEMORIES, day(0)), None);
        assert_eq!(versions.settled(MEMORIES, day(1)), Some(3));
        assert_eq!(versions.settled(MEMORIES, day(5)), Some(3));
        assert_eq!(versions.settled(MEMORIES, day(6)), Some(7));
        assert_eq!(versions.settled("another", day(6)), None);
    }

    #[test]
    fn another_table_in_its_place_starts_anew() {
        let versions = seen(&[(30, 1), (40, 2), (5, 9)]);
        assert_eq!(versions.last(MEMORIES), Some(Seen { version: 5, at: day(9) }));
        assert_eq!(versions.settled(MEMORIES, day(8)), None);
    }

    #[test]
    fn a_clock_that_went_back_makes_no_version_old() {
        // Day 100 is told as day 70, and the day after as it is: the version of that night is one day old, not 31.
        let versions = seen(&[(3, 99), (5, 70)]);
        assert_eq!(versions.settled(MEMORIES, day(101 - 8)), None);
        assert_eq!(versions.last(MEMORIES), Some(Seen { version: 5, at: day(99) }));
    }

    #[test]
    fn a_clock_that_leapt_does_not_hold_everything_back_for_good() {
        let versions = seen(&[(3, 99), (5, 40_000), (8, 101), (9, 102)]);
        assert_eq!(versions.settled(MEMORIES, day(110)), Some(9));
        assert_eq!(versions.settled(MEMORIES, day(101)), Some(8));
        assert_eq!(versions.settled(MEMORIES, day(100)), Some(3));
    }

    #[test]
    fn the_record_comes_back_as_it_was_written_and_what_is_gone_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_version(folder.path()), None);
        let mut versions = seen(&[(3, 1), (4, 2), (9, 3)]);
        versions.forget_before(MEMORIES, 4);
        assert_eq!(versions, seen(&[(4, 2), (9, 3)]));
        versions.write(folder.path()).unwrap();
        assert_eq!(Versions::read(folder.path()).unwrap(), versions);
        assert_eq!(last_version(folder.path()), Some((9, day(3))));
    }
}
