//! What a text states, found by rules alone: numbers, dates, times, addresses, identifiers, names, negation. On
//! these rest the draft check, the word "duplicate" and the veto of a merge; a model never decides them.
//! Pure functions of text. Which language a text is in is `language`'s work.

mod binding;
mod check;
mod clock;
mod code;
mod date;
mod difference;
mod gazetteer;
mod japanese;
mod korean;
mod meaning;
mod name;
mod number;
mod numeral;
mod phrase;
mod relative;
mod slot;
mod subject;
mod unit;
mod wording;

use std::collections::BTreeSet;
use std::ops::Range;

use chrono::NaiveDate;
use regex::Regex;

pub use check::{lost, missing};
pub use clock::Time;
pub use date::Date;
pub use difference::{Difference, Values, difference};
pub use meaning::{
    Answer, Said, Voice, alike, contradiction, is_the_assistants, misread, misread_merge, person_of, shared,
    tells_a_past,
};
pub use number::Number;
pub use subject::same_subject;
pub use wording::{exclusive, has_change_word};

/// What a text states that must not change on the way through the night.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Numbers with their units.
    pub numbers: BTreeSet<Number>,
    /// Dates and weekdays; relative ones as calendar dates when the day they were said on is known.
    pub dates: BTreeSet<Date>,
    /// Times of day.
    pub times: BTreeSet<Time>,
    /// URLs and e-mail addresses.
    pub urls: BTreeSet<String>,
    /// Paths, versions, hashes, code spans, names in code and of models.
    pub identifiers: BTreeSet<String>,
    /// Proper names and quoted titles that are surely such.
    pub names: BTreeSet<String>,
    /// Words that are likely names; never a reason to refuse anything.
    pub likely_names: BTreeSet<String>,
    /// Whether the text denies something.
    pub negated: bool,
}

impl Details {
    /// The latest calendar day among the dates; none where no full date is said.
    pub fn latest_date(&self) -> Option<NaiveDate> {
        self.dates.iter().filter_map(Date::full).max()
    }
}

/// Everything the text states, relative dates resolved against the day it was said on.
pub fn details(text: &str, said_on: Option<NaiveDate>) -> Details {
    read(text, said_on).0
}

/// The details, and the folded text with marks in their place: what is left is names and plain words.
fn read(text: &str, said_on: Option<NaiveDate>) -> (Details, String) {
    let negated = wording::is_negated(&crate::language::normalise(text));
    // Each reader blanks what it took, so that "2026-03-14" is a date and not three numbers: the order matters.
    let mut rest = crate::language::fold(text);
    let urls = code::take_urls(&mut rest);
    let mut identifiers = code::take_spans(&mut rest);
    let titles = name::take_titles(&mut rest);
    let dates = date::take(&mut rest, said_on);
    let times = clock::take(&mut rest);
    identifiers.extend(code::take_tokens(&mut rest));
    let numbers = number::take(&mut rest);
    let names = name::find(&rest);
    let (mut names, likely_names) = (names.certain, names.likely);
    names.extend(titles);
    (Details { numbers, dates, times, urls, identifiers, names, likely_names, negated }, rest)
}

/// Whether a normalised text names somebody: the name as whole words, or as written in a script without spaces.
pub fn names(normal: &str, name: &str) -> bool {
    name::has_word(normal, name)
}

/// The folded text with marks in place of everything that is no count: addresses, identifiers, titles, dates, times.
fn without_dates(folded: &str) -> String {
    let mut rest = folded.to_owned();
    code::take_urls(&mut rest);
    code::take_spans(&mut rest);
    name::take_titles(&mut rest);
    date::take(&mut rest, None);
    clock::take(&mut rest);
    code::take_tokens(&mut rest);
    rest
}

/// Compiles a literal pattern with ASCII word boundaries: the fast engine cannot do Unicode ones in CJK text, and
/// between 在 and "March" there must be a boundary, which to Unicode there is not.
fn compile(pattern: &str) -> Regex {
    Regex::new(&pattern.replace(r"\b", r"(?-u:\b)")).expect("a literal pattern")
}

/// Overwrites a stretch with marks of the same length, so that places stay and no pattern matches across.
fn blank(text: &mut String, range: Range<usize>) {
    let marks = "\u{1}".repeat(range.len());
    text.replace_range(range, &marks);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_detail_is_taken_once_and_by_the_right_reader() {
        let found = details(
            "On 2026-03-14 at 9:00 Alice ran 5 km with v2.3 of `run it`, see https://example.com/7 and src/a1.rs, not \"The Long Run\".",
            None,
        );
        let shown = |items: Vec<String>| items.join(" | ");
        assert_eq!(shown(found.dates.iter().map(ToString::to_string).collect()), "2026-03-14");
        assert_eq!(shown(found.times.iter().map(ToString::to_string).collect()), "09:00");
        assert_eq!(shown(found.numbers.iter().map(ToString::to_string).collect()), "5000 m");
        assert_eq!(shown(found.urls.iter().cloned().collect()), "https://example.com/7");
        assert_eq!(shown(found.identifiers.iter().cloned().collect()), "run it | src/a1.rs | v2.3");
        assert_eq!(shown(found.names.iter().cloned().collect()), "Alice | The Long Run");
    }

    #[test]
    fn chinese_words_around_latin_ones_are_boundaries() {
        let found = details("在2026-03-14用RTX4090跑了30分钟", None);
        assert_eq!(found.dates.len(), 1);
        assert_eq!(found.identifiers.iter().collect::<Vec<_>>(), ["RTX4090"]);
        assert_eq!(found.numbers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1800 s"]);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "(\\PC|[0-9]|一|二|十|万|亿|点|半|月|日|年|周|前|后|next |last |May |ago |in |:|/|\\.){0,40}") {
            let day = NaiveDate::from_ymd_opt(2026, 3, 11);
            details(&text, day);
            difference(&text, "三点 on 14 March", day, None);
            same_subject(&text, "Alice");
        }
    }
}
