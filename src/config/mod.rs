//! Settings: raw ones from flags, environment, `.env` files and defaults become checked ones, once, at the border.
//! Everything behind it takes a [`Config`] and trusts it. Where values come from is `layers`, which there are
//! `variables`, what they may be `resolve` (where alerts go: `alerts`), how they are printed `show`.

pub(crate) mod address;
mod agents;
mod alerts;
mod layers;
mod resolve;
mod show;
mod value;
mod variables;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use chrono::NaiveTime;
use chrono_tz::Tz;
use secrecy::SecretString;

use crate::providers::sentence_transformers::{self, Hub};
use crate::providers::{Thresholds, local, thresholds_of};
use crate::rem::blacklist::Blacklist;
use crate::state::StateError;
use crate::state::calibrations::{Calibrated, Calibrations};

pub(crate) use agents::agents as named_agents;
pub use agents::{Agent, Folder};
pub use alerts::{AlertSettings, AlertTarget};
pub(crate) use layers::read_env_file;
pub use layers::{EnvFile, Layers, Origin};
pub use resolve::warnings;
pub(crate) use resolve::{expand, folder, st_model_name};
pub use resolve::{hub, models_dir};
pub use show::{Setting, of_flush, show, show_json, with_calibration};
pub use variables::{FLUSH_VARIABLES, VARIABLES, Variable, variable};

/// Who embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingProvider {
    /// Any server with the OpenAI API.
    OpenAi,
    /// An Ollama server, by its own API.
    Ollama,
    /// A model inside this binary.
    Builtin,
    /// A model of the `sentence-transformers` kind, in this process.
    SentenceTransformers,
}

impl EmbeddingProvider {
    /// Whether texts are embedded in this process: nothing is sent, and nothing paid for.
    pub fn is_in_process(self) -> bool {
        matches!(self, Self::Builtin | Self::SentenceTransformers)
    }
}

/// Who distils and judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmProvider {
    /// Any server with the OpenAI API.
    OpenAi,
    /// An Ollama server, by its own API.
    Ollama,
    /// No model: sentences chosen and compared by rules.
    Extractive,
}

/// Where the day's conversation is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpisodeSource {
    /// The files of the episodes folder.
    Files,
    /// The gateway's transcripts.
    Transcripts,
    /// Files and transcripts, each message once.
    Both,
}

impl EpisodeSource {
    /// Whether the episodes folder is read.
    pub fn has_files(self) -> bool {
        self != Self::Transcripts
    }

    /// Whether transcripts yield episodes.
    pub fn has_transcripts(self) -> bool {
        self != Self::Files
    }
}

/// Whether unused memories fade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fade {
    /// Only once recalls can be seen, where a gateway uses the memories; from the start elsewhere.
    Auto,
    /// From the start.
    On,
    /// Never.
    Off,
}

/// Where personal data is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskPii {
    /// In prompts to providers beyond this machine.
    External,
    /// Everywhere, also in what is stored.
    Always,
    /// Nowhere. Secrets are removed all the same.
    Never,
}

/// The OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    /// `OPENAI_API_KEY`; a local server needs none.
    pub api_key: Option<SecretString>,
    /// Without a trailing slash, with `/v1`: `https://api.openai.com/v1`.
    pub base_url: String,
    /// `OPENAI_EMBEDDING_API_KEY`, if set.
    pub embedding_api_key: Option<SecretString>,
    /// `OPENAI_EMBEDDING_BASE_URL`, if set: a server that embeds alone.
    pub embedding_base_url: Option<String>,
    /// `OPENAI_EMBEDDING_MODEL`.
    pub embedding_model: String,
    /// `OPENAI_LLM_MODEL`.
    pub llm_model: String,
}

/// The Ollama server.
#[derive(Debug, Clone)]
pub struct Ollama {
    /// Without a trailing slash and without the path of an API: `http://localhost:11434`.
    pub base_url: String,
    /// `OLLAMA_EMBEDDING_MODEL`.
    pub embedding_model: String,
    /// `OLLAMA_LLM_MODEL`.
    pub llm_model: String,
}

