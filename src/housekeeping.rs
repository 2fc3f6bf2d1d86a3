//! What a night does last, once it has finished: old runs, raw memories and archived files go, tables are put together,
//! versions nobody reads any more are removed. Nothing here can fail a night; what did not work is told, and the next
//! night tries again. What may go is decided by `retention`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::Deserialize;

use crate::config::Config;
use crate::error::chain;
use crate::plan::RunId;
use crate::reembed;
use crate::retention::{self, Clock, Decision, Kept, RunFacts};
use crate::state::versions::Versions;
use crate::state::{read_if_there, sync_folder};
use crate::store::{MEMORIES, Store, StoreError, TABLES};

/// A gateway may hold a version open for so long; it would fail on one that is gone.
const VERSION_DAYS: i64 = 8;
/// What a run's folder is called while it is being removed.
const REMOVING: &str = ".removing-";
const MB: u64 = 1024 * 1024;

/// Removes what is old and puts the tables together. Returns what the operator should know, a sentence each; what went as it
/// should is only logged. With a clock that cannot be trusted nothing is removed.
pub async fn keep_house(config: &Config, store: &Store, now: DateTime<Utc>) -> Vec<String> {
    let mut house = House { config, store, now, told: Vec::new() };
    house.finish_removals();
    let mut versions = house.read_versions();
    let steady = house.clock_is_steady(versions.as_ref());
    if steady {
        house.remove_runs();
        house.remove_raw().await;
        house.remove_archived_files();
        house.remove_vectors();
    }
    house.compact().await;
    if let Some(versions) = &mut versions {
        house.see_versions(versions).await;
        if steady {
            house.prune_versions(versions).await;
        }
        if let Err(error) = versions.write(&config.state_dir()) {
            house.tell_error("note the tables' versions", &error);
        }
    }
    house.told
}

/// A run's state as far as it matters here; other programs' phases are words, too.
#[derive(Deserialize)]
struct State {
    phase: String,
    planned_at: Option<DateTime<Utc>>,
    #[serde(default)]
    finished_at: Option<DateTime<Utc>>,
}

struct House<'a> {
    config: &'a Config,
    store: &'a Store,
    now: DateTime<Utc>,
    told: Vec<String>,
}

