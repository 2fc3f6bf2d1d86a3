//! One night, start to end: the only file that states the order of the line.
//! lock → recover → read → NREM → REM → plan → apply → dream log. Each step is elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, NaiveDate, Utc};

use crate::config::Config;
use crate::episode::{self, Episode, Found, Read, Reading};
use crate::error::Error;
use crate::nrem::select::{self, Material};
use crate::nrem::{self, Compressed};
use crate::plan::apply::{Applied, apply as execute, store_before_images};
use crate::plan::build::{self, build};
use crate::plan::run::last_finished;
use crate::plan::traces::Recalls;
use crate::plan::{DreamPlan, Phase, Run, RunId};
use crate::privacy::Privacy;
use crate::providers::budget::{Budget, Limits};
use crate::providers::{Embedder, ProviderError, Reasoner, Thresholds, configured};
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

/// A timed run leaves a file alone that changed so recently: somebody may still be writing it.
const STILL_WARM: Duration = Duration::from_secs(10 * 60);
/// Rows that are embedded again to see whether the table is of the configured model.
const PROBED: usize = 5;
/// The median cosine that must be exceeded.
const SAME_MODEL: f32 = 0.99;

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
    pub reasoner: &'a Reasoner,
    /// What may leave.
    pub privacy: &'a Privacy,
    /// The embedder's similarities.
    pub thresholds: Thresholds,
    /// Active days so far.
    pub ledger: Ledger,
    /// Nights on which tonight's chunks competed and lost so far.
    pub nights_before: HashMap<String, u32>,
}

/// The models of a run and what they may cost.
pub struct Models {
    /// Who embeds.
    pub embedder: Box<dyn Embedder>,
    /// Who distils and judges.
    pub reasoner: Reasoner,
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
    let budget = Budget::new(Limits::new(config.max_calls, config.max_minutes, config.concurrency, started));
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

    let known = remember(config, &store, &mut warnings).await?;
    let episodes = match options.mode {
        Mode::RemOnly => vec![],
        _ => read_episodes(config, &store, options.if_due, now, &mut warnings)?,
    };
    let journal = Journal::read(&config.state_dir())?;
    let material = select::select(&episodes, &journal, config.max_episode_days, config.timezone);
    if options.if_due {
        let new = material.chunks.len() + rem::unreconciled(&known).len();
        if let Due::No { reason } = trigger::enough(new, config.min_new) {
            return Ok(not_due(now, reason));
        }
    }
    let privacy = Privacy::new(config.mask_pii, config.prompts_leave());
    let mut night = Night {
        config,
        run: RunId::new(now, rand::random()),
        now,
        today: now.with_timezone(&config.timezone).date_naive(),
        mode: options.mode,
        store: &store,
        embedder: models.embedder.as_ref(),
        reasoner: &models.reasoner,
        privacy: &privacy,
        thresholds: config.thresholds(None)?.unwrap_or(thresholds::NOTHING_ALIKE),
        ledger: Ledger::read(&config.state_dir())?,
        nights_before: select::nights_before(&material.chunks, &journal),
    };
    let run = Run::of(&config.runs_dir(), night.run.clone());
    tell(&format!(
        "{} chunks of {} episodes, {} memories",
        material.chunks.len(),
        material.episodes.len(),
        known.rows.len()
    ));

    let ready = match check_model(&night, &known, &material).await {
        Ok(Asked::Something) => thresholds::settle(&mut night, &mut warnings).await,
        Ok(Asked::Nothing) => Ok(None),
        Err(error) => Err(error),
    };
    let mut plan = match ready {
        Ok(calibrated) => {
            let plan = plan(&night, &known, &material, &journal, warnings).await?;
            DreamPlan { calibrated, ..plan }
        }
        Err(Error::Provider(error)) => held_back(&night, &known, &material, &journal, warnings, &error),
        Err(error) => return Err(error),
    };
    plan.report.cost = spent(models);
    plan.report.elapsed_ms = started.elapsed().as_millis() as u64;

    store_before_images(&plan, &store, &run.folder).await?;
    if options.dry_run {
        plan.report.status = Status::DryRun;
        run.store_plan(&plan, Phase::Previewed)?;
        return Ok(plan.report);
    }
    run.store_plan(&plan, Phase::Planned)?;
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
    let store = Store::open(&config.lancedb_uri).await?;
    carry_out(&run, plan, &store, config, now, started).await
}

