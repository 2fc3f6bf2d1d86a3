//! `dreamer forget` and `dreamer maintenance` from outside: questions, exit codes, what is printed.

use std::process::{Command, Output, Stdio};

use super::allergic;
use crate::home::Home;

/// Runs the program on a home, with the settings of the tests.
pub(crate) fn dreamer(home: &Home, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", home.outside("nowhere"))
        .env("DREAMER_HOME", &home.config.home)
        .env("DREAMER_EMBEDDING_PROVIDER", "builtin")
        .env("DREAMER_BUILTIN_MODEL", "lexical")
        .env("DREAMER_LLM_PROVIDER", "extractive")
        .env("DREAMER_TIMEZONE", "UTC")
        .current_dir(&home.config.home)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    output
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What is printed by a command that ends with that code.
pub(crate) fn told(home: &Home, args: &[&str], code: i32) -> (String, String) {
    let output = dreamer(home, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    (out, err)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_way_back_is_asked_for_and_listed_first() {
    let (home, row) = allergic().await;
    for args in [vec!["forget", "--text", "PEANUTS"], vec!["forget", &row.id, "--erase"]] {
        let (out, err) = told(&home, &args, 1);
        assert!(out.contains(&row.id) && out.contains("live"), "{out}");
        assert!(err.contains("nothing was changed") && err.contains("--yes"), "{err}");
    }
    assert_eq!(home.texts().await.len(), 1);
    let (out, _) = told(&home, &["forget", "--text", "peanuts", "--yes"], 0);
    assert!(out.contains(&format!("dreamer restore {}", row.id)), "{out}");
    assert!(home.texts().await.is_empty());
    let (out, _) = told(&home, &["forget", "--text", "peanuts", "--erase", "--now", "--yes"], 0);
    for part in ["archived (forgotten)", "in archive", "in plans", "lines of", "no older version"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (out, _) = told(&home, &["forget", &row.id[..8], "--erase", "--yes"], 0);
    assert!(out.contains("forgotten already"), "{out}");
    for (args, part) in [
        (["forget", "--text", "peanuts"], "no memory, live or archived, does"),
        (["forget", "ffffffff", "--yes"], "dreamer memories list"),
    ] {
        assert!(told(&home, &args, 1).1.contains(part));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_that_need_others_are_usage_errors() {
    let home = Home::new(&[]).await;
    for args in [
        &["forget"][..],
        &["forget", "a", "--now"],
        &["forget", "a", "--text", "b"],
        &["maintenance"],
        &["maintenance", "on", "--for", "soon"],
        &["pin"],
    ] {
        told(&home, args, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_now_asks_the_gateways_settings_where_it_would_listen() {
    let (home, row) = allergic().await;
    let gateway = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::create_dir_all(home.outside("nowhere/.openclaw")).unwrap();
    let settings = format!("{{gateway: {{port: {}}}}}", gateway.local_addr().unwrap().port());
    std::fs::write(home.outside("nowhere/.openclaw/openclaw.json"), settings).unwrap();
    let args = ["forget", &row.id, "--erase", "--now", "--yes"];
    assert!(told(&home, &args, 75).1.contains("the gateway answers at 127.0.0.1:"));
    assert_eq!(home.texts().await.len(), 1);
    drop(gateway);
    told(&home, &args, 0);
    assert!(home.texts().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_keeps_timed_runs_away_and_lets_others_know() {
    let home = Home::new(&[]).await;
    let (off, _) = told(&home, &["maintenance", "status"], 0);
    assert_eq!(off, "maintenance is off\n");
    let (on, _) = told(&home, &["maintenance", "on", "--for", "2h", "--reason", "new disk"], 0);
    assert!(on.starts_with("maintenance is on since ") && on.contains("new disk"), "{on}");
    let before = crate::home::digests(&home.config.home);
    let (out, _) = told(&home, &["--if-due"], 0);
    assert!(out.contains("maintenance is on until") && out.contains("new disk"), "{out}");
    assert_eq!(crate::home::digests(&home.config.home), before, "not even the lock was touched");
    let output = dreamer(&home, &[]);
    assert_eq!(output.status.code(), Some(0));
    let logs: Vec<_> = std::fs::read_dir(home.config.dream_log_dir()).unwrap().collect();
    let log = std::fs::read_to_string(logs[0].as_ref().unwrap().path()).unwrap();
    assert!(log.contains("maintenance is on"), "{log}");
    assert_eq!(told(&home, &["maintenance", "off"], 0).0, "maintenance is off: timed runs go on\n");
    assert_eq!(told(&home, &["maintenance", "off"], 0).0, "maintenance was off already\n");
    assert!(!told(&home, &["--if-due"], 0).0.contains("maintenance"));
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_comes_before_settings_that_cannot_be_used() {
    let home = Home::new(&[]).await;
    told(&home, &["maintenance", "on"], 0);
    let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", home.outside("nowhere"))
        .env("DREAMER_HOME", &home.config.home)
        .current_dir(&home.config.home)
        .arg("--if-due")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "there is no key: {}", text(&output.stderr));
    assert!(text(&output.stdout).contains("maintenance"));
}
