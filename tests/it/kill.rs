//! The real process, killed with SIGKILL: at every step of a night that can be seen from outside, and at random moments.
//! However it fell, the next runs end where a night that nobody killed ends, and what a model had answered is not paid
//! again. With TEST_LONG=1 there are 200 random kills, and the steps at which they fell are printed.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dreamer::state::journal::Fate;
use dreamer::store::Store;
use rand::Rng;
use serde_json::{Value, json};

use crate::fake_openai::{FakeOpenAi, Reply, Running};
use crate::home::{Home, copy, day, eventful, session};

/// Requests that may be on their way at once.
const CONCURRENCY: usize = 2;
/// Runs after which a home must be at rest.
const RUNS: usize = 6;
/// Rows that a night embeds to see whether the table is of its model.
const PROBED: usize = 5;

/// What can be seen of a night from outside, in its order.
const STEPS: [&str; 18] = [
    "started",
    "vectors recorded",
    "a reply recorded",
    "a second reply recorded",
    "before-images stored",
    "plan stored",
    "planned",
    "applying",
    "archived",
    "traces written",
    "raw memories written",
    "memories changed",
    "memories changed twice",
    "memories changed three times",
    "fates written",
    "active days written",
    "episode moved",
    "logged",
];

/// A home before an eventful night that needs several calls.
async fn home() -> Home {
    let home = eventful(&[]).await;
    let said = [
        "I bought a red kayak for the lake.",
        "My landlord raised the rent to 900 euros.",
        "The dentist found a cavity in March.",
        "We adopted a beagle named Biscuit.",
        "The printer at work jams every Tuesday.",
        "My grandmother was born in Tromsø.",
        "I finished the marathon in 4 hours.",
    ];
    let messages: Vec<(&str, &str)> =
        said.iter().flat_map(|text| [("user", *text), ("assistant", "Noted.")]).collect();
    home.episode(&format!("{}-more.md", day(2)), &session(day(2), &messages));
    home
}

/// Quotes what the user said; a standup that moved is a changed state, everything else is unrelated.
fn answer(request: &Value) -> Reply {
    let material = request["messages"][1]["content"].as_str().unwrap();
    let lines: Vec<Value> = material.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if request["response_format"]["json_schema"]["name"] == "verdicts" {
        let says = |line: &Value| line["text"].as_str().is_some_and(|text| text.contains("standup"));
        let new_moves = lines.iter().any(|line| line.get("memory").is_none() && says(line));
        let verdict = |old: &Value| {
            let moved = new_moves && says(old);
            let text = "The user said: “Our team standup moved to 10:00 every weekday.” (2026-01-03); \
                        before (2026-01-01): “Our team standup is at 9:00 every weekday.”";
            json!({
                "memory": old["memory"], "reason": "r",
                "relation": if moved { "state_change" } else { "unrelated" },
                "new_subject": if moved { "standup" } else { "" },
                "old_subject": if moved { "standup" } else { "" },
                "texts": if moved { vec![text] } else { vec![] },
            })
        };
        let verdicts: Vec<Value> =
            lines.iter().filter(|line| line.get("memory").is_some()).map(verdict).collect();
        return Reply::json(&json!({ "verdicts": verdicts }));
    }
    let memories = lines.iter().filter(|line| line["speaker"] == "user").map(|line| {
        json!({
            "reason": "said", "chunks": [line["chunk"]],
            "text": format!("The user said: “{}”", line["text"].as_str().unwrap()),
            "category": "fact", "importance": 0.5, "entities": [], "tags": [], "about": null, "emotion": 0.0,
            "decision": "keep",
        })
    });
    Reply::json(&json!({ "memories": memories.collect::<Vec<_>>() }))
}

async fn server() -> Running {
    FakeOpenAi::new().dim(1024).chat(answer).slow(Duration::from_millis(15)).start().await
}

