//! Secrets: keys, tokens, passwords. They are removed for good, from what is kept as well as from what is sent. Here is
//! how; what a secret looks like is in the tables below.

mod check;
mod credential;
mod labelled;
mod shaped;
mod spoken;
mod table;

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::placeholder;
use super::plain::Plain;

/// A text without secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The text, each secret replaced by `[secret removed]`.
    pub text: String,
    /// How many were.
    pub removed: usize,
}

const REMOVED: &str = "[secret removed]";

const MAX_ROUNDS: usize = 16;

/// A kind of secret.
struct Kind {
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test names a kind by it"))]
    name: &'static str,
    /// The group `secret` is the secret; without one, the whole match.
    pattern: String,
    /// Whether what was matched is one.
    check: fn(&str) -> bool,
    /// Texts it must find something in. A `·` is left out: so no scanner takes this table for a leak.
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test reads them"))]
    samples: &'static [&'static str],
    /// Texts it must leave alone.
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test reads them"))]
    spared: &'static [&'static str],
}

struct Rule {
    kind: Kind,
    regex: Regex,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let kinds = [credential::kinds(), shaped::kinds(), labelled::kinds(), spoken::kinds()];
    kinds.into_iter().flatten().map(|kind| Rule { regex: regex(&kind.pattern), kind }).collect()
});

/// Tells in one pass which rules are worth running: nearly all texts hold no secret.
static ANY: LazyLock<RegexSet> = LazyLock::new(|| {
    let patterns = RULES.iter().map(|rule| rule.regex.as_str());
    regex::RegexSetBuilder::new(patterns)
        .size_limit(1 << 28)
        .dfa_size_limit(1 << 25)
        .build()
        .expect("the patterns are fixed")
});

/// Removes what looks like a secret. Doing it twice changes nothing.
pub fn without_secrets(text: &str) -> Cleaned {
    let mut cleaned = Cleaned { text: text.to_owned(), removed: 0 };
    // A removal may bring two pieces together that are one more secret: rare, but removing twice must change nothing.
    for _ in 0..MAX_ROUNDS {
        let before = cleaned.removed;
        cleaned.remove(table::find);
        cleaned.remove(credential::beside_an_id);
        let worth_running = ANY.matches(Plain::of(&cleaned.text).as_str());
        for rule in worth_running.iter().map(|number| &RULES[number]) {
            cleaned.remove(|text| rule.find(text));
        }
        if cleaned.removed == before {
            break;
        }
    }
    cleaned
}

impl Cleaned {
    fn remove(&mut self, find: impl Fn(&str) -> Vec<Range<usize>>) {
        let plain = Plain::of(&self.text);
        let found = find(plain.as_str());
        if found.is_empty() {
            return;
        }
        let (mut text, mut end) = (String::with_capacity(self.text.len()), 0);
        for range in found.iter().map(|range| plain.in_original(range.clone())) {
            text.push_str(&self.text[end..range.start]);
            text.push_str(REMOVED);
            end = range.end;
        }
        text.push_str(&self.text[end..]);
        self.removed += found.len();
        self.text = text;
    }
}

impl Rule {
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let found = self.regex.captures_iter(text).filter_map(|found| {
            let secret = ["secret", "secret2", "secret3"].into_iter().find_map(|group| found.name(group));
            let secret = secret.or(found.get(0))?;
            is_new(secret.as_str(), self.kind.check).then(|| secret.range())
        });
        found.collect()
    }
}

/// What was removed before is no secret; what holds a placeholder was judged before it was masked.
fn is_new(text: &str, check: fn(&str) -> bool) -> bool {
    !text.is_empty() && !text.starts_with("[secret") && !placeholder::holds_one(text) && check(text)
}

/// With borders of ASCII words: a key may stand directly behind a Chinese character, and the engine is ten times slower
/// on Chinese text with the other kind.
fn regex(pattern: &str) -> Regex {
    let pattern = pattern.replace(r"\b", r"(?-u:\b)");
    regex::RegexBuilder::new(&pattern)
        .size_limit(1 << 26)
        .dfa_size_limit(1 << 24)
        .build()
        .expect("the pattern is fixed")
}

#[cfg(test)]
mod tests;
