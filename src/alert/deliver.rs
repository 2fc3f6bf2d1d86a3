//! Delivery, the edge: one POST, two tries at most, short time-outs. An address that carries a token never gets into an
//! error, and a server's answer is judged by its status, not quoted.

use std::error::Error as StdError;
use std::time::Duration;

use reqwest::{Client, Response, StatusCode, Url};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::body;
use super::message::Message;
use crate::config::AlertTarget;
use crate::privacy::is_loopback;
use crate::state::StateError;

const TELEGRAM: &str = "https://api.telegram.org";
const TRIES: u32 = 2;

/// Why an alert did not reach the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlertError {
    /// No service is chosen.
    #[error("send an alert: DREAMER_ALERT_PROVIDER is off; set it to telegram, slack or webhook")]
    Off,
    /// The address or the client cannot be used.
    #[error("send an alert to {service}: {variable} is not an address that can be used")]
    Address {
        /// The service.
        service: &'static str,
        /// Where the address comes from.
        variable: &'static str,
    },
    /// The service answered that it does not take it.
    #[error("send an alert to {service}: it answered {status}; {remedy}")]
    Refused {
        /// The service.
        service: &'static str,
        /// HTTP status.
        status: u16,
        /// What to do.
        remedy: &'static str,
    },
    /// The service was not reached.
    #[error("reach {service} for an alert in {tries} tries; check the network")]
    Unreachable {
        /// The service.
        service: &'static str,
        /// Tries made.
        tries: u32,
        /// The last failure, without the address.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// What was told cannot be kept, so that the next run may tell it again.
    #[error("keep which alerts were sent")]
    State {
        /// Why.
        source: StateError,
    },
}

/// How long a delivery may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Time to connect.
    pub connect: Duration,
    /// Time for one try.
    pub request: Duration,
    /// The wait before the second try, where the service asks for none.
    pub pause: Duration,
    /// The longest wait that a service may ask for.
    pub longest_pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            request: Duration::from_secs(10),
            pause: Duration::from_secs(2),
            longest_pause: Duration::from_secs(15),
        }
    }
}

/// Carries messages to one service.
pub struct Courier<'a> {
    target: &'a AlertTarget,
    service: &'static str,
    url: Url,
    client: Client,
    patience: Patience,
}

impl<'a> Courier<'a> {
    /// A courier to the chosen service.
    ///
    /// # Errors
    /// When there is none, or its address cannot be used.
    pub fn new(target: &'a AlertTarget) -> Result<Self, AlertError> {
        Self::with(target, TELEGRAM, Patience::default())
    }

