//! One JSON request to a model's server: within the run's budget, with retries, and without ever showing the key.
//! What to send and what the answer means is the providers' business.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use regex::Regex;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::ProviderError;
use super::budget::{Budget, Reached};
use super::embedding::estimate_tokens;
use super::near::{is_loopback, is_near};
pub(crate) use super::rejection::Rejection;
use super::retry_after::{retry_after, until};

/// A server is given up when this many requests in a row failed for good: a dead one costs a night minutes and not
/// hours. One alone may be the fault of its own content.
const FAILURES_IN_A_ROW: u32 = 2;

/// How long a question beside the work may take: what a model is, or that it may go.
const ASIDE: Duration = Duration::from_secs(10);

/// Tokens a reply is taken to need at most where the request may not say how many it may have.
const UNSAID_REPLY: u64 = 2_000;

/// Characters of a server's error text that are shown.
const DETAIL_CHARS: usize = 300;

/// What one kind of server has of its own, as far as sending is concerned.
pub(crate) struct Service {
    /// The variable that holds its address.
    pub(crate) address: &'static str,
    /// What to do when nobody answers there.
    pub(crate) start: &'static str,
    /// What to do when no answer comes in time.
    pub(crate) slow: &'static str,
    /// What to do when it answers with errors.
    pub(crate) failing: &'static str,
    /// What the operator can do about a rejection, given the model, where every other request would be answered the
    /// same: key, model name, quota, address. Ends with a full stop and a space.
    pub(crate) remedy: fn(&Rejection, &str) -> Option<String>,
    /// Words in an answer of 5xx that make it a rejection: some servers answer 500 when it is the request they do not
    /// like.
    pub(crate) final_words: &'static [&'static str],
    /// The header that takes the key as it is; where there is none, it goes into `Authorization` as a bearer's.
    pub(crate) key_header: fn(&Url) -> Option<&'static str>,
    /// Makes one JSON value of a reply's body.
    pub(crate) unfold: fn(String) -> String,
    /// Whether a model is loaded only when it is asked for, and requests wait for each other inside the server.
    pub(crate) loads_models: bool,
}

/// A model's server, with the key and the budget.
pub(crate) struct Endpoint {
    service: &'static Service,
    client: Client,
    base: Url,
    key: Option<SecretString>,
    model: String,
    budget: Arc<Budget>,
    /// A request has succeeded: the model is loaded.
    warm: AtomicBool,
    failures: AtomicU32,
    closed: Mutex<Option<Closed>>,
}

/// Why no further request is sent to a server in this run.
#[derive(Clone)]
enum Closed {
    /// Requests in a row failed for good.
    Unreachable(String, &'static str),
    /// Key, model name or quota: the same for every request.
    Refused(Rejection),
}

/// Why a request gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server did not accept the request; the caller may change it and ask again.
    Rejected(Rejection),
    /// Nothing the caller can mend.
    Final(ProviderError),
}

/// What a request costs at most, both ways: an upper estimate of its texts, and the longest reply it asks for.
fn most_tokens(body: &Value, budget: &Budget) -> u64 {
    let texts = estimate_tokens(&body.to_string()) as u64;
    reply_tokens(body).map_or(texts, |reply| texts + reply + budget.left_for_embedding())
}

/// Tokens of the longest reply a request asks for; none where it asks for no words.
fn reply_tokens(body: &Value) -> Option<u64> {
    body.get("messages")?;
    let limits = [&body["max_completion_tokens"], &body["max_tokens"], &body["options"]["num_predict"]];
    Some(limits.into_iter().find_map(Value::as_u64).unwrap_or(UNSAID_REPLY))
}

/// One try that failed in a way that another may mend.
struct Passing {
    cause: Cause,
    retry_after: Option<Duration>,
}

/// The cause of a failed try.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("send the request")]
    Transport(#[source] reqwest::Error),
    #[error("the server answered {status}: {detail}")]
    Answered { status: u16, detail: String },
    #[error("the reply is not JSON: {0}")]
    BrokenBody(String),
    #[error("it failed before in this run: {0}")]
    Closed(String),
}

impl Cause {
    /// Whether the server took the request and did not answer in time.
    fn is_timeout(&self) -> bool {
        matches!(self, Self::Transport(error) if error.is_timeout() && !error.is_connect())
    }
}

