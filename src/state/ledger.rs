//! The ledger of active days: on which days an agent's user wrote to it, and since when its memories may fade.
//! A holiday adds no day, so it forgets nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{StateError, read_if_there, write_atomically};

/// What the ledger holds of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDays {
    /// Days with a message of the agent's user.
    #[serde(default)]
    pub active: BTreeSet<NaiveDate>,
    /// Active days on which the agent's recall sources were readable.
    #[serde(default)]
    pub recalls_readable: BTreeSet<NaiveDate>,
    /// The night fading came into force; none while it is off or not yet allowed.
    #[serde(default)]
    pub fading_since: Option<NaiveDate>,
}

impl AgentDays {
    /// Active days after `from`, up to and including `to`.
    pub fn active_between(&self, from: NaiveDate, to: NaiveDate) -> usize {
        if from >= to {
            return 0;
        }
        let after = (std::ops::Bound::Excluded(from), std::ops::Bound::Included(to));
        self.active.range(after).count()
    }
}

/// The ledger of all agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    format: u32,
    /// By agent.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentDays>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { format: 1, agents: BTreeMap::new() }
    }
}

impl Ledger {
    /// What it holds of an agent; nothing for an unknown one.
    pub fn of(&self, agent: &str) -> AgentDays {
        self.agents.get(agent).cloned().unwrap_or_default()
    }

    /// Reads the ledger; a missing one is empty. One that makes no sense begins anew: fewer active days forget less, never
    /// more.
    ///
    /// # Errors
    /// When it cannot be read, or is of a newer format.
    pub fn read(state_dir: &Path) -> Result<Self, StateError> {
        let path = Self::path(state_dir);
        let Some(bytes) = read_if_there(&path)? else { return Ok(Self::default()) };
        let ledger: Self = match serde_json::from_slice(&bytes) {
            Ok(ledger) => ledger,
            Err(error) => {
                tracing::warn!("{}: {error}: the count of active days begins anew", path.display());
                return Ok(Self::default());
            }
        };
        if ledger.format != 1 {
            let detail = format!("format {} is newer than this program", ledger.format);
            return Err(StateError::Malformed { path, detail });
        }
        Ok(ledger)
    }

    /// Writes the ledger whole, if it differs from what is there. A damaged one is kept beside it, as
    /// `active-days.json.damaged`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, state_dir: &Path) -> Result<(), StateError> {
        let path = Self::path(state_dir);
        let bytes = serde_json::to_vec_pretty(self).expect("a ledger is plain data");
        let there = read_if_there(&path)?;
        if there.as_deref() == Some(&bytes) {
            return Ok(());
        }
        if let Some(damaged) = there.filter(|there| serde_json::from_slice::<Self>(there).is_err()) {
            write_atomically(&path.with_extension("json.damaged"), &damaged)?;
        }
        write_atomically(&path, &bytes)
    }

    fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("active-days.json")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn day(n: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 1, n).unwrap()
    }

    #[test]
    fn only_days_after_the_start_count() {
        let days = AgentDays { active: [1, 2, 5, 9].map(day).into(), ..AgentDays::default() };
        assert_eq!(days.active_between(day(2), day(9)), 2);
        assert_eq!(days.active_between(day(2), day(8)), 1);
        assert_eq!(days.active_between(day(9), day(2)), 0);
    }

    #[test]
    fn a_damaged_ledger_is_kept_beside_the_new_one_and_a_newer_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{\"format\":1,\"ag", "[]"] {
            std::fs::write(Ledger::path(dir.path()), text).unwrap();
            let ledger = Ledger::read(dir.path()).unwrap();
            assert_eq!(ledger, Ledger::default());
            ledger.write(dir.path()).unwrap();
            assert_eq!(std::fs::read_to_string(dir.path().join("active-days.json.damaged")).unwrap(), text);
        }
        std::fs::write(Ledger::path(dir.path()), "{\"format\":2}").unwrap();
        assert!(matches!(Ledger::read(dir.path()), Err(StateError::Malformed { .. })));
    }

    #[test]
    fn a_ledger_comes_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::default();
        ledger.agents.entry("main".into()).or_default().active.insert(day(3));
        ledger.write(dir.path()).unwrap();
        assert_eq!(Ledger::read(dir.path()).unwrap(), ledger);
    }
}
