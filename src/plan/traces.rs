//! The traces of a night: every live row has one, recalls and re-occurrences are taken in, and the importance of today
//! follows from them. Also decides for each agent whether fading is in force.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use chrono::{Days, NaiveDate};

use crate::config::{Config, Fade};
use crate::detail;
use crate::dream::Night;
use crate::memory::{Archived, Memory, Reconciled, Trace, text_digest};
use crate::nrem::NewDraft;
use crate::nrem::draft::MemoryDraft;
use crate::plan::LedgerChange;
use crate::rem::Reconciliation;
use crate::rem::conflict::Claim;
use crate::rem::fading;
use crate::remembered::Remembered;
use crate::state::ledger::AgentDays;
use crate::state::recalls::RecallEvent;

/// With `auto`, recall sources must have been readable on so many active days before an agent's memories may fade.
const READABLE_DAYS: usize = 14;
/// A clock that went back by more days than this had been ahead before.
const BELIEVED_AHEAD: u64 = 60;

/// Recalls, of tonight's reading and of earlier ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recalls {
    /// Memory id and day.
    pub by_id: BTreeSet<(String, NaiveDate)>,
    /// Memory text and day.
    pub by_text: BTreeSet<(String, NaiveDate)>,
    /// Those of `by_id` that agents noted, with the file.
    pub noted: BTreeMap<(String, NaiveDate), String>,
    /// Those of `by_text`, with the file.
    pub noted_texts: BTreeMap<(String, NaiveDate), String>,
    /// Whether `recalls/*.jsonl` could be read: it is every agent's.
    pub readable: bool,
    /// Agents whose transcripts could be read.
    pub readable_agents: BTreeSet<String>,
    /// What the book of recalls takes in.
    pub events: Vec<RecallEvent>,
}

/// Whether an agent's memories may fade at all.
pub(crate) fn fading_allowed(config: &Config, agent: &str, days: &AgentDays) -> bool {
    match config.fade {
        Fade::On => true,
        Fade::Off => false,
        Fade::Auto => !config.has_gateway_of(agent) || days.recalls_readable.len() >= READABLE_DAYS,
    }
}

/// The traces of a night in the making.
pub(super) struct Traces<'a> {
    night: &'a Night<'a>,
    known: &'a Remembered,
    days: BTreeMap<String, AgentDays>,
    ledger: BTreeMap<String, LedgerChange>,
    now: BTreeMap<String, Trace>,
}

impl<'a> Traces<'a> {
    pub(super) fn new(
        night: &'a Night<'a>,
        known: &'a Remembered,
        rem: &Reconciliation,
        active: &BTreeMap<String, BTreeSet<NaiveDate>>,
        recalls: &Recalls,
    ) -> Self {
        let mut traces =
            Self { night, known, days: BTreeMap::new(), ledger: BTreeMap::new(), now: BTreeMap::new() };
        let agents: BTreeSet<String> = known.agents().into_iter().chain(active.keys().cloned()).collect();
        for agent in agents {
            let readable = recalls.readable || recalls.readable_agents.contains(&agent);
            traces.open_ledger(&agent, active.get(&agent), readable);
        }
        let open: HashSet<&str> =
            rem.resolutions.waiting.iter().map(|index| rem.claims[*index].id.as_str()).collect();
        for row in known.rows.values() {
            let mut trace = traces.trace_of_row(row);
            if rem.waiting.contains(&row.id) {
                trace.reconciled = Reconciled::Waiting;
            } else if open.contains(row.id.as_str()) {
                trace.reconciled = Reconciled::Open;
            } else if rem.taken_up.contains(&row.id) {
                trace.reconciled = Reconciled::Done;
            }
            traces.now.insert(row.id.clone(), trace);
        }
        traces
    }

