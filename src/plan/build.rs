//! Building the plan: what NREM and REM found becomes the exact writes of the night and the report of them. Pure.
//! The traces of the night are worked out in `traces`; fading comes last, on top of everything else.

mod ask;
mod fade;
mod fates;
mod show;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::dream::Night;
use crate::memory::{Departure, Memory, Partition, Reconciled, text_digest};
use crate::nrem::draft::MemoryDraft;
use crate::nrem::select::Material;
use crate::nrem::{Compressed, NewDraft};
use crate::plan::{DreamPlan, FORMAT, MergedDraft, id_of_new, id_of_successor};
use crate::rem::Reconciliation;
use crate::rem::conflict::{Claim, Relation};
use crate::rem::resolution::Resolution;
use crate::remembered::Remembered;
use crate::report::{AgentRead, Created, DreamReport, Joined, Kept, RemCounts, Status, Strengthened};
use crate::state::audit::{Subject, input_digest};
use crate::state::journal::{Fate, Journal};
use crate::store::{Inherit, Leaving, NewRow};

use super::traces::{Recalls, Traces};
use show::{Verdict, place, worded_by};

/// Everything the plan is built from.
pub struct Found<'a> {
    /// What was remembered when the night began.
    pub known: &'a Remembered,
    /// Tonight's chunks and files.
    pub material: &'a Material,
    /// What NREM made of them.
    pub compressed: &'a Compressed,
    /// What REM made of the drafts and rows.
    pub rem: &'a Reconciliation,
    /// Recalls of the last days.
    pub recalls: &'a Recalls,
    /// Vectors of the archived memories that come back.
    pub archived_vectors: &'a HashMap<String, Vec<f32>>,
    /// The chunk journal.
    pub journal: &'a Journal,
    /// What the operator should know besides.
    pub warnings: Vec<String>,
}

/// Builds the plan of a night.
pub fn build(night: &Night<'_>, found: Found<'_>) -> DreamPlan {
    let mut building = Building::new(night, &found);
    building.resolve();
    building.store_drafts();
    building.strengthen();
    building.bring_back();
    building.fade();
    building.finish()
}

/// The plan of a night that may write nothing but what it held back, because no model could be asked.
pub fn build_held_back(night: &Night<'_>, found: Found<'_>) -> DreamPlan {
    let mut building = Building::new(night, &found);
    building.record_fates();
    let live = found.known.rows.len();
    let mut plan = building.plan;
    plan.report.live = (live, live);
    plan.report.rem = RemCounts::default();
    plan.report.status = status_of(&plan);
    plan
}

struct Building<'a> {
    night: &'a Night<'a>,
    found: &'a Found<'a>,
    traces: Traces<'a>,
    plan: DreamPlan,
    fates: BTreeMap<String, (Fate, u32, String)>,
    /// Claims that are no longer what they were: merged, or settled as duplicates.
    consumed: HashSet<usize>,
    /// Rows that leave tonight.
    leaving: BTreeSet<String>,
    /// Rows and drafts that were said again by a draft that is not stored: (id, draft, similarity).
    said_again: Vec<(String, &'a MemoryDraft, f32)>,
}

impl<'a> Building<'a> {
    fn new(night: &'a Night<'a>, found: &'a Found<'a>) -> Self {
        let fates = found
            .compressed
            .fates
            .iter()
            .map(|(digest, fate)| (digest.clone(), (fate.fate, fate.nights, fate.why.clone())))
            .collect();
        let mut traces =
            Traces::new(night, found.known, found.rem, &found.material.active_days, found.recalls);
        let recalled = traces.take_in_recalls(found.recalls);
        let mut plan = empty_plan(night, found);
        plan.report.rem.recalled = recalled;
        plan.recalls.clone_from(&found.recalls.events);
        Self {
            night,
            found,
            traces,
            plan,
            fates,
            consumed: HashSet::new(),
            leaving: BTreeSet::new(),
            said_again: Vec::new(),
        }
    }

