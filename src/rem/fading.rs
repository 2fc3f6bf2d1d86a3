//! Recall and fading: how much a memory matters today, and which memories leave for the archive.
//! Closed form and pure, so that a night run twice changes nothing. Moving rows is the plan's work.

use chrono::NaiveDate;

use crate::memory::{Importance, Memory, Trace};
use crate::state::ledger::AgentDays;

/// Highest stability a memory can reach.
const MAX_STABILITY: f64 = 10.0;
/// What one day with a recall adds to it.
const STABILITY_STEP: f64 = 0.5;
/// How much of the way to 1 a recall or a re-occurrence lifts the importance.
const REINFORCEMENT: f64 = 0.1;
/// Differences below this are rounding, not somebody's edit.
const SAME_IMPORTANCE: f64 = 1e-6;

/// importance(t) = base · (1 − rate)^(active days / stability): Ebbinghaus' exponential forgetting, counted in the
/// days on which the agent's user was there.
pub fn decayed(base: f64, rate: f64, active_days: usize, stability: f64) -> f64 {
    base * (1.0 - rate).powf(active_days as f64 / stability.clamp(1.0, MAX_STABILITY))
}

/// The first number of active days after which the importance is below `threshold`, at least 1; none if it never is.
pub fn days_until_below(base: f64, rate: f64, stability: f64, threshold: f64) -> Option<usize> {
    if rate <= 0.0 || threshold <= 0.0 {
        return None;
    }
    // base · (1 − rate)^(n / stability) < threshold, solved for n; one day to either side is rounding.
    let stability = stability.clamp(1.0, MAX_STABILITY);
    let days = ((threshold / base).ln() / (1.0 - rate).ln() * stability).max(0.0);
    let first = (days as usize).saturating_sub(1).max(1);
    (first..first + 4).find(|n| decayed(base, rate, *n, stability) < threshold)
}

/// Importance after a recall or a re-occurrence: importance + 0.1 · (1 − importance).
pub fn reinforced(importance: f64) -> f64 {
    Importance::new(importance + REINFORCEMENT * (1.0 - importance)).get()
}

/// Whether the row's importance is one that Dreamer did not write.
pub fn is_foreign(trace: &Trace, importance: f64) -> bool {
    (trace.written - importance).abs() > SAME_IMPORTANCE
}

/// Importance of a traced memory on `today`, without tonight's recalls.
pub fn importance_on(trace: &Trace, days: &AgentDays, rate: f64, today: NaiveDate) -> f64 {
    decayed(trace.base, rate, days.active_between(trace.clock, today), trace.stability)
}

/// Takes in a day on which the memory was recalled. Counts once a day; returns whether it was new.
pub fn recall(trace: &mut Trace, day: NaiveDate, days: &AgentDays, rate: f64) -> bool {
    if !trace.recalled.insert(day) {
        return false;
    }
    strengthen(trace, day, days, rate);
    trace.stability = (trace.stability + STABILITY_STEP).min(MAX_STABILITY);
    true
}

/// Takes in a day on which the user said it again. Counts once a day; returns whether it was new.
pub fn reoccur(trace: &mut Trace, day: NaiveDate, days: &AgentDays, rate: f64) -> bool {
    if !trace.reinforced.insert(day) {
        return false;
    }
    strengthen(trace, day, days, rate);
    true
}

fn strengthen(trace: &mut Trace, day: NaiveDate, days: &AgentDays, rate: f64) {
    trace.base = reinforced(importance_on(trace, days, rate, day));
    trace.clock = trace.clock.max(day);
}

/// How many memories may leave in a night. All counts are of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossBudget {
    /// Memories that may fade tonight.
    pub fading: usize,
    /// Memories that may leave by merging tonight.
    pub merging: usize,
}

impl LossBudget {
    /// Fading: at most max(1, 2 %) of the live rows a night and max(1, 10 %) in 30 days; merging: at most
    /// max(20, 10 %) a night.
    pub fn of(live_rows: usize, faded_in_30_days: usize) -> Self {
        let a_night = (live_rows * 2 / 100).max(1);
        let a_month = (live_rows / 10).max(1).saturating_sub(faded_in_30_days);
        Self { fading: a_night.min(a_month), merging: (live_rows / 10).max(20) }
    }
}

/// A memory whose importance is below the threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Fading {
    /// The memory.
    pub memory: Memory,
    /// Its importance today.
    pub importance: f64,
}

/// Whether nothing keeps a memory from fading: it is not pinned, and the latest date it is about has passed.
pub fn may_fade(trace: &Trace, today: NaiveDate) -> bool {
    !trace.pinned && trace.about.is_none_or(|about| about < today)
}

