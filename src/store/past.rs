//! The past of a table: rows as an older version held them, read from a handle of our own, so that a running gateway's
//! is not touched; and the end of it all for `dreamer forget --erase --now`. `restore()` is never called.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::lance::Dataset;
use ::lance::dataset::cleanup::CleanupPolicy;
use ::lance::dataset::optimize::{CompactionOptions, compact_files};

use super::lance::Store;
use super::memories::{addresses_of, vectors_by_id};
use super::rows::{Columns, Ownerless, Reading};
use super::table::{Step, View, failed, unreadable};
use super::{ARCHIVE, MEMORIES, RAW, StoreError, TRACES};
use crate::memory::Memory;

/// Versions looked into at most for rows that are gone.
const LOOKED_INTO: usize = 64;

/// A row as it was, and its vector if it had one.
pub type Past = (Memory, Option<Vec<f32>>);

impl Store {
    /// Those of `ids` that `memories` held at a version.
    ///
    /// # Errors
    /// When that version is pruned or cannot be read.
    pub async fn rows_at_version(
        &self,
        version: u64,
        ids: &[String],
        default_agent: &str,
    ) -> Result<HashMap<String, Past>, StoreError> {
        let latest = self.latest_memories().await?;
        let read = |source| failed(MEMORIES, Step::Read, lancedb::Error::Lance { source });
        let dataset = latest.checkout_version(version).await.map_err(read)?;
        let view = View::new(MEMORIES, Arc::new(dataset));
        let batch = view.take(&addresses_of(&view, ids).await?, true).await?;
        let mut vectors = vectors_by_id(&batch).map_err(unreadable(MEMORIES))?;
        let columns = Columns::of(&batch, Ownerless::Nobodys).map_err(unreadable(MEMORIES))?;
        let rows = (0..batch.num_rows()).filter_map(|row| match columns.read(row, default_agent) {
            Reading::Memory(memory) => Some((memory.id.clone(), (vectors.remove(&memory.id), memory))),
            _ => None,
        });
        Ok(rows.map(|(id, (vector, memory))| (id, (memory, vector))).collect())
    }

    /// The rows of `ids` as the newest older version holds each that is found, as far as versions still exist. `known`
    /// is a version that held them. Best effort: what cannot be read is passed over.
    ///
    /// # Errors
    /// When the table itself cannot be read.
    pub async fn rows_of_the_past(
        &self,
        ids: &[String],
        known: Option<u64>,
        default_agent: &str,
    ) -> Result<HashMap<String, Past>, StoreError> {
        let mut found = HashMap::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let latest = self.latest_memories().await?;
        let read = |source| failed(MEMORIES, Step::Read, lancedb::Error::Lance { source });
        let mut versions: Vec<u64> =
            latest.versions().await.map_err(read)?.iter().map(|v| v.version).collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        let there: HashSet<u64> = versions.iter().copied().collect();
        let order = known.filter(|version| there.contains(version)).into_iter().chain(galloping(&versions));
        let mut asked = HashSet::new();
        for version in order.filter(|version| asked.insert(*version)).take(LOOKED_INTO) {
            let missing: Vec<String> = ids.iter().filter(|id| !found.contains_key(*id)).cloned().collect();
            if missing.is_empty() {
                break;
            }
            match self.rows_at_version(version, &missing, default_agent).await {
                Ok(rows) => found.extend(rows),
                Err(error) => tracing::debug!("version {version} of memories: {error}"),
            }
        }
        Ok(found)
    }

    /// Rewrites all four tables without what was deleted and removes every older version of them, so that the bytes are
    /// gone. A gateway that runs would lose the version it holds open.
    ///
    /// # Errors
    /// When a table cannot be rewritten; trying again goes on.
    pub async fn purge_the_past(&self) -> Result<(), StoreError> {
        for name in [MEMORIES, ARCHIVE, TRACES, RAW] {
            let dataset = match name {
                MEMORIES => Some(self.latest_memories().await?),
                ours => self.ours(ours).await?,
            };
            let Some(dataset) = dataset else { continue };
            let write = |source| failed(name, Step::Write, lancedb::Error::Lance { source });
            let mut dataset: Dataset = dataset.as_ref().clone();
            let options =
                CompactionOptions { materialize_deletions_threshold: 0.0, ..CompactionOptions::default() };
            compact_files(&mut dataset, options, None).await.map_err(write)?;
            let version = dataset.version().version;
            let policy = CleanupPolicy {
                before_version: Some(version),
                delete_unverified: true,
                ..CleanupPolicy::default()
            };
            dataset.cleanup_with_policy(policy).await.map_err(write)?;
        }
        Ok(())
    }

    /// Files of the database that hold one of these byte strings.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn holding(&self, needles: &[Vec<u8>]) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        holding(&self.path, needles, &mut found)
            .map_err(|source| StoreError::Read { table: MEMORIES, source: source.into() })?;
        found.sort();
        Ok(found)
    }
}

fn holding(folder: &Path, needles: &[Vec<u8>], found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            holding(&path, needles, found)?;
            continue;
        }
        let bytes = std::fs::read(&path)?;
        let has = |needle: &Vec<u8>| !needle.is_empty() && contains(&bytes, needle);
        if needles.iter().any(has) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether the bytes hold the needle: looks only where its first byte is.
fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    let Some((first, rest)) = needle.split_first() else { return false };
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| byte == first) {
        from += at + 1;
        if bytes[from..].starts_with(rest) {
            return true;
        }
    }
    false
}

/// Every version once, the newest first in growing steps, then those between: a row that vanished since the last night
/// stood in a long stretch of them, which a step soon hits.
fn galloping(newest_first: &[u64]) -> Vec<u64> {
    let steps = (0..).map(|power| 1_usize << power).take_while(|step| *step < newest_first.len());
    let mut order: Vec<u64> = steps.map(|step| newest_first[step]).collect();
    let rest: Vec<u64> = newest_first.iter().copied().filter(|version| !order.contains(version)).collect();
    order.extend(rest);
    order
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_looked_into_once_the_newest_first() {
        let versions: Vec<u64> = (1..=20).rev().collect();
        let order = galloping(&versions);
        assert_eq!(order[..5], [19, 18, 16, 12, 4]);
        let all: HashSet<u64> = order.iter().copied().collect();
        assert_eq!((order.len(), all.len()), (20, 20));
        assert_eq!(galloping(&[7]), [7]);
        assert!(galloping(&[]).is_empty());
    }

    #[test]
    fn bytes_are_found_wherever_they_stand() {
        for (bytes, needle, expected) in
            [("abcabd", "abd", true), ("aab", "ab", true), ("ab", "abc", false), ("", "a", false)]
        {
            assert_eq!(contains(bytes.as_bytes(), needle.as_bytes()), expected, "{bytes} {needle}");
        }
    }
}
