//! A resolution: what is done about a conflict. From the judge's verdicts, in order, with the veto, one resolution a
//! memory a night, and the loss budget. Pure; writing them is the plan's work.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Similarity;
use crate::rem::blacklist::Blacklist;
use crate::rem::conflict::{Claim, Neighbourhood, Relation, Verdict};
use crate::rem::veto::{Veto, veto};
use crate::state::journal::JudgedPair;

/// What is done about one pair. Numbers are indexes of claims.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// One new memory (or two) carries both; the sources leave for the archive.
    Merge {
        /// `StateChange` (merged with its history) or `DifferentAspects` (consolidated).
        relation: Relation,
        /// The new claim.
        new: usize,
        /// The existing one.
        old: usize,
        /// The texts of the successors.
        texts: Vec<String>,
        /// Cosine of the two.
        similarity: Similarity,
        /// The judge's reason.
        reason: String,
        /// Digest of the judge's prompt; none where rules judged.
        prompt: Option<String>,
    },
    /// The better one stays and is reinforced; the other leaves, or is never stored.
    Duplicate {
        /// Stays.
        keep: usize,
        /// Goes.
        drop: usize,
        /// Cosine of the two.
        similarity: Similarity,
        /// Why they are the same.
        reason: String,
        /// Digest of the judge's prompt; none where rules judged.
        prompt: Option<String>,
    },
    /// Both stay.
    KeepBoth {
        /// The new claim.
        new: usize,
        /// The existing one.
        old: usize,
        /// Cosine of the two.
        similarity: Similarity,
        /// The judge's reason.
        reason: String,
        /// Set when the judge wanted otherwise.
        veto: Option<Veto>,
    },
    /// Both stay, and a person is asked.
    PendingReview {
        /// The new claim.
        new: usize,
        /// The existing one.
        old: usize,
        /// The text that would carry both, if the judge gave one.
        texts: Vec<String>,
        /// Whom or what the judge takes each to be about: the new one, the existing one.
        subjects: (String, String),
        /// Cosine of the two.
        similarity: Similarity,
        /// The judge's question.
        reason: String,
    },
}

/// All resolutions of a night, as they are found.
#[derive(Debug, Default)]
pub struct Resolutions {
    /// In the order they were found.
    pub list: Vec<Resolution>,
    /// Pairs that need not be asked about again.
    pub judged: Vec<JudgedPair>,
    /// Claims with an open conflict: marked waiting, a later night takes them up.
    pub waiting: BTreeSet<usize>,
    /// Rows that could not leave because the loss budget for merging was reached.
    pub over_budget: usize,
    blacklist: Blacklist,
    taken: BTreeSet<usize>,
    /// Claims that stay while a duplicate of theirs goes: further duplicates may go the same night.
    keepers: BTreeSet<usize>,
    turned_away: BTreeSet<usize>,
    leaving: BTreeMap<String, usize>,
}

impl Resolutions {
    /// None yet, and no merge of names on this list.
    pub fn guarded_by(blacklist: Blacklist) -> Self {
        Self { blacklist, ..Self::default() }
    }

    /// Whether the claim already takes part in a resolution tonight.
    pub fn is_taken(&self, claim: usize) -> bool {
        self.taken.contains(&claim)
    }

    /// Whether a duplicate of the claim may go tonight: it is free, or stays already for another duplicate.
    pub fn may_keep(&self, claim: usize) -> bool {
        !self.is_taken(claim) || self.keepers.contains(&claim)
    }

    /// Takes in the verdicts on one neighbourhood. `may_leave` says how many rows of an agent may leave by merging
    /// tonight.
    pub fn take_in(
        &mut self,
        neighbourhood: &Neighbourhood,
        verdicts: Vec<Verdict>,
        claims: &[Claim],
        may_leave: &BTreeMap<String, usize>,
    ) {
        let mut open: BTreeSet<usize> = (0..neighbourhood.candidates.len()).collect();
        for verdict in verdicts {
            open.remove(&verdict.candidate);
            self.settle(neighbourhood, verdict, claims, may_leave);
        }
        if !open.is_empty() {
            self.waiting.insert(neighbourhood.new);
        }
    }