    fn claim(&self, index: usize) -> &'a Claim {
        &self.found.rem.claims[index]
    }

    fn draft(&self, index: usize) -> Option<&'a NewDraft> {
        self.found.compressed.drafts.get(index)
    }

    fn leave(&mut self, id: &str, reason: Departure, successor: Option<String>) {
        let Some(row) = self.found.known.rows.get(id) else { return };
        self.leaving.insert(id.to_owned());
        if let Some(carrier) = successor.as_ref().and_then(|id| self.found.known.rows.get(id)) {
            self.plan.carriers.insert(carrier.id.clone(), carrier.text.clone());
        }
        self.plan.leaving.push(self.leaving_of(id, &row.text, reason, successor));
    }

    fn leaving_of(&self, id: &str, text: &str, reason: Departure, successor: Option<String>) -> Leaving {
        Leaving {
            id: id.to_owned(),
            text: text.to_owned(),
            reason,
            successor,
            run: self.night.run.as_str().to_owned(),
            at: self.night.now.timestamp_millis(),
        }
    }

    /// Merges, duplicates, and pairs that stay.
    fn resolve(&mut self) {
        for recaptured in &self.found.rem.recaptured {
            let before = vec![self.shown_row(&recaptured.id)];
            let after = vec![self.shown_row(&recaptured.successor)];
            self.leave(&recaptured.id, Departure::Duplicate, Some(recaptured.successor.clone()));
            let reason = "the gateway captured old words again; they were superseded before".to_owned();
            self.plan.report.rem.reinforced += 1;
            self.plan.report.joined.push(Joined {
                relation: "duplicate".into(),
                before,
                after,
                similarity: 1.0,
                reason,
                recaptured: true,
                prompt: None,
            });
        }
        let list = &self.found.rem.resolutions.list;
        for resolution in list {
            self.count(resolution);
            match resolution {
                Resolution::Merge { relation, new, old, texts, similarity, reason, prompt } => {
                    self.merge(
                        *relation,
                        *new,
                        *old,
                        texts,
                        Verdict { similarity: similarity.0, reason, prompt },
                    );
                }
                Resolution::Duplicate { keep, drop, similarity, reason, prompt } => {
                    self.settle_duplicate(*keep, *drop, Verdict { similarity: similarity.0, reason, prompt });
                }
                Resolution::KeepBoth { new, old, similarity, reason, veto } => {
                    if let Some(veto) = veto {
                        self.plan.report.kept.push(Kept {
                            new: self.claim(*new).text.clone(),
                            old: self.claim(*old).text.clone(),
                            similarity: similarity.0,
                            reason: reason.clone(),
                            veto: Some(veto.0.clone()),
                        });
                    }
                }
                Resolution::PendingReview { new, old, texts, subjects, reason, .. } => {
                    self.ask_about_a_conflict((*new, *old), texts, subjects, reason);
                }
            }
        }
    }

    fn count(&mut self, resolution: &Resolution) {
        let rem = &mut self.plan.report.rem;
        match resolution {
            Resolution::Merge { relation: Relation::StateChange, .. } => rem.merged += 1,
            Resolution::Merge { .. } => rem.consolidated += 1,
            Resolution::Duplicate { .. } => rem.reinforced += 1,
            Resolution::KeepBoth { veto, .. } => {
                rem.kept_both += 1;
                rem.vetoed += usize::from(veto.is_some());
            }
            Resolution::PendingReview { .. } => rem.pending_review += 1,
        }
        let unrelated = matches!(resolution, Resolution::KeepBoth { veto: None, .. });
        rem.conflicts += usize::from(!unrelated);
    }

    fn merge(&mut self, relation: Relation, new: usize, old: usize, texts: &[String], verdict: Verdict<'_>) {
        self.consumed.extend([new, old]);
        let (one, other) = (self.claim(new), self.claim(old));
        let (newer, older) = if one.said_at >= other.said_at { (one, other) } else { (other, one) };
        let rows: Vec<&Claim> = [newer, older].into_iter().filter(|claim| !claim.is_draft).collect();
        let only_if: Vec<(String, String)> =
            rows.iter().map(|row| (row.id.clone(), row.text.clone())).collect();
        let inherit = rows.first().map_or(Inherit::Nothing, |row| Inherit::Row(row.id.clone()));
        let before = vec![self.shown_claim(older), self.shown_claim(newer)];
        // What was still open for either of them is open for what carries them on.
        let waits = [new, old].iter().any(|index| self.found.rem.resolutions.waiting.contains(index));
        let mut after = Vec::new();
        for text in texts {
            let recalled = rows.iter().filter_map(|row| self.traces.importance_of(&row.id));
            let importance = recalled.fold(one.importance.max(other.importance), f64::max);
            let memory = Memory {
                id: id_of_successor(&self.night.run, &newer.partition.agent, text),
                ..self.new_memory(text, newer.partition.clone(), newer.category, importance)
            };
            let mut trace =
                self.traces.of_successor(&memory, newer, older, &[self.draft(new), self.draft(old)]);
            if waits {
                trace.reconciled = trace.reconciled.max(Reconciled::Open);
            }
            after.push(self.shown(&memory, &trace));
            let vector = self.found.rem.merged_vectors.get(text).cloned().unwrap_or_default();
            self.plan.inserts.push(NewRow {
                memory,
                vector,
                inherit: inherit.clone(),
                only_if: only_if.clone(),
            });
            self.traces.put(trace);
        }
        let successor = after.first().map(|shown| shown.id.clone());
        for index in [new, old] {
            let claim = self.claim(index);
            match self.draft(index) {
                None => self.leave(&claim.id, Departure::Superseded, successor.clone()),
                Some(draft) => self.archive_draft(draft, claim, successor.clone(), &only_if),
            }
        }
        self.plan.report.joined.push(verdict.joined(relation.as_str(), before, after));
    }

    fn archive_draft(
        &mut self,
        draft: &'a NewDraft,
        claim: &Claim,
        successor: Option<String>,
        only_if: &[(String, String)],
    ) {
        let memory = Memory {
            id: claim.id.clone(),
            text: claim.text.clone(),
            importance: claim.importance,
            category: claim.category,
            created_at: self.night.now.timestamp_millis(),
            partition: claim.partition.clone(),
        };
        self.traces.put(self.traces.of_draft(&memory, draft));
        let leaving = self.leaving_of(&claim.id, &claim.text, Departure::Superseded, successor);
        let row = NewRow {
            memory,
            vector: draft.vector.clone(),
            inherit: Inherit::Nothing,
            only_if: only_if.to_vec(),
        };
        let (worded_by, prompt) = (worded_by(draft.draft.origin).to_owned(), draft.draft.prompt.clone());
        self.plan.merged_drafts.push(MergedDraft { row, leaving, worded_by, prompt });
        self.refate(&draft.draft, Fate::Merged, "went into a merge");
    }

    fn settle_duplicate(&mut self, keep: usize, drop: usize, verdict: Verdict<'_>) {
        self.consumed.insert(drop);
        let (kept, dropped) = (self.claim(keep), self.claim(drop));
        let before = vec![self.shown_claim(dropped)];
        let after = vec![self.shown_claim(kept)];
        match self.draft(drop) {
            Some(draft) => {
                self.said_again.push((kept.id.clone(), &draft.draft, verdict.similarity));
                self.refate(&draft.draft, Fate::Reinforced, "known already");
                return;
            }
            None => {
                self.leave(&dropped.id, Departure::Duplicate, Some(kept.id.clone()));
                self.traces.inherit_from_duplicate(&kept.id, &dropped.id);
            }
        }
        self.plan.report.joined.push(verdict.joined("duplicate", before, after));
    }

    /// Drafts that no resolution took become rows.
    fn store_drafts(&mut self) {
        for (index, new) in self.found.compressed.drafts.iter().enumerate() {
            if self.consumed.contains(&index) {
                continue;
            }
            let claim = self.claim(index);
            let memory = Memory {
                id: new.id.clone(),
                ..self.new_memory(&claim.text, claim.partition.clone(), claim.category, claim.importance)
            };
            let mut trace = self.traces.of_draft(&memory, new);
            // A row that an order took out of the night was not compared with: the next one does that.
            let unseen = new.near.iter().any(|near| !self.found.known.rows.contains_key(&near.id));
            if self.found.rem.claims.is_empty() || unseen {
                trace.reconciled = Reconciled::Waiting;
            } else if self.found.rem.resolutions.waiting.contains(&index) {
                trace.reconciled = Reconciled::Open;
            }
            let shown = self.shown(&memory, &trace);
            self.plan.report.created.push(Created {
                memory: shown,
                worded_by: worded_by(new.draft.origin).to_owned(),
                prompt: new.draft.prompt.clone(),
            });
            self.traces.put(trace);
            let (vector, inherit) = (new.vector.clone(), Inherit::Nothing);
            self.plan.inserts.push(NewRow { memory, vector, inherit, only_if: vec![] });
        }
    }

    fn new_memory(
        &self,
        text: &str,
        partition: Partition,
        category: crate::memory::Category,
        importance: f64,
    ) -> Memory {
        Memory {
            id: id_of_new(&self.night.run, &partition.agent, text),
            text: text.to_owned(),
            importance,
            category,
            created_at: self.night.now.timestamp_millis(),
            partition,
        }
    }

    /// Memories said again: by drafts that dedup recognised, and by drafts REM found to be duplicates.
    fn strengthen(&mut self) {
        let by_dedup = self.found.compressed.reinforced.iter();
        let by_dedup: Vec<_> =
            by_dedup.map(|again| (again.id.clone(), &again.draft, again.similarity.0)).collect();
        let by_rem = std::mem::take(&mut self.said_again);
        for (id, draft, similarity) in by_dedup.into_iter().chain(by_rem) {
            // The memory itself may have been merged tonight: its successor was said again.
            let id = self.successor_of(&id);
            let Some(text) = self.text_of(&id) else { continue };
            self.traces.said_again(&id, draft, &text);
            let memory = self.shown_id(&id, &text);
            let (said, sources) = (draft.text.clone(), draft.chunks.iter().map(place).collect());
            self.plan.report.strengthened.push(Strengthened {
                memory,
                said,
                sources,
                similarity,
                revived: false,
                prompt: draft.prompt.clone(),
            });
        }
    }

    fn successor_of(&self, id: &str) -> String {
        let gone = self.plan.leaving.iter().find(|leaving| leaving.id == id);
        gone.and_then(|leaving| leaving.successor.clone()).unwrap_or_else(|| id.to_owned())
    }

    fn text_of(&self, id: &str) -> Option<String> {
        let inserted =
            self.plan.inserts.iter().find(|row| row.memory.id == id).map(|row| row.memory.text.clone());
        inserted.or_else(|| self.found.known.rows.get(id).map(|row| row.text.clone()))
    }

    /// Faded memories that were said again come back: same id, the higher of the draft's importance and the base they had.
    fn bring_back(&mut self) {
        for again in &self.found.compressed.revived {
            let Some(archived) = self.found.known.archived.get(&again.id) else { continue };
            let vector = self.found.archived_vectors.get(&again.id).cloned();
            if self.plan.unarchive.contains(&again.id) {
                self.traces.said_again(&again.id, &again.draft, &archived.memory.text);
                continue;
            }
            let Some(vector) = vector else { continue };
            let trace = self.traces.of_revived(archived, &again.draft);
            let memory = Memory { importance: trace.base, ..archived.memory.clone() };
            let shown = self.shown(&memory, &trace);
            self.traces.put(trace);
            self.plan.unarchive.push(again.id.clone());
            let inherit = Inherit::Archived(again.id.clone());
            self.plan.inserts.push(NewRow { memory, vector, inherit, only_if: vec![] });
            self.plan.report.strengthened.push(Strengthened {
                memory: shown,
                said: again.draft.text.clone(),
                sources: again.draft.chunks.iter().map(place).collect(),
                similarity: again.similarity.0,
                revived: true,
                prompt: again.draft.prompt.clone(),
            });
        }
    }

    fn finish(mut self) -> DreamPlan {
        self.ask_about_drafts();
        self.try_again_later();
        self.keep_raw();
        self.record_fates();
        self.move_episodes();
        self.plan.report.fading = self.traces.not_fading();
        let (traces, ledger) = self.traces.finish();
        self.plan.traces = traces;
        self.plan.ledger = ledger;
        self.plan.lifted = self.found.compressed.lifted.iter().cloned().collect();
        self.plan.report.forgotten.said_again = self.plan.lifted.len();
        self.plan.report.forgotten.skipped = self.found.compressed.skipped;
        self.plan.judged = self.found.rem.resolutions.judged.clone();
        let (before, gone) = (self.found.known.rows.len(), self.plan.leaving.len());
        self.plan.report.live = (before, before - gone + self.plan.inserts.len());
        self.plan.report.status = status_of(&self.plan);
        self.plan
    }
}

