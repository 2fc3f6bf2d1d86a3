//! Nights with an Ollama server: every chunk gets its fate however the server behaves, its embedder is calibrated once,
//! and local and remote models can be mixed.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use dreamer::config::{Config, Layers};
use dreamer::dream::{Mode, Models, Options, apply, dream, dream_with};
use dreamer::error::{Error, chain};
use dreamer::providers::Reasoner;
use dreamer::providers::budget::{Budget, Limits, Patience};
use dreamer::providers::ollama::{OllamaChat, OllamaEmbedder};
use dreamer::report::{DreamReport, Status};
use dreamer::setup::{self, Example};
use dreamer::state::calibrations::Calibrations;
use dreamer::state::journal::Fate;
use dreamer::store::Store;
use serde_json::{Value, json};

use crate::fake_ollama::{self, FakeOllama, Reply};
use crate::fake_openai::{self, FakeOpenAi};

const FULL: Options = Options { mode: Mode::Full, dry_run: false, if_due: false, accept_vanished: false };

/// A home with settings of its own.
struct Home {
    dir: tempfile::TempDir,
    settings: BTreeMap<&'static str, String>,
}

impl Home {
    /// Both models from this server.
    fn of(server: &fake_ollama::Running) -> Self {
        Self::at(&server.base_url())
    }

    fn at(base_url: &str) -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap(), settings: BTreeMap::new() };
        home.set("DREAMER_EMBEDDING_PROVIDER", "ollama")
            .set("DREAMER_LLM_PROVIDER", "ollama")
            .set("OLLAMA_BASE_URL", base_url)
            .set("DREAMER_TIMEZONE", "UTC")
            .set("DREAMER_FADE", "off")
    }

    fn set(mut self, name: &'static str, value: &str) -> Self {
        self.settings.insert(name, value.into());
        self
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn layers(&self) -> Layers {
        let home = self.path();
        let mut all = vec![("DREAMER_HOME", home.to_str().unwrap())];
        all.extend(self.settings.iter().map(|(name, value)| (*name, value.as_str())));
        Layers::of(&all)
    }

    fn config(&self) -> Config {
        Config::resolve(&self.layers()).unwrap().0
    }

    async fn set_up(self) -> Self {
        setup::setup(&self.layers(), Example::No, now()).await.unwrap();
        self
    }

    /// Episodes of two people in two languages, as sessions of the gateway.
    fn with_memorybank(self) -> Self {
        for user in ["en-01", "zh-01"] {
            let from =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/episodes/memorybank").join(user);
            for entry in from.read_dir().unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap().replace(".md", &format!("-{user}.md"));
                std::fs::copy(entry.path(), self.path().join("episodes").join(name)).unwrap();
            }
        }
        self
    }

    fn with_note(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path().join("episodes").join(name), text).unwrap();
        self
    }

    async fn dream(&self, options: Options) -> Result<DreamReport, Error> {
        dream(&self.config(), options, now(), Instant::now()).await
    }

    /// The night with models that lose patience after a moment.
    async fn dream_impatiently(&self) -> DreamReport {
        let config = self.config();
        let (url, moment) = (&config.ollama.base_url, Duration::from_millis(1));
        let patience = Patience {
            request: Duration::from_millis(300),
            cold: Duration::from_secs(20),
            least_tokens_a_second: u32::MAX,
            first_delay: moment,
            longest_delay: moment,
            ..Patience::default()
        };
        let limits = Limits::new(400, 60, 1, Instant::now());
        let budget = Budget::with_patience(limits, patience);
        let embedder =
            OllamaEmbedder::new(url, &config.ollama.embedding_model, None, budget.clone()).unwrap();
        let chat = OllamaChat::new(url, &config.ollama.llm_model, budget.clone()).unwrap();
        let models =
            Models { embedder: Box::new(embedder), reasoner: Reasoner::Model(Box::new(chat)), budget };
        dream_with(&config, FULL, &models, now(), Instant::now()).await.unwrap()
    }

    fn calibrations(&self) -> Calibrations {
        Calibrations::read(&self.config().state_dir()).unwrap()
    }

    /// The program with this home's settings and these further ones.
    fn run(&self, args: &[&str], more: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
        command.env_clear().env("HOME", self.dir.path()).env("DREAMER_HOME", self.path());
        command.envs(self.settings.iter().map(|(name, value)| (*name, value.as_str())));
        command.envs(more.iter().copied()).current_dir(self.dir.path()).args(args).output().unwrap()
    }
}

