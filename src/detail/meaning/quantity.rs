//! Numbers that a claim makes vague ("seven cats" → "several cats") or gives to another thing ("3 cats, 2 dogs" →
//! "3 dogs").

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::super::{compile, number};
use super::{Said, feature};
use crate::language;

static VAGUE: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:several|a few|a number of|many|a couple of|dozens of|lots of|numerous|multiple|various|mehrere|einige|viele|ein paar|zahlreiche)\b|几|好多|许多|很多|若干|多(?:个|只|名|次)|いくつか|数(?:個|匹|人|回|本|冊|台|枚)|たくさん|여러|몇|많은",
    )
});

/// A number in a text with the first word of content behind it.
fn counted(text: &str, german: bool) -> Vec<(number::Number, String)> {
    let folded = language::fold(text);
    let mut rest = super::super::without_dates(&folded);
    let spans = number::spans(&mut rest);
    let normal = folded.to_lowercase();
    // Lower case may change lengths; such texts are not read.
    if normal.len() != folded.len() {
        return Vec::new();
    }
    let words = feature::features(&normal, german);
    let behind = |end: usize| {
        let next = words
            .iter()
            .find(|(at, _)| *at >= end)
            .filter(|(at, _)| normal.get(end..*at).is_some_and(|gap| gap.chars().count() <= 4));
        next.map(|(_, word)| word.clone())
    };
    spans.into_iter().filter_map(|(number, span)| Some((number, behind(span.end)?))).collect()
}

/// A vague word where a source counts the same thing.
pub(super) fn made_vague(claim: &str, said: &[Said]) -> Option<String> {
    let german = language::is_german(claim);
    let normal = language::normalise(claim);
    let words = feature::features(&normal, german);
    let vague: BTreeSet<&String> = VAGUE
        .find_iter(&normal)
        .filter_map(|m| words.iter().find(|(at, _)| *at >= m.end()).map(|(_, word)| word))
        .collect();
    if vague.is_empty() || said.iter().any(|said| VAGUE.is_match(&language::normalise(&said.text))) {
        return None;
    }
    let counts = said.iter().flat_map(|said| counted(&said.text, german));
    counts
        .into_iter()
        .find(|(_, thing)| vague.contains(thing))
        .map(|(number, _)| format!("the chunks say {number}; the claim makes it vague"))
}

/// A number that the sources give to another thing, while they count this one otherwise.
pub(super) fn moved(claim: &str, said: &[Said]) -> Option<String> {
    let german = language::is_german(claim);
    let told: Vec<(number::Number, String)> =
        said.iter().flat_map(|said| counted(&said.text, german)).collect();
    counted(claim, german).into_iter().find_map(|(number, thing)| {
        let same: Vec<_> = told.iter().filter(|(_, other)| *other == thing).collect();
        let elsewhere = told.iter().any(|(other, what)| other.value == number.value && *what != thing);
        let agrees = same.iter().any(|(other, _)| other.value == number.value);
        (!same.is_empty() && !agrees && elsewhere)
            .then(|| format!("the chunks do not count {number} of that"))
    })
}
