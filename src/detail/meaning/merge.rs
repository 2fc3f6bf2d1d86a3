//! What a merge may not do with two claims: deny one of them, join two people, or say what neither says.

use std::sync::LazyLock;

use regex::Regex;

use super::super::{compile, details, name, wording};
use super::{Said, feature, lower_names, misread_as, subject};
use crate::language::{self, normalise};

static NO_LONGER: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\bno longer\b|\bnot .{0,40}any ?more\b|\b(?:ended|stopped|until)\b|\bnicht mehr\b|不再|もう.*ない|なくなった|더 ?이상",
    )
});

static TITLED: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\b(?:Herr|Herrn|Frau|Mr|Mrs|Ms|Miss|Dr|Prof|Sir)\.? (\p{Lu}\p{L}+)"));

/// What a merged text says otherwise than its originals, or beyond them. A past that it tells as past is no denial.
pub fn misread_merge(merged: &str, originals: &[Said]) -> Vec<String> {
    let past = NO_LONGER.is_match(&normalise(merged));
    let mut found = misread_as(merged, originals, true);
    found.retain(|problem| !(past && problem == super::ADDED));
    found.extend(beyond(merged, originals));
    found
}

/// A clause of which hardly a word stands in any original.
fn beyond(merged: &str, originals: &[Said]) -> Option<String> {
    let german = language::is_german(merged);
    let known: Vec<String> = originals
        .iter()
        .flat_map(|said| feature::features(&normalise(&said.text), german))
        .map(|(_, feature)| feature)
        .collect();
    for sentence in language::sentences(merged) {
        let sentence = normalise(sentence);
        for range in super::clause::clauses(&sentence) {
            let clause = &sentence[range];
            let features = feature::features(clause, german);
            // Dates and words of time are what a merge adds.
            let own: Vec<_> = features
                .iter()
                .filter(|(_, f)| !f.starts_with(|c: char| c.is_ascii_digit()) && !TIME.contains(&f.as_str()))
                .collect();
            let least = if clause.chars().any(language::is_cjk) { 4 } else { 2 };
            let stands = own.iter().filter(|(_, feature)| known.contains(feature)).count();
            if own.len() >= least && stands * 4 < own.len() {
                return Some(format!("“{}” stands in no original", clause.trim()));
            }
        }
    }
    None
}

/// Stems of words that tell when.
const TIME: &[&str] = &[
    "former", "previous", "earl", "lat", "past", "until", "recent", "current", "present", "chang", "switch",
    "mov", "起", "以后", "现在", "从前", "以前",
];

/// Two words of the claims that cannot both hold of one thing: one loves what the other hates.
pub fn contradiction(one: &str, other: &str) -> Option<(&'static str, &'static str)> {
    let (a, b) = (normalise(one), normalise(other));
    let found = wording::excluded(&a, &b)?;
    // The object is what they share beside the verbs: cats in both.
    (super::shared(one, other) > 0).then_some(found)
}

/// Whether a text says that something was so.
pub fn tells_a_past(text: &str) -> bool {
    let normal = normalise(text);
    super::mark::keeps(super::mark::Mark::Past, &normal) || wording::has_change_word(text)
}

/// The person a claim is about, by its first clause: `user`, or a certain name in lower case.
pub fn person_of(text: &str) -> Option<String> {
    let names = lower_names(text);
    let normal = normalise(text);
    let first = super::clause::clauses(&normal).into_iter().next()?;
    match subject::of(&normal[first], &names) {
        subject::Subject::Speaker => Some("user".to_owned()),
        subject::Subject::Other(name) if names.contains(&name) => Some(name),
        _ => None,
    }
}

/// Two names, one of each text, that look alike and are not the same: nobody is called Meier and Maier. None where a text
/// names both, as an alias does.
pub fn alike(one: &str, other: &str) -> Option<(String, String)> {
    let (low_one, low_other) = (normalise(one), normalise(other));
    let (a, b) = (people(one), people(other));
    let apart = |x: &&String| !name::stands_in(x, &low_other);
    let apart_too = |y: &&String| !name::stands_in(y, &low_one);
    a.iter().filter(apart).find_map(|x| {
        let y = b.iter().filter(apart_too).find(|y| look_alike(&normalise(x), &normalise(y)))?;
        Some((x.clone(), y.clone()))
    })
}

fn people(text: &str) -> Vec<String> {
    let titled = TITLED.captures_iter(text).map(|m| m[1].to_owned());
    details(text, None).names.into_iter().chain(titled).collect()
}

fn look_alike(x: &str, y: &str) -> bool {
    let (x, y): (Vec<char>, Vec<char>) = (x.chars().collect(), y.chars().collect());
    if x.iter().chain(&y).any(|c| language::is_cjk(*c)) {
        return x.len() == y.len() && x.len() > 1 && x.iter().zip(&y).filter(|(a, b)| a != b).count() == 1;
    }
    let least = x.len().min(y.len());
    let letters = x.iter().chain(&y).all(|c| c.is_alphabetic() || *c == ' ');
    letters && least >= 3 && distance(&x, &y) <= if least < 5 { 1 } else { 2 }
}

/// Levenshtein distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::Voice;
    use super::*;

    #[test]
    fn names_that_look_alike_are_two_people() {
        for (one, other, expected) in [
            ("Herr Meier wohnt in Bonn.", "Herr Maier wohnt in Ulm.", true),
            ("Meier lives in Bonn.", "Maier lives in Bonn.", true),
            ("Maier, also called Meier, lives in Bonn.", "Meier lives in Bonn.", false),
            ("张工住在北京。", "章工住在北京。", true),
            ("Alice lives in Bonn.", "Robert lives in Bonn.", false),
            ("Alice lives in Bonn.", "Alice lives in Ulm.", false),
        ] {
            assert_eq!(alike(one, other).is_some(), expected, "{one} / {other}");
        }
    }

    #[test]
    fn a_merge_says_nothing_of_its_own() {
        let memory = |text: &str| Said { text: text.to_owned(), voice: Voice::Memory };
        let originals = [memory("The user likes cats."), memory("The user has a garden in Kiel.")];
        for (merged, good) in [
            ("The user likes cats and has a garden in Kiel.", true),
            ("The user used to like cats, has a garden in Kiel since 2026-03-10.", true),
            ("The user likes cats and has a garden in Kiel, but hates noisy neighbours upstairs.", false),
            ("The user does not like cats and has a garden in Kiel.", false),
            ("The user hates cats and has a garden in Kiel.", false),
        ] {
            let found = misread_merge(merged, &originals);
            assert_eq!(found.is_empty(), good, "{merged}: {found:?}");
        }
    }

    #[test]
    fn loving_and_hating_one_thing_is_a_contradiction() {
        assert!(contradiction("The user loves cats.", "The user hates cats.").is_some());
        assert!(contradiction("The user loves cats.", "The user hates rain.").is_none());
        assert!(contradiction("The user runs in the morning.", "The user runs in the evening.").is_none());
    }
}
