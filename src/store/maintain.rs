//! Keeping tables small: fragments put together, versions nobody reads any more removed, raw memories whose time is over
//! deleted. What is old enough comes in from outside; a commit of somebody else's meanwhile always wins.

use std::time::Duration;

use ::lance::Dataset;
use ::lance::dataset::cleanup::CleanupPolicyBuilder;
use ::lance::dataset::optimize::CompactionOptions;
use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use lancedb::table::OptimizeAction;

use super::lance::Store;
use super::rows::{self, text_at};
use super::table::{Step, View, failed, lance_error, unreadable};
use super::{ARCHIVE, MEMORIES, RAW, StoreError, TRACES};

/// Every table Dreamer writes to.
pub const TABLES: [&str; 4] = [MEMORIES, ARCHIVE, TRACES, RAW];

/// So many small fragments are worth a rewrite. A gateway makes one with every row it captures.
const MANY_FRAGMENTS: usize = 10;
/// A deleted row in so many is worth a rewrite.
const DELETED_SHARE: usize = 10;
/// A full fragment: a sixteenth of the table, so that a night rewrites little of a large one, and at least so many rows.
const FULL_FRAGMENT: usize = 1_000;
/// LanceDB's own fragment size.
const LARGEST_FRAGMENT: usize = 1024 * 1024;
/// Compaction loses to every other commit; it is tried so often.
const TRIES: u32 = 4;

/// How a table lies on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// The latest version.
    pub version: u64,
    /// Live rows.
    pub rows: usize,
    /// Rows that are marked as deleted and still lie there.
    pub deleted: usize,
    /// Fragments.
    pub fragments: usize,
    /// Fragments that are not full.
    pub small: usize,
}

impl Layout {
    /// Rows of a full fragment in a table of that size.
    fn full_fragment(rows: usize) -> usize {
        (rows / 16).clamp(FULL_FRAGMENT, LARGEST_FRAGMENT)
    }

    /// Whether putting it together pays: it writes up to a sixteenth of the rows anew, and old versions keep theirs.
    fn is_worth_compacting(&self) -> bool {
        self.small >= MANY_FRAGMENTS || self.deleted * DELETED_SHARE > self.rows + self.deleted
    }
}

/// What pruning removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Versions.
    pub versions: u64,
    /// Bytes of all their files.
    pub bytes: u64,
}

