//! Personal data that rules can find: e-mail addresses, phone numbers, payment cards.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// What a piece of personal data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Email,
    Phone,
    Card,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Email => "EMAIL",
            Self::Phone => "PHONE",
            Self::Card => "CARD",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "EMAIL" => Some(Self::Email),
            "PHONE" => Some(Self::Phone),
            "CARD" => Some(Self::Card),
            _ => None,
        }
    }
}

/// A piece of personal data in a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub range: Range<usize>,
    pub kind: Kind,
    /// Normalised: the same for all spellings.
    pub value: String,
}

/// Everything the rules find, in order, not overlapping.
pub(super) fn find(text: &str) -> Vec<Found> {
    static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24}")
    });
    let mut found: Vec<Found> = Vec::new();
    if text.contains('@') {
        found.extend(EMAIL.find_iter(text).map(|email| Found {
            range: email.range(),
            kind: Kind::Email,
            value: email.as_str().to_lowercase(),
        }));
    }
    found.extend(numbers(text, &CARD, Kind::Card, is_card));
    for phone in PHONES.iter() {
        found.extend(numbers(text, phone, Kind::Phone, |digits| (8..=15).contains(&digits.len())));
    }
    // Where two overlap, the earlier and longer one is meant.
    found.sort_by_key(|found| (found.range.start, usize::MAX - found.range.end));
    let mut end = 0;
    found.retain(|found| {
        let free = found.range.start >= end;
        end = if free { found.range.end } else { end };
        free
    });
    found
}

static CARD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[2-6]\d{3}(?:[ -]?\d){9,15}"));

/// Separators stay on one line, so that a restored number cannot break a JSON string.
static PHONES: LazyLock<[Regex; 5]> = LazyLock::new(|| {
    [
        pattern(r"\+ ?[1-9]\d{0,2}(?:[ .\u{a0}-]{0,2}\(\d{1,4}\))?(?:[ .\u{a0}/-]{0,2}\d){6,13}"),
        pattern(r"00[1-9]\d{0,2}[ /-](?:[ /-]?\d){7,12}"),
        pattern(r"(?:1[ .-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])\d{3}[ .-]\d{4}"),
        pattern(r"(?:86[ -]?)?1[3-9]\d(?:\d{8}|[ -]\d{4}[ -]\d{4})"),
        // National numbers with an area code: 010-12345678, 0171 2345678, 020 7946 0958, 06 12 34 56 78.
        pattern(r"\(?0[1-9]\d{0,3}\)?[ /-]\d{3,4}[ -]?\d{3,5}|010[ -]\d{8}|0[1-9](?:[ .]\d{2}){4}"),
    ]
});

fn numbers(text: &str, pattern: &Regex, kind: Kind, is_one: impl Fn(&str) -> bool) -> Vec<Found> {
    let mut found = Vec::new();
    for number in pattern.find_iter(text) {
        let digits: String = number.as_str().chars().filter(char::is_ascii_digit).collect();
        if stands_alone(text, &number.range()) && is_one(&digits) {
            let value = if kind == Kind::Phone { national(&digits).to_owned() } else { digits };
            found.push(Found { range: number.range(), kind, value });
        }
    }
    found
}

/// The number without the prefixes that one writes and another leaves out.
fn national(digits: &str) -> &str {
    let digits = digits.trim_start_matches('0');
    match digits.len() {
        11 => digits
            .strip_prefix('1')
            .filter(|rest| !rest.starts_with(['0', '1']))
            .filter(|_| !is_mobile(digits)),
        13 => digits.strip_prefix("86"),
        _ => None,
    }
    .unwrap_or(digits)
}

/// A Chinese mobile number and a US one with its country code are both eleven digits that begin with 1.
fn is_mobile(digits: &str) -> bool {
    digits.len() == 11 && digits.as_bytes()[1] >= b'3'
}

