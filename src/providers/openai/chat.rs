//! `/v1/chat/completions`: one prompt, one JSON reply.
//! Turning the reply's text into values is `reply.rs`'s work.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::OPENAI;
use crate::providers::budget::Budget;
use crate::providers::http::{Endpoint, Failure, Rejection};
use crate::providers::{LanguageModel, Prompt, ProviderError, Reply};

/// A language model behind the OpenAI API.
#[derive(Debug)]
pub struct OpenAiChat {
    endpoint: Endpoint,
    manners: Mutex<Manners>,
    /// Held while the server's manners are still unknown, so that requests at once do not pay for them twice.
    first: tokio::sync::Mutex<()>,
}

/// How a server wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Manners {
    format: Format,
    limit: Limit,
    temperature: bool,
    /// A request has succeeded like this, or every other way failed: a refusal that names no parameter is then
    /// about the request's content.
    settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Schema,
    JsonObject,
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    MaxCompletionTokens,
    MaxTokens,
    None,
}

impl Manners {
    const FIRST: Self =
        Self { format: Format::Schema, limit: Limit::MaxCompletionTokens, temperature: true, settled: false };

    /// The next way to ask after a refusal: without the parameter it names, else one step down the ladder.
    fn adapt(self, rejection: &Rejection) -> Option<Self> {
        if rejection.is_too_long() {
            return None;
        }
        let named = match self.limit {
            Limit::MaxCompletionTokens if rejection.names(&["max_completion_tokens"]) => self.next_limit(),
            Limit::MaxTokens if rejection.names(&["max_tokens"]) => self.next_limit(),
            _ => None,
        };
        let named = named.or_else(|| {
            let format =
                ["response_format", "response format", "json_schema", "json_object", "schema", "grammar"];
            rejection.names(&format).then(|| self.next_format()).flatten()
        });
        let named =
            named.or_else(|| rejection.names(&["temperature"]).then(|| self.without_temperature()).flatten());
        // Only these two say "the request is wrong"; a 404 that names nothing is about the model.
        let by_ladder = !self.settled && matches!(rejection.status, 400 | 422);
        named.or_else(|| {
            let next =
                || self.next_format().or_else(|| self.next_limit()).or_else(|| self.without_temperature());
            by_ladder.then(next).flatten()
        })
    }

    fn next_format(self) -> Option<Self> {
        let format = match self.format {
            Format::Schema => Format::JsonObject,
            Format::JsonObject => Format::Plain,
            Format::Plain => return None,
        };
        Some(Self { format, ..self })
    }

    fn next_limit(self) -> Option<Self> {
        let limit = match self.limit {
            Limit::MaxCompletionTokens => Limit::MaxTokens,
            Limit::MaxTokens => Limit::None,
            Limit::None => return None,
        };
        Some(Self { limit, ..self })
    }

    fn without_temperature(self) -> Option<Self> {
        self.temperature.then_some(Self { temperature: false, ..self })
    }

    fn body(self, model: &str, prompt: &Prompt) -> Value {
        let mut system = prompt.system.clone();
        if self.format != Format::Schema {
            system.push_str(
                "\n\nAnswer with one JSON object that follows this JSON schema, and with nothing else:\n",
            );
            system.push_str(&prompt.schema.to_string());
        }
        let mut body = json!({
            "model": model,
            "messages": [
                { "role": "system", "content": system },
                { "role": "user", "content": prompt.user.as_str() },
            ],
        });
        match self.format {
            Format::Schema => {
                let schema = json!({ "name": prompt.schema_name, "strict": true, "schema": prompt.schema });
                body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
            }
            Format::JsonObject => body["response_format"] = json!({ "type": "json_object" }),
            Format::Plain => {}
        }
        match self.limit {
            Limit::MaxCompletionTokens => body["max_completion_tokens"] = json!(prompt.max_tokens),
            Limit::MaxTokens => body["max_tokens"] = json!(prompt.max_tokens),
            Limit::None => {}
        }
        if self.temperature {
            body["temperature"] = json!(0.1);
        }
        body
    }
}

impl OpenAiChat {
    /// A model at `base_url` (with `/v1`).
    ///
    /// # Errors
    /// When the address or the key cannot be used at all. Nothing is sent yet.
    pub fn new(
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::new(&OPENAI, base_url, key, model, budget)?;
        Ok(Self { endpoint, manners: Mutex::new(Manners::FIRST), first: tokio::sync::Mutex::new(()) })
    }

    fn manners(&self) -> Manners {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, manners: Manners) {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner) = Manners { settled: true, ..manners };
    }

    /// Asks, one way after the other, until the server accepts one.
    async fn ask(&self, prompt: &Prompt) -> Result<Completion, ProviderError> {
        let first = self.manners();
        let mut manners = first;
        loop {
            let rejection =
                match self.endpoint.post("chat/completions", &manners.body(self.model(), prompt)).await {
                    Ok(completion) => {
                        if manners != first || !first.settled {
                            self.remember(manners);
                        }
                        return Ok(completion);
                    }
                    Err(Failure::Final(error)) => return Err(error),
                    Err(Failure::Rejected(rejection)) => rejection,
                };
            let Some(next) = manners.adapt(&rejection) else {
                if manners != first {
                    // No way helped: it is the request. The next one starts as this one did, and does not walk again.
                    self.remember(first);
                }
                return Err(self.endpoint.refused(rejection));
            };
            tracing::debug!(model = self.model(), ?next, refusal = rejection.message, "asking another way");
            manners = next;
        }
    }

    fn read(&self, completion: Completion, prompt: &Prompt) -> Result<Reply, ProviderError> {
        let usage = completion.usage.unwrap_or_default();
        // Before anything is judged: a cut-off reply is paid, too.
        self.endpoint.budget().add_tokens(usage.prompt_tokens, usage.completion_tokens);
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
        if let Some(refusal) = choice.message.refusal.filter(|text| !text.is_empty()) {
            return Err(self.endpoint.malformed(format!("refusal: {refusal}")));
        }
        let text = choice.message.content.map(Content::into_text).unwrap_or_default();
        if text.trim().is_empty() {
            return Err(self.endpoint.malformed("it is empty"));
        }
        Ok(Reply { text, input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens })
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
    usage: Option<Usage>,
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
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<String>,
}

impl Content {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
