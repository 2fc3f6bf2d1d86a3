//! `dreamer reembed`: every stored vector once more, of the embedding model that is configured now. The same length is
//! written in place, where an interrupted move stops every other run until it is ended; another length goes into a
//! database of its own beside the old one, which stays as it is. Everything is embedded before the first write, and
//! what was embedded is durable before it is used: asking again pays for nothing twice.

mod gather;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use chrono::{DateTime, Utc};

use self::gather::{Gathered, gather};
use crate::config::Config;
use crate::dream::recover;
use crate::error::Error;
use crate::forget::answers;
use crate::language::counted;
use crate::plan::{Phase, Run};
use crate::privacy::Privacy;
use crate::providers::budget::{Budget, Limits};
use crate::providers::{Embedder, ProviderError, configured};
use crate::space::{self, Needs};
use crate::state::audit::{self, Event, Kind};
use crate::state::lock::{Half, Lock};
use crate::state::tombstones::{Tombstone, Tombstones};
use crate::state::versions::Versions;
use crate::state::{StateError, sync_folder};
use crate::store::{Store, TABLES, VECTORED, VectorLog, VectorsByText, set_vectors_before};

/// Where in the folder of states the vectors from before the last move are: the way back.
pub(crate) const BEFORE: &str = "reembed/before";
/// Texts between two looks at how far it is.
const AT_ONCE: usize = 256;
/// Rows added or edited while a move was under way are moved, too, in at most so many rounds.
const ROUNDS: usize = 3;

/// Why vectors were not moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReembedError {
    /// The gateway answers.
    #[error(
        "re-embed: the gateway answers at {address}, and would go on writing vectors of its own model; stop it, set the \
         new model in its settings, and start it again once this is done"
    )]
    GatewayRuns {
        /// Where.
        address: String,
    },
    /// There is nothing to embed.
    #[error(
        "re-embed: the table `memories` in {database} is empty; a table with vectors of {dim} numbers is made by `dreamer setup` in a new folder"
    )]
    Empty {
        /// The database.
        database: String,
        /// The length of the model's vectors.
        dim: usize,
    },
    /// The new database cannot lie there.
    #[error("re-embed into {}: it exists; name another folder with --to, or remove it if it is of an earlier try", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// No database can be made there.
    #[error(
        "re-embed into {}: name a folder that is not there yet, in one that is, on this machine and outside the old database",
        folder.display()
    )]
    NoPlace {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder was named for a move that needs none.
    #[error("re-embed into {}: {model} has vectors as long as the table's, and they are written in place; leave --to out", folder.display())]
    NeedsNoFolder {
        /// The folder.
        folder: PathBuf,
        /// The model.
        model: String,
    },
    /// Somebody keeps writing.
    #[error(
        "re-embed: {count} rows were added or edited while it ran; stop whatever writes to the table and run it again"
    )]
    Moving {
        /// How many.
        count: usize,
    },
}

/// What a move would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// The model the last run used, where traces know it.
    pub from: Option<String>,
    /// The model that is configured.
    pub to: String,
    /// Numbers in the table's vectors.
    pub table_dim: usize,
    /// Numbers in the model's.
    pub dim: usize,
    /// Different texts that have a vector.
    pub texts: usize,
    /// Of them, texts whose vectors are there already: of an interrupted move, or from before the last one.
    pub ready: usize,
    /// Tokens of the others, estimated.
    pub tokens: usize,
    /// Median cosine between stored vectors and those of the model; none where they cannot be compared.
    pub cosine: Option<f32>,
    /// Whether an interrupted move is to be ended.
    pub interrupted: bool,
    /// Where the new database goes; none for a move in place.
    pub beside: Option<PathBuf>,
}

impl Outlook {
    /// Whether the table's vectors are the model's already.
    pub fn is_done(&self) -> bool {
        !self.interrupted && self.cosine.is_some_and(|cosine| cosine > gather::SAME_MODEL)
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// What it looked like before.
    pub outlook: Outlook,
    /// Rows by table.
    pub rows: BTreeMap<&'static str, usize>,
    /// Texts without a word that a model could embed; their rows keep what they had.
    pub wordless: usize,
    /// Requests that were made.
    pub calls: u32,
}

/// How a move is meant.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Where a new database is to lie.
    pub to: Option<PathBuf>,
    /// Where the gateway would listen, if it is to be looked for.
    pub gateway: Option<String>,
    /// Also where the vectors seem to be the model's already.
    pub anyway: bool,
}

/// A configured embedder and its budget: the operator has agreed to what it costs.
pub struct Mover {
    /// Who embeds.
    pub embedder: Box<dyn Embedder>,
    /// What it spends.
    pub budget: std::sync::Arc<Budget>,
}

impl Mover {
    /// The one the settings name.
    ///
    /// # Errors
    /// When it cannot be used at all.
    pub fn of(config: &Config, started: Instant) -> Result<Self, Error> {
        config.check_embedder()?;
        let budget = Budget::new(Limits::new(u32::MAX, u64::MAX, config.concurrency, started));
        Ok(Self { embedder: configured::embedder(config, budget.clone())?, budget })
    }
}

