//! Nights in a home whose gateway keeps transcripts: what is learned of them, that each message is one chunk whatever else
//! holds it, and which memories were recalled or forgotten.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};
use dreamer::dream::{Models, Options, dream_with};
use dreamer::memory::Memory;
use dreamer::preview::preview;
use dreamer::privacy::Outbound;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::{Embedder, ProviderError, Reasoner, local};
use dreamer::report::{DreamReport, Status};
use dreamer::state::ledger::Ledger;
use dreamer::state::tombstones::{How, Tombstones};
use dreamer::why::why;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::home::{FULL, Home, digests, memory, vectors};

const OLD: &str = include_str!("../fixtures/openclaw/session-2026.4.15.jsonl");
const NEW: &str = include_str!("../fixtures/openclaw/session-2026.9.6.transcript_events.jsonl");
const SCHEMA: &str = include_str!("../fixtures/openclaw/agent-schema-2026.9.6.sql");

fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn date(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

/// A home with a gateway beside it: the hook's folder and the gateway's own.
struct Place {
    home: Home,
    settings: BTreeMap<&'static str, String>,
    embedded: Arc<Mutex<Vec<String>>>,
}

impl Place {
    async fn new(source: &str) -> Self {
        let home = Home::new(&[]).await;
        std::fs::create_dir_all(home.outside("notes")).unwrap();
        let path = |name: &str| home.outside(name).to_str().unwrap().to_owned();
        let settings = BTreeMap::from([
            ("DREAMER_EPISODES_DIR", path("notes")),
            ("OPENCLAW_STATE_DIR", path("state")),
            ("DREAMER_FADE", "off".to_owned()),
        ]);
        let mut place = Self { home, settings, embedded: Arc::default() };
        place.set("DREAMER_EPISODE_SOURCE", source);
        place
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.settings.insert(name, value.to_owned());
        let settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.home.set(&settings);
    }

    fn state(&self) -> PathBuf {
        self.home.outside("state")
    }

    /// A transcript of an older gateway.
    fn jsonl(&self, agent: &str, name: &str, text: &str) {
        let folder = self.state().join("agents").join(agent).join("sessions");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
    }

    /// The database of a current gateway.
    fn sqlite(&self, agent: &str) -> Connection {
        let folder = self.state().join("agents").join(agent).join("agent");
        std::fs::create_dir_all(&folder).unwrap();
        let database = Connection::open(folder.join("openclaw-agent.sqlite")).unwrap();
        let tables: i64 =
            database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        if tables == 0 {
            database.execute_batch(&format!("PRAGMA journal_mode = WAL; {SCHEMA}")).unwrap();
        }
        database
    }

    /// A file of the hook for a session.
    fn hook(&self, name: &str, at: &str, session: &str, messages: &[(&str, &str)]) {
        let quoted = |(who, text): &(&str, &str)| format!("{who}: {}\n", Value::from(*text));
        let text = format!(
            "# Session: {at} UTC\n\n- **Session Key**: agent:main:main\n- **Session ID**: {session}\n\
             - **Source**: gateway:sessions.reset\n\n## Conversation Summary\n\n{}",
            messages.iter().map(quoted).collect::<String>()
        );
        self.home.episode(name, &text);
    }

    async fn night(&self, now: &str) -> DreamReport {
        self.night_as(FULL, now).await
    }

    async fn night_as(&self, options: Options, now: &str) -> DreamReport {
        let config = &self.home.config;
        let limits = Limits::new(config.max_calls, config.max_minutes, 4, Instant::now());
        let embedder =
            Box::new(Listening(local::open("lexical", "".as_ref()).unwrap(), self.embedded.clone()));
        let models = Models { embedder, reasoner: Reasoner::Extractive, budget: Budget::new(limits) };
        dream_with(config, options, &models, time(now), Instant::now()).await.unwrap()
    }

    /// What was embedded since the last time it was asked.
    fn embedded(&self) -> Vec<String> {
        std::mem::take(&mut self.embedded.lock().unwrap())
    }

    /// Digests of all chunks in the journal, with their last fate and episode.
    fn journal(&self) -> BTreeMap<String, (String, String)> {
        let text =
            std::fs::read_to_string(self.home.config.state_dir().join("chunks.jsonl")).unwrap_or_default();
        let record = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let text_of = |value: &Value| value.as_str().unwrap().to_owned();
        text.lines()
            .map(record)
            .map(|r| (text_of(&r["digest"]), (text_of(&r["fate"]), text_of(&r["episode"]))))
            .collect()
    }

    /// The days on which rows were recalled, by id.
    async fn recalled(&self) -> BTreeMap<String, Vec<String>> {
        let traces = self.home.store().await.traces().await.unwrap().traces;
        let days = |days: &BTreeSet<NaiveDate>| days.iter().map(NaiveDate::to_string).collect::<Vec<_>>();
        traces
            .iter()
            .filter(|(_, t)| !t.recalled.is_empty())
            .map(|(id, t)| (id.clone(), days(&t.recalled)))
            .collect()
    }
}

/// The builtin embedder, and what it was asked.
struct Listening(Box<dyn Embedder>, Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Embedder for Listening {
    fn model(&self) -> &str {
        self.0.model()
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.1.lock().unwrap().extend(texts.iter().map(|text| text.as_str().to_owned()));
        self.0.embed(texts).await
    }
}

/// Events of a session: its header, then messages that follow each other.
fn talk(session: &str, messages: &[(&str, &str, &str)]) -> String {
    let mut text = format!("{}\n", json!({"type": "session", "version": 3, "id": session}));
    let mut parent = Value::Null;
    for (number, (at, role, said)) in messages.iter().enumerate() {
        let id = format!("m{number}");
        let event = match *role {
            "reset" => {
                json!({"type": "reset", "id": id, "parentId": parent, "timestamp": at, "reason": "new"})
            }
            role => json!({"type": "message", "id": id, "parentId": parent, "timestamp": at,
                           "message": {"role": role, "content": [{"type": "text", "text": said}]}}),
        };
        text.push_str(&format!("{event}\n"));
        parent = Value::from(id);
    }
    text
}

fn insert(database: &Connection, session: &str, key: &str, entry: &Value, events: &str) {
    let node = "INSERT INTO session_nodes (session_key, current_session_id, entry_json, updated_at) VALUES (?1, ?2, ?3, 0)";
    database.execute(node, [key, session, &entry.to_string()]).unwrap();
    let window =
        "INSERT INTO session_windows (session_id, session_key, created_at, updated_at) VALUES (?1, ?2, 0, 0)";
    database.execute(window, [session, key]).unwrap();
    for (seq, event) in events.lines().enumerate() {
        let row =
            "INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?1, ?2, ?3, 0)";
        database.execute(row, rusqlite::params![session, seq as i64, event]).unwrap();
    }
}

/// The rows that stand in the two real transcripts.
fn fixture_rows() -> Vec<Memory> {
    [
        ("82f69923-1a4f-41bf-8ece-0612c1c5b110", "Anna is allergic to peanuts"),
        (
            "f82f7b1e-2681-4660-af1f-e593e2585b5f",
            "Remember that my dog is called Biscuit and she turned four on Saturday.",
        ),
        ("6781e9b3-dc26-4bba-8f28-d2fbfa5165b0", "I prefer tea in the morning, never coffee."),
        ("00000000-0000-4000-8000-000000000001", "The user keeps bees on the roof."),
    ]
    .map(|(id, text)| Memory {
        created_at: time("2026-11-30T08:00:00Z").timestamp_millis(),
        ..memory(id, text, 0.5)
    })
    .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_counts_the_three_ids_of_each_success_and_none_of_a_failure_once_that_day() {
    let place = Place::new("files").await;
    let mut rows = fixture_rows();
    rows.extend(
        [
            ("027a7edb-6fd2-41a5-b609-88cbec4e84fd", "Anna must not eat any peanuts at all"),
            ("79757e18-7fe2-4e2b-be5b-354288267366", "The dog is called Biscuit and turned four on Saturday"),
            ("18aa9ed7-3937-4b6e-811d-69acdeb38faa", "Tea in the morning is what the user prefers"),
        ]
        .map(|(id, text)| memory(id, text, 0.5)),
    );
    place.home.add(&rows).await;
    place.jsonl("main", "880235eb-83ae-4dea-a023-03e858b5e462.jsonl", OLD);
    let database = place.sqlite("main");
    insert(&database, "9da7bacf-0fb2-4615-a062-1a329ba9b909", "agent:main:main", &json!({}), NEW);
    let report = place
        .night_as(Options { mode: dreamer::dream::Mode::NremOnly, ..FULL }, "2026-12-01T03:00:00Z")
        .await;
    assert_eq!(report.rem.recalled, 6);
    let expected: BTreeMap<String, Vec<String>> = rows
        .iter()
        .filter(|row| !row.text.contains("bees"))
        .map(|row| (row.id.clone(), vec!["2026-11-30".to_owned()]))
        .collect();
    assert_eq!(place.recalled().await, expected);
    // The same transcripts read twice raise nothing more, and no prompt is paid twice.
    let (before, book) = (place.home.live().await, place.home.config.state_dir().join("recalls.jsonl"));
    let written = std::fs::read_to_string(&book).unwrap();
    let report = place
        .night_as(Options { mode: dreamer::dream::Mode::NremOnly, ..FULL }, "2026-12-02T03:00:00Z")
        .await;
    assert_eq!((report.rem.recalled, place.recalled().await), (0, expected));
    assert_eq!((place.home.live().await, std::fs::read_to_string(&book).unwrap()), (before, written));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_put_before_a_prompt_counts_only_where_it_has_to_do_with_it() {
    // Without the tool, nothing but the blocks before the prompts is left.
    let blocks: String = OLD
        .lines()
        .filter(|line| !line.contains("\"role\":\"toolResult\"") && !line.contains("\"toolCall\""))
        .map(|line| format!("{line}\n"))
        .collect();
    let place = Place::new("files").await;
    place.home.add(&fixture_rows()).await;
    place.jsonl("main", "880235eb-83ae-4dea-a023-03e858b5e462.jsonl", &blocks);
    place.night("2026-12-01T03:00:00Z").await;
    // What the same words and the same threshold say, worked out here.
    let prompts = [
        ("Remember that my dog is called Biscuit and she turned four on Saturday.", vec![1, 2]),
        (
            "Please store this. TOOL:memory_store {\"text\":\"Anna is allergic to peanuts\",\"importance\":0.9,\"category\":\"fact\"}",
            vec![1, 2],
        ),
        ("What should I cook for Anna with peanuts?", vec![0, 1, 2]),
        ("Look it up. TOOL:memory_recall {\"query\":\"Anna peanuts\",\"limit\":3}", vec![0, 1, 2]),
    ];
    let rows = fixture_rows();
    let related = place.home.config.thresholds(None).unwrap().unwrap().related;
    let mut expected = BTreeSet::new();
    for (prompt, put_before) in prompts {
        for place in put_before {
            let pair = vectors(&[prompt, &rows[place].text]).await;
            let cosine: f32 = pair[0].iter().zip(&pair[1]).map(|(a, b)| a * b).sum();
            if cosine >= related {
                expected.insert(rows[place].id.clone());
            }
        }
    }
    assert!(expected.contains(&rows[1].id) && expected.len() < 3, "{expected:?}");
    assert_eq!(place.recalled().await.into_keys().collect::<BTreeSet<_>>(), expected);
    let asked = place.embedded();
    assert!(asked.iter().any(|text| text == "What should I cook for Anna with peanuts?"));
    let importance = place.home.live().await;
    place.night("2026-12-02T03:00:00Z").await;
    assert!(
        place.embedded().iter().all(|text| !text.contains("What should I cook")),
        "a prompt is embedded once"
    );
    assert_eq!(place.home.live().await, importance);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_episode_recalls_as_its_transcript_does_and_teaches_nothing_recalled() {
    let name = "2026-11-30-mock-reply-to-reply-with-only-.md";
    let text =
        include_str!("../fixtures/episodes/openclaw-2026.4.15/2026-11-30-mock-reply-to-reply-with-only-.md");
    let place = Place::new("both").await;
    let bees = "The user keeps bees on the roof.";
    let mut rows = fixture_rows();
    rows.truncate(3);
    place.home.add(&rows).await;
    place.home.episode(
        name,
        &text.replace("\n</relevant-memories>", &format!("\n4. [fact] {bees}\n</relevant-memories>")),
    );
    place.night("2026-12-01T03:00:00Z").await;
    let recalled = place.recalled().await;
    assert!(recalled.contains_key(&rows[1].id) && !recalled.contains_key(&rows[2].id), "{recalled:?}");
    let texts = place.home.texts().await;
    assert!(texts.iter().all(|text| !text.contains("bees") && !text.contains("untrusted")), "{texts:?}");
    let book = std::fs::read_to_string(place.home.config.state_dir().join("recalls.jsonl")).unwrap();
    assert!(book.contains(name));
    // Its transcript comes to light: what the file holds too counts once.
    place.jsonl("main", "880235eb-83ae-4dea-a023-03e858b5e462.jsonl", OLD);
    let before = place.recalled().await;
    place.night("2026-12-02T03:00:00Z").await;
    let now = place.recalled().await;
    assert!(now.values().all(|days| days == &["2026-11-30"]));
    assert!(before.keys().all(|id| now.contains_key(id)) && now.len() == 3, "the tool's three: {now:?}");
}

/// A session over two days, of which the hook's file has the end.
fn two_days() -> String {
    talk(
        "s-1",
        &[
            ("2026-03-09T10:00:00Z", "user", "My sister Clara studies marine biology in Lisbon."),
            ("2026-03-09T10:00:05Z", "assistant", "Noted."),
            ("2026-03-09T20:00:00Z", "user", "The boiler was serviced by Mr. Okafor."),
            ("2026-03-09T20:00:05Z", "assistant", "Good to know."),
            ("2026-03-10T09:00:00Z", "user", "I moved the standup to 10:00 on weekdays."),
            ("2026-03-10T09:00:05Z", "assistant", "I will remember that."),
            ("2026-03-10T12:00:00Z", "reset", ""),
        ],
    )
}

const END: [(&str, &str); 4] = [
    ("user", "The boiler was serviced by Mr. Okafor."),
    ("assistant", "Good to know."),
    ("user", "I moved the standup to 10:00 on weekdays."),
    ("assistant", "I will remember that."),
];

fn hook_file(place: &Place) {
    place.hook("2026-03-10-1200.md", "2026-03-10 12:00:00", "s-1", &END);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_file_and_transcript_hold_is_one_chunk_in_every_order() {
    let chunks = |place: &Place| {
        let journal = place.journal();
        assert!(journal.values().all(|(fate, _)| fate != "held_back"), "{journal:?}");
        journal.len()
    };
    // The transcript alone tells how many chunks there are.
    let alone = Place::new("transcripts").await;
    alone.jsonl("main", "s-1.jsonl", &two_days());
    alone.night("2026-03-11T03:00:00Z").await;
    let expected = chunks(&alone);
    assert_eq!(expected, 4, "three of the user's, and the last answer");
    let texts = alone.home.texts().await;
    assert!(texts.iter().any(|text| text.contains("Clara")), "the file would not hold it: {texts:?}");

    let together = Place::new("both").await;
    together.jsonl("main", "s-1.jsonl", &two_days());
    hook_file(&together);
    together.night("2026-03-11T03:00:00Z").await;
    assert_eq!((chunks(&together), together.home.texts().await), (expected, texts.clone()));
    // Only the file moves once its day is past; the transcript is nobody's to touch.
    let before = digests(&together.state());
    together.night("2026-03-13T03:00:00Z").await;
    assert!(together.home.config.archive_dir().join("2026-03-10-1200.md").is_file());
    assert_eq!((digests(&together.state()), chunks(&together)), (before, expected));

    let mut file_first = Place::new("files").await;
    hook_file(&file_first);
    file_first.night("2026-03-11T03:00:00Z").await;
    let learned = chunks(&file_first);
    file_first.set("DREAMER_EPISODE_SOURCE", "both");
    file_first.jsonl("main", "s-1.jsonl", &two_days());
    file_first.night("2026-03-12T03:00:00Z").await;
    assert_eq!(chunks(&file_first), learned + 1, "Clara alone is new: {:?}", file_first.journal());

    let mut transcript_first = Place::new("transcripts").await;
    transcript_first.jsonl("main", "s-1.jsonl", &two_days());
    transcript_first.night("2026-03-11T03:00:00Z").await;
    for source in ["both", "files"] {
        transcript_first.set("DREAMER_EPISODE_SOURCE", source);
        hook_file(&transcript_first);
        transcript_first.night("2026-03-11T04:00:00Z").await;
        assert_eq!(chunks(&transcript_first), expected, "{source}: {:?}", transcript_first.journal());
    }
    // Even where the gateway has thrown the transcript away.
    std::fs::remove_dir_all(transcript_first.state()).unwrap();
    transcript_first.night("2026-03-11T05:00:00Z").await;
    assert_eq!(chunks(&transcript_first), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_current_gateways_sessions_are_learned_but_for_private_ones_and_machines() {
    let place = Place::new("both").await;
    let said = |text: &str| {
        talk("x", &[("2026-03-10T09:00:00Z", "user", text), ("2026-03-10T09:00:05Z", "assistant", "Noted.")])
    };
    let database = place.sqlite("main");
    for (id, key, entry, text) in [
        ("a", "agent:main:main", json!({}), "My sister Clara studies marine biology in Lisbon."),
        ("b", "agent:main:dashboard:incognito-1", json!({}), "The safe is behind the oak painting."),
        ("c", "agent:main:dashboard:2", json!({"visibility": "draft"}), "The attic key hangs in the larder."),
        ("d", "agent:main:cron:job:run:1", json!({}), "The invoices were paid by Wolfgang."),
        ("e", "agent:main:subagent:1", json!({}), "The scraper found eleven hotels in Porto."),
        ("f", "agent:main:main:heartbeat", json!({}), "The heating runs at nineteen degrees."),
    ] {
        insert(&database, id, key, &entry, &said(text));
    }
    let other = place.sqlite("work");
    insert(&other, "w", "agent:work:main", &json!({}), &said("The auditors arrive from Zurich."));
    place.night("2026-03-11T03:00:00Z").await;
    let texts = place.home.texts().await;
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("Clara"));
    let sessions = place.journal();
    assert!(
        sessions.values().all(|(_, episode)| episode == "2026-03-10-transcript-a.sqlite"),
        "{sessions:?}"
    );
    // A message on a branch that was left was not said in the end.
    let forked = talk("x", &[("2026-03-10T10:00:00Z", "user", "The barn was painted ochre.")])
        + &format!(
            "{}\n",
            json!({"type": "message", "id": "m9", "parentId": null, "timestamp": "2026-03-10T10:05:00Z",
                   "message": {"role": "user", "content": "The barn was painted crimson."}})
        );
    insert(&database, "g", "agent:main:dashboard:5", &json!({}), &forked);
    place.night("2026-03-12T03:00:00Z").await;
    let texts = place.home.texts().await.join("\n");
    assert!(texts.contains("crimson") && !texts.contains("ochre"), "{texts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_a_warning_and_the_night_goes_on() {
    let place = Place::new("both").await;
    place.hook(
        "2026-03-10-1200.md",
        "2026-03-10 12:00:00",
        "s-9",
        &[("user", "My sister Clara studies marine biology in Lisbon.")],
    );
    let path = place.state().join("agents/main/agent/openclaw-agent.sqlite");
    let database = place.sqlite("main");
    database.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    let report = place.night("2026-03-11T03:00:00Z").await;
    assert_eq!((report.status, report.created.len()), (Status::Done, 1));
    assert!(
        report.warnings.iter().any(|w| w.contains("openclaw-agent.sqlite: it is locked")),
        "{:?}",
        report.warnings
    );
    database.execute_batch("COMMIT; PRAGMA user_version = 99").unwrap();
    drop(database);
    let report = place.night("2026-03-12T03:00:00Z").await;
    assert!(report.warnings.iter().any(|w| w.contains("schema 99")), "{:?}", report.warnings);
    std::fs::write(&path, vec![7_u8; 8192]).unwrap();
    let torn = two_days().replacen("{\"id\":\"m1\"", "{\"id\":\"m1", 1).replacen(
        "\"type\":\"session\"",
        "\"type\":\"sess",
        1,
    );
    place.jsonl("main", "s-1.jsonl", &torn);
    let report = place.night("2026-03-13T03:00:00Z").await;
    assert!(report.warnings.iter().any(|w| w.contains("not a database")), "{:?}", report.warnings);
    assert!(
        report.warnings.iter().any(|w| w.contains("s-1.jsonl") && w.contains("passed over")),
        "{:?}",
        report.warnings
    );
    assert!(place.home.texts().await.iter().any(|text| text.contains("Okafor")), "the rest of it is read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timed_run_leaves_a_conversation_alone_that_goes_on_and_a_preview_sees_it() {
    let mut place = Place::new("transcripts").await;
    std::fs::remove_dir(place.home.outside("notes")).unwrap();
    place.set("DREAMER_MIN_NEW", "1");
    place.jsonl("main", "s-1.jsonl", &two_days());
    place.jsonl(
        "main",
        "s-2.jsonl",
        &talk("s-2", &[("2026-03-11T02:55:00Z", "user", "The barn was painted crimson.")]),
    );
    let seen = preview(&place.home.config, time("2026-03-11T03:00:00Z")).await.unwrap();
    assert_eq!((seen.material.chunks_new, seen.material.days), (5, 3));
    assert!(!place.home.config.state_dir().join("recalls.jsonl").exists());
    let timed = Options { if_due: true, ..FULL };
    let report = place.night_as(timed, "2026-03-11T03:00:00Z").await;
    assert!(report.warnings.iter().any(|w| w.contains("goes on: it waits")), "{:?}", report.warnings);
    assert!(place.home.texts().await.iter().all(|text| !text.contains("barn")));
    let report = place.night_as(timed, "2026-03-12T03:00:00Z").await;
    assert_ne!(report.status, Status::NotDue, "{:?}", report.warnings);
    assert!(place.home.texts().await.iter().any(|text| text.contains("barn")));
    assert_eq!(place.night_as(timed, "2026-03-13T03:00:00Z").await.status, Status::NotDue);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_days_of_transcripts_are_taken_a_night_as_of_files() {
    let mut place = Place::new("transcripts").await;
    place.set("MAX_EPISODES_PER_RUN", "1");
    place.jsonl("main", "s-1.jsonl", &two_days());
    place.night("2026-03-11T03:00:00Z").await;
    assert!(place.journal().values().all(|(_, episode)| episode.starts_with("2026-03-09")));
    place.night("2026-03-12T03:00:00Z").await;
    assert_eq!(place.journal().len(), 4);
}

/// What a tool answered; it follows whatever stands before it.
fn answer(tool: &str, call: &str, at: &str, details: &Value, text: &str) -> String {
    let message = json!({"role": "toolResult", "toolCallId": call, "toolName": tool, "isError": false,
                         "content": [{"type": "text", "text": text}], "details": details});
    format!("{}\n", json!({"type": "message", "id": call, "timestamp": at, "message": message}))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_was_told_to_forget_is_not_learned_from_what_was_said_before() {
    let place = Place::new("both").await;
    let (safe, boat) = ("The safe is behind the oak painting.", "The rowing boat leaks at the stern.");
    place
        .home
        .add(&[
            memory("row-safe", safe, 0.7),
            memory("row-stale", "The user keeps snails.", 0.7),
            Memory {
                created_at: time("2026-03-10T12:00:00Z").timestamp_millis(),
                ..memory("row-kept", "The user plays the violin.", 0.7)
            },
        ])
        .await;
    place.night("2026-03-09T03:00:00Z").await;
    // One was known to a night, one was captured and forgotten on the same day, one failed, one was written later, and one
    // is still there, since the gateway's old version of the table did not hold it.
    place.home.store().await.delete(&[("row-safe".into(), safe.into())]).await.unwrap();
    let deleted = |id: &str| json!({"action": "deleted", "id": id});
    let told = talk("s-1", &[("2026-03-10T09:00:00Z", "user", safe), ("2026-03-10T09:00:05Z", "user", boat)])
        + &answer(
            "memory_forget",
            "c1",
            "2026-03-10T10:00:00Z",
            &deleted("row-safe"),
            "Memory row-safe forgotten.",
        )
        + &answer(
            "memory_forget",
            "c2",
            "2026-03-10T10:00:01Z",
            &deleted("row-boat"),
            &format!("Forgotten: \"{boat}\""),
        )
        + &answer(
            "memory_forget",
            "c3",
            "2026-03-10T10:00:02Z",
            &json!({"status": "error", "error": "busy"}),
            "{\"status\":\"error\"}",
        )
        + &answer(
            "memory_forget",
            "c4",
            "2026-03-10T10:00:03Z",
            &deleted("row-kept"),
            "Memory row-kept forgotten.",
        )
        + &answer(
            "memory_forget",
            "c5",
            "2026-03-10T10:00:04Z",
            &deleted("row-stale"),
            "Memory row-stale forgotten.",
        );
    place.jsonl("main", "s-1.jsonl", &told);
    let report = place.night("2026-03-11T03:00:00Z").await;
    assert_eq!(place.home.texts().await, ["The user plays the violin."]);
    assert_eq!(place.home.archived().await, ["row-stale"], "there is a way back");
    assert!(report.warnings.iter().any(|w| w.contains("dreamer restore row-stale")), "{:?}", report.warnings);
    assert!(!report.warnings.iter().any(|w| w.contains("snails")), "{:?}", report.warnings);
    assert_eq!(report.live, (2, 1));
    let tombstones = Tombstones::read(&place.home.config.state_dir()).unwrap();
    for id in ["row-safe", "row-boat", "row-stale"] {
        let tombstone = tombstones.get(id).unwrap();
        assert_eq!(tombstone.how, How::MemoryForget, "{id}");
        assert_eq!(tombstone.forgotten_at.date_naive(), date("2026-03-10"));
    }
    assert_eq!(tombstones.all().count(), 3);
    // Said again later it is remembered again, and the call of old takes nothing back.
    place.jsonl("main", "s-2.jsonl", &talk("s-2", &[("2026-03-11T09:00:00Z", "user", boat)]));
    for night in ["2026-03-12T03:00:00Z", "2026-03-13T03:00:00Z"] {
        place.night(night).await;
        assert!(place.home.texts().await.iter().any(|text| text.contains("rowing boat")), "{night}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_merged_last_night_is_recalled_and_forgotten_under_its_old_id() {
    let place = Place::new("files").await;
    let text = "The user lives in Bruges; before: the user lives in Ghent.";
    let ghent = "The user lives in Ghent.";
    place.home.add(&[memory("row-ghent", ghent, 0.7), memory("row-bruges", text, 0.7)]).await;
    let store = place.home.store().await;
    let leaving = dreamer::store::Leaving {
        id: "row-ghent".into(),
        text: ghent.into(),
        reason: dreamer::memory::Departure::Superseded,
        successor: Some("row-bruges".into()),
        run: "20260309-030000-000001".into(),
        at: 0,
    };
    store.archive(&[leaving]).await.unwrap();
    store.delete(&[("row-ghent".into(), ghent.into())]).await.unwrap();
    place.night("2026-03-10T03:00:00Z").await;
    // The gateway holds the table of before the night open.
    let found = json!({"count": 1, "memories": [{"id": "row-ghent", "text": ghent}]});
    let asked = talk("s-1", &[("2026-03-10T09:00:00Z", "user", "Where do I live?")])
        + &answer("memory_recall", "c1", "2026-03-10T09:00:01Z", &found, "Found 1 memories:");
    place.jsonl("main", "s-1.jsonl", &asked);
    place.night("2026-03-11T03:00:00Z").await;
    assert_eq!(place.home.trace("row-bruges").await.recalled, BTreeSet::from([date("2026-03-10")]));
    let forgotten = json!({"action": "deleted", "id": "row-ghent"});
    place.jsonl(
        "main",
        "s-2.jsonl",
        &(talk("s-2", &[("2026-03-11T09:00:00Z", "user", "Forget Ghent.")])
            + &answer("memory_forget", "c2", "2026-03-11T09:00:01Z", &forgotten, "Memory forgotten.")),
    );
    let report = place.night("2026-03-12T03:00:00Z").await;
    let told = report.warnings.iter().find(|w| w.contains("dreamer forget row-bruges"));
    assert!(told.is_some_and(|told| !told.contains("lives")), "{:?}", report.warnings);
    assert_eq!(place.home.texts().await, [text], "it was not what the call meant");
    assert!(place.home.archived().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_memory_forget_concerns_its_own_memories_alone() {
    let mut place = Place::new("files").await;
    place.set("DREAMER_AGENTS", "main,work");
    let safe = "The safe is behind the oak painting.";
    place.home.add(&[memory("row-safe", safe, 0.7), memory("row-left", "The user keeps snails.", 0.7)]).await;
    place.night("2026-03-09T03:00:00Z").await;
    dreamer::forget::forget(
        &place.home.config,
        &["row-left".to_owned()],
        &dreamer::forget::Manner::Archive,
        time("2026-03-09T10:00:00Z"),
    )
    .await
    .unwrap();
    Tombstones::lift(&place.home.config.state_dir(), &["row-left".to_owned()], time("2026-03-09T11:00:00Z"))
        .unwrap();
    let forgotten = |id: &str| json!({"action": "deleted", "id": id});
    let told = talk("s-1", &[("2026-03-10T09:00:00Z", "user", "Forget it.")])
        + &answer("memory_forget", "c1", "2026-03-10T09:00:01Z", &forgotten("row-safe"), "Memory forgotten.")
        + &answer("memory_forget", "c2", "2026-03-10T09:00:02Z", &forgotten("row-left"), "Memory forgotten.");
    place.jsonl("work", "s-1.jsonl", &told);
    place.night("2026-03-11T03:00:00Z").await;
    assert_eq!(place.home.texts().await, [safe]);
    assert_eq!(place.home.archived().await, ["row-left"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_times_and_private_sessions_under_another_name_are_no_evidence() {
    let place = Place::new("both").await;
    let wrong = talk("s-1", &[("2026-03-10T09:00:00Z", "user", "My sister Clara studies marine biology.")])
        .replace("2026-03-10T09:00:00", "+58877-01-01T00:00:00");
    let late = talk("s-2", &[("2099-03-10T09:00:00Z", "user", "The rowing boat leaks at the stern.")]);
    place.jsonl("main", "s-1.jsonl", &wrong);
    place.jsonl("main", "s-2.jsonl", &late);
    place.jsonl(
        "main",
        "secret.jsonl",
        &talk("s-3", &[("2026-03-10T09:00:00Z", "user", "I hide the gold in the barn.")]),
    );
    let index = json!({"agent:main:main": {"sessionId": "secret", "incognito": true}});
    std::fs::write(place.state().join("agents/main/sessions/sessions.json"), index.to_string()).unwrap();
    place.night("2026-03-11T03:00:00Z").await;
    let texts = place.home.texts().await.concat();
    assert!(!texts.contains("2099") && !texts.contains("58877") && !texts.contains("barn"), "{texts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_the_agent_was_told_to_forget_are_no_accident() {
    let place = Place::new("files").await;
    let rows: Vec<Memory> = (0..20)
        .map(|n| memory(&format!("row-{n:02}"), &format!("Box {n} holds part {}.", n * 7), 0.7))
        .collect();
    place.home.add(&rows).await;
    place.night("2026-03-09T03:00:00Z").await;
    let gone: Vec<(String, String)> =
        rows[..6].iter().map(|row| (row.id.clone(), row.text.clone())).collect();
    place.home.store().await.delete(&gone).await.unwrap();
    let calls: String = gone
        .iter()
        .map(|(id, _)| {
            answer(
                "memory_forget",
                &format!("c-{id}"),
                "2026-03-10T10:00:00Z",
                &json!({"action": "deleted", "id": id}),
                "",
            )
        })
        .collect();
    place.jsonl(
        "main",
        "s-1.jsonl",
        &(talk("s-1", &[("2026-03-10T09:00:00Z", "user", "Forget the boxes.")]) + &calls),
    );
    place.night("2026-03-11T03:00:00Z").await;
    assert_eq!(Tombstones::read(&place.home.config.state_dir()).unwrap().all().count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn transcripts_make_recalls_readable_and_said_again_counts_only_unprompted() {
    let mut place = Place::new("both").await;
    place.set("DREAMER_FADE", "auto");
    let violin = "I play the violin in the town orchestra.";
    place.home.add(&[memory("row-violin", violin, 0.5)]).await;
    let recalled = json!({"count": 1, "memories": [{"id": "row-other", "text": violin}]});
    let told = talk("s-1", &[("2026-03-09T09:00:00Z", "user", "What do I play?")])
        + &answer("memory_recall", "c1", "2026-03-09T09:00:01Z", &recalled, "Found 1 memories:")
        + &format!(
            "{}\n",
            json!({"type": "message", "id": "m9", "parentId": "c1", "timestamp": "2026-03-10T09:00:00Z",
                   "message": {"role": "user", "content": violin}})
        );
    place.jsonl("main", "s-1.jsonl", &told);
    place.night("2026-03-11T03:00:00Z").await;
    let days = Ledger::read(&place.home.config.state_dir()).unwrap().of("main");
    assert_eq!(days.recalls_readable, BTreeSet::from([date("2026-03-09"), date("2026-03-10")]));
    let trace = place.home.trace("row-violin").await;
    assert!(trace.reinforced.is_empty(), "the session had just recalled it: {trace:?}");
    assert!(trace.recalled.is_empty(), "another row was recalled");
    place.jsonl("main", "s-2.jsonl", &talk("s-2", &[("2026-03-11T09:00:00Z", "user", violin)]));
    place.night("2026-03-12T03:00:00Z").await;
    assert_eq!(place.home.trace("row-violin").await.reinforced, BTreeSet::from([date("2026-03-11")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_file_and_line_and_show_lists_the_recalls() {
    let place = Place::new("transcripts").await;
    place.jsonl("main", "s-1.jsonl", &two_days());
    place.night("2026-03-11T03:00:00Z").await;
    let rows = place.home.store().await.rows("main").await.unwrap().memories;
    let clara = rows.iter().find(|row| row.text.contains("Clara")).unwrap();
    let story = why(&place.home.config, &clara.id, date("2026-03-11")).await.unwrap();
    let told = serde_json::to_string(&story).unwrap();
    assert!(
        told.contains("2026-03-09-transcript-s-1.jsonl") && told.contains("agents/main/sessions/s-1.jsonl"),
        "{told}"
    );
    assert!(told.contains("\"lines\":[2,2]") && told.contains("marine biology"), "{told}");

    let found = json!({"count": 1, "memories": [{"id": clara.id, "text": clara.text}]});
    let asked = talk("s-3", &[("2026-03-11T09:00:00Z", "user", "Where does my sister study?")])
        + &answer("memory_recall", "c1", "2026-03-11T09:00:01Z", &found, "Found 1 memories:");
    place.jsonl("main", "s-3.jsonl", &asked);
    place.night("2026-03-12T03:00:00Z").await;
    let show = |extra: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
        let settings = place.settings.iter().map(|(name, value)| (*name, value.as_str()));
        let home = place.home.config.home.to_str().unwrap().to_owned();
        command.env_clear().envs(settings).env("DREAMER_HOME", home).env("DREAMER_TIMEZONE", "UTC");
        let output = command.args(["memories", "show", &clara.id]).args(extra).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = show(&[]);
    assert!(told.contains("recalled    on 1 day, last on 2026-03-11"), "{told}");
    assert!(told.contains("2026-03-11 memory_recall (2026-03-11-transcript-s-3.jsonl)"), "{told}");
    let json: Value = serde_json::from_str(&show(&["--json"])).unwrap();
    assert_eq!(json["recalls"][0]["day"], "2026-03-11");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_of_a_transcript_can_be_taken_up_again() {
    let place = Place::new("transcripts").await;
    place.jsonl("main", "s-1.jsonl", &two_days());
    place.night("2026-03-11T03:00:00Z").await;
    let name = "2026-03-09-transcript-s-1.jsonl";
    let taken = dreamer::undo::redream::redream(&place.home.config, name).await.unwrap();
    assert_eq!((taken.chunks, taken.settled, taken.came_back), (2, 2, false));
    assert_eq!(taken.name, name);
    let open =
        place.journal().values().filter(|(fate, episode)| fate == "held_back" && episode == name).count();
    assert_eq!(open, 2);
    place.night("2026-03-12T03:00:00Z").await;
    assert!(place.journal().values().all(|(fate, _)| fate != "held_back"));
    let missing =
        dreamer::undo::redream::redream(&place.home.config, "2026-03-09-transcript-s-9.jsonl").await;
    assert!(missing.unwrap_err().to_string().contains("no such file"));
}
