//! A fake Ollama server, built from its public API: it checks the shape of every request, embeds with the `lexical`
//! vectors, answers chats from a closure, and behaves as badly as it is told to: replies in lines, a slow first token,
//! half replies, missing models, flags and formats of newer versions rejected.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use crate::fake_openai::vector;

/// What the server answers to a chat.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A whole reply.
    Text(String),
    /// A reply that ended at the token limit (`done_reason: length`).
    CutOff(String),
    /// The regular answer, after this time.
    Late(Duration),
    /// An error.
    Error(u16, &'static str),
    /// 200 with half a body.
    Torn,
    /// 200 with a page that is no JSON.
    Page,
}

type Chat = Box<dyn Fn(&Value) -> String + Send + Sync>;
type Embed = fn(&str) -> Vec<f32>;

/// Describes a server, then starts it.
pub struct FakeOllama {
    models: Vec<(&'static str, String)>,
    chat: Chat,
    embed: Embed,
    first_chats: VecDeque<Reply>,
    first_embeddings: VecDeque<Reply>,
    every: Option<(usize, Vec<Reply>)>,
    thinks: bool,
    schemas: bool,
    lines: bool,
    longest: usize,
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
    released: Vec<String>,
    wrong: Vec<String>,
}

impl FakeOllama {
    /// A current server with both default models: vectors of 64 dimensions, an empty object for every chat.
    pub fn new() -> Self {
        Self {
            models: vec![
                ("nomic-embed-text:latest", "0a109f422b47".into()),
                ("qwen2.5:3b", "357c53fb659c".into()),
            ],
            chat: Box::new(|_| "{}".into()),
            embed: |text| vector(text, 64),
            first_chats: VecDeque::new(),
            first_embeddings: VecDeque::new(),
            every: None,
            thinks: true,
            schemas: true,
            lines: false,
            longest: 8_192,
        }
    }

    /// Without this model.
    #[must_use]
    pub fn without(mut self, model: &str) -> Self {
        self.models.retain(|(name, _)| !is_model(name, model));
        self
    }

    /// With other weights under the name of the embedding model.
    #[must_use]
    pub fn other_weights(mut self, digest: &str) -> Self {
        self.models[0].1 = digest.into();
        self
    }

    /// Answers chats from their request body.
    #[must_use]
    pub fn chat(mut self, chat: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        self.chat = Box::new(chat);
        self
    }

    /// Embeds so.
    #[must_use]
    pub fn embed(mut self, embed: Embed) -> Self {
        self.embed = embed;
        self
    }

    /// Answers the first chats so, whatever they ask.
    #[must_use]
    pub fn first_chats(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.first_chats.extend(replies);
        self
    }

    /// Answers the first embeddings so; `Text` is the regular answer.
    #[must_use]
    pub fn first_embeddings(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.first_embeddings.extend(replies);
        self
    }

    /// Every `n`th chat is answered so, with these replies in turn.
    #[must_use]
    pub fn every(mut self, n: usize, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.every = Some((n, replies.into_iter().collect()));
        self
    }

    /// Rejects the flag `think`, as servers do for models that do not reason.
    #[must_use]
    pub fn not_thinking(mut self) -> Self {
        self.thinks = false;
        self
    }

    /// Knows no schemas, as versions before 0.5.
    #[must_use]
    pub fn without_schemas(mut self) -> Self {
        self.schemas = false;
        self
    }

    /// Answers every chat in lines although `stream` is off.
    #[must_use]
    pub fn in_lines(mut self) -> Self {
        self.lines = true;
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
    /// The value of `OLLAMA_BASE_URL`.
    pub fn base_url(&self) -> String {
        self.server.uri()
    }

    /// The chat requests so far, failed ones included.
    pub fn chats(&self) -> Vec<Value> {
        self.seen.lock().unwrap().chats.clone()
    }

    /// The embedding requests so far, failed ones included.
    pub fn embeddings(&self) -> Vec<Value> {
        self.seen.lock().unwrap().embeddings.clone()
    }

    /// The models that were told to leave memory.
    pub fn released(&self) -> Vec<String> {
        self.seen.lock().unwrap().released.clone()
    }

    /// All requests to models so far.
    pub fn calls(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.chats.len() + seen.embeddings.len()
    }

    /// What Ollama would not have understood. Every test that starts a server ends by finding this empty.
    pub fn wrong(&self) -> Vec<String> {
        self.seen.lock().unwrap().wrong.clone()
    }
}

/// Answers the requests of a running server.
struct Desk {
    fake: FakeOllama,
    scripts: Mutex<Scripts>,
    seen: Arc<Mutex<Seen>>,
}

/// How far the scripts have come.
#[derive(Default)]
struct Scripts {
    chats: usize,
    embeddings: usize,
    failures: usize,
}

impl Respond for Desk {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body = request.body_json::<Value>().unwrap_or(Value::Null);
        match (request.method.as_str(), request.url.path()) {
            ("GET", "/api/tags") => self.tags(),
            ("POST", "/api/chat") => self.chat(&body),
            ("POST", "/api/embed") => self.embed(&body),
            ("POST", "/api/generate") => self.unload(&body),
            (method, path) => {
                self.seen.lock().unwrap().wrong.push(format!("no such endpoint: {method} {path}"));
                ResponseTemplate::new(404).set_body_string("404 page not found")
            }
        }
    }
}

impl Desk {
    fn tags(&self) -> ResponseTemplate {
        let models = self.fake.models.iter().map(|(name, digest)| {
            json!({ "name": name, "model": name, "digest": digest, "size": 1, "details": { "family": "bert" } })
        });
        ResponseTemplate::new(200).set_body_json(json!({ "models": models.collect::<Vec<_>>() }))
    }

