//! `dreamer restore`: one memory from the archive back among the living, whole, with its vector and the columns Dreamer
//! does not know. A person's decision, so it is not questioned; what would overwrite something is refused.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};

use crate::config::Config;
use crate::error::Error;
use crate::forget::memorial::{Memorial, Said};
use crate::memory::{Archived, Departure, Memory, Reconciled, Trace, text_digest};
use crate::state::audit::{Event, Kind, Subject};
use crate::state::lock::Lock;
use crate::state::tombstones::{How, Tombstones};
use crate::store::{Inherit, NewRow, Store};
use crate::thresholds;

/// What the run of a trace that was rebased by a restore begins with.
const RUN: &str = "restore";

/// Why a memory could not be brought back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// No archived memory has such an id.
    #[error(
        "restore {id}: no memory in the archive has an id that begins so; `dreamer memories list --archived` lists them"
    )]
    NotArchived {
        /// What was asked for.
        id: String,
    },
    /// More than one archived memory has such an id.
    #[error("restore {id}: {count} memories in the archive have ids that begin so; give more of it")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
    },
    /// It never left, or somebody brought it back already.
    #[error("restore {id}: a memory with this id is among the living already; nothing was changed")]
    Live {
        /// The memory.
        id: String,
    },
    /// The archived row has no vector, so the gateway could never recall it.
    #[error("restore {id}: its copy in the archive has no vector")]
    NoVector {
        /// The memory.
        id: String,
    },
    /// The table was made for another embedding model since.
    #[error(
        "restore {id}: its vector has {vector} numbers, the table's have {table}; it was made with another embedding model"
    )]
    Dimension {
        /// The memory.
        id: String,
        /// The length of its vector.
        vector: usize,
        /// The length of the table's.
        table: usize,
    },
    /// What it says was forgotten on purpose.
    #[error(
        "restore {id}: what it says was forgotten on purpose on {on} ({how}, memory {other}); it comes back when the user says \
         it again"
    )]
    Forgotten {
        /// The memory.
        id: String,
        /// The memory that was forgotten.
        other: String,
        /// When.
        on: NaiveDate,
        /// How.
        how: &'static str,
    },
    /// The row changed hands while it was brought back.
    #[error("restore {id}: the table did not take it; its copy in the archive is untouched, try again")]
    NotWritten {
        /// The memory.
        id: String,
    },
}

/// What was brought back.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// The row as it stands among the living now.
    pub memory: Memory,
    /// Why it had left.
    pub reason: Departure,
    /// The run that had moved it.
    pub run: String,
    /// The living memory that still carries its content, if it had been superseded.
    pub successor: Option<Memory>,
}

impl Restored {
    /// What the audit keeps of it.
    pub fn event(&self, at: DateTime<Utc>) -> Event {
        Event {
            agent: self.memory.partition.agent.clone(),
            after: vec![Subject::of(&self.memory.id, &self.memory.text)],
            importance: Some(self.memory.importance),
            of: Some(self.run.clone()),
            ..Event::new(RUN, at, Kind::Restored)
        }
    }
}