impl Store {
    /// How one of [`TABLES`] lies on disk; none if there is no such table.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn layout(&self, table: &'static str) -> Result<Option<Layout>, StoreError> {
        match self.latest_of(table).await? {
            Some(dataset) => layout(table, &dataset).await.map(Some),
            None => Ok(None),
        }
    }

    /// Puts small fragments together and drops deleted rows, where that pays: one commit, or none. True if it did. Rows
    /// that somebody adds, changes or deletes meanwhile are never lost: their commit wins, and this one is tried again.
    ///
    /// # Errors
    /// When the table cannot be read or written; [`StoreError::Contended`] when others would not stop writing.
    pub async fn compact(&self, table: &'static str) -> Result<bool, StoreError> {
        let mut pause = Duration::from_millis(50);
        for attempt in 1..=TRIES {
            match self.compact_once(table).await {
                Err(StoreError::Contended { .. }) if attempt < TRIES => tokio::time::sleep(pause).await,
                done => return done,
            }
            pause *= 4;
        }
        unreachable!("the last attempt returns")
    }

    async fn compact_once(&self, table: &'static str) -> Result<bool, StoreError> {
        let Some(layout) = self.layout(table).await? else { return Ok(false) };
        if !layout.is_worth_compacting() {
            return Ok(false);
        }
        let Some(handle) = self.table(table).await? else { return Ok(false) };
        let options = CompactionOptions {
            target_rows_per_fragment: Layout::full_fragment(layout.rows),
            // One rewrite at a time: it runs beside a gateway, and memory is scarce on small machines.
            num_threads: Some(1),
            ..CompactionOptions::default()
        };
        let compact = OptimizeAction::Compact { options, remap_options: None };
        let stats = handle.optimize(compact).await.map_err(|error| failed(table, Step::Write, error))?;
        Ok(stats.compaction.is_some_and(|done| done.fragments_removed > 0))
    }

    /// Removes the versions before `before` that were also made before `made_before`, and the files only they use. Never
    /// the latest one, a tagged one, or files of which it is not certain that no commit under way needs them.
    ///
    /// # Errors
    /// When the table cannot be read, or files cannot be removed.
    pub async fn prune_versions(
        &self,
        table: &'static str,
        before: u64,
        made_before: DateTime<Utc>,
    ) -> Result<Pruned, StoreError> {
        let Some(dataset) = self.latest_of(table).await? else { return Ok(Pruned::default()) };
        let mut policy = CleanupPolicyBuilder::default()
            .before_timestamp(made_before)
            .error_if_tagged_old_versions(false)
            .delete_unverified(false)
            .build();
        policy.before_version = Some(before);
        let removed = dataset.cleanup(policy).execute().await;
        let removed = removed.map_err(|error| failed(table, Step::Write, lance_error(error)))?;
        Ok(Pruned { versions: removed.old_versions, bytes: removed.bytes_removed })
    }

    /// Every raw memory's id with the run that wrote it.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn raw_runs(&self) -> Result<Vec<(String, String)>, StoreError> {
        let Some(dataset) = self.ours(RAW).await? else { return Ok(Vec::new()) };
        let batch = View::new(RAW, dataset).scan(&["id", "run"]).await?;
        let columns = || Ok((rows::strings(&batch, "id")?, rows::strings(&batch, "run")?));
        let (id, run) = columns().map_err(unreadable(RAW))?;
        let pair = |row| Some((text_at(id.as_ref(), row)?, text_at(run.as_ref(), row).unwrap_or_default()));
        Ok((0..batch.num_rows()).filter_map(pair).collect())
    }

    async fn latest_of(&self, table: &'static str) -> Result<Option<std::sync::Arc<Dataset>>, StoreError> {
        match table {
            MEMORIES => self.latest_memories().await.map(Some),
            ours => self.ours(ours).await,
        }
    }
}

async fn layout(table: &'static str, dataset: &Dataset) -> Result<Layout, StoreError> {
    let read = |error| failed(table, Step::Read, lance_error(error));
    // Tables of old gateways do not have these numbers in their manifest: then the file is asked.
    let counts =
        futures::stream::iter(dataset.get_fragments().into_iter().map(Ok)).and_then(|fragment| async move {
            let rows = fragment.physical_rows().await?;
            Ok::<_, ::lance::Error>((rows, fragment.count_deletions().await?))
        });
    let counts: Vec<(usize, usize)> = counts.try_collect().await.map_err(read)?;
    let deleted: usize = counts.iter().map(|(_, deleted)| deleted).sum();
    let rows = counts.iter().map(|(rows, _)| rows).sum::<usize>() - deleted;
    let full = Layout::full_fragment(rows);
    Ok(Layout {
        version: dataset.version().version,
        rows,
        deleted,
        fragments: counts.len(),
        small: counts.iter().filter(|(rows, _)| *rows < full).count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_pays_for_many_small_fragments_or_many_deleted_rows() {
        for (rows, deleted, small, expected) in [
            (0, 0, 0, false),
            (2_000, 0, 1, false),
            (2_000, 0, 9, false),
            (2_000, 0, 10, true),
            (90, 10, 1, false),
            (89, 11, 1, true),
            (0, 5, 1, true),
        ] {
            let layout = Layout { rows, deleted, small, ..Layout::default() };
            assert_eq!(layout.is_worth_compacting(), expected, "{layout:?}");
        }
    }

    #[test]
    fn a_full_fragment_is_a_sixteenth_of_a_large_table() {
        for (rows, full) in [(0, 1_000), (16_000, 1_000), (160_000, 10_000), (100_000_000, 1_048_576)] {
            assert_eq!(Layout::full_fragment(rows), full);
        }
    }
}
