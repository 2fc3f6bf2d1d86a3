//! Erasing: every place of ours that holds a memory or its words, file by file, then table by table. The tables go last,
//! the live row and its trace at the very end: while they are there, an erase that was killed finds its way again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::scrub::{self, Target};
use super::{Touched, words_digest};
use crate::config::{Config, Folder};
use crate::episode::{self, Found, Read};
use crate::error::Error;
use crate::memory::RawMemory;
use crate::nrem::chunk::chunk;
use crate::nrem::quote::words_of;
use crate::plan::{DreamPlan, Run, RunId};
use crate::remembered::Remembered;
use crate::state::recalls::RecallBook;
use crate::state::versions::last_version;
use crate::state::{StateError, read_if_there, write_atomically};
use crate::store::{Store, erase_before};

/// What an erase works on.
struct Erasing<'a> {
    config: &'a Config,
    known: &'a Remembered,
    ids: &'a BTreeSet<String>,
    target: Target,
    /// The raw chunks that the memories rest on, or that say what they said.
    raw: Vec<RawMemory>,
    touched: &'a mut Touched,
}

/// Erases memories from everything under the home and from the database, and tells in `touched` what that was.
pub(super) async fn everywhere(
    config: &Config,
    store: &Store,
    known: &Remembered,
    ids: &BTreeSet<String>,
    gateways_episodes: bool,
    touched: &mut Touched,
) -> Result<(), Error> {
    let texts = ids.iter().filter_map(|id| known.text(id));
    let archived = ids.iter().filter_map(|id| known.archived.get(id)).map(|a| a.memory.text.as_str());
    let target = Target::new(ids.clone(), texts.chain(archived));
    let mut raw = store.raw_all().await?;
    raw.retain(|raw| raw.memories.iter().any(|id| ids.contains(id)) || target.holds(&raw.text));
    let mut erasing = Erasing { config, known, ids, target, raw, touched };
    erasing.runs()?;
    erasing.documents()?;
    erasing.episodes(gateways_episodes)?;
    erasing.tables(store).await
}

impl Erasing<'_> {
    fn count(&mut self, place: &'static str, number: usize) {
        if number > 0 {
            *self.touched.places.entry(place).or_default() += number;
        }
    }

    /// Before-images, plans and recorded replies.
    fn runs(&mut self) -> Result<(), Error> {
        let run_of = |id: &String| {
            let trace = self.known.traces.get(id).map(|trace| trace.run.clone());
            trace.into_iter().chain(self.known.archived.get(id).map(|a| a.run.clone()))
        };
        let made_by: BTreeSet<String> = self.ids.iter().flat_map(run_of).collect();
        for (place, number) in of_runs(self.config, &self.target, &made_by, None)? {
            self.count(place, number);
        }
        Ok(())
    }

    /// What people and other programs read.
    fn documents(&mut self) -> Result<(), Error> {
        for (place, number) in papers(self.config, &self.target)? {
            self.count(place, number);
        }
        Ok(())
    }

    /// Blanks the chunks that the memories rest on, and every line that says what they said, in the episodes of the home;
    /// in the gateway's folder only if so asked.
    fn episodes(&mut self, gateways: bool) -> Result<(), Error> {
        let traces = self.ids.iter().filter_map(|id| self.known.traces.get(id));
        let sources = traces.flat_map(|trace| &trace.sources).chain(self.raw.iter().map(|raw| &raw.source));
        let chunks: BTreeSet<&str> = sources.map(|source| source.chunk.as_str()).collect();
        for folder in every_folder(self.config) {
            let is_ours = self.config.owns(&folder.path);
            let listed = if folder.path.is_dir() { episode::list(&folder.path)?.found } else { vec![] };
            for path in files(&folder.path, "md")? {
                let Some(bytes) = read_if_there(&path)? else { continue };
                let text = String::from_utf8_lossy(&bytes);
                let found = listed.iter().find(|found| found.path == path);
                let spans = spans(self.config, &folder, found, &text, &chunks, &self.target)?;
                let (blanked, changed) = scrub::episode(&text, &spans);
                if changed == 0 {
                    continue;
                }
                if is_ours || gateways {
                    replace(&path, blanked.as_bytes())?;
                }
                let list = if is_ours { &mut self.touched.episodes } else { &mut self.touched.outside };
                list.push((path, changed));
            }
        }
        Ok(())
    }

    /// The row goes before its trace: a trace without a row is found again, a row without a trace would look new.
    async fn tables(&mut self, store: &Store) -> Result<(), Error> {
        store.remove_raw(&self.raw.iter().map(|raw| raw.id.clone()).collect::<Vec<_>>()).await?;
        self.count("raw memories", self.raw.len());
        let all: Vec<String> = self.ids.iter().cloned().collect();
        let out = store.unarchive(&all).await?;
        self.count("archive", out.written.len());
        let rows = self.ids.iter().filter_map(|id| self.known.rows.get(id));
        let rows: Vec<(String, String)> = rows.map(|row| (row.id.clone(), row.text.clone())).collect();
        let outcome = store.delete(&rows).await?;
        self.count("memories", outcome.written.len());
        let traced: Vec<String> = all.into_iter().filter(|id| !outcome.changed.contains(id)).collect();
        store.remove_traces(&traced).await?;
        self.count("traces", traced.iter().filter(|id| self.known.traces.contains_key(*id)).count());
        (self.touched.live, self.touched.edited) = (outcome.written, outcome.changed);
        Ok(())
    }
}

