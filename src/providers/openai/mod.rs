//! Any server with the OpenAI API: embeddings and chat completions.
//! Servers differ in the parameters they accept; each adaptation is found once and remembered per instance.
//! Sending, retrying and counting is `http.rs`'s work, batching and splitting `embedding.rs`'s.

pub mod chat;
pub mod embeddings;
mod manners;
pub(crate) mod server;
mod vectors;

pub use chat::OpenAiChat;
pub use embeddings::OpenAiEmbedder;

use super::http::{Rejection, Service};

/// What `http.rs` has to know of such a server.
pub(crate) static OPENAI: Service = Service {
    address: "OPENAI_BASE_URL",
    start: "check that it runs and OPENAI_BASE_URL",
    slow: "check that it runs and OPENAI_BASE_URL",
    failing: "check that it runs and OPENAI_BASE_URL",
    remedy: |rejection, _| remedy(rejection, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    final_words: FINAL_WORDS,
    key_header: server::key_header,
    unfold: server::unfold,
    loads_models: false,
};

/// The same for a server that embeds alone.
pub(crate) static OPENAI_EMBEDDING: Service = Service {
    address: "OPENAI_EMBEDDING_BASE_URL",
    start: "check that it runs and OPENAI_EMBEDDING_BASE_URL",
    slow: "check that it runs and OPENAI_EMBEDDING_BASE_URL",
    failing: "check that it runs and OPENAI_EMBEDDING_BASE_URL",
    remedy: |rejection, _| remedy(rejection, "OPENAI_EMBEDDING_BASE_URL", "OPENAI_EMBEDDING_API_KEY"),
    final_words: FINAL_WORDS,
    key_header: server::key_header,
    unfold: server::unfold,
    loads_models: false,
};

/// Servers answer 500 about these, too: llama.cpp about a schema, a template without a system role, a server without
/// embeddings.
const FINAL_WORDS: &[&str] = &[
    "response_format",
    "json_schema",
    "json schema",
    "grammar",
    "system role",
    "roles must alternate",
    "does not support",
];

fn remedy(rejection: &Rejection, address: &str, key: &str) -> Option<String> {
    Some(match rejection.status {
        // About this request alone: the next may pass.
        _ if rejection.is_filtered() => return None,
        _ if rejection.is_quota() => {
            "the account has no quota left (insufficient_quota, or no credit); check its billing. ".to_owned()
        }
        _ if rejection.is_version() => format!("correct api-version in {address}. "),
        401 | 403 => format!("check {key}. "),
        _ if rejection.is_deployment() => {
            format!("check the name of the deployment (the model's name, or in {address}). ")
        }
        _ if rejection.is_routing() => return None,
        _ if rejection.is_model_name() => format!("check the model's name and {address}. "),
        300..=399 => format!("check {address}, it redirects elsewhere. "),
        _ => return None,
    })
}