    fn settle(
        &mut self,
        neighbourhood: &Neighbourhood,
        verdict: Verdict,
        claims: &[Claim],
        may_leave: &BTreeMap<String, usize>,
    ) {
        let candidate = &neighbourhood.candidates[verdict.candidate];
        let (new, old, similarity) = (neighbourhood.new, candidate.claim, candidate.similarity);
        let pair = JudgedPair::of(&claims[new].digest(), &claims[old].digest());
        if let Some(veto) = veto(&verdict, &claims[new], &claims[old], &self.blacklist) {
            self.judged.push(pair);
            let reason = verdict.reason;
            self.list.push(Resolution::KeepBoth { new, old, similarity, reason, veto: Some(veto) });
            return;
        }
        let (reason, prompt) = (verdict.reason, verdict.prompt);
        let subjects = (verdict.new_subject, verdict.old_subject);
        let resolution = match verdict.relation {
            Relation::Unrelated => Resolution::KeepBoth { new, old, similarity, reason, veto: None },
            Relation::PendingReview => {
                Resolution::PendingReview { new, old, texts: verdict.texts, subjects, similarity, reason }
            }
            Relation::Duplicate => {
                let (keep, drop) = better(new, old, claims);
                Resolution::Duplicate { keep, drop, similarity, reason, prompt }
            }
            relation @ (Relation::StateChange | Relation::DifferentAspects) => {
                Resolution::Merge { relation, new, old, texts: verdict.texts, similarity, reason, prompt }
            }
        };
        let changes = matches!(resolution, Resolution::Merge { .. } | Resolution::Duplicate { .. });
        if !changes {
            self.judged.push(pair);
            self.list.push(resolution);
        } else if !self.claim_both(&resolution, claims, may_leave) {
            self.waiting.insert(new);
        } else {
            self.list.push(resolution);
        }
    }

    /// Reserves both claims for one resolution, unless one is taken or the loss budget is used up.
    fn claim_both(
        &mut self,
        resolution: &Resolution,
        claims: &[Claim],
        may_leave: &BTreeMap<String, usize>,
    ) -> bool {
        let (pair, leavers, free) = match resolution {
            Resolution::Merge { new, old, .. } => {
                ([*new, *old], vec![*new, *old], !self.is_taken(*new) && !self.is_taken(*old))
            }
            Resolution::Duplicate { keep, drop, .. } => {
                ([*keep, *drop], vec![*drop], self.may_keep(*keep) && !self.is_taken(*drop))
            }
            _ => return true,
        };
        if !free {
            return false;
        }
        let agent = &claims[pair[0]].partition.agent;
        let rows = leavers.iter().filter(|index| !claims[**index].is_draft).count();
        let left = self.leaving.entry(agent.clone()).or_default();
        if *left + rows > may_leave.get(agent).copied().unwrap_or(0) {
            // Both of a pair may ask for the same one to leave, and again later: it waits once.
            self.turned_away.extend(leavers.iter().filter(|index| !claims[**index].is_draft));
            self.over_budget = self.turned_away.len();
            return false;
        }
        *left += rows;
        self.taken.extend(pair);
        if let Resolution::Duplicate { keep, .. } = resolution {
            self.keepers.insert(*keep);
        }
        true
    }
}

