//! How a chat server wants to be asked: what a request holds, and what the next one holds after a refusal, or after a
//! reply that shows that a parameter was not heeded. Pure; asking is `chat.rs`'s work.

use serde_json::{Value, json};

use super::server::Kind;
use crate::providers::Prompt;
use crate::providers::bounds::{has_bounds, without_bounds};
use crate::providers::http::Rejection;

/// How a server wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manners {
    format: Format,
    limit: Limit,
    temperature: bool,
    /// Whether the model's template knows a system role; else the instructions stand before the material.
    system: bool,
    /// Whether a relay is to choose only servers that know all of these parameters.
    require: bool,
    /// A request has succeeded like this, or every other way failed: a refusal that names no parameter is then
    /// about the request's content.
    pub(super) settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `json_schema` with the bounds of texts, lists and numbers.
    Bounded,
    /// `json_schema` without them: what OpenAI takes.
    Schema,
    /// `json_object` with the schema beside it, as llama.cpp had it first and its Python server still has.
    ObjectWithSchema,
    JsonObject,
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    MaxCompletionTokens,
    MaxTokens,
    None,
}

/// What a reply shows of how the request was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heed {
    /// It is what was asked for, or nothing can be said.
    Fine,
    /// It is not of the schema's shape.
    OtherShape,
    /// There is nothing but what the model thought: the schema was laid over that.
    ThoughtOnly,
}

const FORMAT_WORDS: [&str; 6] =
    ["response_format", "response format", "json_schema", "json_object", "schema", "grammar"];

const SYSTEM_WORDS: [&str; 4] =
    ["system role", "roles must alternate", "messages[0].role", "only user and assistant roles"];

impl Manners {
    /// How a server of this kind is asked first.
    pub(super) fn first(kind: Kind) -> Self {
        Self {
            // OpenAI refuses a strict schema with `maxLength`, and large models know when to stop.
            format: match kind {
                Kind::OpenAi | Kind::Azure | Kind::OpenRouter => Format::Schema,
                Kind::Other => Format::Bounded,
            },
            limit: Limit::MaxCompletionTokens,
            temperature: true,
            system: true,
            require: kind == Kind::OpenRouter,
            settled: false,
        }
    }

    /// As it is, for good.
    pub(super) fn settle(self) -> Self {
        Self { settled: true, ..self }
    }

    /// The next way to ask after a refusal: without the parameter it names, else one step down the ladder.
    pub(super) fn adapt(self, rejection: &Rejection, prompt: &Prompt) -> Option<Self> {
        let is_hopeless = rejection.is_too_long() || rejection.is_quota();
        if is_hopeless || rejection.is_filtered() || rejection.is_version() {
            return None;
        }
        let is_routing = rejection.is_routing();
        if is_routing && self.require {
            // Not every server behind it knows all parameters; it may then leave some out.
            return Some(Self { require: false, ..self });
        }
        self.without_named(rejection, prompt).or_else(|| {
            // Only these say "the request is wrong"; another 404 is about the model.
            let by_ladder = !self.settled && (is_routing || matches!(rejection.status, 400 | 422));
            by_ladder
                .then(|| {
                    self.next_format(rejection, prompt)
                        .or_else(|| self.next_limit())
                        .or_else(|| self.without_temperature())
                })
                .flatten()
        })
    }

    /// Without the parameter that a refusal names.
    fn without_named(self, rejection: &Rejection, prompt: &Prompt) -> Option<Self> {
        let limit = match self.limit {
            Limit::MaxCompletionTokens if rejection.names(&["max_completion_tokens"]) => self.next_limit(),
            Limit::MaxTokens if rejection.names(&["max_tokens"]) => self.next_limit(),
            _ => None,
        };
        let without_system =
            || (self.system && rejection.names(&SYSTEM_WORDS)).then_some(Self { system: false, ..self });
        let format = || rejection.names(&FORMAT_WORDS).then(|| self.next_format(rejection, prompt)).flatten();
        let temperature = || rejection.names(&["temperature"]).then(|| self.without_temperature()).flatten();
        limit.or_else(without_system).or_else(format).or_else(temperature)
    }

    /// The next way to ask after a reply, while nothing is settled.
    pub(super) fn after(self, heed: Heed) -> Option<Self> {
        if self.settled {
            return None;
        }
        let format = match (heed, self.format) {
            (Heed::OtherShape, Format::Bounded | Format::Schema) => Format::JsonObject,
            (Heed::ThoughtOnly, format) if format != Format::Plain => Format::Plain,
            _ => return None,
        };
        Some(Self { format, ..self })
    }

    /// As it is, or where a reply is longer than it was allowed to be, with the older name of that limit: a server that
    /// does not know the newer one writes on and on.
    pub(super) fn after_length(self, tokens: u64, allowed: u32) -> Self {
        match self.limit {
            Limit::MaxCompletionTokens if tokens > u64::from(allowed) => {
                Self { limit: Limit::MaxTokens, ..self }
            }
            _ => self,
        }
    }

    fn next_format(self, rejection: &Rejection, prompt: &Prompt) -> Option<Self> {
        let about_format = rejection.names(&["response_format", "response format"]);
        let about_schema = rejection.names(&["schema", "grammar"]) || !about_format;
        let format = match self.format {
            // It says which it takes.
            Format::Bounded | Format::Schema if rejection.names(&["json_object"]) => Format::ObjectWithSchema,
            Format::Bounded if about_schema && has_bounds(&prompt.schema) => Format::Schema,
            Format::Bounded | Format::Schema | Format::ObjectWithSchema => Format::JsonObject,
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

    /// A request.
    pub(super) fn body(self, model: &str, prompt: &Prompt) -> Value {
        let mut body = json!({ "model": model, "messages": self.messages(prompt) });
        match self.format {
            Format::Bounded | Format::Schema => {
                let schema = match self.format {
                    Format::Bounded => prompt.schema.clone(),
                    _ => without_bounds(&prompt.schema),
                };
                let schema = json!({ "name": prompt.schema_name, "strict": true, "schema": schema });
                body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
            }
            Format::ObjectWithSchema => {
                body["response_format"] = json!({ "type": "json_object", "schema": prompt.schema });
            }
            Format::JsonObject => body["response_format"] = json!({ "type": "json_object" }),
            Format::Plain => {}
        }
        if self.require && self.format != Format::Plain {
            body["provider"] = json!({ "require_parameters": true });
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

    fn messages(self, prompt: &Prompt) -> Value {
        let mut system = prompt.system.clone();
        if !matches!(self.format, Format::Bounded | Format::Schema) {
            system.push_str(
                "\n\nAnswer with one JSON object that follows this JSON schema, and with nothing else:\n",
            );
            system.push_str(&prompt.schema.to_string());
        }
        if !self.system {
            return json!([{ "role": "user", "content": format!("{system}\n\n{}", prompt.user.as_str()) }]);
        }
        json!([
            { "role": "system", "content": system },
            { "role": "user", "content": prompt.user.as_str() },
        ])
    }
}
