//! The clauses of a sentence, and the sentence without those at its ends that say nothing: greetings, thanks, words
//! about the conversation, questions. What is left is a stretch of the original.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::rules::{Rules, pattern};
use crate::language::{self, Language};

/// Where English starts a clause of its own without a comma.
static JOINED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[r"(?i)\s(?:and|but|so|because|though|although)\s(?:i|we|my|our|then|also|actually|recently)\b"])
});

/// The byte ranges of a sentence's clauses, in order, without the marks between them.
pub(super) fn clauses(sentence: &str) -> Vec<Range<usize>> {
    let japanese = language::spoken(sentence) == Some(Language::Japanese);
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let mut quoted = 0usize;
    let mut straight = false;
    for (at, c) in sentence.char_indices() {
        match c {
            '“' | '「' | '《' | '『' | '(' | '（' | '[' => quoted += 1,
            '”' | '」' | '》' | '』' | ')' | '）' | ']' => quoted = quoted.saturating_sub(1),
            '"' => straight = !straight,
            _ => {}
        }
        if quoted > 0 || straight {
            continue;
        }
        let end = at + c.len_utf8();
        let spaced = sentence[end..].starts_with(char::is_whitespace);
        let cut = match c {
            '，' | '；' | '：' => true,
            '、' => japanese,
            ',' | ';' => spaced || sentence[end..].starts_with(language::is_cjk),
            '—' => true,
            '-' | '–' => spaced && sentence[..at].ends_with(char::is_whitespace),
            _ => false,
        };
        if cut {
            cuts.push(at..end);
        }
    }
    for joined in JOINED.find_iter(sentence) {
        let at = joined.start();
        if !cuts.iter().any(|cut| cut.contains(&at) || cut.end == at) && even_quotes(&sentence[..at]) {
            cuts.push(at..at + sentence[at..].chars().next().map_or(1, char::len_utf8));
        }
    }
    cuts.sort_by_key(|cut| cut.start);
    let mut found = Vec::new();
    let mut start = 0;
    for cut in cuts.into_iter().chain(std::iter::once(sentence.len()..sentence.len())) {
        let range = trimmed(sentence, start..cut.start);
        if !range.is_empty() {
            found.push(range);
        }
        start = cut.end;
    }
    found
}

fn even_quotes(text: &str) -> bool {
    text.matches('"').count().is_multiple_of(2)
        && text.matches(['“', '《', '「', '(']).count() == text.matches(['”', '》', '」', ')']).count()
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

/// A clause as the patterns see it: normalised, without marks at its ends.
pub(super) fn bare(clause: &str) -> String {
    language::normalise(clause).trim_matches(|c: char| ".!?。,;:~… ".contains(c)).to_owned()
}

/// The sentence from its first clause that says something to its last; none when no clause does. `says_nothing` judges
/// one clause. Tying words at the start go too.
pub(super) fn without_empty_ends<'a>(
    sentence: &'a str,
    rules: &Rules,
    says_nothing: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let mut left: Vec<Range<usize>> = clauses(sentence);
    let closing = left.last()?.end;
    while let Some(first) = left.first() {
        let words = &sentence[first.clone()];
        if says_nothing(words) || untied(words, rules).is_none() {
            left.remove(0);
        } else {
            break;
        }
    }
    while let Some(last) = left.last() {
        if says_nothing(&sentence[last.clone()]) {
            left.pop();
        } else {
            break;
        }
    }
    let (first, last) = (left.first()?, left.last()?);
    let end = if last.end == closing { sentence.len() } else { last.end };
    untied(&sentence[first.start..end], rules)
}

/// The words without those at their start that only tie them to what came before; none when nothing else is there.
pub(super) fn untied<'a>(words: &'a str, rules: &Rules) -> Option<&'a str> {
    let lower = lowered(words);
    // The next step of something keeps the word that says so.
    let opening = rules.opening.find(&lower).filter(|found| !rules.sequel.is_match(found.as_str()));
    let start = opening.map_or(0, |found| found.end());
    let rest = words[start..].trim_start_matches(|c: char| c.is_whitespace() || ",，、:：".contains(c));
    rest.chars().any(char::is_alphanumeric).then_some(rest)
}

/// Lower case where that changes no length, so that places stay.
fn lowered(words: &str) -> String {
    words
        .chars()
        .map(|c| {
            let mut lower = c.to_lowercase();
            match (lower.next(), lower.next()) {
                (Some(one), None) if one.len_utf8() == c.len_utf8() => one,
                _ => c,
            }
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::providers::extractive::rules::rules_for;

    #[test]
    fn clauses_end_at_marks_but_not_inside_quotes_or_numbers() {
        for (sentence, expected) in [
            ("Hi there, I paid 1,200 euros, all in.", vec!["Hi there", "I paid 1,200 euros", "all in."]),
            ("I read \"War, and Peace\" and I liked it", vec!["I read \"War, and Peace\"", "and I liked it"]),
            ("我喜欢绘画、钢琴，你呢？", vec!["我喜欢绘画、钢琴", "你呢？"]),
            ("我看了《你好，李焕英》", vec!["我看了《你好，李焕英》"]),
            ("コーヒー、紅茶が好きです。", vec!["コーヒー", "紅茶が好きです。"]),
        ] {
            let found: Vec<&str> = clauses(sentence).into_iter().map(|range| &sentence[range]).collect();
            assert_eq!(found, expected, "{sentence}");
        }
    }

    #[test]
    fn empty_clauses_go_from_both_ends_and_never_from_the_middle() {
        let empty = |clause: &str| language::is_small_talk(clause) || clause.ends_with(['?', '？']);
        for (sentence, expected) in [
            (
                "Hello, I moved to Lisbon, okay, with my dog, right?",
                Some("I moved to Lisbon, okay, with my dog"),
            ),
            ("By the way, I moved to Lisbon.", Some("I moved to Lisbon.")),
            ("Okay, thanks.", None),
            ("你好，我叫小明，你呢？", Some("我叫小明")),
            ("However, also", None),
        ] {
            let rules = rules_for(sentence).unwrap_or_else(|| rules_for("I am here").unwrap());
            assert_eq!(without_empty_ends(sentence, rules, empty), expected, "{sentence}");
        }
    }
}
