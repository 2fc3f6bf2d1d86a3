//! The inverse of a run: from its plan and before-images, and from what is there now, the plan that takes it back. Pure.
//!
//! What the run removed comes back as it was; what it brought goes; importance and traces become what they were.
//! Where the gateway, a person or a later run was there since, the row is left as it is and listed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};

use super::apart::pairs_kept_apart;
use super::world::World;
use crate::memory::{Archived, Departure, Trace, text_digest};
use crate::plan::{DreamPlan, FORMAT, ImportanceChange, Purpose, PutBack, RunId};
use crate::report::{DreamReport, Importance, LeftAlone, Row, Status, Undone};
use crate::store::{Images, Leaving, StoredTrace};

/// Differences below this come from writing a number to a plan and reading it back.
const SAME_NUMBER: f64 = 1e-9;

const DELETED: &str = "it had been deleted or forgotten since and does not come back";
const EDITED: &str = "it was edited since and stays";
const OTHER_IMPORTANCE: &str = "it was given another importance since and keeps it";

/// The plan that takes `of` back. `run` is its id, `now` its time.
pub(crate) fn inverse(
    of: &DreamPlan,
    images: &Images,
    world: &World,
    run: RunId,
    now: DateTime<Utc>,
) -> DreamPlan {
    let mut inverting = Inverting {
        of,
        images,
        world,
        run,
        now,
        plan: DreamPlan::default(),
        undone: Undone::default(),
        coming: BTreeSet::new(),
        going: BTreeSet::new(),
    };
    inverting.bring_back();
    inverting.take_out();
    inverting.importance();
    inverting.traces();
    inverting.finish()
}

/// What the run left a trace as.
enum Expected<'a> {
    Trace(&'a Trace),
    Stored(&'a StoredTrace),
    None,
}

struct Inverting<'a> {
    of: &'a DreamPlan,
    images: &'a Images,
    world: &'a World,
    run: RunId,
    now: DateTime<Utc>,
    plan: DreamPlan,
    undone: Undone,
    coming: BTreeSet<String>,
    going: BTreeSet<String>,
}