fn now() -> DateTime<Utc> {
    "2023-06-01T03:00:00Z".parse().unwrap()
}

/// A model that remembers what people say, word for word, and sees no conflict anywhere.
fn faithful(body: &Value) -> String {
    let asked = body["messages"][1]["content"].as_str().unwrap();
    let lines = asked.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.filter(Value::is_object).collect();
    if asked.starts_with("New memory") {
        let verdicts = lines.iter().skip(1).map(|old| {
            json!({
                "memory": old["memory"], "reason": "", "relation": "unrelated",
                "new_subject": "", "old_subject": "", "texts": [],
            })
        });
        return json!({ "verdicts": verdicts.collect::<Vec<_>>() }).to_string();
    }
    let memories = lines.iter().filter(|line| line["chunk"].is_number()).map(|chunk| {
        let text = chunk["text"].as_str().unwrap();
        let is_chinese = text.chars().any(|c| ('\u{4e00}'..'\u{9fff}').contains(&c));
        let text = format!("{}{text}", if is_chinese { "用户说：" } else { "The user said: " });
        json!({
            "reason": "said", "chunks": [chunk["chunk"]], "text": text, "category": "fact", "importance": 0.6,
            "entities": [], "tags": [], "about": null, "emotion": 0.0, "decision": "keep",
        })
    });
    json!({ "memories": memories.collect::<Vec<_>>() }).to_string()
}

/// Every chunk of the night has one fate, and what is not held back is for good.
fn check_fates(report: &DreamReport) {
    assert!(report.chunks > 5, "{} chunks", report.chunks);
    assert_eq!(report.fates.values().sum::<usize>(), report.chunks, "{:?}", report.fates);
}

fn held_back(report: &DreamReport) -> usize {
    report.fates.get(&Fate::HeldBack).copied().unwrap_or(0)
}

fn calibrated_in(report: &DreamReport) -> bool {
    report.warnings.iter().any(|line| line.contains("was calibrated"))
}

#[tokio::test]
async fn setup_makes_the_table_with_the_dimension_that_the_server_reports() {
    let server = FakeOllama::new().start().await;
    let home = Home::of(&server).set_up().await;
    assert_eq!(Store::open(&home.config().lancedb_uri).await.unwrap().dim(), 64);
    assert_eq!((server.embeddings().len(), server.wrong()), (1, vec![]));
}

#[tokio::test]
async fn setup_says_how_to_go_on_where_no_server_or_no_model_is() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = FakeOllama::new().without("nomic-embed-text").start().await;
    for (base_url, remedy) in [
        (format!("http://127.0.0.1:{port}"), "`ollama serve`"),
        (server.base_url(), "`ollama pull nomic-embed-text`"),
    ] {
        let home = Home::at(&base_url);
        let error = setup::setup(&home.layers(), Example::No, now()).await.unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("ask nomic-embed-text how long its vectors are: "), "{told}");
        assert!(
            told.contains(remedy) && told.ends_with("or set DREAMER_EMBEDDING_DIM, if you know it"),
            "{told}"
        );
        assert_eq!(error.exit_code(), 78);
        assert!(!home.path().exists());
        let home = home.set("DREAMER_EMBEDDING_DIM", "768").set_up().await;
        assert_eq!(Store::open(&home.config().lancedb_uri).await.unwrap().dim(), 768);
    }
}

