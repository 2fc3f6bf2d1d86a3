//! A night that is killed: wherever it was, the next run ends in the state of one clean run. And two runs at once.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use dreamer::plan::Phase;
use dreamer::plan::apply::{Step, apply_until};
use dreamer::providers::Reasoner;
use dreamer::state::lock::Lock;

use crate::home::{DRY, FULL, Home, State, at, copy, digests, eventful};

/// A home whose eventful night was planned and not applied, and a copy to go back to.
async fn planned() -> (Home, String) {
    let home = eventful(&[]).await;
    let report = home.try_night(DRY, Reasoner::Extractive, at(2, 20)).await.unwrap();
    let plan = home.plan(&report.run);
    // A step that has nothing to do would prove nothing.
    let steps = [
        plan.leaving.len(),
        plan.merged_drafts.len(),
        plan.traces.len(),
        plan.raw.len(),
        plan.importance.len(),
        plan.inserts.len(),
        plan.unarchive.len(),
        plan.journal.len(),
        plan.judged.len().max(1),
        plan.ledger.len(),
        plan.moves.len(),
    ];
    assert!(steps.iter().all(|count| *count > 0), "{steps:?}");
    copy(&home.config.home, &home.outside("saved"));
    (home, report.run)
}

fn go_back(home: &Home) {
    std::fs::remove_dir_all(&home.config.home).unwrap();
    copy(&home.outside("saved"), &home.config.home);
}