fn empty_plan(night: &Night<'_>, found: &Found<'_>) -> DreamPlan {
    let (material, compressed, rem) = (found.material, found.compressed, found.rem);
    let mut report = DreamReport {
        run: night.run.as_str().to_owned(),
        started: night.now,
        mode: night.mode.as_str().to_owned(),
        episodes: material.episodes.iter().map(|(_, name)| name.clone()).collect(),
        agents: read_of_agents(found),
        chunks: material.chunks.len(),
        held_back_before: material.held_back_before,
        clusters: compressed.clusters,
        rem: RemCounts { candidates: rem.candidates, ..RemCounts::default() },
        settled_by_rules: rem.settled_by_rules + rem.recaptured.len(),
        warnings: found.warnings.clone(),
        failure: compressed.failed.clone().or_else(|| rem.failed.clone()),
        limit: compressed.exhausted.clone().or_else(|| rem.exhausted.clone()),
        ..DreamReport::default()
    };
    let rows = found.known.rows.values();
    let new = rows.clone().filter(|row| !found.known.traces.contains_key(&row.id));
    let first_seen: Vec<Subject> = new.map(|row| Subject::of(&row.id, &row.text)).collect();
    report.first_seen = first_seen.len();
    report.waiting.rows = rem.waiting.len();
    report.waiting.merging = rem.resolutions.over_budget;
    report.waiting.days = material.days_waiting.len();
    report.waiting.unreadable = rem.unreadable;
    report.waiting.conflicts = rem.resolutions.waiting.len();
    DreamPlan {
        format: FORMAT,
        run: night.run.clone(),
        planned_at: night.now,
        home: night.config.home.clone(),
        input: input_digest(
            material.chunks.iter().map(|chunk| chunk.digest.clone()),
            rows.map(|row| text_digest(&row.text)),
        ),
        first_seen,
        only_agent: night.config.only_agent.clone(),
        agents: night.config.agents.iter().map(|agent| agent.id.clone()).collect(),
        report,
        ..DreamPlan::default()
    }
}