#[tokio::test]
async fn setup_compares_a_table_that_is_there_with_the_model() {
    let server = FakeOllama::new().start().await;
    let mut home = Home::of(&server).set("DREAMER_EMBEDDING_DIM", "1536").set_up().await;
    home.settings.remove("DREAMER_EMBEDDING_DIM");
    let warned = async |home: &Home| {
        setup::setup(&home.layers(), Example::No, now()).await.unwrap().warnings.join("\n")
    };
    let told = warned(&home).await;
    assert!(
        told.contains("1536 numbers, nomic-embed-text makes 64") && told.contains("the table is empty"),
        "{told}"
    );
    assert_eq!(server.embeddings().len(), 1, "it is asked once");
    let home = home.with_note("2026-03-10.md", "I like tea.\n");
    let error = home.dream(FULL).await.unwrap_err();
    let told = error.to_string();
    assert_eq!(error.exit_code(), 78);

    // What the message says helps.
    let folder = told.split("remove ").nth(1).unwrap().split(" and run").next().unwrap();
    assert!(folder.ends_with("lancedb/memories.lance") && told.ends_with("`dreamer setup`"), "{told}");
    std::fs::remove_dir_all(folder).unwrap();
    let home = home.set_up().await;
    assert_eq!(Store::open(&home.config().lancedb_uri).await.unwrap().dim(), 64);
    assert_eq!(warned(&home).await, "");

    // Nobody answers: setup ends well all the same.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let told = warned(&home.set("OLLAMA_BASE_URL", &format!("http://127.0.0.1:{port}"))).await;
    assert!(
        told.contains("whether the table fits is not known") && told.contains("`ollama serve`"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_night_calibrates_says_so_and_lets_the_models_go() {
    let server = FakeOllama::new().chat(faithful).start().await;
    let home = Home::of(&server).set_up().await.with_memorybank();
    let asked = server.calls();
    let report = home.dream(FULL).await.unwrap();
    check_fates(&report);
    assert_eq!((held_back(&report), report.failure.clone()), (0, None));
    assert!(report.fates[&Fate::Stored] > 0, "{:?}", report.fates);
    assert_eq!(report.cost.calls as usize, server.calls() - asked, "the calibration is paid from the budget");
    assert_eq!(server.released(), ["nomic-embed-text", "qwen2.5:3b"]);

    let log = std::fs::read_to_string(report.dream_log.as_ref().unwrap()).unwrap();
    assert!(log.contains("nomic-embed-text was calibrated"), "{log}");
    let kept = home.calibrations();
    let kept = kept.of("ollama", "nomic-embed-text", Some("0a109f422b47")).unwrap();
    assert!(kept.related <= kept.cluster && kept.cluster <= kept.duplicate && kept.auc > 0.9, "{kept:?}");
    let shown = String::from_utf8(home.run(&["config"], &[]).stdout).unwrap();
    let row = shown.lines().find(|line| line.starts_with("CLUSTER_SIMILARITY")).unwrap();
    assert!(
        row.contains(&kept.cluster.to_string()) && row.contains("calibrated for nomic-embed-text on "),
        "{row}"
    );

    let (asked, home) =
        (server.embeddings().len(), home.with_note("2023-05-02.md", "- Emily has a cat, Mia.\n"));
    let second = home.dream(FULL).await.unwrap();
    assert!(!calibrated_in(&second) && second.failure.is_none(), "{:?}", second.warnings);
    let texts: usize =
        server.embeddings()[asked..].iter().map(|b| b["input"].as_array().unwrap().len()).sum();
    assert!(texts < 40, "the pairs are embedded once, not {texts} texts again");
    assert_eq!(server.wrong(), Vec::<String>::new());
}

#[tokio::test]
async fn other_weights_under_the_same_name_are_calibrated_anew() {
    let first = FakeOllama::new().chat(faithful).start().await;
    let home = Home::of(&first).set_up().await.with_memorybank();
    assert!(calibrated_in(&home.dream(FULL).await.unwrap()));
    let second = FakeOllama::new().chat(faithful).other_weights("1234").start().await;
    let home =
        home.set("OLLAMA_BASE_URL", &second.base_url()).with_note("2023-05-02.md", "- Emily has a cat.\n");
    let report = home.dream(FULL).await.unwrap();
    assert!(report.warnings.iter().any(|line| line.contains("another than before")), "{:?}", report.warnings);
    assert!(home.calibrations().of("ollama", "nomic-embed-text", Some("1234")).is_some());
    assert!(home.calibrations().of("ollama", "nomic-embed-text", Some("0a109f422b47")).is_none());
}

#[tokio::test]
async fn a_dry_run_calibrates_for_its_plan_and_keeps_it_only_when_that_is_applied() {
    let server = FakeOllama::new().chat(faithful).start().await;
    let home = Home::of(&server).set_up().await.with_memorybank();
    let report = home.dream(Options { dry_run: true, ..FULL }).await.unwrap();
    assert!(calibrated_in(&report));
    assert_eq!(home.calibrations(), Calibrations::default());
    let asked = server.calls();
    apply(&home.config(), &report.run, now(), Instant::now()).await.unwrap();
    assert!(home.calibrations().of("ollama", "nomic-embed-text", None).is_some());
    assert_eq!(server.calls(), asked, "nothing is paid twice");
}

#[tokio::test]
async fn similarities_that_are_set_need_no_calibration() {
    let server = FakeOllama::new().chat(faithful).start().await;
    let home = Home::of(&server)
        .set("CLUSTER_SIMILARITY", "0.5")
        .set("DEDUP_SIMILARITY", "0.7")
        .set("CONTRADICTION_SIMILARITY", "0.4")
        .set_up()
        .await
        .with_memorybank();
    let report = home.dream(FULL).await.unwrap();
    assert!(!calibrated_in(&report));
    assert_eq!(home.calibrations(), Calibrations::default());
}

#[tokio::test]
async fn an_embedder_that_tells_nothing_apart_is_a_configuration_to_change() {
    let server = FakeOllama::new().chat(faithful).embed(|_| vec![0.6, 0.8]).start().await;
    let home = Home::of(&server).set_up().await.with_memorybank();
    let error = home.dream(FULL).await.unwrap_err();
    assert_eq!(error.exit_code(), 78, "{}", chain(&error));
    assert!(error.to_string().contains("nomic-embed-text") && error.to_string().contains("50 %"), "{error}");
    assert_eq!(home.calibrations(), Calibrations::default());
    assert_eq!(server.released(), ["nomic-embed-text"], "also when the night ends early");
}

#[tokio::test]
async fn every_chunk_gets_its_fate_however_the_server_answers() {
    let slow = || Reply::Late(Duration::from_millis(600));
    let fake = || FakeOllama::new().chat(faithful);
    for (what, fake) in [
        ("lines", fake().in_lines()),
        ("no thinking", fake().not_thinking()),
        ("an old server", fake().without_schemas().not_thinking()),
        ("a slow first token", fake().first_chats([slow()]).first_embeddings([slow()])),
        ("torn and no JSON", fake().first_chats([Reply::Torn, Reply::Page]).first_embeddings([Reply::Torn])),
        ("busy", fake().first_chats([Reply::Error(503, "server busy, please try again")])),
    ] {
        let server = fake.start().await;
        let home = Home::of(&server).set("DREAMER_EMBEDDING_DIM", "64").set_up().await.with_memorybank();
        let report = home.dream_impatiently().await;
        check_fates(&report);
        assert_eq!((held_back(&report), report.failure.clone()), (0, None), "{what}");
        assert!(report.fates.contains_key(&Fate::Stored), "{what}: {:?}", report.fates);
        assert_eq!(server.wrong(), Vec::<String>::new(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eighty_days_of_eight_people_are_all_accounted_for_by_a_moody_server() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memorybank");
    for user in ["en-01", "en-02", "en-03", "en-04", "zh-01", "zh-02", "zh-03", "zh-04"] {
        let moods = [
            Reply::Torn,
            Reply::CutOff("{\"memories\":[{\"text\":\"The us".into()),
            Reply::Page,
            Reply::Error(503, "server busy, please try again"),
            Reply::Text("I would rather talk about the weather.".into()),
        ];
        let server = FakeOllama::new().chat(faithful).in_lines().every(3, moods).start().await;
        let home = Home::of(&server).set("DREAMER_EMBEDDING_DIM", "64").set_up().await;
        let mut names = BTreeSet::new();
        for entry in fixtures.join(user).read_dir().unwrap().flatten() {
            names.insert(entry.file_name().into_string().unwrap());
            std::fs::copy(entry.path(), home.path().join("episodes").join(entry.file_name())).unwrap();
        }
        assert_eq!(names.len(), 10, "{user}");
        let mut nights = 0;
        loop {
            let report = home.dream_impatiently().await;
            assert_eq!(report.fates.values().sum::<usize>(), report.chunks, "{user}: {:?}", report.fates);
            nights += 1;
            if report.chunks == 0 {
                break;
            }
            assert!(nights < 20, "{user}: {:?} after {nights} nights", report.fates);
        }
        let archived = home.path().join("episodes/archive").read_dir().unwrap().flatten();
        let archived: BTreeSet<String> = archived.map(|e| e.file_name().into_string().unwrap()).collect();
        assert_eq!(archived, names, "{user} after {nights} nights");
        assert_eq!(server.wrong(), Vec::<String>::new(), "{user}");
    }
}

#[tokio::test]
async fn what_a_bad_night_could_not_settle_waits_for_a_good_one() {
    let half = || Reply::CutOff("{\"memories\":[{\"text\":\"The us".into());
    let fake = || FakeOllama::new().chat(faithful);
    for (what, fake) in [
        ("cut off", fake().every(1, [half()])),
        ("prose", fake().every(1, [Reply::Text("I would rather talk about the weather.".into())])),
        ("no JSON", fake().every(1, [Reply::Page])),
        ("always broken", fake().every(1, [Reply::Error(500, "llama runner process has terminated")])),
        (
            "always too slow",
            fake().every(1, [Reply::Text("{}".into()), Reply::Late(Duration::from_secs(30))]),
        ),
    ] {
        let server = fake.start().await;
        let home = Home::of(&server).set("DREAMER_EMBEDDING_DIM", "64").set_up().await.with_memorybank();
        let bad = home.dream_impatiently().await;
        check_fates(&bad);
        assert!(held_back(&bad) > 0, "{what}: {:?}", bad.fates);
        let server = FakeOllama::new().chat(faithful).start().await;
        let home = home.set("OLLAMA_BASE_URL", &server.base_url());
        let good = home.dream(FULL).await.unwrap();
        assert_eq!((held_back(&good), good.failure.clone()), (0, None), "{what}");
        assert_eq!(good.chunks, held_back(&bad), "{what}: only what waited comes again");
    }
}

#[tokio::test]
async fn a_missing_model_holds_everything_back_and_names_its_command() {
    for model in ["nomic-embed-text", "qwen2.5:3b"] {
        let server = FakeOllama::new().chat(faithful).without(model).start().await;
        let home = Home::of(&server).set("DREAMER_EMBEDDING_DIM", "64").set_up().await.with_memorybank();
        let report = home.dream(FULL).await.unwrap();
        check_fates(&report);
        assert_eq!((report.status, held_back(&report)), (Status::Failed, report.chunks), "{model}");
        let why = report.failure.unwrap();
        assert!(why.contains(&format!("`ollama pull {model}`")), "{why}");
    }
}

/// A person's details, which must not leave this machine in a prompt.
const DETAILS: &str =
    "- Emily's new phone number is +49 171 2345678.\n- Emily's sister writes from anna@example.org.\n";

fn sent(bodies: &[Value]) -> String {
    bodies.iter().map(Value::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_here_embeds_the_words_and_one_elsewhere_gets_placeholders() {
    let near = FakeOllama::new().start().await;
    let far =
        FakeOpenAi::new().chat(|body| fake_openai::Reply::Text(faithful(body))).key("sk-far").start().await;
    let home = Home::of(&near)
        .set("DREAMER_LLM_PROVIDER", "openai")
        .set("OPENAI_BASE_URL", "http://models.example/v1")
        .set("OPENAI_API_KEY", "sk-far")
        .set_up()
        .await
        .with_note("2023-05-02.md", DETAILS);
    // The proxy stands for the way to a server elsewhere.
    let proxy = far.base_url().replace("/v1", "");
    let output = home.run(&["--json"], &[("http_proxy", &proxy)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let (prompts, embedded) = (sent(&far.chats()), sent(&near.embeddings()));
    assert!(prompts.contains("[PHONE_1]") && prompts.contains("[EMAIL_1]"), "{prompts}");
    assert!(!prompts.contains("2345678") && !prompts.contains("anna@"), "{prompts}");
    assert!(
        embedded.contains("2345678") && embedded.contains("anna@example.org"),
        "what is stored is embedded"
    );
    assert_eq!((near.chats().len(), far.embeddings().len()), (0, 0));
    assert_eq!(
        (near.wrong(), far.wrong(), near.released()),
        (vec![], vec![], vec!["nomic-embed-text".into()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_elsewhere_embeds_and_one_here_reads_the_words() {
    let near = FakeOllama::new().chat(faithful).start().await;
    let far = FakeOpenAi::new().key("sk-far").start().await;
    let home = Home::of(&near)
        .set("DREAMER_EMBEDDING_PROVIDER", "openai")
        .set("OPENAI_BASE_URL", "http://models.example/v1")
        .set("OPENAI_API_KEY", "sk-far")
        .set("OPENAI_EMBEDDING_MODEL", "some-embedder")
        .set("DREAMER_EMBEDDING_DIM", "64")
        .set_up()
        .await
        .with_note("2023-05-02.md", DETAILS);
    let proxy = far.base_url().replace("/v1", "");
    let output = home.run(&["--json"], &[("http_proxy", &proxy)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let prompts = sent(&near.chats());
    assert!(prompts.contains("2345678") && prompts.contains("anna@example.org"), "{prompts}");
    assert_eq!((far.chats().len(), near.embeddings().len()), (0, 0));
    assert_eq!((near.wrong(), far.wrong(), near.released()), (vec![], vec![], vec!["qwen2.5:3b".into()]));
    let all = home.calibrations();
    assert!(all.of("openai", "some-embedder", Some("http://models.example/v1")).is_some(), "{all:?}");
}
