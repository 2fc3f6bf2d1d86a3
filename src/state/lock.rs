//! The lock that keeps two runs apart. The kernel holds it, so a killed run leaves nothing behind.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::{StateError, create_folder, private_file};

/// Held for as long as a run lasts; dropping it frees the lock.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock or says that somebody else has it.
    ///
    /// # Errors
    /// [`StateError::Locked`] when another run holds it; otherwise when the file cannot be opened.
    pub fn take(state_dir: &Path) -> Result<Self, StateError> {
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
}
