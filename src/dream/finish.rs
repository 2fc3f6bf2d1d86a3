//! The end of a run: the plan is executed, the audit and the dream log are written, and the house is kept. What fails once
//! the memories are written is told and fails the run, but does not have them written again.

use std::time::Instant;

use chrono::{DateTime, Utc};

use super::think::millis;
use crate::config::Config;
use crate::error::{Error, chain};
use crate::housekeeping::keep_house;
use crate::plan::apply::{Applied, apply as execute};
use crate::plan::build;
use crate::plan::events::events;
use crate::plan::{DreamPlan, Phase, Run};
use crate::privacy::without_secrets;
use crate::report::{DreamReport, Status, dream_log};
use crate::state::audit::Audit;
use crate::state::journal::Fate;
use crate::state::{StateError, write_atomically};
use crate::store::Store;

/// Applies the plan, writes the dream log, and ends the run.
pub(crate) async fn carry_out(
    run: &Run,
    mut plan: DreamPlan,
    store: &Store,
    config: &Config,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    if plan.report.status == Status::DryRun {
        plan.report.status = build::status_of(&plan);
    }
    run.enter(Phase::Applying, now)?;
    let applied = execute(&plan, store, config).await?;
    let events = events(&plan, &applied);
    let mut report = plan.report;
    take_in(&mut report, applied);
    // The memories are written: to fail here, or below, would only write them again, night after night.
    if let Err(error) = Audit::append(&config.home, &events) {
        fail(&mut report, chain(&error));
        Audit::append(&run.folder, &events)?;
    }
    report.elapsed_ms = report.elapsed_ms.max(millis(started));
    let log = match write_log(&report, config) {
        Ok(path) => path,
        Err(error) => {
            fail(&mut report, chain(&error));
            write_log_beside_the_plan(&report, config, run)?
        }
    };
    report.dream_log = Some(log);
    run.finish(now, report.failure.as_deref())?;
    for told in keep_house(config, store, now).await {
        tracing::warn!("{told}");
    }
    Ok(report)
}

/// Notes that something of a night could not be done that is not a memory.
fn fail(report: &mut DreamReport, why: String) {
    report.status = Status::Failed;
    report.failure = Some(report.failure.take().map_or(why.clone(), |first| format!("{first}; {why}")));
}

fn take_in(report: &mut DreamReport, applied: Applied) {
    report.warnings.extend(applied.notes);
    report.joined.retain(|joined| !joined.after.iter().any(|shown| applied.dropped.contains(&shown.id)));
    report.archived_episodes.retain(|name| !applied.stayed.contains(name));
    for (fate, count) in applied.held_back {
        report.fates.entry(fate).and_modify(|before| *before = before.saturating_sub(count));
        *report.fates.entry(Fate::HeldBack).or_default() += count;
    }
    report.fates.retain(|_, count| *count > 0);
    report.live.1 = applied.live;
    for why in applied.failed {
        fail(report, why);
    }
}

/// Writes the dream log `YYYY-MM-DD_HHMM.md`; a second run in the same minute gets a suffix. Returns its path.
fn write_log(report: &DreamReport, config: &Config) -> Result<String, StateError> {
    let local = report.started.with_timezone(&config.timezone);
    let stem = local.format("%Y-%m-%d_%H%M").to_string();
    // A row that the gateway wrote may hold a secret; the log may not, whatever it tells of the row.
    let text = without_secrets(&dream_log(report, &local)).text;
    for number in 1.. {
        let name = if number == 1 { format!("{stem}.md") } else { format!("{stem}-{number}.md") };
        let path = config.dream_log_dir().join(name);
        let there = crate::state::read_if_there(&path)?;
        // A run that was killed between its log and its end writes the same log again.
        let own = there.as_ref().is_some_and(|bytes| String::from_utf8_lossy(bytes).contains(&report.run));
        if there.is_none() || own {
            write_atomically(&path, text.as_bytes())?;
            return Ok(path.display().to_string());
        }
    }
    unreachable!("there is always a free number")
}

/// The log's place while its folder cannot be written.
fn write_log_beside_the_plan(report: &DreamReport, config: &Config, run: &Run) -> Result<String, StateError> {
    let path = run.folder.join("dream-log.md");
    let text = dream_log(report, &report.started.with_timezone(&config.timezone));
    write_atomically(&path, text.as_bytes())?;
    Ok(path.display().to_string())
}
