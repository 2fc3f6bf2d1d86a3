//! The audit events of a plan that was executed: one a change, none for what did not happen after all, and one for the
//! run. Pure; the file is `state::audit`'s.

use std::collections::{BTreeMap, HashSet};

use super::apply::Applied;
use super::{DreamPlan, Purpose};
use crate::memory::Departure;
use crate::report::{Joined, RemCounts, Shown, Strengthened};
use crate::state::audit::{Event, Kind, LISTED, Subject, Totals, list_digest};

/// Who judged where no model was asked.
const RULES: &str = "rules";

/// The events of a plan, in the order of its report; the run itself comes last.
pub fn events(plan: &DreamPlan, applied: &Applied) -> Vec<Event> {
    let mut telling = Telling { plan, applied, events: Vec::new(), told: HashSet::new() };
    telling.tell_created();
    telling.tell_drafted();
    telling.tell_said_again();
    plan.report.joined.iter().for_each(|joined| telling.tell_joined(joined));
    telling.tell_faded();
    telling.tell_the_rest();
    telling.tell_importance();
    telling.tell_first_seen();
    telling.tell_run();
    telling.events
}

struct Telling<'a> {
    plan: &'a DreamPlan,
    applied: &'a Applied,
    events: Vec<Event>,
    /// Rows that came or left and whose event is there.
    told: HashSet<&'a str>,
}

impl<'a> Telling<'a> {
    fn event(&self, kind: Kind) -> Event {
        Event::new(self.plan.run.as_str(), self.plan.planned_at, kind)
    }

    fn is_in(&self, id: &str) -> bool {
        !self.applied.dropped.contains(id)
    }

    fn is_out(&self, id: &str) -> bool {
        self.applied.archived.contains(id)
    }

    /// The language model, where one was asked.
    fn asked(&self, prompt: &Option<String>) -> Option<String> {
        let language = &self.plan.report.cost.language;
        Some(if prompt.is_some() { language.clone() } else { RULES.to_owned() })
    }

    fn tell_created(&mut self) {
        let (plan, applied) = (self.plan, self.applied);
        for new in plan.report.created.iter().filter(|new| !applied.dropped.contains(&new.memory.id)) {
            self.told.insert(&new.memory.id);
            self.events.push(Event {
                worded_by: Some(new.worded_by.clone()),
                model: self.asked(&new.prompt),
                prompt: new.prompt.clone(),
                importance: Some(new.memory.importance),
                ..about(self.event(Kind::Created), &[], std::slice::from_ref(&new.memory))
            });
        }
    }

    fn tell_drafted(&mut self) {
        let (plan, applied) = (self.plan, self.applied);
        for draft in plan.merged_drafts.iter().filter(|d| applied.archived.contains(&d.row.memory.id)) {
            let memory = &draft.row.memory;
            let trace = plan.traces.iter().find(|trace| trace.id == memory.id);
            let places = trace.into_iter().flat_map(|trace| &trace.sources);
            self.events.push(Event {
                agent: memory.partition.agent.clone(),
                after: vec![Subject::of(&memory.id, &memory.text)],
                importance: Some(memory.importance),
                worded_by: Some(draft.worded_by.clone()).filter(|word| !word.is_empty()),
                model: self.asked(&draft.prompt),
                prompt: draft.prompt.clone(),
                sources: places.map(|source| lines_of(&source.episode, source.lines)).collect(),
                ..self.event(Kind::Drafted)
            });
        }
    }

    fn tell_said_again(&mut self) {
        let (plan, applied) = (self.plan, self.applied);
        let said = |again: &&Strengthened| !applied.dropped.contains(&again.memory.id);
        for again in plan.report.strengthened.iter().filter(said) {
            self.told.extend(again.revived.then_some(again.memory.id.as_str()));
            self.events.push(self.said_again(again));
        }
    }

    fn tell_faded(&mut self) {
        let (plan, applied) = (self.plan, self.applied);
        for faded in plan.report.faded.iter().filter(|f| applied.archived.contains(&f.memory.id)) {
            self.told.insert(&faded.memory.id);
            self.events.push(Event {
                importance: Some(faded.importance),
                ..about(self.event(Kind::Faded), std::slice::from_ref(&faded.memory), &[])
            });
        }
    }

    fn said_again(&self, again: &Strengthened) -> Event {
        let kind = if again.revived { Kind::Revived } else { Kind::Reinforced };
        Event {
            similarity: Some(again.similarity),
            model: self.asked(&again.prompt),
            prompt: again.prompt.clone(),
            sources: again.sources.iter().map(|place| without_speaker(place)).collect(),
            ..about(self.event(kind), &[], std::slice::from_ref(&again.memory))
        }
    }

