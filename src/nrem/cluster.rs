//! A cluster: chunks about one thing. Grouping and ranking, both deterministic and without a model.
//! Leader clustering with a size cap, because single linkage chains and makes five-topic memories.

use chrono::{DateTime, Utc};
use ndarray::{Array2, ArrayView2};

use crate::detail;
use crate::episode::Speaker;
use crate::language;
use crate::memory::Category;
use crate::nrem::category::categorise;
use crate::nrem::chunk::Chunk;

/// Most chunks in one cluster.
pub const MAX_CLUSTER: usize = 8;

/// Chunks about one thing, oldest first, all of one agent.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The chunks.
    pub chunks: Vec<Chunk>,
    /// Their vectors, in the same order.
    pub vectors: Vec<Vec<f32>>,
    /// How much it deserves a place among tonight's memories; higher is better.
    pub rank: f64,
}

impl Cluster {
    /// When its newest chunk was said.
    pub fn said_at(&self) -> DateTime<Utc> {
        self.chunks.iter().map(|chunk| chunk.said_at).max().expect("a cluster is never empty")
    }

    /// Its members by nearness to their mean, the most central first: indexes.
    pub fn by_centrality(&self) -> Vec<usize> {
        let dim = self.vectors.first().map_or(0, Vec::len);
        let mut mean = vec![0.0f32; dim];
        for vector in &self.vectors {
            mean.iter_mut().zip(vector).for_each(|(m, v)| *m += v);
        }
        let mut order: Vec<usize> = (0..self.chunks.len()).collect();
        order.sort_by(|a, b| {
            dot(&self.vectors[*b], &mean).total_cmp(&dot(&self.vectors[*a], &mean)).then(a.cmp(b))
        });
        order
    }
}

/// Inner product; the cosine where both are unit vectors.
pub fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Chunks whose similarities to all leaders are computed in one matrix product. A day of 5 MB has 18,000 chunks and
/// 7,000 leaders: one by one that took five minutes.
const BLOCK: usize = 256;

/// Groups chunks, each agent's apart, and so what other people than the user say: the same words of two people are two
/// claims. In order of time, each joins the most similar leader at or above `threshold`
/// whose cluster has room, else leads a new one.
pub fn cluster(mut chunks: Vec<(Chunk, Vec<f32>)>, threshold: f32) -> Vec<Cluster> {
    chunks.sort_by(|(a, _), (b, _)| {
        (&a.agent, person(a), a.said_at, &a.episode, a.lines, &a.digest).cmp(&(
            &b.agent,
            person(b),
            b.said_at,
            &b.episode,
            b.lines,
            &b.digest,
        ))
    });
    let mut clusters = Vec::new();
    let together =
        |(a, _): &(Chunk, Vec<f32>), (b, _): &(Chunk, Vec<f32>)| a.agent == b.agent && person(a) == person(b);
    for of_one in chunks.chunk_by(together) {
        clusters.extend(cluster_one_agent(of_one, threshold));
    }
    clusters
}

/// The person who speaks, where it is neither the user, nor the agent, nor a note.
fn person(chunk: &Chunk) -> Option<&str> {
    match &chunk.speaker {
        Speaker::Person(name) => Some(name),
        _ => None,
    }
}

fn cluster_one_agent(chunks: &[(Chunk, Vec<f32>)], threshold: f32) -> Vec<Cluster> {
    let dim = chunks.first().map_or(0, |(_, vector)| vector.len());
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut leaders: Vec<f32> = Vec::new();
    for block in chunks.chunks(BLOCK) {
        let similarities = similarities(block, &leaders, dim);
        let before = clusters.len();
        for (place, (chunk, vector)) in block.iter().enumerate() {
            // Leaders found within the block are not in the product yet.
            let known = similarities.row(place).to_vec();
            let fresh = clusters[before..].iter().map(|cluster| dot(&cluster.vectors[0], vector));
            let mut best: Option<(usize, f32)> = None;
            for (index, similarity) in known.into_iter().chain(fresh).enumerate() {
                let has_room = clusters[index].chunks.len() < MAX_CLUSTER;
                if has_room && similarity >= threshold && best.is_none_or(|(_, s)| similarity > s) {
                    best = Some((index, similarity));
                }
            }
            match best {
                Some((index, _)) => {
                    clusters[index].chunks.push(chunk.clone());
                    clusters[index].vectors.push(vector.clone());
                }
                None => {
                    clusters.push(Cluster {
                        chunks: vec![chunk.clone()],
                        vectors: vec![vector.clone()],
                        rank: 0.0,
                    });
                    leaders.extend(vector);
                }
            }
        }
    }
    clusters
}

/// Inner products of a block's vectors with the leaders, one row a chunk.
fn similarities(block: &[(Chunk, Vec<f32>)], leaders: &[f32], dim: usize) -> Array2<f32> {
    let rows: Vec<f32> = block.iter().flat_map(|(_, vector)| vector.iter().copied()).collect();
    let count = leaders.len().checked_div(dim).unwrap_or(0);
    let block =
        ArrayView2::from_shape((block.len(), dim), &rows).expect("vectors of one model have one length");
    let leaders =
        ArrayView2::from_shape((count, dim), leaders).expect("vectors of one model have one length");
    block.dot(&leaders.t())
}

/// Orders clusters by how much they deserve a memory, best first: user statements, decisions, dates, novelty, size.
/// `novelty` is 1 − the highest similarity to anything remembered, one a cluster, 0 to 1.
pub fn rank(clusters: Vec<Cluster>, novelty: &[f64]) -> Vec<Cluster> {
    let mut ranked: Vec<Cluster> = clusters
        .into_iter()
        .zip(novelty)
        .map(|(mut cluster, novelty)| {
            cluster.rank = worth(&cluster) + novelty;
            cluster
        })
        .collect();
    ranked.sort_by(|a, b| {
        b.rank
            .total_cmp(&a.rank)
            .then_with(|| a.said_at().cmp(&b.said_at()))
            .then_with(|| a.chunks[0].digest.cmp(&b.chunks[0].digest))
    });
    ranked
}

