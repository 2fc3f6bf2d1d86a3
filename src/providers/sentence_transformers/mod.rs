//! Embedders of the `sentence-transformers` kind, inside this process: BERT and its kin from a folder, Dreamer's store or the
//! Hugging Face cache. `find` says where a model lies, `description` what its files say of it, `words` and `encoder` make
//! vectors of texts, `pull` fetches models on request. The arithmetic is candle's, behind the feature `sentence-transformers`.

#[cfg_attr(not(feature = "sentence-transformers"), allow(dead_code))]
mod description;
#[cfg(feature = "sentence-transformers")]
mod embedder;
#[cfg(feature = "sentence-transformers")]
mod encoder;
mod find;
#[cfg(all(test, feature = "sentence-transformers"))]
pub(crate) mod fixtures;
mod hub;
pub mod pull;
#[cfg(feature = "sentence-transformers")]
mod weights;
#[cfg(feature = "sentence-transformers")]
mod words;

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use self::description::Description;
use super::{Embedder, Thresholds};

#[cfg(feature = "sentence-transformers")]
pub use self::embedder::SentenceTransformer;
pub use self::find::{in_store, is_name};

/// The model that is used where none is named.
pub const DEFAULT: &str = "all-MiniLM-L6-v2";

/// Whether this build can embed with such models.
pub const IS_BUILT_IN: bool = cfg!(feature = "sentence-transformers");

/// Those of [`DEFAULT`], measured on the English pairs in `pairs.tsv` (10 of each relation):
///
/// | | duplicates | conflicts | same topic | unrelated |
/// |---|---|---|---|---|
/// | ≥ 0.55 (related) | 10 | 10 | 1 | 0 |
/// | ≥ 0.65 (cluster) | 10 | 9 | 0 | 0 |
/// | ≥ 0.80 (duplicate) | 10 | 8 | 0 | 0 |
/// | ≥ 0.90 | 4 | 3 | 0 | 0 |
///
/// A conflict looks like a duplicate to it, so what tells them apart is whether something that matters differs. Clustering
/// was measured on dialogues (LoCoMo): leader clustering at 0.65 keeps what belongs together.
pub const THRESHOLDS: Thresholds = Thresholds { cluster: 0.65, duplicate: 0.80, related: 0.55 };

/// Where models come from: the hub and the cache of what was fetched from there.
#[derive(Debug, Clone)]
pub struct Hub {
    /// `HF_ENDPOINT`, without a trailing slash.
    pub endpoint: String,
    /// `HF_TOKEN`, for models that not everybody may fetch.
    pub token: Option<SecretString>,
    /// `HF_HUB_CACHE`: where the Python programs keep what they fetched.
    pub cache: PathBuf,
}

impl Default for Hub {
    fn default() -> Self {
        Self { endpoint: "https://huggingface.co".into(), token: None, cache: PathBuf::new() }
    }
}

/// A model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This build has no such embedders.
    #[error(
        "this program was built without the feature sentence-transformers; build it with \
         `cargo build --features sentence-transformers`, or set DREAMER_EMBEDDING_PROVIDER=builtin"
    )]
    NotBuilt,
    /// It is neither a name nor a folder.
    #[error(
        "{name:?} is neither a folder nor the name of a model, such as {DEFAULT} or intfloat/multilingual-e5-small"
    )]
    NoName {
        /// What was asked for.
        name: String,
    },
    /// There is no such folder.
    #[error("there is no folder {}", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// It is not on this machine.
    #[error(
        "there is no model {name} on this machine, neither as {} nor in the Hugging Face cache {}; fetch it once with \
         `dreamer model pull {name}`, or name a folder that holds it",
        store.display(), cache.display()
    )]
    Absent {
        /// The model.
        name: String,
        /// Where Dreamer would have put it.
        store: PathBuf,
        /// Where else was looked.
        cache: PathBuf,
    },
    /// A file is missing.
    #[error(
        "{} holds no {file}{}; a model needs config.json, tokenizer.json and model.safetensors: fetch it again with `dreamer \
         model pull NAME`, or name another folder", folder.display(),
        instead.map_or_else(String::new, |other| format!(" (but {other}, which this version does not read)"))
    )]
    Missing {
        /// The model's folder.
        folder: PathBuf,
        /// The file.
        file: &'static str,
        /// What is there in another form.
        instead: Option<&'static str>,
    },
    /// A file cannot be used.
    #[error("{} cannot be used ({why}); fetch the model again with `dreamer model pull NAME`, or name another folder", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The model needs something that is not known here.
    #[error("{} asks for what this version cannot do: {what}; set ST_MODEL_NAME to another model, such as {DEFAULT}", path.display())]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What.
        what: String,
    },
}

/// Whether a model can be used, as far as that is seen without reading its weights.
///
/// # Errors
/// When it is not there, or its files say that it cannot.
pub fn check(name: &str, store: &Path, hub: &Hub) -> Result<(), OpenError> {
    if !IS_BUILT_IN {
        return Err(OpenError::NotBuilt);
    }
    describe(name, store, hub).map(|_| ())
}

/// How many numbers a vector of the model has, as its files say.
///
/// # Errors
/// As [`check`].
pub fn dimension(name: &str, store: &Path, hub: &Hub) -> Result<usize, OpenError> {
    describe(name, store, hub).map(|description| description.dimension())
}

fn describe(name: &str, store: &Path, hub: &Hub) -> Result<Description, OpenError> {
    Description::read(&find::find(name, store, hub)?, name)
}

/// Opens a model.
///
/// # Errors
/// When it is not there, or cannot be used.
#[cfg(feature = "sentence-transformers")]
pub fn open(name: &str, store: &Path, hub: &Hub) -> Result<Box<dyn Embedder>, OpenError> {
    Ok(Box::new(SentenceTransformer::open(name, &find::find(name, store, hub)?)?))
}

/// Opens a model, which this build cannot.
///
/// # Errors
/// Always.
#[cfg(not(feature = "sentence-transformers"))]
pub fn open(_: &str, _: &Path, _: &Hub) -> Result<Box<dyn Embedder>, OpenError> {
    Err(OpenError::NotBuilt)
}
