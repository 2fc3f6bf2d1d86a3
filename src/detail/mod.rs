//! What a text states, found by rules alone: numbers, dates, times, addresses, identifiers, names, negation. On
//! these rest the draft check, the word "duplicate" and the veto of a merge; a model never decides them.
//! Pure functions of text. Which language a text is in is `language`'s work.

mod check;
mod clock;
mod code;
mod date;
mod difference;
mod gazetteer;
mod name;
mod number;
mod numeral;
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
