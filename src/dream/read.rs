//! Reading what a night begins with: the memories and the files of the episodes folder. What cannot be read is told, not
//! fatal; what it means is for the stages.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::config::Config;
use crate::episode::{self, Episode, Found, Read, Reading};
use crate::error::Error;
use crate::language::counted;
use crate::memory::Memory;
use crate::privacy::without_secrets;
use crate::remembered::Remembered;
use crate::state::journal::Journal;
use crate::store::Store;

/// A timed run leaves a file alone that changed so recently: somebody may still be writing it.
const STILL_WARM: Duration = Duration::from_secs(10 * 60);

pub(crate) async fn remember(
    config: &Config,
    store: &Store,
    warnings: &mut Vec<String>,
) -> Result<Remembered, Error> {
    let rows = store.rows(&config.agent).await?;
    let traces = store.traces().await?;
    if rows.ownerless > 0 {
        warnings.push(format!(
            "{} without agentId: never recalled by the gateway, left alone",
            counted(rows.ownerless, "row")
        ));
    }
    if rows.unreadable > 0 {
        warnings.push(format!("{} without id or text: left alone", counted(rows.unreadable, "row")));
    }
    if !traces.unreadable.is_empty() {
        warnings.push(format!(
            "{} could not be read: memory starts anew there",
            counted(traces.unreadable.len(), "trace")
        ));
    }
    warnings.extend(tell_secrets(&rows.memories));
    let archived = store.archived_all(&config.agent).await?;
    Ok(Remembered {
        rows: rows.memories.into_iter().map(|row| (row.id.clone(), row)).collect(),
        traces: traces.traces,
        archived: archived.into_iter().map(|a| (a.memory.id.clone(), a)).collect(),
        timezone: config.timezone,
    })
}

/// Rows that the gateway captured with a secret in them are its own and stay as they are: the operator hears which.
fn tell_secrets(rows: &[Memory]) -> Option<String> {
    const SHOWN: usize = 10;
    let ids: Vec<&str> =
        rows.iter().filter(|row| without_secrets(&row.text).removed > 0).map(|row| row.id.as_str()).collect();
    let more = ids.len().saturating_sub(SHOWN);
    let (memories, hold) = if ids.len() == 1 { ("memory", "holds") } else { ("memories", "hold") };
    (!ids.is_empty()).then(|| {
        format!(
            "{} {memories} the gateway wrote {hold} what looks like a secret; they stay until you delete them: ids {}{}",
            ids.len(),
            ids[..ids.len() - more].join(", "),
            if more > 0 { format!(" and {more} more") } else { String::new() }
        )
    })
}

pub(crate) fn read_episodes(
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
            "{} passed over, no episodes by their name: {few}",
            counted(listing.ignored.len(), "file")
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

/// Adds episodes that were done and moved to the archive, and hold a chunk that is to be tried anew.
pub(crate) fn read_reopened(
    config: &Config,
    store: &Store,
    journal: &Journal,
    episodes: &mut Vec<Episode>,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let archive = config.archive_dir();
    let mut wanted = journal.open_episodes();
    for episode in episodes.iter() {
        wanted.remove(&episode.name);
    }
    if wanted.is_empty() || !archive.is_dir() {
        return Ok(());
    }
    let reading =
        Reading { owner: config.owner.clone(), agent: config.agent.clone(), timezone: config.timezone };
    for found in episode::list(&archive)?.found.iter().filter(|found| wanted.contains(&found.name)) {
        match episode::read(found, &reading)? {
            Read::Episode(mut episode) => {
                if !store.has_agent() {
                    episode.agent.clone_from(&config.agent);
                }
                if config.only_agent.as_ref().is_none_or(|agent| *agent == episode.agent) {
                    episodes.push(episode);
                }
            }
            Read::Changing => {}
            Read::Skipped { what, why } => warnings.push(format!("{}: {why}", what.display())),
        }
    }
    Ok(())
}

fn is_warm(found: &Found, now: DateTime<Utc>) -> bool {
    SystemTime::from(now).duration_since(found.modified).is_ok_and(|age| age < STILL_WARM)
}