    /// A merge counts if its successors are there, a duplicate if it left.
    fn tell_joined(&mut self, joined: &'a Joined) {
        let kind = match joined.relation.as_str() {
            _ if joined.recaptured => Kind::Recaptured,
            "duplicate" => Kind::Duplicate,
            "different_aspects" => Kind::Consolidated,
            _ => Kind::Merged,
        };
        let happened = match kind {
            Kind::Recaptured | Kind::Duplicate => joined.before.iter().any(|shown| self.is_out(&shown.id)),
            _ => joined.after.iter().all(|shown| self.is_in(&shown.id)),
        };
        if !happened {
            return;
        }
        self.told.extend(joined.before.iter().chain(&joined.after).map(|shown| shown.id.as_str()));
        self.events.push(Event {
            similarity: Some(joined.similarity),
            relation: Some(joined.relation.clone()),
            model: self.asked(&joined.prompt),
            prompt: joined.prompt.clone(),
            ..about(self.event(kind), &joined.before, &joined.after)
        });
    }

    /// Rows that came or left and that the report says nothing of, as it is where the run is no night.
    fn tell_the_rest(&mut self) {
        for row in self.plan.inserts.iter().map(|row| &row.memory) {
            if self.is_in(&row.id) && self.told.insert(&row.id) {
                let kind = self.kind_of_the_rest(Kind::Created);
                let after = vec![Subject::of(&row.id, &row.text)];
                let event = Event { agent: row.partition.agent.clone(), after, ..self.event(kind) };
                self.events.push(Event { of: self.of(), importance: Some(row.importance), ..event });
            }
        }
        for leaving in &self.plan.leaving {
            if self.is_out(&leaving.id) && self.told.insert(&leaving.id) {
                let kind = match leaving.reason {
                    Departure::Duplicate => Kind::Duplicate,
                    Departure::Superseded => Kind::Merged,
                    Departure::Forgotten => Kind::Forgotten,
                    _ => Kind::Faded,
                };
                let kind = self.kind_of_the_rest(kind);
                let before = vec![Subject::of(&leaving.id, &leaving.text)];
                self.events.push(Event { before, of: self.of(), ..self.event(kind) });
            }
        }
    }

    fn kind_of_the_rest(&self, of_a_night: Kind) -> Kind {
        match self.plan.purpose {
            Purpose::Night => of_a_night,
            Purpose::Rollback { .. } => Kind::RolledBack,
            Purpose::Unmerge { .. } => Kind::Unmerged,
        }
    }

    fn of(&self) -> Option<String> {
        match &self.plan.purpose {
            Purpose::Night => None,
            Purpose::Rollback { of } => Some(of.as_str().to_owned()),
            Purpose::Unmerge { id } => Some(id.clone()),
        }
    }

    /// Importance that went down is counted; what rose without being said again was recalled.
    fn tell_importance(&mut self) {
        let changed: Vec<_> = {
            let kept = &self.applied.kept_importance;
            self.plan.importance.iter().filter(|change| !kept.contains(&change.id)).collect()
        };
        let line = |change: &&super::ImportanceChange| format!("{} {} {}", change.id, change.from, change.to);
        if self.plan.purpose != Purpose::Night {
            if !changed.is_empty() {
                let kind = self.kind_of_the_rest(Kind::Decayed);
                let event = Event { count: Some(changed.len()), of: self.of(), ..self.event(kind) };
                let list = Some(list_digest(changed.iter().map(line).collect()));
                self.events.push(Event { list, ..event });
            }
            return;
        }
        let (down, up): (Vec<_>, Vec<_>) = changed.into_iter().partition(|change| change.to < change.from);
        let explained: HashSet<String> = {
            let weak = |kind: &Kind| matches!(kind, Kind::Created | Kind::Drafted | Kind::Recaptured);
            let strong = self.events.iter().filter(|event| !weak(&event.kind));
            strong.flat_map(|event| event.after.iter().map(|subject| subject.id.clone())).collect()
        };
        for change in up.into_iter().filter(|change| !explained.contains(&change.id)) {
            let after = vec![Subject::of(&change.id, &change.text)];
            self.events.push(Event { after, importance: Some(change.to), ..self.event(Kind::Recalled) });
        }
        if !down.is_empty() {
            let list = Some(list_digest(down.iter().map(line).collect()));
            self.events.push(Event { count: Some(down.len()), list, ..self.event(Kind::Decayed) });
        }
    }

