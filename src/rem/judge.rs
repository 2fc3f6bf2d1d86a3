//! Judging neighbourhoods: by a model, one call each and side by side, or by rules where there is none.

use std::collections::BTreeMap;

use crate::detail::{self, Difference};
use crate::dream::Night;
use crate::error::chain;
use crate::language;
use crate::nrem::quote::{Quote, words_of};
use crate::providers::{LanguageModel, ProviderError, Reasoner};
use crate::queues::retry::{self, About};
use crate::rem::conflict::{self, Claim, Neighbourhood, Relation, Verdict};
use crate::rem::{Reconciliation, UnreadablePair};
use crate::state::journal::JudgedPair;

/// Judges the neighbourhoods in order and takes the verdicts in. What could not be asked or read stays open.
pub async fn judge(
    night: &Night<'_>,
    open: &[Neighbourhood],
    may_leave: &BTreeMap<String, usize>,
    rem: &mut Reconciliation,
) {
    let answers: Vec<(Neighbourhood, Result<Vec<Verdict>, NoVerdict>)> = match night.reasoner {
        Reasoner::Extractive => {
            let by_rules =
                |n: &Neighbourhood| (n.clone(), Ok(by_rules(n, &rem.claims, night.thresholds.duplicate)));
            open.iter().map(by_rules).collect()
        }
        Reasoner::Model(model) => {
            let calls =
                open.iter().map(|neighbourhood| ask_apart(night, model.as_ref(), neighbourhood, &rem.claims));
            let answers: Vec<Vec<_>> = futures::future::join_all(calls).await;
            answers.into_iter().flatten().collect()
        }
    };
    for (neighbourhood, answer) in answers {
        match answer {
            Ok(verdicts) => rem.resolutions.take_in(&neighbourhood, verdicts, &rem.claims, may_leave),
            Err(NoVerdict::Provider(error)) => {
                rem.resolutions.waiting.insert(neighbourhood.new);
                note_failure(&error, rem);
            }
            Err(NoVerdict::Unreadable(why)) => {
                rem.unreadable += 1;
                note_unreadable(night, &neighbourhood, &why, rem);
            }
        }
    }
}

/// Both claims of each pair are kept. They are asked about again on the next night; after three, a person is.
fn note_unreadable(night: &Night<'_>, neighbourhood: &Neighbourhood, why: &str, rem: &mut Reconciliation) {
    let new = neighbourhood.new;
    for candidate in &neighbourhood.candidates {
        let (one, other) = (&rem.claims[new], &rem.claims[candidate.claim]);
        let about = About::from(JudgedPair::of(&one.digest(), &other.digest()));
        let nights = night.retry.nights(&about, night.now) + 1;
        if nights < retry::NIGHTS {
            rem.resolutions.waiting.insert(new);
        }
        let (old, why) = (candidate.claim, why.to_owned());
        rem.retrying.push(UnreadablePair { new, old, about, nights, why });
    }
}

/// Notes why conflicts stay open: a limit that was reached, or a provider that failed.
pub fn note_failure(error: &ProviderError, rem: &mut Reconciliation) {
    match error {
        ProviderError::Exhausted { .. } => rem.exhausted = Some(chain(error)),
        _ => rem.failed = Some(chain(error)),
    }
}

enum NoVerdict {
    Unreadable(String),
    Provider(ProviderError),
}

/// One call. When its reply cannot be read it is asked again in halves, within a bound, so that one pair about which no
/// reply can be read does not keep the others open.
async fn ask_apart(
    night: &Night<'_>,
    model: &dyn LanguageModel,
    neighbourhood: &Neighbourhood,
    claims: &[Claim],
) -> Vec<(Neighbourhood, Result<Vec<Verdict>, NoVerdict>)> {
    let mut calls_left = retry::extra_calls(neighbourhood.candidates.len());
    let mut settled = Vec::new();
    let mut due = vec![neighbourhood.clone()];
    while let Some(mut part) = due.pop() {
        let answer = ask(night, model, &part, claims).await;
        let count = part.candidates.len();
        if matches!(answer, Err(NoVerdict::Unreadable(_))) && count > 1 && calls_left >= 2 {
            calls_left -= 2;
            let second = Neighbourhood { new: part.new, candidates: part.candidates.split_off(count / 2) };
            due.extend([second, part]);
            continue;
        }
        settled.push((part, answer));
    }
    settled
}

async fn ask(
    night: &Night<'_>,
    model: &dyn LanguageModel,
    neighbourhood: &Neighbourhood,
    claims: &[Claim],
) -> Result<Vec<Verdict>, NoVerdict> {
    let prompt = conflict::prompt(neighbourhood, claims, night.privacy);
    let reply = model.complete(&prompt).await.map_err(|error| match error {
        // A server that refuses one prompt for its content answers so; one that refuses all of them fails the night.
        ProviderError::CutOff { .. }
        | ProviderError::Malformed { .. }
        | ProviderError::Refused { status: 400 | 413 | 422, .. } => NoVerdict::Unreadable(error.to_string()),
        error => NoVerdict::Provider(error),
    })?;
    let mut verdicts =
        conflict::parse(&night.privacy.restore(&reply.text), neighbourhood).map_err(NoVerdict::Unreadable)?;
    let digest = prompt.digest();
    verdicts.iter_mut().for_each(|verdict| verdict.prompt = Some(digest.clone()));
    Ok(verdicts)
}

