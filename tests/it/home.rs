//! A home for whole nights: rows, traces and episodes at given dates, a night at a given time, and what is there
//! afterwards. What should be there is for the tests that use it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use chrono::{DateTime, Days, NaiveDate, Utc};
use dreamer::config::{Config, Layers, MaskPii};
use dreamer::dream::{self, Mode, Models, Options, dream_with};
use dreamer::error::Error;
use dreamer::memory::{Category, Departure, Memory, Partition, Trace};
use dreamer::plan::{DreamPlan, Run, RunId};
use dreamer::privacy::Privacy;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::{Reasoner, local};
use dreamer::report::DreamReport;
use dreamer::store::{Inherit, Leaving, NewRow, Store};
use sha2::{Digest, Sha256};

pub const FULL: Options = Options { mode: Mode::Full, dry_run: false, if_due: false, accept_vanished: false };
pub const DRY: Options = Options { dry_run: true, ..FULL };

/// Day 0 of every test is 2026-01-01.
pub fn day(n: u64) -> NaiveDate {
    "2026-01-01".parse::<NaiveDate>().unwrap() + Days::new(n)
}

/// That hour of the day, UTC.
pub fn at(n: u64, hour: u32) -> DateTime<Utc> {
    day(n).and_hms_opt(hour, 0, 0).unwrap().and_utc()
}

/// A row as a gateway writes it, on the eve of day 0.
pub fn memory(id: &str, text: &str, importance: f64) -> Memory {
    Memory {
        id: id.into(),
        text: text.into(),
        importance,
        category: Category::Fact,
        created_at: at(0, 0).timestamp_millis() - 3_600_000,
        partition: Partition::of_agent("main"),
    }
}

/// A session of an agent in the format of a current gateway.
pub fn session(said: NaiveDate, messages: &[(&str, &str)]) -> String {
    let quoted = |(who, text): &(&str, &str)| format!("{who}: {}\n", serde_json::Value::from(*text));
    format!(
        "# Session: {said} 12:00:00 UTC\n\n- **Session Key**: agent:main:main\n- **Session ID**: {said}\n\
         - **Source**: gateway:sessions.reset\n\n## Conversation Summary\n\n{}",
        messages.iter().map(quoted).collect::<String>()
    )
}

/// Sentences that have little to do with each other: invented words, the same ones each time.
pub fn strange_sentences(count: usize) -> Vec<String> {
    let mut state: u64 = 7;
    let mut word = || {
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((state >> 33) % 26) as u8)
        };
        (0..8).map(|_| letter()).collect::<String>()
    };
    (0..count).map(|_| format!("{} {} {} {} {}.", word(), word(), word(), word(), word())).collect()
}

/// The vector the builtin embedder gives.
pub async fn vectors(texts: &[&str]) -> Vec<Vec<f32>> {
    let privacy = Privacy::new(MaskPii::Never, false);
    let outbound: Vec<_> = texts.iter().map(|text| privacy.to_embed(text)).collect();
    local::open("lexical", "".as_ref()).unwrap().embed(&outbound).await.unwrap()
}

/// Digests of every file under a folder, by relative path.
pub fn digests(folder: &Path) -> BTreeMap<PathBuf, String> {
    let files =
        walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    files
        .map(|file| {
            let digest = format!("{:x}", Sha256::digest(std::fs::read(file.path()).unwrap()));
            (file.path().strip_prefix(folder).unwrap().to_path_buf(), digest)
        })
        .collect()
}

/// Copies a folder, whatever is there already.
pub fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What a person would find: live rows and archive with their vectors, traces, the agent's days, fates, files.
#[derive(Debug, PartialEq)]
pub struct State {
    pub live: Vec<String>,
    pub archived: Vec<String>,
    pub traces: BTreeMap<String, String>,
    pub raw: usize,
    pub state: BTreeMap<PathBuf, String>,
    pub episodes: BTreeMap<PathBuf, String>,
    pub logs: Vec<PathBuf>,
}

impl State {
    /// Panics with what differs, and with nothing else.
    pub fn assert_same(&self, other: &Self, when: &str) {
        let lines = |state: &Self| -> std::collections::BTreeSet<String> {
            format!("{state:#?}").lines().map(str::to_owned).collect()
        };
        let (one, other_lines) = (lines(self), lines(other));
        let differs: Vec<_> = one.symmetric_difference(&other_lines).collect();
        assert!(self == other, "{when}: {differs:#?}");
    }
}

