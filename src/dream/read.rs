//! Reading what a night begins with: the memories, the episodes and the noted recalls. What cannot be read is told, not
//! fatal; what it means is for the stages.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::config::Config;
use crate::episode::{self, Episode, Found, Read, Reading};
use crate::error::Error;
use crate::plan::traces::Recalls;
use crate::remembered::Remembered;
use crate::state::StateError;
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

/// Recalls any agent may have noted in `recalls/*.jsonl`: `{"id" or "text", "at"}` a line.
pub(super) fn read_recalls(config: &Config, warnings: &mut Vec<String>) -> Result<Recalls, StateError> {
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
