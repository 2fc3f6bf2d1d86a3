//! `dreamer preview`: what the next night would take in and cost at most, and how the table is. Reads only, takes no lock,
//! writes nothing and asks no model. What a night costs comes from the code that batches its calls (`cost`), the health of
//! the table from its rows (`health`); how both are told is `show`'s.

mod cost;
mod health;
mod show;

use chrono::{DateTime, NaiveDateTime, TimeDelta, TimeZone, Utc};
use serde::Serialize;

use crate::config::Config;
use crate::dream::{
    Mode, Where, day_in, has_folder, material_of, only_agent, only_named, read_reopened, read_sources,
    remember,
};
use crate::error::Error;
use crate::nrem::evidence;
use crate::plan::Run;
use crate::queues::{Queues, review};
use crate::rem;
use crate::remembered::Remembered;
use crate::state::journal::Journal;
use crate::store::Store;
use crate::trigger::{self, Due, Window};

pub use cost::Cost;
pub(crate) use health::vectors;
pub use health::{Ages, Archive, Fading, Health, Vectors};
pub use show::show;

/// What waits for the next night.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Material {
    /// Episodes chunks would be taken from.
    pub episodes: usize,
    /// The days they are of.
    pub days: usize,
    /// Days beyond `MAX_EPISODES_PER_RUN`.
    pub days_waiting: usize,
    /// Chunks never tried before.
    pub chunks_new: usize,
    /// Chunks held back from earlier nights.
    pub chunks_held_back: usize,
    /// Of all of them, those that say something: the others cost nothing.
    pub chunks_evidence: usize,
    /// Rows that would be compared with all others.
    pub rows_tonight: usize,
    /// Rows that would wait for a later night.
    pub rows_waiting: usize,
}

/// What waits for a person, or for another try.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Questions somebody was asked and has not answered.
    pub questions: usize,
    /// Questions without a place in a night so far.
    pub questions_to_come: usize,
    /// Answers and ticks the next night carries out.
    pub decisions: usize,
    /// Entries of the retry queue.
    pub retry: usize,
}

/// How the last run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRun {
    /// The run.
    pub run: String,
    /// When it finished.
    pub finished_at: DateTime<Utc>,
    /// `done`, `nothing_new` or `failed`, as far as it can still be read.
    pub status: Option<String>,
    /// Why something was held back.
    pub held_back: Option<String>,
}

/// The next night, and the table it would work on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preview {
    /// The only agent that is looked at, with `--agent`.
    pub agent: Option<String>,
    /// What it would take in.
    pub material: Material,
    /// What it would cost at most.
    pub cost: Cost,
    /// How the table is.
    pub table: Health,
    /// What waits.
    pub waiting: Waiting,
    /// The last run that finished.
    pub last_run: Option<LastRun>,
    /// Runs that were interrupted, which the next night goes on with first.
    pub unfinished: Vec<String>,
    /// When a timed run is due next, as far as the window decides.
    pub next_window: String,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Looks at what the next night would do.
///
/// # Errors
/// When the database or a file cannot be read, or there is no such agent.
pub async fn preview(config: &Config, now: DateTime<Utc>) -> Result<Preview, Error> {
    let store = Store::open(&config.lancedb_uri).await?;
    let mut warnings = Vec::new();
    let known = remember(config, &store, &mut warnings).await?;
    let mut known = only_named(config, &store, known, &mut warnings);
    let mut journal = Journal::read(&config.state_dir())?;
    // Without a folder there are transcripts at most, and a preview does not fail.
    let reads = has_folder(config) || config.episode_source.has_transcripts();
    let mode = if reads { Mode::Full } else { Mode::RemOnly };
    let place = Where { config, store: &store, journal: &journal, mode, timed: false, now };
    let mut episodes = read_sources(place, &known, &mut warnings)?.episodes;
    if let Some(agent) = &config.only_agent {
        known = only_agent(agent, known, &mut episodes, config)?;
    }
    let today = now.with_timezone(&config.timezone).date_naive();
    let mut queues = Queues::read(config, today)?;
    queues.reopen(&mut journal, &mut known);
    read_reopened(config, &store, &journal, &mut episodes, &mut warnings)?;
    let material = material_of(config, &episodes, &journal);
    let evidence = evidence(&material.chunks);
    let open = rem::unreconciled(&known).len();
    let rows_tonight = rows_tonight(&known);
    let days: std::collections::BTreeSet<_> =
        material.episodes.iter().filter_map(|(_, name)| day_in(name)).collect();
    warnings.extend(queues.told.iter().cloned());
    let last_finished = crate::plan::run::last_finished(&config.runs_dir())?;
    Ok(Preview {
        agent: config.only_agent.clone(),
        cost: Cost::of(config, &evidence, &known, rows_tonight),
        table: Health::of(config, &store, &known, today).await?,
        waiting: waiting(&queues),
        last_run: last_run(config, &mut warnings)?,
        unfinished: unfinished(config, now)?,
        next_window: next_window(&now.with_timezone(&config.timezone), last_finished, config.window),
        material: Material {
            episodes: material.episodes.len(),
            days: days.len(),
            days_waiting: material.days_waiting.len(),
            chunks_new: material.chunks.len() - material.held_back_before,
            chunks_held_back: material.held_back_before,
            chunks_evidence: evidence.len(),
            rows_tonight,
            rows_waiting: open - rows_tonight,
        },
        warnings,
    })
}

