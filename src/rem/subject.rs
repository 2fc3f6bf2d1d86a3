//! Whether two claims are about one: the subjects that a judge quotes must stand in the claims, say whom they are about,
//! and agree. Rules of the veto; the rest of them is `veto`.

use crate::detail;
use crate::episode::Speaker;
use crate::language;
use crate::nrem::quote::{Quote, words_of};
use crate::rem::conflict::{Claim, Verdict};

/// The texts of a claim that may name somebody: its own and those it was merged from.
pub(super) fn texts_of(claim: &Claim) -> String {
    let originals = claim.originals.iter().map(|original| original.text.as_str());
    std::iter::once(claim.text.as_str()).chain(originals).collect::<Vec<_>>().join("\n")
}

/// Names that look alike are different people, unless the words behind a claim use both.
pub(super) fn name_rule(new: &Claim, old: &Claim) -> Option<String> {
    let (a, b) = detail::alike(&words_of(&new.text), &words_of(&old.text))?;
    let both = |text: &String| text.contains(&a) && text.contains(&b);
    let alias = new.evidence.iter().chain(&old.evidence).any(both);
    (!alias).then(|| format!("different subjects: {a} and {b} are names that only look alike"))
}

/// Different subjects are never merged: both quotes must stand in their texts and agree after aliases.
pub(super) fn subject_rule(verdict: &Verdict, new: &Claim, old: &Claim) -> Option<String> {
    for (quote, claim) in [(&verdict.new_subject, new), (&verdict.old_subject, old)] {
        if !names_something(quote) || !stands_in(quote, claim) {
            return Some(format!("the subject “{}” does not stand in “{}”", quote.trim(), claim.text));
        }
    }
    if !detail::same_subject(&verdict.new_subject, &verdict.old_subject) {
        let (one, other) = (verdict.new_subject.trim(), verdict.old_subject.trim());
        return Some(format!("different subjects: {one} and {other}"));
    }
    let phrases = (phrase(&verdict.new_subject, new), phrase(&verdict.old_subject, old));
    let one_phrase = phrases.0.is_some() && phrases.0 == phrases.1;
    for (quote, claim) in [(&verdict.new_subject, new), (&verdict.old_subject, old)] {
        if !one_phrase && !is_subject_of(quote, claim) {
            return Some(format!("“{}” does not say whom “{}” is about", quote.trim(), claim.text));
        }
    }
    let (one, other) = (person_of(new)?, person_of(old)?);
    let same = one == other
        || [(&one, &other), (&other, &one)].iter().any(|(a, b)| a.split(' ').any(|word| word == b.as_str()));
    (!same).then(|| format!("different subjects: {one} and {other}"))
}

/// The person a claim is about, where rules can tell; in a quote "I" is whoever is quoted.
fn person_of(claim: &Claim) -> Option<String> {
    let person = detail::person_of(&words_of(&claim.text))?;
    match Quote::read(&claim.text).map(|quote| quote.speaker) {
        Some(Speaker::Person(name)) if person == "user" => Some(language::normalise(&name)),
        _ => Some(person),
    }
}

/// Whether a quote can be what the claim is about: it names somebody, begins a sentence, or is a noun with its article.
/// "Lives in" is a part of the claim and no subject.
fn is_subject_of(quote: &str, claim: &Claim) -> bool {
    let low = language::normalise(quote);
    let users = ["user", "nutzer", "用户", "ユーザー", "사용자"];
    if users.iter().any(|user| low.contains(user)) || detail::same_subject(quote, "the user") {
        return true;
    }
    let texts = texts_of(claim);
    let details = detail::details(&texts, None);
    let mut names = details.names.iter().chain(&details.likely_names).map(|name| language::normalise(name));
    if names.any(|name| low.contains(&name) || name.contains(&low)) {
        return true;
    }
    let articles =
        ["the ", "a ", "an ", "my ", "our ", "der ", "die ", "das ", "ein ", "eine ", "mein ", "meine "];
    let bare = |text: &str| {
        let normal = language::normalise(text);
        let text = normal.trim_start_matches(|c: char| !c.is_alphanumeric()).to_owned();
        articles.iter().find_map(|article| text.strip_prefix(article)).map_or(text.clone(), str::to_owned)
    };
    let subject = bare(quote);
    let opens = |text: &str| bare(text).starts_with(&subject);
    let noun = articles.iter().any(|article| low.starts_with(article))
        || articles.iter().any(|article| language::normalise(&texts).contains(&format!("{article}{low}")));
    noun || language::sentences(&texts)
        .into_iter()
        .any(|sentence| opens(&words_of(sentence)) || opens(sentence))
}

/// The noun phrase that a quote is the head of, without its article: "team standup" for "standup" in "our team standup". None
/// where it is the head of none, or says that something changed.
fn phrase(quote: &str, claim: &Claim) -> Option<String> {
    const ARTICLES: [&str; 12] =
        ["the", "a", "an", "my", "our", "der", "die", "das", "ein", "eine", "mein", "meine"];
    let split = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let (words, quoted) = (split(&language::normalise(&claim.text)), split(&language::normalise(quote)));
    if quoted.is_empty() || quoted.len() > 2 || detail::has_change_word(quote) {
        return None;
    }
    let place = words.windows(quoted.len()).position(|window| window == quoted)?;
    let article = (1..=3).find(|back| *back <= place && ARTICLES.contains(&words[place - back].as_str()))?;
    Some(words[place - article + 1..place + quoted.len()].join(" "))
}

/// Whether a quote can name a subject: more than a letter or an article.
fn names_something(quote: &str) -> bool {
    let quote = language::normalise(quote);
    let articles = [
        "a", "an", "the", "der", "die", "das", "le", "la", "el", "herr", "frau", "mr", "mrs", "ms", "dr",
        "mr.", "mrs.", "ms.", "dr.", "prof", "prof.", "先生", "女士", "小姐", "老师", "さん", "씨", "my",
        "our", "who", "that", "is", "he", "she", "it", "and",
    ];
    let word = quote.trim();
    let cjk = word.chars().any(language::is_cjk);
    !articles.contains(&word)
        && (cjk || word.chars().filter(|c| c.is_alphanumeric()).count() > 1 || word == "i")
}

fn stands_in(quote: &str, claim: &Claim) -> bool {
    let quote = language::normalise(quote);
    let stands = |text: &str| language::normalise(text).contains(quote.trim());
    stands(&claim.text) || claim.originals.iter().any(|original| stands(&original.text))
}
