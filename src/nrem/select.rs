//! Which chunks a night takes up: those of the oldest days never tried before, and those held back from earlier
//! nights. Pure: read episodes and the journal in, material out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;

use crate::episode::{Episode, Speaker};
use crate::nrem::chunk::{Chunk, Standing, chunk};
use crate::openclaw::noise;
use crate::state::journal::{ChunkRecord, Journal};

/// An episode file with the digests of its chunks: it is done when all of them have a fate.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// The date in its name.
    pub date: NaiveDate,
    /// Digest of its bytes.
    pub digest: String,
    /// Digests of its chunks.
    pub chunks: Vec<String>,
}

/// What a night has to work on.
#[derive(Debug, Default)]
pub struct Material {
    /// Tonight's chunks: each without a fate, each once.
    pub chunks: Vec<Chunk>,
    /// Agents and names of the episodes they are from.
    pub episodes: BTreeSet<(String, String)>,
    /// How many of the chunks were held back on earlier nights.
    pub held_back_before: usize,
    /// Days beyond `MAX_EPISODES_PER_RUN`, which wait.
    pub days_waiting: BTreeSet<NaiveDate>,
    /// Every file that was read.
    pub files: Vec<EpisodeFile>,
    /// Days on which an agent's user wrote to it.
    pub active_days: BTreeMap<String, BTreeSet<NaiveDate>>,
}

/// Picks tonight's chunks: of each agent's oldest `max_days` file dates that hold a chunk never tried, all unsettled
/// chunks; and on top those held back from earlier nights.
pub fn select(episodes: &[Episode], journal: &Journal, max_days: usize, timezone: Tz) -> Material {
    let mut material = Material::default();
    let mut by_day: BTreeMap<(NaiveDate, String), Vec<Chunk>> = BTreeMap::new();
    for episode in episodes {
        let chunks = chunk(episode, timezone);
        for chunk in chunks.iter().filter(|chunk| is_by_user(chunk)) {
            material.active_days.entry(chunk.agent.clone()).or_default().insert(chunk.date);
        }
        material.files.push(EpisodeFile {
            path: episode.path.clone(),
            name: episode.name.clone(),
            date: episode.date,
            digest: episode.digest.clone(),
            chunks: chunks.iter().map(|chunk| chunk.digest.clone()).collect(),
        });
        by_day.entry((episode.date, episode.agent.clone())).or_default().extend(chunks);
    }
    let mut days_of: HashMap<String, usize> = HashMap::new();
    let mut seen = HashSet::new();
    for ((day, agent), chunks) in by_day {
        let days = days_of.entry(agent).or_default();
        let open: Vec<Chunk> = chunks.into_iter().filter(|c| !journal.is_settled(&c.digest)).collect();
        let has_new = open.iter().any(|chunk| journal.get(&chunk.digest).is_none());
        let tonight = has_new && *days < max_days;
        *days += usize::from(tonight);
        if has_new && !tonight {
            material.days_waiting.insert(day);
        }
        for chunk in open {
            let held_back = journal.get(&chunk.digest).is_some();
            if (tonight || held_back) && seen.insert(chunk.digest.clone()) {
                material.held_back_before += usize::from(held_back);
                material.episodes.insert((chunk.agent.clone(), chunk.episode.clone()));
                material.chunks.push(chunk);
            }
        }
    }
    material
}

/// Whether the user wrote it: a heartbeat or a job stands on the user's side, and makes no day an active one.
fn is_by_user(chunk: &Chunk) -> bool {
    chunk.speaker == Speaker::User
        && !matches!(chunk.standing, Standing::Noise(reason) if noise::is_unattended(reason))
}

/// Files all of whose chunks are settled, by the journal or by tonight's fates.
pub fn done(files: &[EpisodeFile], is_settled: impl Fn(&str) -> bool) -> Vec<&EpisodeFile> {
    files.iter().filter(|file| file.chunks.iter().all(|digest| is_settled(digest))).collect()
}

/// How often a chunk competed and lost on earlier dates, by digest. Runs of one date (that of `now`, as in the ids of
/// runs) are one night: three runs in an afternoon must not pass a chunk over.
pub fn nights_before(chunks: &[Chunk], journal: &Journal, now: DateTime<Utc>) -> HashMap<String, u32> {
    let date = now.format("%Y%m%d-").to_string();
    let before =
        |record: &ChunkRecord| record.nights - u32::from(record.nights > 0 && record.run.starts_with(&date));
    chunks
        .iter()
        .filter_map(|chunk| journal.get(&chunk.digest).map(|record| (chunk.digest.clone(), before(record))))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::episode::{Reading, parse};
    use crate::nrem::sample;
    use crate::state::journal::Fate;

    #[test]
    fn each_agent_has_days_of_its_own() {
        let episode = |agent: &str, name: &str| {
            let reading = Reading { owner: vec![], agent: agent.into(), timezone: Tz::UTC };
            parse(name, format!("{agent} met Carla on the way home.").as_bytes(), &reading)
        };
        let episodes = [
            episode("a", "2026-03-01.md"),
            episode("a", "2026-03-02.md"),
            episode("b", "2026-03-02.md"),
            episode("b", "2026-03-09.md"),
        ];
        let material = select(&episodes, &Journal::default(), 1, Tz::UTC);
        let taken = [("a", "2026-03-01.md"), ("b", "2026-03-02.md")];
        let taken: BTreeSet<(String, String)> = taken.map(|(a, name)| (a.into(), name.into())).into();
        assert_eq!(material.episodes, taken);
        let waiting: Vec<String> = material.days_waiting.iter().map(NaiveDate::to_string).collect();
        assert_eq!(waiting, ["2026-03-02", "2026-03-09"]);
    }

    #[test]
    fn runs_of_one_date_are_one_night() {
        let dir = tempfile::tempdir().unwrap();
        let chunk = sample::chunk("I like tea.", "user");
        let record = ChunkRecord {
            digest: chunk.digest.clone(),
            fate: Fate::HeldBack,
            nights: 2,
            episode: chunk.episode.clone(),
            run: "20260311-030000-00000a".into(),
        };
        Journal::append(dir.path(), &[record]).unwrap();
        let journal = Journal::read(dir.path()).unwrap();
        for (now, lost) in [("2026-03-11T15:00:00Z", 1), ("2026-03-12T03:00:00Z", 2)] {
            let before = nights_before(std::slice::from_ref(&chunk), &journal, now.parse().unwrap());
            assert_eq!(before[&chunk.digest], lost, "{now}");
        }
    }
}
