//! What the next night would cost at most, from the code that makes its calls: the batches of the distiller with every
//! chunk a cluster of its own, one call of the judge a new claim, and what the embedder would be given. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::config::{Config, LlmProvider};
use crate::nrem::chunk::Chunk;
use crate::nrem::cluster::{Cluster, MAX_CLUSTER};
use crate::nrem::{MEMORIES_A_CLUSTER, distil};
use crate::privacy::Privacy;
use crate::providers::{calibration, configured, estimate_tokens};
use crate::queues::retry::extra_calls;
use crate::rem::conflict::{self, MAX_CANDIDATES};
use crate::remembered::Remembered;

/// Tokens of a draft or a merged text at their longest: 150 characters of CJK weigh more than 300 others.
const A_TEXT: u64 = 230;
/// Rows the probe embeds again.
const PROBED: usize = 5;

/// Requests and tokens, at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Requests to the embedding model.
    pub embedding_calls: u64,
    /// Tokens of what it would be given.
    pub embedding_tokens: u64,
    /// Requests to the language model when every reply can be used at once.
    pub chat_calls_usual: u64,
    /// Requests to the language model when every reply has to be asked for again, in halves, too.
    pub chat_calls: u64,
    /// Tokens of those prompts and of the longest replies.
    pub chat_tokens: u64,
    /// Requests in all; never more than `DREAMER_MAX_CALLS`.
    pub calls: u64,
    /// Tokens in all; never more than `DREAMER_MAX_TOKENS`.
    pub tokens: u64,
    /// Which limits would hold something back in the worst case.
    pub limits: Vec<&'static str>,
}

/// One request, or several alike.
#[derive(Clone, Copy)]
struct Calls {
    usual: u64,
    most: u64,
    tokens: u64,
}

impl Cost {
    /// The cost of these chunks, and of `rows` memories that are compared.
    pub(super) fn of(config: &Config, evidence: &[&Chunk], known: &Remembered, rows: usize) -> Self {
        let mut cost = Self::default();
        let mut agents: BTreeMap<&str, Vec<&Chunk>> = BTreeMap::new();
        for chunk in evidence {
            agents.entry(&chunk.agent).or_default().push(chunk);
        }
        let new = |chunks: &Vec<&Chunk>| match config.llm_provider {
            LlmProvider::Extractive => config.max_new_memories,
            _ => config.max_new_memories.min(chunks.len() * MEMORIES_A_CLUSTER),
        };
        let most_new: usize = agents.values().map(new).sum();
        let claims = rows + most_new;
        let waves: Vec<Vec<Cluster>> = agents.values().flat_map(|chunks| waves(config, chunks)).collect();
        if config.llm_provider != LlmProvider::Extractive {
            let privacy = Privacy::new(config.mask_pii, config.prompts_leave());
            let distilling = waves.iter().map(|wave| distilling(wave, most_a_cluster(config), &privacy));
            for calls in distilling.chain([judging(known, claims)]) {
                cost.chat_calls_usual += calls.usual;
                cost.chat_calls += calls.most;
                cost.chat_tokens += calls.tokens;
            }
        }
        if !config.embedding_provider.is_in_process() {
            let words: Vec<&str> = evidence.iter().map(|chunk| chunk.text.as_str()).collect();
            let probe: Vec<&str> = known.rows.values().take(PROBED).map(|row| row.text.as_str()).collect();
            let longest = known.rows.values().map(|row| estimate_tokens(&row.text) as u64).max().unwrap_or(1);
            cost.embedding_tokens = words.iter().map(|text| estimate_tokens(text) as u64).sum::<u64>()
                + probe.len().max(1) as u64 * longest
                + (claims * 2) as u64 * A_TEXT;
            // The probe, the chunks, the drafts of every wave, the merged texts.
            let requests = |texts: &[&str]| configured::embedding_requests(config, texts) as u64;
            let something = !words.is_empty() || !probe.is_empty();
            let apart = agents.len().saturating_sub(1) as u64;
            cost.embedding_calls =
                u64::from(something) + requests(&words) + apart + waves.len() as u64 + u64::from(claims > 1);
            if something && !is_calibrated(config) {
                let pairs = calibration::texts();
                cost.embedding_calls += requests(&pairs);
                cost.embedding_tokens += pairs.iter().map(|text| estimate_tokens(text) as u64).sum::<u64>();
            }
        }
        cost.within(config)
    }