    /// A courier that finds Telegram at another address, such as a test's, and waits as long as it is told.
    ///
    /// # Errors
    /// As [`Courier::new`].
    pub fn with(target: &'a AlertTarget, telegram: &str, patience: Patience) -> Result<Self, AlertError> {
        let (service, variable, url) = match target {
            AlertTarget::Off => return Err(AlertError::Off),
            AlertTarget::Telegram { bot_token, .. } => (
                "Telegram",
                "DREAMER_ALERT_TELEGRAM_BOT_TOKEN",
                format!("{telegram}/bot{}/sendMessage", bot_token.expose_secret()),
            ),
            AlertTarget::Slack { webhook_url: url } => {
                ("Slack", "DREAMER_ALERT_SLACK_WEBHOOK_URL", url.expose_secret().to_string())
            }
            AlertTarget::Webhook { url } => {
                ("the webhook", "DREAMER_ALERT_WEBHOOK_URL", url.expose_secret().to_string())
            }
        };
        let unusable = || AlertError::Address { service, variable };
        let url = Url::parse(&url).map_err(|_| unusable())?;
        let mut client = Client::builder()
            .connect_timeout(patience.connect)
            .timeout(patience.request)
            // Followed, a redirect would carry the text to somebody else.
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(url.as_str()) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|_| unusable())?;
        Ok(Self { target, service, url, client, patience })
    }

    /// Delivers a message.
    ///
    /// # Errors
    /// When the service refuses it, or cannot be reached twice.
    pub async fn deliver(&self, message: &Message) -> Result<(), AlertError> {
        let body = match self.target {
            AlertTarget::Off => return Err(AlertError::Off),
            AlertTarget::Telegram { chat_id, .. } => body::telegram(message, chat_id),
            AlertTarget::Slack { .. } => body::slack(message),
            AlertTarget::Webhook { .. } => body::webhook(message),
        };
        let mut tries = 1;
        loop {
            match self.send(&body).await {
                Ok(()) => return Ok(()),
                Err(failed) if failed.wait.is_none() || tries == TRIES => {
                    return Err(failed.into_error(tries));
                }
                Err(failed) => tokio::time::sleep(failed.wait.unwrap_or_default()).await,
            }
            tries += 1;
        }
    }

    async fn send(&self, body: &Value) -> Result<(), Failed> {
        // The address is a secret: Telegram's holds the token, the others are all that is needed to write there.
        let transport = |error: reqwest::Error| Failed {
            service: self.service,
            cause: Cause::Transport(Box::new(error.without_url())),
            wait: Some(self.patience.pause),
        };
        let response = self.client.post(self.url.clone()).json(body).send().await.map_err(transport)?;
        let status = response.status();
        let asked = retry_after(&response);
        let text = response.text().await.map_err(transport)?;
        if status.is_success() && self.is_taken(&text) {
            return Ok(());
        }
        let is_passing = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        let wait = asked.unwrap_or(self.patience.pause).min(self.patience.longest_pause);
        Err(Failed {
            service: self.service,
            cause: Cause::Answered { status: status.as_u16(), remedy: self.remedy(status.as_u16(), &text) },
            wait: is_passing.then_some(wait),
        })
    }

    /// Whether a 200 is the service's: a login page of a hotel answers 200 as well.
    fn is_taken(&self, text: &str) -> bool {
        match self.target {
            AlertTarget::Telegram { .. } => {
                serde_json::from_str::<Value>(text).is_ok_and(|reply| reply["ok"] == Value::Bool(true))
            }
            AlertTarget::Slack { .. } => text.trim() == "ok",
            AlertTarget::Webhook { .. } | AlertTarget::Off => true,
        }
    }

    fn remedy(&self, status: u16, text: &str) -> &'static str {
        match (self.target, status) {
            (_, 429) => "it asks for fewer messages, the next run tries again",
            (_, 500..) => "it is ill, the next run tries again",
            (_, 200..=299) => "but not as that service does; is a proxy or a login page in between?",
            (_, 300..=399) => "it sends elsewhere, and alerts do not follow: set the address it names",
            (AlertTarget::Telegram { .. }, 400) if text.contains("chat not found") => {
                "the bot does not know the chat: check DREAMER_ALERT_TELEGRAM_CHAT_ID and write to the bot once"
            }
            (AlertTarget::Telegram { .. }, 400) => "check DREAMER_ALERT_TELEGRAM_CHAT_ID",
            (AlertTarget::Telegram { .. }, 401 | 404) => "check DREAMER_ALERT_TELEGRAM_BOT_TOKEN",
            (AlertTarget::Telegram { .. }, 403) => {
                "the bot may not write there: write to it once, or invite it"
            }
            (AlertTarget::Slack { .. }, _) => {
                "check DREAMER_ALERT_SLACK_WEBHOOK_URL; was the webhook removed?"
            }
            _ => "check its address and what it expects",
        }
    }
}

/// One try that failed.
struct Failed {
    service: &'static str,
    cause: Cause,
    /// How long to wait before another try; none when that is pointless.
    wait: Option<Duration>,
}

enum Cause {
    Transport(Box<dyn StdError + Send + Sync>),
    Answered { status: u16, remedy: &'static str },
}

impl Failed {
    fn into_error(self, tries: u32) -> AlertError {
        let service = self.service;
        match self.cause {
            Cause::Transport(source) => AlertError::Unreachable { service, tries, source },
            Cause::Answered { status, remedy } => AlertError::Refused { service, status, remedy },
        }
    }
}

/// `Retry-After` in seconds. Telegram repeats it in its body, Slack does not.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
