//! Alerts: how the operator, and nobody else, hears of trouble. Which alerts a night raises is decided in `observe`
//! and `state`, what they say in `message` and `words`, how a service wants it in `body`; `deliver` is the edge.
//! An alert holds no text of a memory or an episode and no secret, and one that cannot be delivered is a warning.

mod body;
mod deliver;
mod message;
mod observe;
mod state;
mod words;

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::config::{AlertTarget, Config, ConfigError};
use crate::dream::Options;
use crate::error::Error;
use crate::report::DreamReport;
use crate::state::{StateError, read_if_there, write_atomically};

pub use body::{slack, telegram, webhook};
pub use deliver::{AlertError, Courier, Patience};
pub use message::{Event, Line, Message, Origin};
pub use observe::{Observation, Signal, Trouble, observe};
pub use state::{Alerts, Kind, NIGHTS_IN_A_ROW};

/// Tells the operator what the end of a run changed, if anything. Never fails: what goes wrong is a warning.
pub async fn after_run(
    config: &Config,
    options: Options,
    outcome: Result<&DreamReport, &Error>,
    now: DateTime<Utc>,
) {
    if matches!(config.alerts, AlertTarget::Off) {
        return;
    }
    let secrets = config.openai.keys().map(|(_, key, _)| secrecy::ExposeSecret::expose_secret(key));
    let origin = Origin::of_this_machine(&config.home, config.timezone).hiding(secrets);
    let post = Post::new(&config.home, &config.alerts, origin);
    post.tell(observe(options, outcome), now).await.unwrap_or_else(warn);
}

/// Tells the operator that a timed run could not even read its settings.
pub async fn could_not_start(home: &Path, target: &AlertTarget, error: &ConfigError, now: DateTime<Utc>) {
    if matches!(target, AlertTarget::Off) {
        return;
    }
    let post = Post::new(home, target, Origin::of_this_machine(home, chrono_tz::Tz::UTC));
    post.tell(Observation::failed(words::of_config(error)), now).await.unwrap_or_else(warn);
}

/// Tells the operator that a unit failed or, with `is_over`, that it works again: each once. False when there was
/// nothing new to tell.
///
/// # Errors
/// When the message cannot be delivered or the state not be kept.
pub async fn of_unit(
    home: &Path,
    target: &AlertTarget,
    unit: &str,
    is_over: bool,
    result: Option<&str>,
    now: DateTime<Utc>,
) -> Result<bool, AlertError> {
    let post = Post::new(home, target, Origin::of_this_machine(home, chrono_tz::Tz::UTC));
    post.tell(Observation::of_unit(unit, is_over, result), now).await
}

/// Sends a text as it stands, whatever was told before.
///
/// # Errors
/// When it cannot be delivered.
pub async fn send_text(
    home: &Path,
    target: &AlertTarget,
    text: &str,
    now: DateTime<Utc>,
) -> Result<(), AlertError> {
    let origin = Origin::of_this_machine(home, chrono_tz::Tz::UTC).hiding(target.secrets());
    Courier::new(target)?.deliver(&Message::of_text(text, now, &origin)).await
}

fn warn(error: AlertError) -> bool {
    tracing::warn!("could not {}", crate::error::chain(&error));
    false
}

/// Brings observations to the operator: the state before and after lies in a file.
struct Post<'a> {
    path: PathBuf,
    target: &'a AlertTarget,
    origin: Origin,
}

impl<'a> Post<'a> {
    fn new(home: &Path, target: &'a AlertTarget, origin: Origin) -> Self {
        let origin = origin.hiding(target.secrets());
        Self { path: home.join("state/alerts.json"), target, origin }
    }

    /// Whether anything was told. What could not be delivered is kept as not told, and tried again after the next run.
    async fn tell(&self, observation: Observation, now: DateTime<Utc>) -> Result<bool, AlertError> {
        let mut alerts = Alerts::read(read_if_there(&self.path)?.as_deref(), &self.path)?;
        let before = alerts.clone();
        let events = alerts.take_in(&observation, now);
        let (mut told, mut failure) = (false, None);
        if !events.is_empty() {
            let courier = Courier::new(self.target)?;
            for event in &events {
                match courier.deliver(&Message::of_event(event, now, &self.origin)).await {
                    Ok(()) => {
                        alerts.note_told(event);
                        told = true;
                    }
                    Err(error) => failure = Some(error),
                }
            }
        }
        if alerts != before {
            write_atomically(&self.path, &alerts.to_bytes())?;
        }
        failure.map_or(Ok(told), Err)
    }
}

impl From<StateError> for AlertError {
    fn from(source: StateError) -> Self {
        Self::State { source }
    }
}