impl Inverting<'_> {
    fn leave_alone(&mut self, id: &str, text: &str, why: impl Into<String>) {
        // The first reason is the best one: importance and text of a row may both have changed.
        if !self.undone.left.iter().any(|left| left.id == id) {
            self.undone.left.push(LeftAlone { id: id.into(), text: text.into(), why: why.into() });
        }
    }

    /// The rows the run brought go: to the archive as undone, or as the copies they were before it took them out.
    fn take_out(&mut self) {
        let inserted = self.of.inserts.iter();
        let inserted = inserted.map(|row| (&row.memory.id, &row.memory.text, Some(row.memory.importance)));
        let put_back = self.of.put_back.iter().map(|row| (&row.id, &row.text, None));
        let taken_out: HashSet<&String> = self.of.unarchive.iter().collect();
        for (id, text, importance) in inserted.chain(put_back) {
            let copy = self.images.archived.get(id).filter(|_| taken_out.contains(id));
            let Some(row) = self.world.rows.get(id) else {
                self.not_there(id, text, copy.map(|copy| copy.run.as_str()));
                continue;
            };
            let as_brought = importance.or(copy.map(|copy| copy.memory.importance));
            if row.text != *text {
                self.leave_alone(id, &row.text, EDITED);
            } else if taken_out.contains(id) && copy.is_none() {
                self.leave_alone(id, text, "the copy it had in the archive is not in the snapshot");
            } else if as_brought.is_some_and(|value| !same(value, row.importance)) {
                self.leave_alone(id, text, OTHER_IMPORTANCE);
            } else if copy.is_some_and(|copy| !self.is_carried(copy)) {
                self.leave_alone(id, text, "what carried its content was edited or deleted since");
            } else {
                self.going.insert(id.clone());
                self.undone.gone.push(Row { id: id.clone(), text: text.clone() });
                match copy {
                    Some(_) => self.plan.rearchive.push(self.image(id, text)),
                    None => self.plan.leaving.push(self.leaving(id, text)),
                }
            }
        }
    }

    /// Whether what a copy in the archive says is carried on as when it left: by a row that comes back, or by a live one
    /// that says what it said. One that carried it and faded since is in the archive itself.
    fn is_carried(&self, copy: &Archived) -> bool {
        let mut next = copy.successor.as_ref();
        // A chain is as long as the archive at most; a loop would be a corrupted archive.
        for _ in 0..=self.world.archived.len() {
            let Some(successor) = next.filter(|id| !self.coming.contains(*id)) else { return true };
            if let Some(row) = self.world.rows.get(successor) {
                let traces = [self.images.traces.get(successor), self.world.traces.get(successor)];
                let known = traces.into_iter().flatten().next();
                return known.is_none_or(|trace| trace.digest == text_digest(&row.text));
            }
            let Some(archived) = self.world.archived.get(successor) else { return false };
            next = archived.successor.as_ref();
        }
        true
    }

    /// A row the run was to bring is not live.
    fn not_there(&mut self, id: &str, text: &str, copied_by: Option<&str>) {
        match self.world.archived.get(id) {
            // It never came: its copy in the archive is still the one from before.
            Some(there) if Some(there.run.as_str()) == copied_by => {}
            Some(there) => self.leave_alone(id, text, left_again(&there.run)),
            // A row that was never inserted has no trace, either.
            None if self.world.traces.contains_key(id) => self.leave_alone(id, text, DELETED),
            None => {}
        }
    }

    fn image(&self, id: &str, text: &str) -> PutBack {
        PutBack { id: id.to_owned(), text: text.to_owned(), run: self.of.run.clone() }
    }

    fn leaving(&self, id: &str, text: &str) -> Leaving {
        Leaving {
            id: id.to_owned(),
            text: text.to_owned(),
            reason: Departure::Undone,
            successor: None,
            run: self.run.as_str().to_owned(),
            at: self.now.timestamp_millis(),
        }
    }

    /// The rows the run removed come back, unless somebody removed their copies, or they left again.
    fn bring_back(&mut self) {
        let by_us = self.of.leaving.iter().map(|row| (&row.id, &row.text, Some(row.run.as_str())));
        let again = self.of.rearchive.iter().map(|row| (&row.id, &row.text, None));
        for (id, text, run) in by_us.chain(again) {
            if self.world.rows.contains_key(id) {
                continue;
            }
            match self.world.archived.get(id) {
                None => self.leave_alone(id, text, DELETED),
                Some(copy) if run.is_some_and(|run| copy.run != run) => {
                    self.leave_alone(id, text, left_again(&copy.run));
                }
                Some(_) if !self.images.rows.contains_key(&(id.clone(), text.clone())) => {
                    self.leave_alone(id, text, "it is not in the snapshot; `dreamer restore` brings it back");
                }
                Some(_) => {
                    self.coming.insert(id.clone());
                    self.plan.put_back.push(self.image(id, text));
                    self.plan.unarchive.push(id.clone());
                    self.undone.back.push(Row { id: id.clone(), text: text.clone() });
                }
            }
        }
    }

    fn importance(&mut self) {
        let of = self.of;
        for change in &of.importance {
            let (id, text) = (&change.id, &change.text);
            if self.going.contains(id) {
                continue;
            }
            let Some(row) = self.world.rows.get(id) else {
                if !self.world.holds(id) {
                    self.leave_alone(id, text, DELETED);
                }
                continue;
            };
            if row.text != *text {
                self.leave_alone(id, &row.text, EDITED);
            } else if same(row.importance, change.to) {
                let (from, to) = (row.importance, change.from);
                let (id, text) = (id.clone(), text.clone());
                self.undone.importance.push(Importance { id: id.clone(), text: text.clone(), from, to });
                self.plan.importance.push(ImportanceChange { id, text, from, to });
            } else if !same(row.importance, change.from) {
                self.leave_alone(id, text, OTHER_IMPORTANCE);
            }
        }
    }

    /// Traces become what they were. That of a memory somebody deleted stays: it is how the next night knows.
    fn traces(&mut self) {
        let mut expected: BTreeMap<&String, Expected<'_>> = BTreeMap::new();
        expected.extend(self.of.traces.iter().map(|trace| (&trace.id, Expected::Trace(trace))));
        expected.extend(self.of.traces_back.iter().map(|trace| (&trace.id, Expected::Stored(trace))));
        expected.extend(self.of.drop_traces.iter().map(|id| (id, Expected::None)));
        for (id, expected) in expected {
            let comes = self.coming.contains(id);
            let goes = self.going.contains(id);
            let live = comes || self.world.rows.contains_key(id) && !goes;
            let archived = goes || self.world.archived.contains_key(id) && !comes;
            if live || archived {
                self.trace(id, &expected, live);
            }
        }
        self.undone.traces =
            self.plan.traces.len() + self.plan.traces_back.len() + self.plan.drop_traces.len();
    }

    fn trace(&mut self, id: &String, expected: &Expected<'_>, live: bool) {
        let (current, before) = (self.world.traces.get(id), self.images.traces.get(id));
        if current == before {
            return;
        }
        match (before, pinned_since(expected, current)) {
            (Some(before), Change::None) => self.plan.traces_back.push(before.clone()),
            // An archived memory keeps its trace: it says where the memory comes from.
            (None, Change::None) if live => self.plan.drop_traces.push(id.clone()),
            (None, Change::None) => {}
            (Some(before), Change::Pinned(pinned)) => match before.read() {
                Some(trace) => self.plan.traces.push(Trace { pinned, ..trace }),
                None => self.undone.traces_left += 1,
            },
            (None, Change::Pinned(_)) | (_, Change::Other) => self.undone.traces_left += 1,
        }
    }

    fn finish(self) -> DreamPlan {
        let Self { of, world, run, now, mut plan, mut undone, coming, going, .. } = self;
        plan.judged = pairs_kept_apart(of, world, &coming);
        undone.kept_apart = plan.judged.len();
        undone.what = format!("The {} {} is taken back", what_it_was(&of.purpose), of.run);
        undone.notes = notes(of, &undone);
        let before = world.rows.len();
        let report = DreamReport {
            run: run.as_str().to_owned(),
            status: Status::Done,
            started: now,
            mode: format!("rollback of {}", of.run),
            live: (before, before + coming.len() - going.len()),
            undone: Some(undone),
            ..DreamReport::default()
        };
        let purpose = Purpose::Rollback { of: of.run.clone() };
        DreamPlan { format: FORMAT, run, purpose, planned_at: now, home: of.home.clone(), report, ..plan }
    }
}

