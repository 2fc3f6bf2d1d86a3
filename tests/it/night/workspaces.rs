//! Several agents in one table, each with a folder of its own: one run handles all of them and mixes nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use async_trait::async_trait;
use dreamer::config::{Config, ConfigError, Layers};
use dreamer::dream::Models;
use dreamer::error::Error;
use dreamer::forget::{Manner, forget};
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::{LanguageModel, Prompt, ProviderError, Reasoner, Reply};
use dreamer::report::DreamReport;
use dreamer::undo::redream::{RedreamError, redream};
use dreamer::why::{Kept, why};

use super::models::{Script, embed, extractive, lexical, prompts, scripted};
use super::{FULL, Night};

const A: &str = "I decided to sell the old piano to Bernhard.";
const B: &str = "My sister Carla moved to Lisbon in March.";
const CLAIMS: [&str; 6] = [
    A,
    B,
    "We prefer oak for the kitchen floor.",
    "The dentist wants to see me about my wisdom tooth.",
    "Our neighbours keep bees behind the garage.",
    "I bought a brass lamp for the study.",
];

/// A night of the agents `a` and `b`, whose folders lie outside the home, as a gateway's do.
async fn with_two() -> Night {
    let night = Night::new().await;
    let folder = |agent: &str| {
        let folder = workspace(&night, agent);
        std::fs::create_dir_all(&folder).unwrap();
        format!("{agent}={}", folder.display())
    };
    let agents = format!("{}, {}", folder("a"), folder("b"));
    night.set("DREAMER_AGENTS", &agents)
}

fn workspace(night: &Night, agent: &str) -> PathBuf {
    night.dir.path().join(agent).join("memory")
}

