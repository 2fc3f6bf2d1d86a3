//! `/v1/embeddings`: what a request looks like and how its reply is put in order.
//! Batching, splitting and checking is `embedding.rs`'s work; only `Outbound` text comes here.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::vectors::{Embeddings, Item};
use super::{OPENAI, OPENAI_EMBEDDING, server};
use crate::privacy::Outbound;
use crate::providers::budget::Budget;
use crate::providers::embedding::{EmbeddingApi, Manners, Remote};
use crate::providers::http::{Endpoint, Service};
use crate::providers::{Embedder, ProviderError};

/// An embedding model behind the OpenAI API. A text beyond the model's 8,191 tokens is split, never cut.
#[derive(Debug)]
pub struct OpenAiEmbedder {
    remote: Remote<OpenAiEmbeddings>,
}

#[derive(Debug)]
pub(crate) struct OpenAiEmbeddings;

impl EmbeddingApi for OpenAiEmbeddings {
    type Reply = Embeddings;
    const PATH: &'static str = "embeddings";
    /// OpenAI's documented limits.
    const FIRST: Manners = Manners {
        inputs: 2_048,
        tokens: 300_000,
        input_tokens: 8_191,
        dimensions: true,
        encoding_format: true,
    };

    fn body(model: &str, inputs: &[&str], manners: Manners, dim: Option<usize>) -> Value {
        let mut body = json!({ "model": model, "input": inputs });
        if manners.encoding_format {
            body["encoding_format"] = json!("float");
        }
        if let Some(dim) = dim {
            body["dimensions"] = json!(dim);
        }
        body
    }

    fn read(reply: Embeddings, expected: usize) -> (u64, Result<Vec<Vec<f32>>, String>) {
        let Embeddings { data, usage } = reply;
        let tokens = ["prompt_tokens", "total_tokens"].iter().find_map(|name| usage[name].as_u64());
        (tokens.unwrap_or_default(), in_order(data, expected))
    }
}

impl OpenAiEmbedder {
    /// A model at `base_url` (with `/v1`); `dim` is asked for where the server can, and checked in any case.
    ///
    /// # Errors
    /// When the address or the key cannot be used at all. Nothing is sent yet.
    pub fn new(
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        dim: Option<usize>,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        Self::of(&OPENAI, base_url, key, model, dim, budget)
    }

    /// The same at a server that embeds alone: what goes wrong there is told with the variables that name it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn at_its_own_server(
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        dim: Option<usize>,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        Self::of(&OPENAI_EMBEDDING, base_url, key, model, dim, budget)
    }

    fn of(
        service: &'static Service,
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        dim: Option<usize>,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::new(service, &server::base_of(base_url, model), key, model, budget)?;
        Ok(Self { remote: Remote::new(endpoint, dim) })
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &str {
        self.remote.endpoint.model()
    }

    fn texts_a_request(&self) -> usize {
        self.remote.texts_a_request()
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.remote.embed(texts).await
    }
}

/// The vectors in the order of the inputs. A server that leaves out every index answers in order.
fn in_order(data: Vec<Item>, expected: usize) -> Result<Vec<Vec<f32>>, String> {
    if data.len() != expected {
        return Err(format!("{} vectors for {expected} texts", data.len()));
    }
    let numbered = data.iter().any(|item| item.index.is_some());
    let mut slots: Vec<Option<Vec<f32>>> = vec![None; expected];
    for (place, item) in data.into_iter().enumerate() {
        let index = if numbered { item.index } else { Some(place) };
        let slot = index.and_then(|index| slots.get_mut(index)).filter(|slot| slot.is_none());
        *slot.ok_or("its indices do not count the texts")? = Some(item.embedding.0);
    }
    Ok(slots.into_iter().flatten().collect())
}

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
