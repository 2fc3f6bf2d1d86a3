//! `/new` over HTTP, where the operator has installed a route for it. No stock endpoint of the gateway runs `/new`: they
//! answer 200 and hand the text to the model or to a queue, so the answer is judged before anything is waited for.
//! Exchanges as recorded from openclaw 2026.9.6 (`tests/fixtures/gateway`).

use std::error::Error as _;
use std::io;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{GatewayError, quote};
use crate::openclaw::config::{Credential, Endpoint};
use crate::privacy::is_loopback;

/// Why a route did not end the session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The text `/new` became a prompt.
    #[error(
        "end the session over HTTP: {url} answered 200, but the text went to the model ({what}) and no session was \
         ended; no stock endpoint runs /new, so use --transport ws, or a route of your own for POST /new"
    )]
    WentToModel {
        /// The route.
        url: String,
        /// What in the answer shows it.
        what: &'static str,
    },
    /// The text `/new` was put into a queue for the model.
    #[error(
        "end the session over HTTP: {url} answered 200, but the text went into a queue ({what}) and no session was \
         ended; no stock endpoint runs /new, so use --transport ws, or a route of your own for POST /new"
    )]
    WentToQueue {
        /// The route.
        url: String,
        /// What in the answer shows it.
        what: &'static str,
    },
    /// 401 or 403.
    #[error(
        "end the session over HTTP: {url} refuses the token (HTTP {status}); set OPENCLAW_GATEWAY_TOKEN to \
         gateway.auth.token (routes under /hooks want hooks.token, and do not run /new)"
    )]
    Unauthorized {
        /// The route.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// 404.
    #[error(
        "end the session over HTTP: there is nothing at {url} that does it (HTTP 404{said}); install a route for \
         POST /new in the gateway and enable its plugin, or use --transport ws"
    )]
    NotFound {
        /// The route.
        url: String,
        /// `: …`, what it said.
        said: String,
    },
    /// Another refusal.
    #[error(
        "end the session over HTTP: {url} refuses the request (HTTP {status}{said}); check that the route takes POST with \
         {{\"sessionKey\": …}} and runs sessions.reset, or use --transport ws"
    )]
    Refused {
        /// The route.
        url: String,
        /// The status; 200 where the answer itself says that it failed.
        status: u16,
        /// `: …`, what it said.
        said: String,
    },
    /// 429 or 503.
    #[error("end the session over HTTP: {url} is busy (HTTP {status}{said}); try again later")]
    Busy {
        /// The route.
        url: String,
        /// The status.
        status: u16,
        /// `: …`, what it said.
        said: String,
    },
}

impl RouteError {
    pub(crate) fn exit_code(&self) -> u8 {
        if matches!(self, Self::Busy { .. }) { 75 } else { 1 }
    }
}

/// Posts `/new` for a session; gives its key as the route writes it, else as it was asked.
///
/// # Errors
/// When nobody answers in time, or the answer is not that of a route which ended the session.
pub async fn post_new(endpoint: &Endpoint, key: &str, patience: Duration) -> Result<String, GatewayError> {
    let url = endpoint.url.as_str();
    let unreachable = |error: reqwest::Error| unreachable(endpoint.shown(), error, patience);
    // A redirect would carry the token elsewhere.
    let mut client = reqwest::Client::builder().timeout(patience).redirect(reqwest::redirect::Policy::none());
    if is_loopback(url) {
        client = client.no_proxy();
    }
    let mut request =
        client.build().map_err(unreachable)?.post(url).json(&json!({ "message": "/new", "sessionKey": key }));
    if let Credential::Token(secret) | Credential::Password(secret) = &endpoint.credential {
        request = request.bearer_auth(secret.expose_secret());
    }
    let answer = request.send().await.map_err(unreachable)?;
    let status = answer.status().as_u16();
    let body = answer.text().await.map_err(unreachable)?;
    let ended = judge(endpoint, status, &body)?;
    Ok(ended.unwrap_or_else(|| key.to_string()))
}

/// What an answer means: the session's key, none where the answer does not name it.
fn judge(endpoint: &Endpoint, status: u16, body: &str) -> Result<Option<String>, RouteError> {
    let url = endpoint.shown().to_string();
    let answer: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let said = said(&answer, body, &endpoint.credential);
    match status {
        200..=299 => {}
        401 | 403 => return Err(RouteError::Unauthorized { url, status }),
        404 => return Err(RouteError::NotFound { url, said }),
        429 | 503 => return Err(RouteError::Busy { url, status, said }),
        _ => return Err(RouteError::Refused { url, status, said }),
    }
    let has = |key: &str| answer.get(key).is_some_and(|value| !value.is_null());
    let is = |key: &str, value: &str| answer.get(key).and_then(Value::as_str) == Some(value);
    if has("choices") || is("object", "chat.completion") {
        return Err(RouteError::WentToModel { url, what: "a chat completion" });
    }
    if has("output") || is("object", "response") {
        return Err(RouteError::WentToModel { url, what: "a response" });
    }
    if has("runId") || has("completion") {
        return Err(RouteError::WentToModel { url, what: "an agent run" });
    }
    if has("eventOutcome") || is("mode", "next-heartbeat") || is("mode", "now") {
        return Err(RouteError::WentToQueue { url, what: "an event for the next heartbeat" });
    }
    if answer.get("ok") == Some(&Value::Bool(false)) {
        return Err(RouteError::Refused { url, status, said });
    }
    let key = answer.get("key").or_else(|| answer.get("sessionKey")).and_then(Value::as_str);
    Ok(key.map(str::to_string))
}

/// What the other side says is wrong, as the end of `HTTP 400…`.
fn said(answer: &Value, body: &str, credential: &Credential) -> String {
    let error = answer.get("error");
    let message = error.and_then(|error| error.get("message")).or(error).and_then(Value::as_str);
    // Anything else, such as a page of a proxy, helps nobody.
    let plain = Some(body).filter(|body| answer.is_null() && !body.trim_start().starts_with('<'));
    match message.or(plain).map(|text| quote(text, credential)).filter(|text| !text.is_empty()) {
        Some(text) => format!(": {text}"),
        None => String::new(),
    }
}

fn unreachable(url: &str, error: reqwest::Error, patience: Duration) -> GatewayError {
    let url = url.to_string();
    if error.is_timeout() {
        return GatewayError::Silent { method: "POST /new", seconds: patience.as_secs() };
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
            return GatewayError::Refused { url, bind: String::new() };
        }
        cause = error.source();
    }
    GatewayError::Unreachable { url, source: Box::new(error.without_url()) }
}
