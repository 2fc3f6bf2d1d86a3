//! The night up to its plan: models are asked, drafts and rows compared, and what is to be written becomes a value.
//! Writes nothing but the recorded replies.

use std::collections::HashMap;
use std::time::Instant;

use chrono::{DateTime, Utc};

use super::probe::{Asked, check_model};
use super::{Mode, Models, Night, Options, captured, tell};
use crate::config::Config;
use crate::episode::Episode;
use crate::error::Error;
use crate::forget::memorial::Memorial;
use crate::forget::vanished::Buried;
use crate::language::counted;
use crate::memory::Departure;
use crate::nrem::chunk::Chunk;
use crate::nrem::select::{self, Material};
use crate::nrem::{self, Compressed};
use crate::openclaw::recall::{self, Uses};
use crate::openclaw::transcript;
use crate::plan::build::{self, build};
use crate::plan::{DreamPlan, Run};
use crate::providers::recorded::{RecordedEmbedder, RecordedModel, Replies};
use crate::providers::{Embedder, ProviderError, Reasoner};
use crate::queues::{Queues, carry_out, review};
use crate::rem;
use crate::remembered::Remembered;
use crate::report::Cost;
use crate::state::journal::{Journal, JudgedPair};
use crate::state::ledger::Ledger;
use crate::state::placeholder_key;
use crate::store::{Leaving, Store};
use crate::thresholds;

/// What a night has read when it begins to think.
pub(super) struct Reading<'a> {
    pub(super) store: &'a Store,
    pub(super) known: &'a Remembered,
    pub(super) material: &'a Material,
    pub(super) journal: &'a Journal,
    pub(super) memorial: &'a Memorial,
    pub(super) buried: &'a Buried,
    pub(super) queues: &'a Queues,
    pub(super) uses: &'a Uses,
}

/// The night up to its plan. Models are asked, and every reply is recorded in the run's folder before it is used.
pub(super) async fn think(
    config: &Config,
    options: Options,
    models: &Models,
    run: &Run,
    reading: &Reading<'_>,
    mut warnings: Vec<String>,
    now: DateTime<Utc>,
) -> Result<DreamPlan, Error> {
    let Reading { store, known, material, journal, memorial, buried, queues, uses } = *reading;
    let replies =
        Replies::open(Replies::folder(&run.folder), &Run::unused_replies(&config.runs_dir(), now)?)?;
    run.start(now)?;
    let recorded = RecordedEmbedder { embedder: models.embedder.as_ref(), replies: &replies };
    // What costs nothing need not be kept.
    let embedder: &dyn Embedder = match config.embedding_provider.is_in_process() {
        true => models.embedder.as_ref(),
        false => &recorded,
    };
    let reasoner = match &models.reasoner {
        Reasoner::Model(model) => {
            Reasoner::Model(Box::new(RecordedModel { model: model.as_ref(), replies: &replies }))
        }
        Reasoner::Extractive => Reasoner::Extractive,
    };
    let privacy = placeholder_key::policy(config, rand::random())?;
    let mut night = Night {
        config,
        run: run.id.clone(),
        now,
        today: now.with_timezone(&config.timezone).date_naive(),
        mode: options.mode,
        store,
        embedder,
        reasoner: &reasoner,
        budget: &models.budget,
        privacy: &privacy,
        thresholds: config.thresholds(None)?.unwrap_or(thresholds::NOTHING_ALIKE),
        ledger: Ledger::read(&config.state_dir())?,
        memorial: memorial.clone(),
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
            let plan = plan(&night, known, material, journal, (queues, uses), warnings).await?;
            DreamPlan { calibrated, ..plan }
        }
        Err(Error::Provider(error)) => held_back(&night, known, material, journal, warnings, &error),
        Err(error) => return Err(error),
    };
    take_in_buried(&mut plan, buried.clone());
    plan.report.cost = spent(models);
    plan.report.warnings.extend(models.embedder.warnings());
    if replies.used_again() > 0 {
        plan.report.warnings.push(format!(
            "{} used that an interrupted run or a dry run had paid for: nothing was asked twice",
            counted(replies.used_again() as usize, "reply")
        ));
    }
    Ok(plan)
}

/// NREM, REM and the plan. Reads and asks; writes nothing.
async fn plan(
    night: &Night<'_>,
    everything: &Remembered,
    material: &Material,
    journal: &Journal,
    (queues, uses): (&Queues, &Uses),
    mut warnings: Vec<String>,
) -> Result<DreamPlan, Error> {
    warnings.extend(captured::captured_again(night, everything).await?);
    let carried = carry_out::carry_out(night, everything, material, journal, queues).await?;
    let known = &everything.clone().without(&carried.reserved);
    let compressed = match night.mode {
        Mode::RemOnly => Compressed::default(),
        _ => nrem::compress(night, material, known).await?,
    };
    tell(&format!(
        "NREM: {}, {}, {} said again",
        counted(compressed.clusters, "cluster"),
        counted(compressed.drafts.len(), "new draft"),
        compressed.reinforced.len() + compressed.revived.len()
    ));
    let mut judged = JudgedPair::read_all(&night.config.state_dir())?;
    judged.extend(queues.retry.asked_of_a_person());
    let rem = rem::reconcile(night, &compressed, known, &judged).await?;
    tell(&format!("REM: {}, {} resolved", counted(rem.candidates, "candidate"), rem.resolutions.list.len()));
    let revived: Vec<String> = compressed.revived.iter().map(|again| again.id.clone()).collect();
    // Last of all: what is left of the budget goes to the prompts.
    let vectors = vectors_by_text(material, &compressed);
    let recalls = recall::read(night, everything, uses, &vectors, &mut warnings).await?;
    let found = build::Found {
        known,
        material,
        compressed: &compressed,
        rem: &rem,
        recalls: &recalls,
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

/// What the night has embedded of the day, by its words.
fn vectors_by_text(material: &Material, compressed: &Compressed) -> HashMap<String, Vec<f32>> {
    let embedded = |chunk: &Chunk| Some((chunk.text.clone(), compressed.vectors.get(&chunk.digest)?.clone()));
    material.chunks.iter().filter_map(embedded).collect()
}

/// Tonight's chunks. Neither do the gateway's transcripts move. What is read from the archive again stays there.
pub(crate) fn material_of(config: &Config, episodes: &[Episode], journal: &Journal) -> Material {
    let mut material = select::select(episodes, journal, config.max_episode_days, config.timezone);
    let stays = |name: &str| transcript::episodes::date_in(name).is_some();
    material.files.retain(|file| !file.path.starts_with(config.archive_dir()) && !stays(&file.name));
    material
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

/// The plan takes in what becomes of vanished rows, also where nothing else could be done tonight.
fn take_in_buried(plan: &mut DreamPlan, buried: Buried) {
    plan.report.forgotten.vanished = buried.vanished;
    plan.report.forgotten.told = buried.leaving.len();
    plan.report.live.0 += buried.leaving.len();
    let leaving = buried.leaving.into_iter().map(|row| Leaving {
        id: row.id,
        text: row.text,
        reason: Departure::Forgotten,
        successor: None,
        run: plan.run.as_str().to_owned(),
        at: plan.planned_at.timestamp_millis(),
    });
    let leaving: Vec<Leaving> = leaving.collect();
    plan.leaving.extend(leaving);
    plan.tombstones = buried.tombstones;
    plan.erased = buried.erased;
    plan.recalls.extend(buried.carried_out);
    plan.report.status = build::status_of(plan);
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

/// Milliseconds since then.
pub(super) fn millis(started: Instant) -> u64 {
    started.elapsed().as_millis() as u64
}
