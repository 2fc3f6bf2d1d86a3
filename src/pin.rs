//! Pins: a pinned memory neither fades nor merges. Sets and clears the mark in a memory's trace; what it means is known
//! to `rem`.

use chrono::{DateTime, NaiveDate, Utc};

use crate::config::Config;
use crate::detail;
use crate::error::Error;
use crate::memory::{Memory, Reconciled, Trace};
use crate::state::audit::{self, Event, Kind, Subject};
use crate::state::lock::Lock;
use crate::store::Store;

/// What the run of a trace that a pin made is called.
const RUN: &str = "pin";

/// Set or clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// It stays.
    Set,
    /// It may fade and merge again.
    Clear,
}

/// Why a memory could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// No memory has such an id.
    #[error("pin {id}: no live memory has an id that begins so; `dreamer memories list` lists them")]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// It is in the archive.
    #[error("pin {id}: it is in the archive; bring it back first with `dreamer restore {id}`")]
    Archived {
        /// The memory.
        id: String,
    },
    /// More than one memory has such an id.
    #[error("pin {id}: {count} memories have ids that begin so; give more of it")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
    },
}

/// What became of the mark.
#[derive(Debug, Clone, PartialEq)]
pub struct Pinned {
    /// The memory.
    pub memory: Memory,
    /// Whether the mark was like this already.
    pub was_so: bool,
}

/// Pins or unpins the live memory whose id is `id` or begins so. Takes the run lock. A row without a trace gets the one
/// that a night at `now` would give it; the night still compares it with the others.
///
/// # Errors
/// When there is no such live memory, several, another run holds the lock, or the database cannot be written.
pub async fn pin(config: &Config, id: &str, pin: Pin, now: DateTime<Utc>) -> Result<Pinned, Error> {
    let _lock = Lock::take(&config.state_dir())?;
    let store = Store::open(&config.lancedb_uri).await?;
    let memory = find(config, &store, id).await?;
    let old = store.traces().await?.traces.remove(&memory.id);
    let wanted = pin == Pin::Set;
    if old.as_ref().is_some_and(|trace| trace.pinned) == wanted {
        return Ok(Pinned { memory, was_so: true });
    }
    let today = now.with_timezone(&config.timezone).date_naive();
    let trace = old.unwrap_or_else(|| first_trace(&memory, today, config));
    store.put_traces(&[Trace { pinned: wanted, ..trace }]).await?;
    let event = Event {
        agent: memory.partition.agent.clone(),
        after: vec![Subject::of(&memory.id, &memory.text)],
        ..Event::new(RUN, now, if wanted { Kind::Pinned } else { Kind::Unpinned })
    };
    audit::note(config, event)?;
    Ok(Pinned { memory, was_so: false })
}

fn first_trace(memory: &Memory, today: NaiveDate, config: &Config) -> Trace {
    let written = DateTime::from_timestamp_millis(memory.created_at).unwrap_or_default();
    let written = written.with_timezone(&config.timezone).date_naive();
    Trace {
        about: detail::details(&memory.text, Some(written)).latest_date(),
        reconciled: Reconciled::Waiting,
        ..Trace::of_row(memory, today, config.embedding_model(), RUN)
    }
}

async fn find(config: &Config, store: &Store, id: &str) -> Result<Memory, Error> {
    let id = id.trim().to_ascii_lowercase();
    let begins = |memory: &Memory| !id.is_empty() && memory.id.to_ascii_lowercase().starts_with(&id);
    let mut found: Vec<Memory> =
        store.rows(&config.agent).await?.memories.into_iter().filter(begins).collect();
    if found.iter().any(|memory| memory.id.eq_ignore_ascii_case(&id)) {
        found.retain(|memory| memory.id.eq_ignore_ascii_case(&id));
    }
    match (found.pop(), found.len()) {
        (Some(memory), 0) => Ok(memory),
        (Some(_), others) => Err(PinError::Ambiguous { id, count: others + 1 }.into()),
        (None, _) => {
            let archived = store.archived_all(&config.agent).await?;
            match archived.into_iter().find(|archived| begins(&archived.memory)) {
                Some(archived) => Err(PinError::Archived { id: archived.memory.id }.into()),
                None => Err(PinError::Unknown { id }.into()),
            }
        }
    }
}
