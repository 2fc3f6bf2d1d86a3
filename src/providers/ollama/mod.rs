//! Ollama by its own API: what its servers have in common for embeddings and chats, and what is asked beside the work
//! (which weights a name stands for, and that a model may leave memory).
//! Sending, retrying and counting is `http.rs`'s work.

pub mod chat;
pub mod embeddings;

pub use chat::OllamaChat;
pub use embeddings::OllamaEmbedder;

use serde::Deserialize;
use serde_json::{Value, json};

use super::http::{Endpoint, Rejection, Service};

/// How long a model stays in memory after a request: longer than a night pauses between two, so that none is loaded
/// twice.
const KEEP_ALIVE: &str = "30m";

/// What `http.rs` has to know of such a server.
pub(crate) static OLLAMA: Service = Service {
    address: "OLLAMA_BASE_URL",
    start: "start it with `ollama serve`, or set OLLAMA_BASE_URL",
    slow: "the model is too slow for this machine; try a smaller one, or DREAMER_CONCURRENCY=1",
    failing: "see the log of `ollama serve`",
    remedy,
    final_words: &["grammar", "invalid format", "system memory", "unsupported value", "does not support"],
    key_header: |_| None,
    unfold,
    loads_models: true,
};

fn remedy(rejection: &Rejection, model: &str) -> Option<String> {
    let remedy = match rejection.status {
        _ if rejection.names(&["system memory"]) => {
            "it does not fit into the server's memory; choose a smaller model. "
        }
        _ if rejection.names(&["does not support chat", "does not support generate"]) => {
            "it only embeds; choose a language model with OLLAMA_LLM_MODEL. "
        }
        _ if rejection.names(&["does not support embed"]) => {
            "it does not embed; choose another with OLLAMA_EMBEDDING_MODEL. "
        }
        404 if rejection.names(&["model"]) => return Some(format!("run `ollama pull {model}`. ")),
        404 | 405 => "OLLAMA_BASE_URL must be an Ollama of version 0.3 or newer, without a path. ",
        401 | 403 => "the server wants a login, which is not sent; check OLLAMA_BASE_URL. ",
        300..=399 => "check OLLAMA_BASE_URL, it redirects elsewhere. ",
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// Makes one object of a reply that was streamed although that was switched off (some proxies do it): the last line with
/// the content of all. A stream that breaks off stays as it is, which is no JSON and so tried again.
fn unfold(body: String) -> String {
    let lines: Result<Vec<Value>, _> =
        body.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect();
    let Ok(mut lines) = lines else { return body };
    if lines.len() < 2 {
        return body;
    }
    if let Some(error) = lines.iter().find_map(|line| line["error"].as_str()) {
        // It failed on the way: not the request's fault.
        return json!({ "error": { "message": error, "code": 500 } }).to_string();
    }
    let content: String = lines.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
    match lines.pop() {
        Some(mut last) if last["done"] == true => {
            last["message"]["content"] = json!(content);
            last.to_string()
        }
        _ => body,
    }
}

/// The digest of the weights that the endpoint's model name stands for; `None` where the server does not say.
async fn digest(endpoint: &Endpoint) -> Option<String> {
    #[derive(Deserialize)]
    struct Tags {
        models: Vec<Tag>,
    }
    #[derive(Deserialize)]
    struct Tag {
        name: String,
        digest: String,
    }
    match endpoint.aside::<Tags>("api/tags", None).await {
        Ok(tags) => {
            let is_it = |tag: &Tag| same_model(&tag.name, endpoint.model());
            tags.models.into_iter().find(is_it).map(|tag| tag.digest)
        }
        Err(why) => {
            tracing::debug!(model = endpoint.model(), why, "the server does not say which weights these are");
            None
        }
    }
}

/// Whether two names are of one model: the tag is `latest` where it is left out.
fn same_model(one: &str, other: &str) -> bool {
    let whole = |name: &str| match name.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        true => name.to_lowercase(),
        false => format!("{}:latest", name.to_lowercase()),
    };
    whole(one) == whole(other)
}

/// Tells the server that the model may leave memory, if this run brought it there. That it fails harms nobody.
async fn release(endpoint: &Endpoint) {
    if !endpoint.is_warm() {
        return;
    }
    let body = json!({ "model": endpoint.model(), "keep_alive": 0, "stream": false });
    if let Err(why) = endpoint.aside::<Value>("api/generate", Some(&body)).await {
        tracing::debug!(model = endpoint.model(), why, "the model stays in memory for a while");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_reply_becomes_one_and_a_broken_one_stays_broken() {
        let part =
            |text: &str, done: bool| json!({ "message": { "content": text }, "done": done }).to_string();
        let whole =
            unfold(format!("{}\n{}\n\n{}\n", part("{\"a\"", false), part(":1}", false), part("", true)));
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!((&whole["message"]["content"], &whole["done"]), (&json!("{\"a\":1}"), &json!(true)));
        let failed = unfold(format!("{}\n{}", part("{", false), json!({ "error": "runner died" })));
        assert_eq!(serde_json::from_str::<Value>(&failed).unwrap()["error"]["code"], 500);
        for untouched in [
            part("{}", true),
            format!("{}\n{}", part("{", false), part("x", false)),
            format!("{}\n{{\"mess", part("{", false)),
            "{\n \"embeddings\": []\n}".to_owned(),
            "no JSON\nat all".to_owned(),
            String::new(),
        ] {
            assert_eq!(unfold(untouched.clone()), untouched);
        }
    }

    #[test]
    fn a_name_without_a_tag_is_the_latest() {
        for (one, other, same) in [
            ("nomic-embed-text:latest", "nomic-embed-text", true),
            ("Nomic-Embed-Text", "nomic-embed-text", true),
            ("qwen2.5:3b", "qwen2.5:3b", true),
            ("qwen2.5:3b", "qwen2.5", false),
            ("host:80/a/b:latest", "host:80/a/b", true),
        ] {
            assert_eq!(same_model(one, other), same, "{one} {other}");
        }
    }
}
