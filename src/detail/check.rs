//! What a claim states beyond its sources, and what a merge lost of its originals.

use chrono::{Datelike, NaiveDate};

use super::{Date, Details, details, name};
use crate::language::normalise;

/// What of the claim's numbers, dates, times, URLs, identifiers and certain names neither stands in the sources nor
/// follows from the day they were said on, in words for people. Empty: the claim passes.
pub fn missing(claim: &str, sources: &[&str], said_on: Option<NaiveDate>) -> Vec<String> {
    let claimed = details(claim, said_on);
    let stated: Vec<Details> = sources.iter().map(|source| details(source, said_on)).collect();
    let texts: Vec<String> = sources.iter().map(|source| normalise(source)).collect();
    let mut missing = Vec::new();
    for number in &claimed.numbers {
        // "She is four" supports "4 years old": the number stands there, the unit is how the claim reads it.
        let in_source = |s: &Details| {
            s.numbers.iter().any(|n| n.covers(number) || n.unit.is_none() && n.value == number.value)
        };
        // "in 2026" may read as a date there and as a number here.
        let as_year = |s: &Details| s.dates.iter().any(|date| is_year(date, &number.value));
        let said = said_on.is_some_and(|day| number.unit.is_none() && day.year().to_string() == number.value);
        if !said && !stated.iter().any(|s| in_source(s) || number.unit.is_none() && as_year(s)) {
            missing.push(format!("number {number}"));
        }
    }
    for date in &claimed.dates {
        let said = said_on.is_some_and(|day| Date::day(day).covers(date));
        if !said && !stated.iter().any(|s| s.dates.iter().any(|source| date.follows(source, said_on))) {
            missing.push(format!("date {date}"));
        }
    }
    for time in &claimed.times {
        // "at 10" is a number to the source and may be "10:00" here.
        let hour = (time.minutes % 60 == 0).then(|| (time.minutes / 60).to_string());
        let bare =
            |s: &Details| s.numbers.iter().any(|n| n.unit.is_none() && Some(&n.value) == hour.as_ref());
        if !stated.iter().any(|s| s.times.iter().any(|source| source.covers(*time)) || bare(s)) {
            missing.push(format!("time {time}"));
        }
    }
    let stands = |written: &str| texts.iter().any(|text| has_written(text, written));
    // What reads as an identifier there is one, even where the spelling around it would hide it ("A0.A").
    let has_url = |url: &String| stated.iter().any(|s| s.urls.contains(url)) || stands(url);
    let has_identifier = |id: &String| stated.iter().any(|s| s.identifiers.contains(id)) || stands(id);
    missing.extend(claimed.urls.iter().filter(|url| !has_url(url)).map(|url| format!("address {url}")));
    missing.extend(
        claimed.identifiers.iter().filter(|id| !has_identifier(id)).map(|id| format!("identifier {id}")),
    );
    let named = |name: &str| texts.iter().any(|text| name::stands_in(name, text));
    missing.extend(claimed.names.iter().filter(|name| !named(name)).map(|name| format!("name {name}")));
    missing
}

/// The numbers, dates, times, URLs, identifiers and certain names of the originals that the merged text no longer
/// states, in words for people. A merged text may say them more exactly, never less.
pub fn lost(originals: &[&str], merged: &str) -> Vec<String> {
    let kept = details(merged, None);
    let text = normalise(merged);
    let mut lost = Vec::new();
    for original in originals {
        let had = details(original, None);
        lost.extend(
            had.numbers
                .iter()
                .filter(|n| !kept.numbers.iter().any(|k| k.covers(n)))
                .map(|n| format!("number {n}")),
        );
        // A relative date is kept by the calendar day a merge puts in its place.
        let dated =
            |date: &Date| matches!(date, Date::Relative(_)) && kept.dates.iter().any(|k| k.full().is_some());
        lost.extend(
            had.dates
                .iter()
                .filter(|d| !kept.dates.iter().any(|k| keeps(k, d)) && !dated(d))
                .map(|d| format!("date {d}")),
        );
        lost.extend(
            had.times
                .iter()
                .filter(|t| !kept.times.iter().any(|k| k.covers(**t)))
                .map(|t| format!("time {t}")),
        );
        lost.extend(
            had.urls
                .iter()
                .filter(|url| !kept.urls.contains(*url) && !has_written(&text, url))
                .map(|url| format!("address {url}")),
        );
        lost.extend(
            had.identifiers
                .iter()
                .filter(|id| !kept.identifiers.contains(*id) && !has_written(&text, id))
                .map(|id| format!("identifier {id}")),
        );
        lost.extend(
            had.names.iter().filter(|name| !name::stands_in(name, &text)).map(|name| format!("name {name}")),
        );
    }
    lost.sort();
    lost.dedup();
    lost
}

/// A weekday is only kept by that weekday: "every Tuesday" is not said by one date.
fn keeps(kept: &Date, date: &Date) -> bool {
    if matches!(date, Date::Weekday(_)) { kept == date } else { kept.covers(date) }
}

fn is_year(date: &Date, value: &str) -> bool {
    matches!(date, Date::Calendar { year: Some(year), .. } if year.to_string() == value)
}

