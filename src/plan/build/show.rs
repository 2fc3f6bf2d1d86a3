//! How memories stand in the report: text, category, day and places. Pure look-ups on the plan in the making.

use super::Building;
use crate::memory::{Memory, Trace};
use crate::nrem::chunk::Chunk;
use crate::nrem::draft::Origin;
use crate::rem::conflict::Claim;
use crate::report::{Joined, Shown};

/// Why two claims were joined.
#[derive(Clone, Copy)]
pub(super) struct Verdict<'v> {
    pub(super) similarity: f32,
    pub(super) reason: &'v str,
    pub(super) prompt: &'v Option<String>,
}

impl Verdict<'_> {
    pub(super) fn joined(self, relation: &str, before: Vec<Shown>, after: Vec<Shown>) -> Joined {
        Joined {
            relation: relation.to_owned(),
            before,
            after,
            similarity: self.similarity,
            reason: self.reason.to_owned(),
            recaptured: false,
            prompt: self.prompt.clone(),
        }
    }
}

impl Building<'_> {
    pub(super) fn shown(&self, memory: &Memory, trace: &Trace) -> Shown {
        Shown {
            id: memory.id.clone(),
            agent: memory.partition.agent.clone(),
            text: memory.text.clone(),
            category: memory.category.as_str().to_owned(),
            importance: memory.importance,
            said_on: trace
                .said_at
                .map_or(self.night.today, |at| at.with_timezone(&self.night.config.timezone).date_naive()),
            sources: trace.sources.iter().map(|s| place_of(&s.episode, s.lines, &s.speaker)).collect(),
        }
    }

    pub(super) fn shown_row(&self, id: &str) -> Shown {
        let text = self.text_of(id).unwrap_or_default();
        self.shown_id(id, &text)
    }

    pub(super) fn shown_id(&self, id: &str, text: &str) -> Shown {
        let memory = self.found.known.rows.get(id).cloned();
        let memory = memory.or_else(|| {
            self.plan.inserts.iter().find(|row| row.memory.id == id).map(|row| row.memory.clone())
        });
        let trace = self.traces.get(id);
        Shown {
            id: id.to_owned(),
            agent: memory.as_ref().map(|m| m.partition.agent.clone()).unwrap_or_default(),
            text: text.to_owned(),
            category: memory.as_ref().map(|m| m.category.as_str().to_owned()).unwrap_or_default(),
            importance: memory.as_ref().map_or(0.0, |m| m.importance),
            said_on: self.found.known.said_on(id),
            sources: trace
                .map(|t| t.sources.iter().map(|s| place_of(&s.episode, s.lines, &s.speaker)).collect())
                .unwrap_or_default(),
        }
    }

    pub(super) fn shown_claim(&self, claim: &Claim) -> Shown {
        let index = self.found.compressed.drafts.iter().position(|new| new.id == claim.id);
        let sources = match index.and_then(|index| self.draft(index)) {
            Some(new) => new.draft.chunks.iter().map(place).collect(),
            None => self.shown_id(&claim.id, &claim.text).sources,
        };
        Shown {
            id: claim.id.clone(),
            agent: claim.partition.agent.clone(),
            text: claim.text.clone(),
            category: claim.category.as_str().to_owned(),
            importance: claim.importance,
            said_on: claim.said_on,
            sources,
        }
    }
}

/// The word for who worded a draft.
pub(super) fn worded_by(origin: Origin) -> &'static str {
    match origin {
        Origin::Model => "model",
        Origin::Verbatim => "verbatim",
        Origin::Extractive => "extractive",
    }
}

/// Where a chunk stands: `episode:first-last (speaker)`.
pub(super) fn place(chunk: &Chunk) -> String {
    place_of(&chunk.episode, chunk.lines, chunk.speaker.as_str())
}

fn place_of(episode: &str, lines: (usize, usize), speaker: &str) -> String {
    if let Some(session) = transcript_place(episode) {
        return format!("{session} {} ({speaker})", lines.0);
    }
    if lines.0 == lines.1 {
        format!("{episode}:{} ({speaker})", lines.0)
    } else {
        format!("{episode}:{}-{} ({speaker})", lines.0, lines.1)
    }
}

/// A transcript as people speak of it, up to the number of the line; none for the name of a file.
fn transcript_place(episode: &str) -> Option<String> {
    let (date, session) = (crate::dream::day_in(episode)?, crate::dream::session_in(episode)?);
    let unit = if episode.ends_with(".sqlite") { "event" } else { "line" };
    Some(format!("session {session:.8} of {date}, {unit}"))
}
