//! `/v1/chat/completions`: one prompt, one JSON reply.
//! How a server wants to be asked is `manners.rs`'s work, turning the reply's text into values `reply.rs`'s. What a model
//! thought before it answered is left where it is.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use super::OPENAI;
use super::manners::{Heed, Manners};
use super::server::{self, Kind};
use crate::providers::budget::Budget;
use crate::providers::http::{Endpoint, Failure};
use crate::providers::{LanguageModel, Prompt, ProviderError, Reply, reply};

/// A language model behind the OpenAI API.
#[derive(Debug)]
pub struct OpenAiChat {
    endpoint: Endpoint,
    manners: Mutex<Manners>,
    /// Held while the server's manners are still unknown, so that requests at once do not pay for them twice.
    first: tokio::sync::Mutex<()>,
}

impl OpenAiChat {
    /// A model at `base_url` (with `/v1`; of Azure also `/openai` and a deployment's path, with `?api-version=`).
    ///
    /// # Errors
    /// When the address or the key cannot be used at all. Nothing is sent yet.
    pub fn new(
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        Self::at(Kind::of(base_url), base_url, key, model, budget)
    }

    /// A model at a server of this kind.
    fn at(
        kind: Kind,
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::new(&OPENAI, &server::base_of(base_url, model), key, model, budget)?;
        let manners = Mutex::new(Manners::first(kind));
        Ok(Self { endpoint, manners, first: tokio::sync::Mutex::new(()) })
    }

    fn manners(&self) -> Manners {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, manners: Manners) {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner) = manners.settle();
    }

    /// Asks, one way after the other, until the server accepts one and answers as it was asked.
    async fn ask(&self, prompt: &Prompt) -> Result<Completion, ProviderError> {
        let first = self.manners();
        let mut manners = first;
        let mut unheeded = None;
        loop {
            let next = match self.endpoint.post("chat/completions", &manners.body(self.model(), prompt)).await
            {
                Ok(completion) => {
                    let completion: Completion = completion;
                    // Before anything is judged: a reply that cannot be used is paid, too.
                    self.endpoint.budget().add_tokens(completion.tokens_in(), completion.tokens_out());
                    let heed = completion.heed(prompt);
                    let Some(next) = manners.after(heed) else {
                        let found = if heed == Heed::Fine { manners } else { first };
                        self.settle(first, found.after_length(completion.tokens_out(), prompt.max_tokens));
                        return Ok(completion);
                    };
                    tracing::debug!(model = self.model(), ?next, ?heed, "asking another way");
                    unheeded = Some(completion);
                    next
                }
                Err(Failure::Final(error)) => return unheeded.ok_or(error),
                Err(Failure::Rejected(rejection)) => {
                    let Some(next) = manners.adapt(&rejection, prompt) else {
                        if manners != first {
                            // No way helped: it is the request. The next one starts as this one did, and does not walk
                            // again.
                            self.remember(first);
                        }
                        return unheeded.ok_or_else(|| self.endpoint.refused(rejection));
                    };
                    let refusal = rejection.message;
                    tracing::debug!(model = self.model(), ?next, refusal, "asking another way");
                    next
                }
            };
            manners = next;
        }
    }

    /// Remembers what worked, unless it is what was known.
    fn settle(&self, first: Manners, found: Manners) {
        if found != first || !first.settled {
            self.remember(found);
        }
    }

    fn read(&self, completion: Completion, prompt: &Prompt) -> Result<Reply, ProviderError> {
        let (input_tokens, output_tokens) = (completion.tokens_in(), completion.tokens_out());
        let choice = completion.choices.into_iter().next();
        let choice = choice.ok_or_else(|| self.endpoint.malformed("it has no choices"))?;
        match choice.finish_reason.as_deref() {
            Some("length" | "max_tokens") => {
                let (model, max_tokens) = (self.model().to_owned(), prompt.max_tokens);
                return Err(ProviderError::CutOff { model, max_tokens });
            }
            Some("content_filter") => {
                return Err(self.endpoint.malformed("content_filter: the server held it back"));
            }
            _ => {}
        }
        if let Some(refusal) = choice.message.refusal.as_ref().filter(|text| !text.is_empty()) {
            return Err(self.endpoint.malformed(format!("refusal: {refusal}")));
        }
        let has_thought = choice.message.has_thought();
        let text = choice.message.content.map(Content::into_text).unwrap_or_default();
        if text.trim().is_empty() {
            let why = if has_thought { "it is empty: the model only thought aloud" } else { "it is empty" };
            return Err(self.endpoint.malformed(why));
        }
        Ok(Reply { text, input_tokens, output_tokens })
    }
}

#[async_trait]
impl LanguageModel for OpenAiChat {
    fn model(&self) -> &str {
        self.endpoint.model()
    }

    async fn complete(&self, prompt: &Prompt) -> Result<Reply, ProviderError> {
        let guard = match self.manners().settled {
            false => Some(self.first.lock().await),
            true => None,
        };
        // Somebody else may have settled them while this request waited; then it need not keep the others waiting.
        let guard = guard.filter(|_| !self.manners().settled);
        let completion = self.ask(prompt).await?;
        drop(guard);
        self.read(completion, prompt)
    }
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    /// Missing, null and half of it are all taken.
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
    refusal: Option<String>,
    /// What the model thought: looked at only to tell why there is no answer.
    #[serde(default)]
    reasoning_content: Value,
    #[serde(default)]
    reasoning: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

impl Completion {
    fn tokens_in(&self) -> u64 {
        self.usage["prompt_tokens"].as_u64().unwrap_or_default()
    }

    fn tokens_out(&self) -> u64 {
        self.usage["completion_tokens"].as_u64().unwrap_or_default()
    }

    /// Whether the reply is what the schema says. One that was cut off, held back or refused says nothing of that.
    fn heed(&self, prompt: &Prompt) -> Heed {
        let Some(Choice { message, finish_reason }) = self.choices.first() else { return Heed::Fine };
        let ended = matches!(finish_reason.as_deref(), None | Some("stop" | "eos" | ""));
        if !ended || message.refusal.as_ref().is_some_and(|refusal| !refusal.is_empty()) {
            return Heed::Fine;
        }
        let text = message.content.as_ref().map(Content::text).unwrap_or_default();
        match text.trim().is_empty() {
            true if message.has_thought() => Heed::ThoughtOnly,
            true => Heed::Fine,
            false if has_shape(&text, &prompt.schema) => Heed::Fine,
            false => Heed::OtherShape,
        }
    }
}

/// Whether a text holds an object with everything that the schema requires at its top.
fn has_shape(text: &str, schema: &Value) -> bool {
    let Ok(Value::Object(found)) = reply::parse::<Value>(text) else { return false };
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    required.iter().filter_map(Value::as_str).all(|name| found.contains_key(name))
}

impl Message {
    fn has_thought(&self) -> bool {
        let thoughts = [&self.reasoning_content, &self.reasoning];
        thoughts.iter().any(|thought| thought.as_str().is_some_and(|thought| !thought.trim().is_empty()))
    }
}

impl Content {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            parts => parts.text(),
        }
    }

    /// The text, without parts that are thoughts.
    fn text(&self) -> String {
        let is_answer = |part: &&Part| matches!(part.kind.as_deref(), None | Some("text" | "output_text"));
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                parts.iter().filter(is_answer).filter_map(|part| part.text.as_deref()).collect()
            }
        }
    }
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "servers_tests.rs"]
mod servers;
