//! Forgetting on purpose: what the person had deleted stays deleted, and `dreamer forget` deletes. Finds what is meant,
//! states the order of the steps; the places a memory is erased from are `erase`'s, what matches a tombstone `memorial`'s.

pub(crate) mod erase;
pub mod fingerprint;
pub mod memorial;
pub mod scrub;
pub(crate) mod told;
pub mod vanished;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use crate::config::Config;
use crate::error::Error;
use crate::language;
use crate::memory::{Departure, Memory};
use crate::memory_archive;
use crate::openclaw::config::OpenClawError;
use crate::plan::{DreamPlan, RunId};
use crate::remembered::Remembered;
use crate::state::audit::{self, Event, Kind, Subject};
use crate::state::lock::Lock;
use crate::state::sweep;
use crate::state::tombstones::{How, Tombstone, Tombstones};
use crate::store::{Leaving, Store};
use memorial::bury;
pub use memorial::words_digest;

/// Old versions of the tables are kept for so many days, because a running gateway may hold one open.
const VERSIONS_KEPT: i64 = 8;

/// Why nothing could be forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// Nothing has such an id.
    #[error(
        "forget {id}: no memory, live or archived, has an id that begins so; `dreamer memories list` lists them"
    )]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// More than one memory has such an id.
    #[error("forget {id}: {count} memories have ids that begin so; give more of it")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
    },
    /// Nothing says that.
    #[error("forget what contains “{text}”: no memory, live or archived, does")]
    NothingSays {
        /// What was looked for.
        text: String,
    },
    /// The gateway answers, and would lose the version of the table it holds open.
    #[error(
        "erase now: the gateway answers at {address}, and a running gateway must not lose old versions of the table; stop it \
         and run this again, or leave out --now (nothing was changed)"
    )]
    GatewayRuns {
        /// Where.
        address: String,
    },
    /// The gateway's settings do not say where it would listen.
    #[error(transparent)]
    OpenClaw(#[from] OpenClawError),
}

/// What the operator names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// By id, or the beginning of one.
    Id(&'a str),
    /// Everything that contains this text, however it is spaced or capitalised.
    Text(&'a str),
}

/// Where a memory that is to be forgotten is.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In `memories`.
    Live,
    /// In the archive.
    Archived(Departure),
    /// Only its tombstone is left: an erase that was killed goes on.
    Erased,
}

/// A memory that is to be forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct Meant {
    /// Its id.
    pub id: String,
    /// Its agent.
    pub agent: String,
    /// Its text; none when only its tombstone is left.
    pub text: Option<String>,
    /// Where it is.
    pub place: Place,
}

/// How thoroughly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manner {
    /// To the archive, with a tombstone: `dreamer restore` is the way back.
    Archive,
    /// From every place. There is no way back.
    Erase {
        /// Also from old versions of the tables. The gateway must not listen at this address.
        now: Option<String>,
        /// Also in the gateway's own episodes folder, outside the home.
        episodes: bool,
    },
}

/// What was touched, counted by place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Touched {
    /// Memories that left `memories`.
    pub live: Vec<String>,
    /// Memories that are in the archive with a tombstone now.
    pub kept_in_archive: Vec<String>,
    /// Memories that had been edited meanwhile: left as they are.
    pub edited: Vec<String>,
    /// How many things went, by the place's name. Places where nothing was are not in it.
    pub places: BTreeMap<&'static str, usize>,
    /// Episodes within the home and how many lines of each were blanked.
    pub episodes: Vec<(PathBuf, usize)>,
    /// The same outside the home: blanked only if so asked.
    pub outside: Vec<(PathBuf, usize)>,
    /// Memories that carry some of the content: merges of it, and what took its place.
    pub successors: Vec<Memory>,
    /// Until when old versions of the tables hold it; none where they are gone, or nothing was erased.
    pub old_versions_until: Option<DateTime<Utc>>,
    /// Files of the database that still hold the words after everything old was removed.
    pub still_in: Vec<PathBuf>,
}

