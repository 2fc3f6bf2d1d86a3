//! Carrying out what a person decided: answers to review items and ticked boxes become entries of the night's plan, so
//! that they are snapshotted, applied idempotently and can be undone like everything else. The memories an order touches
//! take no part in the rest of the night. Builds entries, writes nothing.

mod answer;
mod undo;

use std::collections::{BTreeSet, HashMap};

use super::decisions::{Answer, Decision, State};
use super::retry::About;
use super::review::short;
use super::{Order, Queues};
use crate::dream::{Mode, Night};
use crate::error::Error;
use crate::memory::{Departure, Memory, Trace};
use crate::nrem::select::Material;
use crate::plan::{DreamPlan, ReviewItem};
use crate::remembered::Remembered;
use crate::report::Shown;
use crate::state::journal::Journal;
use crate::store::Leaving;

/// What the orders add to a night.
#[derive(Debug, Default)]
pub struct Carried {
    /// Entries for the night's plan.
    pub plan: DreamPlan,
    /// Live rows that the rest of the night leaves alone.
    pub reserved: BTreeSet<String>,
}

impl Carried {
    /// Adds the entries to the plan of the night, which was built without the reserved rows.
    pub fn into_plan(self, plan: &mut DreamPlan) {
        let (more, reserved) = (self.plan, self.reserved.len());
        let (gone, come) = (more.leaving.len(), more.inserts.len());
        plan.report.live.0 += reserved;
        plan.report.live.1 = plan.report.live.1 + reserved + come - gone;
        plan.leaving.extend(more.leaving);
        plan.carriers.extend(more.carriers);
        plan.inserts.extend(more.inserts);
        plan.unarchive.extend(more.unarchive);
        plan.traces.extend(more.traces);
        // What a person decided about a pair needs no other try.
        if let Some(retry) = &mut plan.retry {
            retry.settle(&more.judged.iter().cloned().map(About::from).collect());
        }
        plan.journal.extend(more.journal);
        plan.judged.extend(more.judged);
        plan.decided.extend(more.decided);
        plan.report.joined.extend(more.report.joined);
        plan.report.rem.merged += more.report.rem.merged;
        plan.report.rem.consolidated += more.report.rem.consolidated;
        plan.report.rem.reinforced += more.report.rem.reinforced;
        plan.report.carried_out.extend(more.report.carried_out);
    }
}

/// What became of an order.
enum Outcome {
    Done(String),
    /// It cannot be done any more.
    Moot(String),
    /// A later night can do it.
    Waits(String),
}

struct Work<'a> {
    night: &'a Night<'a>,
    known: &'a Remembered,
    material: &'a Material,
    journal: &'a Journal,
    /// Vectors of the texts that orders write.
    vectors: HashMap<String, Vec<f32>>,
    archived_vectors: HashMap<String, Vec<f32>>,
    carried: Carried,
}

/// Turns orders into entries. `known` is everything that is remembered; take [`Carried::reserved`] out of it before the
/// night goes on.
///
/// # Errors
/// When the database cannot be read. An embedder that fails is no error: what needs it waits.
pub async fn carry_out(
    night: &Night<'_>,
    known: &Remembered,
    material: &Material,
    journal: &Journal,
    queues: &Queues,
) -> Result<Carried, Error> {
    let mut work = Work {
        night,
        known,
        material,
        journal,
        vectors: HashMap::new(),
        archived_vectors: HashMap::new(),
        carried: Carried::default(),
    };
    work.carried.plan.report.carried_out.extend(queues.told.iter().cloned());
    let unembedded = work.embed(&queues.orders).await;
    work.archived_vectors = night.store.archived_vectors(&undo::coming_back(&queues.orders, known)).await?;
    for order in &queues.orders {
        let outcome = match &unembedded {
            Some(why) if !texts_of(order, night).is_empty() => {
                Outcome::Waits(format!("it needs a vector: {why}"))
            }
            _ => work.order(order).await?,
        };
        work.note(order, outcome);
    }
    Ok(work.carried)
}

/// The texts an order would write.
fn texts_of(order: &Order, night: &Night<'_>) -> Vec<String> {
    let Some(item) = &order.item else { return vec![] };
    let texts = match order.answer {
        Answer::Merge => &item.proposal,
        Answer::Store => &item.texts,
        _ => return vec![],
    };
    texts.iter().map(|text| night.privacy.to_store(text)).collect()
}

