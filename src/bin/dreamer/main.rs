//! The command line: reads flags and settings, calls the library, prints, and ends with an exit code.

mod alert;
mod args;
mod calibrate;
mod check_pairs;
mod doctor;
mod embed;
mod failure;
mod forget;
mod logging;
mod maintenance;
mod memories;
mod model;
mod night;
mod output;
mod pin;
mod preview;
mod reembed;
mod restore;
mod review;
mod search;
mod snapshots;
mod undo;
mod why;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use args::{Command, Common, Other};
use chrono::Utc;
use dreamer::config::{self, Config, ConfigError, Layers, Setting};
use dreamer::pin::Pin;
use dreamer::setup::{self, Example};
use failure::{Failure, print};
use futures::FutureExt as _;

/// What the last panic said.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

#[tokio::main]
async fn main() -> ExitCode {
    let command = match Command::read() {
        Ok(command) => command,
        Err(usage) => {
            // Help goes to stdout and is no error; a closed pipe is not one either.
            let _ = usage.print();
            return ExitCode::from(if usage.use_stderr() { 2 } else { 0 });
        }
    };
    logging::start(command.common.verbose);
    // A damaged table makes the library below panic in a task of its own; the error that follows says what to do.
    std::panic::set_hook(Box::new(|panic| {
        tracing::debug!("{panic}");
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
    match AssertUnwindSafe(run(command)).catch_unwind().await {
        Ok(Ok(code)) => ExitCode::from(code),
        Err(_) => {
            let what = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            output::complain(&format!(
                "a fault of this program ended it; nothing is lost, and the next run goes on: {}",
                what.replace('\n', " ")
            ));
            ExitCode::from(1)
        }
        Ok(Err(failure)) => {
            if let Some(told) = failure.told() {
                output::complain(&told);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn run(command: Command) -> Result<u8, Failure> {
    if let Some(Other::Alert { text, unit, over }) = &command.other {
        return alert::send(&command.common, text.as_deref(), unit.as_deref(), *over).await;
    }
    if let Some(Other::Doctor { offline, json }) = command.other {
        return doctor::look(&command.common, layers(&command), offline, json).await;
    }
    if let Some(Other::Model { what }) = &command.other {
        return model::change(&layers(&command)?, what).await;
    }
    let layers = alert::heard(&command, layers(&command)).await?;
    if let Some(Other::Setup { example, openclaw }) = command.other {
        return match openclaw {
            Some(path) => set_up_for_openclaw(&command.common, &layers, path.as_deref()).await,
            None => set_up(&layers, if example { Example::Wanted } else { Example::No }).await,
        };
    }
    let (mut config, settings) = alert::heard(&command, Config::resolve(&layers)).await?;
    tell(&config::warnings(&layers, &config));
    match command.other {
        None => {
            config.only_agent.clone_from(&command.night.agent);
            night::dream(&config, &command.night).await
        }
        Some(Other::Preview { agent, json }) => {
            config.only_agent = agent;
            preview::tell(&config, json).await
        }
        Some(Other::Review { say }) => review::review(&config, &say).await,
        Some(Other::Apply { run, json }) => night::apply(&config, &run, json).await,
        Some(Other::Setup { .. } | Other::Alert { .. } | Other::Doctor { .. } | Other::Model { .. }) => Ok(0),
        Some(Other::Embed { texts, json }) => embed::show(&config, texts, json).await,
        Some(Other::CheckPairs { file, json }) => check_pairs::check(&config, &file, json).await,
        Some(Other::Calibrate(asked)) => calibrate::calibrate(&config, &asked).await,
        Some(Other::Memories { look }) => memories::look(&config, &look).await,
        Some(Other::Why { id, json }) => why::tell(&config, &id, json).await,
        Some(Other::Forget { id, text, erase, now, episodes, agent, yes }) => {
            let named = forget::Asked { id, text, agent, is_sure: yes };
            forget::forget(&config, &layers, &named, forget::Way { erase, now, episodes }).await
        }
        Some(Other::Pin { id }) => pin::pin(&config, &id, Pin::Set).await,
        Some(Other::Unpin { id }) => pin::pin(&config, &id, Pin::Clear).await,
        Some(Other::Maintenance { switch }) => maintenance::switch(&config, switch),
        Some(Other::Restore { id }) => restore::bring_back(&config, &id).await,
        Some(Other::Rollback(asked)) => undo::rollback(&config, &asked).await,
        Some(Other::Reembed(asked)) => reembed::reembed(&config, &layers, asked).await,
        Some(Other::Unmerge { id }) => undo::unmerge(&config, &id).await,
        Some(Other::Redream { file }) => undo::redream(&config, &file).await,
        Some(Other::Snapshots { look }) => snapshots::look(&config, &look),
        Some(Other::Config { json }) => show_config(&config, &layers, settings, json),
    }
}

fn tell(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

fn layers(command: &Command) -> Result<Layers, ConfigError> {
    Layers::of_process(command.common.home.as_deref(), command.common.env_file.as_deref())
}

fn show_config(config: &Config, layers: &Layers, settings: Vec<Setting>, json: bool) -> Result<u8, Failure> {
    let mut settings = match config.calibration()? {
        Some(calibrated) => config::with_calibration(settings, &calibrated),
        None => settings,
    };
    settings.extend(config::of_flush(layers));
    let text = if json { config::show_json(&settings) + "\n" } else { config::show(&settings) };
    print(&text).map(|()| 0)
}

async fn set_up(layers: &Layers, example: Example) -> Result<u8, Failure> {
    let report = match setup::setup(layers, example, Utc::now()).await {
        Ok(report) => report,
        Err(error) => {
            // A server that was not found may be the one of a name that is not read.
            if let Ok((config, _)) = Config::resolve(layers) {
                tell(&config::warnings(layers, &config));
            }
            return Err(error.into());
        }
    };
    tell(&report.warnings);
    print(&output::setup(&report))?;
    preview::before_the_first_night(layers).await
}

/// A home for a gateway, and at the end what the next night would do there.
async fn set_up_for_openclaw(common: &Common, layers: &Layers, path: Option<&Path>) -> Result<u8, Failure> {
    let report = setup::setup_openclaw(layers, path).await?;
    tell(&report.warnings);
    print(&output::setup(&report))?;
    if report.lacks_table {
        return Ok(0);
    }
    // The settings file that was just written counts now.
    let told = match Layers::of_process(common.home.as_deref(), common.env_file.as_deref()) {
        Ok(layers) => Config::resolve(&layers).map(|(config, _)| config),
        Err(error) => Err(error),
    };
    print("\n")?;
    match preview::tell(&told?, false).await {
        Err(Failure::Dreamer(error)) => {
            tracing::warn!("no preview: could not {}", dreamer::error::chain(&error));
            Ok(0)
        }
        told => told,
    }
}