/// Tells what a move would do. Embeds up to ten texts; changes nothing.
///
/// # Errors
/// When the database cannot be read, the model not be asked, or the move not be made.
pub async fn look(config: &Config, mover: &Mover, wish: &Wish) -> Result<Outlook, Error> {
    let store = Store::open(&config.lancedb_uri).await?;
    Ok(gather(config, &store, mover, wish).await?.outlook)
}

/// Moves the stored vectors to the configured model. `progress` hears how many of how many texts are embedded.
///
/// # Errors
/// As [`look`]; when another run holds the lock, the gateway answers, or a write fails. Run again, it goes on.
pub async fn reembed(
    config: &Config,
    mover: &Mover,
    wish: &Wish,
    progress: &dyn Fn(usize, usize),
    now: DateTime<Utc>,
) -> Result<Moved, Error> {
    let _lock = Lock::take_to_end(&config.state_dir())?;
    if let Some(address) = &wish.gateway
        && answers(address).await
    {
        return Err(ReembedError::GatewayRuns { address: address.clone() }.into());
    }
    let store = Store::open(&config.lancedb_uri).await?;
    let half = Half::read(&config.state_dir())?;
    if let Some(half) = half.as_ref().filter(|half| half.database != config.lancedb_uri) {
        let Half { to, database, .. } = half.clone();
        return Err(StateError::HalfMoved { to, database }.into());
    }
    if half.is_none() {
        for told in recover(config, &store, now).await? {
            tracing::info!("{told}");
        }
    }
    let moved = move_all(config, &store, mover, wish, progress, now).await;
    mover.embedder.release().await;
    moved
}

async fn move_all(
    config: &Config,
    store: &Store,
    mover: &Mover,
    wish: &Wish,
    progress: &dyn Fn(usize, usize),
    now: DateTime<Utc>,
) -> Result<Moved, Error> {
    let mut gathered = gather(config, store, mover, wish).await?;
    let outlook = gathered.outlook.clone();
    let mut rows = BTreeMap::new();
    let calls = || mover.budget.spent().calls;
    if outlook.is_done() && !wish.anyway {
        return Ok(Moved { outlook, rows, wordless: 0, calls: calls() });
    }
    let bytes = (outlook.texts * outlook.dim * 4) as u64;
    let floor = Needs::at_least();
    space::check(
        config,
        Needs { home: floor.home + 2 * bytes, database: floor.database + 3 * bytes },
        space::disk_of,
    )?;
    gathered.open_log()?;
    embed(&mut gathered, mover, progress).await?;
    match &outlook.beside {
        Some(folder) => rows = beside(store, folder, &gathered, mover).await?,
        None => {
            for round in 1.. {
                rows = in_place(config, store, &gathered, mover, now).await?;
                let wanted = gather::wanted(config, store).await?;
                let new = wanted.iter().filter(|text| !gathered.vectors.contains_key(*text));
                let count = new.filter(|text| !gathered.wordless.contains(*text)).count();
                if count == 0 {
                    break;
                }
                if round == ROUNDS {
                    return Err(ReembedError::Moving { count }.into());
                }
                gathered.wanted.extend(wanted);
                embed(&mut gathered, mover, progress).await?;
            }
            Half::end(&config.state_dir())?;
        }
    }
    note(config, &outlook, mover, now)?;
    gathered.log_is_done()?;
    Ok(Moved { outlook, rows, wordless: gathered.wordless.len(), calls: calls() })
}

/// Embeds what has no vector yet. What was embedded is kept first.
async fn embed(gathered: &mut Gathered, mover: &Mover, progress: &dyn Fn(usize, usize)) -> Result<(), Error> {
    let privacy = Privacy::new(crate::config::MaskPii::Never, false);
    let has = |text: &&String| !gathered.vectors.contains_key(*text) && !gathered.wordless.contains(*text);
    let due: Vec<String> = gathered.wanted.iter().filter(has).cloned().collect();
    let all = gathered.wanted.len();
    for part in due.chunks(AT_ONCE) {
        progress(gathered.vectors.len(), all);
        let (mut texts, mut words) = (Vec::new(), Vec::new());
        for text in part {
            let outbound = privacy.to_embed(text);
            if outbound.as_str().trim().is_empty() {
                gathered.wordless.insert(text.clone());
                continue;
            }
            texts.push(text.clone());
            words.push(outbound);
        }
        let vectors = mover.embedder.embed(&words).await?;
        if let Some(other) = vectors.iter().find(|vector| vector.len() != gathered.outlook.dim) {
            let detail = format!("vectors of {} and of {} numbers", gathered.outlook.dim, other.len());
            return Err(ProviderError::Malformed { model: mover.embedder.model().to_owned(), detail }.into());
        }
        gathered.keep(&texts, vectors)?;
    }
    progress(gathered.vectors.len(), all);
    Ok(())
}