/// NREM, REM and the plan. Reads and asks; writes nothing.
async fn plan(
    night: &Night<'_>,
    known: &Remembered,
    material: &Material,
    journal: &Journal,
    mut warnings: Vec<String>,
) -> Result<DreamPlan, Error> {
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
    let judged = JudgedPair::read_all(&night.config.state_dir())?;
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
    Ok(build(night, found))
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
    report.elapsed_ms = report.elapsed_ms.max(started.elapsed().as_millis() as u64);
    let log = write_log(&report, config)?;
    report.dream_log = Some(log);
    run.enter(Phase::Finished, now)?;
    Ok(report)
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
}

/// Ends what a killed run began: a plan that was being applied is applied again; one that was not started is applied if
/// it is young enough and no other run finished since, else given up.
async fn recover(config: &Config, store: &Store, now: DateTime<Utc>) -> Result<Vec<String>, Error> {
    let mut told = Vec::new();
    let runs = config.runs_dir();
    for run in Run::all(&runs)? {
        let phase = run.phase()?;
        if !phase.is_unfinished() {
            continue;
        }
        if phase == Phase::Planned && (!run.is_fresh(now)? || run.overtaken(&runs)?.is_some()) {
            run.enter(Phase::Abandoned, now)?;
            told.push(format!(
                "run {} had been planned and never started: given up, nothing of it was written",
                run.id
            ));
            continue;
        }
        tracing::warn!("run {} was interrupted: going on with it", run.id);
        let report = carry_out(&run, run.read_plan()?, store, config, now, Instant::now()).await?;
        let log = report.dream_log.unwrap_or_default();
        told.push(format!("run {} had been interrupted and is finished now: {log}", run.id));
    }
    Ok(told)
}

/// A dry run writes nothing, so it leaves a killed run to the next night; its own plan cannot be applied before that.
fn tell_unfinished(config: &Config, now: DateTime<Utc>) -> Result<Vec<String>, Error> {
    let mut told = Vec::new();
    for run in Run::all(&config.runs_dir())? {
        if run.is_pending(now)? {
            told.push(format!(
                "run {} was interrupted: a full run goes on with it first, so this preview may not hold",
                run.id
            ));
        }
    }
    Ok(told)
}

async fn remember(config: &Config, store: &Store, warnings: &mut Vec<String>) -> Result<Remembered, Error> {
    let rows = store.rows(&config.agent).await?;
    let traces = store.traces().await?;
    if rows.ownerless > 0 {
        warnings.push(format!(
            "{} rows have no agentId: the gateway never recalls them, they are left alone",
            rows.ownerless
        ));
    }
    if rows.unreadable > 0 {
        warnings.push(format!("{} rows have no id or no text: they are left alone", rows.unreadable));
    }
    if !traces.unreadable.is_empty() {
        warnings
            .push(format!("{} traces could not be read: their memories start anew", traces.unreadable.len()));
    }
    let archived = store.archived_all(&config.agent).await?;
    Ok(Remembered {
        rows: rows.memories.into_iter().map(|row| (row.id.clone(), row)).collect(),
        traces: traces.traces,
        archived: archived.into_iter().map(|a| (a.memory.id.clone(), a)).collect(),
        timezone: config.timezone,
    })
}

fn read_episodes(
    config: &Config,
    store: &Store,
    timed: bool,
    now: DateTime<Utc>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Episode>, Error> {
    let reading =
        Reading { owner: config.owner.clone(), agent: config.agent.clone(), timezone: config.timezone };
    let listing = episode::list(&config.episodes_dir)?;
    if !listing.ignored.is_empty() {
        let few = listing.ignored.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{} files are no episodes by their name and were passed over: {few}",
            listing.ignored.len()
        ));
    }
    let mut episodes = Vec::new();
    for found in &listing.found {
        if timed && is_warm(found, now) {
            warnings
                .push(format!("{} changed in the last ten minutes: it waits for the next night", found.name));
            continue;
        }
        match episode::read(found, &reading)? {
            Read::Episode(mut episode) => {
                // A table without agents is one agent's, whatever session an episode is from.
                if !store.has_agent() {
                    episode.agent.clone_from(&config.agent);
                }
                warnings
                    .extend(episode.warnings.iter().map(|warning| format!("{}: {warning}", episode.name)));
                episodes.push(episode);
            }
            Read::Changing => {
                warnings.push(format!("{} is being written: it waits for the next night", found.name))
            }
            Read::Skipped { what, why } => warnings.push(format!("{}: {why}", what.display())),
        }
    }
    Ok(episodes)
}

fn is_warm(found: &Found, now: DateTime<Utc>) -> bool {
    SystemTime::from(now).duration_since(found.modified).is_ok_and(|age| age < STILL_WARM)
}

/// Whether there was anything to ask the embedder about.
enum Asked {
    Something,
    Nothing,
}