    /// Takes tonight's active days into an agent's ledger and decides whether fading is in force.
    fn open_ledger(&mut self, agent: &str, active: Option<&BTreeSet<NaiveDate>>, readable: bool) {
        let today = self.night.today;
        let before = self.night.ledger.of(agent);
        let mut days = before.clone();
        // A message dated in the future is a wrong clock somewhere: it counts when its day has come.
        let new: BTreeSet<NaiveDate> =
            active.into_iter().flatten().copied().filter(|day| *day <= today).collect();
        days.active.extend(&new);
        if readable {
            days.recalls_readable.extend(new.difference(&before.active));
        }
        let allowed = fading_allowed(self.night.config, agent, &days);
        days.fading_since = allowed.then(|| before.fading_since.unwrap_or(today));
        if days != before {
            let change = LedgerChange {
                active: days.active.difference(&before.active).copied().collect(),
                recalls_readable: days
                    .recalls_readable
                    .difference(&before.recalls_readable)
                    .copied()
                    .collect(),
                fading_since: days.fading_since,
            };
            self.ledger.insert(agent.to_owned(), change);
        }
        self.days.insert(agent.to_owned(), days);
    }

    fn trace_of_row(&self, row: &Memory) -> Trace {
        let (model, run) = (self.night.embedder.model(), self.night.run.as_str());
        let today = self.clock_start(&row.partition.agent);
        let fresh = || Trace {
            about: detail::details(&row.text, Some(self.known.said_on(&row.id))).latest_date(),
            ..Trace::of_row(row, today, model, run)
        };
        let mut trace = match self.known.traces.get(&row.id) {
            None => self.inherited(row).map_or_else(fresh, |old| Trace { said_at: old.said_at, ..fresh() }),
            Some(old) if old.digest != text_digest(&row.text) => {
                Trace { recalled: old.recalled.clone(), pinned: old.pinned, ..fresh() }
            }
            Some(old) => old.clone(),
        };
        if fading::is_foreign(&trace, row.importance) {
            (trace.base, trace.written, trace.clock) = (row.importance, row.importance, today);
        }
        // Both ways: what came in force forgets nothing at once, and what went out of force gives nothing back.
        let was_in_force = self.night.ledger.of(&trace.agent).fading_since.is_some();
        if was_in_force != self.in_force(&trace.agent) {
            (trace.base, trace.clock) = (row.importance, today);
        }
        trace
    }

    /// The trace of a row that is new tonight.
    fn fresh(&self, memory: &Memory) -> Trace {
        let today = self.clock_start(&memory.partition.agent);
        Trace::of_row(memory, today, self.night.embedder.model(), self.night.run.as_str())
    }

    /// The day a memory's clock starts: today, unless days after it have passed already. Then the clock of this machine went
    /// back, and those days would be taken off the memory as soon as it is right again. A day further ahead than that was
    /// dated by a clock that was wrong itself.
    fn clock_start(&self, agent: &str) -> NaiveDate {
        let today = self.night.today;
        let believed = ..=today.checked_add_days(Days::new(BELIEVED_AHEAD)).unwrap_or(today);
        let passed = self.night.ledger.agents.get(agent);
        let last = passed.and_then(|days| days.active.range(believed).next_back().copied());
        last.map_or(today, |last| last.max(today))
    }

    /// The trace of an archived memory with the same words: its said-at holds for a row the gateway captured again.
    fn inherited(&self, row: &Memory) -> Option<&Trace> {
        let same = |a: &&Archived| a.memory.text == row.text && a.memory.partition == row.partition;
        let archived =
            self.known.archived.values().filter(same).min_by(|a, b| a.memory.id.cmp(&b.memory.id))?;
        self.known.traces.get(&archived.memory.id)
    }

    fn in_force(&self, agent: &str) -> bool {
        self.days.get(agent).is_some_and(|days| days.fading_since.is_some())
    }

    fn rate(&self, agent: &str) -> f64 {
        if self.in_force(agent) { self.night.config.decay_rate } else { 0.0 }
    }

    fn days_of(&self, agent: &str) -> AgentDays {
        self.days.get(agent).cloned().unwrap_or_default()
    }

    /// Takes in recalls up to today; returns how many memories were recalled on a day not counted before.
    pub(super) fn take_in_recalls(&mut self, recalls: &Recalls) -> usize {
        let mut due: BTreeSet<(NaiveDate, String)> = BTreeSet::new();
        let mut by_text: HashMap<&str, Vec<&String>> = HashMap::new();
        for row in self.known.rows.values() {
            by_text.entry(row.text.trim()).or_default().push(&row.id);
        }
        for (id, day) in &recalls.by_id {
            due.insert((*day, id.clone()));
        }
        for (text, day) in &recalls.by_text {
            due.extend(by_text.get(text.trim()).into_iter().flatten().map(|id| (*day, (*id).clone())));
        }
        let mut recalled = BTreeSet::new();
        for (day, id) in due.into_iter().filter(|(day, _)| *day <= self.night.today) {
            let Some(mut trace) = self.now.remove(&id) else { continue };
            let (days, rate) = (self.days_of(&trace.agent), self.rate(&trace.agent));
            if fading::recall(&mut trace, day, &days, rate) {
                recalled.insert(id.clone());
            }
            self.now.insert(id, trace);
        }
        recalled.len()
    }