/// Brings back the archived memory whose id is `id` or begins so. Takes the run lock. `today` is the day its clock of
/// forgetting starts anew.
///
/// # Errors
/// When it is not in the archive, is live already, has a vector of another length, another run holds the lock, or the
/// database cannot be written. The copy in the archive goes last, so nothing is lost on the way.
pub async fn restore(config: &Config, id: &str, today: NaiveDate) -> Result<Restored, Error> {
    let _lock = Lock::take(&config.state_dir())?;
    let store = Store::open(&config.lancedb_uri).await?;
    let archived = find(store.archived_all(&config.agent).await?, id)?;
    let id = archived.memory.id.clone();
    let live = store.rows(&config.agent).await?.memories;
    let old_trace = store.traces().await?.traces.remove(&id);
    // A restore that was killed between its last two steps left both; the next one ends it.
    let is_half_restored = old_trace.as_ref().is_some_and(|trace| trace.run == RUN && trace.clock <= today);
    let same = live.iter().find(|memory| memory.id == id);
    if same.is_some_and(|memory| memory.text != archived.memory.text || !is_half_restored)
        || (same.is_none() && is_taken(&store, &id).await?)
    {
        return Err(RestoreError::Live { id }.into());
    }
    let vector = vector_of(&store, &id).await?;
    let lifted = lifted_by(&store, config, &archived, &vector).await?;

    let trace = rebased(old_trace, &archived.memory, config, today);
    let memory = Memory { importance: trace.written, ..archived.memory.clone() };
    store.put_traces(&[trace]).await?;
    let row = NewRow {
        memory: memory.clone(),
        vector,
        inherit: Inherit::Archived(id.clone()),
        only_if: Vec::new(),
    };
    let outcome = store.insert(&[row]).await?;
    if outcome.written.is_empty() && outcome.already.is_empty() {
        return Err(RestoreError::NotWritten { id }.into());
    }
    Tombstones::lift(&config.state_dir(), &lifted, now_of(today, config))?;
    store.unarchive(std::slice::from_ref(&id)).await?;
    let successor = live.into_iter().find(|memory| Some(&memory.id) == archived.successor.as_ref());
    Ok(Restored { memory, reason: archived.reason, run: archived.run, successor })
}

/// A time of that day, for the record of what was lifted.
fn now_of(today: NaiveDate, config: &Config) -> DateTime<Utc> {
    let midnight = today.and_time(NaiveTime::MIN);
    midnight
        .and_local_timezone(config.timezone)
        .earliest()
        .map_or_else(|| midnight.and_utc(), |at| at.to_utc())
}

/// The one archived memory whose id is `id` or begins so.
fn find(archived: Vec<Archived>, id: &str) -> Result<Archived, RestoreError> {
    let id = id.trim().to_ascii_lowercase();
    let is_exact = |a: &Archived| a.memory.id.eq_ignore_ascii_case(&id);
    let begins = |a: &Archived| !id.is_empty() && a.memory.id.to_ascii_lowercase().starts_with(&id);
    let exact = archived.iter().any(is_exact);
    let mut found: Vec<Archived> =
        archived.into_iter().filter(|a| if exact { is_exact(a) } else { begins(a) }).collect();
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (Some(_), others) => Err(RestoreError::Ambiguous { id, count: others + 1 }),
        (None, _) => Err(RestoreError::NotArchived { id }),
    }
}

/// The tombstones that go with a memory that was forgotten by `dreamer forget` and comes back: its own, and those of the
/// archived memories it carries. What another tombstone forbids is not brought back.
async fn lifted_by(
    store: &Store,
    config: &Config,
    archived: &Archived,
    vector: &[f32],
) -> Result<Vec<String>, Error> {
    let memorial = Memorial::new(Tombstones::read(&config.state_dir())?, &[]);
    let id = &archived.memory.id;
    let own = memorial.of(id).filter(|tombstone| tombstone.how == How::Command);
    if own.is_some() {
        let all = store.archived_all(&config.agent).await?;
        let traces = store.traces().await?.traces;
        let originals = traces.get(id).map(|trace| trace.merged_from.clone()).unwrap_or_default();
        let carried = |a: &&Archived| originals.contains(&a.memory.id) || a.successor.as_ref() == Some(id);
        let carried = all.iter().filter(carried).map(|a| a.memory.id.clone());
        return Ok(std::iter::once(id.clone()).chain(carried).collect());
    }
    let duplicate = config.thresholds(config.calibrated()?)?.unwrap_or(thresholds::NOTHING_ALIKE).duplicate;
    let said = Said {
        agent: &archived.memory.partition.agent,
        text: &archived.memory.text,
        said_on: None,
        vector: Some((vector, config.embedding_model())),
    };
    match memorial.matching(said, duplicate).into_iter().next() {
        None => Ok(vec![]),
        Some(tombstone) => {
            let (id, on) = (id.clone(), tombstone.forgotten_at.with_timezone(&config.timezone).date_naive());
            let how = tombstone.how.as_str();
            Err(RestoreError::Forgotten { id, other: tombstone.id.clone(), on, how }.into())
        }
    }
}