/// Whether an address or identifier stands in a normalised text, spelled with or without hyphen and space, and not
/// as a part of a longer one.
fn has_written(text: &str, written: &str) -> bool {
    let written = normalise(written);
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |text: &str, word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let mut after = text[at + word.len()..].chars();
            let next = after.next();
            // "v2.3" does not stand in "v2.3.1", nor "a.com/x" in "a.com/x/y".
            let goes_on = matches!(next, Some('.' | '/' | '-')) && after.next().is_some_and(part);
            let runs_on = before.is_some_and(part) && word.starts_with(part)
                || next.is_some_and(part) && word.ends_with(part);
            !runs_on && !goes_on
        })
    };
    if whole(text, &written) {
        return true;
    }
    let version = written
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && whole(text, rest));
    let squeeze = |text: &str| text.replace([' ', '-'], "");
    // "RTX 4090" is "RTX4090"; only for identifiers of one word, where nothing else can run together.
    version
        || !written.contains([' ', '/', '.']) && text.contains([' ', '-']) && spaced(text, &squeeze(&written))
}

/// Whether two neighbouring words make the identifier: "rtx 4090".
fn spaced(text: &str, identifier: &str) -> bool {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.windows(2).any(|pair| pair.concat() == identifier) || words.contains(&identifier)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn day() -> Option<NaiveDate> {
        NaiveDate::from_ymd_opt(2026, 3, 10)
    }

    #[test]
    fn a_claim_passes_when_its_sources_state_it() {
        for (claim, source) in [
            ("The user ran for an hour on 2026-03-10.", "Today I ran for 1 hour."),
            ("On 2026-03-10 the user said the team has 9 engineers.", "We have nine engineers."),
            ("The user met Alice Smith on 9 March 2026.", "yesterday i met alice smith"),
            ("The meeting is at 15:00.", "the meeting is at 3pm"),
            ("The meeting is at 10:00.", "we meet at 10"),
            ("用户2026年3月9日去了厦门。", "昨天我去了厦门"),
            ("用户的生日是3月14日。", "我的生日是三月十四日"),
            ("The birthday is 2026-03-14.", "my birthday is on 14 March"),
            ("The user uses an RTX4090.", "I use an RTX 4090"),
            ("The user is reading \"Dune\".", "I'm reading Dune"),
            ("The demo is on 2026-03-17.", "The demo is next Tuesday"),
            ("张曼婷喜欢绘画。", "我叫张曼婷，很喜欢绘画"),
            ("The user moved in 2024.", "I moved two years ago"),
            ("The parser is fixed as of v2.3.", "fixed in version 2.3"),
        ] {
            assert_eq!(missing(claim, &[source], day()), Vec::<String>::new(), "{claim}");
        }
    }

    #[test]
    fn what_a_claim_invents_is_named() {
        for (claim, source, expected) in [
            ("The user has 42 cats.", "I have cats", &["number 42"][..]),
            ("The user met Bob.", "I met a friend", &["name Bob"]),
            ("Bob lives here.", "he lives here", &["name Bob"]),
            ("The timeout is 30 minutes.", "the timeout is 30 seconds", &["number 1800 s"]),
            ("The demo is on 2026-03-18.", "the demo is next Tuesday", &["date 2026-03-18"]),
            ("It starts at 15:00.", "it starts at 3 o'clock", &["time 15:00"]),
            ("See https://example.com/b.", "see https://example.com/a", &["address https://example.com/b"]),
            ("Call read_file.", "call the reader", &["identifier read_file"]),
            ("Upgrade to v2.3.", "upgrade to v2.3.1", &["identifier v2.3"]),
            ("用户住在北京。", "我住在上海", &["name 北京"]),
            ("李华喜欢绘画。", "我喜欢绘画", &["name 李华"]),
            ("The user reads \"Dune\".", "I read a lot", &["name Dune"]),
        ] {
            assert_eq!(missing(claim, &[source], day()), expected, "{claim}");
        }
    }

    #[test]
    fn a_merge_may_be_more_exact_but_lose_nothing() {
        for (originals, merged, expected) in [
            (
                &["Standup is at 9:00.", "Standup moved to 10:00."][..],
                "Standup is at 10:00, before at 9:00.",
                &[][..],
            ),
            (&["Standup is at 9:00.", "Standup moved to 10:00."], "Standup is at 10:00.", &["time 09:00"]),
            (&["Due on 14 March"], "Due on 2026-03-14", &[]),
            (&["Due on 2026-03-14"], "Due on 14 March", &["date 2026-03-14"]),
            (&["The user moved today"], "The user moved on 2026-03-10", &[]),
            (&["The sync is on Tuesdays"], "The sync is on 2026-03-10", &["date Tuesday"]),
            (&["Alice met Bob"], "Alice met someone", &["name Bob"]),
            (&["李华住在北京"], "李华住在中国", &["name 北京"]),
            (&["The timeout is 30 seconds"], "The timeout is 30", &["number 30 s"]),
            (&["Run `make test`"], "Run the tests", &["identifier make test"]),
        ] {
            assert_eq!(lost(originals, merged), expected, "{merged}");
        }
    }

    #[test]
    fn an_identifier_is_not_missing_from_its_own_text() {
        for text in ["A0.A", "Run A0.A, then A0."] {
            assert_eq!((missing(text, &[text], None), lost(&[text], text)), (vec![], vec![]), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_misses_and_loses_nothing_of_itself(text in "([a-zA-Z0-9 .,:/_-]|三|月|日|点|王|北京|“|”|`){0,40}") {
            prop_assert_eq!(missing(&text, &[&text], None), Vec::<String>::new());
            prop_assert_eq!(lost(&[&text], &text), Vec::<String>::new());
        }

        #[test]
        fn another_source_never_adds_what_is_missing(claim in "(Bob|14|9:00| met |三月| ){0,6}", more in "(Bob|14|9:00| met |三月| ){0,6}") {
            let without = missing(&claim, &["he met me"], None);
            let with = missing(&claim, &["he met me", &more], None);
            prop_assert!(with.iter().all(|what| without.contains(what)));
        }
    }
}
