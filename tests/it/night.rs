//! Whole nights: a home with given files, rows and replies, then a dream, then what must be there. This file builds
//! homes and reads back what a night left in them; the modules below state behaviour.
#![allow(clippy::unwrap_used)]

mod agents;
mod drafts;
mod faults;
mod hostile;
mod injection;
mod limits;
mod memorybank;
mod models;
mod one_agent;
mod people;
mod preview;
mod relations;
mod retry;
mod review;
mod revival;
mod ticks;
mod tokens;
mod vetoes;
mod workspaces;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use chrono::{DateTime, Duration, NaiveDate, Utc};
use dreamer::config::{Config, Layers};
use dreamer::dream::{Mode, Models, Options, dream_with};
use dreamer::error::Error;
use dreamer::memory::{Archived, Category, Memory, Partition, Trace};
use dreamer::report::{DreamReport, summary};
use dreamer::state::journal::{ChunkRecord, Fate};
use dreamer::store::{Inherit, NewRow, Store};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use models::{embed, lexical};

const FULL: Options = Options { mode: Mode::Full, dry_run: false, if_due: false, accept_vanished: false };
const AGENT: &str = "main";

/// A home on a fixed day, to be filled and dreamt in.
struct Night {
    dir: tempfile::TempDir,
    settings: BTreeMap<String, String>,
    now: DateTime<Utc>,
    rows: usize,
}

impl Night {
    /// An empty home of 2026-03-11, three in the morning, with the `lexical` embedder, an empty table and settings that
    /// keep every memory.
    async fn new() -> Self {
        let night = Self::without_table();
        Store::create(&night.config().lancedb_uri, 1024).await.unwrap();
        night
    }

