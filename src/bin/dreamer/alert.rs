//! `dreamer alert`, and the alert about settings that keep a timed run from starting. What is told is the library's.

use chrono::Utc;
use dreamer::alert;
use dreamer::config::{AlertSettings, AlertTarget, ConfigError, Layers};

use crate::args::{Command, Common};
use crate::failure::{Failure, print};

/// Sends what the operator wants to say, or that a unit failed or works again.
pub(crate) async fn send(
    common: &Common,
    text: Option<&str>,
    unit: Option<&str>,
    is_over: bool,
) -> Result<u8, Failure> {
    let settings = AlertSettings::resolve(&readable(common))?;
    let (home, target) = (&settings.home, &settings.target);
    let told = match unit {
        // Nobody wants to hear of it: that is no failure of the unit that calls this.
        Some(_) if matches!(target, AlertTarget::Off) => "not sent: DREAMER_ALERT_PROVIDER is off\n",
        Some(unit) => {
            let result = std::env::var("MONITOR_SERVICE_RESULT").ok();
            match alert::of_unit(home, target, unit, is_over, result.as_deref(), Utc::now()).await? {
                true => "sent\n",
                false => "not sent: there is nothing new to tell\n",
            }
        }
        None => {
            alert::send_text(home, target, text.unwrap_or_default(), Utc::now()).await?;
            "sent\n"
        }
    };
    print(told).map(|()| 0)
}

/// Passes an outcome on. When it is that a timed run cannot use its settings, the operator hears of it first.
pub(crate) async fn heard<T>(command: &Command, outcome: Result<T, ConfigError>) -> Result<T, ConfigError> {
    let is_timed = command.other.is_none() && command.night.if_due && !command.night.dry_run;
    if let Err(error) = &outcome
        && is_timed
        && let Ok(settings) = AlertSettings::resolve(&readable(&command.common))
    {
        alert::could_not_start(&settings.home, &settings.target, error, Utc::now()).await;
    }
    outcome
}

/// The settings as far as they can be read: an alert may be about the rest.
fn readable(common: &Common) -> Layers {
    Layers::readable(common.home.as_deref(), common.env_file.as_deref())
}