/// A home with its settings.
pub struct Home {
    dir: tempfile::TempDir,
    pub config: Config,
}

impl Home {
    /// A home with an empty table: builtin embedder, no language model, UTC, fading on, unless set otherwise.
    pub async fn new(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let mut home = Self { config: configure(&home, settings), dir };
        std::fs::create_dir_all(&home.config.episodes_dir).unwrap();
        Store::create(&home.config.lancedb_uri, 1024).await.unwrap();
        home.config = configure(&home.config.home, settings);
        home
    }

    /// The same home with other settings.
    pub fn set(&mut self, settings: &[(&str, &str)]) {
        self.config = configure(&self.config.home, settings);
    }

    /// A folder beside the home, for what is the gateway's.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub async fn store(&self) -> Store {
        Store::open(&self.config.lancedb_uri).await.unwrap()
    }

    /// Adds rows as a gateway does.
    pub async fn add(&self, rows: &[Memory]) {
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let new = |(row, vector): (&Memory, Vec<f32>)| NewRow {
            memory: row.clone(),
            vector,
            inherit: Inherit::Nothing,
            only_if: vec![],
        };
        let rows: Vec<NewRow> = rows.iter().zip(vectors(&texts).await).map(new).collect();
        assert_eq!(self.store().await.insert(&rows).await.unwrap().written.len(), rows.len());
    }

    /// The table as the gateway holds it open.
    pub async fn gateway(&self) -> lancedb::Table {
        let connection = lancedb::connect(&self.config.lancedb_uri).execute().await.unwrap();
        connection.open_table("memories").execute().await.unwrap()
    }

    pub fn episode(&self, name: &str, text: &str) -> PathBuf {
        let path = self.config.episodes_dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A day on which the user only says hello.
    pub fn hello(&self, n: u64) {
        let greeting = [("user", "Good morning!"), ("assistant", "Good morning!")];
        self.episode(&format!("{}.md", day(n)), &session(day(n), &greeting));
    }

    /// Notes recalls, a line each.
    pub fn recall(&self, lines: &[&str]) {
        std::fs::create_dir_all(self.config.recalls_dir()).unwrap();
        std::fs::write(self.config.recalls_dir().join("agent.jsonl"), lines.join("\n")).unwrap();
    }

    /// A night without a language model.
    pub async fn night(&self, now: DateTime<Utc>) -> DreamReport {
        self.try_night(FULL, Reasoner::Extractive, now).await.unwrap()
    }

    pub async fn try_night(
        &self,
        options: Options,
        reasoner: Reasoner<'static>,
        now: DateTime<Utc>,
    ) -> Result<DreamReport, Error> {
        let limits = Limits::new(self.config.max_calls, self.config.max_minutes, 4, Instant::now());
        let embedder = local::open("lexical", "".as_ref()).unwrap();
        let models = Models { embedder, reasoner, budget: Budget::new(limits) };
        dream_with(&self.config, options, &models, now, Instant::now()).await
    }

    pub async fn apply(&self, run: &str, now: DateTime<Utc>) -> Result<DreamReport, Error> {
        dream::apply(&self.config, run, now, Instant::now()).await
    }

    pub fn run(&self, id: &str) -> Run {
        Run::of(&self.config.runs_dir(), RunId::parse(id).unwrap())
    }

    pub fn plan(&self, id: &str) -> DreamPlan {
        self.run(id).read_plan().unwrap()
    }

    /// Live rows as text and importance, in the order of their texts.
    pub async fn live(&self) -> Vec<(String, f64)> {
        let rows = self.store().await.rows("main").await.unwrap().memories;
        let mut rows: Vec<_> = rows.into_iter().map(|row| (row.text, row.importance)).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    }

    pub async fn texts(&self) -> Vec<String> {
        self.live().await.into_iter().map(|(text, _)| text).collect()
    }

    pub async fn trace(&self, id: &str) -> Trace {
        self.store().await.traces().await.unwrap().traces.remove(id).unwrap()
    }

    pub async fn archived(&self) -> Vec<String> {
        let archived = self.store().await.archived_all("main").await.unwrap();
        let mut ids: Vec<String> = archived.into_iter().map(|a| a.memory.id).collect();
        ids.sort();
        ids
    }

    /// Everything that must be the same after a crash and a second run as after one clean run.
    pub async fn state(&self) -> State {
        let store = self.store().await;
        let archived = store.archived_all("main").await.unwrap();
        let ids: Vec<String> = archived.iter().map(|a| a.memory.id.clone()).collect();
        let vectors = store.archived_vectors(&ids).await.unwrap();
        let short = |vector: String| format!("{:x}", Sha256::digest(vector.as_bytes()));
        let row = |mut row: serde_json::Map<String, serde_json::Value>| {
            let vector = short(row.remove("vector").unwrap().to_string());
            format!("{} {vector}", serde_json::Value::from(row))
        };
        let mut live: Vec<String> = store.row_json(None, true).await.unwrap().into_iter().map(row).collect();
        let mut archived: Vec<String> = archived
            .iter()
            .map(|a| format!("{a:?} {}", short(format!("{:?}", vectors[&a.memory.id]))))
            .collect();
        live.sort();
        archived.sort();
        let traces = store.traces().await.unwrap().traces;
        let mut state = digests(&self.config.state_dir());
        state.remove(Path::new("lock"));
        // A killed night may take another number of commits to the same end.
        state.remove(Path::new("versions.json"));
        State {
            live,
            archived,
            traces: traces.into_iter().map(without_chance).collect(),
            raw: store.raw_all().await.unwrap().len(),
            state,
            episodes: digests(&self.config.home.join("episodes")),
            logs: digests(&self.config.dream_log_dir()).into_keys().collect(),
        }
    }
}

