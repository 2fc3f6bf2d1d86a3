//! What became of the chunks: their fates for journal and log, the raw text that is kept, and the episodes that are done.

use std::collections::{BTreeMap, HashMap};

use super::Building;
use crate::memory::RawMemory;
use crate::nrem::draft::{MemoryDraft, source_of};
use crate::nrem::select;
use crate::plan::{EpisodeMove, id_of_raw};
use crate::report::Group;
use crate::state::journal::{ChunkRecord, Fate};

/// Places named for a group of chunks in the log.
const PLACES: usize = 8;

impl<'a> Building<'a> {
    /// Gives the chunks of a draft that is not stored after all another fate, unless another draft rests on them.
    pub(super) fn refate(&mut self, draft: &MemoryDraft, fate: Fate, why: &str) {
        for chunk in &draft.chunks {
            let stored_elsewhere = self.found.compressed.drafts.iter().enumerate().any(|(index, other)| {
                !self.consumed.contains(&index) && other.draft.chunks.iter().any(|c| c.digest == chunk.digest)
            });
            if let Some(entry) =
                self.fates.get_mut(&chunk.digest).filter(|entry| !stored_elsewhere && entry.0 == Fate::Stored)
            {
                *entry = (fate, 0, why.to_owned());
            }
        }
    }

    /// The chunks a night used are kept raw, with the memories that rest on them.
    pub(super) fn keep_raw(&mut self) {
        let mut memories: HashMap<&str, Vec<String>> = HashMap::new();
        for trace in self.traces.all() {
            for source in &trace.sources {
                memories.entry(&source.chunk).or_default().push(trace.id.clone());
            }
        }
        let mut raw = Vec::new();
        for chunk in &self.found.material.chunks {
            let fate = self.fates.get(&chunk.digest).map(|(fate, ..)| *fate);
            let kept = !matches!(fate, None | Some(Fate::Noise | Fate::Excluded | Fate::HeldBack))
                && !self.found.compressed.forgotten.contains(&chunk.digest);
            let Some(vector) = self.found.compressed.vectors.get(&chunk.digest).filter(|_| kept) else {
                continue;
            };
            raw.push(RawMemory {
                id: id_of_raw(&chunk.digest),
                text: self.night.privacy.to_store(&chunk.text),
                vector: vector.clone(),
                agent: chunk.agent.clone(),
                source: source_of(chunk),
                memories: memories.get(chunk.digest.as_str()).cloned().unwrap_or_default(),
                run: self.night.run.as_str().to_owned(),
            });
        }
        self.plan.raw = raw;
    }

    pub(super) fn record_fates(&mut self) {
        let mut groups: BTreeMap<(Fate, String), Group> = BTreeMap::new();
        for chunk in &self.found.material.chunks {
            // Every chunk has a fate; one that no step settled is tried again, never forgotten.
            let unsettled = || (Fate::HeldBack, 0, "no step of the night settled it".to_owned());
            let (fate, nights, why) = self.fates.get(&chunk.digest).cloned().unwrap_or_else(unsettled);
            *self.plan.report.fates.entry(fate).or_default() += 1;
            let record = ChunkRecord {
                digest: chunk.digest.clone(),
                fate,
                nights,
                episode: chunk.episode.clone(),
                run: self.night.run.as_str().to_owned(),
            };
            self.plan.journal.push(record);
            if matches!(fate, Fate::Stored | Fate::Merged | Fate::Reinforced) {
                continue;
            }
            let group =
                groups.entry((fate, why.clone())).or_insert(Group { fate, why, places: vec![], count: 0 });
            group.count += 1;
            if group.places.len() < PLACES {
                group.places.push(format!("{}:{}", chunk.episode, chunk.lines.0));
            }
        }
        self.plan.report.groups = groups.into_values().collect();
    }

    pub(super) fn move_episodes(&mut self) {
        let settled = |digest: &str| {
            self.fates
                .get(digest)
                .map_or_else(|| self.found.journal.is_settled(digest), |(fate, ..)| fate.is_final())
        };
        let config = self.night.config;
        for file in select::done(&self.found.material.files, settled) {
            let Some(folder) = config.folder_of(&file.path) else { continue };
            // The gateway loads the notes of today and yesterday into every new session: they stay where it looks.
            if config.owns(&folder.path) || (self.night.today - file.date).num_days() >= 2 {
                self.plan.moves.push(EpisodeMove {
                    from: file.path.clone(),
                    to: folder.archive,
                    digest: file.digest.clone(),
                });
                self.plan.report.archived_episodes.push(file.name.clone());
            }
        }
    }
}