    /// Notes a request, and what is wrong with it or missing here.
    fn take_in(&self, body: &Value, checked: Result<(), String>) -> Option<ResponseTemplate> {
        if let Err(wrong) = checked {
            self.seen.lock().unwrap().wrong.push(wrong.clone());
            return Some(error(400, &wrong));
        }
        let model = body["model"].as_str().unwrap_or_default();
        let is_there = self.fake.models.iter().any(|(name, _)| is_model(name, model));
        (!is_there).then(|| error(404, &format!("model \"{model}\" not found, try pulling it first")))
    }

    fn chat(&self, body: &Value) -> ResponseTemplate {
        self.seen.lock().unwrap().chats.push(body.clone());
        if let Some(refused) = self.take_in(body, check_chat(body)) {
            return refused;
        }
        if !self.fake.thinks && body.get("think").is_some() {
            let model = &body["model"];
            return error(400, &format!("{model} does not support thinking"));
        }
        if !self.fake.schemas && body["format"].is_object() {
            return error(
                400,
                "json: cannot unmarshal object into Go struct field ChatRequest.format of type string",
            );
        }
        let answer = |text: &str| match self.fake.lines {
            true => lines(body, text),
            false => said(body, text, "stop"),
        };
        match self.scripted_chat() {
            None => answer(&(self.fake.chat)(body)),
            Some(Reply::Text(text)) => answer(&text),
            Some(Reply::CutOff(text)) => said(body, &text, "length"),
            Some(Reply::Late(delay)) => answer(&(self.fake.chat)(body)).set_delay(delay),
            Some(failure) => failed(&failure),
        }
    }

    fn scripted_chat(&self) -> Option<Reply> {
        let mut scripts = self.scripts.lock().unwrap();
        scripts.chats += 1;
        if let Some((n, failures)) = &self.fake.every
            && scripts.chats.is_multiple_of(*n)
        {
            scripts.failures += 1;
            return Some(failures[(scripts.failures - 1) % failures.len()].clone());
        }
        self.fake.first_chats.get(scripts.chats - 1).cloned()
    }

