//! An undo that is killed: wherever it was, the next run ends it in the state of one clean undo.

use dreamer::plan::Phase;
use dreamer::plan::apply::{Step, apply_until};

use super::*;
use crate::home::{State, copy, eventful};

fn go_back(home: &Home, saved: &str) {
    std::fs::remove_dir_all(&home.config.home).unwrap();
    copy(&home.outside(saved), &home.config.home);
}

/// The undo of `run`, killed after each step and ended by the next command, against one that was not.
async fn killed_after_any_step(home: &Home, run: &str, hour: u32) -> String {
    let saved = format!("saved-{hour}");
    copy(&home.config.home, &home.outside(&saved));
    let back = rollback(home, run, at(2, hour)).await.remove(0).run;
    let clean = home.state().await;
    let folder = home.outside(&format!("undo-{hour}"));
    copy(&home.run(&back).folder, &folder);
    for step in Step::ALL {
        go_back(home, &saved);
        copy(&folder, &home.run(&back).folder);
        home.run(&back).enter(Phase::Applying, at(2, hour)).unwrap();
        apply_until(&home.plan(&back), &home.store().await, &home.config, step).await.unwrap();
        // Any command that writes goes on with it first; this one then has nothing to do.
        let told = refused(home, "20250101-030000-000000", at(2, hour)).await;
        assert!(told.contains("there is none"), "{told}");
        assert_eq!(home.run(&back).phase().unwrap(), Phase::Finished, "{step:?}");
        home.state().await.assert_same(&clean, &format!("{step:?}"));
        assert_eq!(home.run(run).state().unwrap().undone_by, Some(run_id(&back)), "{step:?}");
    }
    back
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_killed_after_any_step_ends_as_a_clean_one_and_so_does_the_undo_of_it() {
    let home = eventful(&[]).await;
    let before = home.state().await;
    let run = home.night(at(2, 20)).await.run;
    let after = home.state().await;
    let back = killed_after_any_step(&home, &run, 21).await;
    // A step that had nothing to do would prove nothing.
    let plan = home.plan(&back);
    let steps = [
        plan.leaving.len(),
        plan.rearchive.len(),
        plan.traces_back.len(),
        plan.importance.len(),
        plan.put_back.len(),
        plan.unarchive.len(),
        plan.drop_traces.len(),
        plan.judged.len(),
    ];
    assert!(steps.iter().all(|count| *count > 0), "{steps:?}");
    let same_rows = |one: &State, other: &State| assert_eq!(one.live, other.live);
    same_rows(&home.state().await, &before);

    let again = killed_after_any_step(&home, &back, 22).await;
    let state = home.state().await;
    same_rows(&state, &after);
    assert_eq!((&state.archived, &state.traces), (&after.archived, &after.traces));
    assert_eq!(home.run(&run).state().unwrap().undone_by, None, "it is in force again, by {again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_was_killed_between_two_runs_is_ended_by_asking_again() {
    let home = eventful(&[]).await;
    let before = rows(&home).await;
    let first = home.night(at(2, 20)).await.run;
    home.hello(3);
    let second = home.night(at(3, 20)).await.run;
    // As if it had been killed after the later run.
    rollback(&home, &second, at(3, 21)).await;
    let reports = rollback(&home, &first, at(3, 22)).await;
    assert_eq!(reports.len(), 1, "the later run is taken back already");
    assert_same(&rows(&home).await, &before, "taken back");
}
