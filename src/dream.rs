//! One night, start to end: the only file that states the order of the line.
//! lock → recover → read → NREM → REM → plan → apply → dream log. Each step is elsewhere.

mod captured;
mod finish;
pub(crate) mod probe;
mod read;
mod recover;
mod sources;
mod think;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, NaiveDate, Utc};

use crate::config::Config;
use crate::episode::Episode;
use crate::error::Error;
use crate::forget::memorial::Memorial;
use crate::forget::told;
use crate::forget::vanished::{self, Looking, bury_vanished};
use crate::language::counted;
use crate::openclaw::recall::Forget;
use crate::openclaw::transcript;
use crate::plan::apply::store_before_images;
use crate::plan::run::last_finished;
use crate::plan::{DreamPlan, Phase, Run, RunId};
use crate::privacy::Privacy;
use crate::providers::budget::{Budget, Limits};
use crate::providers::{Embedder, Reasoner, Thresholds, configured};
use crate::queues::retry::RetryQueue;
use crate::queues::{Queues, carry_out};
use crate::rem;
use crate::remembered::Remembered;
use crate::report::{DreamReport, Status};
use crate::space::{self, Needs};
use crate::state::StateError;
use crate::state::journal::Journal;
use crate::state::ledger::Ledger;
use crate::state::lock::Lock;
use crate::state::maintenance::Maintenance;
use crate::state::recalls::RecallBook;
use crate::state::tombstones::Tombstones;
use crate::state::versions::{Versions, last_version};
use crate::store::Store;
use crate::trigger::{self, Due};
pub(crate) use finish::carry_out;
use read::is_missing;
pub(crate) use read::{only_named, read_reopened, remember};
pub(crate) use recover::recover;
use recover::tell_unfinished;
pub(crate) use sources::{
    Sources, Where, day_in, episodes_named, has_folder, is_of_transcript, read_sources, session_in,
};
pub(crate) use think::material_of;
use think::{Reading, millis, think};

/// Which stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// NREM and REM.
    Full,
    /// NREM alone: drafts with a conflict are held back for the next full night.
    NremOnly,
    /// REM alone: no episode is read.
    RemOnly,
}

impl Mode {
    /// How the log names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "the whole night",
            Self::NremOnly => "NREM only",
            Self::RemOnly => "REM only",
        }
    }

    /// Whether drafts with a conflict wait.
    pub fn holds_conflicts_back(self) -> bool {
        self == Self::NremOnly
    }
}

/// What the operator asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Which stages.
    pub mode: Mode,
    /// Stop at the plan.
    pub dry_run: bool,
    /// Only if it is due.
    pub if_due: bool,
    /// Rows that vanished were deleted on purpose, however many.
    pub accept_vanished: bool,
}

/// What a night works with: settings, models, what is stored, and the time, which is fixed for the whole night.
pub struct Night<'a> {
    /// The settings.
    pub config: &'a Config,
    /// The run.
    pub run: RunId,
    /// When it started.
    pub now: DateTime<Utc>,
    /// The day of that, in the configured time zone.
    pub today: NaiveDate,
    /// Which stages run.
    pub mode: Mode,
    /// The database.
    pub store: &'a Store,
    /// Who embeds.
    pub embedder: &'a dyn Embedder,
    /// Who distils and judges.
    pub reasoner: &'a Reasoner<'a>,
    /// What both may cost.
    pub budget: &'a Budget,
    /// What may leave.
    pub privacy: &'a Privacy,
    /// The embedder's similarities.
    pub thresholds: Thresholds,
    /// Active days so far.
    pub ledger: Ledger,
    /// What was forgotten on purpose.
    pub memorial: Memorial,
    /// Nights on which tonight's chunks competed and lost so far.
    pub nights_before: HashMap<String, u32>,
    /// What was asked about in vain so far.
    pub retry: RetryQueue,
}

/// The models of a run and what they may cost.
pub struct Models {
    /// Who embeds.
    pub embedder: Box<dyn Embedder>,
    /// Who distils and judges.
    pub reasoner: Reasoner<'static>,
    /// Shared by both.
    pub budget: Arc<Budget>,
}

impl Models {
    /// The models the settings name.
    fn of(config: &Config, budget: Arc<Budget>) -> Result<Self, Error> {
        let embedder = configured::embedder(config, budget.clone())?;
        let reasoner = configured::reasoner(config, budget.clone())?;
        Ok(Self { embedder, reasoner, budget })
    }

    async fn release(&self) {
        self.embedder.release().await;
        if let Reasoner::Model(model) = &self.reasoner {
            model.release().await;
        }
    }
}

/// Dreams one night. `now` is its time throughout; `started` is what the budget of minutes counts from.
///
/// # Errors
/// When the night cannot begin (configuration, lock, database, another model's vectors) or a write fails. A provider's
/// failure on the way is no error: the report says what was held back.
pub async fn dream(
    config: &Config,
    options: Options,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    if let Some(reason) = stands_aside(config, options, now)? {
        return Ok(not_due(now, reason, vec![]));
    }
    config.check_night()?;
    let limits = Limits::new(config.max_calls, config.max_minutes, config.concurrency, started);
    let budget = Budget::new(limits.with_tokens(config.max_tokens));
    let models = Models::of(config, budget)?;
    dream_with(config, options, &models, now, started).await
}

