//! Placeholders for personal data, and the values they stand for. What is personal data is for `personal`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use sha2::{Digest, Sha256};

use super::personal::{self, Kind};

/// What a text means that already holds `[PHONE_1]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal {
    /// Ours, from the store: it stays.
    IsPlaceholder,
    /// Words like any other: they must come back as they are, also where the number has been given to a value.
    IsText,
}

/// What makes a value's placeholder the same on every night and tells nothing of the value to who has only the table: no
/// list of values is kept anywhere.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// A key of these bytes, which must be random.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Twelve digits at most: even with ten thousand values two share a number once in twenty thousand homes.
    fn number(&self, kind: Kind, value: &str) -> u64 {
        let inner = Sha256::new().chain_update(self.0).chain_update(kind.as_str()).chain_update([0]);
        let inner = inner.chain_update(value).finalize();
        let outer = Sha256::new().chain_update(self.0).chain_update(inner).finalize();
        let first: [u8; 8] = std::array::from_fn(|place| outer[place]);
        u64::from_be_bytes(first) % 1_000_000_000_000
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A kind and its number.
type Placeholder = (Kind, u64);

/// The values of a run and their placeholders.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    key: Option<Key>,
    known: HashMap<(Kind, String), u64>,
    values: HashMap<Placeholder, String>,
    reserved: HashSet<Placeholder>,
    last: HashMap<Kind, u64>,
}

impl Dictionary {
    pub(super) fn keyed(key: Key) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// The text with placeholders for personal data.
    pub(super) fn mask(&mut self, text: &str, literal: Literal) -> String {
        // Numbers that the text itself uses are not given to anybody, from here on.
        self.reserved.extend(spellings(text).into_iter().map(|found| found.placeholder));
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for found in personal::find(text) {
            self.pass(&text[end..found.range.start], literal, &mut masked);
            masked.push_str(&self.placeholder(found.kind, &found.value, &text[found.range.clone()]));
            end = found.range.end;
        }
        self.pass(&text[end..], literal, &mut masked);
        masked
    }

    /// The text with the values of this run's placeholders.
    pub(super) fn restore(&self, text: &str) -> String {
        replaced(text, |placeholder| self.values.get(&placeholder).cloned())
    }

    /// The text with this run's placeholders spelt as they are stored.
    pub(super) fn straighten(&self, text: &str) -> String {
        replaced(text, |placeholder| {
            let known = self.values.contains_key(&placeholder) || self.reserved.contains(&placeholder);
            known.then(|| spelt(placeholder))
        })
    }

    fn placeholder(&mut self, kind: Kind, value: &str, spelling: &str) -> String {
        let key = (kind, value.to_owned());
        if let Some(number) = self.known.get(&key) {
            return spelt((kind, *number));
        }
        let number = match &self.key {
            Some(key) => {
                let mut number = key.number(kind, value);
                while self.values.contains_key(&(kind, number)) {
                    number += 1;
                }
                number
            }
            None => self.next(kind),
        };
        self.known.insert(key, number);
        self.values.insert((kind, number), spelling.to_owned());
        spelt((kind, number))
    }

    fn next(&mut self, kind: Kind) -> u64 {
        let last = self.last.entry(kind).or_insert(0);
        *last += 1;
        while self.reserved.contains(&(kind, *last)) {
            *last += 1;
        }
        *last
    }

    /// Copies text without personal data. A literal whose number is already a value's gets a placeholder itself.
    fn pass(&mut self, text: &str, literal: Literal, masked: &mut String) {
        let mut end = 0;
        for found in spellings(text) {
            if literal == Literal::IsPlaceholder || !self.values.contains_key(&found.placeholder) {
                continue;
            }
            let spelling = &text[found.range.clone()];
            masked.push_str(&text[end..found.range.start]);
            masked.push_str(&self.placeholder(found.placeholder.0, spelling, spelling));
            end = found.range.end;
        }
        masked.push_str(&text[end..]);
    }
}