fn dreamer(home: &Path, server: &Running) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
    let concurrency = CONCURRENCY.to_string();
    let base_url = server.base_url();
    let settings = [
        ("DREAMER_HOME", home.to_str().unwrap()),
        ("OPENAI_BASE_URL", &base_url),
        ("OPENAI_EMBEDDING_MODEL", "fake-embed"),
        ("OPENAI_LLM_MODEL", "fake-chat"),
        ("DREAMER_EMBEDDING_DIM", "1024"),
        ("DREAMER_CONCURRENCY", &concurrency),
        ("DREAMER_TIMEZONE", "UTC"),
        ("DREAMER_FADE", "on"),
        // The home's nights lie long ago.
        ("DREAMER_RAW_DAYS", "off"),
        ("MAX_NEW_MEMORIES", "10"),
        ("CLUSTER_SIMILARITY", "0.36"),
        ("DEDUP_SIMILARITY", "0.50"),
        ("CONTRADICTION_SIMILARITY", "0.28"),
    ];
    command.env_clear().envs(settings).arg("--json").current_dir(home).stdin(Stdio::null());
    command
}

/// Runs until nothing is left to do.
fn run_to_the_end(home: &Path, server: &Running, what: &str) {
    for _ in 0..RUNS {
        let output = dreamer(home, server).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{what}: {told}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        if summary["status"] == "nothing_new" {
            return;
        }
    }
    panic!("{what}: it never ends");
}

/// What is there in the end, without what chance decides: ids, runs and times.
#[derive(Debug, PartialEq)]
struct End {
    live: Vec<String>,
    archived: Vec<String>,
    traces: Vec<String>,
    raw: Vec<String>,
    fates: BTreeMap<String, Fate>,
    episodes: Vec<PathBuf>,
}

async fn end(home: &Path) -> End {
    let store = Store::open(home.join("lancedb").to_str().unwrap()).await.unwrap();
    let rows = store.rows("main").await.unwrap().memories;
    let archived = store.archived_all("main").await.unwrap();
    let text_of: BTreeMap<String, String> = rows
        .iter()
        .chain(archived.iter().map(|a| &a.memory))
        .map(|memory| (memory.id.clone(), memory.text.clone()))
        .collect();
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let vectors = store.vectors(&ids).await.unwrap();
    let mut live: Vec<String> = rows
        .iter()
        .map(|r| {
            format!("{} {:.9} {:?} {:?} {:?}", r.text, r.importance, r.category, r.partition, vectors[&r.id])
        })
        .collect();
    let mut gone: Vec<String> = archived
        .iter()
        .map(|a| {
            format!("{} {:?} {:?}", a.memory.text, a.reason, a.successor.as_ref().map(|id| &text_of[id]))
        })
        .collect();
    let traces = store.traces().await.unwrap().traces;
    let mut traces: Vec<String> = traces
        .values()
        .map(|t| {
            let merged_from: Vec<&String> = t.merged_from.iter().map(|id| &text_of[id]).collect();
            let mut sources: Vec<&str> = t.sources.iter().map(|source| source.chunk.as_str()).collect();
            sources.sort_unstable();
            format!("{} {:.9} {:?} {sources:?} {merged_from:?}", text_of[&t.id], t.base, t.reconciled)
        })
        .collect();
    let mut raw: Vec<String> = store.raw_all().await.unwrap().into_iter().map(|raw| raw.text).collect();
    for list in [&mut live, &mut gone, &mut traces, &mut raw] {
        list.sort();
    }
    let journal = std::fs::read_to_string(home.join("state/chunks.jsonl")).unwrap();
    let fates = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).map(|record| {
        let fate = serde_json::from_value(record["fate"].clone()).unwrap();
        (record["digest"].as_str().unwrap().to_owned(), fate)
    });
    let under = walkdir::WalkDir::new(home.join("episodes")).sort_by_file_name();
    let files = under.into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    let episodes = files.map(|file| file.path().strip_prefix(home).unwrap().to_path_buf()).collect();
    End { live, archived: gone, traces, raw, fates: fates.collect(), episodes }
}

/// How often each text was embedded and each prompt asked.
fn paid(server: &Running) -> BTreeMap<String, usize> {
    let mut paid = BTreeMap::new();
    for request in server.embeddings() {
        for text in request["input"].as_array().unwrap() {
            *paid.entry(format!("embed {text}")).or_default() += 1;
        }
    }
    for request in server.chats() {
        *paid.entry(format!("ask {}", request["messages"])).or_default() += 1;
    }
    paid
}

