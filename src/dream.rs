//! One night, start to end: the only file that states the order of the line.
//! lock → recover → read → NREM → REM → plan → apply → dream log. Each step is elsewhere.

mod probe;
mod read;
mod recover;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, NaiveDate, Utc};

use crate::config::{Config, EmbeddingProvider};
use crate::episode::Episode;
use crate::error::{Error, chain};
use crate::nrem::select::{self, Material};
use crate::nrem::{self, Compressed};
use crate::plan::apply::{Applied, apply as execute, store_before_images};
use crate::plan::build::{self, build};
use crate::plan::run::last_finished;
use crate::plan::{DreamPlan, Phase, Run, RunId};
use crate::privacy::Privacy;
use crate::providers::budget::{Budget, Limits};
use crate::providers::recorded::{RecordedEmbedder, RecordedModel, Replies};
use crate::providers::{Embedder, ProviderError, Reasoner, Thresholds, configured};
use crate::queues::retry::RetryQueue;
use crate::queues::{Queues, carry_out, review};
use crate::rem;
use crate::remembered::Remembered;
use crate::report::{Cost, DreamReport, Status, dream_log};
use crate::state::journal::{Fate, Journal, JudgedPair};
use crate::state::ledger::Ledger;
use crate::state::lock::Lock;
use crate::state::{StateError, write_atomically};
use crate::store::Store;
use crate::thresholds;
use crate::trigger::{self, Due};
use probe::{Asked, check_model};
use read::read_recalls;
pub(crate) use read::{read_episodes, read_reopened, remember};
use recover::{recover, tell_unfinished};

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
    /// What may leave.
    pub privacy: &'a Privacy,
    /// The embedder's similarities.
    pub thresholds: Thresholds,
    /// Active days so far.
    pub ledger: Ledger,
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
    if options.if_due {
        let local = now.with_timezone(&config.timezone);
        if let Due::No { reason } =
            trigger::in_time(&local, last_finished(&config.runs_dir())?, config.window)
        {
            return Ok(not_due(now, reason));
        }
    }
    let _lock = Lock::take(&config.state_dir())?;
    let store = Store::open(&config.lancedb_uri).await?;
    let mut warnings = match options.dry_run {
        true => tell_unfinished(config, now)?,
        false => recover(config, &store, now).await?,
    };

    let mut known = remember(config, &store, &mut warnings).await?;
    let mut episodes = match options.mode {
        Mode::RemOnly => vec![],
        _ => read_episodes(config, &store, options.if_due, now, &mut warnings)?,
    };
    if let Some(agent) = &config.only_agent {
        known = only_agent(agent, known, &mut episodes, config)?;
    }
    settle_vanished(options, &known, &store, &mut warnings).await?;
    let mut journal = Journal::read(&config.state_dir())?;
    let mut queues = Queues::read(config, now.with_timezone(&config.timezone).date_naive())?;
    queues.reopen(&mut journal, &mut known);
    if options.mode != Mode::RemOnly {
        read_reopened(config, &store, &journal, &mut episodes, &mut warnings)?;
    }
    let material = material_of(config, &episodes, &journal);
    if options.if_due {
        let new = material.chunks.len() + rem::unreconciled(&known).len();
        if let Due::No { reason } = trigger::enough(new, config.min_new) {
            return Ok(not_due(now, reason));
        }
    }
    tell(&format!(
        "{} chunks of {} episodes, {} memories",
        material.chunks.len(),
        material.episodes.len(),
        known.rows.len()
    ));
    let run = Run::of(&config.runs_dir(), RunId::new(now, rand::random()));
    let reading =
        Reading { store: &store, known: &known, material: &material, journal: &journal, queues: &queues };
    let plan = match think(config, options, models, &run, &reading, warnings, now).await {
        Ok(plan) => plan,
        Err(error) => {
            run.forget_if_empty();
            return Err(error);
        }
    };
    let plan = DreamPlan { report: DreamReport { elapsed_ms: millis(started), ..plan.report }, ..plan };
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