/// Before-images, plans and recorded replies, with how many places changed in each; of the runs in `made_by` every reply
/// goes. The plan of the run that is `at_work` is left to it.
fn of_runs(
    config: &Config,
    target: &Target,
    made_by: &BTreeSet<String>,
    at_work: Option<&RunId>,
) -> Result<[(&'static str, usize); 3], Error> {
    let (mut images, mut plans, mut recorded) = (0, 0, 0);
    for run in folders(&config.runs_dir())? {
        images += erase_before(&run, target.ids())?;
        let is_at_work = at_work.is_some_and(|id| id.to_string() == name_of(&run));
        let of_plan = if is_at_work { 0 } else { plan(&config.runs_dir(), &run, target)? };
        plans += of_plan;
        let made = made_by.contains(&name_of(&run)) || made_by.contains(&replies_used_by(&run)?);
        recorded += replies(&run.join("replies"), target, of_plan > 0 || made)?;
    }
    Ok([("before-images", images), ("plans", plans), ("recorded replies", recorded)])
}

/// What people and other programs read, with how many places changed in each.
fn papers(config: &Config, target: &Target) -> Result<[(&'static str, usize); 4], Error> {
    let mut recalls = files(&config.recalls_dir(), "jsonl")?;
    recalls.extend(Some(RecallBook::path(&config.state_dir())).filter(|book| book.is_file()));
    Ok([
        ("memory-archive", documents(&files(&config.memory_archive_dir(), "json")?, target)?),
        ("queues", lines(&files(&config.queues_dir(), "jsonl")?, target)?),
        ("noted recalls", lines(&recalls, target)?),
        ("dream logs", logs(&files(&config.dream_log_dir(), "md")?, target)?),
    ])
}

/// Our copies of memories that vanished: traces, archive, raw chunks that rest on them alone, exports, before-images, and
/// what plans, replies, queues and logs say of them. Of the `forgotten` ones the words go, too, wherever they stand alone
/// and no other memory still says them; the others were duplicates, whose words stay. Episodes are no copies of a row.
///
/// # Errors
/// When a file or a table cannot be read or written; done again it goes on.
pub(crate) async fn copies(
    config: &Config,
    store: &Store,
    at_work: &RunId,
    ids: &BTreeSet<String>,
    forgotten: &BTreeSet<String>,
) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let words = words_of_the_forgotten(config, store, forgotten).await?;
    let all: Vec<String> = ids.iter().cloned().collect();
    let traces = store.traces().await?.traces;
    let archived = store.archived(&all, &config.agent).await?;
    let traces: Vec<_> = traces.into_values().filter(|trace| ids.contains(&trace.id)).collect();
    let agents = traces.iter().map(|trace| trace.agent.clone());
    let agents = agents.chain(archived.iter().map(|copy| copy.memory.partition.agent.clone())).collect();
    let target = Target::new(ids.clone(), words.iter()).alone(agents);
    let made_by = traces.into_iter().map(|trace| trace.run);
    of_runs(config, &target, &made_by.collect(), Some(at_work))?;
    papers(config, &target)?;
    let raw = store.raw_all().await?;
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for mut raw in raw {
        let before = raw.memories.len();
        raw.memories.retain(|id| !ids.contains(id));
        match (raw.memories.len(), before) {
            (after, before) if after == before => {}
            (0, _) => alone.push(raw.id),
            _ => shared.push(raw),
        }
    }
    store.remove_raw(&alone).await?;
    store.put_raw(&shared).await?;
    store.unarchive(&all).await?;
    Ok(store.remove_traces(&all).await?)
}

/// What forgotten memories said, as older versions of the table and the archive hold it, without what a live memory says.
async fn words_of_the_forgotten(
    config: &Config,
    store: &Store,
    forgotten: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Error> {
    let ids: Vec<String> = forgotten.iter().cloned().collect();
    let version = last_version(&config.state_dir()).map(|(version, _)| version);
    let past = store.rows_of_the_past(&ids, version, &config.agent).await?;
    let archived = store.archived(&ids, &config.agent).await?;
    let rows = store.rows(&config.agent).await?.memories;
    let still: BTreeSet<String> = rows.iter().map(|row| words_digest(&row.text)).collect();
    let texts = past.into_values().map(|(memory, _)| memory.text);
    let texts = texts.chain(archived.into_iter().map(|copy| copy.memory.text));
    Ok(texts.filter(|text| !still.contains(&words_digest(text))).collect())
}

/// What the database is searched for: the texts and the words of quotes, as they are and as JSON writes them.
pub(super) fn needles(known: &Remembered, ids: &BTreeSet<String>) -> Vec<Vec<u8>> {
    let texts = ids.iter().filter_map(|id| known.text(id)).flat_map(|text| [text.to_owned(), words_of(text)]);
    let mut needles: BTreeSet<Vec<u8>> = BTreeSet::new();
    for text in texts.filter(|text| !text.trim().is_empty()) {
        let json = Value::from(text.as_str()).to_string();
        needles.insert(json.as_bytes()[1..json.len() - 1].to_vec());
        needles.insert(text.into_bytes());
    }
    needles.into_iter().collect()
}

/// Folders of runs, whatever state they are in.
fn folders(runs: &Path) -> Result<Vec<PathBuf>, StateError> {
    let all = entries(runs)?.into_iter().filter(|path| path.is_dir());
    let is_run =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).and_then(RunId::parse).is_some();
    Ok(all.filter(is_run).collect())
}

fn name_of(run: &Path) -> String {
    run.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The run that used the replies of an interrupted one; empty where there is none.
fn replies_used_by(run: &Path) -> Result<String, StateError> {
    let bytes = read_if_there(&run.join("state.json"))?.unwrap_or_default();
    let state: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(state["replies_used_by"].as_str().unwrap_or_default().to_owned())
}

/// Files of a folder with that extension.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, StateError> {
    let fits = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|e| e == extension);
    Ok(entries(folder)?.into_iter().filter(fits).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StateError> {
    let failed = |source| StateError::Read { path: folder.to_path_buf(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The plan of a run. Its digest is taken anew, and only after the plan is written: killed in between, the next erase
/// ends it, and until then the plan is read without one.
fn plan(runs_dir: &Path, folder: &Path, target: &Target) -> Result<usize, Error> {
    let path = folder.join("plan.json");
    let Some(run) = RunId::parse(&name_of(folder)).map(|id| Run::of(runs_dir, id)) else { return Ok(0) };
    let Some(bytes) = read_if_there(&path)? else { return Ok(0) };
    if let Ok(mut value) = serde_json::from_slice::<Value>(&bytes)
        && scrub::document(&mut value, target) > 0
    {
        // What can no longer be read could no longer be taken back.
        let is_plan = |read: serde_json::Result<DreamPlan>| read.is_ok();
        if is_plan(serde_json::from_slice(&bytes)) && !is_plan(serde_json::from_value(value)) {
            tracing::warn!(
                "{}: left as it is, because it could not be read without what is erased",
                path.display()
            );
            return Ok(0);
        }
        run.set_plan_digest(None)?;
    }
    let places = documents(std::slice::from_ref(&path), target)?;
    if run.state().is_ok_and(|state| state.plan.is_none())
        && let Some(bytes) = read_if_there(&path)?
    {
        run.set_plan_digest(Some(&bytes))?;
    }
    Ok(places)
}

/// JSON documents; one that is none is read as lines.
fn documents(paths: &[PathBuf], target: &Target) -> Result<usize, StateError> {
    let mut changed = 0;
    for path in paths {
        let Some(bytes) = read_if_there(path)? else { continue };
        let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else {
            changed += lines(std::slice::from_ref(path), target)?;
            continue;
        };
        let places = scrub::document(&mut value, target);
        if places > 0 {
            write_atomically(path, value.to_string().as_bytes())?;
            changed += places;
        }
    }
    Ok(changed)
}

fn lines(paths: &[PathBuf], target: &Target) -> Result<usize, StateError> {
    rewrite(paths, |text| scrub::lines(text, target))
}

fn logs(paths: &[PathBuf], target: &Target) -> Result<usize, StateError> {
    rewrite(paths, |text| scrub::log(text, target))
}

fn rewrite(
    paths: &[PathBuf],
    scrubbed: impl Fn(&str) -> Option<(String, usize)>,
) -> Result<usize, StateError> {
    let mut changed = 0;
    for path in paths {
        let Some(bytes) = read_if_there(path)? else { continue };
        if let Some((text, places)) = scrubbed(&String::from_utf8_lossy(&bytes)) {
            write_atomically(path, text.as_bytes())?;
            changed += places;
        }
    }
    Ok(changed)
}

/// Recorded replies are removed, not rewritten: of a run that made the memory all of them, since a model words one thing
/// in many ways; of other runs those that say it.
fn replies(folder: &Path, target: &Target, all: bool) -> Result<usize, StateError> {
    let mut removed = 0;
    for path in entries(folder)? {
        if path.is_dir() {
            removed += replies(&path, target, all)?;
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|source| StateError::Read { path: path.clone(), source })?;
        let says = match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => target.is_in(&value),
            Err(_) => target.holds(&String::from_utf8_lossy(&bytes)),
        };
        if all || says {
            std::fs::remove_file(&path).map_err(|source| StateError::Write { path: path.clone(), source })?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The lines of a file that are to go: of the chunks, found by their digests wherever they stand by now, and lines that
/// say it.
fn spans(
    config: &Config,
    folder: &Folder,
    found: Option<&Found>,
    text: &str,
    chunks: &BTreeSet<&str>,
    target: &Target,
) -> Result<Vec<(usize, usize)>, Error> {
    let says = text.lines().enumerate().filter(|(_, line)| says(line, target));
    let mut spans: Vec<(usize, usize)> = says.map(|(index, _)| (index + 1, index + 1)).collect();
    if let Some(found) = found
        && let Read::Episode(episode) = episode::read(found, &config.reading(folder))?
    {
        let there = chunk(&episode, config.timezone);
        spans.extend(there.iter().filter(|c| chunks.contains(c.digest.as_str())).map(|c| c.lines));
    }
    Ok(spans)
}

/// Every folder that holds episodes: those that are read, the home's own, and the archives; each once.
fn every_folder(config: &Config) -> Vec<Folder> {
    let mut folders = config.folders();
    folders.extend(config.archives());
    let own = config.home.join("episodes");
    if !folders.iter().any(|folder| folder.path == own) {
        let archive = config.archive_dir();
        folders.push(Folder { path: own, agent: config.agent.clone(), of: vec![], archive });
    }
    folders
}

/// A line of a session may hold its words as a JSON string.
fn says(line: &str, target: &Target) -> bool {
    let quoted = line.split_once(": ").and_then(|(_, said)| serde_json::from_str::<String>(said).ok());
    target.holds(line) || quoted.is_some_and(|said| target.holds(&said))
}

/// Replaces a file's content; who may read it stays as it was.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let failed = |source| StateError::Write { path: path.to_path_buf(), source };
    let permissions = std::fs::metadata(path).map_err(failed)?.permissions();
    write_atomically(path, bytes)?;
    std::fs::set_permissions(path, permissions).map_err(failed)
}