    fn tell_first_seen(&mut self) {
        // Where nothing is traced, because no model could be asked, the next night sees them first again.
        let traced: HashSet<&str> = self.plan.traces.iter().map(|trace| trace.id.as_str()).collect();
        let seen = self.plan.first_seen.iter().filter(|row| traced.contains(row.id.as_str()));
        let seen: Vec<Subject> = seen.cloned().collect();
        if seen.is_empty() {
            return;
        }
        let list = list_digest(seen.iter().map(|row| format!("{} {}", row.id, row.digest)).collect());
        let event = Event { count: Some(seen.len()), list: Some(list), ..self.event(Kind::FirstSeen) };
        let after = if seen.len() <= LISTED { seen } else { Vec::new() };
        self.events.push(Event { after, ..event });
    }

    fn tell_run(&mut self) {
        let report = &self.plan.report;
        let mut fates: BTreeMap<String, usize> =
            report.fates.iter().map(|(fate, count)| (fate.as_str().to_owned(), *count)).collect();
        for (fate, count) in &self.applied.held_back {
            let before = fates.entry(fate.as_str().to_owned()).or_default();
            *before = before.saturating_sub(*count);
            *fates.entry("held_back".to_owned()).or_default() += count;
        }
        fates.retain(|_, count| *count > 0);
        let cost = report.cost.clone();
        let mode = match &self.plan.purpose {
            Purpose::Night => report.mode.clone(),
            Purpose::Rollback { .. } => "rollback".to_owned(),
            Purpose::Unmerge { .. } => "unmerge".to_owned(),
        };
        let totals = Totals {
            mode,
            outcome: report.status.as_str().to_owned(),
            input: self.plan.input.clone(),
            output: self.output(),
            fates,
            relations: relations(&report.rem),
            embedding: cost.embedding,
            language: cost.language,
            calls: cost.calls,
            input_tokens: cost.input_tokens,
            output_tokens: cost.output_tokens,
        };
        self.events.push(Event { of: self.of(), totals: Some(totals), ..self.event(Kind::Run) });
    }

    /// Digest of what was written: rows that came, rows that left, and importance that changed.
    fn output(&self) -> String {
        let came = self.plan.inserts.iter().map(|row| &row.memory).filter(|row| self.is_in(&row.id));
        let came = came.map(|row| {
            let subject = Subject::of(&row.id, &row.text);
            format!("insert {} {} {}", subject.id, subject.digest, row.importance)
        });
        let left = self.plan.leaving.iter().filter(|leaving| self.is_out(&leaving.id));
        let left = left.map(|leaving| format!("leave {} {}", leaving.id, leaving.reason.as_str()));
        let kept = &self.applied.kept_importance;
        let changed = self.plan.importance.iter().filter(|change| !kept.contains(&change.id));
        let changed = changed.map(|change| format!("importance {} {}", change.id, change.to));
        list_digest(came.chain(left).chain(changed).collect())
    }
}

/// Pairs by what they were to each other.
fn relations(rem: &RemCounts) -> BTreeMap<String, usize> {
    let counts = [
        ("state_change", rem.merged),
        ("different_aspects", rem.consolidated),
        ("duplicate", rem.reinforced),
        ("unrelated", rem.kept_both.saturating_sub(rem.vetoed)),
        ("vetoed", rem.vetoed),
        ("pending_review", rem.pending_review),
    ];
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(word, count)| (word.to_owned(), count)).collect()
}

/// The event with its memories, the agent they belong to and where they were said.
fn about(event: Event, before: &[Shown], after: &[Shown]) -> Event {
    let subjects = |list: &[Shown]| list.iter().map(|shown| Subject::of(&shown.id, &shown.text)).collect();
    let mut sources: Vec<String> = Vec::new();
    for place in if after.is_empty() { before } else { after }.iter().flat_map(|shown| &shown.sources) {
        let place = without_speaker(place);
        if !sources.contains(&place) {
            sources.push(place);
        }
    }
    let agent = after.iter().chain(before).map(|shown| shown.agent.clone()).next().unwrap_or_default();
    Event { agent, before: subjects(before), after: subjects(after), sources, ..event }
}

/// `episode:first-last` of a place as the report shows it, `episode:first-last (speaker)`.
fn without_speaker(place: &str) -> String {
    let lines = place.find(".md:").map_or(0, |at| at + ".md:".len());
    let end = place[lines..].find(' ').map_or(place.len(), |at| lines + at);
    place[..end].to_owned()
}

/// A place in an episode.
pub(crate) fn lines_of(episode: &str, lines: (usize, usize)) -> String {
    match lines {
        (first, last) if first == last => format!("{episode}:{first}"),
        (first, last) => format!("{episode}:{first}-{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_without_the_speaker() {
        for (place, told) in [
            ("2026-03-10.md:7 (user)", "2026-03-10.md:7"),
            ("2026-03-10-a trip (one).md:7-9 (Bob (work) x.md:5)", "2026-03-10-a trip (one).md:7-9"),
            ("odd", "odd"),
        ] {
            assert_eq!(without_speaker(place), told);
        }
    }
}
