//! What an earlier run left unfinished: a plan that was being applied is applied again, one that cannot be is parked, and
//! what was paid for before there was a plan is used by the run that goes on. Comes before anything new.

use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt;

use super::carry_out;
use crate::config::Config;
use crate::error::{Error, chain};
use crate::plan::apply::give_up;
use crate::plan::run::State;
use crate::plan::{Phase, PlanError, Run};
use crate::report::DreamReport;
use crate::state::audit::Audit;
use crate::state::{StateError, sweep};
use crate::store::{Store, StoreError};

/// A parked run is named in every log for so many days.
const NAMED_DAYS: i64 = 7;

/// Ends what a killed run began: a plan that was being applied is applied again; one that was not started is applied if
/// it is young enough and no other run finished since, else given up. One that failed twice, or cannot be read, is parked.
/// Returns what the operator is told.
///
/// # Errors
/// When going on with a run fails for the first time, or for a reason that lies outside it (disk, permissions, another
/// writer): the night must not begin on top of half a run.
pub(crate) async fn recover(
    config: &Config,
    store: &Store,
    now: DateTime<Utc>,
) -> Result<Vec<String>, Error> {
    let mut told = Vec::new();
    let runs = config.runs_dir();
    sweep(&config.home);
    if let Err(error) = catch_up(config) {
        told.push(chain(&error));
    }
    for run in Run::damaged(&runs)? {
        run.park_damaged(now)?;
        give_up(&run, store, config).await?;
        tracing::warn!("run {}: its state cannot be read", run.id);
    }
    for (run, state) in Run::states(&runs)? {
        match state.phase {
            Phase::Started => {
                run.enter(Phase::Abandoned, now)?;
                told.push(format!(
                    "run {} was interrupted before it had a plan: nothing of it was written",
                    run.id
                ));
            }
            Phase::Planned if !run.is_fresh(now)? || run.overtaken(&runs)?.is_some() => {
                run.enter(Phase::Abandoned, now)?;
                told.push(format!(
                    "run {} had been planned and never started: given up, nothing of it was written",
                    run.id
                ));
            }
            Phase::Planned | Phase::Applying => told.push(go_on(&run, config, store, now).await?),
            Phase::Parked | Phase::Previewed | Phase::Finished | Phase::Abandoned => {}
        }
    }
    told.extend(parked(config, now)?);
    Ok(told)
}

async fn go_on(run: &Run, config: &Config, store: &Store, now: DateTime<Utc>) -> Result<String, Error> {
    tracing::warn!("run {} was interrupted: going on with it", run.id);
    let error = match AssertUnwindSafe(again(run, config, store, now)).catch_unwind().await {
        Ok(Ok(report)) => {
            let log = report.dream_log.unwrap_or_default();
            let failed =
                report.failure.map(|why| format!(", but something failed ({why})")).unwrap_or_default();
            return Ok(format!("run {} had been interrupted and is finished now{failed}: {log}", run.id));
        }
        Ok(Err(error)) => error,
        Err(_) => {
            let detail = "carrying it out ends in a panic".to_owned();
            PlanError::Unreadable { path: run.folder.join("plan.json"), detail }.into()
        }
    };
    // A full disk or another writer is no fault of the plan, and would stop the night as well.
    if lies_outside(&error) {
        return Err(error);
    }
    let unreadable =
        matches!(&error, Error::Plan(PlanError::Unreadable { .. } | PlanError::NoSuchRun { .. }));
    let why = chain(&error);
    let parked = run.note_failure(&why)? || unreadable && run.note_failure(&why)?;
    if !parked {
        return Err(error);
    }
    give_up(run, store, config).await?;
    Ok(format!("run {} could not be finished: {why}", run.id))
}

async fn again(run: &Run, config: &Config, store: &Store, now: DateTime<Utc>) -> Result<DreamReport, Error> {
    let mut plan = run.read_plan()?;
    // A home that was copied or moved: the plan's own paths are those of another one.
    if plan.home != config.home {
        for episode in &mut plan.moves {
            for path in [&mut episode.from, &mut episode.to] {
                if let Ok(inside) = path.strip_prefix(&plan.home) {
                    *path = config.home.join(inside);
                }
            }
        }
        plan.home.clone_from(&config.home);
    }
    carry_out(run, plan, store, config, now, Instant::now()).await
}

/// Events that had to be written beside their plan, because the audit could not be: they go where they belong.
fn catch_up(config: &Config) -> Result<(), StateError> {
    for run in Run::all(&config.runs_dir())? {
        let beside = Audit::path(&run.folder);
        if beside.is_file() {
            Audit::append(&config.home, &Audit::read(&run.folder)?)?;
            std::fs::remove_file(&beside).map_err(|source| StateError::Write { path: beside, source })?;
        }
    }
    Ok(())
}

/// Whether the reason is outside the plan: the disk, the permissions, another writer.
fn lies_outside(error: &Error) -> bool {
    if matches!(error, Error::Store(StoreError::Contended { .. }) | Error::State(StateError::Locked { .. })) {
        return true;
    }
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let outside = matches!(
            kind,
            Some(
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::PermissionDenied
            )
        );
        // LanceDB hands the system's errors on as text.
        if outside || ["No space left", "Read-only file system"].iter().any(|t| error.to_string().contains(t))
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The runs that were parked not long ago, in words: half of what they were to write may be there.
fn parked(config: &Config, now: DateTime<Utc>) -> Result<Vec<String>, StateError> {
    let recent = |state: &State| {
        state.phase == Phase::Parked
            && now.signed_duration_since(state.planned_at) < TimeDelta::days(NAMED_DAYS)
    };
    let runs = Run::states(&config.runs_dir())?.into_iter().filter(|(_, state)| recent(state));
    let told = runs.map(|(run, state)| {
        format!(
            "run {} is parked: part of it may be written, its chunks are taken up again ({}); \
             `dreamer snapshots show {}` says what it was to change",
            run.id,
            state.why.unwrap_or_default(),
            run.id
        )
    });
    Ok(told.collect())
}

/// A dry run writes nothing, so it leaves a killed run to the next night; its own plan cannot be applied before that.
pub(super) fn tell_unfinished(config: &Config, now: DateTime<Utc>) -> Result<Vec<String>, Error> {
    let mut told = Vec::new();
    for (run, _) in Run::states(&config.runs_dir())? {
        if run.is_pending(now)? {
            told.push(format!(
                "run {} was interrupted: a full run goes on with it first, so this preview may not hold",
                run.id
            ));
        }
    }
    Ok(told)
}
