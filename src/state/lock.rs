//! The lock that keeps two runs apart. The kernel holds it, so a killed run leaves nothing behind.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{StateError, create_folder, private_file, read_if_there, sync_folder, write_atomically};

/// A move of the table to another embedding model that has begun to write and has not ended: until it has, rows of two
/// models stand side by side, and no other run begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Half {
    /// The model it moves to.
    pub to: String,
    /// The database.
    pub database: String,
    /// Since when.
    pub since: DateTime<Utc>,
}

impl Half {
    fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("reembed.json")
    }

    /// The move that is under way, if any.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, StateError> {
        let path = Self::path(state_dir);
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        let read = serde_json::from_slice(&bytes);
        read.map(Some).map_err(|error| StateError::Malformed { path, detail: error.to_string() })
    }

    /// Notes that it begins to write.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(&self, state_dir: &Path) -> Result<(), StateError> {
        let bytes = serde_json::to_vec(self).expect("it is plain data");
        write_atomically(&Self::path(state_dir), &bytes)
    }

    /// Notes that it has ended.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn end(state_dir: &Path) -> Result<(), StateError> {
        let path = Self::path(state_dir);
        match std::fs::remove_file(&path) {
            Ok(()) => sync_folder(state_dir),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(StateError::Write { path, source }),
        }
    }
}

/// Held for as long as a run lasts; dropping it frees the lock.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock or says that somebody else has it.
    ///
    /// # Errors
    /// [`StateError::Locked`] when another run holds it; [`StateError::HalfMoved`] when a move to another embedding model
    /// was interrupted; otherwise when a file cannot be opened.
    pub fn take(state_dir: &Path) -> Result<Self, StateError> {
        let lock = Self::take_to_end(state_dir)?;
        match Half::read(state_dir)? {
            Some(half) => Err(StateError::HalfMoved { to: half.to, database: half.database }),
            None => Ok(lock),
        }
    }

    /// The same for the one run that ends an interrupted move.
    ///
    /// # Errors
    /// [`StateError::Locked`] when another run holds it; otherwise when the file cannot be opened.
    pub fn take_to_end(state_dir: &Path) -> Result<Self, StateError> {
        let path = state_dir.join("lock");
        let failed = |source| StateError::Write { path: path.clone(), source };
        create_folder(state_dir).map_err(failed)?;
        let file = private_file().truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StateError::Locked { path }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_turned_away_until_the_first_ends() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(StateError::Locked { .. })));
        drop(first);
        assert!(Lock::take(dir.path()).is_ok());
    }

    #[test]
    fn an_interrupted_move_keeps_all_runs_out_but_the_one_that_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let half = Half { to: "new".into(), database: "db".into(), since: DateTime::UNIX_EPOCH };
        half.begin(dir.path()).unwrap();
        let told = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(told.contains("dreamer reembed"), "{told}");
        assert!(Lock::take_to_end(dir.path()).is_ok());
        assert_eq!(Half::read(dir.path()).unwrap(), Some(half));
        Half::end(dir.path()).unwrap();
        Half::end(dir.path()).unwrap();
        assert!(Lock::take(dir.path()).is_ok());
    }
}
