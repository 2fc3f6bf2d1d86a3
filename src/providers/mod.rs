//! The models: an embedder and a language model, each behind a small trait, and the errors they share.
//! What to ask is decided by `nrem/` and `rem/`; how often at most, by [`budget::Budget`].

mod bounds;
pub mod budget;
pub mod calibration;
pub mod configured;
pub(crate) mod dialogue;
mod embedding;
pub mod extractive;
#[cfg(test)]
mod fixtures;
mod http;
pub mod local;
mod near;
pub mod ollama;
pub mod openai;
pub mod recorded;
mod rejection;
pub mod replay;
pub mod reply;
mod retry_after;
pub mod sentence_transformers;

pub(crate) use embedding::estimate_tokens;
pub(crate) use openai::server::is_azure_host;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::language::counted;
use crate::nrem::MEMORIES_A_CLUSTER;
use crate::nrem::cluster::MAX_CLUSTER;
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

/// The thresholds of the models this build knows; `None` for any other, which is then calibrated at first use (see
/// [`calibration`]). Those of `text-embedding-3-small` are the documented defaults, the others were measured on 160
/// labelled pairs (half of them in `pairs.tsv`). A model's owner, tag and case do not matter.
pub fn thresholds_of(model: &str) -> Option<Thresholds> {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let name = name.split(':').next().unwrap_or_default();
    let (cluster, duplicate, related) = match name {
        "text-embedding-3-small" => (0.75, 0.90, 0.70),
        "all-minilm-l6-v2" => return Some(sentence_transformers::THRESHOLDS),
        local::use3::MODEL => return Some(local::use3::THRESHOLDS),
        local::lexical::MODEL => return Some(local::lexical::THRESHOLDS),
        _ => return None,
    };
    Some(Thresholds { cluster, duplicate, related })
}

/// What a known model's similarities were measured on, for people who read the settings.
pub(crate) fn measured_on(model: &str, clusters: bool) -> &'static str {
    let is = |name: &str| model.trim().eq_ignore_ascii_case(name);
    match clusters {
        _ if !local::NAMES.iter().any(|name| is(name)) && model.contains("text-embedding") => {
            "as documented, not measured"
        }
        true if local::NAMES.iter().any(|name| is(name)) => "measured on dialogues of eight people",
        _ => "measured on labelled pairs",
    }
}

/// Scales a vector to length 1. False, and the vector untouched, if that is impossible: it has no direction or holds
/// something that is not a number.
#[must_use]
pub fn normalise(vector: &mut [f32]) -> bool {
    // f64, because the squares of large components overflow f32.
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if !norm.is_finite() || norm < 1e-20 {
        return false;
    }
    for x in vector {
        *x = (f64::from(*x) / norm) as f32;
    }
    true
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

    /// How many texts it takes in one request, as far as it knows.
    fn texts_a_request(&self) -> usize {
        usize::MAX
    }

    /// What tells these weights from others of the same name, as the provider says; `None` where it does not.
    async fn version(&self) -> Option<String> {
        None
    }

    /// What the operator should know of the texts it was given so far, each said once.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lets go of what the provider keeps for this run, such as a model in memory. Failing at that harms nobody.
    async fn release(&self) {}
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
    /// JSON schema of the reply; always an object at the top. Its bounds (lengths, ranges) are left out for servers that
    /// do not take them.
    pub schema: serde_json::Value,
    /// At most so many tokens in the reply.
    pub max_tokens: u32,
}

impl Prompt {
    /// Hex SHA-256 of what the model is asked: instructions, material as it is sent, and the schema. It tells which
    /// question led to a memory without keeping the question.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.system.as_str(), self.user.as_str(), &self.schema.to_string()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        format!("{:x}", hash.finalize())
    }
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

    /// Lets go of what the provider keeps for this run, as [`Embedder::release`] does.
    async fn release(&self) {}
}

/// Who distils and judges: a language model, or rules where there is none.
pub enum Reasoner<'a> {
    /// A language model.
    Model(Box<dyn LanguageModel + 'a>),
    /// Rules, see [`extractive`].
    Extractive,
}

impl Reasoner<'_> {
    /// Most memories it is asked for of one cluster: a model's cost tokens, rules take every claim.
    pub fn most_a_cluster(&self) -> usize {
        match self {
            Self::Model(_) => MEMORIES_A_CLUSTER,
            Self::Extractive => MAX_CLUSTER,
        }
    }

    /// The name that logs and reports give it.
    pub fn name(&self) -> &str {
        match self {
            Self::Model(model) => model.model(),
            Self::Extractive => extractive::NAME,
        }
    }
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
    #[error("reach {model} at {url} in {}; {remedy}", counted(*tries as usize, "try"))]
    Unreachable {
        /// The model.
        model: String,
        /// Address without credentials.
        url: String,
        /// Tries made.
        tries: u32,
        /// What to do about it.
        remedy: &'static str,
        /// The last failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address, key or model of a provider cannot be used at all; nothing was sent.
    #[error("use {model}: {detail}")]
    Unusable {
        /// The model.
        model: String,
        /// What is wrong, with the variable.
        detail: String,
    },
    /// A text without any content was to be embedded: a vector of it would mean nothing.
    #[error("embed with {model}: text {index} is blank")]
    Blank {
        /// The model.
        model: String,
        /// Its place among the texts, counted from 0.
        index: usize,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_s_digest_tells_one_question_from_another() {
        let prompt = fixtures::prompt("cats?");
        let other_schema = Prompt { schema: serde_json::json!({ "type": "object" }), ..prompt.clone() };
        let others = [
            fixtures::prompt("dogs?"),
            Prompt { system: format!("{} ", prompt.system), ..prompt.clone() },
            other_schema,
        ];
        assert_eq!(prompt.digest(), fixtures::prompt("cats?").digest());
        assert!(others.iter().all(|other| other.digest() != prompt.digest()));
    }

    #[test]
    fn known_models_have_thresholds_whatever_their_owner_tag_or_case() {
        let small = thresholds_of("openai/text-embedding-3-small");
        assert_eq!(small, Some(Thresholds { cluster: 0.75, duplicate: 0.90, related: 0.70 }));
        assert!(thresholds_of("sentence-transformers/all-MiniLM-L6-v2").is_some());
        assert_eq!(thresholds_of("lexical"), Some(local::lexical::THRESHOLDS));
        for unknown in ["nomic-embed-text", "text-embedding-3-large", "multilingual-e5-small", ""] {
            assert_eq!(thresholds_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn normalising_gives_length_one_or_says_that_it_cannot() {
        for vector in [vec![3.0, 4.0], vec![3e30, 4e30], vec![3e-15, 4e-15]] {
            let mut vector = vector;
            assert!(normalise(&mut vector));
            assert!((vector[0] - 0.6).abs() < 1e-6 && (vector[1] - 0.8).abs() < 1e-6, "{vector:?}");
        }
        for vector in [vec![], vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0]] {
            let mut changed = vector.clone();
            assert!(!normalise(&mut changed));
            assert_eq!(format!("{changed:?}"), format!("{vector:?}"));
        }
    }
}