/// Writes vectors of the same length over the old ones. From the first write on until the last, no other run begins.
async fn in_place(
    config: &Config,
    store: &Store,
    gathered: &Gathered,
    mover: &Mover,
    now: DateTime<Utc>,
) -> Result<BTreeMap<&'static str, usize>, Error> {
    let state = config.state_dir();
    let to = mover.embedder.model();
    if Half::read(&state)?.is_none() {
        gathered.keep_the_old(store).await?;
        Half { to: to.to_owned(), database: config.lancedb_uri.clone(), since: now }.begin(&state)?;
    }
    let mut rows = BTreeMap::new();
    for table in VECTORED {
        rows.insert(table, store.set_vectors(table, &gathered.vectors).await?);
    }
    rename_model(store, to).await?;
    for (run, run_state) in Run::states(&config.runs_dir())? {
        set_vectors_before(&run.folder, &gathered.vectors)?;
        // Their plans hold vectors of the old model.
        if matches!(run_state.phase, Phase::Previewed | Phase::Parked) {
            run.enter(Phase::Abandoned, now)?;
        }
    }
    bury_again(config, store, gathered, to).await?;
    let mut versions = Versions::read(&state).unwrap_or_default();
    for table in TABLES {
        if let Some(layout) = store.layout(table).await? {
            versions.see(table, layout.version, now);
        }
    }
    versions.write(&state)?;
    Ok(rows)
}

/// Tombstones get the new vectors, where their text is still in the archive. The others are known by their words from now
/// on, and are told.
async fn bury_again(config: &Config, store: &Store, gathered: &Gathered, to: &str) -> Result<(), Error> {
    let state = config.state_dir();
    let mut old: Vec<Tombstone> = Tombstones::read(&state)?.all().cloned().collect();
    old.retain(|tombstone| tombstone.vector.is_some() && tombstone.model != to);
    let ids: Vec<String> = old.iter().map(|tombstone| tombstone.id.clone()).collect();
    let texts = store.archived(&ids, &config.agent).await?;
    let vector = |id: &str| {
        let copy = texts.iter().find(|copy| copy.memory.id == id)?;
        gathered.vectors.get(&copy.memory.text).cloned()
    };
    let count = old.len();
    let new = old.into_iter().filter_map(|tombstone| {
        let vector = Some(vector(&tombstone.id)?);
        Some(Tombstone { vector, model: to.to_owned(), ..tombstone })
    });
    let new: Vec<Tombstone> = new.collect();
    Tombstones::replace(&state, &new)?;
    if new.len() < count {
        tracing::warn!(
            "{} forgotten for good are known by their words alone from now on: the same claim in other words may be learned \
             again from old text",
            counted(count - new.len(), "memory")
        );
    }
    Ok(())
}

/// Makes the new database under a name of its own, which it loses only once it is whole.
async fn beside(
    store: &Store,
    folder: &Path,
    gathered: &Gathered,
    mover: &Mover,
) -> Result<BTreeMap<&'static str, usize>, Error> {
    let failed = |source| StateError::Write { path: folder.to_path_buf(), source };
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = folder.with_file_name(name);
    match std::fs::remove_dir_all(&partial) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error).into()),
        _ => {}
    }
    store.copy_with_vectors(&partial, gathered.outlook.dim, &gathered.vectors).await?;
    let copy = Store::open(&partial.display().to_string()).await?;
    rename_model(&copy, mover.embedder.model()).await?;
    let mut rows = BTreeMap::new();
    for table in VECTORED {
        rows.insert(table, copy.layout(table).await?.map_or(0, |layout| layout.rows));
    }
    drop(copy);
    std::fs::rename(&partial, folder).map_err(failed)?;
    sync_folder(folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    Ok(rows)
}

/// Traces say whose vectors their memories have.
async fn rename_model(store: &Store, to: &str) -> Result<(), Error> {
    let traces = store.traces().await?.traces.into_values();
    let of_another: Vec<_> = traces.filter(|trace| trace.model != to).collect();
    let renamed: Vec<_> =
        of_another.into_iter().map(|trace| crate::memory::Trace { model: to.to_owned(), ..trace }).collect();
    store.put_traces(&renamed).await?;
    Ok(())
}

fn note(config: &Config, outlook: &Outlook, mover: &Mover, now: DateTime<Utc>) -> Result<(), Error> {
    let event = Event {
        model: Some(mover.embedder.model().to_owned()),
        of: outlook.from.clone(),
        count: Some(outlook.texts),
        ..Event::new("reembed", now, Kind::Reembedded)
    };
    Ok(audit::note(config, event)?)
}

/// The vectors of one text set, as [`VectorLog`] keeps them: by digest.
fn by_digest(vectors: &VectorsByText) -> Vec<(String, Vec<f32>)> {
    let mut all: Vec<(String, Vec<f32>)> =
        vectors.iter().map(|(text, vector)| (crate::memory::text_digest(text), vector.clone())).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn keep_all(log: &VectorLog, vectors: &VectorsByText) -> Result<(), Error> {
    for part in by_digest(vectors).chunks(AT_ONCE) {
        log.keep(part)?;
    }
    Ok(())
}
