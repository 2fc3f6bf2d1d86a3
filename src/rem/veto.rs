//! The veto: what no judge may do, whatever it says. Rules only, no model; a vetoed pair is kept, both.

use crate::detail::{self, Difference, Said, Voice};
use crate::episode::Speaker;
use crate::language;
use crate::nrem::draft::steers_the_agent;
use crate::nrem::quote::{Quote, of_different_people, speaks_of_self, words_of};
use crate::nrem::steer;
use crate::privacy;
use crate::rem::blacklist::Blacklist;
use crate::rem::conflict::{Claim, Relation, Verdict};
use crate::rem::subject::{name_rule, subject_rule, texts_of};

/// Why a merge, consolidation or deduplication does not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Veto(pub String);

/// The rule that a verdict breaks, if any. `blacklist`: names that are never one.
pub fn veto(verdict: &Verdict, new: &Claim, old: &Claim, blacklist: &Blacklist) -> Option<Veto> {
    let rule = match verdict.relation {
        Relation::Unrelated | Relation::PendingReview => return None,
        Relation::Duplicate => duplicate_rule(new, old),
        Relation::StateChange | Relation::DifferentAspects => merge_rule(verdict, new, old),
    };
    pin_rule(verdict, new, old)
        .or_else(|| blacklist_rule(new, old, blacklist))
        .or_else(|| name_rule(new, old))
        .or_else(|| speaker_rule(verdict, new, old))
        .or(rule)
        .map(Veto)
}

fn blacklist_rule(new: &Claim, old: &Claim, blacklist: &Blacklist) -> Option<String> {
    let (one, other) = (texts_of(new), texts_of(old));
    let (a, b) = blacklist.forbids(&one, &other)?;
    Some(format!("{a} and {b} are on the merge blacklist"))
}

/// A pinned memory is not touched. A draft that says the same only reinforces it.
fn pin_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    let is_said_again = verdict.relation == Relation::Duplicate && (new.is_draft || old.is_draft);
    (!is_said_again && (new.pinned || old.pinned)).then(|| "one of them is pinned".into())
}

/// What people say of themselves is theirs, and what only the assistant says changes nothing that somebody else said.
fn speaker_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    let of_self = speaks_of_self(&words_of(&new.text)) || speaks_of_self(&words_of(&old.text));
    if of_different_people(&new.text, &old.text) && (of_self || verdict.relation == Relation::Duplicate) {
        return Some("different people said it".into());
    }
    let by_assistant = |claim: &Claim| match Quote::read(&claim.text) {
        Some(quote) => quote.speaker == Speaker::Assistant,
        None => detail::is_the_assistants(&claim.text),
    };
    let (newer, older) = if new.said_at >= old.said_at { (new, old) } else { (old, new) };
    let changes = verdict.relation == Relation::StateChange && by_assistant(newer) && !by_assistant(older);
    let equates = verdict.relation == Relation::Duplicate && by_assistant(newer) != by_assistant(older);
    (changes || equates).then(|| "one of them is only what the assistant said".into())
}

fn duplicate_rule(new: &Claim, old: &Claim) -> Option<String> {
    let difference =
        detail::difference(&words_of(&new.text), &words_of(&old.text), Some(new.said_on), Some(old.said_on))?;
    Some(format!("called the same, but {} differs", kind_of(&difference)))
}

fn merge_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    if verdict.texts.is_empty() {
        return Some("no merged text was given".into());
    }
    subject_rule(verdict, new, old).or_else(|| text_rule(verdict, new, old)).or_else(|| {
        match verdict.relation {
            Relation::StateChange => change_rule(new, old).or_else(|| past_rule(verdict, new, old)),
            _ => contradiction_rule(new, old),
        }
    })
}