/// Which of two claims that say the same stays: a row before a draft, the pinned one, the more important, the longer,
/// the one said first.
pub fn better(one: usize, other: usize, claims: &[Claim]) -> (usize, usize) {
    let (a, b) = (&claims[one], &claims[other]);
    let order = b
        .is_draft
        .cmp(&a.is_draft)
        .then(a.pinned.cmp(&b.pinned))
        .then(a.importance.total_cmp(&b.importance))
        .then(a.text.chars().count().cmp(&b.text.chars().count()))
        .then(b.said_at.cmp(&a.said_at))
        .then(b.id.cmp(&a.id));
    if order.is_ge() { (one, other) } else { (other, one) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::rem::conflict::Candidate;
    use crate::rem::conflict::tests::claim;

    fn claims() -> Vec<Claim> {
        vec![
            claim("a", "The user likes cats.", "2026-01-01"),
            claim("b", "The user is allergic to cats now.", "2026-03-10"),
            claim("c", "The user likes cats and dogs.", "2026-02-01"),
        ]
    }

    fn merge(candidate: usize) -> Verdict {
        Verdict {
            candidate,
            relation: Relation::StateChange,
            reason: "changed".into(),
            new_subject: "The user".into(),
            old_subject: "The user".into(),
            texts: vec!["The user used to like cats and dogs, allergic to cats since 2026-03-10.".into()],
            prompt: None,
        }
    }

    fn neighbourhood() -> Neighbourhood {
        let candidate = |claim| Candidate { claim, similarity: Similarity(0.8) };
        Neighbourhood { new: 1, candidates: vec![candidate(0), candidate(2)] }
    }

    fn budget(rows: usize) -> BTreeMap<String, usize> {
        BTreeMap::from([("main".to_owned(), rows)])
    }

    #[test]
    fn a_memory_takes_part_in_one_resolution_a_night() {
        let mut resolutions = Resolutions::default();
        resolutions.take_in(&neighbourhood(), vec![merge(0), merge(1)], &claims(), &budget(20));
        assert_eq!(resolutions.list.len(), 1);
        assert_eq!(resolutions.waiting, BTreeSet::from([1]));
        assert!(resolutions.judged.is_empty());
    }

    #[test]
    fn all_duplicates_of_one_memory_go_in_one_night() {
        let claims: Vec<Claim> =
            (0..5).map(|n| claim(&format!("{n}"), "The user likes cats.", "2026-01-01")).collect();
        let mut resolutions = Resolutions::default();
        for new in 1..5 {
            let candidates = vec![Candidate { claim: 0, similarity: Similarity(1.0) }];
            let same = Verdict { relation: Relation::Duplicate, texts: vec![], ..merge(0) };
            resolutions.take_in(&Neighbourhood { new, candidates }, vec![same], &claims, &budget(20));
        }
        let dropped: BTreeSet<usize> = resolutions
            .list
            .iter()
            .filter_map(|r| if let Resolution::Duplicate { drop, .. } = r { Some(*drop) } else { None })
            .collect();
        assert_eq!(dropped, BTreeSet::from([1, 2, 3, 4]));
    }

    #[test]
    fn merges_stop_at_the_loss_budget_and_the_rest_waits() {
        let mut resolutions = Resolutions::default();
        resolutions.take_in(&neighbourhood(), vec![merge(0)], &claims(), &budget(1));
        assert!(resolutions.list.is_empty());
        assert_eq!((resolutions.over_budget, resolutions.waiting.len()), (2, 1));
    }

    #[test]
    fn a_vetoed_pair_is_kept_and_not_asked_again() {
        let mut verdict = merge(0);
        verdict.texts = vec!["The user is 9 years old.".into()];
        let mut resolutions = Resolutions::default();
        resolutions.take_in(&neighbourhood(), vec![verdict], &claims(), &budget(20));
        assert!(matches!(&resolutions.list[0], Resolution::KeepBoth { veto: Some(_), .. }));
        assert_eq!(resolutions.judged.len(), 1);
    }

    #[test]
    fn a_candidate_without_a_verdict_stays_open() {
        let mut resolutions = Resolutions::default();
        let unrelated = Verdict { relation: Relation::Unrelated, texts: vec![], ..merge(0) };
        resolutions.take_in(&neighbourhood(), vec![unrelated], &claims(), &budget(20));
        assert_eq!(resolutions.waiting, BTreeSet::from([1]));
        assert_eq!(resolutions.judged.len(), 1);
    }

    #[test]
    fn of_two_that_say_the_same_the_better_one_stays() {
        let mut claims = claims();
        assert_eq!(better(0, 2, &claims), (2, 0));
        claims[0].importance = 0.9;
        assert_eq!(better(0, 2, &claims), (0, 2));
        claims[2].pinned = true;
        assert_eq!(better(0, 2, &claims), (2, 0));
        claims[2].is_draft = true;
        assert_eq!(better(0, 2, &claims), (0, 2));
    }
}