/// Stops before anything is paid or written when the table's vectors are of another model.
async fn check_model(night: &Night<'_>, known: &Remembered, material: &Material) -> Result<Asked, Error> {
    let last = last_model(known, night.embedder.model());
    let sample: Vec<String> = sample(known.rows.keys().cloned().collect());
    let stored = night.store.vectors(&sample).await?;
    let texts: Vec<(String, Vec<f32>)> = stored
        .into_iter()
        .filter_map(|(id, vector)| Some((known.rows.get(&id)?.text.clone(), vector)))
        .collect();
    let dim = night.store.dim();
    if let Some(model_dim) = night.config.dimension().filter(|model_dim| *model_dim != dim) {
        let (path, model) = (night.config.lancedb_uri.clone(), night.embedder.model().to_owned());
        return Err(Error::OtherDimension { path, table: dim, model, model_dim, last });
    }
    if texts.is_empty() && material.chunks.is_empty() {
        return Ok(Asked::Nothing);
    }
    // An empty table has nothing to compare with, but the dimension must fit all the same.
    let words: Vec<_> = match texts.is_empty() {
        true => vec![night.privacy.to_embed("dimension")],
        false => texts.iter().map(|(text, _)| night.privacy.to_embed(text)).collect(),
    };
    let vectors = night.embedder.embed(&words).await?;
    if let Some(other) = vectors.iter().find(|vector| vector.len() != dim) {
        let (path, model) = (night.config.lancedb_uri.clone(), night.embedder.model().to_owned());
        return Err(Error::OtherDimension { path, table: dim, model, model_dim: other.len(), last });
    }
    let mut cosines: Vec<f32> = texts
        .into_iter()
        .zip(vectors)
        .filter_map(|((_, mut stored), vector)| {
            crate::providers::normalise(&mut stored).then(|| nrem::cluster::dot(&stored, &vector))
        })
        .collect();
    cosines.sort_by(f32::total_cmp);
    match cosines.get(cosines.len() / 2) {
        Some(cosine) if *cosine <= SAME_MODEL => Err(Error::OtherModel {
            dim,
            model: night.embedder.model().to_owned(),
            probed: cosines.len(),
            cosine: *cosine,
            last,
        }),
        _ => Ok(Asked::Something),
    }
}

/// Up to five ids, spread evenly: the first rows of a table are often of one day.
fn sample(ids: Vec<String>) -> Vec<String> {
    let step = (ids.len() / PROBED).max(1);
    ids.into_iter().step_by(step).take(PROBED).collect()
}

fn last_model(known: &Remembered, configured: &str) -> String {
    let last = known.traces.values().max_by(|a, b| a.run.cmp(&b.run)).map(|trace| trace.model.as_str());
    last.filter(|model| *model != configured)
        .map(|model| format!("; the last run used {model}"))
        .unwrap_or_default()
}

/// Recalls any agent may have noted in `recalls/*.jsonl`: `{"id" or "text", "at"}` a line.
fn read_recalls(config: &Config, warnings: &mut Vec<String>) -> Result<Recalls, StateError> {
    #[derive(serde::Deserialize)]
    struct Line {
        id: Option<String>,
        text: Option<String>,
        at: DateTime<Utc>,
    }
    let dir = config.recalls_dir();
    let mut recalls = Recalls::default();
    let failed = |path: &Path, source| StateError::Read { path: path.to_path_buf(), source };
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(recalls),
        Err(e) => return Err(failed(&dir, e)),
    };
    let mut files = BTreeSet::new();
    for entry in entries {
        files.insert(entry.map_err(|e| failed(&dir, e))?.path());
    }
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "jsonl")) {
        let bytes = std::fs::read(&path).map_err(|e| failed(&path, e))?;
        recalls.readable = true;
        for (number, line) in
            String::from_utf8_lossy(&bytes).lines().enumerate().filter(|(_, l)| !l.trim().is_empty())
        {
            match serde_json::from_str::<Line>(line) {
                Ok(Line { id: Some(id), at, .. }) => {
                    recalls.by_id.insert((id, at.with_timezone(&config.timezone).date_naive()));
                }
                Ok(Line { text: Some(text), at, .. }) => {
                    recalls.by_text.insert((text, at.with_timezone(&config.timezone).date_naive()));
                }
                _ => warnings.push(format!(
                    "{}:{}: no recall, passed over: a line is {{\"id\" or \"text\", \"at\"}}",
                    path.display(),
                    number + 1
                )),
            }
        }
    }
    Ok(recalls)
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

fn tell(what: &str) {
    tracing::info!("{what}");
}
