//! `dreamer redream`: an episode that is done is taken up again. Its file comes back to where episodes are read, and its
//! chunks are open again in the journal; what it said before is recognised by the next night as said again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::episode::{self, Reading};
use crate::error::Error;
use crate::nrem::chunk::chunk;
use crate::state::journal::{ChunkRecord, Fate, Journal};
use crate::state::lock::Lock;
use crate::state::{StateError, read_if_there, write_atomically};
use crate::store::{Store, StoreError};

/// What the records of chunks that were opened again name as their run.
const RUN: &str = "redream";

/// Why an episode could not be taken up again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedreamError {
    /// There is no such file.
    #[error("take up the episode {file}: there is no such file in {archive} or {episodes}")]
    NotFound {
        /// What was given.
        file: String,
        /// The archive folder.
        archive: PathBuf,
        /// The episodes folder.
        episodes: PathBuf,
    },
    /// It lies elsewhere.
    #[error("take up the episode {path}: it lies neither in {archive} nor in {episodes}")]
    Outside {
        /// Where it lies.
        path: PathBuf,
        /// The archive folder.
        archive: PathBuf,
        /// The episodes folder.
        episodes: PathBuf,
    },
    /// It is none by its name.
    #[error(
        "take up the episode {path}: its name is not that of an episode (YYYY-MM-DD.md or YYYY-MM-DD-slug.md)"
    )]
    NotAnEpisode {
        /// The file.
        path: PathBuf,
    },
}

/// What was taken up again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenUp {
    /// Where the episode is read tonight.
    pub path: PathBuf,
    /// Whether it came back from the archive; else it was there.
    pub came_back: bool,
    /// Its chunks, all of which the next night distils anew.
    pub chunks: usize,
    /// Of them, chunks that had their fate.
    pub settled: usize,
    /// Of those, chunks that had been passed over.
    pub passed_over: usize,
}

/// Takes up an episode again: `file` is its name in `episodes/archive` or in the episodes folder, or a path there.
///
/// # Errors
/// When there is no such episode in one of the two folders, another run holds the lock, or a file cannot be written.
pub async fn redream(config: &Config, file: &str) -> Result<TakenUp, Error> {
    let _lock = Lock::take(&config.state_dir())?;
    if crate::dream::is_of_transcript(file) {
        return of_transcript(config, file).await;
    }
    let found = find(config, file)?;
    let bytes = read_if_there(&found)?.unwrap_or_default();
    let name = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = own_name(&name);
    if episode::date_in(&own).is_none() {
        return Err(RedreamError::NotAnEpisode { path: found }.into());
    }
    let is_archived = inside(&found, &config.archive_dir());
    let path = if is_archived { come_back(config, &own, &bytes)? } else { found };

    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let digests = digests(config, &name, &bytes).await?;
    open_again(config, &name, path, is_archived, &digests)
}

/// An episode of the gateway's transcripts: it lies where it always did.
async fn of_transcript(config: &Config, name: &str) -> Result<TakenUp, Error> {
    let found = crate::dream::episodes_named(config, name, has_agent(config).await?);
    let Some((path, _)) = found.first().cloned() else {
        let (archive, episodes) = (config.archive_dir(), config.gateway_state_dir.clone());
        return Err(RedreamError::NotFound { file: name.to_owned(), archive, episodes }.into());
    };
    let chunks = found.iter().flat_map(|(_, episode)| chunk(episode, config.timezone));
    open_again(config, name, path, false, &chunks.map(|chunk| chunk.digest).collect())
}