/// [`dream`] with given models: the whole-night tests bring scripted ones.
///
/// # Errors
/// As [`dream`].
pub async fn dream_with(
    config: &Config,
    options: Options,
    models: &Models,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    let dreamt = one_night(config, options, models, now, started).await;
    models.release().await;
    dreamt
}

async fn one_night(
    config: &Config,
    options: Options,
    models: &Models,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    if let Some(reason) = stands_aside(config, options, now)? {
        return Ok(not_due(now, reason, vec![]));
    }
    if options.if_due {
        let local = now.with_timezone(&config.timezone);
        if let Due::No { reason } =
            trigger::in_time(&local, last_finished(&config.runs_dir())?, config.window)
        {
            return Ok(not_due(now, reason, vec![]));
        }
    }
    let _lock = Lock::take(&config.state_dir())?;
    let store = Store::open(&config.lancedb_uri).await?;
    check_tables(config, options, &store)?;
    // Before anything is paid for, too: the plan's own needs are known only then.
    space::check(config, Needs::at_least(), space::disk_of)?;
    let mut warnings = match options.dry_run {
        true => tell_unfinished(config, now)?,
        false => recover(config, &store, now).await?,
    };
    warnings.extend(tell_maintenance(config, now)?);

    let known = remember(config, &store, &mut warnings).await?;
    let mut known = only_named(config, &store, known, &mut warnings);
    let mut journal = Journal::read(&config.state_dir())?;
    let timed = options.if_due;
    let place = Where { config, store: &store, journal: &journal, mode: options.mode, timed, now };
    let Sources { mut episodes, mut uses } = read_sources(place, &known, &mut warnings)?;
    tell_troubles(&warnings);
    if let Some(agent) = &config.only_agent {
        known = only_agent(agent, known, &mut episodes, config)?;
        uses = uses.only(agent);
    }
    let forgets = told::open(&uses, &RecallBook::read(&config.state_dir())?);
    let vanished = settle_vanished(options, &known, &forgets, &mut warnings)?;
    let mut queues = Queues::read(config, now.with_timezone(&config.timezone).date_naive())?;
    queues.reopen(&mut journal, &mut known);
    if options.mode != Mode::RemOnly {
        read_reopened(config, &store, &journal, &mut episodes, &mut warnings)?;
    }
    let material = material_of(config, &episodes, &journal);
    if options.if_due {
        let new = material.chunks.len() + rem::never_compared(&known);
        if let Due::No { reason } = trigger::enough(new, config.min_new) {
            return Ok(not_due(now, reason, warnings));
        }
    }
    let tombstones = Tombstones::read(&config.state_dir())?;
    let looking = Looking {
        store: &store,
        known: &known,
        tombstones: &tombstones,
        version: last_version(&config.state_dir()).map(|(version, _)| version),
        default_agent: &config.agent,
        now,
    };
    let mut buried = bury_vanished(looking, vanished).await?;
    told::bury_told(looking, &forgets, &mut buried).await?;
    warnings.extend(buried.told.iter().cloned());
    let known = vanished::without_forgotten(known, &buried);
    let memorial = Memorial::new(tombstones, &buried.tombstones);
    tell(&format!(
        "{} of {}, {}",
        counted(material.chunks.len(), "chunk"),
        counted(material.episodes.len(), "episode"),
        counted(known.rows.len(), "memory")
    ));
    let run = Run::of(&config.runs_dir(), RunId::new(now, rand::random()));
    let reading = Reading {
        store: &store,
        known: &known,
        material: &material,
        journal: &journal,
        memorial: &memorial,
        buried: &buried,
        queues: &queues,
        uses: &uses,
    };
    let plan = match think(config, options, models, &run, &reading, warnings, now).await {
        Ok(plan) => plan,
        Err(error) => {
            // Settings that cannot be used have paid for nothing that a later night could go on with.
            run.forget_if(error.exit_code() == 78);
            return Err(error);
        }
    };
    let plan = DreamPlan { report: DreamReport { elapsed_ms: millis(started), ..plan.report }, ..plan };
    space::check(config, Needs::of(&plan, store.dim()), space::disk_of)?;
    store_before_images(&plan, &store, &run.folder).await?;
    if options.dry_run {
        let report = DreamReport { status: Status::DryRun, ..plan.report.clone() };
        let plan = DreamPlan { report, ..plan };
        run.store_plan(&plan, Phase::Previewed)?;
        return Ok(plan.report);
    }
    run.store_plan(&plan, Phase::Planned)?;
    run.use_up_replies(&config.runs_dir())?;
    carry_out(&run, plan, &store, config, now, started).await
}

