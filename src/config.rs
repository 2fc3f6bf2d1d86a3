//! Settings: raw ones from flags, environment, `.env` files and defaults become checked ones, once, at the border.
//! Everything behind it takes a [`Config`] and trusts it.

use std::path::PathBuf;

use chrono::NaiveTime;
use chrono_tz::Tz;
use secrecy::SecretString;

/// Who embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingProvider {
    /// Any server with the OpenAI API.
    OpenAi,
    /// A model inside this binary.
    Builtin,
}

/// Who distils and judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmProvider {
    /// Any server with the OpenAI API.
    OpenAi,
    /// No model: sentences chosen and compared by rules.
    Extractive,
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
    /// `OPENAI_EMBEDDING_MODEL`.
    pub embedding_model: String,
    /// `OPENAI_LLM_MODEL`.
    pub llm_model: String,
}

/// Every setting of a run, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// `DREAMER_HOME`.
    pub home: PathBuf,
    /// `DREAMER_EPISODES_DIR`.
    pub episodes_dir: PathBuf,
    /// `DREAMER_LANCEDB_URI`: a folder (this build opens no remote databases).
    pub lancedb_uri: String,
    /// `DREAMER_EMBEDDING_PROVIDER`.
    pub embedding_provider: EmbeddingProvider,
    /// `DREAMER_LLM_PROVIDER`.
    pub llm_provider: LlmProvider,
    /// `DREAMER_BUILTIN_MODEL`, such as `lexical`.
    pub builtin_model: String,
    /// The OpenAI-compatible server.
    pub openai: OpenAi,
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
    /// `DREAMER_MAX_MINUTES`.
    pub max_minutes: u64,
    /// `DREAMER_CONCURRENCY`.
    pub concurrency: usize,
    /// `DREAMER_AGENT`: whose memories those of an episode without a session key are.
    pub agent: String,
    /// `DREAMER_OWNER`: names or sender ids of the agent's owner.
    pub owner: Vec<String>,
    /// `DREAMER_TIMEZONE`.
    pub timezone: Tz,
    /// `DREAMER_MASK_PII`.
    pub mask_pii: MaskPii,
    /// `DREAMER_WINDOW`: start and end in local time, may span midnight; none when `off`.
    pub window: Option<(NaiveTime, NaiveTime)>,
    /// `DREAMER_MIN_NEW`: chunks or captured rows; none when `off`.
    pub min_new: Option<usize>,
}
