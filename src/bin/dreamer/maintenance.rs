//! `dreamer maintenance`: the switch that makes timed runs stand aside.

use chrono::{DateTime, Utc};
use dreamer::config::Config;
use dreamer::state::maintenance::Maintenance;

use crate::args::Switch;
use crate::failure::{Failure, print};

/// Switches, or says how it stands.
pub(crate) fn switch(config: &Config, switch: Switch) -> Result<u8, Failure> {
    let (state, now) = (config.state_dir(), Utc::now());
    let told = match switch {
        Switch::On { length, reason } => {
            let on = Maintenance { since: now, until: length.map(|length| now + length), reason };
            on.switch_on(&state)?;
            format!("{}a run that is under way goes on to its end\n", told(config, &on))
        }
        Switch::Off => match Maintenance::switch_off(&state)? {
            true => "maintenance is off: timed runs go on\n".to_owned(),
            false => "maintenance was off already\n".to_owned(),
        },
        Switch::Status => match Maintenance::read(&state)? {
            Some(on) if on.is_on(now) => told(config, &on),
            Some(Maintenance { until: Some(until), .. }) => {
                format!("maintenance is off: it ended by itself on {}\n", local(config, until))
            }
            _ => "maintenance is off\n".to_owned(),
        },
    };
    print(&told).map(|()| 0)
}

fn told(config: &Config, on: &Maintenance) -> String {
    let since = match on.since == DateTime::UNIX_EPOCH {
        true => String::new(),
        false => format!(" since {}", local(config, on.since)),
    };
    let until = match on.until {
        Some(until) => format!("until {}", local(config, until)),
        None => "until `dreamer maintenance off`".to_owned(),
    };
    let reason =
        on.reason.as_ref().map(|reason| format!("reason: {}\n", printable(reason))).unwrap_or_default();
    format!("maintenance is on{since}: timed runs stand aside {until}\n{reason}")
}

fn local(config: &Config, at: DateTime<Utc>) -> String {
    at.with_timezone(&config.timezone).format("%Y-%m-%d %H:%M").to_string()
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
