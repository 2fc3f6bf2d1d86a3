//! A fake OpenAI server: it checks the shape of every request as OpenAI would, answers embeddings with the `lexical`
//! vectors and chats from a closure, and fails where it is told to. What a night should make of it is for the tests
//! that start it.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dreamer::providers::local::lexical;
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// What the server answers to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A whole reply.
    Text(String),
    /// A reply that ended at the token limit (`finish_reason: length`).
    CutOff(String),
    /// A reply that was held back (`finish_reason: content_filter`).
    Filtered,
    /// 429 with `retry-after-ms`.
    Busy(u64),
    /// An error with this status.
    Status(u16),
    /// The regular answer, so late that the client has given up.
    Late(Duration),
    /// 200 with half a body.
    NotJson,
}

impl Reply {
    /// A reply whose content is this value.
    pub fn json(value: &Value) -> Self {
        Self::Text(value.to_string())
    }
}

type Chat = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

/// Describes a server, then starts it.
pub struct FakeOpenAi {
    dim: usize,
    key: Option<String>,
    unknown: Vec<&'static str>,
    chat: Chat,
    chat_script: VecDeque<Reply>,
    embeddings_script: VecDeque<Reply>,
    every: Option<(usize, Vec<Reply>)>,
    delay: Duration,
}

/// A running server. It ends when this is dropped.
pub struct Running {
    server: MockServer,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    chats: Vec<Value>,
    embeddings: Vec<Value>,
    wrong: Vec<String>,
}

impl FakeOpenAi {
    /// A server that gives vectors of 64 dimensions and an empty object for every chat.
    pub fn new() -> Self {
        Self {
            dim: 64,
            key: None,
            unknown: Vec::new(),
            chat: Box::new(|_| Reply::Text("{}".into())),
            chat_script: VecDeque::new(),
            embeddings_script: VecDeque::new(),
            every: None,
            delay: Duration::ZERO,
        }
    }

    /// Vectors of so many dimensions, at most 1024; a request's `dimensions` comes first.
    #[must_use]
    pub fn dim(mut self, dim: usize) -> Self {
        self.dim = dim;
        self
    }

    /// Accepts only this key.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Refuses requests with this parameter, as servers do that do not know it. `json_schema` refuses that format.
    #[must_use]
    pub fn without(mut self, parameter: &'static str) -> Self {
        self.unknown.push(parameter);
        self
    }

    /// Answers chats from their request body.
    #[must_use]
    pub fn chat(mut self, chat: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        self.chat = Box::new(chat);
        self
    }

    /// Answers the first chats so, whatever they ask.
    #[must_use]
    pub fn first_chats(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.chat_script.extend(replies);
        self
    }

    /// Answers the first embeddings so; `Text` is the regular answer.
    #[must_use]
    pub fn first_embeddings(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.embeddings_script.extend(replies);
        self
    }

    /// Every `n`th request of either kind fails, with these failures in turn.
    #[must_use]
    pub fn every(mut self, n: usize, failures: impl IntoIterator<Item = Reply>) -> Self {
        self.every = Some((n, failures.into_iter().collect()));
        self
    }

    /// Takes this long for every regular answer.
    #[must_use]
    pub fn slow(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Starts the server on a free port of this machine.
    pub async fn start(self) -> Running {
        let (server, seen) = (MockServer::start().await, Arc::new(Mutex::new(Seen::default())));
        let desk = Desk { scripts: Mutex::new(Scripts::default()), fake: self, seen: seen.clone() };
        Mock::given(any()).respond_with(desk).mount(&server).await;
        Running { server, seen }
    }
}

impl Running {
    /// The value of `OPENAI_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.server.uri())
    }

    /// The chat requests so far, failed ones included.
    pub fn chats(&self) -> Vec<Value> {
        self.seen.lock().unwrap().chats.clone()
    }

    /// The embedding requests so far, failed ones included.
    pub fn embeddings(&self) -> Vec<Value> {
        self.seen.lock().unwrap().embeddings.clone()
    }

