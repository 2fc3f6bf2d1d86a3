//! Dreamer's own small files under `DREAMER_HOME/state`: the lock, the chunk journal, judged pairs, the ledger of
//! active days, what embedders were calibrated to and the tables' versions. Each is written only once a plan is applied.

pub mod audit;
pub mod calibrations;
pub mod journal;
pub mod ledger;
pub mod lock;
pub mod maintenance;
pub mod placeholder_key;
pub mod recalls;
pub mod tombstones;
pub mod versions;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Why a file of ours could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another run holds the lock.
    #[error("start: another dreamer run holds {path}; wait for it to end")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A move to another embedding model was interrupted while it wrote.
    #[error(
        "start: the vectors of {database} were being moved to the model {to} and are of two models now; run \
         `dreamer reembed` again to end it"
    )]
    HalfMoved {
        /// The model it moves to.
        to: String,
        /// The database.
        database: String,
    },
    /// A file could not be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("write {path}; check free space and permissions")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file holds what this version does not understand.
    #[error("understand {path}: {detail}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// Writes a file so that a crash leaves the old one or the new one, never half: temporary file in the same folder,
/// fsync, rename, fsync of the folder. Only its owner may read it.
///
/// # Errors
/// When any of these steps fails; the old file is then still there.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let failed = |source| StateError::Write { path: path.to_path_buf(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    create_folder(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error))?;
    sync_folder(folder)
}

/// Makes a folder and the folders above it that are missing, for its owner alone. One that is there keeps its mode.
///
/// # Errors
/// When it cannot be made.
pub fn create_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The way to open a file that only its owner may read, should it have to be made.
pub fn private_file() -> fs::OpenOptions {
    let mut options = File::options();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Removes temporary files that a killed run left in a home, the database aside. Only for whoever holds the lock: then nobody
/// is writing one. What cannot be removed harms nobody, and the next run tries again.
pub fn sweep(home: &Path) {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "lancedb" => sweep(&path),
            Ok(kind) if kind.is_file() && name.len() == 10 && name.starts_with(".tmp") => {
                let _ = fs::remove_file(&path);
            }
            _ => {}
        }
    }
}

/// Makes renames and new names in a folder durable.
///
/// # Errors
/// When the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> Result<(), StateError> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(|source| StateError::Write { path: folder.to_path_buf(), source })
}

/// Reads a whole file; a missing one is `None`.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Read { path: path.to_path_buf(), source }),
    }
}

/// Appends lines to a file and makes them durable. A torn last line of an earlier crash is closed first, so that the
/// new lines are read as they were written.
///
/// # Errors
/// When the file cannot be opened or written.
pub fn append_lines(path: &Path, lines: &[String]) -> Result<(), StateError> {
    if lines.is_empty() {
        return Ok(());
    }
    let failed = |source| StateError::Write { path: path.to_path_buf(), source };
    if let Some(folder) = path.parent() {
        create_folder(folder).map_err(failed)?;
    }
    let torn = read_if_there(path)?.is_some_and(|bytes| bytes.last().is_some_and(|b| *b != b'\n'));
    let mut text = String::new();
    if torn {
        text.push('\n');
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let mut file = private_file().append(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_after_a_torn_one_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"b\"").unwrap();
        append_lines(&path, &["{\"c\":3}".into()]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\"\n{\"c\":3}\n");
    }

    #[test]
    fn what_a_killed_run_was_writing_is_swept_away_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("runs/r/before")).unwrap();
        fs::create_dir_all(dir.path().join("lancedb")).unwrap();
        let stays = [".env", "runs/r/plan.json", ".tmp-notes.md", "lancedb/.tmpabcdef"];
        let goes = ["dream-log.tmp", "runs/r/before/.tmpAb12Cd", ".tmpzzzzzz"];
        for name in stays.iter().chain(&goes[1..]) {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        sweep(dir.path());
        assert!(stays.iter().all(|name| dir.path().join(name).exists()));
        assert!(goes.iter().all(|name| !dir.path().join(name).exists()));
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/x.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path().join("deep")).unwrap().count(), 1);
    }
}
