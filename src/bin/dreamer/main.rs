//! The command line: reads flags and settings, calls the library, prints, and ends with an exit code.

mod alert;
mod args;
mod failure;
mod logging;
mod memories;
mod night;
mod output;
mod preview;
mod restore;
mod review;
mod search;

use std::process::ExitCode;

use args::{Command, Other};
use chrono::Utc;
use dreamer::config::{self, Config, ConfigError, Layers, Setting};
use dreamer::setup::{self, Example};
use failure::{Failure, print};

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
    match run(command).await {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
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
    let layers = alert::heard(&command, layers(&command)).await?;
    if let Some(Other::Setup { example }) = command.other {
        return set_up(&layers, if example { Example::Wanted } else { Example::No }).await;
    }
    let (mut config, settings) = alert::heard(&command, Config::resolve(&layers)).await?;
    for warning in config::warnings(&layers, &config) {
        tracing::warn!("{warning}");
    }
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
        Some(Other::Setup { .. } | Other::Alert { .. }) => Ok(0),
        Some(Other::Memories { look }) => memories::look(&config, &look).await,
        Some(Other::Restore { id }) => restore::bring_back(&config, &id).await,
        Some(Other::Config { json }) => show_config(&config, settings, json),
    }
}

fn layers(command: &Command) -> Result<Layers, ConfigError> {
    Layers::of_process(command.common.home.as_deref(), command.common.env_file.as_deref())
}

fn show_config(config: &Config, settings: Vec<Setting>, json: bool) -> Result<u8, Failure> {
    let settings = match config.calibrated()? {
        Some(calibrated) => config::with_calibration(settings, config.embedding_model(), calibrated),
        None => settings,
    };
    let text = if json { config::show_json(&settings) + "\n" } else { config::show(&settings) };
    print(&text).map(|()| 0)
}

async fn set_up(layers: &Layers, example: Example) -> Result<u8, Failure> {
    let report = setup::setup(layers, example, Utc::now()).await?;
    for warning in &report.warnings {
        tracing::warn!("{warning}");
    }
    print(&output::setup(&report))?;
    preview::before_the_first_night(layers).await
}