    /// All requests so far.
    pub fn calls(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.chats.len() + seen.embeddings.len()
    }

    /// What OpenAI would not have accepted. Every test that starts a server ends by finding this empty.
    pub fn wrong(&self) -> Vec<String> {
        self.seen.lock().unwrap().wrong.clone()
    }
}

/// Answers the requests of a running server.
struct Desk {
    fake: FakeOpenAi,
    scripts: Mutex<Scripts>,
    seen: Arc<Mutex<Seen>>,
}

/// How far the scripts have come.
#[derive(Default)]
struct Scripts {
    calls: usize,
    failures: usize,
    chats: usize,
    embeddings: usize,
}

impl Respond for Desk {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body = request.body_json::<Value>().unwrap_or(Value::Null);
        let path = request.url.path();
        let checked = match (request.method.as_str(), path) {
            ("POST", "/v1/chat/completions") => check_chat(&body),
            ("POST", "/v1/embeddings") => check_embeddings(&body),
            _ => Err(format!("no such endpoint: {} {path}", request.method)),
        };
        let is_chat = path.ends_with("completions");
        let mut seen = self.seen.lock().unwrap();
        if is_chat { &mut seen.chats } else { &mut seen.embeddings }.push(body.clone());
        if let Err(wrong) = checked {
            seen.wrong.push(wrong.clone());
            return error(400, &wrong);
        }
        drop(seen);
        let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        if self.fake.key.as_ref().is_some_and(|key| bearer != Some(&format!("Bearer {key}"))) {
            return error(401, "Incorrect API key provided.");
        }
        if let Some(parameter) = self.fake.unknown.iter().find(|parameter| uses(&body, parameter)) {
            return error(400, &format!("Unsupported parameter: '{parameter}'"));
        }
        let scripted = self.scripted(is_chat);
        let delayed = scripted.is_none() && !self.fake.delay.is_zero();
        let answer = if is_chat { self.chat(&body, scripted) } else { self.embeddings(&body, scripted) };
        if delayed { answer.set_delay(self.fake.delay) } else { answer }
    }
}

impl Desk {
    /// The scripted reply to this request, if there is one.
    fn scripted(&self, is_chat: bool) -> Option<Reply> {
        let mut scripts = self.scripts.lock().unwrap();
        scripts.calls += 1;
        if let Some((n, failures)) = &self.fake.every
            && scripts.calls.is_multiple_of(*n)
        {
            scripts.failures += 1;
            return Some(failures[(scripts.failures - 1) % failures.len()].clone());
        }
        let (script, next) = match is_chat {
            true => (&self.fake.chat_script, &mut scripts.chats),
            false => (&self.fake.embeddings_script, &mut scripts.embeddings),
        };
        *next += 1;
        script.get(*next - 1).cloned()
    }

    fn chat(&self, body: &Value, scripted: Option<Reply>) -> ResponseTemplate {
        match scripted.unwrap_or_else(|| (self.fake.chat)(body)) {
            Reply::Text(text) => said(body, Some(&text), "stop"),
            Reply::CutOff(text) => said(body, Some(&text), "length"),
            Reply::Filtered => said(body, None, "content_filter"),
            Reply::Late(delay) => said(body, Some("{}"), "stop").set_delay(delay),
            failure => failed(&failure),
        }
    }

