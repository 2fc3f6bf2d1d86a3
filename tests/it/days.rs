//! Many days with a gateway that lives through them: it captures, edits and deletes rows by day, a commit each, with one
//! handle that stays open all the time. And what the folders look like in between.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use dreamer::dream::Options;
use dreamer::memory::Memory;
use dreamer::providers::Reasoner;
use dreamer::report::DreamReport;
use dreamer::store::{Inherit, MEMORIES, NewRow, Store, TABLES};

use crate::home::{FULL, Home, at, vectors};

/// Days far ahead: the versions these tests make are as old as the machine's clock says, which is long before.
pub const FIRST: u64 = 10_000;

/// Whether the long form of a test was asked for.
pub fn long() -> bool {
    std::env::var("TEST_LONG").is_ok_and(|value| value == "1")
}

/// What a memory may take, live or archived: its vector of 1024 numbers and its trace, as often as eight days of old versions
/// keep it in a table that is small enough to be rewritten every other night.
pub const MOST_BYTES_A_MEMORY: u64 = 8 * (1024 * 4 + 1024);

/// A gateway with its handles.
pub struct Gateway {
    store: Store,
    table: lancedb::Table,
}

impl Gateway {
    pub async fn of(home: &Home) -> Self {
        Self { store: home.store().await, table: home.gateway().await }
    }

    /// Adds rows, a commit each.
    pub async fn capture(&self, rows: &[Memory]) {
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        for (row, vector) in rows.iter().zip(vectors(&texts).await) {
            let (memory, inherit, only_if) = (row.clone(), Inherit::Nothing, vec![]);
            let written = self.store.insert(&[NewRow { memory, vector, inherit, only_if }]).await.unwrap();
            assert_eq!(written.written.len(), 1);
        }
        self.refresh().await;
    }

    /// In truth it is one handle, and it has seen what was captured.
    pub async fn refresh(&self) {
        self.table.checkout_latest().await.unwrap();
    }

    /// Writes a text in other letters, which leaves its vector right; returns it.
    pub async fn edit(&self, row: &Memory) -> String {
        let text: String = row.text.chars().map(other_case).collect();
        let update = self.table.update().only_if(format!("id = '{}'", row.id));
        let done = update.column("text", format!("'{text}'")).execute().await.unwrap();
        assert_eq!(done.rows_updated, 1);
        text
    }

    pub async fn delete(&self, id: &str) {
        let before = self.table.count_rows(None).await.unwrap();
        self.table.delete(format!("id = '{id}'").as_str()).await.unwrap();
        assert_eq!(self.table.count_rows(None).await.unwrap() + 1, before);
    }
}

fn other_case(c: char) -> char {
    if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
}

/// Deletes a handful of rows a day are no accident here.
pub const ON_PURPOSE: Options = Options { accept_vanished: true, ..FULL };

pub async fn night(home: &Home, n: u64, hour: u32) -> DreamReport {
    home.try_night(ON_PURPOSE, Reasoner::Extractive, at(n, hour)).await.unwrap()
}

/// What lies on the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// Bytes of the database's folder.
    pub bytes: u64,
    /// Its files.
    pub files: usize,
    /// Versions of `memories`, and of all tables.
    pub versions: (usize, usize),
    /// Fragments of `memories`, and of all tables.
    pub fragments: (usize, usize),
    /// Folders of runs, and their bytes.
    pub runs: (usize, u64),
    /// Rows of `memories`, the archive, the traces and the raw memories.
    pub rows: [usize; 4],
}

impl Size {
    pub async fn of(home: &Home) -> Self {
        let database = Path::new(&home.config.lancedb_uri);
        let (files, bytes) = folder(database);
        let mut size = Self { bytes, files, ..Self::default() };
        let store = home.store().await;
        for (place, table) in TABLES.into_iter().enumerate() {
            let Some(layout) = store.layout(table).await.unwrap() else { continue };
            let versions = database.join(format!("{table}.lance/_versions")).read_dir().unwrap();
            let versions = versions.filter(|v| is_manifest(&v.as_ref().unwrap().file_name())).count();
            size.rows[place] = layout.rows;
            size.versions.1 += versions;
            size.fragments.1 += layout.fragments;
            if table == MEMORIES {
                (size.versions.0, size.fragments.0) = (versions, layout.fragments);
            }
        }
        let runs = home.config.runs_dir();
        size.runs = (runs.read_dir().unwrap().count(), folder(&runs).1);
        size
    }

    /// Memories that are there, live or archived.
    pub fn memories(&self) -> usize {
        self.rows[0] + self.rows[1]
    }

    /// Bytes of the database a memory.
    pub fn per_memory(&self) -> u64 {
        self.bytes / self.memories() as u64
    }

    /// The columns of [`Self::line`].
    pub const HEADER: &str = "night\tMB\tfiles\tversions of memories\tof all\tfragments of memories\tof all\t\
         runs\tMB of runs\tlive\tarchived\ttraces\traw\tbytes a memory";

    pub fn line(&self, night: u64) -> String {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let [live, archived, traces, raw] = self.rows;
        format!(
            "{night}\t{:.1}\t{}\t{}\t{}\t{}\t{}\t{}\t{:.1}\t{live}\t{archived}\t{traces}\t{raw}\t{}",
            mb(self.bytes),
            self.files,
            self.versions.0,
            self.versions.1,
            self.fragments.0,
            self.fragments.1,
            self.runs.0,
            mb(self.runs.1),
            self.per_memory()
        )
    }
}

fn is_manifest(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().ends_with(".manifest")
}

/// Files and bytes in a folder.
fn folder(path: &Path) -> (usize, u64) {
    let entries = walkdir::WalkDir::new(path).into_iter().map(Result::unwrap);
    let sizes: Vec<u64> =
        entries.filter(|e| e.file_type().is_file()).map(|e| e.metadata().unwrap().len()).collect();
    (sizes.len(), sizes.iter().sum())
}

/// Where the long form leaves its curve.
pub fn write_curve(name: &str, lines: &[String]) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(path, format!("{}\n{}\n", Size::HEADER, lines.join("\n"))).unwrap();
}