/// Not a part of a longer number, word, hash, version or path, and not an order's number.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    static ORDER: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)(?:order|invoice|ticket|tracking|case|issue|ref(?:erence)?|serial|isbn|订单|单号|编号|№|#)[^\pL\n]{0,4}(?:n[ro°]\.?|number|id|号)?[^\pL\n]{0,4}$",
        )
    });
    let before = text[..range.start].chars().next_back();
    let joined = |c: char| c.is_ascii_alphanumeric() || "_#$".contains(c);
    // A hyphen or a point joins figures ("3-1381…", "1.415.555.2671") and hex, not words ("tel-138…").
    let linked = |c: Option<char>, next: Option<char>| {
        matches!(c, Some('-' | '.' | '/' | ':' | '+')) && next.is_some_and(|next| next.is_ascii_hexdigit())
    };
    let before_that = text[..range.start].chars().rev().nth(1);
    let after = text[range.end..].chars().next();
    let after_that = text[range.end..].chars().nth(1);
    if before.is_some_and(joined) || after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
        return false;
    }
    if linked(before, before_that) || linked(after, after_that) {
        return false;
    }
    let head_start = text[..range.start].char_indices().rev().nth(23).map_or(0, |(at, _)| at);
    !ORDER.is_match(&text[head_start..range.start])
}

/// 13 to 19 digits with the check digit of ISO/IEC 7812 (Luhn), not all the same.
fn is_card(digits: &str) -> bool {
    let luhn: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, byte)| {
            let digit = u32::from(byte - b'0');
            let doubled = digit * 2;
            if place % 2 == 0 { digit } else { doubled / 10 + doubled % 10 }
        })
        .sum();
    (13..=19).contains(&digits.len())
        && luhn % 10 == 0
        && digits.bytes().any(|byte| byte != digits.as_bytes()[0])
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_data_is_found() {
        let cases = [
            ("write to Anna.B+x@mail.example.co.uk.", "Anna.B+x@mail.example.co.uk", Kind::Email),
            ("电话13812345678。", "13812345678", Kind::Phone),
            ("138-1234-5678", "138-1234-5678", Kind::Phone),
            ("86 138 1234 5678", "86 138 1234 5678", Kind::Phone),
            ("tel-13812345678", "13812345678", Kind::Phone),
            ("call (415) 555-2671 today", "(415) 555-2671", Kind::Phone),
            ("1-415-555-2671", "1-415-555-2671", Kind::Phone),
            ("+1 (415) 555-2671", "+1 (415) 555-2671", Kind::Phone),
            ("+49 171 2345678", "+49 171 2345678", Kind::Phone),
            ("+441632960961", "+441632960961", Kind::Phone),
            ("0049 171 2345678", "0049 171 2345678", Kind::Phone),
            ("010-12345678", "010-12345678", Kind::Phone),
            ("0171 2345678", "0171 2345678", Kind::Phone),
            ("06 12 34 56 78", "06 12 34 56 78", Kind::Phone),
            ("card 4111 1111 1111 1111 exp", "4111 1111 1111 1111", Kind::Card),
            ("378282246310005", "378282246310005", Kind::Card),
        ];
        for (text, expected, kind) in cases {
            let found = find(text);
            let told: Vec<_> = found.iter().map(|found| (&text[found.range.clone()], found.kind)).collect();
            assert_eq!(told, [(expected, kind)], "{text}");
        }
    }

    #[test]
    fn figures_that_are_nobodys_are_left_alone() {
        let texts = [
            "2026-11-30 07:38:05",
            "2026-11-30T07:38:05+0800 1234567",
            "10.11.2026",
            "version 1.415.555.2671",
            "12345678 rows",
            "1,234,567,890",
            "550e8400-e29b-41d4-a716-446655440000",
            "13812345-6781-4138-8123-138123456789",
            "order 13812345678",
            "订单号：13812345678",
            "4111 1111 1111 1112",
            "0000 0000 0000 0000",
            "1796024307425",
            "192.168.100.200",
            "226a2e6 13812345678901234",
            "from 09:00-10:30 on 2026/03/10",
            "3.14159265358979",
            "user@localhost",
        ];
        for text in texts {
            assert_eq!(find(text), [], "{text}");
        }
    }

    #[test]
    fn spellings_of_one_value_are_one_value() {
        let same = [
            ["+1 415-555-2671", "(415) 555-2671"],
            ["+86 138 1234 5678", "13812345678"],
            ["0049 171 2345678", "+49 171 2345678"],
            ["ANNA@Example.org", "anna@example.org"],
            ["4111-1111-1111-1111", "4111111111111111"],
        ];
        for [a, b] in same {
            assert_eq!(find(a)[0].value, find(b)[0].value, "{a}");
        }
    }
}