/// What a run was, for a sentence.
pub(crate) fn what_it_was(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Night => "night".to_owned(),
        Purpose::Rollback { of } => format!("rollback of {of}, run"),
        Purpose::Unmerge { id } => format!("unmerge of {id}, run"),
    }
}

fn left_again(run: &str) -> String {
    format!("it left again in run {run}, which is not taken back here")
}

fn notes(of: &DreamPlan, undone: &Undone) -> Vec<String> {
    let mut notes = Vec::new();
    let faded: HashSet<&String> =
        of.leaving.iter().filter(|row| row.reason == Departure::Faded).map(|row| &row.id).collect();
    let faded = undone.back.iter().filter(|row| faded.contains(&row.id)).count();
    if faded > 0 {
        notes.push(format!(
            "{faded} of them had faded and will fade again: `dreamer restore` instead lets forgetting start anew"
        ));
    }
    if undone.traces_left > 0 {
        notes.push(format!("{} traces were changed since and stay as they are", undone.traces_left));
    }
    if !of.journal.is_empty() {
        notes.push(
            "its episodes are not learned again by themselves: `dreamer redream FILE` takes one up again"
                .into(),
        );
    }
    notes
}

fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < SAME_NUMBER
}

/// How a trace differs from what the run left.
enum Change {
    None,
    Pinned(bool),
    Other,
}

fn pinned_since(expected: &Expected<'_>, current: Option<&StoredTrace>) -> Change {
    let expected = match (expected, current) {
        (Expected::None, None) => return Change::None,
        (Expected::Stored(stored), Some(current)) if **stored == *current => return Change::None,
        (Expected::None, Some(_)) | (_, None) => return Change::Other,
        (Expected::Stored(stored), _) => stored.read(),
        (Expected::Trace(trace), _) => Some((*trace).clone()),
    };
    let (Some(expected), Some(current)) = (expected, current.and_then(StoredTrace::read)) else {
        return Change::Other;
    };
    // Whose vectors they are changes with the whole table.
    let current = Trace { model: expected.model.clone(), ..current };
    if same_trace(&expected, &current) {
        return Change::None;
    }
    let pinned = current.pinned;
    let unpinned = Trace { pinned: expected.pinned, run: expected.run.clone(), ..current };
    if same_trace(&expected, &unpinned) { Change::Pinned(pinned) } else { Change::Other }
}

/// Whether two traces are the same but for the last bits of their numbers, which a plan does not keep.
fn same_trace(one: &Trace, other: &Trace) -> bool {
    let numbers = |t: &Trace| [t.base, t.written, t.stability, t.emotion];
    let close = numbers(one).iter().zip(numbers(other)).all(|(a, b)| same(*a, b));
    let (base, written, stability, emotion) = (one.base, one.written, one.stability, one.emotion);
    close && *one == Trace { base, written, stability, emotion, ..other.clone() }
}
