//! `dreamer doctor` from outside: what it finds in sound and unsound homes, that it asks each model once, and that it
//! changes nothing.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use chrono::Utc;
use dreamer::config::Layers;
use dreamer::doctor::{self, Asking, Level};
use dreamer::memory::Memory;
use dreamer::store::{Inherit, NewRow, Store};
use serde_json::{Value, json};

use crate::fake_gateway::{FakeGateway, Script, TOKEN, transcript};
use crate::fake_openai::{self, FakeOpenAi, Reply, vector};
use crate::home::{Home, at, day, digests, memory};

/// A person's folder, a cleared environment, and timers that are on unless a test says otherwise.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.path("bin")).unwrap();
        place.program("systemctl", "echo enabled");
        place.program("crontab", "exit 1");
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn program(&self, name: &str, does: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_dreamer"))
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TZ", "UTC")
            .env("PATH", self.path("bin"))
            .current_dir(self.dir.path())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn set_up(&self, args: &[&str]) {
        let output = self.run(&[&["setup"], args].concat());
        assert!(output.status.success(), "{output:?}");
    }

    /// What the doctor says, and its exit code.
    fn doctor(&self, args: &[&str]) -> (String, Option<i32>) {
        let output = self.run(&[&["doctor"], args].concat());
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!told.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        (told, output.status.code())
    }

    /// A gateway, a server with both models, a table of three memories of that server, and a home set up for all of it.
    async fn with_gateway(&self, script: Script, server: &fake_openai::Running) -> FakeGateway {
        let gateway = FakeGateway::start(script, &self.path("ws"));
        std::fs::create_dir_all(self.path("ws/memory")).unwrap();
        std::fs::create_dir_all(self.path(".openclaw")).unwrap();
        let settings = json!({
            "gateway": { "port": gateway.port, "auth": { "mode": "token", "token": TOKEN } },
            "agents": { "defaults": { "workspace": self.path("ws"), "userTimezone": "UTC", "model": "mock/chat" } },
            "models": { "providers": { "mock": { "api": "openai-completions", "baseUrl": server.base_url(), "apiKey": "k" } } },
            "hooks": { "internal": { "enabled": true, "entries": { "session-memory": { "enabled": true, "messages": 200 } } } },
            "plugins": { "slots": { "memory": "memory-lancedb" }, "entries": {
                "memory-core": { "enabled": false },
                "memory-lancedb": { "enabled": true, "config": {
                    "embedding": { "apiKey": "k", "baseUrl": server.base_url(), "model": "mock-embed", "dimensions": 64 },
                    "dbPath": self.path("db") } } } },
        });
        std::fs::write(self.path(".openclaw/openclaw.json"), settings.to_string()).unwrap();
        let uri = self.path("db").display().to_string();
        Store::create(&uri, 64).await.unwrap();
        let rows: Vec<NewRow> =
            ["I prefer tea in the morning.", "My dog is called Biscuit.", "Anna is allergic to peanuts."]
                .iter()
                .enumerate()
                .map(|(n, text)| NewRow {
                    memory: memory(&format!("row-{n}"), text, 0.7),
                    vector: vector(text, 64),
                    inherit: Inherit::Nothing,
                    only_if: vec![],
                })
                .collect();
        Store::open(&uri).await.unwrap().insert(&rows).await.unwrap();
        self.set_up(&["--openclaw"]);
        gateway
    }
}

fn ready(_: &Value) -> Reply {
    Reply::json(&json!({ "ready": true }))
}