/// Every setting of a run, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// `DREAMER_HOME`.
    pub home: PathBuf,
    /// `DREAMER_EPISODES_DIR`.
    pub episodes_dir: PathBuf,
    /// `DREAMER_EPISODE_SOURCE`.
    pub episode_source: EpisodeSource,
    /// `OPENCLAW_STATE_DIR`: the gateway's own folder, with the transcripts.
    pub gateway_state_dir: PathBuf,
    /// `DREAMER_LANCEDB_URI`: a folder (this build opens no remote databases).
    pub lancedb_uri: String,
    /// `DREAMER_EMBEDDING_PROVIDER`.
    pub embedding_provider: EmbeddingProvider,
    /// `DREAMER_LLM_PROVIDER`.
    pub llm_provider: LlmProvider,
    /// `DREAMER_BUILTIN_MODEL`: `use-multilingual-3` or `lexical`.
    pub builtin_model: String,
    /// `ST_MODEL_NAME`: a name, or the absolute path of a folder.
    pub st_model_name: String,
    /// Where models of that kind come from.
    pub hub: Hub,
    /// Where weights lie: `dreamer/models` in the user's data directory.
    pub models_dir: PathBuf,
    /// The OpenAI-compatible server.
    pub openai: OpenAi,
    /// The Ollama server.
    pub ollama: Ollama,
    /// `DREAMER_EMBEDDING_DIM`, if set.
    pub embedding_dim: Option<usize>,
    /// `CLUSTER_SIMILARITY`, if set.
    pub cluster_similarity: Option<f32>,
    /// `DEDUP_SIMILARITY`, if set.
    pub dedup_similarity: Option<f32>,
    /// `CONTRADICTION_SIMILARITY`, if set.
    pub contradiction_similarity: Option<f32>,
    /// `IMPORTANCE_DECAY_RATE` a day, 0 to below 1.
    pub decay_rate: f64,
    /// `SOFT_DELETE_THRESHOLD`, 0 to 1.
    pub fade_threshold: f64,
    /// `DREAMER_FADE`.
    pub fade: Fade,
    /// `MAX_EPISODES_PER_RUN`, days.
    pub max_episode_days: usize,
    /// `MAX_NEW_MEMORIES`.
    pub max_new_memories: usize,
    /// `DREAMER_MAX_CALLS`: requests to models, embedding and retries included.
    pub max_calls: u32,
    /// `DREAMER_MAX_TOKENS`: of prompts, embedded texts and replies together; none when `off`.
    pub max_tokens: Option<u64>,
    /// `DREAMER_MAX_MINUTES`.
    pub max_minutes: u64,
    /// `DREAMER_CONCURRENCY`.
    pub concurrency: usize,
    /// `DREAMER_AGENT`: whose memories those of an episode without a session key are.
    pub agent: String,
    /// `DREAMER_AGENTS`: the agents a run touches; empty for every agent of the table.
    pub agents: Vec<Agent>,
    /// `DREAMER_OWNER`: names or sender ids of the agent's owner.
    pub owner: Vec<String>,
    /// `DREAMER_TIMEZONE`.
    pub timezone: Tz,
    /// `DREAMER_MASK_PII`.
    pub mask_pii: MaskPii,
    /// `DREAMER_MERGE_BLACKLIST`: names that are never merged with each other.
    pub merge_blacklist: Blacklist,
    /// `DREAMER_WINDOW`: start and end in local time, may span midnight; none when `off`.
    pub window: Option<(NaiveTime, NaiveTime)>,
    /// `DREAMER_MIN_NEW`: chunks or captured rows; none when `off`.
    pub min_new: Option<usize>,
    /// `DREAMER_SNAPSHOT_DAYS`: how long a run can be undone.
    pub snapshot_days: u32,
    /// `DREAMER_RAW_DAYS`: how long raw memories are kept; none when for good.
    pub raw_days: Option<u32>,
    /// `DREAMER_ARCHIVE_DAYS`: how long archived episodes and exports of archived memories are kept; none when for good.
    pub archive_days: Option<u32>,
    /// `DREAMER_MIN_FREE_MB`: what a night leaves free on the disk; 0 when nobody looks.
    pub min_free_mb: u64,
    /// `DREAMER_ALERT_…`: where the operator hears of trouble.
    pub alerts: AlertTarget,
    /// `--agent`: this run touches that agent alone. Never a setting: a flag of one run.
    pub only_agent: Option<String>,
}