impl Endpoint {
    /// A server at `base`. Proxy variables are honoured, except for a
    /// server on this machine: what is sent there is unmasked and must not travel.
    ///
    /// # Errors
    /// When the address or the key cannot be used at all.
    pub(crate) fn new(
        service: &'static Service,
        base: &str,
        key: Option<SecretString>,
        model: &str,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        let unusable = |detail: String| ProviderError::Unusable { model: model.to_owned(), detail };
        let base =
            Url::parse(base).map_err(|e| unusable(format!("{} is not an address: {e}", service.address)))?;
        let mut client = Client::builder()
            .connect_timeout(budget.patience().connect)
            .timeout(budget.patience().request)
            // Followed, a redirect would carry text to a host the privacy policy never saw.
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&base) {
            client = client.no_proxy();
        }
        if let Some(key) = &key {
            let header = (service.key_header)(&base);
            client = client.default_headers(authorization(header, key).map_err(unusable)?);
        }
        let client = client.build().map_err(|e| unusable(format!("no HTTP client: {e}")))?;
        let (model, warm) = (model.to_owned(), AtomicBool::new(false));
        let (failures, closed) = (AtomicU32::new(0), Mutex::new(None));
        Ok(Self { service, client, base, key, model, budget, warm, failures, closed })
    }

    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Sends `body` to `path` and reads the reply, with retries.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        // Cloned first: a guard in the `if let` would still be held when `refused` takes the lock.
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(closed) = closed {
            return Err(Failure::Final(match closed {
                Closed::Unreachable(why, remedy) => self.unreachable(0, Cause::Closed(why), remedy),
                Closed::Refused(rejection) => self.refused(rejection),
            }));
        }
        let estimate = most_tokens(body, &self.budget);
        let reply_tokens = reply_tokens(body).unwrap_or(0);
        let body = serde_json::to_vec(body).expect("a JSON value can be written");
        let mut waits = self.budget.waits();
        let mut tries = 0;
        loop {
            let permit = self.budget.start(estimate).await.map_err(|reached| self.exhausted(reached))?;
            let time_out = self.time_out(reply_tokens);
            let answer = self.send(path, body.clone(), time_out).await;
            drop(permit);
            tries += 1;
            let passing = match answer {
                Ok(reply) => {
                    self.failures.store(0, Ordering::Relaxed);
                    self.warm.store(true, Ordering::Relaxed);
                    return self.read(&reply);
                }
                Err(Try::Rejected(rejection)) => {
                    self.failures.store(0, Ordering::Relaxed);
                    return Err(Failure::Rejected(rejection));
                }
                Err(Try::Passing(passing)) => passing,
            };
            if passing.cause.is_timeout() && time_out > self.usual_time_out() {
                // It had all the time that its reply could need.
                return Err(self.give_up(tries, passing.cause));
            }
            let wait = match (waits.next(), passing.retry_after) {
                (None, _) => return Err(self.give_up(tries, passing.cause)),
                (_, Some(asked)) if asked > self.budget.patience().longest_retry_after => {
                    return Err(self.give_up(tries, passing.cause));
                }
                (Some(wait), asked) => wait.max(asked.unwrap_or_default()),
            };
            if !self.budget.take_retry() {
                return Err(self.give_up(tries, passing.cause));
            }
            tracing::debug!(model = self.model, tries, ?wait, cause = %passing.cause, "trying again");
            self.budget.pause(wait).await.map_err(|reached| self.exhausted(reached))?;
        }
    }

    /// The error for a rejection that the caller cannot mend. Where it concerns every request, none follows.
    pub(crate) fn refused(&self, rejection: Rejection) -> ProviderError {
        let remedy = (self.service.remedy)(&rejection, &self.model);
        if remedy.is_some() {
            self.close(Closed::Refused(rejection.clone()));
        }
        ProviderError::Refused {
            model: self.model.clone(),
            url: self.address(),
            status: rejection.status,
            detail: format!("{}{}", remedy.unwrap_or_default(), rejection.message),
        }
    }

    pub(crate) fn malformed(&self, detail: impl Into<String>) -> ProviderError {
        ProviderError::Malformed { model: self.model.clone(), detail: self.shown(&detail.into()) }
    }

    /// Whether a request has succeeded, so that a server that loads models has loaded this one.
    pub(crate) fn is_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed)
    }

    /// Asks something beside the work: once, briefly, outside the budget and whatever became of the work. With a body it
    /// is a POST.
    ///
    /// # Errors
    /// When there is no answer that can be read; why, for the log.
    pub(crate) async fn aside<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, String> {
        let request = match body {
            Some(body) => self.client.post(self.at(path)).json(body),
            None => self.client.get(self.at(path)),
        };
        let told = |e: reqwest::Error| self.shown(&chain(&e.without_url()));
        let response = request.timeout(ASIDE).send().await.map_err(told)?;
        let status = response.status();
        let text = response.text().await.map_err(told)?;
        if !status.is_success() {
            return Err(format!("answered {}: {}", status.as_u16(), self.shown(&text)));
        }
        serde_json::from_str(&(self.service.unfold)(text)).map_err(|e| e.to_string())
    }

    /// The address of a path; the base's query stays at the end.
    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// How long a request may take. Where the server loads models, the first one waits for that; where it answers one
    /// request after the other, the last of those at once waits for all.
    fn usual_time_out(&self) -> Duration {
        let patience = self.budget.patience();
        if !self.service.loads_models {
            return patience.request;
        }
        let queued = patience.request * u32::try_from(self.budget.concurrency()).unwrap_or(1);
        if self.is_warm() { queued } else { queued.max(patience.cold) }
    }

    /// How long a request for so many tokens may take. A server nearby may be a slow one, whose requests share what it can
    /// write: there it is as long as the reply may need, while the run has time left.
    fn time_out(&self, reply_tokens: u64) -> Duration {
        let usual = self.usual_time_out();
        if !is_near(&self.base) {
            return usual;
        }
        let rate = self.budget.patience().least_tokens_a_second.max(1);
        let at_once = self.budget.concurrency() as u64;
        let writing = Duration::from_secs(reply_tokens.saturating_mul(at_once) / u64::from(rate));
        usual.max(writing.min(self.budget.time_left()))
    }

    async fn send(&self, path: &str, body: Vec<u8>, time_out: Duration) -> Result<String, Try> {
        let request = self.client.post(self.at(path)).header("content-type", "application/json").body(body);
        let request = request.timeout(time_out);
        // The address may hold credentials.
        let transport = |e: reqwest::Error| Try::passing(Cause::Transport(e.without_url()), None);
        let response = request.send().await.map_err(transport)?;
        let (status, retry_after) = (response.status(), retry_after(&response, Utc::now()));
        let text = response.text().await.map_err(transport)?;
        if status.is_success() {
            return self.check((self.service.unfold)(text));
        }
        Err(self.judge(status.as_u16(), retry_after, &text))
    }

    /// A 200 whose body is not JSON, or is an error after all (relays do that, also for a reply that broke off at the
    /// server behind them), is not an answer.
    fn check(&self, text: String) -> Result<String, Try> {
        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct Peek {
            error: Value,
            choices: Value,
        }
        // Only an object is peeked into: a list of vectors is long, and would be taken for a `Peek`.
        let peek = match text.trim_start().starts_with('{') {
            true => serde_json::from_str::<Peek>(&text),
            false => serde_json::from_str::<IgnoredAny>(&text).map(|_| Peek::default()),
        };
        let Peek { error, choices } = match peek {
            Ok(peek) => peek,
            Err(e) => return Err(Try::passing(Cause::BrokenBody(e.to_string()), None)),
        };
        let choice = &choices[0];
        let (error, otherwise) = match (error.is_null(), &choice["error"]) {
            (false, _) => (&error, 400),
            (true, of_choice) if !of_choice.is_null() || choice["finish_reason"] == "error" => {
                (of_choice, 502)
            }
            (true, _) => return Ok(text),
        };
        let code = error["code"].as_u64().unwrap_or(otherwise);
        Err(self.judge(u16::try_from(code).unwrap_or(500), None, &text))
    }

    /// Sorts an answer that is not a success: worth another try, or not.
    fn judge(&self, status: u16, retry_after: Option<Duration>, text: &str) -> Try {
        let rejection = self.rejection(status, text);
        let passing = match StatusCode::from_u16(status) {
            Ok(StatusCode::TOO_MANY_REQUESTS) => !rejection.is_quota(),
            Ok(StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT) => true,
            Ok(StatusCode::NOT_IMPLEMENTED) => false,
            Ok(other) => {
                let is_final = rejection.names(self.service.final_words) || rejection.is_too_long();
                other.is_server_error() && !is_final
            }
            Err(_) => false,
        };
        if passing {
            let reset = || until(rejection.resets_at?, Utc::now());
            let retry_after = retry_after.or_else(reset);
            return Try::passing(Cause::Answered { status, detail: rejection.message }, retry_after);
        }
        Try::Rejected(rejection)
    }

    fn rejection(&self, status: u16, text: &str) -> Rejection {
        let mut rejection = Rejection::read(status, text);
        rejection.message = self.shown(&rejection.message);
        rejection
    }

    fn read<T: DeserializeOwned>(&self, reply: &str) -> Result<T, Failure> {
        serde_json::from_str(reply).map_err(|e| Failure::Final(self.malformed(e.to_string())))
    }

    /// All tries of a request failed. The second such request in a row closes the server for this run.
    fn give_up(&self, tries: u32, cause: Cause) -> Failure {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_IN_A_ROW {
            self.close(Closed::Unreachable(chain(&cause), self.remedy(&cause)));
        }
        let remedy = self.remedy(&cause);
        Failure::Final(match cause {
            Cause::BrokenBody(detail) => self.malformed(format!("it is not JSON: {detail}")),
            cause => self.unreachable(tries, cause, remedy),
        })
    }

    fn close(&self, why: Closed) {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    fn remedy(&self, cause: &Cause) -> &'static str {
        match cause {
            cause if cause.is_timeout() => self.service.slow,
            Cause::Transport(_) => self.service.start,
            _ => self.service.failing,
        }
    }

    fn unreachable(&self, tries: u32, cause: Cause, remedy: &'static str) -> ProviderError {
        let (model, url) = (self.model.clone(), self.address());
        ProviderError::Unreachable { model, url, tries, remedy, source: Box::new(cause) }
    }

    fn exhausted(&self, Reached(what): Reached) -> Failure {
        Failure::Final(ProviderError::Exhausted { model: self.model.clone(), what })
    }

    /// The address without user, password, query.
    fn address(&self) -> String {
        let mut url = self.base.clone();
        let _ = (url.set_username(""), url.set_password(None));
        url.set_query(None);
        url.to_string()
    }

    /// A server's words as they may be shown: one line, short, without anything that looks like a key.
    fn shown(&self, text: &str) -> String {
        let key = self.key.as_ref().map(|key| key.expose_secret()).filter(|key| !key.is_empty());
        let text = match key {
            Some(key) => text.replace(key, "[removed]"),
            None => text.to_owned(),
        };
        let text = LOOKS_LIKE_A_KEY.replace_all(&text, "[removed]");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(DETAIL_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("model", &self.model)
            .field("url", &self.address())
            .finish_non_exhaustive()
    }
}

/// How one try ended, if not well.
enum Try {
    Rejected(Rejection),
    Passing(Passing),
}

impl Try {
    fn passing(cause: Cause, retry_after: Option<Duration>) -> Self {
        Self::Passing(Passing { cause, retry_after })
    }
}

static LOOKS_LIKE_A_KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\bbearer\s+[^\s,;]+|\b(?:sk|pk|rk|gsk|key|api)[-_][\w*.\-]{6,}|\b[A-Za-z0-9_\-]*[*]{3,}[A-Za-z0-9_\-]*|\b[A-Za-z0-9_\-]{32,}\b")
        .expect("a valid pattern")
});

fn authorization(header: Option<&'static str>, key: &SecretString) -> Result<HeaderMap, String> {
    let (name, text) = match header {
        Some(header) => (HeaderName::from_static(header), key.expose_secret().to_owned()),
        None => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| "the key holds characters that no key has, perhaps a line end".to_owned())?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(name, value)]))
}

/// An error with its causes, on one line.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
