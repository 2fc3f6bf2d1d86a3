//! Whether something that matters differs between two claims that say nearly the same. Only when nothing does may
//! one be called a duplicate of the other; a needless difference costs a call, a missed one loses a memory.

use std::collections::BTreeSet;
use std::fmt;

use chrono::NaiveDate;

use super::phrase::{self, phrases};
use super::{Details, binding, meaning, name, read, slot, wording};
use crate::language::{fold, normalise};

/// What the first and the second text say; `None` where one of them says nothing of the kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// The first text's value.
    pub first: Option<String>,
    /// The second text's value.
    pub second: Option<String>,
}

/// Something that matters and differs, with what either text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A number or its unit.
    Number(Values),
    /// A date or weekday.
    Date(Values),
    /// A time of day.
    Time(Values),
    /// A URL or address.
    Url(Values),
    /// A path, version, code span or the like.
    Identifier(Values),
    /// A proper name.
    Name(Values),
    /// One denies what the other states.
    Negation(Values),
    /// One speaks of a change.
    ChangeWord(Values),
    /// Another value in the same sentence frame, or one that only one of them states.
    SwappedSlot(Values),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, values) = match self {
            Self::Number(values) => ("number", values),
            Self::Date(values) => ("date", values),
            Self::Time(values) => ("time", values),
            Self::Url(values) => ("address", values),
            Self::Identifier(values) => ("identifier", values),
            Self::Name(values) => ("name", values),
            Self::Negation(values) => ("negation", values),
            Self::ChangeWord(values) => ("word of change", values),
            Self::SwappedSlot(values) => ("value", values),
        };
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{kind}: {} / {}", side(&values.first), side(&values.second))
    }
}

/// The first thing that matters and differs between two claims, each with the day it was said on if known.
/// `None` when, as far as rules can tell, they say the same.
pub fn difference(
    first: &str,
    second: &str,
    first_on: Option<NaiveDate>,
    second_on: Option<NaiveDate>,
) -> Option<Difference> {
    let ((a, rest_a), (b, rest_b)) = (read(first, first_on), read(second, second_on));
    let (low_a, low_b) = (normalise(first), normalise(second));
    if low_a == low_b && first_on == second_on {
        return None;
    }
    compare(&a.numbers, &b.numbers, |x, y| x.agrees(y))
        .map(Difference::Number)
        .or_else(|| compare(&a.dates, &b.dates, |x, y| x.agrees(y)).map(Difference::Date))
        .or_else(|| compare(&a.times, &b.times, |x, y| x.agrees(*y)).map(Difference::Time))
        .or_else(|| compare(&a.urls, &b.urls, |x, y| x == y).map(Difference::Url))
        .or_else(|| {
            compare(&a.identifiers, &b.identifiers, |x, y| x.eq_ignore_ascii_case(y))
                .map(Difference::Identifier)
        })
        .or_else(|| names(&a, &b, &low_a, &low_b).map(Difference::Name))
        .or_else(|| wordings(&a, &b, &low_a, &low_b))
        .or_else(|| {
            // Numbers, dates and the like are equal by now, however they are written.
            let texts = ((&*fold(first), &*rest_a), (&*fold(second), &*rest_b));
            let moved = binding::moved(texts.0, texts.1, (first_on, second_on));
            moved.map(|(x, y)| Difference::SwappedSlot(values(Some(x), Some(y))))
        })
        .or_else(|| slots(&rest_a, &rest_b))
}

