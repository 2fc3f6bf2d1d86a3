//! The command line of `session-flush`: reads flags and settings, calls the library, prints, and ends with an exit code.

mod args;
#[path = "../dreamer/logging.rs"]
mod logging;

use std::io::{self, Write as _};
use std::process::ExitCode;

use args::Flags;
use clap::Parser as _;
use dreamer::config::Layers;
use dreamer::error::{Error, chain};
use dreamer::flush::{self, FlushError, Outcome, Report, Settings, Status, Transport};
use dreamer::openclaw::config::OpenClaw;
use dreamer::openclaw::gateway::fallback::WithFallback;
use dreamer::openclaw::gateway::program::Program;

/// Why the program stopped.
enum Failure {
    Usage(clap::Error),
    Flush(Error),
    Output(io::Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Flush(error.into())
    }
}

/// Says on stderr why it stopped, as an error where stderr is the journal.
fn complain(told: &str) {
    // Nothing can be said about a stderr that does not take it.
    let _ = writeln!(io::stderr(), "{}session-flush: {told}", logging::level_prefix(3));
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(usage) => return end_with_usage(&usage),
    };
    logging::start(flags.verbose);
    let told = match run(&flags).await {
        Ok(outcomes) => print(outcomes, &flags),
        Err(failure) => Err(failure),
    };
    match told {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Usage(usage)) => end_with_usage(&usage),
        Err(Failure::Flush(error)) => {
            complain(&format!("could not {}", chain(&error)));
            ExitCode::from(error.exit_code())
        }
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            complain(&format!("could not write the answer: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Help goes to stdout and is no error; a closed pipe is not one either.
fn end_with_usage(usage: &clap::Error) -> ExitCode {
    let _ = usage.print();
    ExitCode::from(if usage.use_stderr() { 2 } else { 0 })
}

async fn run(flags: &Flags) -> Result<Vec<Outcome>, Failure> {
    let mut layers = Layers::of_process(flags.home.as_deref(), flags.env_file.as_deref())?;
    layers.flags.extend(flags.as_variables().into_iter().map(|(name, value)| (name.to_string(), value)));
    let settings = Settings::resolve(&layers)?;
    let openclaw = OpenClaw::read(&layers).map_err(FlushError::from)?;
    let ask = flags.ask();
    let program = Program {
        program: settings.program.clone(),
        environment: openclaw.environment(),
        patience: settings.patience(),
    };
    let outcomes = match settings.transport {
        Transport::Ws => {
            let endpoint = openclaw.websocket().map_err(FlushError::from)?;
            tracing::info!("connecting to {}", endpoint.shown());
            let opened = WithFallback::open(&endpoint, program, settings.patience()).await;
            flush::flush(&ask, &settings, &openclaw, &mut opened.map_err(FlushError::from)?).await?
        }
        Transport::Cli => flush::flush(&ask, &settings, &openclaw, &mut { program }).await?,
        Transport::Http if flags.dry_run => return Err(Failure::Usage(Flags::no_dry_run_over_http())),
        Transport::Http => {
            let endpoint = openclaw.route().map_err(FlushError::from)?;
            tracing::info!("posting /new to {}", endpoint.shown());
            flush::flush_over_http(&ask, &settings, &openclaw, &endpoint).await?
        }
    };
    Ok(outcomes)
}

/// Warnings and failures go to stderr, the outcome to stdout: one line or object a session. Gives the exit code.
fn print(mut outcomes: Vec<Outcome>, flags: &Flags) -> Result<u8, Failure> {
    // Asked for one session, there is one outcome, and its failure is the program's.
    if !flags.all {
        let one = outcomes.pop().expect("one session was asked for");
        let report = one.result?;
        for warning in &report.warnings {
            tracing::warn!("{warning}");
        }
        write(&if flags.json { format!("{}\n", flush::summary(&report)) } else { line(&report) })?;
        return Ok(0);
    }
    let mut lines = String::new();
    for outcome in &outcomes {
        match &outcome.result {
            Ok(report) => {
                for warning in &report.warnings {
                    tracing::warn!("{}: {warning}", report.session_key);
                }
                lines.push_str(&line(report));
            }
            Err(error) => complain(&format!("could not {}", chain(error))),
        }
    }
    write(&if flags.json { format!("{}\n", flush::summaries(&outcomes)) } else { lines })?;
    Ok(flush::exit_code(&outcomes))
}

fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

fn line(report: &Report) -> String {
    let key = &report.session_key;
    let messages = match report.messages {
        1 => format!("1 message, {} of the user", report.by_user),
        several => format!("{several} messages, {} of the user", report.by_user),
    };
    match (report.status, &report.episode) {
        (Status::Flushed, Some(episode)) => format!("flushed {key}: {} ({messages})\n", episode.display()),
        (Status::Flushed, None) => format!("flushed {key}\n"),
        (Status::NothingToFlush, _) => {
            format!("nothing to flush in {key}: {}\n", report.why.unwrap_or("it is empty"))
        }
        (Status::DryRun, _) => format!("would flush {key}: {messages}\n"),
    }
}