/// Finds what is meant, of one agent if so said, live before archived.
///
/// # Errors
/// When nothing is, or an id is not clear, or the database cannot be read.
pub async fn find(config: &Config, named: Named<'_>, agent: Option<&str>) -> Result<Vec<Meant>, Error> {
    let store = Store::open(&config.lancedb_uri).await?;
    let live = store.rows(&config.agent).await?.memories;
    let live_ids: BTreeSet<String> = live.iter().map(|memory| memory.id.clone()).collect();
    let archived = store.archived_all(&config.agent).await?;
    let archived = archived.into_iter().filter(|archived| !live_ids.contains(&archived.memory.id));
    let meant = |memory: Memory, place| Meant {
        id: memory.id,
        agent: memory.partition.agent,
        text: Some(memory.text),
        place,
    };
    let mut all: Vec<Meant> = live.into_iter().map(|memory| meant(memory, Place::Live)).collect();
    all.extend(archived.map(|a| meant(a.memory, Place::Archived(a.reason))));
    all.retain(|meant| agent.is_none_or(|agent| meant.agent == agent));
    match named {
        Named::Text(text) => {
            let wanted = language::normalise(text);
            let says = |meant: &Meant| {
                meant.text.as_ref().is_some_and(|text| language::normalise(text).contains(&wanted))
            };
            all.retain(|meant| !wanted.is_empty() && says(meant));
            if all.is_empty() {
                Err(ForgetError::NothingSays { text: text.to_owned() }.into())
            } else {
                Ok(all)
            }
        }
        Named::Id(id) => {
            let tombstones = Tombstones::read(&config.state_dir())?;
            let known: BTreeSet<String> = all.iter().map(|meant| meant.id.clone()).collect();
            let left = tombstones.all().filter(|tombstone| {
                !known.contains(&tombstone.id) && agent.is_none_or(|agent| tombstone.agent == agent)
            });
            all.extend(left.map(|tombstone| Meant {
                id: tombstone.id.clone(),
                agent: tombstone.agent.clone(),
                text: None,
                place: Place::Erased,
            }));
            Ok(vec![one(all, id)?])
        }
    }
}

fn one(mut all: Vec<Meant>, id: &str) -> Result<Meant, ForgetError> {
    let id = id.trim().to_ascii_lowercase();
    all.retain(|meant| !id.is_empty() && meant.id.to_ascii_lowercase().starts_with(&id));
    if all.iter().any(|meant| meant.id.eq_ignore_ascii_case(&id)) {
        all.retain(|meant| meant.id.eq_ignore_ascii_case(&id));
    }
    match (all.pop(), all.len()) {
        (Some(meant), 0) => Ok(meant),
        (Some(_), others) => Err(ForgetError::Ambiguous { id, count: others + 1 }),
        (None, _) => Err(ForgetError::Unknown { id }),
    }
}

/// Forgets memories by id. Takes the run lock. Killed anywhere, running it again goes on to the end.
///
/// # Errors
/// When another run holds the lock, the gateway answers though it must not, or something cannot be read or written.
pub async fn forget(
    config: &Config,
    ids: &[String],
    manner: &Manner,
    now: DateTime<Utc>,
) -> Result<Touched, Error> {
    let _lock = Lock::take(&config.state_dir())?;
    if let Manner::Erase { now: Some(address), .. } = manner
        && answers(address).await
    {
        return Err(ForgetError::GatewayRuns { address: address.clone() }.into());
    }
    sweep(&config.home);
    let store = Store::open(&config.lancedb_uri).await?;
    let known = remembered(config, &store).await?;
    let named: BTreeSet<String> = ids.iter().cloned().collect();
    let under: BTreeSet<String> = named.iter().flat_map(|id| archived_under(&known, id, &named)).collect();
    let all: BTreeSet<String> = named.union(&under).cloned().collect();
    let mut touched = Touched { successors: successors(&known, &all), ..Touched::default() };
    // First of all: whatever becomes of the rest, it is not learned again.
    Tombstones::append(&config.state_dir(), &tombstones(config, &store, &known, &all, now).await?)?;
    match manner {
        Manner::Archive => archive(&store, &known, &named, now, config, &mut touched).await?,
        Manner::Erase { now: at_once, episodes } => {
            erase::everywhere(config, &store, &known, &all, *episodes, &mut touched).await?;
            match at_once {
                None => touched.old_versions_until = Some(now + TimeDelta::days(VERSIONS_KEPT)),
                Some(_) => {
                    store.purge_the_past().await?;
                    touched.still_in = store.holding(&erase::needles(&known, &all))?;
                }
            }
        }
    }
    for id in &all {
        note(config, &known, id, now)?;
    }
    Ok(touched)
}

/// The line of the audit: no text, as ever.
fn note(config: &Config, known: &Remembered, id: &str, now: DateTime<Utc>) -> Result<(), Error> {
    let memory = known.rows.get(id).or_else(|| known.archived.get(id).map(|archived| &archived.memory));
    let Some(memory) = memory else { return Ok(()) };
    let event = Event {
        agent: memory.partition.agent.clone(),
        before: vec![Subject::of(id, &memory.text)],
        ..Event::new("forget", now, Kind::Forgotten)
    };
    Ok(audit::note(config, event)?)
}

/// Whether somebody listens there. An address that cannot be reached within two seconds does not.
pub(crate) async fn answers(address: &str) -> bool {
    let connecting = tokio::net::TcpStream::connect(address);
    tokio::time::timeout(std::time::Duration::from_secs(2), connecting).await.is_ok_and(|tried| tried.is_ok())
}

async fn remembered(config: &Config, store: &Store) -> Result<Remembered, Error> {
    let rows = store.rows(&config.agent).await?.memories;
    let archived = store.archived_all(&config.agent).await?;
    Ok(Remembered {
        rows: rows.into_iter().map(|row| (row.id.clone(), row)).collect(),
        traces: store.traces().await?.traces,
        archived: archived.into_iter().map(|a| (a.memory.id.clone(), a)).collect(),
        timezone: config.timezone,
    })
}