    fn within(mut self, config: &Config) -> Self {
        self.calls = self.embedding_calls + self.chat_calls;
        self.tokens = self.embedding_tokens + self.chat_tokens;
        if self.calls > u64::from(config.max_calls) {
            self.calls = u64::from(config.max_calls);
            self.limits.push("DREAMER_MAX_CALLS");
        }
        if let Some(most) = config.max_tokens.filter(|most| self.tokens > *most) {
            self.tokens = most;
            self.limits.push("DREAMER_MAX_TOKENS");
        }
        self
    }
}

/// Whether the embedder's similarities are known; else the night embeds the built-in pairs first.
fn is_calibrated(config: &Config) -> bool {
    let calibrated = config.calibrated().ok().flatten();
    config.thresholds(calibrated).is_ok_and(|thresholds| thresholds.is_some())
}

fn most_a_cluster(config: &Config) -> usize {
    if config.max_new_memories == 1 { 1 } else { MEMORIES_A_CLUSTER }
}

/// What would be asked about in one go when no chunk goes with another and nothing of it is worth a memory: then all of
/// them are asked about.
fn waves(config: &Config, evidence: &[&Chunk]) -> Vec<Vec<Cluster>> {
    let a_wave = (config.max_new_memories / most_a_cluster(config)).max(1);
    let alone = |chunk: &&Chunk| Cluster { chunks: vec![(*chunk).clone()], vectors: vec![], rank: 0.0 };
    evidence.chunks(a_wave).map(|wave| wave.iter().map(alone).collect()).collect()
}

/// A call a batch; at most another one for what the check refuses, and those of halving it.
fn distilling(wave: &[Cluster], most: usize, privacy: &Privacy) -> Calls {
    let mut calls = Calls { usual: 0, most: 0, tokens: 0 };
    for batch in distil::batches(wave.to_vec()) {
        let prompt = distil::prompt(&batch, most, privacy);
        let asked = estimate_tokens(&prompt.system)
            + estimate_tokens(prompt.user.as_str())
            + estimate_tokens(&prompt.schema.to_string());
        let (asked, reply) = (asked as u64, u64::from(prompt.max_tokens));
        let first = 1 + (extra_calls(batch.len()) + extra_calls(MAX_CLUSTER)) as u64;
        calls.usual += 1;
        calls.most += 2 * first;
        // A prompt that asks again repeats what was refused.
        calls.tokens += first * (asked + reply) + first * (asked + 2 * reply);
    }
    calls
}

/// A call a claim that is compared with others; at most those of halving it.
fn judging(known: &Remembered, claims: usize) -> Calls {
    let others = (known.rows.len() + claims).saturating_sub(1).min(MAX_CANDIDATES);
    if claims == 0 || others == 0 {
        return Calls { usual: 0, most: 0, tokens: 0 };
    }
    let longest =
        known.rows.values().map(|row| estimate_tokens(&row.text) as u64).max().unwrap_or(0).max(A_TEXT);
    // A merge stands in the prompt with its originals.
    let originals = known.traces.values().map(|trace| trace.merged_from.len()).max().unwrap_or(0) as u64;
    let asked = conflict::frame_tokens() + (others as u64 + 1) * (longest * (1 + originals) + 40);
    let reply = u64::from(conflict::max_reply(others));
    let most = 1 + extra_calls(others) as u64;
    let claims = claims as u64;
    Calls { usual: claims, most: claims * most, tokens: claims * most * (asked + reply) }
}