    fn embeddings(&self, body: &Value, scripted: Option<Reply>) -> ResponseTemplate {
        let dim = body["dimensions"].as_u64().map_or(self.fake.dim, |dim| dim as usize);
        let inputs = body["input"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // Last one first: a client has to order them by their index.
        let mut data: Vec<Value> = inputs
            .enumerate()
            .map(|(index, text)| json!({ "object": "embedding", "index": index, "embedding": vector(text, dim) }))
            .collect();
        data.reverse();
        let tokens = body["input"].to_string().len() / 4;
        let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
        let regular = json!({ "object": "list", "model": body["model"], "data": data, "usage": usage });
        let regular = ResponseTemplate::new(200).set_body_json(regular);
        match scripted {
            None | Some(Reply::Text(_)) => regular,
            Some(Reply::Late(delay)) => regular.set_delay(delay),
            Some(failure) => failed(&failure),
        }
    }
}

/// The `lexical` vector folded to `dim` dimensions: the same words stay the same direction.
pub fn vector(text: &str, dim: usize) -> Vec<f32> {
    let mut folded = vec![0.0; dim];
    for (place, x) in lexical::vector(text).into_iter().enumerate() {
        folded[place % dim] += x;
    }
    if !dreamer::providers::normalise(&mut folded) {
        folded[0] = 1.0;
    }
    folded
}

fn said(body: &Value, content: Option<&str>, finish_reason: &str) -> ResponseTemplate {
    let (input, output) = (body["messages"].to_string().len() / 4, content.unwrap_or_default().len() / 4);
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": content, "refusal": null },
            "finish_reason": finish_reason,
        }],
        "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output },
    }))
}

fn failed(failure: &Reply) -> ResponseTemplate {
    match failure {
        Reply::Busy(ms) => error(429, "Rate limit reached").insert_header("retry-after-ms", ms.to_string()),
        Reply::Status(status) => error(*status, "The server had an error"),
        Reply::NotJson | Reply::CutOff(_) | Reply::Filtered => {
            ResponseTemplate::new(200).set_body_string("{\"data\": [")
        }
        Reply::Text(_) | Reply::Late(_) => unreachable!("answered by the caller"),
    }
}

fn error(status: u16, message: &str) -> ResponseTemplate {
    let error = json!({ "message": message, "type": "invalid_request_error", "param": null, "code": null });
    ResponseTemplate::new(status).set_body_json(json!({ "error": error }))
}

fn uses(body: &Value, parameter: &str) -> bool {
    body.get(parameter).is_some() || body["response_format"]["type"] == parameter
}

fn check_chat(body: &Value) -> Result<(), String> {
    let known =
        ["model", "messages", "response_format", "max_completion_tokens", "max_tokens", "temperature"];
    check_parameters(body, &known)?;
    let messages = body["messages"].as_array().ok_or("messages is not a list")?;
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    if roles != ["system", "user"] {
        return Err(format!("messages are from {roles:?}"));
    }
    let contents: Vec<&str> = messages.iter().filter_map(|message| message["content"].as_str()).collect();
    if contents.len() != 2 || contents.iter().any(|content| content.trim().is_empty()) {
        return Err("a message is empty".into());
    }
    if body.get("max_completion_tokens").is_some() && body.get("max_tokens").is_some() {
        return Err("two token limits".into());
    }
    let format = &body["response_format"];
    match format["type"].as_str() {
        Some("json_schema") => {
            let schema = &format["json_schema"];
            let name = schema["name"].as_str().unwrap_or_default();
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                return Err(format!("schema name {name:?}"));
            }
            if schema["strict"] != true || schema["schema"]["type"] != "object" {
                return Err("the schema is not strict or no object".into());
            }
            check_schema(&schema["schema"])
        }
        Some("json_object") if contents.concat().contains("JSON") => Ok(()),
        Some("json_object") => Err("'messages' must contain the word JSON".into()),
        None if format.is_null() => Ok(()),
        _ => Err(format!("response_format {format}")),
    }
}

/// What OpenAI asks of a strict schema: no other properties, and all of them required, at every level.
fn check_schema(schema: &Value) -> Result<(), String> {
    if let Some(properties) = schema["properties"].as_object() {
        if schema["additionalProperties"] != false {
            return Err("'additionalProperties' is required to be supplied and to be false".into());
        }
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(missing) = properties.keys().find(|key| !required.contains(&key.as_str())) {
            return Err(format!("'required' misses '{missing}'"));
        }
        properties.values().try_for_each(check_schema)?;
    } else if schema["type"] == "object" {
        return Err("an object without 'properties'".into());
    }
    if schema.get("items").is_some() {
        check_schema(&schema["items"])?;
    }
    schema["anyOf"].as_array().into_iter().flatten().try_for_each(check_schema)
}