/// Opens the chunks again in the journal.
fn open_again(
    config: &Config,
    name: &str,
    path: PathBuf,
    came_back: bool,
    digests: &BTreeSet<String>,
) -> Result<TakenUp, Error> {
    let journal = Journal::read(&config.state_dir())?;
    let fates: Vec<Fate> = digests.iter().filter_map(|d| journal.get(d)).map(|record| record.fate).collect();
    let open = |digest: &String| ChunkRecord {
        digest: digest.clone(),
        fate: Fate::HeldBack,
        nights: 0,
        episode: name.to_owned(),
        run: RUN.to_owned(),
    };
    let known = digests.iter().filter(|digest| journal.get(digest).is_some());
    Journal::append(&config.state_dir(), &known.map(open).collect::<Vec<_>>())?;
    Ok(TakenUp {
        path,
        came_back,
        chunks: digests.len(),
        settled: fates.iter().filter(|fate| fate.is_final()).count(),
        passed_over: fates.iter().filter(|fate| **fate == Fate::PassedOver).count(),
    })
}

/// The file, in one of the two folders: a link that leads out of them is none of ours.
fn find(config: &Config, file: &str) -> Result<PathBuf, RedreamError> {
    let (archive, episodes) = (config.archive_dir(), config.episodes_dir.clone());
    let is_name = Path::new(file).file_name().is_some_and(|name| name == file);
    let places = [archive.join(file), episodes.join(file), PathBuf::from(file)];
    let places = if is_name { &places[..] } else { &places[2..] };
    let Some(path) = places.iter().find(|place| place.is_file()).and_then(|p| p.canonicalize().ok()) else {
        return Err(RedreamError::NotFound { file: file.to_owned(), archive, episodes });
    };
    if inside(&path, &archive) || inside(&path, &episodes) {
        Ok(path)
    } else {
        Err(RedreamError::Outside { path, archive, episodes })
    }
}

/// Whether the file lies in that very folder.
fn inside(file: &Path, folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| file.parent().is_some_and(|parent| parent == folder))
}

/// The name, or where it is no episode's the one before the archive gave it a number, since it held another file of that
/// name.
fn own_name(name: &str) -> String {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    match stem.rsplit_once('.') {
        Some((own, number)) if episode::date_in(name).is_none() && number.parse::<u32>().is_ok() => {
            format!("{own}.md")
        }
        _ => name.to_owned(),
    }
}

/// Copies an archived episode to the episodes folder; a file there is never overwritten. Returns where it is.
fn come_back(config: &Config, name: &str, bytes: &[u8]) -> Result<PathBuf, StateError> {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    for number in 1.. {
        let name = match number {
            1 => name.to_owned(),
            2 => format!("{stem}-again.md"),
            n => format!("{stem}-again-{}.md", n - 1),
        };
        let path = config.episodes_dir.join(name);
        match read_if_there(&path)? {
            Some(there) if there == bytes => return Ok(path),
            Some(_) => {}
            None => {
                write_atomically(&path, bytes)?;
                return Ok(path);
            }
        }
    }
    unreachable!("there is always a free number")
}

/// Digests of the episode's chunks, as a night sees them.
async fn digests(config: &Config, name: &str, bytes: &[u8]) -> Result<BTreeSet<String>, Error> {
    let reading =
        Reading { owner: config.owner.clone(), agent: config.agent.clone(), timezone: config.timezone };
    let mut episode = episode::parse(name, bytes, &reading);
    // A table without agents is one agent's, whatever session an episode is from.
    if !has_agent(config).await? {
        episode.agent.clone_from(&config.agent);
    }
    Ok(chunk(&episode, config.timezone).into_iter().map(|chunk| chunk.digest).collect())
}

/// Whether the table, if there is one, tells agents apart.
async fn has_agent(config: &Config) -> Result<bool, Error> {
    match Store::open(&config.lancedb_uri).await {
        Ok(store) => Ok(store.has_agent()),
        Err(StoreError::Missing { .. } | StoreError::NoTable { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archives_number_is_no_part_of_a_name() {
        for (name, own) in [
            ("2026-01-01.md", "2026-01-01.md"),
            ("2026-01-01.2.md", "2026-01-01.md"),
            ("2026-01-01-v1.5.md", "2026-01-01-v1.5.md"),
            ("2026-01-01.b.md", "2026-01-01.b.md"),
            ("notes", "notes"),
        ] {
            assert_eq!(own_name(name), own);
        }
    }
}