/// The state after the plan was applied at once, and one more night.
async fn after_a_clean_run(home: &Home, run: &str) -> State {
    home.apply(run, at(2, 20)).await.unwrap();
    home.night(at(2, 22)).await;
    let state = home.state().await;
    go_back(home);
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_killed_after_any_step_ends_as_a_clean_one() {
    let (home, run) = planned().await;
    let clean = after_a_clean_run(&home, &run).await;
    assert!(clean.live.len() == 5 && clean.archived.len() == 4, "{clean:#?}");
    for step in Step::ALL {
        home.run(&run).enter(Phase::Applying, at(2, 20)).unwrap();
        apply_until(&home.plan(&run), &home.store().await, &home.config, step).await.unwrap();
        let report = home.night(at(2, 22)).await;
        let told = report.warnings.iter().any(|w| w.contains(&run) && w.contains("interrupted"));
        assert!(told, "{step:?}: {:?}", report.warnings);
        home.state().await.assert_same(&clean, &format!("{step:?}"));
        go_back(&home);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_killed_twice_ends_as_a_clean_one() {
    let (home, run) = planned().await;
    let clean = after_a_clean_run(&home, &run).await;
    home.run(&run).enter(Phase::Applying, at(2, 20)).unwrap();
    for step in [Step::Insert, Step::Traces, Step::Delete, Step::Journal, Step::Move, Step::Archive] {
        apply_until(&home.plan(&run), &home.store().await, &home.config, step).await.unwrap();
    }
    home.night(at(2, 22)).await;
    home.state().await.assert_same(&clean, "one more night");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_was_never_started_is_applied_within_twelve_hours_and_given_up_after() {
    let (home, run) = planned().await;
    let clean = after_a_clean_run(&home, &run).await;
    home.run(&run).enter(Phase::Planned, at(2, 20)).unwrap();
    home.night(at(2, 22)).await;
    home.state().await.assert_same(&clean, "one more night");

    go_back(&home);
    home.run(&run).enter(Phase::Planned, at(2, 20)).unwrap();
    let report = home.night(at(3, 8)).await;
    assert!(
        report.warnings.iter().any(|w| w.contains(&run) && w.contains("given up")),
        "{:?}",
        report.warnings
    );
    assert_eq!(home.run(&run).phase().unwrap(), Phase::Abandoned);
    // The chunks are taken up by the new run instead, once.
    let live = home.texts().await;
    assert_eq!((live.len(), live.iter().filter(|text| text.contains("Clara")).count()), (5, 1), "{live:?}");
    assert!(home.trace(&home.plan(&report.run).inserts[0].memory.id).await.run == report.run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_overtaken_by_a_finished_run_is_given_up() {
    let (home, run) = planned().await;
    let other = home.try_night(DRY, Reasoner::Extractive, at(2, 21)).await.unwrap().run;
    home.apply(&other, at(2, 21)).await.unwrap();
    home.run(&run).enter(Phase::Planned, at(2, 20)).unwrap();
    let before = home.texts().await;
    home.night(at(2, 22)).await;
    assert_eq!(home.run(&run).phase().unwrap(), Phase::Abandoned);
    assert_eq!(home.texts().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_killed_between_its_log_and_its_end_has_one_log() {
    let (home, run) = planned().await;
    let log = home.apply(&run, at(2, 20)).await.unwrap().dream_log.unwrap();
    // All but the time it took.
    let read = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| !line.contains(&run)).collect::<Vec<_>>().join("\n")
    };
    let before = read();
    let logs = digests(&home.config.dream_log_dir()).len();
    home.run(&run).enter(Phase::Applying, at(2, 20)).unwrap();
    home.night(at(2, 22)).await;
    assert_eq!(read(), before);
    // One more: that of the night that went on with it.
    assert_eq!(digests(&home.config.dream_log_dir()).len(), logs + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_line_in_the_journal_costs_nothing() {
    let (home, run) = planned().await;
    let clean = after_a_clean_run(&home, &run).await;
    home.run(&run).enter(Phase::Applying, at(2, 20)).unwrap();
    apply_until(&home.plan(&run), &home.store().await, &home.config, Step::Journal).await.unwrap();
    let path = home.config.state_dir().join("chunks.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    home.night(at(2, 22)).await;
    let state = home.state().await;
    assert_eq!((state.live, state.archived, state.traces), (clean.live, clean.archived, clean.traces));
    assert_eq!(state.episodes, clean.episodes);
}

fn binary(home: &Home, args: &[&str]) -> Output {
    let settings = [
        ("DREAMER_HOME", home.config.home.to_str().unwrap()),
        ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
        ("DREAMER_BUILTIN_MODEL", "lexical"),
        ("DREAMER_LLM_PROVIDER", "extractive"),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
    command.env_clear().envs(settings).current_dir(home.outside("")).args(args).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_is_turned_away_and_changes_nothing() {
    let (home, run) = planned().await;
    let before = digests(&home.config.home);
    let first = Lock::take(&home.config.state_dir()).unwrap();
    let id = home.archived().await.remove(0);
    for args in [&[][..], &["--dry-run"], &["--rem-only"], &["apply", &run], &["restore", &id]] {
        let second = binary(&home, args);
        let told = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(75), "{args:?}: {told}");
        assert!(told.contains("state/lock"), "{args:?}: {told}");
        assert_eq!(digests(&home.config.home), before, "{args:?}");
    }
    drop(first);
    // The lock file that is left is no lock.
    assert!(home.config.state_dir().join("lock").exists());
    assert!(binary(&home, &[]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_or_written_is_named() {
    let home = eventful(&[]).await;
    // A file where a folder should be fails for every user, root included.
    let spoil = |path: &Path| {
        std::fs::rename(path, home.outside("aside")).unwrap();
        std::fs::write(path, "not a folder").unwrap();
    };
    let mend = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        std::fs::rename(home.outside("aside"), path).unwrap();
    };
    let before = home.texts().await;
    for path in [home.config.episodes_dir.clone(), home.config.state_dir(), home.config.runs_dir()] {
        spoil(&path);
        let output = binary(&home, &[]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("could not") && told.contains(path.to_str().unwrap()), "{told}");
        mend(&path);
    }
    assert_eq!(home.texts().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_that_cannot_write_its_log_or_move_an_episode_is_done_and_says_what_failed() {
    let (home, run) = planned().await;
    let clean = after_a_clean_run(&home, &run).await;
    let folders = [home.config.dream_log_dir(), home.config.archive_dir()];
    let aside = |folder: &Path| home.outside(folder.file_name().unwrap().to_str().unwrap());
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::rename(folder, aside(folder)).unwrap();
        std::fs::write(folder, "not a folder").unwrap();
    }
    let report = home.apply(&run, at(2, 20)).await.unwrap();
    let told = report.failure.clone().unwrap();
    assert!(folders.iter().all(|folder| told.contains(folder.to_str().unwrap())), "{told}");
    let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
    assert!(log.contains("Something failed") && log.contains(&run), "{log}");
    let state = home.run(&run).state().unwrap();
    assert_eq!((state.phase, state.why), (Phase::Finished, Some(told.clone())), "who looks later knows");
    for folder in &folders {
        std::fs::remove_file(folder).unwrap();
        std::fs::rename(aside(folder), folder).unwrap();
    }
    home.night(at(2, 22)).await;
    let state = home.state().await;
    assert_eq!((state.live, state.archived, state.traces), (clean.live, clean.archived, clean.traces));
    assert_eq!(state.episodes, clean.episodes);
}

/// Breaks a file of a run that was being applied.
fn spoil(home: &Home, run: &str, file: &str, bytes: &str) {
    home.run(run).enter(Phase::Applying, at(2, 20)).unwrap();
    std::fs::write(home.run(run).folder.join(file), bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_files_make_no_sense_is_parked_and_the_night_goes_on() {
    let (home, run) = planned().await;
    for (file, bytes) in
        [("state.json", "{\"phase\":\"appl"), ("state.json", ""), ("plan.json", "{}"), ("plan.json", "no")]
    {
        // Half of it is written: traces of rows that were not inserted, copies of rows that did not leave.
        apply_until(&home.plan(&run), &home.store().await, &home.config, Step::Raw).await.unwrap();
        spoil(&home, &run, file, bytes);
        let report = home.night(at(2, 22)).await;
        let told = report.warnings.join("\n");
        assert!(told.contains(&run) && told.contains("is parked"), "{file} {bytes}: {told}");
        assert_eq!(home.run(&run).phase().unwrap(), Phase::Parked);
        let live = home.texts().await;
        assert_eq!(
            (live.len(), live.iter().filter(|text| text.contains("Clara")).count()),
            (5, 1),
            "{live:?}"
        );
        let next = home.night(at(3, 22)).await;
        assert!(next.failure.is_none(), "{next:?}");
        go_back(&home);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_fails_twice_is_parked_and_one_that_was_edited_is_not_carried_out() {
    let (home, run) = planned().await;
    let path = home.run(&run).folder.join("plan.json");
    let plan = std::fs::read_to_string(&path).unwrap();
    let edited = plan.replacen("\"importance\":0.", "\"importance\":7.", 1);
    assert_ne!(edited, plan);
    std::fs::write(&path, edited).unwrap();
    let refused = home.apply(&run, at(2, 20)).await.unwrap_err().to_string();
    assert!(refused.contains("not what was written") && refused.contains("plan.json"), "{refused}");
    go_back(&home);

    // A vector of another length fails each time it is tried.
    let mut broken = home.plan(&run);
    broken.inserts[0].vector.pop();
    home.run(&run).store_plan(&broken, Phase::Applying).unwrap();
    let first = home.try_night(FULL, Reasoner::Extractive, at(2, 21)).await.unwrap_err().to_string();
    assert!(first.contains("vector"), "{first}");
    let report = home.night(at(2, 22)).await;
    let told = report.warnings.join("\n");
    assert!(told.contains("could not be finished") && told.contains("is parked"), "{told}");
    assert_eq!(home.run(&run).phase().unwrap(), Phase::Parked);
    let live = home.texts().await;
    assert_eq!((live.len(), live.iter().filter(|text| text.contains("Clara")).count()), (5, 1), "{live:?}");
}
