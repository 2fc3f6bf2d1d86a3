//! A cluster: chunks about one thing. Grouping and ranking, both deterministic and without a model.
//! Leader clustering with a size cap, because single linkage chains and makes five-topic memories.

use chrono::{DateTime, Utc};

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

/// Groups chunks of one agent: in order of time, each joins the most similar leader at or above `threshold` whose
/// cluster has room, else leads a new one.
pub fn cluster(mut chunks: Vec<(Chunk, Vec<f32>)>, threshold: f32) -> Vec<Cluster> {
    chunks.sort_by(|(a, _), (b, _)| {
        (&a.agent, a.said_at, &a.episode, a.lines, &a.digest)
            .cmp(&(&b.agent, b.said_at, &b.episode, b.lines, &b.digest))
    });
    let mut clusters: Vec<Cluster> = Vec::new();
    for (chunk, vector) in chunks {
        let mut best: Option<(usize, f32)> = None;
        for (index, cluster) in clusters.iter().enumerate() {
            if cluster.chunks.len() >= MAX_CLUSTER || cluster.chunks[0].agent != chunk.agent {
                continue;
            }
            let similarity = dot(&cluster.vectors[0], &vector);
            if similarity >= threshold && best.is_none_or(|(_, s)| similarity > s) {
                best = Some((index, similarity));
            }
        }
        match best {
            Some((index, _)) => {
                clusters[index].chunks.push(chunk);
                clusters[index].vectors.push(vector);
            }
            None => clusters.push(Cluster { chunks: vec![chunk], vectors: vec![vector], rank: 0.0 }),
        }
    }
    clusters
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
