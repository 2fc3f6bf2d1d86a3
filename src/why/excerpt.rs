//! Excerpts: what stands where a memory says it comes from. The episode's file counts if it still holds that very chunk,
//! in the folder or in the archive; else what was kept raw; else nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use chrono::{DateTime, Utc};

use super::{Kept, Place};
use crate::config::{Config, Folder};
use crate::dream::episodes_named;
use crate::episode::{date_in, parse};
use crate::memory::{RawMemory, Source};
use crate::nrem::chunk::chunk;
use crate::privacy::Privacy;

/// A chunk as it stands in a file: its lines and words.
struct Found {
    file: PathBuf,
    lines: (usize, usize),
    text: String,
}

type Chunks = Rc<HashMap<String, Found>>;

pub(super) struct Excerpts<'a> {
    config: &'a Config,
    has_agent: bool,
    privacy: Privacy,
    raw: HashMap<String, RawMemory>,
    /// The chunks of an episode by digest: read when they are asked for.
    episodes: RefCell<HashMap<String, Chunks>>,
}

impl<'a> Excerpts<'a> {
    pub(super) fn new(config: &'a Config, has_agent: bool, raw: Vec<RawMemory>) -> Self {
        Self {
            config,
            has_agent,
            privacy: Privacy::new(config.mask_pii, false),
            raw: raw.into_iter().map(|raw| (raw.source.chunk.clone(), raw)).collect(),
            episodes: RefCell::default(),
        }
    }

    /// The place of a source, with what stands there.
    pub(super) fn place(&self, source: &Source) -> Place {
        let place = Place {
            episode: source.episode.clone(),
            lines: source.lines,
            speaker: Some(source.speaker.clone()),
            said_at: Some(self.local(source.said_at)),
            excerpt: None,
            kept: Kept::Nowhere,
            file: None,
        };
        if let Some(found) = self.chunks_of(&source.episode).get(&source.chunk) {
            let excerpt = Some(self.privacy.to_store(&found.text));
            let (lines, file) = (found.lines, Some(found.file.clone()));
            return Place { lines, excerpt, file, kept: Kept::Episode, ..place };
        }
        match self.raw.get(&source.chunk) {
            Some(raw) => Place { excerpt: Some(raw.text.clone()), kept: Kept::Raw, ..place },
            None => place,
        }
    }

    /// Sources that raw memories know of a memory.
    pub(super) fn raw_sources(&self, id: &str) -> Vec<Source> {
        let rests = |raw: &&RawMemory| raw.memories.iter().any(|memory| memory == id);
        self.raw.values().filter(rests).map(|raw| raw.source.clone()).collect()
    }

    fn local(&self, at: DateTime<Utc>) -> DateTime<chrono::FixedOffset> {
        at.with_timezone(&self.config.timezone).fixed_offset()
    }

    fn chunks_of(&self, episode: &str) -> Chunks {
        let known = self.episodes.borrow().get(episode).cloned();
        known.unwrap_or_else(|| {
            let chunks = Rc::new(self.read(episode));
            self.episodes.borrow_mut().insert(episode.to_owned(), chunks.clone());
            chunks
        })
    }

    /// The chunks of every file that may be the episode; those still in the folder count first.
    fn read(&self, episode: &str) -> HashMap<String, Found> {
        let mut chunks = HashMap::new();
        for (file, read) in episodes_named(self.config, episode, self.has_agent) {
            for piece in chunk(&read, self.config.timezone) {
                let found = Found { file: file.clone(), lines: piece.lines, text: piece.text };
                chunks.entry(piece.digest).or_insert(found);
            }
        }
        // A name from a stored trace must not lead out of the two folders.
        if date_in(episode).is_none() || episode.contains(['/', '\\']) {
            return chunks;
        }
        let config = self.config;
        for (file, folder) in files(episode, config) {
            let Ok(bytes) = fs::read(&file) else { continue };
            let mut read = parse(episode, &bytes, &config.reading(&folder));
            if !self.has_agent {
                read.agent.clone_from(&config.agent);
            }
            for piece in chunk(&read, config.timezone) {
                let found = Found { file: file.clone(), lines: piece.lines, text: piece.text };
                chunks.entry(piece.digest).or_insert(found);
            }
        }
        chunks
    }
}

/// Where an episode may lie: in a folder of episodes, or in an archive, there perhaps with a number because its name was
/// taken. Agents may have episodes of one name; the digest of a chunk tells whose it is.
fn files(episode: &str, config: &Config) -> Vec<(PathBuf, Folder)> {
    let stem = episode.strip_suffix(".md").unwrap_or(episode);
    let mut files: Vec<(PathBuf, Folder)> =
        config.folders().into_iter().map(|folder| (folder.path.join(episode), folder)).collect();
    for archive in config.archives() {
        let numbered =
            (2..).map(|n| archive.path.join(format!("{stem}.{n}.md"))).take_while(|path| path.exists());
        let all = std::iter::once(archive.path.join(episode)).chain(numbered);
        files.extend(all.map(|path| (path, archive.clone())));
    }
    files.retain(|(path, _)| path.exists());
    files
}

/// A place of which only the audit knows: `episode:first-last`.
pub(super) fn from_audit(place: &str) -> Option<Place> {
    let (episode, lines) = place.rsplit_once(':')?;
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    Some(Place {
        episode: episode.to_owned(),
        lines: (first.parse().ok()?, last.parse().ok()?),
        speaker: None,
        said_at: None,
        excerpt: None,
        kept: Kept::Nowhere,
        file: None,
    })
}