    /// The same, whose table is a copy of a fixture; its vectors have `dim` numbers and another embedder's model.
    fn on_fixture(fixture: &str, dim: usize) -> Self {
        let night = Self::without_table().scripted_embedder(dim);
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lancedb").join(fixture);
        let to = night.home().join("lancedb");
        for entry in walkdir::WalkDir::new(&from).min_depth(1) {
            let entry = entry.unwrap();
            let target = to.join(entry.path().strip_prefix(&from).unwrap());
            if entry.file_type().is_dir() {
                std::fs::create_dir_all(target).unwrap();
            } else {
                std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
        night
    }

    fn without_table() -> Self {
        let night = Self {
            dir: tempfile::tempdir().unwrap(),
            settings: BTreeMap::new(),
            now: "2026-03-11T03:00:00Z".parse().unwrap(),
            rows: 0,
        }
        .set("DREAMER_EMBEDDING_PROVIDER", "builtin")
        .set("DREAMER_BUILTIN_MODEL", "lexical")
        .set("DREAMER_LLM_PROVIDER", "extractive")
        .set("DREAMER_FADE", "off")
        .set("DREAMER_TIMEZONE", "UTC");
        std::fs::create_dir_all(night.home().join("episodes")).unwrap();
        night
    }

    /// For an embedder of the test's own: its similarities are given, its dimension is the table's.
    fn scripted_embedder(self, dim: usize) -> Self {
        self.set("DREAMER_EMBEDDING_PROVIDER", "openai")
            .set("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
            .set("OPENAI_EMBEDDING_MODEL", "scripted")
            .set("DREAMER_EMBEDDING_DIM", &dim.to_string())
            .set("CLUSTER_SIMILARITY", "0.9")
            .set("DEDUP_SIMILARITY", "0.9")
            .set("CONTRADICTION_SIMILARITY", "0.7")
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    fn at(mut self, now: &str) -> Self {
        self.now = now.parse().unwrap();
        self
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn config(&self) -> Config {
        let home = self.home().to_str().unwrap().to_owned();
        let mut layers = vec![("DREAMER_HOME", home.as_str())];
        layers.extend(self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        Config::resolve(&Layers::of(&layers)).unwrap().0
    }

    async fn store(&self) -> Store {
        Store::open(&self.config().lancedb_uri).await.unwrap()
    }

    /// A file among the episodes.
    fn file(&self, name: &str, text: &str) -> &Self {
        std::fs::write(self.home().join("episodes").join(name), text).unwrap();
        self
    }

    /// A session of the default agent, as the gateway writes it, at noon of that day.
    fn session(&self, day: &str, messages: &[(&str, &str)]) -> &Self {
        self.session_of(AGENT, day, "1200", messages)
    }

    fn session_of(&self, agent: &str, day: &str, slug: &str, messages: &[(&str, &str)]) -> &Self {
        let mut text = format!(
            "# Session: {day} 12:00:00 UTC\n\n- **Session Key**: agent:{agent}:main\n- **Session ID**: s\n\
             - **Source**: gateway:sessions.reset\n\n## Conversation Summary\n\n"
        );
        for (role, said) in messages {
            text.push_str(&format!("{role}: {}\n", Value::from(*said)));
        }
        self.file(&format!("{day}-{slug}.md"), &text)
    }

    /// A row the gateway captured on that day, with its `lexical` vector. Returns its id.
    async fn known(&mut self, text: &str, day: &str) -> String {
        self.known_of(AGENT, text, day).await
    }

    async fn known_of(&mut self, agent: &str, text: &str, day: &str) -> String {
        let vector = embed(lexical().as_ref(), text).await;
        self.insert(agent, text, day, vector).await
    }

    async fn insert(&mut self, agent: &str, text: &str, day: &str, vector: Vec<f32>) -> String {
        self.rows += 1;
        let day: NaiveDate = day.parse().unwrap();
        let memory = Memory {
            id: format!("{:08}-0000-4000-8000-000000000000", self.rows),
            text: text.into(),
            importance: 0.7,
            category: Category::Fact,
            created_at: day.and_hms_opt(12, 0, 0).unwrap().and_utc().timestamp_millis(),
            partition: Partition::of_agent(agent),
        };
        let id = memory.id.clone();
        let row = NewRow { memory, vector, inherit: Inherit::Nothing, only_if: vec![] };
        assert_eq!(self.store().await.insert(&[row]).await.unwrap().written.len(), 1);
        id
    }

    async fn dream(&self, models: &Models) -> DreamReport {
        self.dream_as(FULL, models).await
    }

    async fn dream_as(&self, options: Options, models: &Models) -> DreamReport {
        let report = self.try_dream(options, models).await.unwrap();
        self.check_sums(&report);
        report
    }

    async fn try_dream(&self, options: Options, models: &Models) -> Result<DreamReport, Error> {
        let config = self.config();
        config.check_night().unwrap();
        dream_with(&config, options, models, self.now, Instant::now()).await
    }

    /// The next night at the same time.
    fn next(&mut self) -> &mut Self {
        self.now += Duration::days(1);
        self
    }

    /// Dreams until nothing is held back and no day waits; every night is checked. Returns the reports.
    async fn dream_all(&mut self, models: impl Fn() -> Models, most: usize) -> Vec<DreamReport> {
        let mut reports = vec![];
        loop {
            let report = self.dream(&models()).await;
            let waits = report.fates.contains_key(&Fate::HeldBack) || report.waiting.days > 0;
            reports.push(report);
            self.next();
            if !waits {
                return reports;
            }
            assert!(reports.len() < most, "{} nights and still {:?}", most, reports.last().unwrap().groups);
        }
    }

    /// Report, summary and log give every chunk one fate and add them up to the same number.
    fn check_sums(&self, report: &DreamReport) {
        assert_eq!(report.fates.values().sum::<usize>(), report.chunks);
        let told = summary(report);
        let fates = told["nrem"]["fates"].as_object().unwrap();
        assert_eq!(fates.len(), Fate::ALL.len());
        assert_eq!(fates.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), report.chunks as u64);
        assert_eq!(told["nrem"]["chunks"], json!(report.chunks));
        if let Some(path) = &report.dream_log {
            check_log(&std::fs::read_to_string(path).unwrap(), &told);
        }
    }

    async fn memories(&self) -> Vec<Memory> {
        let mut rows = self.store().await.rows(AGENT).await.unwrap().memories;
        rows.sort_by(|a, b| a.text.cmp(&b.text));
        rows
    }

    async fn texts(&self) -> Vec<String> {
        self.memories().await.into_iter().map(|memory| memory.text).collect()
    }

    async fn archive(&self) -> Vec<Archived> {
        let mut all = self.store().await.archived_all(AGENT).await.unwrap();
        all.sort_by(|a, b| a.memory.text.cmp(&b.memory.text));
        all
    }

    async fn trace(&self, id: &str) -> Trace {
        self.store().await.traces().await.unwrap().traces.remove(id).unwrap()
    }

    /// The journal, a line a record.
    fn journal(&self) -> Vec<ChunkRecord> {
        let path = self.home().join("state/chunks.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The fates of all chunks so far; fails if one has none, or two final ones.
    fn final_fates(&self) -> BTreeMap<String, Fate> {
        let mut fates = BTreeMap::new();
        for record in self.journal().into_iter().filter(|record| record.fate.is_final()) {
            assert!(fates.insert(record.digest.clone(), record.fate).is_none(), "two fates: {record:?}");
        }
        let open: BTreeSet<String> = self.journal().into_iter().map(|r| r.digest).collect();
        assert_eq!(open, fates.keys().cloned().collect(), "chunks without a fate");
        fates
    }

    /// The names of the files in a folder of the home.
    fn files(&self, folder: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.home().join(folder)).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        files.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Digests of every file that a night without work may not touch.
    fn digests(&self) -> BTreeMap<PathBuf, String> {
        let home = self.home();
        let files = walkdir::WalkDir::new(&home).into_iter().flatten().filter(|e| e.file_type().is_file());
        files
            .map(|entry| {
                let digest = Sha256::digest(std::fs::read(entry.path()).unwrap());
                (entry.path().strip_prefix(&home).unwrap().to_owned(), format!("{digest:x}"))
            })
            // The lock is an empty file that stays; the kernel holds what matters of it.
            .filter(|(path, _)| {
                !["audit.jsonl", "dream-log", "runs", "state/lock"].iter().any(|own| path.starts_with(own))
            })
            .collect()
    }

    /// Files below the home that hold these bytes.
    fn holding(&self, bytes: &str) -> Vec<PathBuf> {
        let files = walkdir::WalkDir::new(self.home()).into_iter().flatten();
        files
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| entry.into_path())
            .filter(|path| {
                std::fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes.as_bytes())
            })
            .collect()
    }
}

/// The log as text against the summary: its numbers are read back, not those of the report.
fn check_log(log: &str, told: &Value) {
    let chunks = told["nrem"]["chunks"].as_u64().unwrap();
    let cell = |name: &str| log.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
    // A row whose count is zero is left out.
    let number = |name: &str| -> u64 {
        let digits = cell(name).map_or("0", |cell| cell.split(|c: char| !c.is_ascii_digit()).next().unwrap());
        digits.parse().unwrap()
    };
    assert_eq!(number("read"), chunks, "{log}");
    let (nrem, rem) = (&told["nrem"], &told["rem"]);
    for (name, count) in [
        ("new", &nrem["created"]),
        ("said again", &nrem["reinforced"]),
        ("merged with their history", &rem["merged"]),
        ("consolidated", &rem["consolidated"]),
        ("duplicates settled", &rem["reinforced"]),
        ("pairs kept, both", &rem["kept_both"]),
        ("recalled", &rem["recalled"]),
        ("decayed", &rem["decayed"]),
        ("faded", &rem["faded"]),
    ] {
        assert_eq!(json!(number(name)), *count, "{name} in\n{log}");
    }
    if rem["kept_both"] != 0 {
        let kept = cell("pairs kept, both").unwrap();
        assert!(kept.contains(&format!(", {} of them by veto", rem["vetoed"])), "{kept}");
    }
    if chunks == 0 {
        assert!(!log.contains("## What became of"));
        return;
    }
    let (_, table) = log.split_once("## What became of the ").unwrap();
    assert_eq!(table.split(' ').next().unwrap(), chunks.to_string());
    let (_, table) = table.split_once("|---|---|\n").unwrap();
    let mut sum = 0;
    for row in table.lines().take_while(|line| line.starts_with("| ")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (fate, count) = (cells.next().unwrap(), cells.next().unwrap());
        if fate == "**all**" {
            assert_eq!(count, format!("**{sum}**"), "{log}");
            assert_eq!(sum, chunks, "{log}");
            return;
        }
        assert_eq!(told["nrem"]["fates"][fate.replace(' ', "_")].to_string(), count, "{fate}");
        sum += count.parse::<u64>().unwrap();
    }
    panic!("the table of fates has no sum:\n{log}");
}