fn write(night: &Night, agent: &str, name: &str, text: &str) -> PathBuf {
    let path = workspace(night, agent).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn archived(night: &Night, agent: &str, name: &str) -> PathBuf {
    night.home().join("episodes/archive").join(agent).join(name)
}

/// Texts of an agent's memories.
async fn texts_of(night: &Night, agent: &str) -> Vec<String> {
    let rows = night.memories().await.into_iter().filter(|row| row.partition.agent == agent);
    rows.map(|row| row.text).collect()
}

fn told<'a>(report: &'a DreamReport, part: &str) -> Option<&'a String> {
    report.warnings.iter().find(|warning| warning.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_dreams_for_every_agent_and_mixes_nothing() {
    let mut night = with_two().await;
    let name = "2026-03-08.md";
    write(&night, "a", name, A);
    write(&night, "b", name, B);
    // The same words in both: two memories of two agents.
    write(&night, "a", "2026-03-07-same.md", CLAIMS[2]);
    write(&night, "b", "2026-03-07-same.md", CLAIMS[2]);
    let report = night.dream(&extractive()).await;
    assert_eq!((report.created.len(), report.episodes.len(), report.rem.candidates), (4, 4, 0), "{report:?}");
    for (agent, own, other) in [("a", "piano", "Carla"), ("b", "Carla", "piano")] {
        let texts = texts_of(&night, agent).await;
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(
            texts.iter().any(|text| text.contains(own)) && !texts.iter().any(|text| text.contains(other))
        );
    }
    let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
    for agent in ["a", "b"] {
        assert!(
            log.contains(&format!("| `{agent}` | 0 | 2 chunks of 2 episodes | 2 | 0 | 0 | 0 |")),
            "{log}"
        );
    }

    // Two files of one name: each lies in its agent's archive, whole.
    assert_eq!(std::fs::read_to_string(archived(&night, "a", name)).unwrap(), A);
    assert_eq!(std::fs::read_to_string(archived(&night, "b", name)).unwrap(), B);
    assert!(!workspace(&night, "a").join(name).exists() && !workspace(&night, "b").join(name).exists());

    // `why` reads the right one, and says where it lies.
    for created in &report.created {
        let told = why(&night.config(), &created.memory.id, night.now.date_naive()).await.unwrap();
        let place = &told.sources[0];
        assert_eq!(place.kept, Kept::Episode);
        let file = place.file.clone().unwrap();
        assert_eq!(file, archived(&night, &created.memory.agent, &place.episode));
        let excerpt = place.excerpt.clone().unwrap();
        assert!(created.memory.text.contains(excerpt.trim()), "{excerpt} is not in {}", created.memory.text);
    }

    // `redream` asks which one is meant, and brings it back to its own folder.
    let config = night.config();
    let error = redream(&config, name).await.unwrap_err();
    assert!(matches!(&error, Error::Redream(RedreamError::Several { .. })), "{error}");
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains(archived(&night, "b", name).to_str().unwrap()), "{error}");
    let back = redream(&config, archived(&night, "b", name).to_str().unwrap()).await.unwrap();
    assert_eq!((back.path.as_path(), back.settled), (workspace(&night, "b").join(name).as_path(), 1));
    let report = night.next().dream(&extractive()).await;
    assert_eq!((report.chunks, report.created.len(), report.strengthened.len()), (1, 0, 1), "{report:?}");
    assert_eq!(report.strengthened[0].memory.agent, "b");
    assert_eq!(std::fs::read_to_string(archived(&night, "a", name)).unwrap(), A);
    assert_eq!(std::fs::read_to_string(archived(&night, "b", name)).unwrap(), B);
    assert_eq!(night.memories().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_erased_goes_from_the_archive_of_its_agent() {
    let night = with_two().await;
    let name = "2026-03-08.md";
    write(&night, "a", name, A);
    write(&night, "b", name, B);
    let report = night.dream(&extractive()).await;
    let of_b = report.created.iter().find(|new| new.memory.agent == "b").unwrap().memory.id.clone();
    let manner = Manner::Erase { now: None, episodes: false };
    forget(&night.config(), &[of_b], &manner, night.now).await.unwrap();
    assert!(!std::fs::read_to_string(archived(&night, "b", name)).unwrap().contains("Carla"));
    assert_eq!(std::fs::read_to_string(archived(&night, "a", name)).unwrap(), A);
    assert_eq!(
        night
            .holding("sister Carla")
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "md"))
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_key_counts_more_than_the_folder_a_file_lies_in() {
    let night = with_two().await;
    let session = |agent: &str, said: &str| {
        format!(
            "# Session: 2026-03-08 12:00:00 UTC\n\n- **Session Key**: agent:{agent}:main\n- **Session ID**: s\n\
             - **Source**: x\n\n## Conversation Summary\n\nuser: {}\n",
            serde_json::to_string(said).unwrap()
        )
    };
    write(&night, "b", "2026-03-08-a.md", &session("a", A));
    write(&night, "b", "2026-03-08-b.md", &session("b", B));
    let stranger = write(&night, "b", "2026-03-08-c.md", &session("c", CLAIMS[2]));
    let report = night.dream(&extractive()).await;
    assert_eq!(texts_of(&night, "a").await.len(), 1);
    assert_eq!(texts_of(&night, "b").await.len(), 1);
    assert_eq!(night.memories().await.len(), 2);
    assert!(told(&report, "2026-03-08-a.md: it lies in the folder of b").is_some(), "{:?}", report.warnings);
    let left = told(&report, "DREAMER_AGENTS does not name them").unwrap();
    assert!(left.contains("1 episode of `c`"), "{left}");
    assert!(stranger.is_file(), "it is left where it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_starves_another() {
    let night = with_two().await.set("MAX_NEW_MEMORIES", "2").set("MAX_EPISODES_PER_RUN", "1");
    // Much and old of `a`, little and new of `b`.
    for (day, claims) in [("2026-03-01", &CLAIMS[..4]), ("2026-03-02", &CLAIMS[4..])] {
        write(&night, "a", &format!("{day}.md"), &claims.join("\n\n"));
    }
    write(&night, "b", "2026-03-09.md", B);
    let report = night.dream(&extractive()).await;
    let created = |agent: &str| report.created.iter().filter(|new| new.memory.agent == agent).count();
    assert_eq!((created("a"), created("b"), report.waiting.days), (2, 1, 1), "{report:?}");
}

/// A model that costs what a real one does, and finds nothing worth a memory.
struct Metered(Arc<Budget>, Arc<Mutex<Vec<String>>>);

#[async_trait]
impl LanguageModel for Metered {
    fn model(&self) -> &str {
        "metered"
    }

    async fn complete(&self, prompt: &Prompt) -> Result<Reply, ProviderError> {
        let reached = self.0.start(0).await.map(drop);
        reached.map_err(|reached| ProviderError::Exhausted { model: "metered".into(), what: reached.0 })?;
        self.1.lock().unwrap().push(prompt.user.as_str().to_owned());
        Ok(Reply { text: r#"{"memories": []}"#.into(), input_tokens: 0, output_tokens: 0 })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_shared_between_agents() {
    // One cluster a request, and fewer requests than either of them could use.
    let night = with_two().await.set("MAX_NEW_MEMORIES", "1");
    write(&night, "a", "2026-03-08.md", &CLAIMS[..5].join("\n\n"));
    write(&night, "b", "2026-03-08.md", &CLAIMS.map(|claim| format!("{claim} Really.")).join("\n\n"));
    let budget = Budget::new(Limits::new(6, 60, 4, Instant::now()));
    let asked = Arc::new(Mutex::new(vec![]));
    let reasoner = Reasoner::Model(Box::new(Metered(budget.clone(), asked.clone())));
    let report = night.dream(&Models { embedder: lexical(), reasoner, budget: budget.clone() }).await;
    let of_b = asked.lock().unwrap().iter().filter(|prompt| prompt.contains("Really.")).count();
    assert_eq!((asked.lock().unwrap().len(), of_b), (6, 3), "{report:?}");
    assert!(report.limit.is_some_and(|limit| limit.contains("DREAMER_MAX_CALLS")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_named_is_left_alone_and_one_without_memories_is_new() {
    let mut night = with_two().await.set("DREAMER_FADE", "on").set("IMPORTANCE_DECAY_RATE", "0.9");
    for agent in ["a", "c"] {
        night.known_of(agent, "The user likes cats.", "2026-01-05").await;
        night.known_of(agent, "The user likes cats.", "2026-01-06").await;
    }
    write(&night, "a", "2026-03-08.md", A);
    write(&night, "b", "2026-03-08.md", B);
    let of_c = |rows: Vec<dreamer::memory::Memory>| {
        let mut rows: Vec<_> = rows.into_iter().filter(|row| row.partition.agent == "c").collect();
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        rows
    };
    let before = of_c(night.memories().await);
    assert_eq!(before.len(), 2);
    for n in 0..3 {
        let report = night.dream(&extractive()).await;
        assert_eq!(of_c(night.memories().await), before, "night {n}");
        let left = report.warnings.iter().filter(|warning| warning.contains("`c`")).count();
        assert_eq!(left, 1, "{:?}", report.warnings);
        assert_eq!(report.live.1, night.memories().await.len() - 2, "the log counts those it touches");
        night.next();
    }
    let traces = night.store().await.traces().await.unwrap().traces;
    assert!(traces.values().all(|trace| trace.agent != "c"), "{traces:?}");
    let days = std::fs::read_to_string(night.home().join("state/active-days.json")).unwrap_or_default();
    assert!(!days.contains("\"c\""), "{days}");
    assert_eq!(texts_of(&night, "b").await.len(), 1, "an agent's first memory");
    let cats = night.archive().await;
    assert!(cats.iter().all(|gone| gone.memory.partition.agent == "a") && !cats.is_empty(), "{cats:?}");

    // `--agent` knows those that are named, and no other.
    let mut config = night.config();
    for (agent, there) in [("a", true), ("b", true), ("c", false)] {
        config.only_agent = Some(agent.into());
        let models = extractive();
        let dreamt =
            dreamer::dream::dream_with(&config, FULL, &models, night.now, std::time::Instant::now()).await;
        assert_eq!(dreamt.is_ok(), there, "{agent}: {dreamt:?}");
    }
    config.only_agent = None;
    let seen = dreamer::preview::preview(&config, night.now).await.unwrap();
    assert!(seen.warnings.iter().any(|warning| warning.contains("`c`")), "{:?}", seen.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_missing_does_not_stop_the_others() {
    let night = with_two().await;
    write(&night, "a", "2026-03-08.md", A);
    std::fs::remove_dir_all(workspace(&night, "b")).unwrap();
    let report = night.dream(&extractive()).await;
    assert_eq!(report.created.len(), 1);
    assert!(
        told(&report, "does not exist (yet)").is_some_and(|told| told.contains("of b")),
        "{:?}",
        report.warnings
    );
    std::fs::remove_dir_all(workspace(&night, "a")).unwrap();
    let error = night.try_dream(FULL, &extractive()).await.unwrap_err();
    assert!(
        error.to_string().contains("DREAMER_EPISODES_DIR") || error.to_string().contains("memory"),
        "{error}"
    );
}

#[test]
fn a_name_that_cannot_be_used_is_a_configuration_error() {
    let home = [("DREAMER_HOME", "/srv/dreamer"), ("DREAMER_AGENTS", "a=notes")];
    let error = Config::resolve(&Layers::of(&home)).unwrap_err();
    assert!(matches!(error, ConfigError::Invalid { .. }));
    assert!(error.to_string().contains("DREAMER_AGENTS"), "{error}");
    assert_eq!(Error::from(error).exit_code(), 78);
}

/// A row: id, text, agent, scope.
type Row = (&'static str, &'static str, Option<&'static str>, Option<&'static str>);

/// A night on a table with these rows, in which an agent may be NULL and which knows scopes.
async fn on_rows(rows: &[Row]) -> Night {
    let night = Night::without_table();
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 1024);
    for (_, text, ..) in rows {
        vectors.values().append_slice(&embed(lexical().as_ref(), text).await);
        vectors.append(true);
    }
    let text = |of: fn(&Row) -> Option<&'static str>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let n = rows.len();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", text(|row| Some(row.0)), true),
        ("text", text(|row| Some(row.1)), true),
        ("vector", Arc::new(vectors.finish()) as ArrayRef, true),
        ("importance", Arc::new(Float64Array::from(vec![0.7; n])) as ArrayRef, true),
        ("category", Arc::new(StringArray::from(vec!["fact"; n])) as ArrayRef, true),
        ("createdAt", Arc::new(Float64Array::from(vec![1.767e12; n])) as ArrayRef, true),
        ("agentId", text(|row| row.2), true),
        ("scope", text(|row| row.3), true),
    ])
    .unwrap();
    let connection = lancedb::connect(&night.config().lancedb_uri).execute().await.unwrap();
    connection.create_table("memories", batch).execute().await.unwrap();
    night
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_an_agent_are_told_and_never_merged() {
    let cats = "The user likes cats.";
    let mut night =
        on_rows(&[("n1", cats, None, None), ("n2", cats, None, None), ("m1", cats, Some("main"), None)])
            .await
            .set("DREAMER_FADE", "on")
            .set("IMPORTANCE_DECAY_RATE", "0.9");
    let raw = |rows: Vec<serde_json::Map<String, serde_json::Value>>| {
        let mut rows: Vec<String> = rows
            .into_iter()
            .filter(|row| row["agentId"].is_null())
            .map(|row| serde_json::Value::Object(row).to_string())
            .collect();
        rows.sort();
        rows
    };
    let before = raw(night.store().await.row_json(None, true).await.unwrap());
    assert_eq!(before.len(), 2);
    for _ in 0..2 {
        night.session(&night.now.date_naive().pred_opt().unwrap().to_string(), &[("user", "I like cats.")]);
        let report = night.dream(&extractive()).await;
        assert!(told(&report, "2 rows without agentId").is_some(), "{:?}", report.warnings);
        assert!(report.joined.is_empty(), "{report:?}");
        assert_eq!(raw(night.store().await.row_json(None, true).await.unwrap()), before);
        night.next();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_scopes_of_one_agent_are_never_merged_and_a_successor_stays_in_its_own() {
    let (cats, allergic) = ("The user likes cats.", "The user is allergic to cats now.");
    let merged = "The user used to like cats and is allergic to cats since 2025-12-29.";
    let night = on_rows(&[
        ("w1", cats, Some("main"), Some("work")),
        ("w2", allergic, Some("main"), Some("work")),
        ("h1", cats, Some("main"), Some("home")),
        ("n1", cats, Some("main"), None),
        ("o1", allergic, Some("other"), Some("work")),
    ])
    .await;
    let model = Script::new()
        .judge("allergic", "likes cats", "state_change", ("The user", "The user"), merged)
        .judge("likes cats", "allergic", "state_change", ("The user", "The user"), merged)
        .model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!(prompts(&model, "verdicts").len(), 1, "only two rows of one agent are in one scope");
    let rows = night.store().await.row_json(None, false).await.unwrap();
    let of = |row: &serde_json::Map<String, serde_json::Value>| {
        let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
        (text("agentId"), text("scope"), text("text"))
    };
    let mut all: Vec<_> = rows.iter().map(of).collect();
    all.sort();
    let line = |agent: &str, scope: &str, text: &str| (agent.to_owned(), scope.to_owned(), text.to_owned());
    let expected = [
        line("main", "-", cats),
        line("main", "home", cats),
        line("main", "work", merged),
        line("other", "work", allergic),
    ];
    assert_eq!(all, expected, "{report:?}");
}