    /// The importance of a live memory today, with what tonight's recalls gave it.
    pub(super) fn importance_of(&self, id: &str) -> Option<f64> {
        let trace = self.now.get(id)?;
        let (days, rate) = (self.days_of(&trace.agent), self.rate(&trace.agent));
        Some(fading::importance_on(trace, &days, rate, self.night.today))
    }

    /// Takes in that a draft says what the memory says.
    pub(super) fn said_again(&mut self, id: &str, draft: &MemoryDraft, text: &str) {
        let Some(mut trace) = self.now.remove(id) else { return };
        let (days, rate) = (self.days_of(&trace.agent), self.rate(&trace.agent));
        for day in draft.days_said_unprompted(text).into_iter().filter(|day| *day <= self.night.today) {
            fading::reoccur(&mut trace, day, &days, rate);
        }
        for source in draft.sources() {
            if !trace.sources.iter().any(|known| known.chunk == source.chunk) {
                trace.sources.push(source);
            }
        }
        self.now.insert(id.to_owned(), trace);
    }

    /// The memory that stays takes over what is known of its duplicate.
    pub(super) fn inherit_from_duplicate(&mut self, kept: &str, dropped: &str) {
        let Some(gone) = self.now.get(dropped).cloned() else { return };
        let Some(trace) = self.now.get_mut(kept) else { return };
        trace.base = trace.base.max(gone.base);
        trace.stability = trace.stability.max(gone.stability);
        trace.recalled.extend(gone.recalled);
        trace.reinforced.extend(gone.reinforced);
        trace.said_at = trace.said_at.max(gone.said_at);
        trace.about = trace.about.max(gone.about);
        for source in gone.sources {
            if !trace.sources.contains(&source) {
                trace.sources.push(source);
            }
        }
    }

    /// The trace of a row that a draft becomes.
    pub(super) fn of_draft(&self, memory: &Memory, new: &NewDraft) -> Trace {
        let draft = &new.draft;
        let dates = detail::details(&draft.text, Some(draft.said_on())).latest_date();
        Trace {
            reinforced: draft.chunks.iter().map(|chunk| chunk.date).collect(),
            sources: draft.sources(),
            entities: draft.entities.clone(),
            tags: draft.tags.clone(),
            emotion: draft.emotion,
            said_at: Some(draft.said_at()),
            about: draft.about.max(dates),
            ..self.fresh(memory)
        }
    }

    /// The trace of a row that carries two claims: the later said-at, all sources, the originals of both.
    pub(super) fn of_successor(
        &self,
        memory: &Memory,
        newer: &Claim,
        older: &Claim,
        drafts: &[Option<&NewDraft>],
    ) -> Trace {
        let mut trace = Trace {
            said_at: Some(newer.said_at.max(older.said_at)),
            about: detail::details(&memory.text, Some(newer.said_on)).latest_date(),
            ..self.fresh(memory)
        };
        let rows = [older, newer].into_iter().filter_map(|claim| self.now.get(&claim.id).cloned());
        let of_drafts = drafts.iter().flatten().map(|new| {
            let row = Memory { id: new.id.clone(), ..memory.clone() };
            self.of_draft(&row, new)
        });
        for part in rows.chain(of_drafts) {
            trace.stability = trace.stability.max(part.stability);
            trace.recalled.extend(part.recalled);
            trace.reinforced.extend(part.reinforced);
            trace.sources.extend(part.sources);
            trace.emotion = trace.emotion.max(part.emotion);
            trace.about = trace.about.max(part.about);
            trace.reconciled = trace.reconciled.max(part.reconciled);
            for entity in part.entities.into_iter().filter(|e| memory.text.contains(e.as_str())) {
                if !trace.entities.contains(&entity) {
                    trace.entities.push(entity);
                }
            }
        }
        let mut originals: Vec<_> = older.originals.iter().chain(&newer.originals).collect();
        originals.sort_by_key(|original| original.said_on);
        for original in originals {
            if !trace.merged_from.contains(&original.id) {
                trace.merged_from.push(original.id.clone());
            }
        }
        trace
    }

