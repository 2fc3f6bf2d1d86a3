//! Undo: taking back what runs changed, and looking at what they changed. An undo is a plan of its own, made from the
//! plan and the before-images of the run it takes back; it is stored, applied and recovered as a night is, and can itself
//! be taken back. States the order of it; the inverse is worked out in `inverse`.

mod apart;
mod chain;
mod inverse;
pub mod redream;
pub mod snapshots;
pub mod unmerge;
mod world;

use std::path::PathBuf;
use std::time::Instant;

use chrono::{DateTime, Utc};

use crate::config::Config;
use crate::dream::{carry_out, recover};
use crate::error::Error;
use crate::plan::apply::store_before_images;
use crate::plan::run::State;
use crate::plan::{DreamPlan, Phase, Purpose, Run, RunId};
use crate::report::{DreamReport, Undone};
use crate::state::lock::Lock;
use crate::store::{Images, Store, has_images, read_images};
use world::World;

/// The highest end of a run's id that is drawn by chance: what follows is for further runs of the same second.
const CHANCE: u32 = 0x00f0_0000;

/// Why something could not be taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// No such run.
    #[error("take back the run {run}: there is none; `dreamer snapshots list` names the runs there are")]
    NoSuchRun {
        /// The run.
        run: RunId,
    },
    /// That is no name of a run.
    #[error(
        "take back the run {run:?}: that is no name of a run; `dreamer snapshots list` names the runs there are"
    )]
    NoRun {
        /// What was given.
        run: String,
    },
    /// It wrote nothing.
    #[error("take back the run {run}: it is {phase} and changed nothing")]
    NothingWritten {
        /// The run.
        run: RunId,
        /// What it is.
        phase: &'static str,
    },
    /// It is taken back.
    #[error(
        "take back the run {run}: run {by} did so already; `dreamer rollback {by}` puts it in force again"
    )]
    Already {
        /// The run.
        run: RunId,
        /// The run that did.
        by: RunId,
    },
    /// Its before-images are gone.
    #[error(
        "take back the run {run}: its snapshot {path} was pruned or never completed, so nobody knows what was there \
         before; `dreamer restore ID` and `dreamer unmerge ID` bring back single memories"
    )]
    Pruned {
        /// The run.
        run: RunId,
        /// Where they would be.
        path: PathBuf,
    },
    /// The table has vectors of another length since.
    #[error(
        "take back the run {run}: its rows have vectors of {before} numbers and the table of {database} has {now} since it was \
         moved to another model; set DREAMER_LANCEDB_URI to the database of then"
    )]
    OtherDimension {
        /// The run.
        run: RunId,
        /// Numbers then.
        before: usize,
        /// Numbers now.
        now: usize,
        /// The database.
        database: String,
    },
    /// What would be taken back is no longer what was shown.
    #[error("take back the run {run}: other runs finished since it was shown; look at it again")]
    Overtaken {
        /// The run.
        run: RunId,
    },
}

/// One run of a rollback, before it starts.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The run that is taken back.
    pub of: RunId,
    /// What it was.
    pub purpose: Purpose,
    /// When it finished.
    pub finished_at: Option<DateTime<Utc>>,
    /// What will be taken back.
    pub undone: Undone,
}

/// What a rollback of a run would take back, in the order it would: later runs first. Writes nothing.
///
/// # Errors
/// When there is no such run, there is nothing of it to take back, or its before-images are gone.
pub async fn preview(config: &Config, run: &str, now: DateTime<Utc>) -> Result<Vec<Planned>, Error> {
    let store = Store::open(&config.lancedb_uri).await?;
    let mut world = World::read(&store, &config.agent).await?;
    let mut planned = Vec::new();
    for (of, state) in runs_to_take_back(config, run)? {
        let (plan, images) = read_run(config, &of)?;
        check_dimension(config, &store, &of, &images)?;
        let inverse = inverse::inverse(&plan, &images, &world, RunId::default(), now);
        world.take_in(&inverse, &images);
        let undone = inverse.report.undone.unwrap_or_default();
        planned.push(Planned { of: of.id, purpose: state.purpose, finished_at: state.finished_at, undone });
    }
    Ok(planned)
}