/// Splits the memories below the threshold into those that leave tonight and those that wait for the loss budget:
/// lowest importance first, then the older `createdAt`, then the id.
pub fn within_budget(mut fading: Vec<Fading>, budget: usize) -> (Vec<Fading>, Vec<Fading>) {
    fading.sort_by(|a, b| {
        a.importance
            .total_cmp(&b.importance)
            .then(a.memory.created_at.cmp(&b.memory.created_at))
            .then_with(|| a.memory.id.cmp(&b.memory.id))
    });
    let waiting = fading.split_off(budget.min(fading.len()));
    (fading, waiting)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::{Category, Partition, Reconciled, text_digest};
    use proptest::prelude::*;

    pub(crate) fn trace(id: &str, base: f64, clock: NaiveDate) -> Trace {
        Trace {
            id: id.into(),
            agent: "main".into(),
            digest: text_digest(id),
            base,
            written: base,
            clock,
            stability: 1.0,
            recalled: Default::default(),
            reinforced: Default::default(),
            sources: vec![],
            merged_from: vec![],
            entities: vec![],
            tags: vec![],
            emotion: 0.0,
            said_at: None,
            about: None,
            pinned: false,
            reconciled: Reconciled::Done,
            model: "lexical".into(),
            run: "r".into(),
        }
    }

    fn day(n: i64) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 1, 1).unwrap() + chrono::Duration::days(n)
    }

    fn active(n: i64) -> AgentDays {
        AgentDays { active: (1..=n).map(day).collect(), ..AgentDays::default() }
    }

    #[test]
    fn importance_0_8_falls_below_the_threshold_on_active_day_33() {
        let trace = trace("a", 0.8, day(0));
        assert!(importance_on(&trace, &active(32), 0.05, day(99)) >= 0.15);
        assert!(importance_on(&trace, &active(33), 0.05, day(99)) < 0.15);
    }

    #[test]
    fn the_day_a_memory_falls_below_the_threshold_is_known_beforehand() {
        assert_eq!(days_until_below(0.8, 0.05, 1.0, 0.15), Some(33));
        assert_eq!(days_until_below(0.1, 0.05, 1.0, 0.15), Some(1), "a night needs one active day");
        assert_eq!(days_until_below(0.8, 0.0, 1.0, 0.15), None);
        assert_eq!(days_until_below(0.8, 1.0, 1.0, 0.15), Some(1));
        assert_eq!(days_until_below(0.0, 0.05, 1.0, 0.15), Some(1));
    }

    #[test]
    fn days_without_a_message_forget_nothing() {
        let trace = trace("a", 0.8, day(0));
        assert_eq!(importance_on(&trace, &active(0), 0.05, day(365)), 0.8);
    }

    #[test]
    fn a_recall_counts_once_a_day_and_makes_the_memory_last() {
        let mut trace = trace("a", 0.5, day(0));
        let days = active(10);
        assert!(recall(&mut trace, day(5), &days, 0.05));
        let once = trace.clone();
        assert!(!recall(&mut trace, day(5), &days, 0.05));
        assert_eq!(trace, once);
        let before = decayed(0.5, 0.05, 5, 1.0);
        assert!((trace.base - (before + 0.1 * (1.0 - before))).abs() < 1e-12);
        assert_eq!((trace.stability, trace.clock), (1.5, day(5)));
        for n in 6..60 {
            recall(&mut trace, day(n), &days, 0.05);
        }
        assert_eq!(trace.stability, 10.0);
    }

    #[test]
    fn the_loss_budget_follows_the_number_of_rows() {
        for (rows, faded, fading, merging) in [
            (3, 0, 1, 20),
            (3, 1, 0, 20),
            (100, 0, 2, 20),
            (2000, 0, 40, 200),
            (2000, 180, 20, 200),
            (2000, 500, 0, 200),
        ] {
            assert_eq!(
                LossBudget::of(rows, faded),
                LossBudget { fading, merging },
                "{rows} rows, {faded} faded"
            );
        }
    }

    #[test]
    fn the_lowest_importance_goes_first_then_the_older_then_the_id() {
        let fading = |id: &str, importance, created_at| Fading {
            memory: Memory {
                id: id.into(),
                text: String::new(),
                importance,
                category: Category::Fact,
                created_at,
                partition: Partition::of_agent("main"),
            },
            importance,
        };
        let all = vec![fading("d", 0.1, 1), fading("c", 0.05, 9), fading("b", 0.05, 2), fading("a", 0.05, 2)];
        let (leave, wait) = within_budget(all, 3);
        let ids = |list: &[Fading]| list.iter().map(|f| f.memory.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&leave), ["a", "b", "c"]);
        assert_eq!(ids(&wait), ["d"]);
    }

    #[test]
    fn a_pinned_memory_and_one_about_the_future_stay() {
        let mut pinned = trace("a", 0.1, day(0));
        pinned.pinned = true;
        let mut coming = trace("b", 0.1, day(0));
        coming.about = Some(day(9));
        assert!(!may_fade(&pinned, day(5)) && !may_fade(&coming, day(9)) && may_fade(&coming, day(10)));
    }

    proptest! {
        #[test]
        fn importance_stays_between_0_and_its_base(base in 0.0..=1.0f64, n in 0usize..5000, stability in 1.0..=10.0f64) {
            let value = decayed(base, 0.05, n, stability);
            prop_assert!((0.0..=base).contains(&value));
            prop_assert!(reinforced(value) >= value && reinforced(value) <= 1.0);
        }

        #[test]
        fn the_day_known_beforehand_is_the_first_one(base in 0.0..=1.0f64, rate in 0.001..0.9f64, stability in 1.0..=10.0f64, threshold in 0.01..0.9f64) {
            let days = days_until_below(base, rate, stability, threshold).unwrap();
            prop_assert!(decayed(base, rate, days, stability) < threshold);
            prop_assert!(days == 1 || decayed(base, rate, days - 1, stability) >= threshold);
        }
    }
}
