//! Recall and fading over many nights: days pass by handing the night another time, and by an episode a day.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use dreamer::memory::{Departure, Memory, Trace};

use crate::home::{Home, at, day, digests, memory, strange_sentences, vectors};

const TEA: &str = "The user drinks green tea in the morning.";

async fn with_tea(settings: &[(&str, &str)]) -> Home {
    let home = Home::new(settings).await;
    home.add(&[memory("tea", TEA, 0.8)]).await;
    home
}

/// Rows that stay, so that the loss budget has room for others.
fn important(count: usize) -> Vec<Memory> {
    let texts = strange_sentences(count);
    (0..count).map(|n| memory(&format!("important-{n}"), &texts[n], 1.0)).collect()
}

fn importance(days: i32, base: f64) -> f64 {
    base * 0.95_f64.powi(days)
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

/// Goes through the days, on each saying hello where `speaks` and dreaming `runs` times; the memory must be there as
/// long as fewer than 33 days with a message have passed since the first night.
async fn live_through(days: u64, speaks: impl Fn(u64) -> bool, runs: impl Fn(u64) -> u32) -> Home {
    let home = with_tea(&[]).await;
    home.night(at(0, 23)).await;
    let mut active = 0;
    for n in 1..=days {
        if speaks(n) {
            home.hello(n);
            active += 1;
        }
        for run in 0..runs(n) {
            home.night(at(n, 20 + run)).await;
            let expected = if active < 33 { vec![TEA.to_string()] } else { vec![] };
            assert_eq!(home.texts().await, expected, "day {n}, run {run}, {active} active days");
        }
    }
    assert!(active >= 33);
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_fades_on_active_day_33_with_a_run_a_day() {
    let home = live_through(33, |_| true, |_| 1).await;
    let store = home.store().await;
    let archived = store.archived_all("main").await.unwrap().remove(0);
    let last = importance(32, 0.8);
    assert!(close(archived.memory.importance, last), "{} {last}", archived.memory.importance);
    assert_eq!(Memory { importance: 0.8, ..archived.memory.clone() }, memory("tea", TEA, 0.8));
    assert_eq!((archived.reason, archived.successor), (Departure::Faded, None));
    assert_eq!(store.archived_vectors(&["tea".into()]).await.unwrap()["tea"], vectors(&[TEA]).await[0]);
    let log = home.config.dream_log_dir().join("2026-02-03_2000.md");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("`dreamer restore tea`") && log.contains(TEA), "{log}");

    let restored = Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .envs([("DREAMER_EMBEDDING_PROVIDER", "builtin"), ("DREAMER_BUILTIN_MODEL", "lexical")])
        .env("DREAMER_HOME", &home.config.home)
        .current_dir(&home.config.home)
        .args(["restore", "tea"])
        .output()
        .unwrap();
    assert!(restored.status.success(), "{restored:?}");
    let back = home.store().await.row_json(None, true).await.unwrap().remove(0);
    let whole = [("id", "tea"), ("text", TEA), ("category", "fact"), ("agentId", "main")];
    assert!(whole.iter().all(|(column, value)| back[*column] == *value), "{back:?}");
    assert_eq!(back["createdAt"], memory("tea", TEA, 0.8).created_at);
    assert!(home.archived().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fades_on_active_day_33_with_three_runs_on_some_days_and_none_on_others() {
    live_through(34, |n| n != 5, |n| if n % 8 == 2 { 3 } else { u32::from(n > 32) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fades_on_active_day_33_when_nobody_writes_every_third_day() {
    live_through(50, |n| n % 3 != 0, |n| u32::from(n % 9 == 0 || n > 45)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fades_on_active_day_33_when_the_next_run_is_weeks_later() {
    live_through(40, |_| true, |n| u32::from(n == 32 || n == 40)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_on_a_day_changes_nothing() {
    let home = with_tea(&[]).await;
    home.night(at(0, 20)).await;
    home.hello(1);
    home.night(at(1, 20)).await;
    let (live, version) = (home.live().await, home.store().await.version().await.unwrap());
    assert!(close(live[0].1, importance(1, 0.8)), "{live:?}");
    let ours = || {
        let mut files = digests(&home.config.home);
        let own = ["runs", "dream-log", "audit.jsonl"];
        files.retain(|path, _| !own.iter().any(|own| path.starts_with(own)));
        files
    };
    let before = ours();
    for hour in [21, 22, 23] {
        let report = home.night(at(1, hour)).await;
        assert_eq!((report.status.as_str(), report.rem.decayed), ("nothing_new", 0));
    }
    assert_eq!((home.live().await, home.store().await.version().await.unwrap()), (live, version));
    assert_eq!(ours(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_without_a_message_forgets_nothing() {
    let home = Home::new(&[]).await;
    home.add(&[memory("tea", TEA, 0.8), memory("low", "The user once saw a heron.", 0.01)]).await;
    home.night(at(0, 20)).await;
    let before = home.live().await;
    for n in [1, 2, 15, 31, 365] {
        assert_eq!(home.night(at(n, 20)).await.rem.faded, 0);
    }
    assert_eq!(home.live().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_lifts_the_memory_once_a_day_and_restarts_its_clock() {
    let home = Home::new(&[]).await;
    home.add(&[memory("tea", TEA, 0.8), memory("run", "The user runs on Sundays.", 0.5)]).await;
    home.night(at(0, 20)).await;
    (1..=4).for_each(|n| home.hello(n));
    home.recall(&[
        r#"{"id":"tea","at":"2026-01-04T08:00:00Z"}"#,
        r#"{"id":"tea","at":"2026-01-04T09:30:00Z"}"#,
        r#"{"text":"The user runs on Sundays.","at":"2026-01-05T08:00:00Z"}"#,
        r#"{"id":"tea"}"#,
        "no json",
        "",
        r#"{"id":"nobody","at":"2026-01-04T08:00:00Z"}"#,
        r#"{"id":"run","at":"2026-03-01T08:00:00Z"}"#,
    ]);
    let report = home.night(at(4, 20)).await;
    assert_eq!(report.rem.recalled, 2);
    let told: Vec<&String> =
        report.warnings.iter().filter(|w| w.contains("no recall, passed over")).collect();
    assert!(told.len() == 2 && told[0].contains("agent.jsonl:4:") && told[1].contains(":5:"), "{told:?}");

    let lifted = |before: f64| before + 0.1 * (1.0 - before);
    let (tea, run) = (home.trace("tea").await, home.trace("run").await);
    assert!(close(tea.base, lifted(importance(3, 0.8))) && close(run.base, lifted(importance(4, 0.5))));
    assert_eq!((tea.stability, tea.clock, run.stability, run.clock), (1.5, day(3), 1.5, day(4)));
    // One active day since the recall, with the new stability.
    let today = tea.base * 0.95_f64.powf(1.0 / 1.5);
    let live = home.live().await;
    assert!(close(live[0].1, today) && close(live[1].1, run.base), "{live:?}");

    let version = home.store().await.version().await.unwrap();
    assert_eq!(home.night(at(4, 21)).await.rem.recalled, 0);
    assert_eq!((home.trace("tea").await, home.trace("run").await), (tea, run));
    assert_eq!(home.store().await.version().await.unwrap(), version);
}

#[tokio::test(flavor = "multi_thread")]
async fn stability_ends_at_ten() {
    let home = with_tea(&[]).await;
    let lines: Vec<String> =
        (0..40).map(|n| format!(r#"{{"id":"tea","at":"{}T08:00:00Z"}}"#, day(n))).collect();
    home.recall(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(home.night(at(40, 20)).await.rem.recalled, 1);
    assert_eq!(home.trace("tea").await.stability, 10.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_wrote_is_the_new_base() {
    let home = with_tea(&[]).await;
    home.night(at(0, 20)).await;
    (1..=10).for_each(|n| home.hello(n));
    home.night(at(10, 20)).await;
    assert!(close(home.live().await[0].1, importance(10, 0.8)));
    let gateway = home.gateway().await;
    gateway.update().column("importance", "0.6").execute().await.unwrap();
    home.night(at(10, 21)).await;
    assert_eq!(home.live().await[0].1, 0.6);
    (11..=12).for_each(|n| home.hello(n));
    home.night(at(12, 20)).await;
    assert!(close(home.live().await[0].1, importance(2, 0.6)));
    assert_eq!((home.trace("tea").await.base, home.trace("tea").await.clock), (0.6, day(10)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_row_starts_the_night_it_is_first_seen() {
    let home = Home::new(&[]).await;
    (1..=20).for_each(|n| home.hello(n));
    home.night(at(20, 20)).await;
    // As old as the epoch, and below the threshold from the start.
    let old = Memory { created_at: 0, ..memory("old", "The user had a red bicycle.", 0.149) };
    home.add(&[old, memory("tea", TEA, 0.8)]).await;
    let first = home.night(at(20, 21)).await;
    assert_eq!((first.first_seen, first.rem.faded, first.rem.decayed), (2, 0, 0));
    assert_eq!((home.trace("old").await.clock, home.trace("tea").await.base), (day(20), 0.8));
    home.hello(21);
    assert_eq!(home.night(at(21, 20)).await.rem.faded, 1);
    assert_eq!(home.archived().await, ["old"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_memories_and_those_about_the_future_stay() {
    let home = Home::new(&[]).await;
    home.add(&[
        memory("pinned", "The user's blood group is A.", 0.2),
        memory("coming", "The user flies to Oslo on 2026-01-20.", 0.2),
        memory("plain", "The user bought a lamp.", 0.2),
    ])
    .await;
    home.add(&important(20)).await;
    home.night(at(0, 20)).await;
    let pinned = Trace { pinned: true, ..home.trace("pinned").await };
    home.store().await.put_traces(&[pinned]).await.unwrap();
    (1..=19).for_each(|n| home.hello(n));
    home.night(at(18, 20)).await;
    home.night(at(19, 20)).await;
    assert_eq!(home.archived().await, ["plain"]);
    let low = home.live().await.into_iter().filter(|(_, importance)| *importance < 0.15).count();
    assert_eq!(low, 2);
    home.hello(20);
    home.night(at(20, 20)).await;
    assert_eq!(home.archived().await, ["coming", "plain"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_fading_off_nothing_changes_and_switching_it_on_starts_the_clock() {
    let off = [("DREAMER_FADE", "off")];
    let mut home = Home::new(&[]).await;
    home.add(&[memory("low", "The user had a red bicycle.", 0.16), memory("tea", TEA, 0.8)]).await;
    home.night(at(0, 20)).await;
    home.hello(1);
    home.night(at(1, 20)).await;
    // Switched off: what was forgotten by then is not given back.
    home.set(&off);
    (2..=60).for_each(|n| home.hello(n));
    for n in [2, 30, 60] {
        let report = home.night(at(n, 20)).await;
        assert_eq!((report.rem.decayed, report.rem.faded), (0, 0));
    }
    let before: Vec<f64> = home.live().await.into_iter().map(|(_, importance)| importance).collect();
    assert!(close(before[0], importance(1, 0.8)) && close(before[1], importance(1, 0.16)), "{before:?}");
    // Switched on again: the sixty days do not come back, either.
    home.set(&[]);
    let report = home.night(at(60, 21)).await;
    assert_eq!((report.rem.decayed, report.rem.faded), (0, 0));
    assert_eq!(home.trace("tea").await.clock, day(60));
    home.hello(61);
    home.night(at(61, 20)).await;
    assert_eq!(home.archived().await, ["low"]);
    assert!(close(home.live().await[0].1, importance(2, 0.8)));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_gateway_is_nothing_fades_before_recalls_were_readable_on_14_active_days() {
    let auto = [("DREAMER_FADE", "auto")];
    let mut home = Home::new(&auto).await;
    home.add(&[memory("low", "The user had a red bicycle.", 0.151)]).await;
    let notes = home.outside("notes");
    std::fs::create_dir_all(&notes).unwrap();
    home.set(&[auto[0], ("DREAMER_EPISODES_DIR", notes.to_str().unwrap())]);
    home.night(at(0, 20)).await;
    // Without a source of recalls no number of days is enough.
    (1..=20).for_each(|n| home.hello(n));
    assert_eq!(home.night(at(20, 20)).await.rem.faded, 0);
    home.recall(&[]);
    (21..=33).for_each(|n| home.hello(n));
    let report = home.night(at(33, 20)).await;
    assert_eq!((report.rem.faded, report.rem.decayed), (0, 0));
    // The fourteenth: fading comes into force, and the clock starts.
    home.hello(34);
    let report = home.night(at(34, 20)).await;
    assert_eq!((report.rem.faded, home.trace("low").await.clock), (0, day(34)));
    home.hello(35);
    assert_eq!(home.night(at(35, 20)).await.rem.faded, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_without_a_gateway_fades_from_the_start() {
    let home = Home::new(&[("DREAMER_FADE", "auto")]).await;
    home.add(&[memory("low", "The user had a red bicycle.", 0.151)]).await;
    home.night(at(0, 20)).await;
    home.hello(1);
    assert_eq!(home.night(at(1, 20)).await.rem.faded, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_budget_lets_the_least_important_go_first() {
    let home = Home::new(&[]).await;
    let texts = strange_sentences(100);
    let row = |n: usize| {
        // Two of equal importance and of other ages, two that differ in the id alone.
        let (importance, age) = match n {
            0 => (0.10, 5),
            1 | 2 => (0.12, 9),
            3 => (0.12, 8),
            4..=14 => (0.13, 5),
            _ => (1.0, 5),
        };
        let row = memory(&format!("row-{n:03}"), &texts[n], importance);
        Memory { created_at: row.created_at - age, ..row }
    };
    home.add(&(0..100).map(row).collect::<Vec<_>>()).await;
    home.night(at(0, 20)).await;
    (1..=40).for_each(|n| home.hello(n));
    let ids = |rows: std::ops::Range<usize>| rows.map(|n| format!("row-{n:03}")).collect::<Vec<_>>();
    let mut night = at(1, 20);
    for (faded, wait) in [(2, 13), (3, 12), (4, 11), (5, 10), (6, 9), (7, 8), (8, 7), (9, 6), (9, 6), (9, 6)]
    {
        let report = home.night(night).await;
        night += chrono::TimeDelta::hours(1);
        assert_eq!((home.archived().await, report.waiting.fading), (ids(0..faded), wait));
        let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
        assert!(log.contains(&format!("{wait} more below the threshold: waiting")), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_duplicates_beyond_the_loss_budget_wait() {
    let home = Home::new(&[]).await;
    let texts = strange_sentences(30);
    let twins = |n: usize| {
        [memory(&format!("a-{n:02}"), &texts[n], 0.7), memory(&format!("b-{n:02}"), &texts[n], 0.6)]
    };
    home.add(&(0..30).flat_map(twins).collect::<Vec<_>>()).await;
    let report = home.night(at(0, 20)).await;
    assert_eq!((home.archived().await.len(), report.waiting.merging), (20, 10));
    let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
    assert!(log.contains("10 memories could not leave by merging"), "{log}");
    home.night(at(0, 21)).await;
    let mut expected = texts;
    expected.sort();
    assert_eq!((home.texts().await, home.archived().await.len()), (expected, 30));
    assert!(home.archived().await.iter().all(|id| id.starts_with("b-")));
}