/// What a night has read when it begins to think.
struct Reading<'a> {
    store: &'a Store,
    known: &'a Remembered,
    material: &'a Material,
    journal: &'a Journal,
    queues: &'a Queues,
}

/// The night up to its plan. Models are asked, and every reply is recorded in the run's folder before it is used.
async fn think(
    config: &Config,
    options: Options,
    models: &Models,
    run: &Run,
    reading: &Reading<'_>,
    mut warnings: Vec<String>,
    now: DateTime<Utc>,
) -> Result<DreamPlan, Error> {
    let Reading { store, known, material, journal, queues } = *reading;
    let replies =
        Replies::open(Replies::folder(&run.folder), &Run::unused_replies(&config.runs_dir(), now)?)?;
    run.start(now)?;
    let recorded = RecordedEmbedder { embedder: models.embedder.as_ref(), replies: &replies };
    // What costs nothing need not be kept.
    let embedder: &dyn Embedder = match config.embedding_provider {
        EmbeddingProvider::Builtin => models.embedder.as_ref(),
        _ => &recorded,
    };
    let reasoner = match &models.reasoner {
        Reasoner::Model(model) => {
            Reasoner::Model(Box::new(RecordedModel { model: model.as_ref(), replies: &replies }))
        }
        Reasoner::Extractive => Reasoner::Extractive,
    };
    let privacy = Privacy::new(config.mask_pii, config.prompts_leave());
    let mut night = Night {
        config,
        run: run.id.clone(),
        now,
        today: now.with_timezone(&config.timezone).date_naive(),
        mode: options.mode,
        store,
        embedder,
        reasoner: &reasoner,
        privacy: &privacy,
        thresholds: config.thresholds(None)?.unwrap_or(thresholds::NOTHING_ALIKE),
        ledger: Ledger::read(&config.state_dir())?,
        nights_before: select::nights_before(&material.chunks, journal, now),
        retry: queues.retry.clone(),
    };
    let ready = match check_model(&night, known, material).await {
        Ok(Asked::Something) => thresholds::settle(&mut night, &mut warnings).await,
        Ok(Asked::Nothing) => Ok(None),
        Err(error) => Err(error),
    };
    let mut plan = match ready {
        Ok(calibrated) => {
            let plan = plan(&night, known, material, journal, queues, warnings).await?;
            DreamPlan { calibrated, ..plan }
        }
        Err(Error::Provider(error)) => held_back(&night, known, material, journal, warnings, &error),
        Err(error) => return Err(error),
    };
    plan.report.cost = spent(models);
    if replies.used_again() > 0 {
        plan.report.warnings.push(format!(
            "{} replies that an interrupted run or a dry run had paid for were used: nothing was asked twice",
            replies.used_again()
        ));
    }
    Ok(plan)
}

fn millis(started: Instant) -> u64 {
    started.elapsed().as_millis() as u64
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
    carry_out(&run, plan, &store, config, now, started).await
}

/// NREM, REM and the plan. Reads and asks; writes nothing.
async fn plan(
    night: &Night<'_>,
    everything: &Remembered,
    material: &Material,
    journal: &Journal,
    queues: &Queues,
    mut warnings: Vec<String>,
) -> Result<DreamPlan, Error> {
    let carried = carry_out::carry_out(night, everything, material, journal, queues).await?;
    let known = &everything.clone().without(&carried.reserved);
    let compressed = match night.mode {
        Mode::RemOnly => Compressed::default(),
        _ => nrem::compress(night, material, known).await?,
    };
    tell(&format!(
        "NREM: {} clusters, {} new drafts, {} said again",
        compressed.clusters,
        compressed.drafts.len(),
        compressed.reinforced.len() + compressed.revived.len()
    ));
    let mut judged = JudgedPair::read_all(&night.config.state_dir())?;
    judged.extend(queues.retry.asked_of_a_person());
    let rem = rem::reconcile(night, &compressed, known, &judged).await?;
    tell(&format!("REM: {} candidates, {} resolved", rem.candidates, rem.resolutions.list.len()));
    let revived: Vec<String> = compressed.revived.iter().map(|again| again.id.clone()).collect();
    let found = build::Found {
        known,
        material,
        compressed: &compressed,
        rem: &rem,
        recalls: &read_recalls(night.config, &mut warnings)?,
        archived_vectors: &night.store.archived_vectors(&revived).await?,
        journal,
        warnings,
    };
    let mut plan = build(night, found);
    carried.into_plan(&mut plan);
    review::place(&mut plan, night, queues, everything, journal);
    build::tell_status(&mut plan);
    Ok(plan)
}

