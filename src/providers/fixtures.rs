//! What the tests of the providers share: texts that may leave, a prompt, and budgets that wait milliseconds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Respond, ResponseTemplate};

use super::Prompt;
use super::budget::{Budget, Limits, Patience};
use crate::config::MaskPii;
use crate::privacy::{Outbound, Privacy};

/// Texts for an embedder.
pub(crate) fn outbound(texts: &[&str]) -> Vec<Outbound> {
    let privacy = Privacy::new(MaskPii::Never, false);
    texts.iter().map(|text| privacy.to_embed(text)).collect()
}

/// A prompt with a small schema.
pub(crate) fn prompt(user: &str) -> Prompt {
    Prompt {
        system: "Say what is remembered.".into(),
        user: Privacy::new(MaskPii::Never, false).to_prompt(user),
        schema_name: "memories",
        schema: json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false }),
        max_tokens: 900,
    }
}

/// An hour, four requests at once, 30 retries.
pub(crate) fn limits(max_calls: u32) -> Limits {
    Limits::new(max_calls, 60, 4, Instant::now())
}

/// A budget for `max_calls` requests whose waits take milliseconds.
pub(crate) fn budget(max_calls: u32) -> Arc<Budget> {
    Budget::with_patience(limits(max_calls), patience())
}

/// Four tries, a millisecond between them, half a second a request, however long its reply may be.
pub(crate) fn patience() -> Patience {
    Patience {
        request: Duration::from_millis(500),
        least_tokens_a_second: u32::MAX,
        first_delay: Duration::from_millis(1),
        longest_delay: Duration::from_millis(2),
        ..Patience::default()
    }
}

/// A server that gives these answers in order, then repeats the last.
pub(crate) async fn server(answers: impl IntoIterator<Item = ResponseTemplate>) -> MockServer {
    let server = MockServer::start().await;
    let script = Script(Mutex::new(answers.into_iter().collect()));
    Mock::given(method("POST")).respond_with(script).mount(&server).await;
    server
}

/// An answer with a JSON body.
pub(crate) fn answer(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(body)
}

/// An OpenAI error.
pub(crate) fn error(status: u16, message: &str) -> ResponseTemplate {
    answer(status, json!({ "error": { "message": message, "type": "invalid_request_error" } }))
}

/// The bodies the server received.
pub(crate) async fn bodies(server: &MockServer) -> Vec<Value> {
    let requests = server.received_requests().await.expect("wiremock records requests");
    requests.iter().map(|request| request.body_json().expect("a JSON body")).collect()
}

struct Script(Mutex<VecDeque<ResponseTemplate>>);

impl Respond for Script {
    fn respond(&self, _: &wiremock::Request) -> ResponseTemplate {
        let mut script = self.0.lock().expect("no test panics while it holds the script");
        if script.len() > 1 { script.pop_front() } else { script.front().cloned() }
            .expect("a script has an answer")
    }
}