fn check_embeddings(body: &Value) -> Result<(), String> {
    check_parameters(body, &["model", "input", "encoding_format", "dimensions"])?;
    let inputs = body["input"].as_array().ok_or("input is not a list")?;
    if inputs.is_empty() || inputs.len() > 2_048 {
        return Err(format!("{} inputs", inputs.len()));
    }
    let texts: Vec<&str> = inputs.iter().filter_map(Value::as_str).collect();
    if texts.len() < inputs.len() || texts.iter().any(|text| text.is_empty()) {
        return Err("an input is empty or no text".into());
    }
    // Four letters a token: fewer than any tokenizer makes of this text.
    if texts.iter().map(|text| text.chars().count() / 4).sum::<usize>() > 300_000 {
        return Err("more than 300,000 tokens".into());
    }
    match body.get("encoding_format") {
        None => Ok(()),
        Some(format) if format == "float" => Ok(()),
        Some(format) => Err(format!("encoding_format {format}")),
    }
}

fn check_parameters(body: &Value, known: &[&str]) -> Result<(), String> {
    let body = body.as_object().ok_or("the body is no JSON object")?;
    if let Some(odd) = body.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown parameter {odd}"));
    }
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    if model.is_empty() { Err("no model".into()) } else { Ok(()) }
}

mod tests {
    use std::time::Instant;

    use dreamer::config::MaskPii;
    use dreamer::privacy::Privacy;
    use dreamer::providers::budget::{Budget, Limits, Patience};
    use dreamer::providers::openai::{OpenAiChat, OpenAiEmbedder};
    use dreamer::providers::{Embedder, LanguageModel, Prompt, ProviderError};

    use super::*;

    fn budget() -> Arc<Budget> {
        let (request, delay) = (Duration::from_millis(300), Duration::from_millis(1));
        let patience = Patience {
            request,
            first_delay: delay,
            longest_delay: delay,
            least_tokens_a_second: u32::MAX,
            ..Patience::default()
        };
        Budget::with_patience(Limits::new(100, 60, 4, Instant::now()), patience)
    }

    fn prompt(required: &[&str]) -> Prompt {
        let schema = json!({
            "type": "object",
            "properties": { "memories": { "type": "array", "items": { "type": "string" } } },
            "required": required,
            "additionalProperties": false,
        });
        let user = Privacy::new(MaskPii::Never, false).to_prompt("Alice likes tea.");
        Prompt { system: "Remember.".into(), user, schema_name: "memories", schema, max_tokens: 50 }
    }

    fn chat(server: &Running, budget: Arc<Budget>) -> OpenAiChat {
        OpenAiChat::new(&server.base_url(), Some("sk-fake".to_owned().into()), "fake", budget).unwrap()
    }

