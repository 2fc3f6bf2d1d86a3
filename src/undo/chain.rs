//! Which runs a rollback takes back, and in which order: the run and all later ones, the newest first. Runs that are
//! taken back already and those that took them back cancel out. Pure.

use super::UndoError;
use crate::plan::run::State;
use crate::plan::{Purpose, RunId};

/// The runs to take back, newest first; `runs` are all there are, oldest first.
///
/// # Errors
/// When the run wrote nothing, or is taken back already.
pub(crate) fn chain(runs: &[(RunId, State)], run: &RunId) -> Result<Vec<RunId>, UndoError> {
    let Some((_, state)) = runs.iter().find(|(id, _)| id == run) else {
        return Err(UndoError::NoSuchRun { run: run.clone() });
    };
    if let Some(by) = &state.undone_by {
        return Err(UndoError::Already { run: run.clone(), by: by.clone() });
    }
    if !state.phase.has_written() {
        return Err(UndoError::NothingWritten { run: run.clone(), phase: state.phase.as_str() });
    }
    let counts = |(id, state): &&(RunId, State)| {
        let cancels = match &state.purpose {
            Purpose::Rollback { of } => of > run,
            _ => false,
        };
        id == run || id > run && state.phase.has_written() && state.undone_by.is_none() && !cancels
    };
    let mut chain: Vec<RunId> = runs.iter().filter(counts).map(|(id, _)| id.clone()).collect();
    chain.sort_by(|a, b| b.cmp(a));
    Ok(chain)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::Phase;

    fn id(n: u32) -> RunId {
        RunId::parse(&format!("20260101-030000-{n:06x}")).unwrap()
    }

    /// Runs 1, 2, … as (the run it takes back, the run that took it back).
    fn runs(all: &[(Option<u32>, Option<u32>)]) -> Vec<(RunId, State)> {
        let state = |(of, by): &(Option<u32>, Option<u32>)| State {
            purpose: of.map_or(Purpose::Night, |of| Purpose::Rollback { of: id(of) }),
            undone_by: by.map(id),
            ..State::of(Phase::Finished, "2026-01-01T03:00:00Z".parse().unwrap())
        };
        (1..).zip(all).map(|(n, run)| (id(n), state(run))).collect()
    }

    fn numbers(runs: &[(RunId, State)], run: u32) -> Vec<u32> {
        let number = |run: RunId| u32::from_str_radix(&run.as_str()[16..], 16).unwrap();
        chain(runs, &id(run)).unwrap().into_iter().map(number).collect()
    }

    #[test]
    fn later_runs_come_first_and_what_cancels_out_is_left_out() {
        let night = (None, None);
        assert_eq!(numbers(&runs(&[night, night, night]), 1), [3, 2, 1]);
        // Run 4 took back run 3.
        let back = runs(&[night, night, (None, Some(4)), (Some(3), None), night]);
        assert_eq!(numbers(&back, 2), [5, 2]);
        assert_eq!(numbers(&back, 4), [5, 4]);
        // Run 5 took back run 4, so run 3 holds again.
        let again = runs(&[night, night, night, (Some(3), Some(5)), (Some(4), None)]);
        assert_eq!(numbers(&again, 2), [3, 2]);
        assert_eq!(numbers(&again, 5), [5]);
    }

    #[test]
    fn what_wrote_nothing_or_is_taken_back_is_refused() {
        let mut all = runs(&[(None, Some(2)), (Some(1), None), (None, None), (None, None)]);
        let refused = |all: &[(RunId, State)], run| chain(all, &id(run)).unwrap_err().to_string();
        assert!(refused(&all, 1).contains("already") && refused(&all, 9).contains("there is none"));
        all[2].1.phase = Phase::Previewed;
        assert!(refused(&all, 3).contains("previewed"));
        assert_eq!(numbers(&all, 2), [4, 2]);
    }
}