/// Executes the plan of a dry run.
///
/// # Errors
/// When there is no such plan, it is over or stale, or a write fails.
pub async fn apply(
    config: &Config,
    run: &str,
    now: DateTime<Utc>,
    started: Instant,
) -> Result<DreamReport, Error> {
    let runs = config.runs_dir();
    let no_such = || crate::plan::PlanError::NoSuchRun { run: run.to_owned(), path: runs.join(run) };
    let run = Run::of(&runs, RunId::parse(run).ok_or_else(no_such)?);
    let _lock = Lock::take(&config.state_dir())?;
    run.check_applicable(&runs, now)?;
    let plan = run.read_plan()?;
    if plan.home != config.home {
        let why = format!("it was made for the home {}", plan.home.display());
        return Err(crate::plan::PlanError::Stale { run: run.id, why }.into());
    }
    let store = Store::open(&config.lancedb_uri).await?;
    space::check(config, Needs::of(&plan, store.dim()), space::disk_of)?;
    carry_out(&run, plan, &store, config, now, started).await
}

/// `--agent`: what is remembered of one agent, and its episodes.
pub(crate) fn only_agent(
    agent: &str,
    known: Remembered,
    episodes: &mut Vec<Episode>,
    config: &Config,
) -> Result<Remembered, Error> {
    let mut there: BTreeSet<String> = known.agents().into_iter().collect();
    there.extend(episodes.iter().map(|episode| episode.agent.clone()));
    there.insert(config.agent.clone());
    there.extend(config.agents.iter().map(|named| named.id.clone()));
    if !there.contains(agent) {
        let there = there.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownAgent { agent: agent.to_owned(), there });
    }
    episodes.retain(|episode| episode.agent == agent);
    Ok(known.only(agent))
}

/// Stops when a table of ours is gone that the last run left: without it pins, histories or the way back of memories would
/// be lost without a word.
fn check_tables(config: &Config, options: Options, store: &Store) -> Result<(), Error> {
    let mut versions = Versions::read(&config.state_dir()).unwrap_or_default();
    let gone: Vec<String> =
        versions.tables().filter(|table| !store.has_table(table)).map(str::to_owned).collect();
    for table in gone {
        if !options.accept_vanished {
            return Err(Error::TableGone { table, path: config.lancedb_uri.clone() });
        }
        versions.forget_table(&table);
        if !options.dry_run {
            versions.write(&config.state_dir())?;
        }
    }
    Ok(())
}

/// Rows that are gone without our doing, by agent: they were forgotten on purpose. Stops when so many of an agent's are
/// gone that it must be an accident, until the operator says that it was meant.
fn settle_vanished(
    options: Options,
    known: &Remembered,
    forgets: &[Forget],
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let vanished = known.vanished();
    // What the agent was told to forget is no accident.
    let told: BTreeSet<&String> = forgets.iter().map(|forget| &forget.id).collect();
    let untold = |ids: &Vec<String>| ids.iter().filter(|id| !told.contains(id)).count();
    let alarming =
        vanished.iter().map(|(agent, ids)| (agent, untold(ids), ids.len() + known.rows_of(agent).count()));
    if let Some((agent, count, of)) =
        alarming.into_iter().find(|(_, count, of)| *count > 5 && count * 10 > *of)
    {
        if !options.accept_vanished {
            return Err(Error::Vanished { agent: agent.clone(), count, of });
        }
        warnings.push(format!(
            "{count} of {of} memories of `{agent}` had vanished, and you said that it was meant"
        ));
    }
    Ok(vanished)
}

/// Why a timed run does nothing at all: the operator works on the home.
fn stands_aside(config: &Config, options: Options, now: DateTime<Utc>) -> Result<Option<String>, StateError> {
    if !options.if_due {
        return Ok(None);
    }
    let maintenance = Maintenance::read(&config.state_dir())?;
    Ok(match trigger::outside_maintenance(maintenance.as_ref(), &now.with_timezone(&config.timezone)) {
        Due::No { reason } => Some(reason),
        Due::Yes => None,
    })
}

/// A run that was asked for goes ahead, and says that the others do not.
fn tell_maintenance(config: &Config, now: DateTime<Utc>) -> Result<Option<String>, StateError> {
    let maintenance = Maintenance::read(&config.state_dir())?.filter(|maintenance| maintenance.is_on(now));
    Ok(maintenance
        .map(|_| "maintenance is on: timed runs stand aside until `dreamer maintenance off`".to_owned()))
}

/// The reason first, then what was seen on the way to it: why there seems to be nothing new.
fn not_due(now: DateTime<Utc>, reason: String, mut warnings: Vec<String>) -> DreamReport {
    warnings.insert(0, reason);
    DreamReport { status: Status::NotDue, started: now, warnings, ..DreamReport::default() }
}

/// What was to be read and could not be: the log of the night holds it among many notes, and the operator must hear of it.
fn tell_troubles(warnings: &[String]) {
    for trouble in warnings.iter().filter(|warning| transcript::is_trouble(warning) || is_missing(warning)) {
        tracing::warn!("{trouble}");
    }
}

fn tell(what: &str) {
    tracing::info!("{what}");
}