fn spelt((kind, number): Placeholder) -> String {
    format!("[{}_{number}]", kind.as_str())
}

/// Whether a stored placeholder stands in the text.
pub(super) fn holds_one(text: &str) -> bool {
    static STORED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\[(?:EMAIL|PHONE|CARD|IBAN|NATIONAL_ID|ADDRESS)_\d{1,12}\]")
            .expect("the pattern is fixed")
    });
    STORED.is_match(text)
}

/// A placeholder in a text, in any spelling.
struct Spelling {
    range: Range<usize>,
    placeholder: Placeholder,
    /// What was written into the brackets behind the number: the end of a plural or a genitive.
    ending: Range<usize>,
}

/// Every placeholder, as we write it (`[PHONE_1]`) and as models do: `<Phone-1>`, `{phone 1}`, `【电话_1】`, `[PHONE_1s]`, and
/// without brackets, if written in capitals with a line below (`PHONE_1`).
fn spellings(text: &str) -> Vec<Spelling> {
    static SPELLING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?:[\[<{【〈《][ ]?(?P<word>(?i:\pL{1,16}?(?:-\pL{2,10}?)?(?:[ _]id|[ _]number)?))(?P<plural>s?)[ _\-–:#]{0,2}(?P<number>\d{1,12})",
            r"(?P<ending>(?:['’]?\pL{1,3})?)[ ]?[\]>}】〉》])|(?P<bare>EMAIL|PHONE|CARD|IBAN|NATIONAL_ID|ADDRESS)_(?P<digits>\d{1,12})",
        ))
        .expect("the pattern is fixed")
    });
    let mut all: Vec<Spelling> = Vec::new();
    for found in SPELLING.captures_iter(text) {
        // What stands directly behind a placeholder is at a border there, as it is once that one has been replaced.
        let border = all.last().map_or(0, |last| last.range.end);
        all.extend(spelling(text, &found, border));
    }
    all
}

fn spelling(text: &str, found: &Captures<'_>, border: usize) -> Option<Spelling> {
    let range = found.get(0)?.range();
    let (word, number) = match found.name("bare") {
        Some(bare) if stands_alone(text, &range, border) => (bare.as_str(), found.name("digits")?),
        Some(_) => return None,
        None => (found.name("word")?.as_str(), found.name("number")?),
    };
    let kind = Kind::from_word(word).or_else(|| Kind::from_word(word.strip_suffix(['s', 'S'])?))?;
    let ending = found.name("ending").map_or(range.end..range.end, |ending| ending.range());
    Some(Spelling { range, placeholder: (kind, number.as_str().parse().ok()?), ending })
}

/// Not a part of a longer name: `MY_PHONE_1`, `PHONE_1_OLD`, `PHONE_1.5`.
fn stands_alone(text: &str, range: &Range<usize>, border: usize) -> bool {
    let before = text[border..range.start].chars().next_back();
    let mut after = text[range.end..].chars();
    let (next, second) = (after.next(), after.next());
    let decimal = next.is_some_and(|c| ".,".contains(c)) && second.is_some_and(|c| c.is_ascii_digit());
    !before.is_some_and(|c| c.is_ascii_alphanumeric() || "_-$.".contains(c))
        && !next.is_some_and(|c| c.is_ascii_digit() || "_-=".contains(c))
        && !decimal
}

fn replaced(text: &str, value: impl Fn(Placeholder) -> Option<String>) -> String {
    let (mut replaced, mut end) = (String::with_capacity(text.len()), 0);
    for found in spellings(text) {
        let Some(value) = value(found.placeholder) else { continue };
        replaced.push_str(&text[end..found.range.start]);
        replaced.push_str(&value);
        replaced.push_str(&text[found.ending]);
        end = found.range.end;
    }
    replaced.push_str(&text[end..]);
    replaced
}