impl Config {
    /// Where finished episodes go: `episodes/archive`.
    pub fn archive_dir(&self) -> PathBuf {
        self.home.join("episodes/archive")
    }

    /// Where the dream logs lie: `dream-log`.
    pub fn dream_log_dir(&self) -> PathBuf {
        self.home.join("dream-log")
    }

    /// Where every run has its folder: `runs`.
    pub fn runs_dir(&self) -> PathBuf {
        self.home.join("runs")
    }

    /// Where agents leave what they recalled: `recalls`.
    pub fn recalls_dir(&self) -> PathBuf {
        self.home.join("recalls")
    }

    /// Where work waits for another night: `queues`.
    pub fn queues_dir(&self) -> PathBuf {
        self.home.join("queues")
    }

    /// Lock, journal, active days: `state`.
    pub fn state_dir(&self) -> PathBuf {
        self.home.join("state")
    }

    /// Where exports of archived memories lie: `memory-archive`.
    pub fn memory_archive_dir(&self) -> PathBuf {
        self.home.join("memory-archive")
    }

    /// Whether a gateway uses these episodes or this database: one of them lies outside the home.
    pub fn has_gateway(&self) -> bool {
        !self.owns(Path::new(&self.lancedb_uri))
            || self.folders().iter().any(|folder| !self.owns(&folder.path))
    }

    /// The name of the embedding model.
    pub fn embedding_model(&self) -> &str {
        match self.embedding_provider {
            EmbeddingProvider::OpenAi => &self.openai.embedding_model,
            EmbeddingProvider::Ollama => &self.ollama.embedding_model,
            EmbeddingProvider::Builtin => &self.builtin_model,
            EmbeddingProvider::SentenceTransformers => &self.st_model_name,
        }
    }

    /// The length of the embedding model's vectors: as set, else what the model is known for.
    pub fn dimension(&self) -> Option<usize> {
        self.embedding_dim.or(match self.embedding_model() {
            "text-embedding-3-small" | "text-embedding-ada-002" => Some(1536),
            "text-embedding-3-large" => Some(3072),
            "lexical" => Some(1024),
            "use-multilingual-3" => Some(512),
            name if self.embedding_provider == EmbeddingProvider::SentenceTransformers => {
                sentence_transformers::dimension(name, &self.models_dir, &self.hub).ok()
            }
            _ => None,
        })
    }

    /// Whether an Ollama server is asked for anything.
    pub(crate) fn uses_ollama(&self) -> bool {
        self.embedding_provider == EmbeddingProvider::Ollama || self.llm_provider == LlmProvider::Ollama
    }

    /// Whether prompts leave this machine: what the language model's server is, wherever texts are embedded.
    pub fn prompts_leave(&self) -> bool {
        match self.llm_provider {
            LlmProvider::OpenAi => !self.openai.is_loopback(),
            LlmProvider::Ollama => !crate::privacy::is_loopback(&self.ollama.base_url),
            LlmProvider::Extractive => false,
        }
    }

    /// The word for the embedding provider, and what is known without asking it of which model a name stands for there.
    pub(crate) fn embedding_source(&self) -> (&'static str, Option<&str>) {
        match self.embedding_provider {
            EmbeddingProvider::OpenAi => ("openai", Some(self.openai.embedding_address())),
            EmbeddingProvider::Ollama => ("ollama", None),
            EmbeddingProvider::Builtin => ("builtin", Some("")),
            EmbeddingProvider::SentenceTransformers => ("sentence-transformers", None),
        }
    }

