//! What only a person can tell, and what is tried again: review items of the night and the retry queue after it. Which of
//! the items become questions is decided in `queues::review`.

use std::collections::{BTreeSet, HashSet};

use super::Building;
use crate::memory::Source;
use crate::nrem::chunk::Chunk;
use crate::nrem::draft::{MemoryDraft, source_of};
use crate::plan::{AskedDraft, ReviewItem, id_of_new};
use crate::queues::retry::{self, About, Retry, RetryQueue};
use crate::rem::UnreadablePair;
use crate::rem::conflict::{Claim, Relation, Verdict};
use crate::rem::resolution::Resolution;
use crate::rem::veto::veto;
use crate::state::journal::JudgedPair;

use super::show::place;

/// What the user's own words weigh more than anybody else's.
const SAID_BY_THE_USER: f64 = 2.0;
/// Entries of the retry queue that the log shows.
const SHOWN: usize = 20;

impl Building<'_> {
    fn item(&self, kind: &str, agent: &str, texts: &[&str], reason: &str) -> ReviewItem {
        let privacy = self.night.privacy;
        let texts: Vec<String> = texts.iter().map(|text| privacy.to_store(text)).collect();
        ReviewItem {
            id: id_of_new(&self.night.run, agent, &format!("{kind}\n{}", texts.join("\n"))),
            kind: kind.to_owned(),
            agent: agent.to_owned(),
            texts,
            reason: privacy.to_store(reason),
            run: self.night.run.as_str().to_owned(),
            since: Some(self.night.now),
            ..ReviewItem::default()
        }
    }

    fn pair_item(&self, kind: &str, new: usize, old: usize, reason: &str) -> ReviewItem {
        let (one, other) = (self.claim(new), self.claim(old));
        let by_user = [one, other].into_iter().any(|claim| self.is_said_by_the_user(claim));
        ReviewItem {
            memories: vec![one.id.clone(), other.id.clone()],
            digests: vec![one.digest(), other.digest()],
            weight: one.importance.max(other.importance) + if by_user { SAID_BY_THE_USER } else { 0.0 },
            ..self.item(kind, &one.partition.agent, &[&one.text, &other.text], reason)
        }
    }

    fn is_said_by_the_user(&self, claim: &Claim) -> bool {
        let drafts = self.found.compressed.drafts.iter().filter(|new| new.id == claim.id);
        let mut sources: Vec<Source> = drafts.flat_map(|new| new.draft.sources()).collect();
        sources.extend(self.traces.get(&claim.id).into_iter().flat_map(|trace| trace.sources.clone()));
        said_by_the_user(&sources)
    }

    /// How two memories relate: with the text the judge would write, and what the veto says of it.
    pub(super) fn ask_about_a_conflict(
        &mut self,
        (new, old): (usize, usize),
        texts: &[String],
        subjects: &(String, String),
        reason: &str,
    ) {
        let (one, other) = (self.claim(new), self.claim(old));
        let mut item = self.pair_item("conflict", new, old, reason);
        if !texts.is_empty() {
            let verdict = |relation| Verdict {
                candidate: 0,
                relation,
                reason: String::new(),
                new_subject: subjects.0.clone(),
                old_subject: subjects.1.clone(),
                texts: texts.to_vec(),
                prompt: None,
            };
            let blacklist = &self.night.config.merge_blacklist;
            let changed = veto(&verdict(Relation::StateChange), one, other, blacklist);
            let joined = veto(&verdict(Relation::DifferentAspects), one, other, blacklist);
            let (relation, forbidden) = match (changed, joined) {
                (None, _) => (Relation::StateChange, None),
                (Some(_), None) => (Relation::DifferentAspects, None),
                (Some(rule), Some(_)) => (Relation::StateChange, Some(self.night.privacy.to_store(&rule.0))),
            };
            item.proposal = texts.iter().map(|text| self.night.privacy.to_store(text)).collect();
            item.relation = Some(relation.as_str().to_owned());
            item.veto = forbidden;
        }
        self.plan.review.push(item);
    }

    /// Drafts about which the distiller wants a person to decide.
    pub(super) fn ask_about_drafts(&mut self) {
        for draft in &self.found.compressed.review {
            let item = self.draft_item(draft);
            self.plan.review.push(item);
        }
    }

    fn draft_item(&self, draft: &MemoryDraft) -> ReviewItem {
        let sources = draft.sources();
        let by_user = if said_by_the_user(&sources) { SAID_BY_THE_USER } else { 0.0 };
        ReviewItem {
            draft: Some(AskedDraft {
                category: draft.category,
                importance: draft.importance.get(),
                entities: draft.entities.clone(),
                tags: draft.tags.clone(),
                about: draft.about,
                emotion: draft.emotion,
            }),
            sources,
            weight: draft.importance.get() + by_user,
            ..self.item("draft", draft.agent(), &[&draft.text], &draft.reason)
        }
    }

    /// The retry queue after tonight: what was answered goes, what was not stays, and after three nights a person is
    /// asked.
    pub(super) fn try_again_later(&mut self) {
        let mut queue = self.night.retry.clone();
        queue.settle(&self.answered(&queue));
        let chunks: Vec<&Chunk> = self.found.material.chunks.iter().collect();
        for chunk in chunks {
            let Some((nights, why)) = self.found.compressed.retrying.get(&chunk.digest) else { continue };
            let about = About::Chunk(chunk.digest.clone());
            if *nights >= retry::NIGHTS {
                queue.settle(&BTreeSet::from([about]));
                self.ask_about_a_chunk(chunk);
                continue;
            }
            let agent = chunk.agent.clone();
            let entry = self.entry(about, agent, place(chunk), *nights, why);
            queue.put(entry);
        }
        for pair in &self.found.rem.retrying {
            let entry = self.pair_entry(pair);
            queue.put(entry);
        }
        let shown = |entry: &Retry| {
            let asked = if entry.item.is_some() { ", a person is asked" } else { "" };
            format!("{}: {} of {} nights{asked}: {}", entry.place, entry.nights, retry::NIGHTS, entry.why)
        };
        self.plan.report.retrying = queue.entries().iter().take(SHOWN).map(shown).collect();
        let more = queue.entries().len().saturating_sub(SHOWN);
        if more > 0 {
            self.plan.report.retrying.push(format!("and {more} more"));
        }
        self.plan.retry = Some(queue);
    }

    fn entry(&self, about: About, agent: String, place: String, nights: u32, why: &str) -> Retry {
        let (why, run) = (self.night.privacy.to_store(why), self.night.run.as_str().to_owned());
        Retry { about, agent, place, why, nights, run, item: None }
    }

    fn pair_entry(&mut self, pair: &UnreadablePair) -> Retry {
        let (one, other) = (self.claim(pair.new), self.claim(pair.old));
        let place = format!("{} / {}", one.id, other.id);
        let mut entry =
            self.entry(pair.about.clone(), one.partition.agent.clone(), place, pair.nights, &pair.why);
        if pair.nights >= retry::NIGHTS {
            let why = "the judge's reply could not be read on three nights";
            let item = self.pair_item("unreadable", pair.new, pair.old, why);
            entry.item = Some(item.id.clone());
            self.plan.review.push(item);
        }
        entry
    }

    fn ask_about_a_chunk(&mut self, chunk: &Chunk) {
        let why = "the model's reply could not be read on three nights";
        let sources = vec![source_of(chunk)];
        let weight = if said_by_the_user(&sources) { SAID_BY_THE_USER } else { 0.0 };
        let item =
            ReviewItem { sources, weight, ..self.item("unreadable", &chunk.agent, &[&chunk.text], why) };
        self.plan.review.push(item);
    }

    /// What of the queue needs no other try: chunks that got their fate tonight, pairs that were judged, and pairs of
    /// which a text is no longer remembered.
    fn answered(&self, queue: &RetryQueue) -> BTreeSet<About> {
        let settled = |digest: &String| self.fates.get(digest).is_some_and(|(fate, ..)| fate.is_final());
        let claims = &self.found.rem.claims;
        let joined = self.found.rem.resolutions.list.iter().filter_map(|resolution| match resolution {
            Resolution::Merge { new, old, .. } => Some((*new, *old)),
            Resolution::Duplicate { keep, drop, .. } => Some((*keep, *drop)),
            _ => None,
        });
        let mut judged: HashSet<JudgedPair> = self.found.rem.resolutions.judged.iter().cloned().collect();
        judged.extend(
            joined.map(|(one, other)| JudgedPair::of(&claims[one].digest(), &claims[other].digest())),
        );
        let remembered: HashSet<String> = self.found.rem.claims.iter().map(Claim::digest).collect();
        let is_answered = |entry: &&Retry| match &entry.about {
            About::Chunk(digest) => settled(digest),
            About::Pair(first, second) => {
                let pair = JudgedPair::of(first, second);
                let is_gone = !remembered.contains(first) || !remembered.contains(second);
                let ours = self.night.config.touches(&entry.agent) && !self.found.rem.claims.is_empty();
                judged.contains(&pair) || (is_gone && ours)
            }
        };
        queue.entries().iter().filter(is_answered).map(|entry| entry.about.clone()).collect()
    }
}

fn said_by_the_user(sources: &[Source]) -> bool {
    sources.iter().any(|source| source.speaker == crate::episode::Speaker::User.as_str())
}