/// What can be counted in a home before the night, to see what has changed since.
struct Before {
    versions: BTreeMap<&'static str, usize>,
    fates: u64,
    days: Option<std::time::SystemTime>,
    episodes: usize,
    logs: usize,
    runs: usize,
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn versions(home: &Path, table: &str) -> usize {
    entries(&home.join("lancedb").join(format!("{table}.lance/_versions"))).len()
}

impl Before {
    fn of(home: &Path) -> Self {
        let tables = ["memories", "memories_archive", "memory_traces", "raw_memories"];
        Self {
            versions: tables.into_iter().map(|table| (table, versions(home, table))).collect(),
            fates: std::fs::metadata(home.join("state/chunks.jsonl")).unwrap().len(),
            days: std::fs::metadata(home.join("state/active-days.json")).and_then(|m| m.modified()).ok(),
            episodes: entries(&home.join("episodes/archive")).len(),
            logs: entries(&home.join("dream-log")).len(),
            runs: entries(&home.join("runs")).len(),
        }
    }

    /// The folder of the run that began since.
    fn run(&self, home: &Path) -> Option<PathBuf> {
        let mut runs = entries(&home.join("runs"));
        runs.sort();
        (runs.len() > self.runs).then(|| runs.pop()).flatten()
    }

    /// Whether a step of the night has been taken.
    fn is_past(&self, step: &str, home: &Path) -> bool {
        let run = || self.run(home);
        let phase = |phases: &[&str]| {
            let state = run().and_then(|run| std::fs::read_to_string(run.join("state.json")).ok());
            state.is_some_and(|state| {
                phases.iter().any(|phase| state.contains(&format!("\"phase\":\"{phase}\"")))
            })
        };
        let replies = |end: &str| {
            let files = run().map(|run| entries(&run.join("replies"))).unwrap_or_default();
            files.iter().filter(|path| path.to_string_lossy().ends_with(end)).count()
        };
        let commits = |table: &str| versions(home, table) - self.versions[table].min(versions(home, table));
        match step {
            "started" => run().is_some_and(|run| run.join("state.json").exists()),
            "vectors recorded" => replies(".vectors.json") > 0,
            "a reply recorded" => replies(".chat.json") > 0,
            "a second reply recorded" => replies(".chat.json") > 1,
            "before-images stored" => run().is_some_and(|run| run.join("before/digests.json").exists()),
            "plan stored" => run().is_some_and(|run| run.join("plan.json").exists()),
            "planned" => phase(&["planned", "applying", "finished"]),
            "applying" => phase(&["applying", "finished"]),
            "archived" => commits("memories_archive") > 0,
            "traces written" => commits("memory_traces") > 0,
            "raw memories written" => commits("raw_memories") > 0,
            "memories changed" => commits("memories") > 0,
            "memories changed twice" => commits("memories") > 1,
            "memories changed three times" => commits("memories") > 2,
            "fates written" => std::fs::metadata(home.join("state/chunks.jsonl")).unwrap().len() > self.fates,
            "active days written" => {
                std::fs::metadata(home.join("state/active-days.json")).and_then(|m| m.modified()).ok()
                    != self.days
            }
            "episode moved" => entries(&home.join("episodes/archive")).len() > self.episodes,
            "logged" => entries(&home.join("dream-log")).len() > self.logs,
            other => panic!("no such step: {other}"),
        }
    }

    /// The last step that has been taken.
    fn last_step(&self, home: &Path) -> &'static str {
        STEPS.into_iter().rev().find(|step| self.is_past(step, home)).unwrap_or("nothing yet")
    }
}

/// Starts a night and kills it as soon as `now` says so; false if it ended before.
fn kill(home: &Path, server: &Running, now: impl Fn() -> bool) -> bool {
    let mut child = dreamer(home, server).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if now() {
            child.kill().unwrap();
            return !child.wait().unwrap().success();
        }
    }
    false
}

/// A clean end and what it cost.
struct Clean {
    prepared: PathBuf,
    end: End,
    paid: BTreeMap<String, usize>,
    took: Duration,
}

async fn clean(home: &Home) -> Clean {
    let prepared = home.outside("prepared");
    copy(&home.config.home, &prepared);
    let (path, server) = (home.outside("clean"), server().await);
    copy(&prepared, &path);
    let started = Instant::now();
    let first = dreamer(&path, &server).output().unwrap();
    let took = started.elapsed();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    run_to_the_end(&path, &server, "clean");
    let end = end(&path).await;
    // A night in which something happens of everything.
    assert!(end.live.len() > 8 && end.archived.len() > 3, "{end:#?}");
    let summary: Value = serde_json::from_slice(&first.stdout).unwrap();
    let log = std::fs::read_to_string(summary["dream_log"].as_str().unwrap()).unwrap();
    assert!(end.live.iter().any(|row| row.contains("before (2026-01-01)")), "{log}");
    assert!(
        server.chats().len() > 3 && server.wrong().is_empty(),
        "{} {:?}",
        server.chats().len(),
        server.wrong()
    );
    Clean { prepared, end, paid: paid(&server), took }
}