/// Verdicts without a model. A state change needs a difference of value about one subject, said by one speaker, and
/// either a slot that holds one value at a time together with a word of change, or near-identical sentences in such a
/// slot. Everything else is kept, both: rules cannot tell aspects from strangers.
pub fn by_rules(neighbourhood: &Neighbourhood, claims: &[Claim], duplicate: f32) -> Vec<Verdict> {
    let new = &claims[neighbourhood.new];
    let judge = |(place, candidate): (usize, &conflict::Candidate)| {
        let old = &claims[candidate.claim];
        let merged = state_change(new, old, candidate.similarity.0 >= duplicate);
        Verdict {
            candidate: place,
            relation: if merged.is_some() { Relation::StateChange } else { Relation::Unrelated },
            reason: "by rules, no model".into(),
            new_subject: subject(&new.text),
            old_subject: subject(&old.text),
            texts: merged.into_iter().collect(),
            prompt: None,
        }
    };
    neighbourhood.candidates.iter().enumerate().map(judge).collect()
}

/// The merged text of two claims of which one says what became of the other; none when rules cannot be sure.
fn state_change(one: &Claim, other: &Claim, near_identical: bool) -> Option<String> {
    let (newer, older) = if one.said_at >= other.said_at { (one, other) } else { (other, one) };
    let (now, then) = (words_of(&newer.text), words_of(&older.text));
    let same_speaker = match (Quote::read(&newer.text), Quote::read(&older.text)) {
        (Some(a), Some(b)) => a.speaker == b.speaker,
        _ => true,
    };
    let difference = detail::difference(&then, &now, Some(older.said_on), Some(newer.said_on))?;
    let of_value = matches!(
        difference,
        Difference::Number(_)
            | Difference::Date(_)
            | Difference::Time(_)
            | Difference::Name(_)
            | Difference::SwappedSlot(_)
            | Difference::ChangeWord(_)
    );
    let sure = detail::exclusive(&then, &now) && (near_identical || detail::has_change_word(&now));
    let one_subject = detail::same_subject(&subject(&newer.text), &subject(&older.text));
    if !(same_speaker && of_value && sure && one_subject) || newer.originals.len() > 1 {
        return None;
    }
    let text = history(newer, older);
    (text.chars().count() <= language::limit(&text)).then_some(text)
}

/// Words that only lead to a noun.
const LEADING: [&str; 12] =
    ["our", "my", "the", "a", "an", "this", "der", "die", "das", "mein", "meine", "unser"];

/// What a claim is about, as rules see it: the name its words begin with, else its first word.
fn subject(text: &str) -> String {
    let words = words_of(text);
    let names = detail::details(&words, None).names;
    let start = language::normalise(&words);
    let leading = names.iter().filter(|name| start.starts_with(language::normalise(name).as_str()));
    match leading.max_by_key(|name| name.chars().count()) {
        Some(name) => words.chars().take(name.chars().count()).collect(),
        None if words.chars().next().is_some_and(language::is_cjk) => words.chars().take(2).collect(),
        // "Our" alone says nothing; "our standup" does.
        None => {
            let parts: Vec<&str> = words.split_whitespace().take(2).collect();
            let leads = parts.first().is_some_and(|first| LEADING.contains(&first.to_lowercase().as_str()));
            parts[..parts.len().min(if leads { 2 } else { 1 })].join(" ")
        }
    }
}

/// The present first, then the dated past: the originals' own words.
fn history(newer: &Claim, older: &Claim) -> String {
    let present = words_of(&newer.text);
    let cjk = present.chars().any(language::is_cjk);
    let past = older.originals.iter().rev().map(|original| (original.said_on, words_of(&original.text)));
    let mut text = if Quote::read(&newer.text).is_some() {
        newer.text.clone()
    } else if cjk {
        format!("{}（自{}起）", present.trim_end_matches(['。', '.']), newer.said_on)
    } else {
        format!("{} (since {})", present.trim_end_matches('.'), newer.said_on)
    };
    for (date, words) in past {
        let words = words.trim();
        text.push_str(&if cjk {
            format!("；此前（{date}）：“{words}”")
        } else {
            format!("; before ({date}): “{words}”")
        });
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::memory::Similarity;
    use crate::rem::conflict::Candidate;
    use crate::rem::conflict::tests::claim;

    fn judged(old: &str, new: &str) -> Vec<Verdict> {
        let claims = [claim("o", old, "2026-01-01"), claim("n", new, "2026-03-10")];
        let candidates = vec![Candidate { claim: 0, similarity: Similarity(0.6) }];
        by_rules(&Neighbourhood { new: 1, candidates }, &claims, 0.5)
    }

    #[test]
    fn rules_merge_only_a_value_that_surely_replaced_another() {
        for (old, new, merged) in [
            ("Standup is at 9:00.", "Standup moved to 10:00.", true),
            ("Alice lives in Berlin.", "Alice lives in Madrid now.", true),
            ("李华住在北京。", "李华现在住在广州。", true),
            ("The user owns a cat.", "The user owns a dog.", false),
            ("Alice lives in Berlin.", "Bob lives in Madrid now.", false),
            ("The user likes tea.", "The bins go out on Tuesday.", false),
        ] {
            let verdict = judged(old, new).remove(0);
            assert_eq!(verdict.relation == Relation::StateChange, merged, "{old} / {new}: {verdict:?}");
            if merged {
                let text = &verdict.texts[0];
                assert!(text.contains("2026-03-10") || text.contains("2026-01-01"), "{text}");
                assert!(
                    crate::rem::veto::veto(
                        &verdict,
                        &claim("n", new, "2026-03-10"),
                        &claim("o", old, "2026-01-01"),
                        &crate::rem::blacklist::Blacklist::default(),
                    )
                    .is_none(),
                    "{text}"
                );
            }
        }
    }
}
