//! Model weights as they are kept: a folder a model in the user's data directory, every file known by its length and
//! digest. A folder is there whole or not at all. How weights come here is `pull`'s.

use std::borrow::Cow;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::pull::PullError;

/// What is kept of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The model, as its folder is called.
    pub name: Cow<'static, str>,
    /// Its files.
    pub files: Cow<'static, [StoredFile]>,
    /// Where the weights come from, and under which licence.
    pub note: Cow<'static, str>,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its name in the model's folder, with `/` where it lies deeper.
    pub name: Cow<'static, str>,
    /// Its length.
    pub bytes: u64,
    /// Its digest, hex.
    pub sha256: Cow<'static, str>,
}

impl Stored {
    /// The length of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl StoredFile {
    /// A file that is known before it is there.
    pub(in crate::providers) const fn known(name: &'static str, bytes: u64, sha256: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), bytes, sha256: Cow::Borrowed(sha256) }
    }
}

/// How the weights of a model are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They are not there.
    Absent,
    /// They are there, every file as it should be.
    Whole,
    /// A file is missing or is not what it should be.
    Damaged,
}

/// How closely one looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// At the lengths of the files.
    Lengths,
    /// At every byte.
    Digests,
}

/// The folder with a folder for each model.
#[derive(Debug, Clone)]
pub struct Models {
    dir: PathBuf,
}

/// What a pull in progress is called, before the model's name is.
const IN_PROGRESS: &str = ".pull-";