/// What differs in the words that are left when all values are taken out.
fn slots(rest_a: &str, rest_b: &str) -> Option<Difference> {
    let swapped = |(x, y)| Difference::SwappedSlot(values(Some(x), Some(y)));
    if let (Some(a), Some(b)) = (phrases(&normalise(rest_a)), phrases(&normalise(rest_b))) {
        if phrase::alike(&a, &b) {
            return None;
        }
        if let Some(verb) = phrase::tense(&a, &b).or_else(|| phrase::voice(&a, &b)) {
            return Some(swapped(verb));
        }
    }
    let (a, b) = (slot::plain_tokens(rest_a), slot::plain_tokens(rest_b));
    slot::swapped(&a, &b).or_else(|| slot::reordered(&a, &b)).map(swapped).or_else(|| {
        let more = slot::added(&a, &b)?;
        let sides = if a.len() > b.len() { values(Some(more), None) } else { values(None, Some(more)) };
        Some(Difference::SwappedSlot(sides))
    })
}

fn values(first: Option<String>, second: Option<String>) -> Values {
    Values { first, second }
}

/// What stands in one set and has no match in the other.
fn compare<T: Ord + fmt::Display>(
    a: &BTreeSet<T>,
    b: &BTreeSet<T>,
    same: impl Fn(&T, &T) -> bool,
) -> Option<Values> {
    let only_a = a.iter().find(|x| !b.iter().any(|y| same(x, y)));
    let only_b = b.iter().find(|y| !a.iter().any(|x| same(x, y)));
    one_sided(only_a.map(ToString::to_string), only_b.map(ToString::to_string))
}

fn one_sided(first: Option<String>, second: Option<String>) -> Option<Values> {
    (first.is_some() || second.is_some()).then(|| values(first, second))
}

fn names(a: &Details, b: &Details, low_a: &str, low_b: &str) -> Option<Values> {
    let only = |names: &BTreeSet<String>, other: &str| {
        names.iter().find(|name| !name::stands_in(name, other)).cloned()
    };
    one_sided(only(&a.names, low_b), only(&b.names, low_a))
}