/// A merged text loses no number, date, name, URL or identifier of its originals, adds none, holds no secret and no
/// instruction, keeps the language, and is not too long.
fn text_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    let merged = verdict.texts.join("\n");
    let mut originals: Vec<String> =
        new.originals.iter().chain(&old.originals).map(|o| words_of(&o.text)).collect();
    let texts: Vec<&str> = originals.iter().map(String::as_str).collect();
    let lost = detail::lost(&texts, &merged);
    if !lost.is_empty() {
        return Some(format!("the merged text would lose {}", lost.join(", ")));
    }
    if !language::agrees(&merged, &texts) {
        return Some("the merged text is in another language".into());
    }
    let dates = new.originals.iter().chain(&old.originals).map(|o| o.said_on.to_string());
    originals.extend(dates);
    originals.extend([new.said_on.to_string(), old.said_on.to_string(), new.text.clone(), old.text.clone()]);
    originals.extend(new.evidence.iter().cloned());
    let texts: Vec<&str> = originals.iter().map(String::as_str).collect();
    let invented = detail::missing(&merged, &texts, Some(new.said_on));
    if !invented.is_empty() {
        return Some(format!("the merged text adds {}", invented.join(", ")));
    }
    if let Some(problem) = meaning_rule(verdict, new, old) {
        return Some(problem);
    }
    if privacy::without_secrets(&merged).removed > 0 || steers_the_agent(&merged) || steer::is_order(&merged)
    {
        return Some("the merged text holds a secret or an instruction".into());
    }
    let too_long = |text: &&String| text.chars().count() > language::limit(text);
    verdict
        .texts
        .iter()
        .find(too_long)
        .map(|text| format!("the merged text has {} characters", text.chars().count()))
}

/// A merged text says what its originals say, and no more: the same reading that a draft gets.
fn meaning_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    let said = |text: &str| match Quote::read(text) {
        Some(Quote { speaker: Speaker::Person(name), words, .. }) => {
            Said { text: words, voice: Voice::Person(name) }
        }
        Some(quote) => Said { text: quote.words, voice: Voice::User },
        None => Said { text: text.to_owned(), voice: Voice::Memory },
    };
    let originals = new.originals.iter().chain(&old.originals).map(|original| original.text.as_str());
    let all: Vec<Said> = originals.chain([new.text.as_str(), old.text.as_str()]).map(said).collect();
    verdict.texts.iter().find_map(|text| {
        let problem = detail::misread_merge(&words_of(text), &all).into_iter().next()?;
        Some(format!("the merged text says something else: {problem}"))
    })
}

/// Aspects of one thing do not deny each other.
fn contradiction_rule(new: &Claim, old: &Claim) -> Option<String> {
    let (one, other) = (words_of(&new.text), words_of(&old.text));
    if let Some((a, b)) = detail::contradiction(&one, &other) {
        return Some(format!("“{a}” and “{b}” contradict each other: they are no aspects of one thing"));
    }
    match detail::difference(&one, &other, Some(new.said_on), Some(old.said_on)) {
        Some(Difference::Negation(_)) => {
            Some("one denies what the other says: they are no aspects of one thing".into())
        }
        _ => None,
    }
}

/// Two values replace each other only with a word of change, or in a slot that holds one value at a time.
fn change_rule(new: &Claim, old: &Claim) -> Option<String> {
    let (newer, older) = if new.said_at >= old.said_at { (new, old) } else { (old, new) };
    let (now, then) = (words_of(&newer.text), words_of(&older.text));
    let changes =
        detail::has_change_word(&now) || newer.evidence.iter().any(|text| detail::has_change_word(text));
    if changes || detail::exclusive(&then, &now) {
        return None;
    }
    match detail::difference(&then, &now, Some(older.said_on), Some(newer.said_on)) {
        Some(
            Difference::SwappedSlot(_)
            | Difference::Name(_)
            | Difference::Number(_)
            | Difference::Identifier(_)
            | Difference::Url(_),
        ) => Some("two values that can both hold, and no word of change".into()),
        _ => None,
    }
}

/// Of two claims that contradict each other the merged text says which one is past.
fn past_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    let (a, b) = detail::contradiction(&words_of(&new.text), &words_of(&old.text))?;
    let told = verdict.texts.iter().any(|text| detail::tells_a_past(text));
    (!told).then(|| format!("the merged text does not say which of “{a}” and “{b}” is past"))
}