/// Archived memories whose content this memory carries: its originals and duplicates. Those that a memory carries that
/// stays are left out.
pub(crate) fn archived_under(known: &Remembered, id: &str, gone: &BTreeSet<String>) -> BTreeSet<String> {
    let stays = |id: &String| known.rows.contains_key(id) && !gone.contains(id);
    let originals_elsewhere: BTreeSet<&String> = known
        .traces
        .values()
        .filter(|trace| stays(&trace.id))
        .flat_map(|trace| trace.merged_from.iter())
        .collect();
    let carried_elsewhere = |id: &String| {
        let next = known.live_successor(id).map(str::to_owned);
        originals_elsewhere.contains(id) || next.is_some_and(|next| stays(&next))
    };
    let mut under: BTreeSet<String> = BTreeSet::new();
    let mut open = vec![id.to_owned()];
    while let Some(id) = open.pop() {
        let originals = known.traces.get(&id).into_iter().flat_map(|trace| trace.merged_from.iter());
        let succeeded =
            known.archived.iter().filter(|(_, a)| a.successor.as_ref() == Some(&id)).map(|(id, _)| id);
        for found in originals.chain(succeeded) {
            let is_archived = known.archived.contains_key(found) && !known.rows.contains_key(found);
            if is_archived && !carried_elsewhere(found) && under.insert(found.clone()) {
                open.push(found.clone());
            }
        }
    }
    under
}

/// Memories that stay and carry content of those that go.
fn successors(known: &Remembered, gone: &BTreeSet<String>) -> Vec<Memory> {
    let merged = known.traces.values().filter(|trace| trace.merged_from.iter().any(|id| gone.contains(id)));
    let mut ids: BTreeSet<String> = merged.map(|trace| trace.id.clone()).collect();
    ids.extend(gone.iter().filter_map(|id| known.live_successor(id)).map(str::to_owned));
    let row = |id: &String| known.rows.get(id).or_else(|| known.archived.get(id).map(|a| &a.memory)).cloned();
    ids.iter().filter(|id| !gone.contains(*id)).filter_map(row).collect()
}

async fn tombstones(
    config: &Config,
    store: &Store,
    known: &Remembered,
    ids: &BTreeSet<String>,
    now: DateTime<Utc>,
) -> Result<Vec<Tombstone>, Error> {
    let list: Vec<String> = ids.iter().cloned().collect();
    let mut vectors = store.archived_vectors(&list).await?;
    vectors.extend(store.vectors(&list).await?);
    let of = |id: &String| {
        let memory = known.rows.get(id).or_else(|| known.archived.get(id).map(|a| &a.memory))?;
        let model = known.traces.get(id).map_or(config.embedding_model(), |trace| trace.model.as_str());
        let said_on: NaiveDate = known.said_on(id);
        Some(bury(memory, said_on, vectors.get(id).cloned(), model, now, How::Command))
    };
    Ok(ids.iter().filter_map(of).collect())
}

/// Live rows go to the archive; what is there already stays there.
async fn archive(
    store: &Store,
    known: &Remembered,
    ids: &BTreeSet<String>,
    now: DateTime<Utc>,
    config: &Config,
    touched: &mut Touched,
) -> Result<(), Error> {
    let rows: Vec<&Memory> = ids.iter().filter_map(|id| known.rows.get(id)).collect();
    let leaving = |row: &&Memory| Leaving {
        id: row.id.clone(),
        text: row.text.clone(),
        reason: Departure::Forgotten,
        successor: None,
        run: format!("forget-{}", now.format("%Y%m%d-%H%M%S")),
        at: now.timestamp_millis(),
    };
    let leaving: Vec<Leaving> = rows.iter().map(leaving).collect();
    if let Some(run) = leaving.first().and_then(|leaving| RunId::parse(&leaving.run)) {
        // What leaves for the archive has a copy that any editor reads, as on a night.
        let plan = DreamPlan { run, leaving: leaving.clone(), ..DreamPlan::default() };
        memory_archive::copy(&plan, store, config).await?;
    }
    store.archive(&leaving).await?;
    let going: Vec<(String, String)> = rows.iter().map(|row| (row.id.clone(), row.text.clone())).collect();
    let outcome = store.delete(&going).await?;
    // An edited row is another claim than the one that was to go.
    store.unarchive(&outcome.changed).await?;
    Tombstones::lift(&config.state_dir(), &outcome.changed, now)?;
    touched.live = outcome.written;
    touched.edited = outcome.changed;
    let archived = |id: &&String| known.archived.contains_key(*id) && !known.rows.contains_key(*id);
    touched.kept_in_archive = ids.iter().filter(archived).cloned().collect();
    Ok(())
}
