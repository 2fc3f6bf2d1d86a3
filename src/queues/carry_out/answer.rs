//! Answers to review items as writes: the merge that was proposed, the duplicate that leaves, the draft that is stored.
//! A person's word overrules the judge and its veto, not a pin, and never lets a secret or an instruction in.

use super::{Outcome, Work};
use crate::error::Error;
use crate::memory::{Departure, Importance, Memory, Partition, Reconciled, Similarity, Trace, text_digest};
use crate::nrem::dedup::says_the_same;
use crate::nrem::draft::steers_the_agent;
use crate::plan::{ReviewItem, id_of_new, id_of_successor};
use crate::queues::decisions::Answer;
use crate::queues::review;
use crate::rem::conflict::Relation;
use crate::report::Joined;
use crate::state::journal::Fate;
use crate::store::{Inherit, NewRow, Query};

const CHANGED: &str = "one of the two is gone or says something else by now";
const TAKEN: &str = "another decision about one of them is carried out tonight";
const PINNED: &str = "one of them is pinned; unpin it first";

impl<'a> Work<'a> {
    /// The two rows of a conflict, if both are still there and say what was judged.
    fn pair(&self, item: &ReviewItem) -> Option<[&'a Memory; 2]> {
        let row = |place: usize| {
            let row = self.known.rows.get(item.memories.get(place)?)?;
            let same = match item.digests.get(place) {
                Some(digest) => *digest == text_digest(&row.text),
                None => item.texts.get(place) == Some(&row.text),
            };
            same.then_some(row)
        };
        let (one, other) = (row(0)?, row(1)?);
        (one.id != other.id && one.partition == other.partition).then_some([one, other])
    }

    fn is_pinned(&self, row: &Memory) -> bool {
        self.known.traces.get(&row.id).is_some_and(|trace| trace.pinned)
    }

