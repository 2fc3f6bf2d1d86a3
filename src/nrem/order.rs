//! In which order a night spends its budget: the oldest episode first, within it the best clusters; and what an earlier
//! night left over, without its having lost the ranking, before everything else. `MAX_NEW_MEMORIES` goes by rank alone:
//! rank says which clusters are asked about, the day which of them is asked about first. Pure.

use std::collections::HashMap;

use chrono::NaiveDate;

use crate::dream::Night;
use crate::episode::date_in;
use crate::nrem::chunk::Chunk;
use crate::nrem::cluster::Cluster;
use crate::providers::{Reasoner, estimate_tokens};

/// Why chunks wait that would cost more than a night may.
pub const TOO_MANY: &str =
    "take up everything: DREAMER_MAX_TOKENS is too little for it; the newest waits for the next night";

/// Tokens that distilling a chunk may cost besides its words: its frame in the prompt, and two memories in the reply. A
/// request is sent only if its longest reply is paid for, so the longest counts here, too.
const ASIDE: u64 = 160 + 2 * 350;
/// Tokens of a call besides its material: the standing instructions, the schema and the rest of the reply.
const A_CALL: u64 = 2_500;
/// Tokens of material in one call.
const MATERIAL: u64 = 3_000;
/// Tokens that distilling one cluster may cost at most, its share of a call included.
const A_CLUSTER: u64 = 3_500;

/// The day of the oldest episode a cluster rests on.
pub fn day(cluster: &Cluster) -> NaiveDate {
    cluster.chunks.iter().map(day_of).min().unwrap_or_default()
}

fn day_of(chunk: &Chunk) -> NaiveDate {
    date_in(&chunk.episode).unwrap_or(chunk.date)
}

/// Clusters that go to the models, the oldest day first; within a day as they were ranked.
pub fn oldest_first(mut clusters: Vec<Cluster>) -> Vec<Cluster> {
    clusters.sort_by_key(day);
    clusters
}

/// Ranked clusters with those in front that an earlier night had no budget for. `nights` holds every chunk that was tried
/// before, with the nights on which it lost the ranking.
pub fn first_in_line(ranked: Vec<Cluster>, nights: &HashMap<String, u32>) -> Vec<Cluster> {
    let left_over =
        |cluster: &Cluster| cluster.chunks.iter().any(|chunk| nights.get(&chunk.digest) == Some(&0));
    let (mut first, rest): (Vec<_>, Vec<_>) = ranked.into_iter().partition(left_over);
    first.extend(rest);
    first
}

/// Splits chunks into those that `most` tokens (the agent's share of `DREAMER_MAX_TOKENS`) let a night take up, the oldest
/// episode first, and the others. Without this a night would embed everything and have nothing left to make memories of it.
pub fn within_tokens<'a>(
    night: &Night<'_>,
    most: Option<u64>,
    chunks: Vec<&'a Chunk>,
) -> (Vec<&'a Chunk>, Vec<&'a Chunk>) {
    let Some(most) = most else { return (chunks, vec![]) };
    let embeds = !night.config.embedding_provider.is_in_process();
    let distils = matches!(night.reasoner, Reasoner::Model(_));
    split(chunks, most, night.config.max_new_memories as u64, (embeds, distils))
}

fn split(
    mut chunks: Vec<&Chunk>,
    most: u64,
    max_new: u64,
    (embeds, distils): (bool, bool),
) -> (Vec<&Chunk>, Vec<&Chunk>) {
    chunks.sort_by_key(|chunk| day_of(chunk));
    let (mut embedding, mut material, mut asides) = (0, 0, 0);
    let mut fits = |chunk: &&Chunk| {
        let own = estimate_tokens(&chunk.text) as u64;
        let before = chunk.reply_to.as_deref().map_or(0, |text| estimate_tokens(text) as u64);
        embedding += if embeds { own } else { 0 };
        material += own + before;
        asides += ASIDE;
        let calls = 1 + material / MATERIAL;
        let distilling = if distils { material + asides + calls * A_CALL } else { 0 };
        // A tenth is left for what is made of them: the drafts' vectors and the judge.
        embedding + distilling.min(max_new * A_CLUSTER) <= most / 10 * 9
    };
    // One at least: a chunk that is too large for any night must not stop all of them.
    let taken = chunks.iter().take_while(|chunk| fits(chunk)).count().max(1).min(chunks.len());
    let over = chunks.split_off(taken);
    (chunks, over)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nrem::sample;

    fn chunk(text: &str, episode: &str) -> Chunk {
        Chunk { episode: episode.into(), ..sample::chunk(text, "user") }
    }

    fn cluster(text: &str, episode: &str) -> Cluster {
        Cluster { chunks: vec![chunk(text, episode)], vectors: vec![vec![1.0]], rank: 0.0 }
    }

    fn texts(clusters: &[Cluster]) -> Vec<&str> {
        clusters.iter().map(|cluster| cluster.chunks[0].text.as_str()).collect()
    }

    #[test]
    fn the_oldest_day_comes_first_and_within_it_the_best() {
        let ranked = vec![
            cluster("best", "2026-03-10.md"),
            cluster("second", "2026-03-09-a.md"),
            cluster("third", "2026-03-10-b.md"),
            cluster("fourth", "2026-03-09-b.md"),
        ];
        assert_eq!(texts(&oldest_first(ranked)), ["second", "fourth", "best", "third"]);
    }

    #[test]
    fn what_was_left_over_comes_before_what_lost_the_ranking_and_what_is_new() {
        let ranked = vec![cluster("new", "a"), cluster("lost", "a"), cluster("left over", "a")];
        let digest = |place: usize| ranked[place].chunks[0].digest.clone();
        let nights = HashMap::from([(digest(1), 1), (digest(2), 0)]);
        assert_eq!(texts(&first_in_line(ranked, &nights)), ["left over", "new", "lost"]);
    }

    #[test]
    fn the_oldest_chunks_that_fit_are_taken_and_one_at_least() {
        let words = "likes green tea and long walks by the sea ".repeat(20);
        let chunks: Vec<Chunk> = ["2026-03-10.md", "2026-03-08.md", "2026-03-09.md"]
            .iter()
            .map(|day| chunk(&words, day))
            .collect();
        let days = |most: u64, costs: (bool, bool)| {
            let (taken, over) = split(chunks.iter().collect(), most, 20, costs);
            assert_eq!(taken.len() + over.len(), 3);
            taken.into_iter().map(day_of).map(|day| day.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(days(10, (true, true)), ["2026-03-08"]);
        assert_eq!(days(6_500, (true, true)), ["2026-03-08", "2026-03-09"]);
        assert_eq!(days(100_000, (true, true)).len(), 3);
        assert_eq!(days(10, (false, false)).len(), 3, "what costs nothing is not limited");
    }
}
