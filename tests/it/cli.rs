//! The program from outside: exit codes, what stands on stdout and stderr, and that the README tells the truth.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use dreamer::config::{Config, FLUSH_VARIABLES, Layers, VARIABLES};
use dreamer::memory::{Category, Departure, Memory, Partition, Reconciled, Source, Trace, text_digest};
use dreamer::store::{Inherit, Leaving, NewRow, Store};
use serde_json::Value;

/// A folder of its own, with a home in it, and a cleared environment.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn with_example() -> Self {
        let place = Self::new();
        let output = place.run(&["setup", "--example"], &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        place
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }

    fn command(&self, args: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
        command
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TZ", "UTC")
            .envs(environment.iter().copied())
            .current_dir(self.dir.path())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Output {
        self.command(args, environment).output().unwrap()
    }

    /// The lines of a command that must succeed.
    fn lines(&self, args: &[&str]) -> Vec<String> {
        let output = self.run(args, &[]);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_string).collect()
    }

    fn json_lines(&self, args: &[&str]) -> Vec<Value> {
        self.lines(args).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a command that must fail says on stderr; stdout stays empty.
    fn refused(&self, args: &[&str], environment: &[(&str, &str)], code: i32) -> String {
        let output = self.run(args, environment);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        told
    }

    fn in_store<T>(&self, work: impl AsyncFnOnce(Store) -> T) -> T {
        let home = self.path(".dreamer");
        let (config, _) = Config::resolve(&Layers::of(&[("DREAMER_HOME", home.to_str().unwrap())])).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { work(Store::open(&config.lancedb_uri).await.unwrap()).await })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const TEA: &str = "11111111-0000-4000-8000-000000000001";
const CATS: &str = "22222222-0000-4000-8000-000000000002";
const OLD: &str = "33333333-0000-4000-8000-000000000003";

fn memory(id: &str, text: &str, importance: f64) -> Memory {
    Memory {
        id: id.into(),
        text: text.into(),
        importance,
        category: Category::Preference,
        created_at: 1_773_100_800_000,
        partition: Partition::of_agent("main"),
    }
}

fn trace(id: &str, text: &str) -> Trace {
    Trace {
        id: id.into(),
        agent: "main".into(),
        digest: text_digest(text),
        base: 0.9,
        written: 0.9,
        clock: "2026-03-09".parse().unwrap(),
        stability: 1.5,
        recalled: ["2026-03-10".parse().unwrap()].into(),
        reinforced: Default::default(),
        sources: vec![Source {
            episode: "2026-03-09-tea.md".into(),
            lines: (9, 11),
            chunk: "c".into(),
            speaker: "user".into(),
            said_at: "2026-03-09T08:00:00Z".parse().unwrap(),
        }],
        merged_from: vec![OLD.into()],
        entities: vec!["tea".into()],
        tags: Vec::new(),
        emotion: 0.0,
        said_at: Some("2026-03-09T08:00:00Z".parse().unwrap()),
        about: None,
        pinned: false,
        reconciled: Reconciled::Done,
        model: "lexical".into(),
        run: "run-1".into(),
    }
}

/// An example home with two live memories and one in the archive.
fn with_memories() -> Place {
    let place = Place::with_example();
    place.in_store(async |store| {
        let texts = [
            "The user drinks green tea in the morning.",
            "The user is allergic to cats.",
            "The user likes tea.",
        ];
        let outbound =
            texts.map(|t| dreamer::privacy::Privacy::new(dreamer::config::MaskPii::Never, false).to_embed(t));
        let vectors =
            dreamer::providers::local::open("lexical", "".as_ref()).unwrap().embed(&outbound).await.unwrap();
        let memories = [memory(TEA, texts[0], 0.9), memory(CATS, texts[1], 0.3), memory(OLD, texts[2], 0.1)];
        let rows: Vec<NewRow> = memories
            .iter()
            .zip(vectors)
            .map(|(memory, vector)| NewRow {
                memory: memory.clone(),
                vector,
                inherit: Inherit::Nothing,
                only_if: Vec::new(),
            })
            .collect();
        assert_eq!(store.insert(&rows).await.unwrap().written.len(), 3);
        store.put_traces(&[trace(TEA, texts[0])]).await.unwrap();
        let leaving = Leaving {
            id: OLD.into(),
            text: texts[2].into(),
            reason: Departure::Superseded,
            successor: Some(TEA.into()),
            run: "run-1".into(),
            at: 1_773_187_200_000,
        };
        store.archive(&[leaving]).await.unwrap();
        store.delete(&[(OLD.into(), texts[2].into())]).await.unwrap();
    });
    place
}

#[test]
fn the_readme_and_the_usage_errors_are_what_the_program_says() {
    trycmd::TestCases::new().case("README.md").case("tests/cmd/*.md");
}

#[test]
fn the_readme_names_every_setting_with_its_default_and_no_other() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let rows: Vec<(&str, &str)> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` | "))
        .filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    let named: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let known: Vec<&str> = VARIABLES.iter().chain(FLUSH_VARIABLES).map(|variable| variable.name).collect();
    assert_eq!(named, known);
    for variable in VARIABLES.iter().chain(FLUSH_VARIABLES) {
        let (_, row) = rows.iter().find(|(name, _)| *name == variable.name).unwrap();
        if let Some(default) = variable.default {
            assert!(row.starts_with(&format!("`{default}` |")), "{}: {row}", variable.name);
        }
    }
}

#[test]
fn labelled_pairs_are_counted_by_language_and_a_wrong_line_is_named() {
    let place = Place::new();
    let pairs = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/providers/pairs.tsv");
    let lexical = [("DREAMER_EMBEDDING_PROVIDER", "builtin"), ("DREAMER_BUILTIN_MODEL", "lexical")];
    let output = place.run(&["check-pairs", pairs.to_str().unwrap(), "--json"], &lexical);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["all"]["conflicts_dropped"], &report["all"]["pairs"]), (&0.into(), &80.into()));
    for counts in ["all", "en", "zh", "ja", "ko"].map(|name| &report[name]) {
        for share in [&counts["duplicate"], &counts["conflict_flag"]] {
            let recall = share["recall"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&recall) && share.get("precision").is_some(), "{report}");
        }
    }
    assert_eq!(report["xdup"]["pairs"], 3);
    let words = text(&place.run(&["check-pairs", pairs.to_str().unwrap()], &lexical).stdout);
    assert!(words.starts_with("lexical: a duplicate at ") && words.contains("0 of 20"), "{words}");

    std::fs::write(place.path("bad.tsv"), "dup\ten\ta\tb\nsame\ten\ta\tb\n").unwrap();
    let told = place.refused(&["check-pairs", "bad.tsv"], &lexical, 1);
    assert!(told.contains("bad.tsv: line 2 names the relation `same`"), "{told}");
    assert!(place.refused(&["check-pairs", "none.tsv"], &lexical, 1).contains("none.tsv"));
}

#[test]
fn what_is_calibrated_counts_once_it_is_kept() {
    let place = Place::with_example();
    let set = |name: &str| {
        let json = place.run(&["config", "--json"], &[]).stdout;
        serde_json::from_slice::<Value>(&json).unwrap()[name].clone()
    };
    let name = "DEDUP_SIMILARITY";
    assert_eq!(set(name)["value"], "0.5");
    let derived = |more: &[&str]| -> Value {
        let output = place.run(&[&["calibrate", "--json"], more].concat(), &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let first = derived(&[]);
    assert!(first["saved"] == false && first["pairs"] == 80 && first["sureness"] != "unsure", "{first}");
    assert_eq!(set(name)["value"], "0.5", "nothing is kept unasked");
    let pairs = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/providers/pairs.tsv");
    assert_eq!(derived(&["--pairs", pairs.to_str().unwrap()]), first, "the file holds the built-in pairs");
    assert_eq!(derived(&["--save"])["saved"], true);
    let kept = set(name);
    assert_eq!(
        kept["value"].as_str().unwrap().parse::<f64>().unwrap(),
        first[name]["value"].as_f64().unwrap()
    );
    let origin = kept["origin"].as_str().unwrap();
    assert!(
        origin.starts_with("calibrated for lexical on ") && origin.contains("by dreamer calibrate, "),
        "{origin}"
    );
    let words = text(&place.run(&["check-pairs", pairs.to_str().unwrap()], &[]).stdout);
    assert!(
        words.contains(&format!("a duplicate at {} or above", kept["value"].as_str().unwrap())),
        "{words}"
    );
    let told = place.refused(&["calibrate", "--table"], &[], 1);
    assert!(told.contains("the memories of the table hold 0 pairs"), "{told}");
}

#[test]
fn a_key_in_an_address_is_refused_and_not_shown() {
    let place = Place::new();
    let set = [("OPENAI_BASE_URL", "https://r.openai.azure.com/openai?api-key=4f9a4f9a")];
    let told = place.refused(&["config"], &set, 78);
    assert!(told.contains("OPENAI_BASE_URL") && !told.contains("4f9a"), "{told}");
}

#[test]
fn setup_says_what_it_did_and_the_second_time_what_is_there() {
    let place = Place::new();
    let first = place.lines(&["setup", "--example"]);
    assert!(first.iter().any(|line| line.starts_with("created") && line.contains("memories")), "{first:?}");
    assert_eq!(first.last().unwrap(), "next     dreamer --verbose");
    let second = place.lines(&["setup", "--example"]);
    assert!(second[..second.len() - 1].iter().all(|line| line.starts_with("exists")), "{second:?}");
}

#[test]
fn setup_in_a_named_home_names_it_in_the_next_command() {
    let place = Place::new();
    let lines = place.lines(&["--home", "my home", "setup", "--example"]);
    let home = place.path("my home");
    assert_eq!(lines.last().unwrap(), &format!("next     dreamer --home '{}' --verbose", home.display()));
}

#[test]
fn setup_before_a_model_is_chosen_leads_to_setup_again() {
    let place = Place::new();
    let lines = place.lines(&["--home", "h", "setup"]);
    let (home, last) = (place.path("h"), lines.last().unwrap());
    assert!(last.ends_with(&format!("then: dreamer --home {} setup", home.display())), "{last}");
    assert!(lines.iter().any(|line| line.contains("no table yet: run `dreamer setup` again")), "{lines:?}");
    assert!(!home.join("lancedb/memories.lance").exists());
    let chosen = "DREAMER_EMBEDDING_PROVIDER=builtin\nDREAMER_BUILTIN_MODEL=lexical\nDREAMER_LLM_PROVIDER=extractive\n";
    std::fs::write(home.join(".env"), chosen).unwrap();
    let lines = place.lines(&["--home", "h", "setup"]);
    assert!(
        lines.iter().any(|line| line.starts_with("created") && line.contains("1024 numbers")),
        "{lines:?}"
    );
    assert!(lines.last().unwrap().ends_with("--verbose"), "{lines:?}");
}

#[test]
fn a_name_that_others_read_is_told_where_the_server_is_not_found() {
    let place = Place::new();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let chosen = "DREAMER_EMBEDDING_PROVIDER=ollama\nDREAMER_LLM_PROVIDER=ollama\n";
    let settings =
        format!("{chosen}OLLAMA_BASE_URL=http://127.0.0.1:{port}\nOLLAMA_HOST=http://127.0.0.1:1\n");
    std::fs::write(place.path(".env"), settings).unwrap();
    let told = place.refused(&["setup"], &[], 78);
    assert!(told.contains("is not read by Dreamer; set OLLAMA_BASE_URL"), "{told}");
    let (cause, way) = (told.find("could not reach nomic-embed-text"), told.find("DREAMER_EMBEDDING_DIM"));
    assert!(told.contains("could not ask nomic-embed-text how long its vectors are"), "{told}");
    assert!(
        cause.is_some() && cause < way && told.contains("in 1 try; start it with `ollama serve`"),
        "{told}"
    );
}

#[test]
fn a_night_that_is_not_due_says_once_why_and_what_is_behind_it() {
    let place = Place::with_example();
    std::fs::write(place.path(".dreamer/episodes/notes.md"), "I like tea.\n").unwrap();
    let any_time = [("DREAMER_WINDOW", "off")];
    for args in [&["--if-due"][..], &["--if-due", "--verbose"]] {
        let output = place.run(args, &any_time);
        let (told, log) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert!(told.starts_with("not due: 0 new chunks or captured memories; a night needs 5"), "{told}");
        assert!(told.contains("1 file passed over, no episodes by their name: notes.md"), "{told}");
        assert!(told.contains("example-1.md changed in the last ten minutes"), "{told}");
        assert!(told.lines().count() == 1 && !log.contains("not due"), "{told}{log}");
    }
    let output = place.run(&["--if-due", "--json", "--verbose"], &any_time);
    assert!(text(&output.stderr).contains("not due: 0 new"), "the object has no reason");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["status"], "not_due");
}

#[test]
fn setup_never_prints_any_part_of_a_key() {
    let place = Place::new();
    let output = place.run(&["setup"], &[("OPENAI_API_KEY", "sk-proj-abcdefgh12345678")]);
    assert!(output.status.success());
    let all = text(&output.stdout) + &text(&output.stderr);
    assert!(!all.contains("sk-") && !all.contains("5678"), "{all}");
    let settings = std::fs::read_to_string(place.path(".dreamer/.env")).unwrap();
    assert!(!settings.contains("5678"));
}

#[test]
fn config_shows_each_value_with_its_origin_and_no_secret() {
    let place = Place::new();
    std::fs::write(place.path(".env"), "MAX_NEW_MEMORIES=3\nOPENAI_API_KEY=sk-from-file-9999\n").unwrap();
    let environment = [("DREAMER_FADE", "off"), ("OPENAI_LLM_MODEL", "")];
    let output = place.run(&["--home", "h", "config"], &environment);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let row = |name: &str| -> Vec<String> {
        let line = shown.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.split_whitespace().map(str::to_string).collect()
    };
    let here = place.dir.path().canonicalize().unwrap().join(".env").display().to_string();
    assert_eq!(row("MAX_NEW_MEMORIES")[1..], ["3".to_string(), here.clone()]);
    assert_eq!(row("OPENAI_API_KEY")[1..], ["set".to_string(), here]);
    assert_eq!(row("DREAMER_FADE")[1..], ["off", "environment"]);
    assert_eq!(row("OPENAI_LLM_MODEL")[1..], ["gpt-4.1-nano", "default"]);
    assert_eq!(row("DREAMER_HOME")[2], "flag");
    assert!(!shown.contains("9999"));

    let json: Value = serde_json::from_slice(&place.run(&["config", "--json"], &environment).stdout).unwrap();
    assert_eq!(json["DREAMER_FADE"]["value"], "off");
    assert_eq!(json["OPENAI_API_KEY"]["value"], "set");
    assert_eq!(json.as_object().unwrap().len(), VARIABLES.len() + FLUSH_VARIABLES.len());
}

#[test]
fn settings_that_cannot_be_used_are_exit_78_and_all_are_named() {
    let place = Place::new();
    let bad = [("DREAMER_TIMEZONE", "Berlin"), ("DREAMER_LLM_PROVIDER", "anthropic")];
    for args in [&["config"][..], &[], &["memories", "list"], &["setup"]] {
        let told = place.refused(args, &bad, 78);
        assert!(told.contains("DREAMER_TIMEZONE=Berlin") && told.contains("Europe/Berlin"), "{told}");
        assert!(told.contains("not in this version yet") && told.contains("extractive"), "{told}");
    }
    assert!(!place.path(".dreamer").exists());
    std::fs::write(place.path(".env"), "A=1\nOPENAI_API_KEY \"sk-secret\n").unwrap();
    let told = place.refused(&["config"], &[], 78);
    assert!(told.contains("line 2") && !told.contains("secret"), "{told}");
    assert!(place.refused(&["--env-file", "none", "config"], &[], 78).contains("none"));
}

#[test]
fn a_night_without_what_its_models_need_is_exit_78() {
    let place = Place::new();
    place.run(&["setup"], &[]);
    assert!(place.refused(&[], &[], 78).contains("OPENAI_API_KEY"));
    let builtin = [("DREAMER_EMBEDDING_PROVIDER", "builtin"), ("DREAMER_LLM_PROVIDER", "extractive")];
    assert!(place.refused(&[], &builtin, 78).contains("DREAMER_BUILTIN_MODEL=lexical"));
    let both = [("DREAMER_EMBEDDING_PROVIDER", "ollama"), ("DREAMER_LLM_PROVIDER", "openai")];
    assert!(place.refused(&[], &both, 78).contains("OPENAI_API_KEY"), "each half is checked");
}

#[test]
fn a_slip_in_a_name_is_told_on_stderr() {
    let place = Place::new();
    let output = place.run(&["config"], &[("DREAMER_MAX_CALL", "5")]);
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("did you mean DREAMER_MAX_CALLS?"), "{told}");
    assert!(!told.contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn looking_needs_no_key_but_a_database() {
    let place = Place::new();
    assert!(place.refused(&["memories", "list"], &[], 1).contains("dreamer setup"));
    place.run(&["setup"], &[("OPENAI_API_KEY", "sk-for-the-setup-alone")]);
    assert_eq!(place.lines(&["memories", "list"]), ["no memories"]);
    assert_eq!(place.lines(&["memories", "list", "--json"]), Vec::<String>::new());
    assert!(place.refused(&["memories", "search", "tea"], &[], 78).contains("OPENAI_API_KEY"));
}

#[test]
fn memories_are_listed_for_people_and_as_json() {
    let place = with_memories();
    assert_eq!(
        place.lines(&["memories", "list"]),
        [
            "11111111  core    0.90  preference  2026-03-09  The user drinks green tea in the morning.",
            "22222222  fading  0.30  preference  2026-03-10  The user is allergic to cats.",
        ]
    );
    let rows = place.json_lines(&["memories", "list", "--json"]);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["tier"], "core");
    let columns: Vec<&str> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    for column in ["id", "text", "importance", "category", "createdAt", "agentId"] {
        assert!(columns.contains(&column), "{columns:?}");
    }
    let archived = place.json_lines(&["memories", "list", "--archived", "--json"]);
    assert_eq!(archived.len(), 1);
    for (column, value) in
        [("tier", "archived"), ("reason", "superseded"), ("successor", TEA), ("run", "run-1")]
    {
        assert_eq!(archived[0][column], value, "{column}");
    }
    assert!(place.lines(&["memories", "list", "--archived"])[0].starts_with("33333333  superseded"));
}

#[test]
fn one_memory_is_shown_with_all_that_is_known_of_it() {
    let place = with_memories();
    let shown = place.lines(&["memories", "show", "1111"]).join("\n");
    for part in [
        TEA,
        "core",
        "0.90 (base 0.90 since 2026-03-09)",
        "2026-03-09-tea.md:9-11 (user)",
        "2026-03-09 08:00",
        OLD,
        "on 1 day, last on 2026-03-10",
        "The user drinks green tea in the morning.",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let gone = place.lines(&["memories", "show", OLD]).join("\n");
    assert!(gone.contains("archived (superseded on 2026-03-11, run run-1)") && gone.contains(TEA), "{gone}");
    assert!(gone.contains(&format!("dreamer restore {OLD}")));
    assert_eq!(place.json_lines(&["memories", "show", "1111", "--json"])[0]["trace"]["merged_from"][0], OLD);
    assert!(place.refused(&["memories", "show", "9"], &[], 1).contains("no memory"));
}

#[test]
fn search_finds_the_nearest_first_and_needs_no_network_with_lexical() {
    let place = with_memories();
    let found = place.json_lines(&["memories", "search", "allergic to cats?", "--json"]);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["id"], CATS);
    assert!(found[0]["similarity"].as_f64() > found[1]["similarity"].as_f64());
    let lines = place.lines(&["memories", "search", "green tea", "--limit", "1"]);
    assert!(lines.len() == 1 && lines[0].contains("11111111"), "{lines:?}");
}

#[test]
fn search_stays_with_the_configured_agent_when_there_are_several() {
    let place = with_memories();
    place.in_store(async |store| {
        let mut other = memory("44444444-0000-4000-8000-000000000004", "The user is allergic to cats.", 0.7);
        other.partition = Partition::of_agent("work");
        let vector = store.vectors(&[CATS.into()]).await.unwrap().remove(CATS).unwrap();
        let row = NewRow { memory: other, vector, inherit: Inherit::Nothing, only_if: Vec::new() };
        store.insert(&[row]).await.unwrap();
    });
    let ids = |agent: &str| -> Vec<String> {
        let output = place.run(&["memories", "search", "cats", "--json"], &[("DREAMER_AGENT", agent)]);
        let rows = text(&output.stdout);
        rows.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].to_string()[1..3].into())
            .collect()
    };
    assert_eq!(ids("main"), ["22", "11"]);
    assert_eq!(ids("work"), ["44"]);
    assert!(place.lines(&["memories", "list"]).iter().any(|line| line.contains("  work  ")));
}

#[test]
fn restore_brings_a_memory_back_and_names_who_still_says_it() {
    let place = with_memories();
    let lines = place.lines(&["restore", "3333"]).join("\n");
    assert!(lines.contains(OLD) && lines.contains(&format!("{TEA} still carries")), "{lines}");
    let live: Vec<Value> = place.json_lines(&["memories", "list", "--json"]);
    assert!(live.iter().any(|row| row["id"] == OLD));
    assert!(place.json_lines(&["memories", "list", "--archived", "--json"]).is_empty());
    assert!(place.refused(&["restore", "3333"], &[], 1).contains("no memory in the archive"));
}

#[test]
fn a_run_in_progress_is_exit_75() {
    let place = with_memories();
    let _lock = dreamer::state::lock::Lock::take(&place.path(".dreamer/state")).unwrap();
    assert!(place.refused(&["restore", "3333"], &[], 75).contains("another dreamer run"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = with_memories();
    let mut child = place.command(&["memories", "list"], &[]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));

    let mut child = place.command(&["config"], &[("DREAMER_HOEM", "warned of")]).spawn().unwrap();
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("DREAMER_HOME"), "the work goes on");
}

#[test]
fn every_command_in_the_readme_is_one_that_the_program_has() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let in_table = readme.lines().filter_map(|line| line.strip_prefix("| `dreamer")?.split('`').next());
    let in_blocks = readme.lines().filter_map(|line| line.strip_prefix("dreamer")?.split('#').next());
    let place = Place::new();
    let mut count = 0;
    for line in in_table.chain(in_blocks) {
        let line = line.replace(['[', ']'], "");
        let args: Vec<&str> = line.split_whitespace().chain(["--help"]).collect();
        assert_eq!(place.run(&args, &[]).status.code(), Some(0), "dreamer{line}");
        count += 1;
    }
    assert!(count > 10, "only {count} commands were found");
}