fn worth(cluster: &Cluster) -> f64 {
    let stated = |chunk: &&Chunk| !language::is_question(&chunk.text);
    let statement = cluster.chunks.iter().filter(stated).map(|chunk| match chunk.speaker {
        Speaker::User => 2.0,
        Speaker::Note | Speaker::Person(_) => 1.5,
        Speaker::Assistant => 0.0,
    });
    let mut worth = statement.fold(0.0, f64::max);
    if cluster.chunks.iter().any(|chunk| categorise(&chunk.text) == Category::Decision) {
        worth += 1.0;
    }
    if cluster.chunks.iter().any(|chunk| !detail::details(&chunk.text, Some(chunk.date)).dates.is_empty()) {
        worth += 0.5;
    }
    worth + 0.3 * (cluster.chunks.len() as f64).ln()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nrem::sample::chunk;

    fn unit(x: f32, y: f32) -> Vec<f32> {
        let norm = (x * x + y * y).sqrt();
        vec![x / norm, y / norm]
    }

    #[test]
    fn a_chain_of_neighbours_does_not_become_one_cluster() {
        let fan = |n: usize| (0..n).map(|i| (i as f32 * 0.3).sin_cos()).map(|(y, x)| unit(x, y));
        let chunks = fan(6).enumerate().map(|(i, v)| (chunk(&format!("text {i}"), "user"), v)).collect();
        let clusters = cluster(chunks, 0.9);
        assert!(clusters.len() > 1);
        for cluster in &clusters {
            for vector in &cluster.vectors {
                assert!(dot(vector, &cluster.vectors[0]) >= 0.9);
            }
        }
    }

    #[test]
    fn many_chunks_make_the_same_clusters_as_one_by_one() {
        let angle = |i: usize| (i * i % 997) as f32 * 0.01;
        let all: Vec<(Chunk, Vec<f32>)> = (0..600)
            .map(|i| (chunk(&format!("text {i}"), "user"), unit(angle(i).cos(), angle(i).sin())))
            .collect();
        let mut sorted = all.clone();
        sorted.sort_by(|(a, _), (b, _)| a.digest.cmp(&b.digest));
        let mut expected: Vec<Vec<String>> = Vec::new();
        let mut leaders: Vec<Vec<f32>> = Vec::new();
        for (chunk, vector) in &sorted {
            let room = |i: &usize| expected[*i].len() < MAX_CLUSTER && dot(&leaders[*i], vector) >= 0.999;
            let best = (0..leaders.len()).filter(room).max_by(|a, b| {
                dot(&leaders[*a], vector).total_cmp(&dot(&leaders[*b], vector)).then(b.cmp(a))
            });
            match best {
                Some(i) => expected[i].push(chunk.digest.clone()),
                None => {
                    expected.push(vec![chunk.digest.clone()]);
                    leaders.push(vector.clone());
                }
            }
        }
        let got: Vec<Vec<String>> = cluster(all, 0.999)
            .iter()
            .map(|cluster| cluster.chunks.iter().map(|chunk| chunk.digest.clone()).collect())
            .collect();
        assert!(got.len() > 50, "{}", got.len());
        assert_eq!(got, expected);
    }

    #[test]
    fn a_cluster_is_capped_and_agents_are_not_mixed() {
        let same = |i: usize, agent: &str| {
            let mut chunk = chunk(&format!("text {i}"), "user");
            chunk.agent = agent.into();
            (chunk, unit(1.0, 0.0))
        };
        let chunks = (0..20).map(|i| same(i, if i % 2 == 0 { "a" } else { "b" })).collect();
        let clusters = cluster(chunks, 0.5);
        assert_eq!(clusters.iter().map(|c| c.chunks.len()).sum::<usize>(), 20);
        for cluster in &clusters {
            assert!(cluster.chunks.len() <= MAX_CLUSTER);
            assert!(cluster.chunks.iter().all(|c| c.agent == cluster.chunks[0].agent));
        }
    }

    #[test]
    fn people_are_not_mixed_in_a_cluster() {
        let said = |speaker: &str| (chunk("My birthday is in May.", speaker), unit(1.0, 0.0));
        let clusters = cluster(["Anna", "user", "Ben", "assistant", "note"].map(said).into(), 0.5);
        let speakers: Vec<Vec<&str>> =
            clusters.iter().map(|c| c.chunks.iter().map(|chunk| chunk.speaker.as_str()).collect()).collect();
        assert_eq!(speakers.len(), 3, "{speakers:?}");
        assert_eq!(speakers.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 1], "{speakers:?}");
    }

    #[test]
    fn what_the_user_states_ranks_above_what_the_assistant_says() {
        let lead =
            |text: &str, speaker: &str| cluster(vec![(chunk(text, speaker), unit(1.0, 0.0))], 0.5).remove(0);
        let clusters = vec![
            lead("You could try a walk in the park.", "assistant"),
            lead("Do you know a good park?", "user"),
            lead("We decided to meet in the park on Friday.", "user"),
            lead("I like the park.", "user"),
        ];
        let ranked = rank(clusters, &[0.5; 4]);
        let texts: Vec<&str> = ranked.iter().map(|c| c.chunks[0].text.as_str()).collect();
        assert_eq!(texts[0], "We decided to meet in the park on Friday.");
        assert_eq!(texts[1], "I like the park.");
    }
}