#[test]
fn a_home_of_its_own_is_sound_and_stays_as_it_is() {
    let place = Place::new();
    place.set_up(&["--example"]);
    let before = digests(&place.path(".dreamer"));
    let (told, code) = place.doctor(&[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.lines().all(|line| line.starts_with("ok    ")), "{told}");
    for part in [
        "files: ",
        "settings: every value can be used",
        "table: 0 memories in 7 columns",
        "embedding: lexical answers with 1024 numbers",
        "language model: none",
        "episodes: 3 episodes",
        "gateway: none: episodes and database lie in the home",
        "timers: dreamer.timer runs the night",
        "runs: none has finished yet",
        "disk: ",
        "clock: ",
        "time zone: ",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    assert_eq!(digests(&place.path(".dreamer")), before);
    assert!(!place.path(".dreamer/state/lock").exists());
}

#[test]
fn a_home_that_was_never_set_up_fails_with_the_command_and_is_not_made() {
    let place = Place::new();
    let (told, code) = place.doctor(&[]);
    assert_eq!(code, Some(1));
    assert!(
        told.starts_with("fail  home: there is no home") && told.contains("(run `dreamer setup`)"),
        "{told}"
    );
    assert!(!place.path(".dreamer").exists());
}

#[test]
fn settings_that_cannot_be_read_or_used_are_findings() {
    let place = Place::new();
    place.set_up(&["--example"]);
    let settings = place.path(".dreamer/.env");
    std::fs::write(&settings, "DREAMER_FADE=perhaps\nMAX_NEW_MEMORIES=0\n").unwrap();
    let (told, code) = place.doctor(&[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("DREAMER_FADE=perhaps") && told.contains("(correct MAX_NEW_MEMORIES)"), "{told}");
    std::fs::write(&settings, "DREAMER_EMBEDDING_PROVIDER=builtin\nOPENAI_API_KEY \"sk-secret\n").unwrap();
    let (told, code) = place.doctor(&[]);
    assert!(code == Some(1) && told.contains("line 2") && !told.contains("secret"), "{told}");
    std::fs::write(&settings, "DREAMER_EMBEDDING_PROVIDER=builtin\nDREAMER_BUILTIN_MODEL=lexical\n").unwrap();
    let (told, code) = place.doctor(&["--offline"]);
    assert!(code == Some(1) && told.contains("fail  settings: OPENAI_API_KEY is not set"), "{told}");
}

#[test]
fn open_files_timers_that_are_off_and_maintenance_are_warnings() {
    let place = Place::new();
    place.set_up(&["--example"]);
    place.program("systemctl", "echo disabled");
    std::fs::set_permissions(place.path(".dreamer"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(place.path(".dreamer/state/maintenance"), "").unwrap();
    let (told, code) = place.doctor(&[]);
    assert_eq!(code, Some(0), "{told}");
    for part in [
        "warn  files: ",
        "(chmod 700 ",
        "warn  timers: dreamer.timer is installed and not enabled",
        "warn  maintenance: is on",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    std::fs::remove_file(place.path("bin/systemctl")).unwrap();
    place.program("crontab", "echo '0 3 * * * dreamer --if-due --verbose'");
    assert!(place.doctor(&[]).0.contains("ok    timers: a crontab runs the night"));
    place.program("crontab", "echo '# 0 3 * * * dreamer'");
    assert!(place.doctor(&[]).0.contains("warn  timers: there is no systemctl here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_for_a_gateway_is_sound_and_each_model_is_asked_once() {
    let server = FakeOpenAi::new().chat(ready).start().await;
    let place = Place::new();
    let gateway = place.with_gateway(Script::new(), &server).await;
    std::fs::write(place.path("ws/memory").join(format!("{}.md", Utc::now().date_naive())), "I like tea.\n")
        .unwrap();
    let asked = server.calls();
    let before =
        (digests(&place.path(".dreamer")), digests(&place.path("db")), digests(&place.path(".openclaw")));
    let (told, code) = place.doctor(&[]);
    assert_eq!(code, Some(0), "{told}");
    for part in [
        "ok    table: 3 memories in 7 columns",
        "ok    vectors: 64 numbers each",
        "ok    embedding: mock-embed answers and is the table's: 3 rows agree with 1.000",
        "ok    language model: chat answers in the form it was asked for",
        "ok    episodes: 1 episode",
        "ok    hook: session-memory is on and keeps 200 messages",
        "(2026.9.6) lets us in and lets session-flush end a session",
        "ok    its own dreaming: is off",
        "ok    timers: session-flush.timer runs the flush before it",
        "ok    time zone: UTC, as the gateway's",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    assert_eq!(server.calls() - asked, 2, "one call each");
    assert_eq!(gateway.methods(), ["connect"], "nothing but the log-in");
    let after =
        (digests(&place.path(".dreamer")), digests(&place.path("db")), digests(&place.path(".openclaw")));
    assert_eq!(after, before);

    let (told, code) = place.doctor(&["--offline", "--json"]);
    let json: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, json["ok"].as_bool()), (Some(0), Some(true)), "{told}");
    let of = |check: &str| {
        json["checks"].as_array().unwrap().iter().find(|line| line["check"] == check).unwrap().clone()
    };
    assert_eq!(of("embedding")["what"], "mock-embed was not asked: --offline");
    assert_eq!(of("language model")["what"], "chat was not asked: --offline");
    assert_eq!(server.calls() - asked, 2);
    assert_eq!(server.wrong(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_another_kind_and_servers_that_fail_are_found() {
    let server = FakeOpenAi::new().chat(|_| Reply::Text("Sure, I am ready!".into())).start().await;
    let place = Place::new();
    let _gateway = place.with_gateway(Script::new(), &server).await;
    let uri = place.path("db").display().to_string();
    let table =
        lancedb::connect(&uri).execute().await.unwrap().open_table("memories").execute().await.unwrap();
    // The texts change places: the vectors are those of others.
    for (id, text) in
        [("row-0", "Nobody ever said this sentence"), ("row-1", "Quite another thing"), ("row-2", "Zebras")]
    {
        table
            .update()
            .only_if(format!("id = '{id}'"))
            .column("text", format!("'{text}'"))
            .execute()
            .await
            .unwrap();
    }
    let (told, code) = place.doctor(&[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("fail  embedding: mock-embed is not the model that wrote the table: 3 rows"),
        "{told}"
    );
    assert!(told.contains("fail  language model: chat answers, and not in the form"), "{told}");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let path = place.path(".dreamer/.env");
    let settings = std::fs::read_to_string(&path).unwrap();
    assert!(settings.contains(&server.base_url()), "{settings}");
    let gone = format!("http://127.0.0.1:{port}/v1");
    std::fs::write(&path, settings.replace(&server.base_url(), &gone)).unwrap();
    let (told, code) = place.doctor(&[]);
    assert!(code == Some(1) && told.contains("fail  embedding: could not "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_refuses_grants_too_little_or_is_gone_is_told() {
    let server = FakeOpenAi::new().chat(ready).start().await;
    let refused = Script { connect: transcript("W5"), ..Script::new() };
    let place = Place::new();
    let _gateway = place.with_gateway(refused, &server).await;
    let (told, code) = place.doctor(&["--offline"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("fail  gateway: could not log in") && !told.contains(TOKEN), "{told}");

    let mut few = Script::new();
    few.connect["payload"]["auth"]["scopes"] = json!(["operator.read", "operator.write"]);
    let place = Place::new();
    let _gateway = place.with_gateway(few, &server).await;
    let (told, code) = place.doctor(&["--offline"]);
    assert!(code == Some(1) && told.contains("grants no operator.admin"), "{told}");

    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let path = place.path(".openclaw/openclaw.json");
    let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    settings["gateway"]["port"] = json!(port);
    settings["plugins"]["entries"]["memory-core"] = json!({});
    settings["hooks"] = json!({});
    std::fs::write(&path, settings.to_string()).unwrap();
    let (told, code) = place.doctor(&["--offline"]);
    assert_eq!(code, Some(1));
    for part in [
        "fail  gateway: nothing listens at ws://127.0.0.1:",
        "fail  hook: session-memory is not switched on",
        "warn  its own dreaming: begins at 03:00 (0 3 * * *), inside DREAMER_WINDOW 01:00-05:00",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_ran_through_a_night_is_to_be_restarted() {
    let server = FakeOpenAi::new().chat(ready).start().await;
    let mut script = Script::new();
    // Ten years: since before any night of this test.
    script.connect["payload"]["snapshot"] = json!({ "uptimeMs": 315_360_000_000_u64 });
    let place = Place::new();
    let _gateway = place.with_gateway(script, &server).await;
    let (told, _) = place.doctor(&["--offline"]);
    assert!(!told.contains("open table"), "no night yet: {told}");
    let run = place.path(".dreamer/runs/20260310-030000-abcd");
    std::fs::create_dir_all(&run).unwrap();
    let state = json!({ "phase": "finished", "planned_at": "2026-03-10T03:00:00Z", "finished_at": "2026-03-10T03:10:00Z" });
    std::fs::write(run.join("state.json"), state.to_string()).unwrap();
    let (told, _) = place.doctor(&["--offline"]);
    assert!(told.contains("warn  open table: the gateway runs since before the last night"), "{told}");
    assert!(told.contains("(restart the gateway to see the night's work)"), "{told}");
}

#[test]
fn transcripts_that_cannot_be_read_are_told_by_the_night_and_by_the_doctor() {
    let place = Place::new();
    place.set_up(&["--example"]);
    let agent = place.path("state/agents/main/agent");
    std::fs::create_dir_all(&agent).unwrap();
    std::fs::write(agent.join("openclaw-agent.sqlite"), "garbage ".repeat(500)).unwrap();
    let settings = place.path(".dreamer/.env");
    let more = format!("DREAMER_EPISODE_SOURCE=both\nOPENCLAW_STATE_DIR={}\n", place.path("state").display());
    std::fs::write(&settings, std::fs::read_to_string(&settings).unwrap() + &more).unwrap();
    let night = place.run(&["--json"]);
    assert_eq!(night.status.code(), Some(0), "{night:?}");
    let told = String::from_utf8(night.stderr).unwrap();
    let warned = |line: &str| line.starts_with("warning: ") && line.contains("openclaw-agent.sqlite");
    assert_eq!(told.lines().filter(|line| warned(line)).count(), 1, "{told}");
    let json: Value = serde_json::from_slice(&night.stdout).unwrap();
    let warnings = json["warnings"].as_array().unwrap();
    assert!(
        warnings.iter().any(|warning| warning.as_str().unwrap().contains("file is not a database")),
        "{json}"
    );
    let (told, code) = place.doctor(&[]);
    assert!(code == Some(1) && told.contains("fail  transcripts: main: "), "{told}");
    std::fs::remove_dir_all(place.path("state")).unwrap();
    assert!(place.doctor(&[]).0.contains("warn  transcripts: main: none under"));
    let night = place.run(&[]);
    assert!(String::from_utf8(night.stderr).unwrap().contains("warning: no transcript lies under"));
}

#[tokio::test]
async fn rows_without_an_agent_are_reported_and_not_merged() {
    let home = Home::new(&[]).await;
    let lamp = "The user bought a brass lamp.";
    let rows: Vec<Memory> =
        [("lamp-1", 0.7), ("lamp-2", 0.5), ("nobody", 0.6)].map(|(id, i)| memory(id, lamp, i)).into();
    home.add(&rows).await;
    let table = home.gateway().await;
    let set =
        table.update().only_if("id = 'nobody'").column("agentId", "CAST(NULL AS STRING)").execute().await;
    set.unwrap();
    let told = |home: &Home| {
        let layers = Layers::of(&[
            ("DREAMER_HOME", home.config.home.to_str().unwrap()),
            ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
            ("DREAMER_BUILTIN_MODEL", "lexical"),
            ("DREAMER_LLM_PROVIDER", "extractive"),
        ]);
        async move { doctor::doctor(&layers, None, Asking::Nobody, at(1, 12)).await }
    };
    let before = told(&home).await;
    let line = before.checks.iter().find(|line| line.what.contains("without agentId")).unwrap();
    assert!(line.level == Level::Warn && line.what.starts_with("1 row without agentId"), "{line:?}");
    home.hello(0);
    home.night(at(0, 20)).await;
    let rows = home.store().await.row_json(None, false).await.unwrap();
    let mut left: Vec<(String, Value)> = rows
        .into_iter()
        .map(|row| (row["id"].as_str().unwrap().to_owned(), row["agentId"].clone()))
        .collect();
    left.sort_by(|a, b| a.0.cmp(&b.0));
    let ids: Vec<&str> = left.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["lamp-1", "nobody"], "the two of the agent became one on {}", day(0));
    assert!(left[1].1.is_null());
    let after = told(&home).await;
    assert!(after.checks.iter().any(|line| line.what.starts_with("1 row without agentId")));
    assert!(
        after.checks.iter().any(|line| line.check == "runs" && line.what.contains("ended well")),
        "{after:?}"
    );
}
