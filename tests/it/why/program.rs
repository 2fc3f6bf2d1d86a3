//! The commands as they are typed.

use std::process::{Command, Output};

use dreamer::state::audit::{Audit, Kind};
use serde_json::Value;

use super::{CATS_ID, LAMP_2, STANDUP, TWICE, life};
use crate::home::Home;

fn run(home: &Home, args: &[&str]) -> Output {
    let settings = [
        ("DREAMER_HOME", home.config.home.to_str().unwrap()),
        ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
        ("DREAMER_BUILTIN_MODEL", "lexical"),
        ("DREAMER_LLM_PROVIDER", "extractive"),
        ("DREAMER_TIMEZONE", "UTC"),
        ("DREAMER_FADE", "on"),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
    command.env_clear().envs(settings).current_dir(home.outside("")).args(args).output().unwrap()
}

fn told(home: &Home, args: &[&str]) -> String {
    let output = run(home, args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn why_reads_as_a_story_and_as_json() {
    let life = life().await;
    let (home, twice) = (&life.home, life.id_of(TWICE).await);
    let story = told(home, &["why", &twice[..8]]);
    for part in [
        TWICE,
        &twice,
        "2026-01-03.md:9  user, 2026-01-03 12:00  in episodes/archive/2026-01-03.md",
        "> Bad news: I am allergic to cats now.",
        "merged by replay",
        "“it says what became of it”",
        "What went into it",
        "The user likes cats.",
        "stability 1",
        &format!("dreamer unmerge {twice}"),
    ] {
        assert!(story.contains(part), "{part} is missing in\n{story}");
    }
    let json: Value = serde_json::from_str(&told(home, &["why", &twice, "--json"])).unwrap();
    assert_eq!((json["id"].as_str(), json["standing"].as_str()), (Some(twice.as_str()), Some("live")));
    assert_eq!(json["parts"][0]["parts"][0]["id"], CATS_ID);
    assert_eq!(json["sources"][0]["lines"], serde_json::json!([9, 9]));

    let gone = told(home, &["why", CATS_ID]);
    for part in [
        "why it left: it went into another memory on 2026-01-03 20:00",
        "state change",
        TWICE,
        "Readable copy",
    ] {
        assert!(gone.contains(part), "{part} is missing in\n{gone}");
    }
    let unknown = run(home, &["why", "ffff"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("could not tell about \"ffff\": no memory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn show_in_detail_adds_what_was_said() {
    let life = life().await;
    let (home, id) = (&life.home, life.id_of(STANDUP).await);
    let words = "As you know, our team standup is at 9:00 every weekday.";
    let plain = told(home, &["memories", "show", &id]);
    assert!(!plain.contains(words), "{plain}");
    let detail = told(home, &["memories", "show", &id, "--detail"]);
    assert!(detail.starts_with(&plain), "{detail}");
    for part in
        ["2026-01-05.md:9 (user, 2026-01-05 12:00)", words, "Our team standup is at 9:00 every weekday."]
    {
        assert!(detail.contains(part), "{part} is missing in\n{detail}");
    }
    let json: Value =
        serde_json::from_str(&told(home, &["memories", "show", &id, "--detail", "--json"])).unwrap();
    assert_eq!(json["raw"].as_array().unwrap().len(), 2);
    assert_eq!(json["raw"][1]["text"], words);
    let none = told(home, &["memories", "show", LAMP_2, "--detail"]);
    assert!(none.contains("no raw chunk of it is kept"), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_is_in_the_audit_and_in_the_story() {
    let life = life().await;
    let home = &life.home;
    told(home, &["restore", LAMP_2]);
    let last = Audit::read(&home.config.home).unwrap().pop().unwrap();
    assert_eq!((last.kind.clone(), last.after[0].id.as_str()), (Kind::Restored, LAMP_2));
    assert_eq!(last.of.as_ref(), Some(&life.nights[0].report.run));
    let story = told(home, &["why", LAMP_2]);
    assert!(story.contains("live, ") && story.contains("was brought back by a person"), "{story}");
    assert!(!story.contains("why it left"), "{story}");
}