/// The glossary's word for what differs.
pub fn kind_of(difference: &Difference) -> &'static str {
    match difference {
        Difference::Number(_) => "a number",
        Difference::Date(_) => "a date",
        Difference::Time(_) => "a time",
        Difference::Url(_) => "a URL",
        Difference::Identifier(_) => "an identifier",
        Difference::Name(_) => "a name",
        Difference::Negation(_) => "a negation",
        Difference::ChangeWord(_) => "a word of change",
        Difference::SwappedSlot(_) => "a value",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::rem::conflict::tests::claim;

    fn veto(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<Veto> {
        super::veto(verdict, new, old, &Blacklist::default())
    }

    fn verdict(relation: Relation, subjects: (&str, &str), text: &str) -> Verdict {
        Verdict {
            candidate: 0,
            relation,
            reason: "r".into(),
            new_subject: subjects.0.into(),
            old_subject: subjects.1.into(),
            texts: if text.is_empty() { vec![] } else { vec![text.into()] },
            prompt: None,
        }
    }

    #[test]
    fn people_keep_what_they_say_of_themselves_and_the_assistant_changes_nothing() {
        use Relation::{Duplicate, StateChange};
        let quote = |who: &str, words: &str| format!("{who} (2026-03-10): “{words}”");
        let birthday = ("My birthday", "My birthday");
        let cases = [
            (
                StateChange,
                quote("Ben", "My birthday is in June now."),
                quote("Anna", "My birthday is in May."),
                birthday,
            ),
            (
                Duplicate,
                quote("Ben", "My birthday is in May."),
                quote("Anna", "My birthday is in May."),
                birthday,
            ),
            (
                Duplicate,
                quote("User", "My birthday is in May."),
                quote("Anna", "My birthday is in May."),
                birthday,
            ),
            (
                StateChange,
                "The assistant said that the dentist's appointment moved to Wednesday.".to_owned(),
                "The dentist's appointment is on Thursday.".to_owned(),
                ("the dentist's appointment", "The dentist's appointment"),
            ),
        ];
        for (relation, new, old, subjects) in cases {
            let merged = format!("{old} {new}");
            let verdict = verdict(relation, subjects, if relation == Duplicate { "" } else { &merged });
            let veto = veto(&verdict, &claim("new", &new, "2026-03-11"), &claim("old", &old, "2026-03-10"))
                .map(|veto| veto.0);
            let told = veto.as_deref().unwrap_or_default();
            assert!(
                told.contains("different people") || told.contains("assistant"),
                "{new} | {old}: {veto:?}"
            );
        }
    }

    #[test]
    fn a_merge_must_be_about_one_subject_lose_nothing_and_add_nothing() {
        use Relation::{DifferentAspects, Duplicate, StateChange};
        let cases = [
            (
                StateChange,
                "The user is allergic to cats now.",
                "The user likes cats.",
                ("The user", "The user"),
                "The user used to like cats and is allergic to cats since 2026-03-10.",
                true,
            ),
            (
                StateChange,
                "Standup moved to 10:00.",
                "Standup is at 9:00.",
                ("Standup", "Standup"),
                "Standup is at 10:00 since 2026-03-10.",
                false,
            ),
            (
                StateChange,
                "Standup moved to 10:00.",
                "Standup is at 9:00.",
                ("Standup", "Standup"),
                "Standup is at 10:00 since 2026-03-10, before at 9:00.",
                true,
            ),
            (
                StateChange,
                "Standup moved to 10:00.",
                "Standup is at 9:00.",
                ("Standup", "Standup"),
                "Standup is at 10:00 since 2026-03-10, before at 9:00, at 11:30 on Fridays.",
                false,
            ),
            (
                StateChange,
                "章工去了上海。",
                "张工住在北京。",
                ("章工", "张工"),
                "张工住在上海，以前在北京。",
                false,
            ),
            (
                StateChange,
                "Anne lives in Madrid now.",
                "Anna lives in Berlin.",
                ("Anne", "Anna"),
                "Anna lives in Madrid now, before in Berlin.",
                false,
            ),
            (
                StateChange,
                "The user owns a dog.",
                "The user owns a cat.",
                ("The user", "The user"),
                "The user owns a dog, before a cat.",
                false,
            ),
            (
                DifferentAspects,
                "用户在中关村工作。",
                "用户住在北京。",
                ("用户", "用户"),
                "用户住在北京，在中关村工作。",
                true,
            ),
            (DifferentAspects, "用户在中关村工作。", "用户住在北京。", ("用户", "用户"), "", false),
            (
                DifferentAspects,
                "用户在中关村工作。",
                "用户住在北京。",
                ("他", "用户"),
                "用户住在北京，在中关村工作。",
                false,
            ),
            (Duplicate, "Standup is at 10:00.", "Standup is at 9:00.", ("Standup", "Standup"), "", false),
            (
                Duplicate,
                "The user's dog is called Biscuit.",
                "Biscuit is the name of the user's dog.",
                ("", ""),
                "",
                true,
            ),
        ];
        for (relation, new, old, subjects, text, allowed) in cases {
            let result = veto(
                &verdict(relation, subjects, text),
                &claim("n", new, "2026-03-10"),
                &claim("o", old, "2026-01-01"),
            );
            assert_eq!(result.is_none(), allowed, "{new} / {old} → {text}: {result:?}");
        }
    }

    #[test]
    fn a_letter_or_an_article_is_no_subject_and_a_denial_is_no_aspect() {
        let text = "The blue boat and the red boat lie in Kiel.";
        let (new, old) = (
            claim("n", "The blue boat lies in Kiel.", "2026-03-10"),
            claim("o", "The red boat lies in Kiel.", "2026-01-01"),
        );
        for subject in ["The", "t", " "] {
            let verdict = verdict(Relation::DifferentAspects, (subject, subject), text);
            assert!(veto(&verdict, &new, &old).is_some(), "{subject:?}");
        }
        let (new, old) =
            (claim("n", "Mia does not eat pork.", "2026-03-10"), claim("o", "Mia eats pork.", "2026-01-01"));
        let verdict =
            verdict(Relation::DifferentAspects, ("Mia", "Mia"), "Mia eats pork and does not eat pork.");
        assert!(veto(&verdict, &new, &old).is_some_and(|veto| veto.0.contains("denies")));
    }

    #[test]
    fn a_judge_that_lies_about_subject_or_text_is_stopped() {
        use Relation::{DifferentAspects, Duplicate, StateChange};
        for (relation, new, old, subject, text, why) in [
            (
                DifferentAspects,
                "Bob lives in Kiel near the harbour.",
                "Carol lives in Kiel near the station.",
                "lives in Kiel near the",
                "Bob and Carol lives in Kiel near the harbour and near the station.",
                "different subjects",
            ),
            (
                DifferentAspects,
                "Yesterday the blue boat was painted.",
                "Yesterday the red boat was painted.",
                "boat was painted",
                "Yesterday the blue boat and the red boat was painted.",
                "does not say whom",
            ),
            (
                DifferentAspects,
                "Alice likes Kiel.",
                "Bob likes Kiel.",
                "Kiel",
                "Alice likes Kiel and Bob likes Kiel.",
                "different subjects",
            ),
            (
                DifferentAspects,
                "Herr Meier wohnt in Bonn.",
                "Herr Maier wohnt in Ulm.",
                "Herr",
                "Herr Meier wohnt in Bonn und Herr Maier wohnt in Ulm.",
                "different subjects",
            ),
            (
                DifferentAspects,
                "The user loves cats.",
                "The user hates cats.",
                "The user",
                "The user loves cats and hates cats.",
                "contradict",
            ),
            (
                StateChange,
                "The user hates cats now.",
                "The user loves cats.",
                "The user",
                "The user hates cats and loves cats.",
                "is past",
            ),
            (
                Duplicate,
                "The user likes cats on sofas.",
                "The user likes cats.",
                "The user",
                "",
                "called the same",
            ),
            (
                DifferentAspects,
                "The user works in Kiel.",
                "The user has no car.",
                "The user",
                "The user works in Kiel and has a car.",
                "negation is lost",
            ),
            (
                DifferentAspects,
                "The user works in Kiel.",
                "The user might buy a boat.",
                "The user",
                "The user works in Kiel and bought a boat.",
                "doubt is lost",
            ),
            (
                DifferentAspects,
                "The user works in Kiel.",
                "The user has a boat.",
                "The user",
                "The user works in Kiel, has a boat, and secretly dreams about robbing banks.",
                "stands in no original",
            ),
        ] {
            let found = veto(
                &verdict(relation, (subject, subject), text),
                &claim("n", new, "2026-03-10"),
                &claim("o", old, "2026-01-01"),
            );
            assert!(
                found.as_ref().is_some_and(|veto| veto.0.contains(why)),
                "{new} / {old} → {text}: {found:?}"
            );
        }
        let text = "The user used to love cats and hates cats since 2026-03-10.";
        let honest = veto(
            &verdict(StateChange, ("The user", "The user"), text),
            &claim("n", "The user hates cats now.", "2026-03-10"),
            &claim("o", "The user loves cats.", "2026-01-01"),
        );
        assert_eq!(honest, None);
    }

    #[test]
    fn a_pinned_memory_is_never_merged() {
        let mut old = claim("o", "The user likes cats.", "2026-01-01");
        old.pinned = true;
        let new = claim("n", "The user is allergic to cats now.", "2026-03-10");
        let text = "The user used to like cats and is allergic to cats since 2026-03-10.";
        assert!(veto(&verdict(Relation::StateChange, ("The user", "The user"), text), &new, &old).is_some());
        let mut same = claim("n", "The user likes cats.", "2026-01-01");
        let duplicate = verdict(Relation::Duplicate, ("The user", "The user"), "");
        assert!(veto(&duplicate, &same, &old).is_some_and(|veto| veto.0.contains("pinned")), "two rows");
        same.is_draft = true;
        assert_eq!(veto(&duplicate, &same, &old), None, "a draft is no row that could leave");
    }
}
