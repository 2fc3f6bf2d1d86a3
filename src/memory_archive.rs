//! `memory-archive/<run>.json`: a copy of every memory that leaves, for people: one file a run, readable with any
//! editor. The archive in the database is what a memory comes back from; this is what is left when nothing else can be
//! opened. Written before the rows leave.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, FixedOffset, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::memory::{Departure, Source, Trace};
use crate::plan::{DreamPlan, RunId};
use crate::state::{StateError, read_if_there, sync_folder, write_atomically};
use crate::store::{Leaving, NewRow, Store};

/// A memory that left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Copy {
    /// Every column of its row, also those Dreamer does not know, without the vector.
    pub row: Map<String, Value>,
    /// Why it left.
    pub reason: Departure,
    /// The memory that carries its content, if any.
    pub successor: Option<String>,
    /// The run that moved it.
    pub run: String,
    /// When, in the configured time zone.
    pub archived_at: DateTime<FixedOffset>,
    /// Where it was said.
    pub sources: Vec<Source>,
}

impl Copy {
    /// The memory's id.
    pub fn id(&self) -> &str {
        self.row.get("id").and_then(Value::as_str).unwrap_or_default()
    }

    /// What it said.
    pub fn text(&self) -> &str {
        self.row.get("text").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Where the copies of a run lie.
pub fn path(folder: &Path, run: &str) -> PathBuf {
    folder.join(format!("{run}.json"))
}

/// Copies every row that is about to leave, and every draft that goes straight to the archive. Done twice it is the
/// same: a row that is gone already keeps the copy it has.
///
/// # Errors
/// When the database cannot be read or the file cannot be read or written: then nothing may leave.
pub async fn copy(plan: &DreamPlan, store: &Store, config: &Config) -> Result<(), Error> {
    if plan.leaving.is_empty() && plan.merged_drafts.is_empty() {
        return Ok(());
    }
    let path = path(&config.memory_archive_dir(), plan.run.as_str());
    let mut copies: BTreeMap<String, Copy> =
        read_file(&path)?.into_iter().map(|copy| (copy.id().to_owned(), copy)).collect();
    let mut traces: HashMap<String, Trace> = store.traces().await?.traces;
    traces.extend(plan.traces.iter().map(|trace| (trace.id.clone(), trace.clone())));
    let told = |row: Map<String, Value>, leaving: &Leaving| Copy {
        row,
        reason: leaving.reason,
        successor: leaving.successor.clone(),
        run: leaving.run.clone(),
        archived_at: local(leaving.at, config),
        sources: traces.get(&leaving.id).map(|trace| trace.sources.clone()).unwrap_or_default(),
    };
    let leaving: HashMap<&str, &Leaving> = plan.leaving.iter().map(|l| (l.id.as_str(), l)).collect();
    let ids: Vec<String> = plan.leaving.iter().map(|leaving| leaving.id.clone()).collect();
    for row in store.row_json(Some(&ids), false).await? {
        let text = |name| row.get(name).and_then(Value::as_str).unwrap_or_default();
        // A row that was edited meanwhile stays.
        if let Some(leaving) = leaving.get(text("id")).filter(|leaving| leaving.text == text("text")) {
            copies.insert(leaving.id.clone(), told(row, leaving));
        }
    }
    for draft in &plan.merged_drafts {
        copies.insert(draft.leaving.id.clone(), told(row_of(&draft.row, store), &draft.leaving));
    }
    Ok(write_file(&path, &copies.into_values().collect::<Vec<_>>())?)
}

/// Keeps only the copies of a run that `keep` wants; a file that would hold none goes, too.
///
/// # Errors
/// When the file cannot be read or written.
pub fn retain(folder: &Path, run: &str, keep: impl Fn(&Copy) -> bool) -> Result<(), StateError> {
    let path = path(folder, run);
    let all = read_file(&path)?;
    let count = all.len();
    let kept: Vec<Copy> = all.into_iter().filter(|copy| keep(copy)).collect();
    match kept.len() {
        same if same == count => Ok(()),
        0 => {
            fs::remove_file(&path).map_err(|source| StateError::Write { path: path.clone(), source })?;
            sync_folder(folder)
        }
        _ => write_file(&path, &kept),
    }
}

/// The copies of all runs, oldest run first. A file that is none of ours is passed over, and so is, with a warning, one
/// that cannot be understood: a person may have edited it.
///
/// # Errors
/// When the folder exists and cannot be listed, or a file cannot be read.
pub fn read_all(folder: &Path) -> Result<Vec<Copy>, StateError> {
    let failed = |source| StateError::Read { path: folder.to_path_buf(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let ours = path.extension().is_some_and(|extension| extension == "json")
            && stem.is_some_and(|stem| RunId::parse(stem).is_some());
        paths.extend(ours.then_some(path));
    }
    paths.sort();
    let mut copies = Vec::new();
    for path in paths {
        match read_file(&path) {
            Err(StateError::Malformed { path, detail }) => {
                tracing::warn!("{}: passed over, it cannot be understood: {detail}", path.display());
            }
            read => copies.extend(read?),
        }
    }
    Ok(copies)
}

fn read_file(path: &Path) -> Result<Vec<Copy>, StateError> {
    let Some(bytes) = read_if_there(path)? else { return Ok(Vec::new()) };
    serde_json::from_slice(&bytes)
        .map_err(|error| StateError::Malformed { path: path.to_path_buf(), detail: error.to_string() })
}

fn write_file(path: &Path, copies: &[Copy]) -> Result<(), StateError> {
    if copies.is_empty() {
        return Ok(());
    }
    let mut bytes = serde_json::to_vec_pretty(copies).expect("a copy is plain data");
    bytes.push(b'\n');
    if read_if_there(path)?.as_deref() == Some(&bytes) {
        return Ok(());
    }
    write_atomically(path, &bytes)
}

/// The row a draft would have been.
fn row_of(new: &NewRow, store: &Store) -> Map<String, Value> {
    let memory = &new.memory;
    let mut row = Map::from_iter([
        ("id".to_owned(), json!(memory.id)),
        ("text".to_owned(), json!(memory.text)),
        ("importance".to_owned(), json!(memory.importance)),
        ("category".to_owned(), json!(memory.category.as_str())),
        ("createdAt".to_owned(), json!(memory.created_at)),
    ]);
    if store.has_agent() {
        row.insert("agentId".to_owned(), json!(memory.partition.agent));
    }
    row
}

fn local(millis: i64, config: &Config) -> DateTime<FixedOffset> {
    let at: DateTime<Utc> = DateTime::from_timestamp_millis(millis).unwrap_or_default();
    at.with_timezone(&config.timezone).fixed_offset()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn copy_of(id: &str) -> Copy {
        Copy {
            row: Map::from_iter([("id".to_owned(), json!(id)), ("text".to_owned(), json!("likes tea"))]),
            reason: Departure::Faded,
            successor: None,
            run: "r-1".into(),
            archived_at: "2026-03-10T03:00:00+01:00".parse().unwrap(),
            sources: vec![],
        }
    }

    #[test]
    fn what_did_not_leave_after_all_is_taken_out_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(dir.path(), "r-1");
        write_file(&path, &[copy_of("a"), copy_of("b")]).unwrap();
        retain(dir.path(), "r-1", |copy| copy.id() == "b").unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), [copy_of("b")]);
        retain(dir.path(), "r-1", |_| false).unwrap();
        assert!(!path.exists() && read_all(dir.path()).unwrap().is_empty());
        retain(dir.path(), "r-1", |_| false).unwrap();
    }

    #[test]
    fn a_person_can_read_it_and_other_files_do_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        write_file(&path(dir.path(), "r-1"), &[copy_of("a")]).unwrap();
        std::fs::write(dir.path().join("my notes.json"), "{}").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        assert_eq!(read_all(dir.path()).unwrap().len(), 1);
        let text = std::fs::read_to_string(path(dir.path(), "r-1")).unwrap();
        assert!(text.lines().count() > 8 && text.contains(r#"  "text": "likes tea""#), "{text}");
    }

    #[test]
    fn a_damaged_file_costs_no_other_and_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        write_file(&path(dir.path(), "r-2"), &[copy_of("a")]).unwrap();
        std::fs::write(path(dir.path(), "r-1"), "[{").unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), [copy_of("a")]);
        let told = crate::error::chain(&retain(dir.path(), "r-1", |_| true).unwrap_err());
        assert!(told.contains("r-1.json"), "{told}");
        assert_eq!(std::fs::read(path(dir.path(), "r-1")).unwrap(), b"[{");
    }
}
