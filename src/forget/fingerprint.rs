//! What a forgotten text stated, as salted and shortened hashes: enough to tell "standup at 9" from "standup at 10"
//! without keeping the text. Pure. A hash is so short that a dictionary gives many words for each.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::detail::{self, Date, Details};
use crate::language;
use crate::nrem::quote::words_of;

/// Hexadecimal digits kept of a hash: 16 bits.
const DIGITS: usize = 4;
/// Longest name without spaces that is looked for in a text, in characters.
const LONGEST_NAME: usize = 8;

/// The details of a text, hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    salt: String,
    /// Numbers, dates, times, addresses and identifiers.
    stated: BTreeSet<String>,
    /// The words of proper names.
    names: BTreeSet<String>,
    /// The words of what may be names.
    likely: BTreeSet<String>,
    negated: bool,
}

impl Fingerprint {
    /// The fingerprint of a text that was said on that day. `salt` must be another for every fingerprint.
    pub fn of(text: &str, said_on: Option<NaiveDate>, salt: &str) -> Self {
        let details = detail::details(&words_of(text), said_on);
        let hashes = |words: BTreeSet<String>| words.iter().map(|word| hash(salt, word)).collect();
        Self {
            stated: hashes(stated(&details)),
            names: hashes(words_of_names(&details.names)),
            likely: hashes(words_of_names(&details.likely_names)),
            negated: details.negated,
            salt: salt.to_owned(),
        }
    }

    /// Whether a text states the same details: the same numbers, dates, times, addresses and identifiers, no other name,
    /// and no denial of what was stated.
    pub fn agrees(&self, text: &str, said_on: Option<NaiveDate>) -> bool {
        let words = words_of(text);
        let details = detail::details(&words, said_on);
        let stated: BTreeSet<String> = stated(&details).iter().map(|word| hash(&self.salt, word)).collect();
        if details.negated != self.negated || stated != self.stated {
            return false;
        }
        let (named, likely) = (words_of_names(&details.names), words_of_names(&details.likely_names));
        let mut there = all_words(&words);
        // A name may hold marks at which other words end.
        there.extend(named.iter().chain(&likely).cloned());
        let there: BTreeSet<String> = there.iter().map(|word| hash(&self.salt, word)).collect();
        let known = |word: &String| {
            let hash = hash(&self.salt, word);
            self.names.contains(&hash) || self.likely.contains(&hash)
        };
        self.names.is_subset(&there) && named.iter().all(known)
    }
}

fn hash(salt: &str, word: &str) -> String {
    let mut hash = format!("{:x}", Sha256::digest(format!("{salt}\n{word}").as_bytes()));
    hash.truncate(DIGITS);
    hash
}

fn stated(details: &Details) -> BTreeSet<String> {
    let mut stated: BTreeSet<String> = BTreeSet::new();
    stated.extend(details.numbers.iter().map(|number| format!("number {number}")));
    stated.extend(details.dates.iter().map(|date| format!("date {}", day_of(date))));
    stated.extend(details.times.iter().map(|time| format!("time {time}")));
    stated.extend(details.urls.iter().map(|url| format!("url {url}")));
    stated.extend(details.identifiers.iter().map(|id| format!("identifier {}", id.to_lowercase())));
    stated
}

/// Month and day where they are said: one of two texts about a day may leave the year out.
fn day_of(date: &Date) -> String {
    match date {
        Date::Calendar { month: Some(month), day, .. } => format!("{month}-{}", day.unwrap_or(0)),
        other => other.to_string(),
    }
}

fn words_of_names(names: &BTreeSet<String>) -> BTreeSet<String> {
    let words = names.iter().flat_map(|name| name.split_whitespace());
    words.map(word).filter(|word| !word.is_empty()).collect()
}

fn word(text: &str) -> String {
    let word = text.to_lowercase();
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word).to_owned()
}

/// Every word of a text, and where words are not spaced every stretch that could be a name.
fn all_words(text: &str) -> BTreeSet<String> {
    let mut words: BTreeSet<String> = text.split_whitespace().map(word).collect();
    let lower = text.to_lowercase();
    for run in lower.split(|c: char| !c.is_alphanumeric()) {
        words.insert(run.to_owned());
        if !run.chars().any(language::is_cjk) {
            continue;
        }
        words.extend(run.split(language::is_cjk).map(str::to_owned));
        let letters: Vec<char> = run.chars().collect();
        for start in 0..letters.len() {
            let ends = start + 1..=letters.len().min(start + LONGEST_NAME);
            words.extend(ends.map(|end| letters[start..end].iter().collect::<String>()));
        }
    }
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_stated_tells_texts_apart_that_read_nearly_the_same() {
        for (forgotten, said, same) in [
            ("Our standup is at 9:00.", "Our standup is at 10:00.", false),
            ("Our standup is at 9:00.", "Our daily standup is at 9 am.", true),
            (
                "User (2026-03-10): “Our standup is at 9:00.”",
                "User (2026-03-17): “Our standup is at 9:00.”",
                true,
            ),
            ("The user likes tea.", "The user does not like tea.", false),
            ("Alice lives in Berlin.", "Alice lives in Hamburg.", false),
            ("Alice lives in Berlin.", "In Berlin lives Alice.", true),
            ("Alice Miller lives in Berlin.", "Alice lives in Berlin.", false),
            ("The review is on 14 March.", "The review is on 2026-03-14.", true),
            ("The review is on 14 March.", "The review is on 15 March.", false),
            ("The timeout is 30 seconds.", "The timeout is 30 minutes.", false),
            ("李华住在北京。", "北京是李华住的地方。", true),
            ("李华住在北京。", "李华住在广州。", false),
            ("用户对花生过敏。", "用户对花生过敏。", true),
            ("三Alice住在Berlin。", "三Alice住在Berlin。", true),
            ("Run `make test` first.", "Run `make check` first.", false),
        ] {
            assert_eq!(
                Fingerprint::of(forgotten, None, "s").agrees(said, None),
                same,
                "{forgotten} / {said}"
            );
        }
    }

    #[test]
    fn relative_days_are_those_of_the_day_they_were_said_on() {
        let day = |text: &str| Some(text.parse::<NaiveDate>().unwrap());
        let forgotten = Fingerprint::of("The demo is tomorrow.", day("2026-03-10"), "s");
        assert!(forgotten.agrees("The demo is today.", day("2026-03-11")));
        assert!(!forgotten.agrees("The demo is tomorrow.", day("2026-03-11")));
    }

    #[test]
    fn no_word_stands_in_it_and_the_salt_changes_all() {
        let text = "Clara Schmidt owes 4711 euros since 2026-03-10, see https://example.com/debt.";
        let one = serde_json::to_string(&Fingerprint::of(text, None, "one")).unwrap();
        for word in ["clara", "schmidt", "4711", "2026", "example"] {
            assert!(!one.to_lowercase().contains(word), "{one}");
        }
        let (a, b) = (Fingerprint::of(text, None, "one"), Fingerprint::of(text, None, "two"));
        assert!(a.stated.is_disjoint(&b.stated), "{a:?} {b:?}");
    }

    proptest! {
        #[test]
        fn a_text_agrees_with_itself(text in "([a-zA-Z0-9 .:/-]|三|月|日|点|王|不|“|「|Alice |Berlin ){0,40}") {
            prop_assert!(Fingerprint::of(&text, None, "s").agrees(&text, None));
        }
    }
}
