//! Reading what a night begins with: the memories and the files of the episodes folder. What cannot be read is told, not
//! fatal; what it means is for the stages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::config::{Config, Folder};
use crate::episode::{self, Episode, Found, Read};
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

/// What is remembered of the agents that `DREAMER_AGENTS` names; the others are left alone, and the log says so.
pub(crate) fn only_named(
    config: &Config,
    store: &Store,
    known: Remembered,
    warnings: &mut Vec<String>,
) -> Remembered {
    if config.agents.is_empty() {
        return known;
    }
    if !store.has_agent() && config.agents.len() > 1 {
        warnings.push(format!(
            "the table has no column agentId: to its gateway all memories are one agent's, and count as `{}`'s",
            config.agent
        ));
    }
    let left: Vec<String> = known
        .agents()
        .into_iter()
        .filter(|agent| !config.is_ours(agent))
        .map(|agent| format!("`{agent}`"))
        .collect();
    if !left.is_empty() {
        warnings.push(format!(
            "the memories of {} are left alone: DREAMER_AGENTS does not name {}",
            left.join(", "),
            if left.len() == 1 { "it" } else { "them" }
        ));
    }
    known.of(|agent| config.is_ours(agent))
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

/// The beginning of what is told of a folder that is missing.
const FOLDER: &str = "the episodes folder";

/// Whether that warning of a night says that a folder of episodes is missing.
pub(super) fn is_missing(warning: &str) -> bool {
    warning.starts_with(FOLDER)
}

/// The episodes of every folder, each with its agent. A folder that is missing is told, unless no other is there.
pub(crate) fn read_episodes(
    config: &Config,
    store: &Store,
    timed: bool,
    now: DateTime<Utc>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Episode>, Error> {
    let folders = config.folders();
    let some = folders.iter().any(|folder| folder.path.is_dir());
    let mut episodes = Vec::new();
    for folder in &folders {
        if some && !folder.path.is_dir() {
            warnings.push(format!(
                "{FOLDER} {} of {} does not exist (yet); are DREAMER_AGENTS and DREAMER_EPISODES_DIR right?",
                folder.path.display(),
                if folder.of.is_empty() { "all".to_owned() } else { folder.of.join(", ") }
            ));
            continue;
        }
        episodes.extend(read_folder(config, store, folder, timed.then_some(now), warnings)?);
    }
    leave_strangers_alone(config, &mut episodes, warnings);
    Ok(episodes)
}

/// The episodes of one folder, whosoever they are.
fn read_folder(
    config: &Config,
    store: &Store,
    folder: &Folder,
    timed: Option<DateTime<Utc>>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Episode>, Error> {
    let listing = episode::list(&folder.path)?;
    if !listing.ignored.is_empty() {
        let few = listing.ignored.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{} passed over, no episodes by their name: {few}",
            counted(listing.ignored.len(), "file")
        ));
    }
    let mut episodes = Vec::new();
    for found in &listing.found {
        if timed.is_some_and(|now| is_warm(found, now)) {
            warnings
                .push(format!("{} changed in the last ten minutes: it waits for the next night", found.name));
            continue;
        }
        match episode::read(found, &config.reading(folder))? {
            Read::Episode(episode) => {
                let episode = of_its_agent(config, store, folder, episode);
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

/// Says whose an episode is. Its session key counts, also in a folder of somebody else: what was said to one agent must not
/// become another's memory because a file was put, or a workspace set, in the wrong place.
fn of_its_agent(config: &Config, store: &Store, folder: &Folder, mut episode: Episode) -> Episode {
    // A table without agents is one agent's, whatever session an episode is from.
    if !store.has_agent() {
        episode.agent.clone_from(&config.agent);
    } else if !folder.of.is_empty() && !folder.of.contains(&episode.agent) {
        episode.warnings.push(format!(
            "it lies in the folder of {}, but its session key says `{}`: it counts as that agent's",
            folder.of.join(", "),
            episode.agent
        ));
    }
    episode
}

/// Leaves episodes alone whose agents `DREAMER_AGENTS` does not name.
fn leave_strangers_alone(config: &Config, episodes: &mut Vec<Episode>, warnings: &mut Vec<String>) {
    let mut strangers: BTreeMap<String, usize> = BTreeMap::new();
    episodes.retain(|episode| {
        let ours = config.is_ours(&episode.agent);
        if !ours {
            *strangers.entry(episode.agent.clone()).or_default() += 1;
        }
        ours
    });
    if !strangers.is_empty() {
        let told: Vec<String> = strangers
            .iter()
            .map(|(agent, count)| format!("{} of `{agent}`", counted(*count, "episode")))
            .collect();
        warnings.push(format!("left alone, since DREAMER_AGENTS does not name them: {}", told.join(", ")));
    }
}

/// Adds episodes that were done and moved to the archive, and hold a chunk that is to be tried anew.
pub(crate) fn read_reopened(
    config: &Config,
    store: &Store,
    journal: &Journal,
    episodes: &mut Vec<Episode>,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let wanted = journal.open_episodes();
    if wanted.is_empty() {
        return Ok(());
    }
    // Two agents may have episodes of one name: only the archive of the very folder that holds one is left out.
    let there: BTreeSet<(PathBuf, String)> = episodes
        .iter()
        .filter(|episode| wanted.contains(&episode.name))
        .filter_map(|episode| Some((config.folder_of(&episode.path)?.archive, episode.name.clone())))
        .collect();
    for archive in config.archives().into_iter().filter(|archive| archive.path.is_dir()) {
        let is_wanted = |found: &&Found| {
            wanted.contains(&found.name) && !there.contains(&(archive.path.clone(), found.name.clone()))
        };
        for found in episode::list(&archive.path)?.found.iter().filter(is_wanted) {
            match episode::read(found, &config.reading(&archive))? {
                Read::Episode(episode) => {
                    let episode = of_its_agent(config, store, &archive, episode);
                    let only = config.only_agent.as_ref().is_none_or(|agent| *agent == episode.agent);
                    if only && config.is_ours(&episode.agent) {
                        episodes.push(episode);
                    }
                }
                Read::Changing => {}
                Read::Skipped { what, why } => warnings.push(format!("{}: {why}", what.display())),
            }
        }
    }
    Ok(())
}

fn is_warm(found: &Found, now: DateTime<Utc>) -> bool {
    SystemTime::from(now).duration_since(found.modified).is_ok_and(|age| age < STILL_WARM)
}