impl Models {
    /// The models in this folder, which need not exist.
    pub fn in_folder(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Where a model lies, if it is there.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// How a model's weights are.
    pub fn state(&self, model: &Stored, look: Look) -> State {
        let folder = self.folder(&model.name);
        if !folder.is_dir() {
            return State::Absent;
        }
        let is_right = |file: &StoredFile| {
            let path = folder.join(&*file.name);
            fs::metadata(&path).is_ok_and(|found| found.len() == file.bytes)
                && (look == Look::Lengths || digest(&path).is_ok_and(|digest| digest == file.sha256))
        };
        if model.files.iter().all(is_right) { State::Whole } else { State::Damaged }
    }

    /// Deletes a model's weights; false when there are none.
    ///
    /// # Errors
    /// When they cannot be deleted, or a pull is running.
    pub fn remove(&self, model: &Stored) -> Result<bool, PullError> {
        if !self.folder(&model.name).exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        // First out of the way as a whole: half a model would be taken for a damaged one.
        let gone = self.in_progress()?;
        let failed = |source| PullError::Write { path: self.folder(&model.name), source };
        fs::rename(self.folder(&model.name), gone.path().join(&*model.name)).map_err(failed)?;
        gone.close().map_err(failed)?;
        Ok(true)
    }

    /// Puts what `fill` writes into an empty folder in the place of a model, all at once, if every file is as it should be.
    ///
    /// # Errors
    /// When `fill` fails, a file is not what it should be, or the folder cannot be written. Then nothing has changed.
    pub(in crate::providers) fn put(
        &self,
        model: &Stored,
        fill: impl FnOnce(&Path) -> Result<(), PullError>,
    ) -> Result<(), PullError> {
        let place = self.begin(&model.name)?;
        fill(&place.new)?;
        for file in model.files.iter() {
            let path = place.new.join(&*file.name);
            let found = digest(&path).map_err(|source| PullError::Read { path, source })?;
            if found != file.sha256 {
                let (what, wanted) = (file.name.clone().into_owned(), file.sha256.clone().into_owned());
                return Err(PullError::Digest { what, found, wanted });
            }
        }
        place.finish()
    }

    /// An empty folder that takes the place of a model once it is filled; until then nothing has changed.
    ///
    /// # Errors
    /// When the folder cannot be written, or another pull is running.
    pub(in crate::providers) fn begin(&self, name: &str) -> Result<Place, PullError> {
        let lock = self.lock()?;
        let work = self.in_progress()?;
        let new = work.path().join(name);
        let target = self.folder(name);
        fs::create_dir(&new).map_err(|source| PullError::Write { path: target.clone(), source })?;
        Ok(Place { new, target, work, _lock: lock })
    }

    /// One pull at a time; what an interrupted one left is cleared away.
    fn lock(&self) -> Result<File, PullError> {
        let failed = |source| PullError::Write { path: self.dir.clone(), source };
        fs::create_dir_all(&self.dir).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.dir.join(".lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PullError::Busy { folder: self.dir.clone() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        for entry in fs::read_dir(&self.dir).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(IN_PROGRESS) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        Ok(lock)
    }

    fn in_progress(&self) -> Result<TempDir, PullError> {
        let folder = tempfile::Builder::new().prefix(IN_PROGRESS).tempdir_in(&self.dir);
        folder.map_err(|source| PullError::Write { path: self.dir.clone(), source })
    }
}

/// A model in the making.
#[derive(Debug)]
pub(in crate::providers) struct Place {
    /// Where its files are to be written.
    pub(in crate::providers) new: PathBuf,
    target: PathBuf,
    work: TempDir,
    _lock: File,
}

impl Place {
    /// Puts what was written in the place of the model, all at once.
    ///
    /// # Errors
    /// When the folder cannot be written. Then nothing has changed.
    pub(in crate::providers) fn finish(self) -> Result<(), PullError> {
        let failed = |source| PullError::Write { path: self.target.clone(), source };
        match fs::rename(&self.target, self.work.path().join("old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::rename(&self.new, &self.target).map_err(failed)?;
        self.work.close().map_err(failed)
    }
}

/// The digest of a file, hex.
///
/// # Errors
/// When it cannot be read.
pub(in crate::providers) fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(format!("{:x}", hash.finalize())),
            count => hash.update(&bytes[..count]),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    static MODEL: Stored = Stored {
        name: Cow::Borrowed("tiny"),
        files: Cow::Borrowed(&[StoredFile::known(
            "numbers",
            3,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        )]),
        note: Cow::Borrowed(""),
    };

    fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<(), PullError> {
        move |folder| {
            fs::write(folder.join("numbers"), text).unwrap();
            Ok(())
        }
    }

    /// What stands in the folder besides the lock.
    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names
    }

    #[test]
    fn a_model_is_put_whole_and_removed_whole() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(&dir.path().join("models"));
        assert_eq!(models.state(&MODEL, Look::Digests), State::Absent);
        assert!(!models.remove(&MODEL).unwrap());
        models.put(&MODEL, fill("abc")).unwrap();
        assert_eq!(models.state(&MODEL, Look::Digests), State::Whole);
        assert_eq!(names(&models.dir), ["tiny"]);
        assert!(models.remove(&MODEL).unwrap());
        assert_eq!((models.state(&MODEL, Look::Lengths), names(&models.dir).len()), (State::Absent, 0));
    }

    #[test]
    fn what_is_not_as_it_should_be_is_never_put_and_what_is_damaged_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(dir.path());
        let error = models.put(&MODEL, fill("abd")).unwrap_err();
        assert!(matches!(error, PullError::Digest { .. }), "{error}");
        assert_eq!(names(dir.path()), [""; 0]);
        fs::create_dir(models.folder("tiny")).unwrap();
        assert_eq!(models.state(&MODEL, Look::Lengths), State::Damaged);
        fs::write(models.folder("tiny").join("numbers"), "xyz").unwrap();
        assert_eq!(models.state(&MODEL, Look::Lengths), State::Whole);
        assert_eq!(models.state(&MODEL, Look::Digests), State::Damaged);
        models.put(&MODEL, fill("abc")).unwrap();
        assert_eq!(models.state(&MODEL, Look::Digests), State::Whole);
        assert_eq!(names(dir.path()), ["tiny"]);
    }

    #[test]
    fn what_an_interrupted_pull_left_is_cleared_and_two_never_meet() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(dir.path());
        fs::create_dir_all(dir.path().join(".pull-killed/tiny")).unwrap();
        assert_eq!(models.state(&MODEL, Look::Lengths), State::Absent);
        let inside = Models::in_folder(dir.path());
        models
            .put(&MODEL, |folder| {
                assert!(matches!(inside.put(&MODEL, fill("abc")), Err(PullError::Busy { .. })));
                fill("abc")(folder)
            })
            .unwrap();
        assert_eq!(names(dir.path()), ["tiny"]);
    }
}
