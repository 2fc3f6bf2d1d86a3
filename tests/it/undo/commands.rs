//! The commands from outside: what is shown, asked and refused, and how an episode is taken up again.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use dreamer::state::journal::{Fate, Journal};
use dreamer::undo::redream::redream;
use serde_json::Value;

use super::*;
use crate::home::{DRY, digests, eventful};
use dreamer::providers::Reasoner;

fn dreamer(home: &Home, args: &[&str]) -> Output {
    let settings = [
        ("DREAMER_HOME", home.config.home.to_str().unwrap()),
        ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
        ("DREAMER_BUILTIN_MODEL", "lexical"),
        ("DREAMER_LLM_PROVIDER", "extractive"),
        ("DREAMER_TIMEZONE", "UTC"),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
    command.env_clear().envs(settings).current_dir(home.outside("")).args(args).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command prints that ends with this code.
fn told(home: &Home, args: &[&str], code: i32) -> String {
    let output = dreamer(home, args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_shown_and_starts_only_when_somebody_agreed() {
    let home = eventful(&[]).await;
    let rows_before = rows(&home).await;
    let run = home.night(at(2, 20)).await.run;
    let before = digests(&home.config.home);
    let output = dreamer(&home, &["rollback", &run]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--yes"), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for line in [
        "+ heron",
        "+ lamp-2",
        "- ",
        "The user plays the violin badly.  importance 0.72 → 0.80",
        "3 come back, 3 go, 1 get",
        "had faded and will fade again",
        "dreamer redream FILE",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert_eq!(told(&home, &["rollback", &run, "--dry-run"], 0), shown);
    let json: Value =
        serde_json::from_str(&told(&home, &["rollback", &run, "--dry-run", "--json"], 0)).unwrap();
    assert_eq!((&json["status"], &json["runs"][0]["of"]), (&"shown".into(), &run.as_str().into()));
    assert_eq!(digests(&home.config.home), before, "nothing is written before somebody agrees");

    let json: Value = serde_json::from_str(&told(&home, &["rollback", &run, "--yes", "--json"], 0)).unwrap();
    let back = json["runs"][0]["run"].as_str().unwrap();
    assert_eq!(json["runs"][0]["memories"]["after"], rows_before.len());
    assert_same(&rows(&home).await, &rows_before, "taken back");
    let done = told(&home, &["rollback", back, "--yes"], 0);
    assert!(done.contains("is taken back") && done.contains("the way back: dreamer rollback"), "{done}");
    assert!(told(&home, &["rollback", "x", "--yes"], 1).is_empty());
    assert!(told(&home, &["rollback", &run, "--yes", "--dry-run"], 2).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_tell_which_runs_there_are_and_what_they_changed() {
    let home = eventful(&[]).await;
    let preview = home.try_night(DRY, Reasoner::Extractive, at(2, 19)).await.unwrap().run;
    let run = home.night(at(2, 20)).await.run;
    let back = rollback(&home, &run, at(2, 21)).await.remove(0).run;
    let list = told(&home, &["snapshots", "list"], 0);
    let line = |run: &str| list.lines().find(|line| line.starts_with(run)).unwrap().to_owned();
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(line(&run).contains("2026-01-03 20:00  night"), "{list}");
    assert!(line(&run).ends_with(&format!("taken back by {back}")), "{list}");
    assert!(line(&preview).ends_with("previewed: nothing of it is written"), "{list}");
    assert!(line(&back).contains(&format!("rollback of {run}")), "{list}");
    assert!(line(&back).ends_with("can be taken back until 2026-01-10"), "{list}");
    let json = told(&home, &["snapshots", "list", "--json"], 0);
    let json: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((json.len(), &json[2]["undone_by"]), (4, &back.as_str().into()));

    let shown = told(&home, &["snapshots", "show", &run], 0);
    for part in [
        "\nstate change: ",
        "\nduplicate: the same words\n- lamp-2  The user bought a brass lamp.  (0.50)\n= lamp-1",
        "\nfaded\n- heron  The user once saw a heron by the pond.  (0.16)\n",
        "\ncame back\n+ ",
        "\nnew\n+ ",
        "\nimportance\n~ violin  0.80 → 0.72",
        &format!("taken back; dreamer rollback {back} puts it in force again"),
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let undo = told(&home, &["snapshots", "show", &back], 0);
    for part in ["\ncame back\n+ heron", "\ntaken back\n- ", "\nrearchived\n- ", "0.72 → 0.80"] {
        assert!(undo.contains(part), "{part} in\n{undo}");
    }
    assert!(told(&home, &["snapshots", "show", &preview], 0).contains("nothing of it is written"));
    let json: Value = serde_json::from_str(&told(&home, &["snapshots", "show", &run, "--json"], 0)).unwrap();
    assert_eq!((&json["what"], json["importance"][0]["from"].as_f64()), (&"night".into(), Some(0.8)));
    for (args, why) in
        [(["snapshots", "show", "x"], "there is none"), (["snapshots", "show", "../x"], "no name")]
    {
        let output = dreamer(&home, &args);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_is_taken_apart_by_the_beginning_of_its_id() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let merge = home.store().await.rows("main").await.unwrap().memories;
    let merge = merge.into_iter().find(|row| row.text.contains("10:00")).unwrap().id;
    let shown = told(&home, &["unmerge", &merge[..8]], 0);
    assert!(shown.contains(&format!("- {}", &merge[..8])) && shown.contains("2 come back, 1 go"), "{shown}");
    assert_eq!(home.texts().await.iter().filter(|text| text.contains("standup")).count(), 2);
    let output = dreamer(&home, &["unmerge", "lamp-1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it is no merge"), "{}", text(&output.stderr));
}

fn files(folder: PathBuf) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file());
    let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_episode_is_distilled_anew_and_nothing_is_learnt_twice() {
    let home = eventful(&[]).await;
    let report = home.night(at(2, 20)).await;
    let (archive, episodes) = (home.config.archive_dir(), home.config.episodes_dir.clone());
    let archived = files(archive.clone());
    let (name, live) = (format!("{}.md", day(2)), home.texts().await);
    assert!(archived.contains(&name) && files(episodes.clone()).is_empty());

    let shown = told(&home, &["redream", &name], 0);
    assert!(shown.starts_with(&format!("{name} came back to {}", episodes.display())), "{shown}");
    let journal = Journal::read(&home.config.state_dir()).unwrap();
    let of_file: Vec<_> = home.plan(&report.run).journal.into_iter().filter(|r| r.episode == name).collect();
    assert!(!of_file.is_empty());
    assert!(
        shown.contains(&format!("its {} chunks anew; {0} of them were settled", of_file.len())),
        "{shown}"
    );
    for record in &of_file {
        let now = journal.get(&record.digest).unwrap();
        assert_eq!((now.fate, now.nights), (Fate::HeldBack, 0));
    }
    // Once more, by its path among the episodes: nothing else happens.
    let again = redream(&home.config, episodes.join(&name).to_str().unwrap()).await.unwrap();
    assert_eq!((again.came_back, again.chunks, again.settled), (false, of_file.len(), 0));

    let next = home.night(at(2, 22)).await;
    assert_eq!((next.chunks, next.held_back_before), (of_file.len(), of_file.len()));
    let count = |texts: &[String], words: &str| texts.iter().filter(|text| text.contains(words)).count();
    let now = home.texts().await;
    for words in ["Clara", "jazz"] {
        assert_eq!((count(&live, words), count(&now, words)), (1, 1), "{words}: {now:?}");
    }
    assert!(files(episodes).is_empty());
    assert_eq!(files(archive), archived, "it is in the archive once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_is_taken_up_from_the_homes_folders_alone_and_overwrites_nothing() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let name = format!("{}.md", day(2));
    let outside = home.outside(&name);
    std::fs::write(&outside, "I like tea.").unwrap();
    std::os::unix::fs::symlink(&outside, home.config.archive_dir().join("2026-02-01.md")).unwrap();
    std::fs::write(home.config.archive_dir().join("notes.md"), "x").unwrap();
    let before = digests(&home.config.home);
    for (file, why) in [
        (outside.to_str().unwrap(), "lies neither in"),
        ("2026-02-01.md", "lies neither in"),
        ("../../home/episodes/archive/../../../2026-01-03.md", "no such file"),
        ("2026-07-07.md", "no such file"),
        ("notes.md", "not that of an episode"),
        ("", "no such file"),
    ] {
        let error = redream(&home.config, file).await.unwrap_err().to_string();
        assert!(error.contains(why), "{file}: {error}");
    }
    assert_eq!(digests(&home.config.home), before);

    home.episode(&name, "Another file of that name.");
    let taken = redream(&home.config, &name).await.unwrap();
    assert!(taken.came_back && taken.path.ends_with(format!("{}-again.md", day(2))), "{taken:?}");
    assert_eq!(
        std::fs::read_to_string(home.config.episodes_dir.join(&name)).unwrap(),
        "Another file of that name."
    );
}