/// Tonight's chunks. What is read from the archive again stays there.
pub(crate) fn material_of(config: &Config, episodes: &[Episode], journal: &Journal) -> Material {
    let mut material = select::select(episodes, journal, config.max_episode_days, config.timezone);
    material.files.retain(|file| !file.path.starts_with(config.archive_dir()));
    material
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
    if !there.contains(agent) {
        let there = there.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownAgent { agent: agent.to_owned(), there });
    }
    episodes.retain(|episode| episode.agent == agent);
    Ok(known.only(agent))
}

/// The plan where the embedder cannot be reached: everything waits, and the log says why.
fn held_back(
    night: &Night<'_>,
    known: &Remembered,
    material: &Material,
    journal: &Journal,
    warnings: Vec<String>,
    error: &ProviderError,
) -> DreamPlan {
    let compressed = nrem::hold_everything(night, material, error);
    let (rem, recalls, archived_vectors) = Default::default();
    let found = build::Found {
        known,
        material,
        compressed: &compressed,
        rem: &rem,
        recalls: &recalls,
        archived_vectors: &archived_vectors,
        journal,
        warnings,
    };
    build::build_held_back(night, found)
}

/// Applies the plan, writes the dream log, and ends the run.
async fn carry_out(
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
    let mut report = plan.report;
    take_in(&mut report, applied);
    report.elapsed_ms = report.elapsed_ms.max(millis(started));
    let log = match write_log(&report, config) {
        Ok(path) => path,
        // The memories are written: to fail here would only write them again, night after night.
        Err(error) => {
            fail(&mut report, chain(&error));
            write_log_beside_the_plan(&report, config, run)?
        }
    };
    report.dream_log = Some(log);
    run.enter(Phase::Finished, now)?;
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

/// Stops when so many of an agent's rows are gone without our doing that it must be an accident, until the operator says
/// that it was meant; their traces then go, too. A few were forgotten on purpose.
async fn settle_vanished(
    options: Options,
    known: &Remembered,
    store: &Store,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let vanished = known.vanished();
    let alarming =
        vanished.iter().map(|(agent, ids)| (agent, ids.len(), ids.len() + known.rows_of(agent).count()));
    let Some((agent, count, of)) = alarming.into_iter().find(|(_, count, of)| *count > 5 && count * 10 > *of)
    else {
        return Ok(());
    };
    if !options.accept_vanished {
        return Err(Error::Vanished { agent: agent.clone(), count, of });
    }
    warnings
        .push(format!("{count} of {of} memories of `{agent}` had vanished, and you said that it was meant"));
    if !options.dry_run {
        store.remove_traces(&vanished.into_values().flatten().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

fn spent(models: &Models) -> Cost {
    let spent = models.budget.spent();
    Cost {
        embedding: models.embedder.model().to_owned(),
        language: models.reasoner.name().to_owned(),
        calls: spent.calls,
        input_tokens: spent.input_tokens,
        output_tokens: spent.output_tokens,
    }
}

fn not_due(now: DateTime<Utc>, reason: String) -> DreamReport {
    DreamReport { status: Status::NotDue, started: now, warnings: vec![reason], ..DreamReport::default() }
}

/// Writes the dream log `YYYY-MM-DD_HHMM.md`; a second run in the same minute gets a suffix. Returns its path.
fn write_log(report: &DreamReport, config: &Config) -> Result<String, StateError> {
    let local = report.started.with_timezone(&config.timezone);
    let stem = local.format("%Y-%m-%d_%H%M").to_string();
    let text = dream_log(report, &local);
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

fn tell(what: &str) {
    tracing::info!("{what}");
}