impl House<'_> {
    fn tell_error(&mut self, what: &str, error: &dyn std::error::Error) {
        self.told.push(format!("could not {what}: {}; the next night tries again", chain(error)));
    }

    /// Tells what went wrong with a table; one that others kept changing is nothing to worry about.
    fn tell_store(&mut self, what: &str, table: &str, error: &StoreError) {
        match error {
            StoreError::Contended { .. } => self.told.push(format!(
                "the table `{table}` could not be {what} tonight, because another program kept changing it; \
                 the next night tries again"
            )),
            error => self.tell_error(&format!("{what} the table `{table}`"), error),
        }
    }

    /// Ends removals that were killed half-way.
    fn finish_removals(&mut self) {
        for path in folders(&self.config.runs_dir()) {
            let half_gone = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(REMOVING));
            if half_gone && let Err(error) = fs::remove_dir_all(&path) {
                self.tell_error(&format!("remove {}", path.display()), &error);
            }
        }
    }

    /// What is known of the tables' versions; none when the record cannot be read, which is told.
    fn read_versions(&mut self) -> Option<Versions> {
        match Versions::read(&self.config.state_dir()) {
            Ok(versions) => Some(versions),
            Err(error) => {
                self.told.push(format!(
                    "could not {}; old versions of the tables stay until the file is put right or deleted",
                    chain(&error)
                ));
                None
            }
        }
    }

    /// The vectors from before a move to another embedding model are kept as long as snapshots are.
    fn remove_vectors(&mut self) {
        let folder = self.config.state_dir().join(reembed::BEFORE);
        let Ok(made) = fs::metadata(&folder).and_then(|metadata| metadata.modified()) else { return };
        let age = self.now.signed_duration_since(DateTime::<Utc>::from(made));
        if age > TimeDelta::days(i64::from(self.config.snapshot_days))
            && let Err(error) = fs::remove_dir_all(&folder)
        {
            self.tell_error(&format!("remove {}", folder.display()), &error);
        }
    }

    fn clock_is_steady(&mut self, versions: Option<&Versions>) -> bool {
        // Tonight's own run, and one that it ended, finished now.
        let finished: Vec<DateTime<Utc>> = self
            .runs()
            .iter()
            .filter(|run| run.phase.as_deref() == Some("finished") && run.finished_at != Some(self.now))
            .filter_map(|run| run.finished_at.max(run.planned_at))
            .collect();
        let seen = versions.and_then(|versions| versions.last(MEMORIES)).map(|seen| seen.at);
        let last = retention::last_believable(self.now, finished.iter().copied().chain(seen));
        let (by, told) = match retention::clock(self.now, last) {
            Clock::Steady => return true,
            Clock::Back { by } => (by, "earlier"),
            Clock::Leap { by } => (by, "later"),
        };
        let last = last.expect("only a last run can disagree with the clock");
        self.told.push(format!(
            "the clock says {}, {} {told} than the last run ({}): nothing old was removed tonight; check the clock",
            self.now.format("%Y-%m-%d %H:%M UTC"),
            length(by),
            last.format("%Y-%m-%d %H:%M UTC"),
        ));
        false
    }

    /// Every run's folder as facts.
    fn runs(&self) -> Vec<RunFacts> {
        let mut runs: Vec<RunFacts> =
            folders(&self.config.runs_dir()).iter().filter_map(|f| facts(f)).collect();
        runs.sort_by(|a, b| a.id.cmp(&b.id));
        runs
    }

    fn remove_runs(&mut self) {
        let (runs, days) = (self.runs(), self.config.snapshot_days);
        for (run, decision) in runs.iter().zip(retention::decide(&runs, self.now, days)) {
            match decision {
                Decision::Keep(Kept::Unknown) => self.told.push(format!(
                    "run {} is kept: {}; look into {}, and delete the folder if you do not need it",
                    run.id,
                    Kept::Unknown,
                    self.config.runs_dir().join(&run.id).display()
                )),
                Decision::Keep(reason) => tracing::debug!("run {} is kept: {reason}", run.id),
                Decision::Remove(reason) => match self.remove_run(&run.id) {
                    Ok(()) => {
                        let size = run.size.div_ceil(MB);
                        tracing::info!("removed run {} ({size} MB): {reason}", run.id);
                    }
                    Err(error) => self.tell_error(&format!("remove run {}", run.id), &error),
                },
            }
        }
    }

    /// A run is there whole or not at all: a kill in the middle leaves a folder that is no run, and that goes the next night.
    fn remove_run(&self, id: &str) -> io::Result<()> {
        let runs = self.config.runs_dir();
        let going = runs.join(format!("{REMOVING}{id}"));
        fs::rename(runs.join(id), &going)?;
        sync_folder(&runs).map_err(io::Error::other)?;
        fs::remove_dir_all(&going)
    }

    async fn remove_raw(&mut self) {
        let Some(days) = self.config.raw_days else { return };
        let until = self.now - TimeDelta::days(days.into());
        let removed = async {
            let old =
                |run: &str| RunId::parse(run).and_then(|id| id.started_at()).is_some_and(|at| at < until);
            let raw = self.store.raw_runs().await?;
            let ids: Vec<String> = raw.into_iter().filter(|(_, run)| old(run)).map(|(id, _)| id).collect();
            self.store.remove_raw(&ids).await.map(|()| ids.len())
        };
        match removed.await {
            Ok(0) => {}
            Ok(count) => tracing::info!("removed {count} raw memories older than {days} days"),
            Err(error) => self.tell_store("rid of old raw memories", crate::store::RAW, &error),
        }
    }

    /// Files of the two archives whose day is too long ago. Anything but a plain file of ours stays.
    fn remove_archived_files(&mut self) {
        let Some(days) = self.config.archive_days else { return };
        let today = self.now.with_timezone(&self.config.timezone).date_naive();
        let is_old = |day: NaiveDate| today - day > TimeDelta::days(days.into());
        let archives = self.config.archives().into_iter();
        let episodes = archives.flat_map(|archive| plain_files(&archive.path)).filter_map(|path| {
            let day = date_of_episode(&path)?;
            Some((path, day))
        });
        let exports = plain_files(&self.config.memory_archive_dir()).into_iter().filter_map(|path| {
            let day = date_of_export(&path)?;
            Some((path, day))
        });
        let old: Vec<PathBuf> =
            episodes.chain(exports).filter(|(_, day)| is_old(*day)).map(|(path, _)| path).collect();
        for path in &old {
            if let Err(error) = fs::remove_file(path) {
                self.tell_error(&format!("remove {}", path.display()), &error);
            }
        }
        if !old.is_empty() {
            tracing::info!("removed {} archived files older than {days} days", old.len());
        }
    }

    async fn compact(&mut self) {
        for table in TABLES {
            match self.store.compact(table).await {
                Ok(true) => tracing::info!("put the table `{table}` together"),
                Ok(false) => {}
                Err(error) => self.tell_store("put together", table, &error),
            }
        }
    }

    async fn see_versions(&mut self, versions: &mut Versions) {
        for table in TABLES {
            match self.store.layout(table).await {
                Ok(Some(layout)) => versions.see(table, layout.version, self.now),
                Ok(None) => {}
                Err(error) => self.tell_store("looked at", table, &error),
            }
        }
    }

    /// Removes versions that stopped being the latest one over 8 days ago, and that LanceDB says are as old.
    async fn prune_versions(&mut self, versions: &mut Versions) {
        let until = self.now - TimeDelta::days(VERSION_DAYS);
        for table in TABLES {
            let Some(before) = versions.settled(table, until) else { continue };
            match self.store.prune_versions(table, before, until).await {
                Ok(pruned) => {
                    versions.forget_before(table, before);
                    if pruned.versions > 0 {
                        let (count, size) = (pruned.versions, pruned.bytes / MB);
                        tracing::info!("removed {count} old versions of the table `{table}` ({size} MB)");
                    }
                }
                Err(error) => self.tell_store("rid of old versions", table, &error),
            }
        }
    }
}