    #[tokio::test]
    async fn a_chat_is_answered_from_its_request_after_every_failure() {
        let late = Reply::Late(Duration::from_secs(30));
        let server = FakeOpenAi::new()
            .key("sk-fake")
            .first_chats([Reply::Busy(1), Reply::Status(500), late])
            .chat(|request| Reply::json(&json!({ "memories": [request["messages"][1]["content"]] })))
            .start()
            .await;
        let reply = chat(&server, budget()).complete(&prompt(&["memories"])).await.unwrap();
        assert_eq!(reply.text, r#"{"memories":["Alice likes tea."]}"#);
        assert_eq!((server.chats().len(), server.calls(), server.wrong()), (4, 4, vec![]));
    }

    #[tokio::test]
    async fn failures_come_at_every_nth_request() {
        let server = FakeOpenAi::new()
            .chat(|_| Reply::json(&json!({ "memories": [] })))
            .every(2, [Reply::CutOff("{".into()), Reply::Filtered, Reply::NotJson])
            .start()
            .await;
        let chat = chat(&server, budget());
        let mut outcomes = Vec::new();
        for _ in 0..6 {
            outcomes.push(match chat.complete(&prompt(&["memories"])).await {
                Ok(_) => "fine",
                Err(ProviderError::CutOff { .. }) => "cut off",
                Err(ProviderError::Malformed { .. }) => "malformed",
                Err(other) => panic!("{other}"),
            });
        }
        // The broken body is tried again.
        assert_eq!(outcomes, ["fine", "cut off", "fine", "malformed", "fine", "fine"]);
        assert_eq!(server.calls(), 7);
    }

    #[tokio::test]
    async fn embeddings_have_the_dimension_asked_for_and_know_equal_words() {
        let server =
            FakeOpenAi::new().dim(128).first_embeddings([Reply::Busy(1), Reply::NotJson]).start().await;
        let privacy = Privacy::new(MaskPii::Never, false);
        let texts =
            ["the cat sleeps", "a cat is asleep", "invoices are due"].map(|text| privacy.to_embed(text));
        for (dim, expected) in [(None, 128), (Some(256), 256)] {
            let embedder = OpenAiEmbedder::new(&server.base_url(), None, "fake", dim, budget()).unwrap();
            let vectors = embedder.embed(&texts).await.unwrap();
            assert!(vectors.iter().all(|vector| vector.len() == expected));
            let similarity = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
            assert!(similarity(&vectors[0], &vectors[1]) > similarity(&vectors[0], &vectors[2]) + 0.2);
        }
        assert_eq!((server.embeddings().len(), server.wrong()), (4, vec![]));
    }

    #[tokio::test]
    async fn a_server_that_knows_less_is_met_half_way() {
        let server = FakeOpenAi::new()
            .without("json_schema")
            .without("max_completion_tokens")
            .without("temperature")
            .without("dimensions")
            .start()
            .await;
        chat(&server, budget()).complete(&prompt(&["memories"])).await.unwrap();
        let last = server.chats().pop().unwrap();
        assert_eq!(
            (&last["response_format"]["type"], &last["max_tokens"]),
            (&json!("json_object"), &json!(50))
        );
        assert_eq!((server.chats().len(), server.wrong()), (4, vec![]));
    }

    #[tokio::test]
    async fn a_request_that_openai_would_not_accept_is_noticed() {
        let server = FakeOpenAi::new().start().await;
        // A strict schema has to require every property.
        chat(&server, budget()).complete(&prompt(&[])).await.unwrap();
        assert_eq!(server.wrong(), ["'required' misses 'memories'"]);
        for (path, body, wrong) in [
            ("embeddings", json!({ "model": "fake", "input": ["a", ""] }), "an input is empty"),
            ("embeddings", json!({ "model": "fake", "input": vec!["a"; 2_049] }), "2049 inputs"),
            ("embeddings", json!({ "model": "fake", "input": ["a"], "encoding_format": "base64" }), "base64"),
            ("embeddings", json!({ "input": ["a"] }), "no model"),
            ("chat/completions", json!({ "model": "fake", "messages": [] }), "messages are from []"),
            ("chat/completions", json!({ "model": "fake", "stream": true }), "unknown parameter stream"),
            ("completions", json!({}), "no such endpoint"),
        ] {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let answer =
                client.post(format!("{}/{path}", server.base_url())).json(&body).send().await.unwrap();
            assert_eq!(answer.status(), 400);
            assert!(server.wrong().last().unwrap().contains(wrong), "{:?}", server.wrong());
        }
    }

    #[tokio::test]
    async fn another_key_is_refused() {
        let server = FakeOpenAi::new().key("sk-other").start().await;
        let refused = chat(&server, budget()).complete(&prompt(&["memories"])).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Refused { status: 401, .. }), "{refused}");
    }
}
