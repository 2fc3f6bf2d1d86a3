//! The night and `apply`, from flags to printed outcome.

use std::time::Instant;

use chrono::Utc;
use dreamer::alert;
use dreamer::config::Config;
use dreamer::dream::{self, Mode, Options};
use dreamer::language::counted;
use dreamer::report::{DreamReport, Status, dream_log, story, summary};
use dreamer::state::journal::Fate;

use crate::args::Night;
use crate::failure::{Failure, print};

/// Dreams.
pub(crate) async fn dream(config: &Config, night: &Night) -> Result<u8, Failure> {
    let mode = match (night.nrem_only, night.rem_only) {
        (true, _) => Mode::NremOnly,
        (_, true) => Mode::RemOnly,
        _ => Mode::Full,
    };
    let options = Options {
        mode,
        dry_run: night.dry_run,
        if_due: night.if_due,
        accept_vanished: night.accept_vanished,
    };
    let outcome = dream::dream(config, options, Utc::now(), Instant::now()).await;
    alert::after_run(config, options, outcome.as_ref(), Utc::now()).await;
    tell(config, &outcome?, night.json)
}

/// Carries out a dry run's plan.
pub(crate) async fn apply(config: &Config, run: &str, json: bool) -> Result<u8, Failure> {
    let report = dream::apply(config, run, Utc::now(), Instant::now()).await?;
    let options = Options { mode: Mode::Full, dry_run: false, if_due: false, accept_vanished: false };
    alert::after_run(config, options, Ok(&report), Utc::now()).await;
    tell(config, &report, json)
}

/// The reason, and in parentheses what may be behind it: a file that is too new, or one with a name that is no episode's.
fn not_due(warnings: &[String]) -> String {
    match warnings {
        [] => "not due".to_string(),
        [reason] => format!("not due: {reason}"),
        [reason, behind @ ..] => format!("not due: {reason} ({})", behind.join("; ")),
    }
}

/// The summary object with what the operator should know; of a run that was not due, why.
fn object(report: &DreamReport) -> serde_json::Value {
    let mut object = summary(report);
    object["warnings"] = report.warnings.clone().into();
    object
}

/// The story goes to the log, the data to stdout: the summary object, or the log of a dry run, or one line.
fn tell(config: &Config, report: &DreamReport, json: bool) -> Result<u8, Failure> {
    if report.status == Status::NotDue {
        let told = not_due(&report.warnings);
        if !json {
            return print(&format!("{told}\n")).map(|()| 0);
        }
        tracing::info!("{told}");
        return print(&format!("{}\n", object(report))).map(|()| 0);
    }
    for line in story(report) {
        tracing::info!("{line}");
    }
    let text = match (json, report.status) {
        (true, _) => format!("{}\n", object(report)),
        (false, Status::DryRun) => dream_log(report, &report.started.with_timezone(&config.timezone)),
        (false, _) => format!(
            "{}: {} new, {} said again, {} merged or consolidated, {} faded, {} held back; {}\n",
            report.status.as_str(),
            report.created.len(),
            report.strengthened.len(),
            report.rem.merged + report.rem.consolidated,
            report.rem.faded,
            counted(report.fates.get(&Fate::HeldBack).copied().unwrap_or(0), "chunk"),
            report.dream_log.as_deref().unwrap_or("no dream log"),
        ),
    };
    print(&text)?;
    if let Some(why) = &report.failure {
        crate::output::complain(&format!("could not finish the night: {why}"));
        return Ok(1);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_holds_the_warnings() {
        let warnings = vec!["x.sqlite: it is locked".to_owned()];
        let report = DreamReport { warnings, ..DreamReport::default() };
        assert_eq!(object(&report)["warnings"], serde_json::json!(["x.sqlite: it is locked"]));
        assert_eq!(object(&report)["status"], "done");
    }
}
