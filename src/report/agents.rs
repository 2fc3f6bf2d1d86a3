//! The night by agent: a table of the dream log when the home has more than one.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::log::line;
use super::{DreamReport, Shown};

/// What a night read of one agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRead {
    /// Its memories when the night began.
    pub memories: usize,
    /// Its episodes chunks were taken from.
    pub episodes: usize,
    /// Its chunks.
    pub chunks: usize,
}

/// A line an agent: what was read, and what became of it.
pub(super) fn agents(log: &mut String, report: &DreamReport) {
    if report.agents.len() < 2 {
        return;
    }
    line!(
        log,
        "\n| agent | memories before | read | new | said again | joined | faded |\n|---|---|---|---|---|---|---|"
    );
    let new = count(report.created.iter().map(|new| &new.memory));
    let again = count(report.strengthened.iter().map(|again| &again.memory));
    let joined = count(report.joined.iter().filter_map(|joined| joined.after.first()));
    let faded = count(report.faded.iter().map(|faded| &faded.memory));
    for (agent, read) in &report.agents {
        let of = |counts: &BTreeMap<&str, usize>| counts.get(agent.as_str()).copied().unwrap_or(0);
        line!(
            log,
            "| `{agent}` | {} | {} of {} | {} | {} | {} | {} |",
            read.memories,
            crate::language::counted(read.chunks, "chunk"),
            crate::language::counted(read.episodes, "episode"),
            of(&new),
            of(&again),
            of(&joined),
            of(&faded)
        );
    }
}

fn count<'a>(shown: impl Iterator<Item = &'a Shown>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for memory in shown {
        *counts.entry(memory.agent.as_str()).or_default() += 1;
    }
    counts
}
