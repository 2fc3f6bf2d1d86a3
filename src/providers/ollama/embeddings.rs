//! `/api/embed`: what a request looks like and how its reply is read.
//! Batching, splitting and checking is `embedding.rs`'s work; only `Outbound` text comes here.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{KEEP_ALIVE, OLLAMA, digest, release};
use crate::privacy::Outbound;
use crate::providers::budget::Budget;
use crate::providers::embedding::{EmbeddingApi, Manners, Remote};
use crate::providers::http::Endpoint;
use crate::providers::{Embedder, ProviderError};

/// An embedding model on an Ollama server. A text that is too long for it is split, never cut: the server is told not
/// to.
#[derive(Debug)]
pub struct OllamaEmbedder {
    remote: Remote<OllamaEmbeddings>,
}

#[derive(Debug)]
pub(crate) struct OllamaEmbeddings;

impl EmbeddingApi for OllamaEmbeddings {
    type Reply = Embeddings;
    const PATH: &'static str = "api/embed";
    /// A batch takes seconds even without a graphics card. Servers do not say how long an input may be: some versions
    /// crash on more than 510 tokens instead of refusing them.
    const FIRST: Manners =
        Manners { inputs: 128, tokens: 16_000, input_tokens: 500, dimensions: true, encoding_format: false };

    fn body(model: &str, inputs: &[&str], _: Manners, dim: Option<usize>) -> Value {
        let mut body =
            json!({ "model": model, "input": inputs, "truncate": false, "keep_alive": KEEP_ALIVE });
        if let Some(dim) = dim {
            body["dimensions"] = json!(dim);
        }
        body
    }

    fn read(reply: Embeddings, expected: usize) -> (u64, Result<Vec<Vec<f32>>, String>) {
        let vectors = match reply.embeddings.len() {
            number if number == expected => Ok(reply.embeddings),
            number => Err(format!("{number} vectors for {expected} texts")),
        };
        (reply.prompt_eval_count, vectors)
    }
}

impl OllamaEmbedder {
    /// A model on the server at `base_url` (without a path); `dim` is asked for and checked.
    ///
    /// # Errors
    /// When the address cannot be used at all. Nothing is sent yet.
    pub fn new(
        base_url: &str,
        model: &str,
        dim: Option<usize>,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::new(&OLLAMA, base_url, None, model, budget)?;
        Ok(Self { remote: Remote::new(endpoint, dim) })
    }
}

#[async_trait]
impl Embedder for OllamaEmbedder {
    fn model(&self) -> &str {
        self.remote.endpoint.model()
    }

    fn texts_a_request(&self) -> usize {
        self.remote.texts_a_request()
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.remote.embed(texts).await
    }

    async fn version(&self) -> Option<String> {
        digest(&self.remote.endpoint).await
    }

    async fn release(&self) {
        release(&self.remote.endpoint).await;
    }
}

#[derive(Deserialize)]
pub(crate) struct Embeddings {
    embeddings: Vec<Vec<f32>>,
    #[serde(default)]
    prompt_eval_count: u64,
}

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
