//! The models that the settings name, ready to be asked. Nothing is sent yet.

use std::sync::Arc;

use super::budget::Budget;
use super::embedding::requests;
use super::ollama::embeddings::OllamaEmbeddings;
use super::ollama::{OllamaChat, OllamaEmbedder};
use super::openai::embeddings::OpenAiEmbeddings;
use super::openai::{OpenAiChat, OpenAiEmbedder};
use super::{Embedder, Reasoner, local, sentence_transformers};
use crate::config::{Config, ConfigError, EmbeddingProvider, LlmProvider};
use crate::error::Error;

/// Who embeds.
///
/// # Errors
/// When its address, key or name cannot be used at all.
pub fn embedder(config: &Config, budget: Arc<Budget>) -> Result<Box<dyn Embedder>, Error> {
    let (openai, ollama, dim) = (&config.openai, &config.ollama, config.embedding_dim);
    Ok(match config.embedding_provider {
        EmbeddingProvider::Builtin => {
            local::open(&config.builtin_model, &config.models_dir).map_err(ConfigError::of_builtin)?
        }
        EmbeddingProvider::SentenceTransformers => {
            sentence_transformers::open(&config.st_model_name, &config.models_dir, &config.hub)
                .map_err(ConfigError::of_sentence_transformers)?
        }
        EmbeddingProvider::Ollama => {
            Box::new(OllamaEmbedder::new(&ollama.base_url, &ollama.embedding_model, dim, budget)?)
        }
        EmbeddingProvider::OpenAi => {
            let (model, key) = (&openai.embedding_model, openai.embedding_key().cloned());
            Box::new(match &openai.embedding_base_url {
                Some(own) => OpenAiEmbedder::at_its_own_server(own, key, model, dim, budget)?,
                None => OpenAiEmbedder::new(&openai.base_url, key, model, dim, budget)?,
            })
        }
    })
}

/// Who distils and judges.
///
/// # Errors
/// When its address, key or name cannot be used at all.
pub fn reasoner(config: &Config, budget: Arc<Budget>) -> Result<Reasoner<'static>, Error> {
    let (openai, ollama) = (&config.openai, &config.ollama);
    Ok(match config.llm_provider {
        LlmProvider::Extractive => Reasoner::Extractive,
        LlmProvider::Ollama => {
            Reasoner::Model(Box::new(OllamaChat::new(&ollama.base_url, &ollama.llm_model, budget)?))
        }
        LlmProvider::OpenAi => {
            let key = openai.api_key.clone();
            Reasoner::Model(Box::new(OpenAiChat::new(&openai.base_url, key, &openai.llm_model, budget)?))
        }
    })
}

/// How many requests embedding these texts takes; none where nothing is sent.
pub(crate) fn embedding_requests(config: &Config, texts: &[&str]) -> usize {
    match config.embedding_provider {
        EmbeddingProvider::Builtin | EmbeddingProvider::SentenceTransformers => 0,
        EmbeddingProvider::Ollama => requests::<OllamaEmbeddings>(texts),
        EmbeddingProvider::OpenAi => requests::<OpenAiEmbeddings>(texts),
    }
}