    /// The trace of a faded memory that comes back, said again by a draft.
    pub(super) fn of_revived(&self, archived: &Archived, draft: &MemoryDraft) -> Trace {
        let today = self.clock_start(&archived.memory.partition.agent);
        let old = self.known.traces.get(&archived.memory.id).cloned();
        let mut trace = old.unwrap_or_else(|| self.fresh(&archived.memory));
        trace.base = trace.base.max(draft.importance.get()).max(archived.memory.importance);
        (trace.written, trace.clock) = (trace.base, today);
        trace.reinforced.extend(draft.chunks.iter().map(|chunk| chunk.date));
        trace.said_at = trace.said_at.max(Some(draft.said_at()));
        trace.about = trace.about.max(draft.about);
        for source in draft.sources() {
            if !trace.sources.iter().any(|known| known.chunk == source.chunk) {
                trace.sources.push(source);
            }
        }
        trace.reconciled = Reconciled::Waiting;
        trace
    }

    pub(super) fn put(&mut self, trace: Trace) {
        self.now.insert(trace.id.clone(), trace);
    }

    pub(super) fn get(&self, id: &str) -> Option<&Trace> {
        self.now.get(id).or_else(|| self.known.traces.get(id))
    }

    /// Every trace of the night.
    pub(super) fn all(&self) -> impl Iterator<Item = &Trace> {
        self.now.values()
    }

    /// Importance of a live row as of today.
    pub(super) fn importance_today(&self, id: &str) -> Option<f64> {
        let trace = self.now.get(id)?;
        let days = self.days.get(&trace.agent)?;
        Some(fading::importance_on(trace, days, self.rate(&trace.agent), self.night.today))
    }

    /// Whether a row may leave tonight: fading is in force, nothing keeps it, and the agent's user was there since its
    /// clock started.
    pub(super) fn may_fade(&self, id: &str) -> bool {
        let Some(trace) = self.now.get(id) else { return false };
        let Some(days) = self.days.get(&trace.agent) else { return false };
        days.fading_since.is_some()
            && days.active_between(trace.clock, self.night.today) > 0
            && fading::may_fade(trace, self.night.today)
    }

    /// Whether something tonight strengthened a row that has a trace, or gave it another base.
    pub(super) fn is_reinforced(&self, id: &str) -> bool {
        let strength = |trace: &Trace| (trace.base, trace.clock, trace.stability);
        self.now.get(id).map(strength) != self.known.traces.get(id).map(strength)
    }

    pub(super) fn note_written(&mut self, id: &str, importance: f64) {
        if let Some(trace) = self.now.get_mut(id) {
            trace.written = importance;
        }
    }

    /// Why the memories of an agent do not fade, by agent; those of the others do.
    pub(super) fn not_fading(&self) -> BTreeMap<String, String> {
        let unfading = self.days.iter().filter(|(_, days)| days.fading_since.is_none());
        let why = |days: &AgentDays| match self.night.config.fade {
            Fade::Off => "DREAMER_FADE is off".to_owned(),
            _ => format!(
                "recalls could be read on {} of {READABLE_DAYS} active days so far",
                days.recalls_readable.len()
            ),
        };
        unfading.map(|(agent, days)| (agent.clone(), why(days))).collect()
    }

    /// Traces that differ from those stored, and what the ledger takes in.
    pub(super) fn finish(self) -> (Vec<Trace>, BTreeMap<String, LedgerChange>) {
        let run = self.night.run.as_str();
        let same = |old: &Trace, new: &Trace| Trace { run: old.run.clone(), ..new.clone() } == *old;
        let changed = self
            .now
            .into_values()
            .filter(|new| !self.known.traces.get(&new.id).is_some_and(|old| same(old, new)));
        let traces = changed.map(|trace| Trace { run: run.to_owned(), ..trace }).collect();
        (traces, self.ledger)
    }
}
