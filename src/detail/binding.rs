//! Which word a value belongs to. "Two cats and three dogs" and "three cats and two dogs" hold the same numbers and the
//! same words; what differs is which stands beside which.

use std::collections::HashMap;
use std::mem::discriminant;

use chrono::NaiveDate;

use super::{Date, Details, details, korean, numeral, slot};
use crate::language::is_hangul;

/// Where a word stands beside a value: how many words, before or behind it.
type Side = (usize, bool);

/// The sides that are looked at. In scripts without spaces a word is about two tokens, and the first may be a counter.
const SIDES: [Side; 4] = [(1, true), (2, true), (1, false), (2, false)];

/// A value in its text, with the words of content on either side up to the next value.
struct Value {
    /// As one value of its kind is always written.
    shown: String,
    kind: String,
    before: Vec<String>,
    behind: Vec<String>,
}

/// A word beside which each text has another value of one kind, though both texts hold both values. `rest` is the folded
/// text with marks where values stood.
pub(super) fn moved(
    (first, rest_a): (&str, &str),
    (second, rest_b): (&str, &str),
    days: (Option<NaiveDate>, Option<NaiveDate>),
) -> Option<(String, String)> {
    let a = values(first, rest_a, days.0);
    if a.len() < 2 {
        return None;
    }
    let b = values(second, rest_b, days.1);
    let holds = |values: &[Value], shown: &str| values.iter().any(|value| value.shown == shown);
    SIDES.into_iter().find_map(|side| {
        let (in_a, in_b) = (beside(&a, side), beside(&b, side));
        in_a.into_iter().find_map(|(word, one)| {
            let (one, other) = (one?, (*in_b.get(&word)?)?);
            let other_value = one.kind == other.kind && one.shown != other.shown;
            let both = holds(&b, &one.shown) && holds(&a, &other.shown);
            (other_value && both)
                .then(|| (format!("{word}: {}", one.shown), format!("{word}: {}", other.shown)))
        })
    })
}

/// The value beside each word; none where several are.
fn beside(values: &[Value], (count, behind): Side) -> HashMap<String, Option<&Value>> {
    let mut found: HashMap<String, Option<&Value>> = HashMap::new();
    for value in values {
        let words = if behind { &value.behind } else { &value.before };
        let near: Vec<&str> = if behind {
            words.iter().take(count).map(String::as_str).collect()
        } else {
            words.iter().rev().take(count).map(String::as_str).collect()
        };
        if near.len() == count {
            found.entry(near.join(" ")).and_modify(|other| *other = None).or_insert(Some(value));
        }
    }
    found
}

fn values(folded: &str, rest: &str, said_on: Option<NaiveDate>) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut from = 0;
    while let Some(start) = rest[from..].find('\u{1}').map(|at| at + from) {
        let end = rest[start..].find(|c| c != '\u{1}').map_or(rest.len(), |at| at + start);
        let before = words(&rest[from..start]);
        if let Some(last) = found.last_mut() {
            last.behind.clone_from(&before);
        }
        let taken = folded.get(start..end).unwrap_or_default();
        let (shown, kind) = told(taken, &details(taken, said_on));
        found.push(Value { shown, kind, before, behind: Vec::new() });
        from = end;
    }
    if let Some(last) = found.last_mut() {
        last.behind = words(&rest[from..]);
    }
    // What is no number, date or time is compared as it stands elsewhere.
    found.retain(|value| !value.shown.is_empty());
    found
}

/// The value in one form, and its kind: only values of one kind can change places.
fn told(taken: &str, read: &Details) -> (String, String) {
    let numbers = read.numbers.iter().map(|number| (number.to_string(), format!("{:?}", number.unit)));
    let dates = read.dates.iter().map(|date| (date.to_string(), kind_of(date)));
    let times = read.times.iter().map(|time| (time.to_string(), "time".to_owned()));
    let (shown, kinds): (Vec<String>, Vec<String>) = numbers.chain(dates).chain(times).unzip();
    // A numeral in Han characters is one by its counter, which is not among what was taken.
    if let (true, Some(value)) = (shown.is_empty(), numeral::han_value(taken)) {
        return (value.to_string(), format!("{:?}", None::<&str>));
    }
    (shown.join(" "), kinds.join(" "))
}

fn kind_of(date: &Date) -> String {
    format!("{:?}", discriminant(date))
}

/// The words of content of a stretch, Korean ones without particles.
fn words(stretch: &str) -> Vec<String> {
    let bare = |token: String| match token.chars().all(is_hangul) {
        true => korean::without_particle(&token).0.to_owned(),
        false => token,
    };
    slot::tokens(stretch)
        .into_iter()
        .filter(|token| slot::is_content(token))
        .map(bare)
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::difference;

    #[test]
    fn a_value_that_changed_its_place_is_seen() {
        for (first, second, expected) in [
            ("The shelf holds 4 jars and 7 cans.", "The shelf holds 7 jars and 4 cans.", true),
            (
                "Bins go out on Tuesday and paper on Friday.",
                "Bins go out on Friday and paper on Tuesday.",
                true,
            ),
            ("Lunch is at 12:30, dinner at 19:00.", "Lunch is at 19:00, dinner at 12:30.", true),
            ("冰箱里有四瓶牛奶和六个鸡蛋", "冰箱里有六瓶牛奶和四个鸡蛋", true),
            ("ペンを三本、ノートを五冊買った。", "ペンを五本、ノートを三冊買った。", true),
            ("연필 세 자루와 공책 다섯 권을 샀다.", "연필 다섯 자루와 공책 세 권을 샀다.", true),
            ("The shelf holds 4 jars and 7 cans.", "The shelf holds four jars and seven cans.", false),
            ("It opens at 9:00 and closes at 17:00.", "It opens at 9 am and closes at 5 pm.", false),
        ] {
            let found = difference(first, second, None, None);
            assert_eq!(found.is_some(), expected, "{first} / {second}: {found:?}");
        }
    }
}