impl Work<'_> {
    /// Embeds what orders write; why not, when that fails.
    async fn embed(&mut self, orders: &[Order]) -> Option<String> {
        let texts: Vec<String> = orders.iter().flat_map(|order| texts_of(order, self.night)).collect();
        if texts.is_empty() {
            return None;
        }
        let outbound: Vec<_> = texts.iter().map(|text| self.night.privacy.to_embed(text)).collect();
        match self.night.embedder.embed(&outbound).await {
            Ok(vectors) => self.vectors = texts.into_iter().zip(vectors).collect(),
            Err(error) => return Some(crate::error::chain(&error)),
        }
        None
    }

    async fn order(&mut self, order: &Order) -> Result<Outcome, Error> {
        if let Some((run, memory)) = &order.undo {
            return Ok(self.undo(run, memory));
        }
        let Some(item) = &order.item else { return Ok(Outcome::Moot("there is no such question".into())) };
        Ok(match order.answer {
            Answer::Merge => self.merge(item),
            Answer::Duplicate => self.settle_duplicate(item),
            Answer::Store => self.store(item).await?,
            Answer::Again => self.again(item),
            Answer::Keep | Answer::RawOnly => self.keep(item, order.answer),
            Answer::Undo => Outcome::Moot("a question cannot be undone".into()),
        })
    }

    fn note(&mut self, order: &Order, outcome: Outcome) {
        let what = match (&order.item, &order.undo) {
            (Some(item), _) => format!("{} of “{}”", order.answer.as_str(), short(&item.texts.join(" / "))),
            (None, Some((run, memory))) => format!("undo of `{memory}` in run {run}"),
            (None, None) => order.key.clone(),
        };
        let (state, told) = match outcome {
            Outcome::Done(told) => (State::CarriedOut, format!("done: {what}: {told}")),
            Outcome::Moot(told) => (State::Moot, format!("not done: {what}: {told}")),
            Outcome::Waits(told) => (State::Decided, format!("waits: {what}: {told}")),
        };
        let plan = &mut self.carried.plan;
        plan.report.carried_out.push(format!("{told} ({})", order.by));
        if state == State::Decided {
            return;
        }
        plan.decided.push(Decision {
            id: order.key.clone(),
            answer: order.answer,
            state,
            by: order.by.clone(),
            at: self.night.now,
            run: Some(self.night.run.as_str().to_owned()),
        });
    }

    /// A row's trace as it is, or as the night would begin it.
    fn trace_of(&self, row: &Memory) -> Trace {
        let (today, model, run) = (self.night.today, self.night.embedder.model(), self.night.run.as_str());
        let known = self.known.traces.get(&row.id).cloned();
        let trace = known.filter(|trace| trace.digest == crate::memory::text_digest(&row.text));
        Trace { run: run.to_owned(), ..trace.unwrap_or_else(|| Trace::of_row(row, today, model, run)) }
    }

    /// Takes a row out of the night. False if another order did already.
    fn reserve(&mut self, rows: &[&Memory]) -> bool {
        let free = rows.iter().all(|row| !self.carried.reserved.contains(&row.id));
        if free {
            self.carried.reserved.extend(rows.iter().map(|row| row.id.clone()));
        }
        free
    }

    fn leave(&mut self, row: &Memory, reason: Departure, successor: Option<String>) {
        self.carried.plan.leaving.push(Leaving {
            id: row.id.clone(),
            text: row.text.clone(),
            reason,
            successor,
            run: self.night.run.as_str().to_owned(),
            at: self.night.now.timestamp_millis(),
        });
    }

    fn shown(&self, row: &Memory) -> Shown {
        Shown {
            id: row.id.clone(),
            agent: row.partition.agent.clone(),
            text: row.text.clone(),
            category: row.category.as_str().to_owned(),
            importance: row.importance,
            said_on: self.known.said_on(&row.id),
            sources: vec![],
        }
    }

    /// A chunk or a pair is tried anew tonight: [`Queues::reopen`] has seen to that.
    fn again(&mut self, item: &ReviewItem) -> Outcome {
        if !item.memories.is_empty() {
            return Outcome::Done("the judge is asked anew".into());
        }
        if self.night.mode == Mode::RemOnly {
            return Outcome::Waits("this run reads no episode".into());
        }
        let wanted = |source: &crate::memory::Source| {
            self.material.chunks.iter().any(|chunk| chunk.digest == source.chunk)
        };
        if item.sources.iter().any(wanted) {
            return Outcome::Done("the model is asked anew".into());
        }
        super::review::settle_as(&mut self.carried.plan, item, Answer::RawOnly, self.night, self.journal);
        Outcome::Moot("its episode is neither among the episodes nor in their archive any more".into())
    }
}

impl Queues {
    /// Opens again what a person wants to be tried anew: chunks in the journal, pairs in the retry queue, with their
    /// memories waiting to be compared. In memory only; the night's plan makes it last.
    pub fn reopen(&mut self, journal: &mut Journal, known: &mut Remembered) {
        for item in self.orders.iter().filter(|o| o.answer == Answer::Again).filter_map(|o| o.item.as_ref()) {
            for source in &item.sources {
                journal.reopen(&source.chunk);
            }
            let Some(pair) = super::review::pair_of(item) else { continue };
            self.retry.settle(&BTreeSet::from([About::from(pair)]));
            for id in &item.memories {
                if let Some(trace) = known.traces.get_mut(id) {
                    trace.reconciled = crate::memory::Reconciled::Waiting;
                }
            }
        }
    }
}
