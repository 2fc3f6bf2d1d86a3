//! Undo boxes: what a night merged or let fade comes back. The archive knows what it did; where it, or the memory, is no
//! longer as that night left it, nothing is done and that is told.

use std::collections::BTreeSet;

use super::{Outcome, Work};
use crate::memory::{Archived, Departure, Memory, Reconciled, Trace, text_digest};
use crate::queues::Order;
use crate::remembered::Remembered;
use crate::state::journal::JudgedPair;
use crate::store::{Inherit, NewRow};

/// Ids of the archived rows that undo boxes ask for.
pub(super) fn coming_back(orders: &[Order], known: &Remembered) -> Vec<String> {
    let wanted = orders.iter().filter_map(|order| order.undo.as_ref());
    let ids: BTreeSet<String> = wanted
        .flat_map(|(run, memory)| {
            let own = known.archived.get(memory).into_iter();
            own.chain(parts(run, memory, known)).map(|archived| archived.memory.id.clone())
        })
        .collect();
    ids.into_iter().collect()
}

/// What a run merged into a memory.
fn parts<'a>(run: &'a str, memory: &'a str, known: &'a Remembered) -> impl Iterator<Item = &'a Archived> {
    let mut parts: Vec<&Archived> = known
        .archived
        .values()
        .filter(|archived| {
            archived.run == run
                && archived.reason == Departure::Superseded
                && archived.successor.as_deref() == Some(memory)
        })
        .collect();
    parts.sort_by_key(|archived| (known.said_at(&archived.memory.id), archived.memory.id.clone()));
    parts.into_iter()
}

/// How a memory's importance starts again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// As it left: a merge did not make it less.
    AsItLeft,
    /// As before it faded, else it would fade again the next night.
    AsBeforeFading,
}

impl<'a> Work<'a> {
    pub(super) fn undo(&mut self, run: &str, memory: &str) -> Outcome {
        match self.known.archived.get(memory) {
            Some(archived) if archived.run == run => self.bring_back(archived),
            _ => self.unmerge(run, memory),
        }
    }

    /// A memory that faded, or left as a duplicate.
    fn bring_back(&mut self, archived: &Archived) -> Outcome {
        let id = &archived.memory.id;
        if self.known.rows.contains_key(id) {
            return Outcome::Moot("it is among the living already".into());
        }
        if let Some(problem) = self.unusable(archived) {
            return problem;
        }
        self.insert_again(archived, Worth::AsBeforeFading);
        // Not settled as the same again: the person wants both.
        let successor = archived.successor.as_ref().and_then(|id| self.known.rows.get(id));
        self.carried.plan.judged.extend(
            successor
                .map(|kept| JudgedPair::of(&text_digest(&kept.text), &text_digest(&archived.memory.text))),
        );
        Outcome::Done(format!("“{}” is back", archived.memory.text))
    }

    /// A merge: what it was written from comes back, and it goes.
    fn unmerge(&mut self, run: &str, memory: &str) -> Outcome {
        let parts: Vec<&Archived> = parts(run, memory, self.known).collect();
        let Some(merged) = self.known.rows.get(memory) else {
            return Outcome::Moot(
                "it is no longer among the living, so there is nothing to take apart".into(),
            );
        };
        if parts.is_empty() {
            return Outcome::Moot("what that run merged into it is no longer in the archive".into());
        }
        let Some(trace) =
            self.known.traces.get(memory).filter(|trace| trace.digest == text_digest(&merged.text))
        else {
            return Outcome::Moot("it was edited since".into());
        };
        if trace.pinned {
            return Outcome::Waits("it is pinned".into());
        }
        let mut problems = parts.iter().filter_map(|part| {
            let lives = self.known.rows.contains_key(&part.memory.id);
            lives
                .then(|| Outcome::Moot("a part of it is among the living already".into()))
                .or_else(|| self.unusable(part))
        });
        if let Some(problem) = problems.next() {
            return problem;
        }
        drop(problems);
        let gone = self.siblings(merged, trace);
        if !self.reserve(&gone) {
            return Outcome::Waits("another decision about it is carried out tonight".into());
        }
        for part in &parts {
            self.insert_again(part, Worth::AsItLeft);
        }
        for row in gone {
            self.leave(row, Departure::Superseded, Some(parts[0].memory.id.clone()));
        }
        let digests: Vec<String> = parts.iter().map(|part| text_digest(&part.memory.text)).collect();
        for (place, one) in digests.iter().enumerate() {
            self.carried.plan.judged.extend(digests[..place].iter().map(|other| JudgedPair::of(one, other)));
        }
        let texts: Vec<String> = parts.iter().map(|part| format!("“{}”", part.memory.text)).collect();
        Outcome::Done(format!("{} are back in its place, and are not merged again", texts.join(" and ")))
    }

    /// The merge, and the second one where it was written as two.
    fn siblings(&self, merged: &Memory, trace: &Trace) -> Vec<&'a Memory> {
        let known = self.known;
        let is_sibling = |row: &&Memory| {
            row.id == merged.id
                || known.traces.get(&row.id).is_some_and(|other| {
                    !other.merged_from.is_empty()
                        && other.merged_from == trace.merged_from
                        && other.digest == text_digest(&row.text)
                        && !other.pinned
                })
        };
        known.rows.values().filter(is_sibling).collect()
    }

    fn unusable(&self, archived: &Archived) -> Option<Outcome> {
        let vector = self.archived_vectors.get(&archived.memory.id);
        let fits = vector.is_some_and(|vector| vector.len() == self.night.store.dim());
        (!fits).then(|| Outcome::Moot("its copy in the archive has no vector of this table's length".into()))
    }

    fn insert_again(&mut self, archived: &Archived, worth: Worth) {
        let id = archived.memory.id.clone();
        if self.carried.plan.unarchive.contains(&id) {
            return;
        }
        let Some(vector) = self.archived_vectors.get(&id).cloned() else { return };
        let (today, run) = (self.night.today, self.night.run.as_str());
        let old = self.known.traces.get(&id).cloned();
        let old =
            old.unwrap_or_else(|| Trace::of_row(&archived.memory, today, self.night.embedder.model(), run));
        let base = match worth {
            Worth::AsItLeft => archived.memory.importance,
            Worth::AsBeforeFading => old.base.max(archived.memory.importance),
        };
        self.carried.plan.traces.push(Trace {
            digest: text_digest(&archived.memory.text),
            base,
            written: base,
            clock: today,
            reconciled: Reconciled::Done,
            run: run.to_owned(),
            ..old
        });
        let memory = Memory { importance: base, ..archived.memory.clone() };
        let inherit = Inherit::Archived(id.clone());
        self.carried.plan.inserts.push(NewRow { memory, vector, inherit, only_if: vec![] });
        self.carried.plan.unarchive.push(id);
    }
}