    pub(super) fn merge(&mut self, item: &ReviewItem) -> Outcome {
        let Some([one, other]) = self.pair(item) else { return Outcome::Moot(CHANGED.into()) };
        if self.is_pinned(one) || self.is_pinned(other) {
            return Outcome::Waits(PINNED.into());
        }
        let texts: Vec<String> = item.proposal.iter().map(|text| self.night.privacy.to_store(text)).collect();
        if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty() || steers_the_agent(text)) {
            return Outcome::Moot("the proposed text is empty or would instruct the agent".into());
        }
        if !self.reserve(&[one, other]) {
            return Outcome::Waits(TAKEN.into());
        }
        let known = self.known;
        let one_is_newer = known.said_at(&one.id) >= known.said_at(&other.id);
        let (newer, older) = if one_is_newer { (one, other) } else { (other, one) };
        let only_if: Vec<(String, String)> =
            [newer, older].iter().map(|row| (row.id.clone(), row.text.clone())).collect();
        let mut after = Vec::new();
        for text in &texts {
            let memory = Memory {
                id: id_of_successor(&self.night.run, &newer.partition.agent, text),
                text: text.clone(),
                importance: one.importance.max(other.importance),
                created_at: self.night.now.timestamp_millis(),
                ..newer.clone()
            };
            self.carried.plan.traces.push(self.trace_of_successor(&memory, newer, older));
            after.push(self.shown(&memory));
            let vector = self.vectors.get(text).cloned().unwrap_or_default();
            let (inherit, only_if) = (Inherit::Row(newer.id.clone()), only_if.clone());
            self.carried.plan.inserts.push(NewRow { memory, vector, inherit, only_if });
        }
        let successor = after.first().map(|shown| shown.id.clone());
        for row in [newer, older] {
            self.leave(row, Departure::Superseded, successor.clone());
        }
        let relation = item.relation.clone().unwrap_or_else(|| Relation::DifferentAspects.as_str().into());
        let rem = &mut self.carried.plan.report.rem;
        match relation == Relation::StateChange.as_str() {
            true => rem.merged += 1,
            false => rem.consolidated += 1,
        }
        let before = vec![self.shown(older), self.shown(newer)];
        self.joined(&relation, before, after, "a person confirmed it");
        Outcome::Done(format!("“{}”", texts.join("” and “")))
    }

    fn trace_of_successor(&self, memory: &Memory, newer: &Memory, older: &Memory) -> Trace {
        let (night, known) = (self.night, self.known);
        let mut trace = Trace {
            said_at: Some(known.said_at(&newer.id).max(known.said_at(&older.id))),
            about: crate::detail::details(&memory.text, Some(known.said_on(&newer.id))).latest_date(),
            reconciled: Reconciled::Waiting,
            ..Trace::of_row(memory, night.today, night.embedder.model(), night.run.as_str())
        };
        for row in [older, newer] {
            take_over(&mut trace, self.trace_of(row), &memory.text);
        }
        let mut originals: Vec<String> = known.originals(&older.id);
        originals.extend(known.originals(&newer.id));
        originals.sort_by_key(|id| known.said_on(id));
        originals.dedup();
        trace.merged_from = originals;
        trace
    }

    pub(super) fn settle_duplicate(&mut self, item: &ReviewItem) -> Outcome {
        let Some([one, other]) = self.pair(item) else { return Outcome::Moot(CHANGED.into()) };
        let worth = |row: &Memory| (self.is_pinned(row), row.importance, row.text.chars().count());
        let (keep, drop) = if worth(one) >= worth(other) { (one, other) } else { (other, one) };
        if self.is_pinned(drop) {
            return Outcome::Waits(PINNED.into());
        }
        if !self.reserve(&[one, other]) {
            return Outcome::Waits(TAKEN.into());
        }
        let mut trace = self.trace_of(keep);
        let gone = self.trace_of(drop);
        trace.base = trace.base.max(gone.base);
        trace.said_at = trace.said_at.max(gone.said_at);
        take_over(&mut trace, gone, &keep.text);
        self.carried.plan.traces.push(trace);
        self.carried.plan.carriers.insert(keep.id.clone(), keep.text.clone());
        self.leave(drop, Departure::Duplicate, Some(keep.id.clone()));
        self.carried.plan.report.rem.reinforced += 1;
        let (before, after) = (vec![self.shown(drop)], vec![self.shown(keep)]);
        self.joined(Relation::Duplicate.as_str(), before, after, "a person says they are the same");
        Outcome::Done(format!("“{}” stays", keep.text))
    }

    fn joined(
        &mut self,
        relation: &str,
        before: Vec<crate::report::Shown>,
        after: Vec<crate::report::Shown>,
        reason: &str,
    ) {
        let (relation, reason) = (relation.to_owned(), reason.to_owned());
        // Nobody measured it: a person decided.
        let similarity = 1.0;
        self.carried.plan.report.joined.push(Joined {
            relation,
            before,
            after,
            similarity,
            reason,
            prompt: None,
            recaptured: false,
        });
    }

    pub(super) fn keep(&mut self, item: &ReviewItem, answer: Answer) -> Outcome {
        review::settle_as(&mut self.carried.plan, item, answer, self.night, self.journal);
        Outcome::Done(match answer {
            Answer::RawOnly => "kept as raw text".into(),
            _ => "both stay, and no model is asked about them again".into(),
        })
    }

    /// A draft becomes a memory, unless one says it already.
    pub(super) async fn store(&mut self, item: &ReviewItem) -> Result<Outcome, Error> {
        let night = self.night;
        let text = night.privacy.to_store(item.texts.first().map_or("", String::as_str));
        if text.trim().is_empty() || steers_the_agent(&text) {
            review::record(&mut self.carried.plan, item, Fate::RawOnly, night, self.journal);
            return Ok(Outcome::Moot(
                "it is empty or would instruct the agent; its chunks stay raw text".into(),
            ));
        }
        let vector = self.vectors.get(&text).cloned().unwrap_or_default();
        let partition = Partition::of_agent(&item.agent);
        let query = Query { vector: vector.clone(), partition: partition.clone(), exclude: None };
        let duplicate = Similarity(night.thresholds.duplicate);
        let near = night.store.neighbours(&[query], duplicate, 8, &night.config.agent).await?;
        let said_on =
            item.sources.iter().map(|s| s.said_at.with_timezone(&night.config.timezone).date_naive()).max();
        let known = self.known;
        let same = |id: &String| {
            let row = known.rows.get(id)?;
            let said_on = said_on.unwrap_or(night.today);
            says_the_same(&text, said_on, &row.text, known.said_on(id)).then_some(row)
        };
        if let Some(row) = near.iter().flatten().find_map(|neighbour| same(&neighbour.id)) {
            return Ok(self.reinforce(item, row));
        }
        let draft = item.draft.as_ref();
        let memory = Memory {
            id: id_of_new(&night.run, &item.agent, &text),
            text: text.clone(),
            importance: Importance::new(draft.map_or(0.5, |draft| draft.importance)).get(),
            category: draft.map_or(crate::memory::Category::Other, |draft| draft.category),
            created_at: night.now.timestamp_millis(),
            partition,
        };
        let mut trace = Trace {
            said_at: item.sources.iter().map(|source| source.said_at).max(),
            sources: item.sources.clone(),
            // The next night compares it with everything.
            reconciled: Reconciled::Waiting,
            ..Trace::of_row(&memory, night.today, night.embedder.model(), night.run.as_str())
        };
        if let Some(draft) = draft {
            (trace.entities, trace.tags) = (draft.entities.clone(), draft.tags.clone());
            (trace.about, trace.emotion) = (draft.about, draft.emotion);
        }
        trace.about = trace.about.max(crate::detail::details(&text, said_on).latest_date());
        self.carried.plan.traces.push(trace);
        self.carried.plan.inserts.push(NewRow { memory, vector, inherit: Inherit::Nothing, only_if: vec![] });
        review::record(&mut self.carried.plan, item, Fate::Stored, night, self.journal);
        Ok(Outcome::Done("it is remembered".into()))
    }

    fn reinforce(&mut self, item: &ReviewItem, row: &Memory) -> Outcome {
        if !self.reserve(&[row]) {
            return Outcome::Waits(TAKEN.into());
        }
        let mut trace = self.trace_of(row);
        for source in &item.sources {
            if !trace.sources.contains(source) {
                trace.sources.push(source.clone());
            }
        }
        self.carried.plan.traces.push(trace);
        review::record(&mut self.carried.plan, item, Fate::Reinforced, self.night, self.journal);
        Outcome::Done(format!("known already as “{}”", row.text))
    }
}

/// What is known of a memory goes over to the one that carries its content.
fn take_over(trace: &mut Trace, part: Trace, text: &str) {
    trace.stability = trace.stability.max(part.stability);
    trace.emotion = trace.emotion.max(part.emotion);
    trace.about = trace.about.max(part.about);
    trace.recalled.extend(part.recalled);
    trace.reinforced.extend(part.reinforced);
    for source in part.sources {
        if !trace.sources.contains(&source) {
            trace.sources.push(source);
        }
    }
    for entity in part.entities.into_iter().filter(|entity| text.contains(entity.as_str())) {
        if !trace.entities.contains(&entity) {
            trace.entities.push(entity);
        }
    }
}
