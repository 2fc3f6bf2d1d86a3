//! The health of the table: whose rows it holds, how old they are, what is wrong with them, and what would fade soon.
//! Counts only; no row is judged or changed.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Days, NaiveDate};
use serde::Serialize;

use crate::config::Config;
use crate::error::Error;
use crate::language;
use crate::memory::{Memory, Partition, Trace, text_digest};
use crate::plan::traces::fading_allowed;
use crate::rem::fading::{self, decayed, is_foreign};
use crate::remembered::Remembered;
use crate::state::ledger::{AgentDays, Ledger};
use crate::store::Store;

/// Rows whose vectors are read at once.
const A_READ: usize = 4_000;
/// How far from 1 the length of a unit vector may be.
const UNIT: f64 = 0.01;
/// A vector shorter than this points nowhere.
const ZERO: f64 = 1e-20;

/// How the table is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Health {
    /// Rows, of the agent if one is chosen.
    pub rows: usize,
    /// Rows of each agent.
    pub agents: BTreeMap<String, usize>,
    /// Rows without an agent where the table has the column: the gateway never recalls them.
    pub without_agent: usize,
    /// Rows without an id or a text.
    pub unreadable: usize,
    /// Rows that say exactly what another row of the same agent and scope says.
    pub duplicates: usize,
    /// When they were written.
    pub ages: Option<Ages>,
    /// Their vectors.
    pub vectors: Vectors,
    /// Rows of each category.
    pub categories: BTreeMap<&'static str, usize>,
    /// Rows of each tier: core from 0.8, active from 0.4, fading below.
    pub tiers: BTreeMap<&'static str, usize>,
    /// Rows Dreamer has never seen.
    pub never_traced: usize,
    /// What left.
    pub archive: Archive,
    /// What would leave.
    pub fading: Fading,
}

/// When rows were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ages {
    /// The first one.
    pub oldest: NaiveDate,
    /// Half of them are older.
    pub median: NaiveDate,
    /// The last one.
    pub newest: NaiveDate,
}

/// How the vectors are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Vectors {
    /// Numbers in each.
    pub length: usize,
    /// Numbers in those of the configured model, where it is known.
    pub model_length: Option<usize>,
    /// Rows without one.
    pub missing: usize,
    /// Vectors that are not of length 1: the gateway scores them wrongly.
    pub not_unit: usize,
    /// Of them, those that point nowhere or hold what is no number.
    pub unusable: usize,
}

/// What is in the archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Archive {
    /// Memories.
    pub rows: usize,
    /// Of them, by why they left.
    pub reasons: BTreeMap<&'static str, usize>,
}

/// What would fade, before the loss budget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Fading {
    /// Agents whose memories do not fade yet, or not at all.
    pub not_in_force: Vec<String>,
    /// Below the threshold by now.
    pub now: usize,
    /// After seven more active days without a recall.
    pub in_7_days: usize,
    /// After thirty.
    pub in_30_days: usize,
}

impl Health {
    pub(super) async fn of(
        config: &Config,
        store: &Store,
        known: &Remembered,
        today: NaiveDate,
    ) -> Result<Self, Error> {
        let all = store.rows(&config.agent).await?;
        let rows: Vec<&Memory> = known.rows.values().collect();
        let mut health = Self {
            rows: rows.len(),
            without_agent: all.ownerless,
            unreadable: all.unreadable,
            duplicates: duplicates(&rows),
            ages: ages(&rows, config),
            vectors: vectors(config, store, &rows).await?,
            never_traced: rows.iter().filter(|row| !known.traces.contains_key(&row.id)).count(),
            fading: fading(config, known, &Ledger::read(&config.state_dir())?, today),
            ..Self::default()
        };
        for row in &rows {
            *health.agents.entry(row.partition.agent.clone()).or_default() += 1;
            *health.categories.entry(row.category.as_str()).or_default() += 1;
            *health.tiers.entry(tier(row.importance)).or_default() += 1;
        }
        health.archive.rows = known.archived.len();
        for archived in known.archived.values() {
            *health.archive.reasons.entry(archived.reason.as_str()).or_default() += 1;
        }
        Ok(health)
    }
}

fn tier(importance: f64) -> &'static str {
    match importance {
        i if i >= 0.8 => "core",
        i if i >= 0.4 => "active",
        _ => "fading",
    }
}

fn duplicates(rows: &[&Memory]) -> usize {
    let mut same: HashMap<(String, &Partition), usize> = HashMap::new();
    for row in rows {
        *same.entry((language::normalise(&row.text), &row.partition)).or_default() += 1;
    }
    same.into_values().map(|count| count - 1).sum()
}

fn ages(rows: &[&Memory], config: &Config) -> Option<Ages> {
    let day = |row: &&Memory| {
        let at = DateTime::from_timestamp_millis(row.created_at)?;
        Some(at.with_timezone(&config.timezone).date_naive())
    };
    let mut days: Vec<NaiveDate> = rows.iter().filter_map(day).collect();
    days.sort_unstable();
    Some(Ages { oldest: *days.first()?, median: days[days.len() / 2], newest: *days.last()? })
}

/// How the vectors of these rows are.
pub(crate) async fn vectors(config: &Config, store: &Store, rows: &[&Memory]) -> Result<Vectors, Error> {
    let mut found = Vectors { length: store.dim(), model_length: config.dimension(), ..Vectors::default() };
    for some in rows.chunks(A_READ) {
        let ids: Vec<String> = some.iter().map(|row| row.id.clone()).collect();
        let vectors = store.vectors(&ids).await?;
        found.missing += ids.iter().filter(|id| !vectors.contains_key(*id)).count();
        for vector in vectors.values() {
            let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
            let is_usable = norm.is_finite() && norm > ZERO;
            found.unusable += usize::from(!is_usable);
            found.not_unit += usize::from(!is_usable || (norm - 1.0).abs() > UNIT);
        }
    }
    Ok(found)
}

fn fading(config: &Config, known: &Remembered, ledger: &Ledger, today: NaiveDate) -> Fading {
    let mut fading = Fading::default();
    for agent in known.agents() {
        let days = ledger.of(&agent);
        if !fading_allowed(config, &agent, &days) {
            fading.not_in_force.push(agent);
            continue;
        }
        let was_in_force = days.fading_since.is_some();
        for row in known.rows_of(&agent) {
            let trace = known.traces.get(&row.id).filter(|trace| trace.digest == text_digest(&row.text));
            // What was not seen before, or comes under fading only tonight, starts its clock tonight.
            let trace = trace.filter(|trace| was_in_force && !is_foreign(trace, row.importance));
            let below = |more: u64| is_below(config, row, trace, &days, today, more);
            fading.now += usize::from(below(0));
            fading.in_7_days += usize::from(below(7));
            fading.in_30_days += usize::from(below(30));
        }
    }
    fading
}

/// Whether a row would be below the threshold after so many more active days, and nothing would keep it.
fn is_below(
    config: &Config,
    row: &Memory,
    trace: Option<&Trace>,
    days: &AgentDays,
    today: NaiveDate,
    more: u64,
) -> bool {
    let on = today.checked_add_days(Days::new(more)).unwrap_or(today);
    let (base, passed, stability, keeps) = match trace {
        Some(trace) => {
            let passed = days.active_between(trace.clock, today);
            (trace.base, passed, trace.stability, !fading::may_fade(trace, on))
        }
        None => (row.importance, 0, 1.0, false),
    };
    let active = passed + usize::try_from(more).unwrap_or(usize::MAX);
    !keeps && active > 0 && decayed(base, config.decay_rate, active, stability) < config.fade_threshold
}