    /// What an earlier night derived for the embedding model, as far as that can be said without asking its server.
    ///
    /// # Errors
    /// When the file of calibrations is there and cannot be read.
    pub fn calibrated(&self) -> Result<Option<Thresholds>, StateError> {
        Ok(self.calibration()?.as_ref().map(Calibrated::thresholds))
    }

    /// What was calibrated for the embedding model, with when, by what and how surely.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn calibration(&self) -> Result<Option<Calibrated>, StateError> {
        let (provider, version) = self.embedding_source();
        let all = Calibrations::read(&self.state_dir())?;
        Ok(all.of(provider, self.embedding_model(), version).cloned())
    }

    /// The similarities to work with: as set, else `calibrated`, else the embedding model's own; none unless all three are
    /// known. Of a model that has its own, nothing is calibrated unless somebody asked for it.
    ///
    /// # Errors
    /// When what is set and what is not do not go together.
    pub fn thresholds(&self, calibrated: Option<Thresholds>) -> Result<Option<Thresholds>, ConfigError> {
        let of_model = calibrated.or_else(|| thresholds_of(self.embedding_model()));
        let cluster = self.cluster_similarity.or(of_model.map(|t| t.cluster));
        let duplicate = self.dedup_similarity.or(of_model.map(|t| t.duplicate));
        let related = self.contradiction_similarity.or(of_model.map(|t| t.related));
        let (Some(cluster), Some(duplicate), Some(related)) = (cluster, duplicate, related) else {
            return Ok(None);
        };
        if duplicate < related {
            return Err(ConfigError::Missing {
                variable: "DEDUP_SIMILARITY, CONTRADICTION_SIMILARITY",
                remedy: format!(
                    "of the two one is set and one calibrated for {}, but DEDUP_SIMILARITY ({duplicate}) must be at \
                     or above CONTRADICTION_SIMILARITY ({related}); set both, or neither",
                    self.embedding_model()
                ),
            });
        }
        Ok(Some(Thresholds { cluster, duplicate, related }))
    }

    /// Whether the embedder can be used at all, before anything is asked of it.
    ///
    /// # Errors
    /// When its key, its model or its weights are missing.
    pub fn check_embedder(&self) -> Result<(), ConfigError> {
        match self.embedding_provider {
            EmbeddingProvider::OpenAi => self.check_embedding_key(),
            EmbeddingProvider::Builtin => {
                local::check(&self.builtin_model, &self.models_dir).map_err(ConfigError::of_builtin)
            }
            EmbeddingProvider::SentenceTransformers => {
                sentence_transformers::check(&self.st_model_name, &self.models_dir, &self.hub)
                    .map_err(ConfigError::of_sentence_transformers)
            }
            EmbeddingProvider::Ollama => Ok(()),
        }
    }

    /// Whether a night can start: both models can be used. Similarities that are not known are calibrated by the night.
    ///
    /// # Errors
    /// When a key, a model or its weights are missing.
    pub fn check_night(&self) -> Result<(), ConfigError> {
        self.check_embedder()?;
        match self.llm_provider {
            LlmProvider::OpenAi => self.check_key(),
            LlmProvider::Ollama | LlmProvider::Extractive => Ok(()),
        }
    }

    /// The same for the server that embeds, where that is another one.
    fn check_embedding_key(&self) -> Result<(), ConfigError> {
        let openai = &self.openai;
        if openai.embedding_base_url.is_none() {
            return if openai.embedding_api_key.is_some() { Ok(()) } else { self.check_key() };
        }
        if openai.embedding_key().is_some() || !wants_a_key(openai.embedding_address()) {
            return Ok(());
        }
        Err(ConfigError::Missing {
            variable: "OPENAI_EMBEDDING_API_KEY",
            remedy: "set it: OPENAI_API_KEY is sent to the server of OPENAI_BASE_URL alone".into(),
        })
    }

    /// A server of one's own may need no key; OpenAI's does.
    fn check_key(&self) -> Result<(), ConfigError> {
        if self.openai.api_key.is_some() || !wants_a_key(&self.openai.base_url) {
            return Ok(());
        }
        Err(ConfigError::Missing {
            variable: "OPENAI_API_KEY",
            remedy: "set it, or OPENAI_BASE_URL for a server of your own, or use Ollama (DREAMER_EMBEDDING_PROVIDER=ollama \
                     DREAMER_LLM_PROVIDER=ollama), or work without a model: \
                     DREAMER_EMBEDDING_PROVIDER=builtin DREAMER_BUILTIN_MODEL=lexical DREAMER_LLM_PROVIDER=extractive"
                .into(),
        })
    }
}

