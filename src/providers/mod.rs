//! The models: an embedder and a language model, each behind a small trait, and the errors they share.
//! What to ask is decided by `nrem/` and `rem/`; how often at most, by [`budget::Budget`].

pub mod budget;
pub mod extractive;
pub mod local;
pub mod openai;
pub mod replay;
pub mod reply;

use async_trait::async_trait;

use crate::privacy::Outbound;

/// The similarities at which texts belong together, as cosines of one embedder: they are a property of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Chunks about one thing.
    pub cluster: f32,
    /// The same claim, if nothing that matters differs.
    pub duplicate: f32,
    /// Perhaps about the same thing: a conflict candidate.
    pub related: f32,
}

/// Turns texts into unit vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The model's name as the operator knows it, such as `text-embedding-3-small` or `lexical`.
    fn model(&self) -> &str;

    /// Embeds in order; one unit vector a text.
    ///
    /// # Errors
    /// When the budget is exhausted or the provider failed for good.
    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError>;
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Standing instructions. No data of the user's.
    pub system: String,
    /// The material of this call.
    pub user: Outbound,
    /// Name of the schema, `[a-z_]+`.
    pub schema_name: &'static str,
    /// JSON schema of the reply; always an object at the top.
    pub schema: serde_json::Value,
    /// At most so many tokens in the reply.
    pub max_tokens: u32,
}

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// The text as it came, personal data still masked.
    pub text: String,
    /// Tokens paid for the prompt, as the provider counted.
    pub input_tokens: u64,
    /// Tokens paid for the reply.
    pub output_tokens: u64,
}

/// Answers prompts.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// The model's name as the operator knows it.
    fn model(&self) -> &str;

    /// Asks once; retries are inside, within the run's budget.
    ///
    /// # Errors
    /// When the budget is exhausted, the reply was cut off, or the provider failed for good.
    async fn complete(&self, prompt: &Prompt) -> Result<Reply, ProviderError>;
}

/// Why a provider gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// `DREAMER_MAX_CALLS` or `DREAMER_MAX_MINUTES` is reached: the rest waits for the next night.
    #[error("ask {model}: {what} is reached; the rest waits for the next night")]
    Exhausted {
        /// The model.
        model: String,
        /// The limit's variable.
        what: &'static str,
    },
    /// The reply ended at the token limit.
    #[error("use the reply of {model}: it was cut off at {max_tokens} tokens")]
    CutOff {
        /// The model.
        model: String,
        /// The limit that was asked for.
        max_tokens: u32,
    },
    /// The provider refused the request in a way that trying again does not mend (key, model name, malformed).
    #[error("ask {model} at {url}: answered {status}: {detail}")]
    Refused {
        /// The model.
        model: String,
        /// Address without credentials.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the provider said, shortened, secrets removed, with the remedy where it is known.
        detail: String,
    },
    /// All tries failed: connection, time-out, 429 or 5xx.
    #[error("reach {model} at {url} in {tries} tries; check that it runs and OPENAI_BASE_URL")]
    Unreachable {
        /// The model.
        model: String,
        /// Address without credentials.
        url: String,
        /// Tries made.
        tries: u32,
        /// The last failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The provider answered 200 with something that is not an answer.
    #[error("read the reply of {model}: {detail}")]
    Malformed {
        /// The model.
        model: String,
        /// What is wrong with it.
        detail: String,
    },
}