/// Whether a row that is nobody's memory (no agent, no text) has the id.
async fn is_taken(store: &Store, id: &String) -> Result<bool, Error> {
    Ok(!store.row_json(Some(std::slice::from_ref(id)), false).await?.is_empty())
}

async fn vector_of(store: &Store, id: &String) -> Result<Vec<f32>, Error> {
    let vector = store.archived_vectors(std::slice::from_ref(id)).await?.remove(id);
    let vector = vector.ok_or_else(|| RestoreError::NoVector { id: id.clone() })?;
    if vector.len() != store.dim() {
        let (vector, table) = (vector.len(), store.dim());
        return Err(RestoreError::Dimension { id: id.clone(), vector, table }.into());
    }
    Ok(vector)
}

/// The trace after the restore: forgetting starts anew today, from what the memory was worth before it faded.
/// Otherwise a faded memory would fade again the next night.
pub(crate) fn rebased(old: Option<Trace>, memory: &Memory, config: &Config, today: NaiveDate) -> Trace {
    let base = old.as_ref().map_or(memory.importance, |trace| trace.base.max(memory.importance));
    let trace = old.unwrap_or_else(|| Trace::of_row(memory, today, config.embedding_model(), RUN));
    Trace {
        digest: text_digest(&memory.text),
        base,
        written: base,
        clock: today,
        // The person wants it beside its successor: the next night does not merge the two again.
        reconciled: Reconciled::Done,
        run: RUN.to_string(),
        ..trace
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use crate::memory::{Category, Partition};
    use crate::store::Leaving;

    const LEFT: &str = "aaaaaaaa-0000-4000-8000-000000000001";
    const OTHER: &str = "aaaaaaab-0000-4000-8000-000000000002";

    struct Home {
        _dir: tempfile::TempDir,
        config: Config,
    }

    fn day() -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 3, 10).unwrap()
    }

    fn memory(id: &str, text: &str, importance: f64) -> Memory {
        Memory {
            id: id.into(),
            text: text.into(),
            importance,
            category: Category::Fact,
            created_at: 1_700_000_000_000,
            partition: Partition::of_agent("main"),
        }
    }

    fn new_row(memory: Memory) -> NewRow {
        NewRow { memory, vector: vec![0.6, 0.8], inherit: Inherit::Nothing, only_if: Vec::new() }
    }

    /// A home in which `LEFT` is archived and `OTHER` lives.
    async fn home(reason: Departure, successor: Option<&str>) -> Home {
        let dir = tempfile::tempdir().unwrap();
        let layers = Layers::of(&[("DREAMER_HOME", dir.path().to_str().unwrap())]);
        let (config, _) = Config::resolve(&layers).unwrap();
        Store::create(&config.lancedb_uri, 2).await.unwrap();
        let store = Store::open(&config.lancedb_uri).await.unwrap();
        let rows = [memory(LEFT, "likes tea", 0.14), memory(OTHER, "likes tea and coffee", 0.7)].map(new_row);
        store.insert(&rows).await.unwrap();
        let leaving = Leaving {
            id: LEFT.into(),
            text: "likes tea".into(),
            reason,
            successor: successor.map(str::to_string),
            run: "run-1".into(),
            at: 1_710_000_000_000,
        };
        store.archive(&[leaving]).await.unwrap();
        store.delete(&[(LEFT.into(), "likes tea".into())]).await.unwrap();
        Home { _dir: dir, config }
    }

    async fn open(home: &Home) -> Store {
        Store::open(&home.config.lancedb_uri).await.unwrap()
    }

    #[tokio::test]
    async fn a_faded_memory_comes_back_whole_and_does_not_fade_again_at_once() {
        let home = home(Departure::Faded, None).await;
        let store = open(&home).await;
        let memory = memory(LEFT, "likes tea", 0.14);
        let mut trace = rebased(None, &memory, &home.config, day() - chrono::TimeDelta::days(60));
        trace.base = 0.8;
        trace.run = "run-1".into();
        store.put_traces(&[trace]).await.unwrap();

        let restored = restore(&home.config, "aaaaaaaa", day()).await.unwrap();
        assert_eq!((restored.reason, restored.run.as_str()), (Departure::Faded, "run-1"));
        let live = store.rows("main").await.unwrap().memories;
        let back = live.iter().find(|memory| memory.id == LEFT).unwrap();
        assert_eq!((back.text.as_str(), back.importance), ("likes tea", 0.8));
        assert_eq!(back.created_at, memory.created_at);
        assert_eq!(store.vectors(&[LEFT.into()]).await.unwrap()[LEFT], [0.6, 0.8]);
        assert!(store.archived_all("main").await.unwrap().is_empty());
        let trace = store.traces().await.unwrap().traces.remove(LEFT).unwrap();
        assert_eq!((trace.base, trace.written, trace.clock), (0.8, 0.8, day()));
    }

    #[tokio::test]
    async fn a_superseded_memory_names_the_successor_that_still_says_it() {
        let home = home(Departure::Superseded, Some(OTHER)).await;
        let restored = restore(&home.config, LEFT, day()).await.unwrap();
        assert_eq!(restored.successor.map(|memory| memory.id).as_deref(), Some(OTHER));
    }

    #[tokio::test]
    async fn a_live_id_is_refused_and_nothing_changes() {
        let home = home(Departure::Faded, None).await;
        let store = open(&home).await;
        store.insert(&[new_row(memory(LEFT, "likes tea", 0.5))]).await.unwrap();
        let version = store.version().await.unwrap();
        let refused = restore(&home.config, LEFT, day()).await.unwrap_err();
        assert!(matches!(refused, Error::Restore(RestoreError::Live { .. })), "{refused}");
        assert_eq!(store.version().await.unwrap(), version);
        assert_eq!(store.archived_all("main").await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_restore_that_was_killed_before_its_last_step_is_ended_by_the_next() {
        let home = home(Departure::Faded, None).await;
        let store = open(&home).await;
        let memory = memory(LEFT, "likes tea", 0.14);
        store.put_traces(&[rebased(None, &memory, &home.config, day())]).await.unwrap();
        store.insert(&[new_row(memory)]).await.unwrap();
        restore(&home.config, LEFT, day()).await.unwrap();
        assert!(store.archived_all("main").await.unwrap().is_empty());
        assert_eq!(store.rows("main").await.unwrap().memories.len(), 2);
    }

    #[tokio::test]
    async fn unknown_and_ambiguous_ids_are_told() {
        let home = home(Departure::Faded, None).await;
        let store = open(&home).await;
        let leaving = Leaving {
            id: OTHER.into(),
            text: "likes tea and coffee".into(),
            reason: Departure::Faded,
            successor: None,
            run: "run-2".into(),
            at: 0,
        };
        store.archive(&[leaving]).await.unwrap();
        let told = |id: &'static str| {
            let config = home.config.clone();
            async move { restore(&config, id, day()).await.unwrap_err().to_string() }
        };
        assert!(told("bbbb").await.contains("no memory in the archive"));
        assert!(told("").await.contains("no memory in the archive"));
        assert!(told("aaaaaaa").await.contains("2 memories"));
    }

    #[tokio::test]
    async fn another_run_is_waited_for() {
        let home = home(Departure::Faded, None).await;
        let _lock = Lock::take(&home.config.state_dir()).unwrap();
        assert_eq!(restore(&home.config, LEFT, day()).await.unwrap_err().exit_code(), 75);
    }

    #[tokio::test]
    async fn a_vector_of_another_model_is_refused() {
        let home = home(Departure::Faded, None).await;
        let table = std::path::Path::new(&home.config.lancedb_uri).join("memories.lance");
        std::fs::remove_dir_all(table).unwrap();
        Store::create(&home.config.lancedb_uri, 3).await.unwrap();
        let refused = restore(&home.config, LEFT, day()).await.unwrap_err();
        assert!(
            matches!(refused, Error::Restore(RestoreError::Dimension { vector: 2, table: 3, .. })),
            "{refused}"
        );
        assert_eq!(refused.exit_code(), 78);
    }
}