/// Kills one night by each of `whens` in turn, goes on to the end, and compares. Returns the steps at which the kills fell.
async fn killed(home: &Home, clean: &Clean, name: &str, whens: &[When]) -> Vec<&'static str> {
    let (path, server) = (home.outside(name), server().await);
    copy(&clean.prepared, &path);
    let mut fell = Vec::new();
    for when in whens {
        let before = Before::of(&path);
        let started = Instant::now();
        let now = || match when {
            When::After(step) => before.is_past(step, &path),
            When::At(share) => started.elapsed() > clean.took.mul_f64(*share),
        };
        if kill(&path, &server, now) {
            fell.push(before.last_step(&path));
        }
    }
    let what = format!("{name}: killed at {fell:?}");
    run_to_the_end(&path, &server, &what);
    let end = end(&path).await;
    assert_eq!(format!("{end:#?}"), format!("{:#?}", clean.end), "{what}");
    let (asked, embedded): (Vec<_>, Vec<_>) = paid(&server)
        .into_iter()
        .map(|(what, count)| {
            (what.clone(), count.saturating_sub(clean.paid.get(&what).copied().unwrap_or(0)))
        })
        .filter(|(_, twice)| *twice > 0)
        .partition(|(what, _)| what.starts_with("ask "));
    let twice: usize = asked.iter().map(|(_, count)| count).sum();
    assert!(twice <= CONCURRENCY * fell.len(), "{what}: asked again: {asked:#?}");
    // All texts of a request that was on its way are asked again.
    let on_their_way =
        server.embeddings().iter().map(|r| r["input"].as_array().unwrap().len()).max().unwrap();
    let again: usize = embedded.iter().map(|(_, count)| count).sum();
    let probed = PROBED * (RUNS + whens.len());
    assert!(
        again <= CONCURRENCY * fell.len() * on_their_way + probed,
        "{what}: embedded again: {embedded:#?}"
    );
    let place = |step: &str| STEPS.iter().position(|s| *s == step);
    if fell.iter().all(|step| place(step) >= place("planned")) {
        assert!(asked.is_empty(), "{what}: {asked:#?}");
        // Which rows a night embeds again to know the table's model follows from their ids, which are chance here.
        assert!(again <= PROBED * RUNS, "{what}: {embedded:#?}");
    }
    assert_eq!(server.wrong(), Vec::<String>::new());
    std::fs::remove_dir_all(&path).unwrap();
    fell
}

/// When a night is killed.
enum When {
    /// As soon as this step has been taken.
    After(&'static str),
    /// After this share of the time a clean night takes.
    At(f64),
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_killed_at_any_step_ends_as_a_clean_one_and_pays_nothing_twice() {
    let home = home().await;
    let clean = clean(&home).await;
    let mut fell = 0;
    for (n, step) in STEPS.into_iter().enumerate() {
        fell += killed(&home, &clean, &format!("step-{n}"), &[When::After(step)]).await.len();
    }
    // The last steps are so near the end that the night may be over first.
    assert!(fell >= STEPS.len() - 3, "only {fell} kills hit a running night");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_killed_again_and_again_at_random_moments_ends_as_a_clean_one() {
    let home = home().await;
    let clean = clean(&home).await;
    let long = std::env::var_os("TEST_LONG").is_some();
    // A night that is over cannot be killed: the short form keeps to the first half.
    let (until, wanted, groups) = if long { (1.05, 200, 140) } else { (0.5, 1, 2) };
    let mut fell: BTreeMap<&str, usize> = BTreeMap::new();
    for n in 0..groups {
        if long && fell.values().sum::<usize>() >= wanted {
            break;
        }
        let whens: Vec<When> = (0..3).map(|_| When::At(rand::rng().random_range(0.0..until))).collect();
        for step in killed(&home, &clean, &format!("random-{n}"), &whens).await {
            *fell.entry(step).or_default() += 1;
        }
    }
    println!("the kills fell after: {fell:#?}");
    assert!(fell.values().sum::<usize>() >= wanted, "{fell:?}");
}
