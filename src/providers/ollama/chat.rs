//! `/api/chat`: one prompt, one JSON reply.
//! Turning the reply's text into values is `reply.rs`'s work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{KEEP_ALIVE, OLLAMA, release};
use crate::providers::bounds::{has_bounds, without_bounds};
use crate::providers::budget::Budget;
use crate::providers::embedding::estimate_tokens;
use crate::providers::http::{Endpoint, Failure, Rejection};
use crate::providers::{LanguageModel, Prompt, ProviderError, Reply};

/// The smallest context that is asked for, in tokens.
const LEAST_CONTEXT: usize = 2_048;
/// The largest: what the small models that fit a laptop were made for. Beyond it a server cuts prompts silently.
const MOST_CONTEXT: usize = 32_768;
/// The shortest reply that is worth asking for, in tokens.
const LEAST_REPLY: usize = 512;
/// Tokens for what the model's template puts around the messages.
const TEMPLATE: usize = 100;

/// A language model on an Ollama server.
#[derive(Debug)]
pub struct OllamaChat {
    endpoint: Endpoint,
    manners: Mutex<Manners>,
    /// Held while the server's manners are still unknown, so that requests at once do not pay for them twice.
    first: tokio::sync::Mutex<()>,
    /// The largest context that was needed so far. A smaller one would only make the server load the model again.
    context: AtomicUsize,
}

/// How a server wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Manners {
    format: Format,
    /// It takes `think`, which keeps a reasoning model from spending the reply's tokens on thoughts.
    think: bool,
    /// A request has succeeded like this, or every other way failed: a refusal that names nothing is then about the
    /// request's content.
    settled: bool,
}

/// What a request may take of the model's memory, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    context: usize,
    reply: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A schema with the bounds of texts, lists and numbers.
    Bounded,
    /// The same without them.
    Schema,
    Json,
    Plain,
}

impl Manners {
    const FIRST: Self = Self { format: Format::Bounded, think: true, settled: false };

    /// The next way to ask after a refusal: without what it names, else one step down the ladder.
    fn adapt(self, rejection: &Rejection, prompt: &Prompt) -> Option<Self> {
        let is_hopeless =
            rejection.status == 404 || rejection.names(&["does not support chat", "system memory"]);
        if is_hopeless || rejection.is_too_long() {
            return None;
        }
        if self.think && rejection.names(&["think"]) {
            return Some(Self { think: false, ..self });
        }
        if rejection.names(&["format", "schema", "grammar"]) {
            return self.next_format(rejection, prompt);
        }
        // Only these two say "the request is wrong".
        let by_ladder = !self.settled && matches!(rejection.status, 400 | 422);
        let without_think = || self.think.then_some(Self { think: false, ..self });
        by_ladder.then(|| without_think().or_else(|| self.next_format(rejection, prompt))).flatten()
    }

    fn next_format(self, rejection: &Rejection, prompt: &Prompt) -> Option<Self> {
        // An old server does not know schemas at all, and says that it cannot read one.
        let knows_schemas = !rejection.names(&["unmarshal"]);
        let format = match self.format {
            Format::Bounded if knows_schemas && has_bounds(&prompt.schema) => Format::Schema,
            Format::Bounded | Format::Schema => Format::Json,
            Format::Json => Format::Plain,
            Format::Plain => return None,
        };
        Some(Self { format, ..self })
    }

    /// The standing instructions, with the schema where the server does not enforce it.
    fn system(self, prompt: &Prompt) -> String {
        match self.format {
            Format::Bounded | Format::Schema => prompt.system.clone(),
            Format::Json | Format::Plain => format!(
                "{}\n\nAnswer with one JSON object that follows this JSON schema, and with nothing else:\n{}",
                prompt.system, prompt.schema
            ),
        }
    }