fn read_of_agents(found: &Found<'_>) -> BTreeMap<String, AgentRead> {
    let mut agents: BTreeMap<String, AgentRead> = BTreeMap::new();
    for row in found.known.rows.values() {
        agents.entry(row.partition.agent.clone()).or_default().memories += 1;
    }
    for (agent, _) in &found.material.episodes {
        agents.entry(agent.clone()).or_default().episodes += 1;
    }
    for chunk in &found.material.chunks {
        agents.entry(chunk.agent.clone()).or_default().chunks += 1;
    }
    agents
}

/// Says how the night ends once everything is in its plan: carrying out what a person decided is no quiet night.
pub fn tell_status(plan: &mut DreamPlan) {
    plan.report.status = status_of(plan);
    let moved = !(plan.decided.is_empty() && plan.review.is_empty());
    if plan.report.status == Status::NothingNew && moved {
        plan.report.status = Status::Done;
    }
}

/// How a night with this plan ends.
pub fn status_of(plan: &DreamPlan) -> Status {
    let idle = !plan.changes_memories() && plan.journal.is_empty() && plan.erased.is_empty();
    match (&plan.report.failure, idle) {
        (Some(_), _) => Status::Failed,
        (None, true) => Status::NothingNew,
        (None, false) => Status::Done,
    }
}