/// A trace without the random end of its run's id.
fn without_chance((id, mut trace): (String, Trace)) -> (String, String) {
    trace.run.truncate("20260103-220000".len());
    (id, format!("{trace:?}"))
}

fn configure(home: &Path, settings: &[(&str, &str)]) -> Config {
    let home = home.to_str().unwrap();
    let defaults = [
        ("DREAMER_HOME", home),
        ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
        ("DREAMER_BUILTIN_MODEL", "lexical"),
        ("DREAMER_LLM_PROVIDER", "extractive"),
        ("DREAMER_TIMEZONE", "UTC"),
        ("DREAMER_FADE", "on"),
    ];
    let mut all: BTreeMap<&str, &str> = defaults.into_iter().collect();
    all.extend(settings.iter().copied());
    let all: Vec<(&str, &str)> = all.into_iter().collect();
    Config::resolve(&Layers::of(&all)).unwrap().0
}

/// A home before an eventful night: on day 2 a standup known from day 0 has moved, jazz that had faded is said again,
/// two rows say the same, a heron is about to fade, and a violin decays. The night is due at `at(2, 20)`.
pub async fn eventful(settings: &[(&str, &str)]) -> Home {
    let home = Home::new(settings).await;
    home.prepare_eventful_night().await;
    home
}

impl Home {
    /// See [`eventful`].
    pub async fn prepare_eventful_night(&self) {
        let first = session(
            day(0),
            &[
                ("user", "Our team standup is at 9:00 every weekday."),
                ("assistant", "Noted."),
                ("user", "I love listening to jazz on vinyl records."),
                ("assistant", "Jazz it is."),
            ],
        );
        self.episode(&format!("{}.md", day(0)), &first);
        let heron = memory("heron", "The user once saw a heron by the pond.", 0.1575);
        self.add(&[heron, memory("violin", "The user plays the violin badly.", 0.8)]).await;
        self.night(at(0, 20)).await;
        let store = self.store().await;
        let rows = store.rows("main").await.unwrap().memories;
        assert_eq!(rows.len(), 4, "{rows:?}");
        let jazz = rows.iter().find(|row| row.text.contains("jazz")).unwrap();
        let leaving = Leaving {
            id: jazz.id.clone(),
            text: jazz.text.clone(),
            reason: Departure::Faded,
            successor: None,
            run: "long-ago".into(),
            at: 0,
        };
        store.archive(&[leaving]).await.unwrap();
        store.delete(&[(jazz.id.clone(), jazz.text.clone())]).await.unwrap();
        let lamp = "The user bought a brass lamp.";
        self.add(&[memory("lamp-1", lamp, 0.7), memory("lamp-2", lamp, 0.5)]).await;
        self.hello(1);
        let second = session(
            day(2),
            &[
                ("user", "Our team standup moved to 10:00 every weekday."),
                ("assistant", "Noted."),
                ("user", "I love listening to jazz on vinyl records."),
                ("assistant", "Still jazz."),
                ("user", "My sister Clara studies marine biology in Lisbon."),
            ],
        );
        self.episode(&format!("{}.md", day(2)), &second);
    }
}