    fn body(self, model: &str, prompt: &Prompt, room: Room) -> Value {
        let mut body = json!({
            "model": model,
            "messages": [
                { "role": "system", "content": self.system(prompt) },
                { "role": "user", "content": prompt.user.as_str() },
            ],
            "stream": false,
            // Servers that know this refuse a prompt that does not fit, instead of cutting it.
            "truncate": false,
            "keep_alive": KEEP_ALIVE,
            "options": { "num_ctx": room.context, "num_predict": room.reply, "temperature": 0.1 },
        });
        match self.format {
            Format::Bounded => body["format"] = prompt.schema.clone(),
            Format::Schema => body["format"] = without_bounds(&prompt.schema),
            Format::Json => body["format"] = json!("json"),
            Format::Plain => {}
        }
        if self.think {
            body["think"] = json!(false);
        }
        body
    }
}

impl OllamaChat {
    /// A model on the server at `base_url` (without a path).
    ///
    /// # Errors
    /// When the address cannot be used at all. Nothing is sent yet.
    pub fn new(base_url: &str, model: &str, budget: Arc<Budget>) -> Result<Self, ProviderError> {
        Ok(Self {
            endpoint: Endpoint::new(&OLLAMA, base_url, None, model, budget)?,
            manners: Mutex::new(Manners::FIRST),
            first: tokio::sync::Mutex::new(()),
            context: AtomicUsize::new(LEAST_CONTEXT),
        })
    }

    fn manners(&self) -> Manners {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, manners: Manners) {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner) = Manners { settled: true, ..manners };
    }

    /// Room for a prompt and its reply: the context, which is the largest that was needed so far in powers of two, and the
    /// tokens the reply may have of it.
    fn room(&self, prompt: &Prompt, manners: Manners) -> Result<Room, ProviderError> {
        let asked = tokens_of(prompt, manners);
        let wanted = prompt.max_tokens as usize;
        if asked + wanted.min(LEAST_REPLY) > MOST_CONTEXT {
            let detail = format!("none was asked for: the prompt takes {asked} of {MOST_CONTEXT} tokens");
            return Err(self.endpoint.malformed(detail));
        }
        let reply = wanted.min(MOST_CONTEXT - asked);
        let context = (asked + reply).next_power_of_two();
        Ok(Room { context: self.context.fetch_max(context, Ordering::Relaxed).max(context), reply })
    }

    /// Asks, one way after the other, until the server accepts one.
    async fn ask(&self, prompt: &Prompt) -> Result<Completion, ProviderError> {
        let first = self.manners();
        let mut manners = first;
        loop {
            let body = manners.body(self.model(), prompt, self.room(prompt, manners)?);
            let rejection = match self.endpoint.post("api/chat", &body).await {
                Ok(completion) => {
                    if manners != first || !first.settled {
                        self.remember(manners);
                    }
                    return Ok(completion);
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Rejected(rejection)) => rejection,
            };
            let Some(next) = manners.adapt(&rejection, prompt) else {
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
        let (input_tokens, output_tokens) = (completion.prompt_eval_count, completion.eval_count);
        // Before anything is judged: a cut-off reply is paid, too.
        self.endpoint.budget().add_tokens(input_tokens, output_tokens);
        if completion.done_reason.as_deref() == Some("length") {
            let (model, max_tokens) = (self.model().to_owned(), prompt.max_tokens);
            return Err(ProviderError::CutOff { model, max_tokens });
        }
        if completion.done == Some(false) {
            return Err(self.endpoint.malformed("it breaks off"));
        }
        // What a reasoning model thought aloud stays unread.
        let text = completion.message.content;
        if text.trim().is_empty() {
            return Err(self.endpoint.malformed("it is empty"));
        }
        Ok(Reply { text, input_tokens, output_tokens })
    }
}

/// Tokens of a prompt: an upper estimate.
fn tokens_of(prompt: &Prompt, manners: Manners) -> usize {
    estimate_tokens(&manners.system(prompt)) + estimate_tokens(prompt.user.as_str()) + TEMPLATE
}

#[async_trait]
impl LanguageModel for OllamaChat {
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

    async fn release(&self) {
        release(&self.endpoint).await;
    }
}

#[derive(Deserialize)]
struct Completion {
    message: Message,
    done: Option<bool>,
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: String,
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