fn length(time: TimeDelta) -> String {
    match (time.num_days(), time.num_hours()) {
        (0, 1) => "1 hour".to_owned(),
        (0, hours) => format!("{hours} hours"),
        (1, _) => "1 day".to_owned(),
        (days, _) => format!("{days} days"),
    }
}

/// What is known of the run in a folder; none when it is no run's. A folder without a state was killed before its plan
/// was stored: nobody goes on with it, and its name says when it began.
fn facts(folder: &Path) -> Option<RunFacts> {
    let id = RunId::parse(folder.file_name()?.to_str()?)?;
    let state = match read_if_there(&folder.join("state.json")) {
        Ok(None) => id.started_at().map(|at| State {
            phase: "abandoned".into(),
            planned_at: Some(at),
            finished_at: None,
        }),
        Ok(Some(bytes)) => serde_json::from_slice(&bytes).ok(),
        Err(_) => None,
    };
    let (planned_at, finished_at) = state.as_ref().map_or((None, None), |s| (s.planned_at, s.finished_at));
    let phase = state.map(|state| state.phase);
    Some(RunFacts { id: id.as_str().to_owned(), phase, planned_at, finished_at, size: size(folder) })
}

/// The day at the start of an archived episode's name; one that was moved beside another of its name is `2026-01-31.2.md`.
fn date_of_episode(path: &Path) -> Option<NaiveDate> {
    let name = path.file_name()?.to_str()?.strip_suffix(".md")?;
    let (day, rest) = name.split_at_checked(10)?;
    let ours = rest.is_empty() || rest.starts_with(['-', '.']);
    ours.then(|| NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()).flatten()
}

/// The day at the start of an export's name, `20260131-…`, else the day it was written.
fn date_of_export(path: &Path) -> Option<NaiveDate> {
    let name = path.file_name()?.to_string_lossy();
    let named = name.split_once('-').and_then(|(day, _)| NaiveDate::parse_from_str(day, "%Y%m%d").ok());
    named.or_else(|| {
        let written: SystemTime = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        Some(DateTime::<Utc>::from(written).date_naive())
    })
}

fn entries(folder: &Path, wanted: impl Fn(&fs::FileType) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let wanted = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| wanted(&kind));
    entries.filter(wanted).map(|entry| entry.path()).collect()
}

/// Folders in a folder, without links; none if there is no such folder.
fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder, fs::FileType::is_dir)
}

fn plain_files(folder: &Path) -> Vec<PathBuf> {
    entries(folder, fs::FileType::is_file)
}

/// Bytes of all files in a folder.
fn size(folder: &Path) -> u64 {
    let files =
        plain_files(folder).iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum::<u64>();
    files + folders(folder).iter().map(|folder| size(folder)).sum::<u64>()
}
