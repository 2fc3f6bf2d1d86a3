//! The queues: what waits for another try (`retry`), what waits for a person (`review`, `decisions`), and what a person
//! ticked in the dream logs (`ticks`). A night reads them when it begins ([`Queues::read`]), carries out what was decided
//! (`carry_out`) and asks what is new (`review`); all it changes is part of its plan.

pub mod carry_out;
pub mod decisions;
pub mod retry;
pub mod review;
pub mod ticks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chrono::NaiveDate;

use crate::config::Config;
use crate::plan::{DreamPlan, ReviewItem};
use crate::state::{StateError, read_if_there};
use decisions::{Answer, Decisions, State, answers_to};
use retry::RetryQueue;
use ticks::{Tick, TickBox};

/// Something a person wants done.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// What decisions about it are kept under.
    pub key: String,
    /// The review item, unless something is undone.
    pub item: Option<ReviewItem>,
    /// The run and the memory, where something is undone.
    pub undo: Option<(String, String)>,
    /// What is wanted.
    pub answer: Answer,
    /// Where it was said: `command`, or a dream log.
    pub by: String,
}

/// The queues as they are when a night begins.
#[derive(Debug, Default)]
pub struct Queues {
    /// Review items by id, closed ones included.
    pub items: BTreeMap<String, ReviewItem>,
    /// What was decided.
    pub decisions: Decisions,
    /// What is tried again.
    pub retry: RetryQueue,
    /// What a person wants done and nobody has done yet.
    pub orders: Vec<Order>,
    /// What the operator should know of them.
    pub told: Vec<String>,
}

impl Queues {
    /// Reads the queues and the ticks of the last days. With `--agent`, the others' items and orders are left out.
    ///
    /// # Errors
    /// When a file exists and cannot be read.
    pub fn read(config: &Config, today: NaiveDate) -> Result<Self, StateError> {
        let folder = config.queues_dir();
        let mut queues = Self {
            items: review::read(&folder)?,
            decisions: Decisions::read(&folder)?,
            retry: RetryQueue::read(&folder)?,
            ..Self::default()
        };
        queues.items.retain(|_, item| config.touches(&item.agent));
        let ticks = ticks::read(&config.dream_log_dir(), today, &mut queues.told)?;
        queues.orders = queues.commanded();
        queues.take_in(ticks);
        Ok(queues)
    }

    /// Items about which nothing is decided and which have not run out.
    pub fn open(&self) -> impl Iterator<Item = &ReviewItem> {
        self.items.values().filter(|item| self.decisions.get(&item.id).is_none())
    }

    fn commanded(&self) -> Vec<Order> {
        let order = |item: &ReviewItem| {
            let decision = self.decisions.get(&item.id).filter(|last| last.state == State::Decided)?;
            Some(Order {
                key: item.id.clone(),
                item: Some(item.clone()),
                undo: None,
                answer: decision.answer,
                by: decision.by.clone(),
            })
        };
        self.items.values().filter_map(order).collect()
    }

    /// Ticks become orders. Two that contradict each other are told, and nothing is done; what a command said counts.
    fn take_in(&mut self, ticks: Vec<Tick>) {
        let mut by_key: BTreeMap<String, Vec<Tick>> = BTreeMap::new();
        for tick in ticks {
            by_key.entry(tick.of.key()).or_default().push(tick);
        }
        for (key, ticks) in by_key {
            if self.decisions.is_closed(&key) {
                continue;
            }
            let wanted: BTreeSet<&TickBox> = ticks.iter().map(|tick| &tick.of).collect();
            let answers: Vec<&str> = wanted.iter().map(|of| answer_of(of).as_str()).collect();
            let log = ticks[0].log.clone();
            if wanted.len() > 1 {
                self.told.push(format!(
                    "{log}: {} are both ticked for `{key}`; nothing was done, leave one tick",
                    answers.join(" and ")
                ));
                continue;
            }
            match &ticks[0].of {
                TickBox::Review { item, answer } => self.tick(item, *answer, log),
                TickBox::Undo { run, memory } => self.orders.push(Order {
                    key,
                    item: None,
                    undo: Some((run.clone(), memory.clone())),
                    answer: Answer::Undo,
                    by: log,
                }),
            }
        }
    }

    fn tick(&mut self, id: &str, answer: Answer, log: String) {
        // Another agent's, or of a queue that is gone.
        let Some(item) = self.items.get(id).cloned() else { return };
        if let Some(command) = self.orders.iter().find(|order| order.key == id) {
            if command.answer != answer {
                let said = command.answer.as_str();
                self.told.push(format!(
                    "{log}: `{id}` is ticked {}, but `dreamer review` said {said}: that counts",
                    answer.as_str()
                ));
            }
        } else if answers_to(&item).contains(&answer) {
            self.orders.push(Order { key: id.to_owned(), item: Some(item), undo: None, answer, by: log });
        }
    }
}

fn answer_of(of: &TickBox) -> Answer {
    match of {
        TickBox::Review { answer, .. } => *answer,
        TickBox::Undo { .. } => Answer::Undo,
    }
}

/// Writes what a plan says about the queues. Doing it twice equals doing it once.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write(plan: &DreamPlan, folder: &Path) -> Result<(), StateError> {
    review::append(folder, &plan.review)?;
    Decisions::append(folder, &plan.decided)?;
    plan.retry.as_ref().map_or(Ok(()), |retry| retry.write(folder))
}

/// The lines of a file that can be read as `T`; a torn one (a crash while appending) is passed over.
fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, StateError> {
    let bytes = read_if_there(path)?.unwrap_or_default();
    let mut lines = Vec::new();
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(read) => lines.push(read),
            Err(error) => {
                tracing::warn!("{}:{}: passed over an unreadable line: {error}", path.display(), number + 1)
            }
        }
    }
    Ok(lines)
}