fn wordings(a: &Details, b: &Details, low_a: &str, low_b: &str) -> Option<Difference> {
    let said = |denied: bool| Some(if denied { "denied" } else { "stated" }.to_owned());
    if a.negated != b.negated {
        return Some(Difference::Negation(values(said(a.negated), said(b.negated))));
    }
    let (out_a, out_b) = (wording::ruled_out(low_a), wording::ruled_out(low_b));
    if out_a.is_some() && out_b.is_some() && out_a != out_b {
        return Some(Difference::Negation(values(out_a, out_b)));
    }
    if let Some((x, y)) = wording::opposites(low_a, low_b) {
        return Some(Difference::SwappedSlot(values(Some(x.to_owned()), Some(y.to_owned()))));
    }
    if let Some((x, y)) = meaning::turned(low_a, low_b) {
        return Some(Difference::SwappedSlot(values(x, y)));
    }
    let (change_a, change_b) = (wording::change_word(low_a), wording::change_word(low_b));
    (change_a.is_some() != change_b.is_some())
        .then(|| Difference::ChangeWord(values(change_a.map(str::to_owned), change_b.map(str::to_owned))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAIRS: &str = include_str!("../../tests/fixtures/pairs.tsv");

    fn rows() -> impl Iterator<Item = [&'static str; 4]> {
        PAIRS.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>().try_into().unwrap())
    }

    /// How many of the pairs of a relation and language differ, and how many there are.
    fn counted(relation: &str, language: &str) -> (usize, usize) {
        let pairs: Vec<_> = rows().filter(|row| row[0] == relation && row[1] == language).collect();
        let differ = |pair: &&[&str; 4]| difference(pair[2], pair[3], None, None).is_some();
        (pairs.iter().filter(differ).count(), pairs.len())
    }

    #[test]
    fn every_conflicting_pair_differs_and_most_duplicates_do_not() {
        // A conflict called a duplicate loses a memory; a duplicate called different costs a call.
        for (relation, language, expected) in [
            ("conf", "en", (10, 10)),
            ("conf", "zh", (6, 6)),
            ("conf", "ko", (2, 2)),
            ("conf", "ja", (2, 2)),
            ("dup", "en", (1, 10)),
            ("dup", "zh", (1, 6)),
            ("dup", "ko", (0, 2)),
            ("dup", "ja", (0, 2)),
        ] {
            assert_eq!(counted(relation, language), expected, "{relation} {language}");
        }
    }

    #[test]
    fn what_matters_is_named_with_both_values() {
        for (first, second, expected) in [
            ("Standup is at 9:00", "standup moved to 10:00", "time: 09:00 / 10:00"),
            ("站会九点", "站会改到十点", "time: 09:00 / 10:00"),
            ("Alice lives in Berlin", "Alice lives in Berlin with two cats", "number: nothing / 2"),
            ("Timeout is 30 seconds", "Timeout is 30 minutes", "number: 30 s / 1800 s"),
            ("Alice lives in Beijing", "Alice lives in Guangzhou", "name: Beijing / Guangzhou"),
            ("李华住在北京", "李华住在广州", "name: 北京 / 广州"),
            ("Alice likes tea", "Alice does not like tea", "negation: stated / denied"),
            ("用户喝咖啡", "用户不喝咖啡", "negation: stated / denied"),
            ("Use tabs, not spaces", "Use spaces, not tabs", "negation: spaces / tabs"),
            ("Indent files with tabs.", "Indent files with spaces.", "value: tabs / spaces"),
            ("Alice lives there", "Alice lives there now", "word of change: nothing / now"),
            ("Alice lives in Berlin", "Alice lived in Berlin", "value: lives / lived"),
            (
                "See https://example.com/a",
                "See https://example.com/b",
                "address: https://example.com/a / https://example.com/b",
            ),
            ("Run `make test`", "Run `make check`", "identifier: make test / make check"),
            ("Due on 14 March", "Due on 15 March", "date: 03-14 / 03-15"),
            (
                "Alice lives there",
                "Alice lives there with her parents and brother",
                "value: nothing / with her parents and brother",
            ),
            ("Alice manages Bob", "Bob manages Alice", "value: alice manages bob / bob manages alice"),
        ] {
            let found = difference(first, second, None, None).map(|found| found.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{first} / {second}");
        }
    }

    #[test]
    fn one_claim_in_other_words_does_not_differ() {
        for (first, second) in [
            ("Due on 14 March.", "Due on March 14th."),
            ("Due on 14 March", "due on 2026-03-14"),
            ("It starts at 9:00.", "It starts at 9am."),
            ("站会上午九点", "站会上午9:00"),
            ("The user likes tea.", "The user loves tea."),
            ("The team has 9 engineers.", "The team has nine engineers."),
            ("小明的生日是三月十四日。", "小明的生日是3月14日"),
        ] {
            assert_eq!(difference(first, second, None, None), None, "{first} / {second}");
        }
    }

    #[test]
    fn relative_dates_are_compared_on_the_day_they_were_said() {
        let day = |text: &str| Some(text.parse::<NaiveDate>().unwrap());
        let (first, second) = ("The demo is tomorrow", "The demo is today");
        assert_eq!(difference(first, second, day("2026-03-10"), day("2026-03-11")), None);
        let again = difference(first, first, day("2026-03-10"), day("2026-03-11"));
        assert!(matches!(again, Some(Difference::Date(_))), "{again:?}");
    }

    proptest! {
        #[test]
        fn a_text_does_not_differ_from_itself(text in "([a-zA-Z0-9 .:/-]|三|月|日|点|王|不|“|「){0,40}") {
            prop_assert_eq!(difference(&text, &text, None, None), None);
        }

        #[test]
        fn a_difference_is_seen_from_both_sides(a in "(alice|bob|tea|14|may|9:00|not|now| ){0,8}", b in "(alice|bob|tea|14|may|9:00|not|now| ){0,8}") {
            prop_assert_eq!(difference(&a, &b, None, None).is_some(), difference(&b, &a, None, None).is_some());
        }
    }
}
