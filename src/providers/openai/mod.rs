//! Any server with the OpenAI API: embeddings and chat completions.
//! Servers differ in the parameters they accept; each adaptation is found once and remembered per instance.
//! Sending, retrying and counting is `http.rs`'s work, batching and splitting `embedding.rs`'s.

pub mod chat;
pub mod embeddings;

pub use chat::OpenAiChat;
pub use embeddings::OpenAiEmbedder;

use super::http::{Rejection, Service};

/// What `http.rs` has to know of such a server.
pub(crate) static OPENAI: Service = Service {
    address: "OPENAI_BASE_URL",
    start: "check that it runs and OPENAI_BASE_URL",
    slow: "check that it runs and OPENAI_BASE_URL",
    failing: "check that it runs and OPENAI_BASE_URL",
    remedy,
    final_words: &["response_format", "json_schema", "grammar"],
    unfold: std::convert::identity,
    loads_models: false,
};

fn remedy(rejection: &Rejection, _model: &str) -> Option<String> {
    let remedy = match rejection.status {
        _ if rejection.is_quota() => {
            "the account has no quota left (insufficient_quota); check its billing. "
        }
        401 | 403 => "check OPENAI_API_KEY. ",
        _ if rejection.is_model_name() => "check the model's name and OPENAI_BASE_URL. ",
        300..=399 => "check OPENAI_BASE_URL, it redirects elsewhere. ",
        _ => return None,
    };
    Some(remedy.to_owned())
}