/// Whether somebody who has just set a home up should see a preview: there are memories, and no night has been yet.
///
/// # Errors
/// When the database or the runs cannot be read.
pub async fn is_first_night_on_existing_table(config: &Config) -> Result<bool, Error> {
    let store = Store::open(&config.lancedb_uri).await?;
    let rows = store.rows(&config.agent).await?;
    let some = rows.memories.len() + rows.ownerless + rows.unreadable > 0;
    Ok(some && crate::plan::run::last_finished(&config.runs_dir())?.is_none())
}

/// Rows that a night takes up: so many of each agent at most.
fn rows_tonight(known: &Remembered) -> usize {
    let mut open: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for row in rem::unreconciled(known) {
        *open.entry(&row.partition.agent).or_default() += 1;
    }
    open.values().map(|rows| (*rows).min(rem::ROWS_A_NIGHT)).sum()
}

pub(crate) fn waiting(queues: &Queues) -> Waiting {
    let ordered = |id: &str| queues.orders.iter().any(|order| order.key == id);
    let open: Vec<_> = queues.open().filter(|item| !ordered(&item.id)).collect();
    let questions = open.iter().filter(|item| review::is_asked(item)).count();
    Waiting {
        questions,
        questions_to_come: open.len() - questions,
        decisions: queues.orders.len(),
        retry: queues.retry.entries().len(),
    }
}

pub(crate) fn last_run(config: &Config, warnings: &mut Vec<String>) -> Result<Option<LastRun>, Error> {
    let mut last: Option<(DateTime<Utc>, Run)> = None;
    for run in Run::all(&config.runs_dir())? {
        if let Some(at) = run.finished_at()?.filter(|at| last.as_ref().is_none_or(|(last, _)| at >= last)) {
            last = Some((at, run));
        }
    }
    let Some((finished_at, run)) = last else { return Ok(None) };
    let report = match run.read_plan() {
        Ok(plan) => Some(plan.report),
        Err(error) => {
            warnings.push(format!("the last run's plan: {}", crate::error::chain(&error)));
            None
        }
    };
    Ok(Some(LastRun {
        run: run.id.as_str().to_owned(),
        finished_at,
        status: report.as_ref().map(|report| report.status.as_str().to_owned()),
        held_back: report.and_then(|report| report.failure.or(report.limit)),
    }))
}

fn unfinished(config: &Config, now: DateTime<Utc>) -> Result<Vec<String>, Error> {
    let mut pending = Vec::new();
    for run in Run::all(&config.runs_dir())? {
        if run.is_pending(now)? {
            pending.push(run.id.as_str().to_owned());
        }
    }
    Ok(pending)
}

/// When the window lets a timed run start, in local time.
fn next_window<Tz: TimeZone>(
    now: &DateTime<Tz>,
    last_finished: Option<DateTime<Utc>>,
    window: Option<Window>,
) -> String {
    let Some((start, end)) = window else { return "any time: DREAMER_WINDOW is off".into() };
    if trigger::in_time(now, last_finished, window) == Due::Yes {
        let local = now.naive_local().time();
        let inside = if start < end { start <= local && local < end } else { start <= local || local < end };
        return match inside {
            true => format!("now, until {}", end.format("%H:%M")),
            false => "now, because a night was missed".into(),
        };
    }
    let local = now.naive_local();
    let mut next = NaiveDateTime::new(local.date(), start);
    if next <= local {
        next += TimeDelta::days(1);
    }
    format!("{} to {}", next.format("%Y-%m-%d %H:%M"), end.format("%H:%M"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_next_window_is_now_today_or_tomorrow() {
        let time = |h, m| chrono::NaiveTime::from_hms_opt(h, m, 0).unwrap();
        let night = Some((time(1, 0), time(5, 0)));
        let told = |now: &str, last: Option<&str>, window| {
            let now: DateTime<Utc> = now.parse().unwrap();
            next_window(&now, last.map(|last| last.parse().unwrap()), window)
        };
        for (now, last, told_so) in [
            ("2026-03-11T00:30:00Z", None, "2026-03-11 01:00 to 05:00"),
            ("2026-03-11T03:00:00Z", None, "now, until 05:00"),
            ("2026-03-11T04:00:00Z", Some("2026-03-11T03:00:00Z"), "2026-03-12 01:00 to 05:00"),
            ("2026-03-11T12:00:00Z", Some("2026-03-11T03:00:00Z"), "2026-03-12 01:00 to 05:00"),
            ("2026-03-11T12:00:00Z", Some("2026-03-09T03:00:00Z"), "now, because a night was missed"),
        ] {
            assert_eq!(told(now, last, night), told_so, "{now}");
        }
        assert!(told("2026-03-11T12:00:00Z", None, None).contains("off"));
    }
}