/// Takes back a run and all later ones, the newest first, each as a run of its own. `shown` are the runs that
/// [`preview`] named, if somebody agreed to them: where they are others by now, nothing is done.
///
/// # Errors
/// As [`preview`], when another run holds the lock, and when a write fails: the runs before it are taken back then.
pub async fn rollback(
    config: &Config,
    run: &str,
    shown: Option<&[RunId]>,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<Vec<DreamReport>, Error> {
    let _lock = Lock::take(&config.state_dir())?;
    let store = Store::open(&config.lancedb_uri).await?;
    for told in recover(config, &store, now).await? {
        tracing::warn!("{told}");
    }
    let runs = runs_to_take_back(config, run)?;
    if shown.is_some_and(|shown| !shown.iter().eq(runs.iter().map(|(run, _)| &run.id))) {
        let run = RunId::parse(run).unwrap_or_default();
        return Err(UndoError::Overtaken { run }.into());
    }
    // All of them must be readable before the first is taken back.
    for (of, _) in &runs {
        let (_, images) = read_run(config, of)?;
        check_dimension(config, &store, of, &images)?;
    }
    let mut reports = Vec::new();
    for (of, _) in &runs {
        let (plan, images) = read_run(config, of)?;
        let world = World::read(&store, &config.agent).await?;
        let inverse = inverse::inverse(&plan, &images, &world, next_id(config, now)?, now);
        reports.push(carry_out_undo(inverse, &store, config, now, started).await?);
    }
    Ok(reports)
}

/// Rows of another length cannot be put back: the table is another one since.
fn check_dimension(config: &Config, store: &Store, of: &Run, images: &Images) -> Result<(), UndoError> {
    match images.dim.filter(|dim| *dim != store.dim()) {
        None => Ok(()),
        Some(before) => Err(UndoError::OtherDimension {
            run: of.id.clone(),
            before,
            now: store.dim(),
            database: config.lancedb_uri.clone(),
        }),
    }
}

/// Stores the plan of an undo with its before-images and executes it, as a night's.
async fn carry_out_undo(
    plan: DreamPlan,
    store: &Store,
    config: &Config,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    let run = Run::of(&config.runs_dir(), plan.run.clone());
    store_before_images(&plan, store, &run.folder).await?;
    run.store_plan(&plan, Phase::Planned)?;
    carry_out(&run, plan, store, config, now, started).await
}

/// The runs to take back with their states, newest first. One that changed nothing is left out, unless it is the one that
/// was asked for.
fn runs_to_take_back(config: &Config, run: &str) -> Result<Vec<(Run, State)>, Error> {
    let wanted = RunId::parse(run.trim()).ok_or_else(|| UndoError::NoRun { run: run.to_owned() })?;
    // A run whose state is damaged cannot be taken back, and is no reason not to take back others.
    let runs = Run::all(&config.runs_dir())?.into_iter();
    let states: Vec<(RunId, State)> =
        runs.filter_map(|run| run.state().ok().map(|state| (run.id, state))).collect();
    let mut chosen = Vec::new();
    for id in chain::chain(&states, &wanted)? {
        let run = Run::of(&config.runs_dir(), id);
        if run.id == wanted || run.read_plan()?.can_be_undone() {
            let state = run.state()?;
            chosen.push((run, state));
        }
    }
    Ok(chosen)
}

fn read_run(config: &Config, run: &Run) -> Result<(DreamPlan, Images), Error> {
    let plan = run.read_plan()?;
    if !has_images(&run.folder) {
        let path = run.folder.join("before");
        return Err(UndoError::Pruned { run: run.id.clone(), path }.into());
    }
    Ok((plan, read_images(&run.folder, &config.agent)?))
}

/// The id of a run that starts now: above those of the same second, since runs are ordered by their ids.
fn next_id(config: &Config, now: DateTime<Utc>) -> Result<RunId, Error> {
    let drawn = RunId::new(now, rand::random_range(0..CHANCE));
    let second = &drawn.as_str()[..drawn.as_str().len() - 6];
    let ends = Run::all(&config.runs_dir())?.into_iter().filter_map(|run| {
        let end = run.id.as_str().strip_prefix(second)?;
        u32::from_str_radix(end, 16).ok()
    });
    Ok(ends.max().map_or(drawn.clone(), |last| RunId::new(now, last + 1)))
}