    fn embed(&self, body: &Value) -> ResponseTemplate {
        self.seen.lock().unwrap().embeddings.push(body.clone());
        if let Some(refused) = self.take_in(body, check_embed(body)) {
            return refused;
        }
        let texts: Vec<&str> = body["input"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        // Four letters a token.
        let tokens = |text: &&str| text.chars().count() / 4;
        if texts.iter().any(|text| tokens(text) > self.fake.longest) {
            return error(400, "the input length exceeds the context length");
        }
        let vectors: Vec<Vec<f32>> = texts.iter().map(|text| (self.fake.embed)(text)).collect();
        let total: usize = texts.iter().map(tokens).sum();
        let regular = ResponseTemplate::new(200).set_body_json(
            json!({ "model": body["model"], "embeddings": vectors, "prompt_eval_count": total }),
        );
        let mut scripts = self.scripts.lock().unwrap();
        scripts.embeddings += 1;
        match self.fake.first_embeddings.get(scripts.embeddings - 1) {
            None | Some(Reply::Text(_)) => regular,
            Some(Reply::Late(delay)) => regular.set_delay(*delay),
            Some(failure) => failed(failure),
        }
    }

    fn unload(&self, body: &Value) -> ResponseTemplate {
        let mut seen = self.seen.lock().unwrap();
        let model = body["model"].as_str().unwrap_or_default();
        if body.get("prompt").is_some() || body["keep_alive"] != 0 || model.is_empty() {
            seen.wrong.push(format!("generate: {body}"));
        }
        seen.released.push(model.to_owned());
        ResponseTemplate::new(200)
            .set_body_json(json!({ "response": "", "done": true, "done_reason": "unload" }))
    }
}

/// Whether a name of the server is the model that is asked for.
fn is_model(name: &str, asked: &str) -> bool {
    name == asked || name.strip_suffix(":latest") == Some(asked)
}

fn done(body: &Value, content: &str, done_reason: &str) -> Value {
    let (input, output) = (body["messages"].to_string().len() / 4, content.len() / 4);
    json!({
        "model": body["model"], "created_at": "2026-03-10T02:00:00Z", "done": true, "done_reason": done_reason,
        "total_duration": 1, "load_duration": 1, "prompt_eval_count": input, "eval_count": output,
    })
}

fn said(body: &Value, content: &str, done_reason: &str) -> ResponseTemplate {
    let mut reply = done(body, content, done_reason);
    reply["message"] =
        json!({ "role": "assistant", "content": content, "thinking": "Hm. {\"memories\": 1}" });
    ResponseTemplate::new(200).set_body_json(reply)
}

/// The reply in lines of a few characters, as a stream has them.
fn lines(body: &Value, content: &str) -> ResponseTemplate {
    let characters: Vec<char> = content.chars().collect();
    let mut text = String::new();
    for part in characters.chunks(16) {
        let part: String = part.iter().collect();
        let message = json!({ "role": "assistant", "content": part });
        text.push_str(&format!("{}\n", json!({ "model": body["model"], "message": message, "done": false })));
    }
    let mut last = done(body, content, "stop");
    last["message"] = json!({ "role": "assistant", "content": "" });
    text.push_str(&format!("{last}\n"));
    ResponseTemplate::new(200).set_body_raw(text, "application/x-ndjson")
}

fn failed(failure: &Reply) -> ResponseTemplate {
    match failure {
        Reply::Error(status, message) => error(*status, message),
        Reply::Torn => ResponseTemplate::new(200).set_body_string("{\"message\":{\"content\":\"{\\\"mem"),
        Reply::Page => ResponseTemplate::new(200).set_body_string("<html>busy</html>"),
        other => unreachable!("answered by the caller: {other:?}"),
    }
}

fn error(status: u16, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(json!({ "error": message }))
}

fn check_chat(body: &Value) -> Result<(), String> {
    check_parameters(
        body,
        &["model", "messages", "format", "options", "stream", "think", "truncate", "keep_alive"],
    )?;
    if body["stream"] != false || body["keep_alive"] != "30m" {
        return Err("stream is on, or the model would leave".into());
    }
    let messages = body["messages"].as_array().ok_or("messages is not a list")?;
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    let contents: Vec<&str> = messages.iter().filter_map(|message| message["content"].as_str()).collect();
    if roles != ["system", "user"] || contents.iter().any(|content| content.trim().is_empty()) {
        return Err(format!("messages are from {roles:?}, or one is empty"));
    }
    match &body["format"] {
        Value::Object(schema) if schema["type"] == "object" => {}
        Value::String(json) if json == "json" && contents.concat().contains("JSON") => {}
        Value::Null if contents.concat().contains("JSON") => {}
        other => return Err(format!("format {other}")),
    }
    let options = &body["options"];
    check_options(options, contents.concat().chars().count() / 4)
}

fn check_options(options: &Value, asked: usize) -> Result<(), String> {
    let known = ["num_ctx", "num_predict", "temperature"];
    if let Some(odd) =
        options.as_object().ok_or("no options")?.keys().find(|key| !known.contains(&key.as_str()))
    {
        return Err(format!("unknown option {odd}"));
    }
    let number = |name: &str| options[name].as_u64().unwrap_or(0) as usize;
    let (context, reply) = (number("num_ctx"), number("num_predict"));
    if reply == 0 || context < asked + reply || !context.is_power_of_two() || context > 32_768 {
        return Err(format!("a context of {context} for {asked} and {reply} tokens"));
    }
    Ok(())
}

fn check_embed(body: &Value) -> Result<(), String> {
    check_parameters(body, &["model", "input", "truncate", "keep_alive", "dimensions"])?;
    let inputs = body["input"].as_array().ok_or("input is not a list")?;
    if inputs.is_empty() || inputs.iter().any(|text| text.as_str().is_none_or(str::is_empty)) {
        return Err("there is no input, or one is empty or no text".into());
    }
    if body["truncate"] != false || body["keep_alive"] != "30m" {
        return Err("inputs would be cut, or the model would leave".into());
    }
    Ok(())
}

fn check_parameters(body: &Value, known: &[&str]) -> Result<(), String> {
    let body = body.as_object().ok_or("the body is no JSON object")?;
    match body.keys().find(|key| !known.contains(&key.as_str())) {
        Some(odd) => Err(format!("unknown parameter {odd}")),
        None => Ok(()),
    }
}
