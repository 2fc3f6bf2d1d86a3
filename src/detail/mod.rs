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
mod slot;
mod subject;
mod wording;

use std::collections::BTreeSet;
use std::ops::Range;

use chrono::NaiveDate;

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

/// Everything the text states, relative dates resolved against the day it was said on.
pub fn details(text: &str, said_on: Option<NaiveDate>) -> Details {
    let negated = wording::is_negated(&crate::language::normalise(text));
    // Each reader blanks what it took, so that "2026-03-14" is a date and not three numbers: the order matters.
    let mut rest = crate::language::fold(text);
    let urls = code::take_urls(&mut rest);
    let mut identifiers = code::take_spans(&mut rest);
    let dates = date::take(&mut rest, said_on);
    let times = clock::take(&mut rest);
    identifiers.extend(code::take_tokens(&mut rest));
    let numbers = number::take(&mut rest);
    let names = name::find(&rest);
    Details {
        numbers,
        dates,
        times,
        urls,
        identifiers,
        names: names.certain,
        likely_names: names.likely,
        negated,
    }
}

/// Overwrites a stretch with marks of the same length, so that places stay and no pattern matches across.
fn blank(text: &mut String, range: Range<usize>) {
    let marks = "\u{1}".repeat(range.len());
    text.replace_range(range, &marks);
}