impl OpenAi {
    /// Where texts are embedded.
    pub fn embedding_address(&self) -> &str {
        self.embedding_base_url.as_deref().unwrap_or(&self.base_url)
    }

    /// The key for that server: its own, else the other one if both are the same server. A key goes nowhere else.
    pub fn embedding_key(&self) -> Option<&SecretString> {
        let same = address::server(self.embedding_address()) == address::server(&self.base_url);
        self.embedding_api_key.as_ref().or(self.api_key.as_ref().filter(|_| same))
    }

    /// Every key, each with the address that it is sent to.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'static str, &SecretString, &str)> {
        let chat = self.api_key.as_ref().map(|key| ("OPENAI_API_KEY", key, self.base_url.as_str()));
        let own = self.embedding_api_key.as_ref();
        let embedding = own.map(|key| ("OPENAI_EMBEDDING_API_KEY", key, self.embedding_address()));
        chat.into_iter().chain(embedding)
    }

    /// Whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        crate::privacy::is_loopback(&self.base_url)
    }
}

/// Whether a server answers nobody without a key: OpenAI's own, Azure's, OpenRouter's.
fn wants_a_key(address: &str) -> bool {
    let host = address::host(address);
    host == "openai.com"
        || host.ends_with(".openai.com")
        || host == "openrouter.ai"
        || crate::providers::is_azure_host(host)
}

/// Whether `path` lies in `folder`, symbolic links followed as far as both exist.
fn inside(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => path.starts_with(folder),
    }
}

/// One value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The variable.
    pub variable: &'static str,
    /// What it was set to; none when that is a secret.
    pub value: Option<String>,
    /// Where it was set.
    pub origin: Origin,
    /// What is wrong with it and what is allowed.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.variable)?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        write!(f, " ({}) {}", self.origin, self.allowed)
    }
}

/// One problem on the same line, several each on a line of its own.
fn lines_of(problems: &[Problem]) -> String {
    match problems {
        [one] => one.to_string(),
        several => several.iter().map(|problem| format!("\n  {problem}")).collect(),
    }
}

/// Why the settings cannot be used. Every one of these is exit 78.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An `.env` file is there and cannot be read.
    #[error("read the settings file {}", path.display())]
    ReadEnvFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of an `.env` file is not `NAME=value`.
    #[error(
        "read the settings file {}: line {line} is not NAME=value (quote values that hold spaces or quotes)",
        path.display()
    )]
    ParseEnvFile {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1. Never its text, which may hold a key.
        line: usize,
    },
    /// The working directory is gone.
    #[error("find the working directory")]
    WorkingDirectory {
        /// Why.
        source: io::Error,
    },
    /// Values that do not parse or are out of range: all of them.
    #[error("use the settings: {}", lines_of(problems))]
    Invalid {
        /// One a value.
        problems: Vec<Problem>,
    },
    /// A value that this command needs is not set.
    #[error("go on without {variable}: {remedy}")]
    Missing {
        /// The variable, or several.
        variable: &'static str,
        /// What to do.
        remedy: String,
    },
}

impl ConfigError {
    /// A built-in model that cannot be used.
    pub(crate) fn of_builtin(error: local::OpenError) -> Self {
        Self::Missing { variable: "the embedding model (DREAMER_BUILTIN_MODEL)", remedy: error.to_string() }
    }

    /// A model of the `sentence-transformers` kind that cannot be used.
    pub(crate) fn of_sentence_transformers(error: sentence_transformers::OpenError) -> Self {
        Self::Missing { variable: "the embedding model (ST_MODEL_NAME)", remedy: error.to_string() }
    }
}
