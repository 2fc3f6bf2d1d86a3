//! `dreamer redream`: an episode that is done is taken up again. Its file comes back to where episodes are read, and its
//! chunks are open again in the journal; what it said before is recognised by the next night as said again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::{Config, Folder};
use crate::episode::{self, Episode};
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
    /// Several agents have one of that name.
    #[error("take up the episode {file}: there are several of that name; give the path of one: {places}")]
    Several {
        /// What was given.
        file: String,
        /// Where they lie.
        places: String,
    },
    /// It is in the archive of an agent whose episodes are not read.
    #[error(
        "take up the episode {path}: it is of `{agent}`, whose episodes this home does not read; name the agent in \
         DREAMER_AGENTS"
    )]
    NotRead {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        agent: String,
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
    /// The episode's name.
    pub name: String,
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
    let there = config.folder_of(&found).ok_or_else(|| outside(config, found.clone()))?;
    let is_archived = config.archives().iter().any(|archive| archive.path == there.path);
    let episode = read(config, &there, &own, &bytes).await?;
    let path = match is_archived {
        true => {
            let folder = home_of(config, &there, &episode)
                .ok_or(RedreamError::NotRead { path: found, agent: episode.agent.clone() })?;
            come_back(&folder, &own, &bytes)?
        }
        false => found,
    };

    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let digests: BTreeSet<String> =
        chunk(&episode, config.timezone).into_iter().map(|chunk| chunk.digest).collect();
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
        name: name.to_owned(),
        path,
        came_back,
        chunks: digests.len(),
        settled: fates.iter().filter(|fate| fate.is_final()).count(),
        passed_over: fates.iter().filter(|fate| **fate == Fate::PassedOver).count(),
    })
}

/// The file, in a folder of episodes or an archive: a link that leads out of them is none of ours.
fn find(config: &Config, file: &str) -> Result<PathBuf, RedreamError> {
    let is_name = Path::new(file).file_name().is_some_and(|name| name == file);
    let mut places: Vec<PathBuf> = Vec::new();
    if is_name {
        // What lies in a folder and in its own archive is one agent's: the archived one is meant.
        let mut seen = BTreeSet::new();
        let all = config.archives().into_iter().chain(config.folders());
        let there =
            all.filter(|folder| folder.path.join(file).is_file() && seen.insert(folder.archive.clone()));
        places.extend(there.map(|folder| folder.path.join(file)));
    }
    if places.is_empty() && Path::new(file).is_file() {
        places.push(PathBuf::from(file));
    }
    if places.len() > 1 {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(RedreamError::Several { file: file.to_owned(), places: places.join(", ") });
    }
    let Some(path) = places.first().and_then(|place| place.canonicalize().ok()) else {
        let (archive, episodes) = (config.archive_dir(), config.episodes_dir.clone());
        return Err(RedreamError::NotFound { file: file.to_owned(), archive, episodes });
    };
    match config.folder_of(&path) {
        Some(_) => Ok(path),
        None => Err(outside(config, path)),
    }
}

fn outside(config: &Config, path: PathBuf) -> RedreamError {
    RedreamError::Outside { path, archive: config.archive_dir(), episodes: config.episodes_dir.clone() }
}

/// The folder an archived episode came from; where it is not read any more, the one of its agent.
fn home_of(config: &Config, archive: &Folder, episode: &Episode) -> Option<PathBuf> {
    let folders = config.folders();
    let own = |folder: &&Folder| folder.of.contains(&episode.agent);
    let all = |folder: &&Folder| folder.of.is_empty() && config.is_ours(&episode.agent);
    let came_from = folders.iter().find(|folder| folder.archive == archive.path);
    let home = came_from.or_else(|| folders.iter().find(own)).or_else(|| folders.iter().find(all));
    home.map(|folder| folder.path.clone())
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

/// Copies an archived episode to a folder of episodes; a file there is never overwritten. Returns where it is.
fn come_back(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, StateError> {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    for number in 1.. {
        let name = match number {
            1 => name.to_owned(),
            2 => format!("{stem}-again.md"),
            n => format!("{stem}-again-{}.md", n - 1),
        };
        let path = folder.join(name);
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

/// The episode as a night reads it.
async fn read(config: &Config, folder: &Folder, name: &str, bytes: &[u8]) -> Result<Episode, Error> {
    let mut episode = episode::parse(name, bytes, &config.reading(folder));
    // A table without agents is one agent's, whatever session an episode is from.
    if !has_agent(config).await? {
        episode.agent.clone_from(&config.agent);
    }
    Ok(episode)
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
