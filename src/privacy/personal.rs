//! Personal data that rules can find: e-mail addresses, phone numbers, payment cards; national ids, bank accounts and postal
//! addresses in the tables below.

mod address;
mod national;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// What a piece of personal data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Email,
    Phone,
    Card,
    Iban,
    NationalId,
    Address,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Email => "EMAIL",
            Self::Phone => "PHONE",
            Self::Card => "CARD",
            Self::Iban => "IBAN",
            Self::NationalId => "NATIONAL_ID",
            Self::Address => "ADDRESS",
        }
    }

    /// The kind that a word names, also as a model writes or translates it.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word.to_uppercase().replace([' ', '-'], "_").as_str() {
            "EMAIL" | "E_MAIL" | "MAIL" | "CORREO" | "COURRIEL" | "邮箱" | "邮件" | "メール" | "이메일" => {
                Self::Email
            }
            "PHONE" | "PHONE_NUMBER" | "TELEPHONE" | "TELEFON" | "TELEFONO" | "TELÉFONO" | "TÉLÉPHONE"
            | "电话" | "電話" | "手机" | "전화" => Self::Phone,
            "CARD" | "CARD_NUMBER" | "KARTE" | "CARTE" | "TARJETA" | "银行卡" | "卡号" => Self::Card,
            "IBAN" => Self::Iban,
            "NATIONAL_ID" | "身份证" => Self::NationalId,
            "ADDRESS" | "ADRESSE" | "DIRECCIÓN" | "地址" | "住所" | "주소" => Self::Address,
            _ => return None,
        })
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

/// Everything the rules find, in order, not overlapping. Each rule sees only what the rules before it left: what
/// stands beside a find is at a border there, as it is beside a placeholder. So the rules run until nothing is left
/// to find, and masking a masked text changes nothing.
pub(super) fn find(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    loop {
        let before = found.len();
        sift(text, &mut found, |part| {
            EMAIL
                .find_iter(part)
                .filter(|email| !is_login(part, email.range()))
                .map(|email| (email.range(), Kind::Email, email.as_str().to_lowercase()))
                .collect()
        });
        sift(text, &mut found, national::find);
        sift(text, &mut found, |part| {
            numbers(part, &CARD, is_card)
                .into_iter()
                .map(|(range, digits)| (range, Kind::Card, digits))
                .collect()
        });
        for (pattern, spell_out) in PHONES.iter() {
            sift(text, &mut found, |part| {
                let phones = numbers(part, pattern, |digits| (8..=15).contains(&digits.len()));
                phones.into_iter().map(|(range, digits)| (range, Kind::Phone, spell_out(&digits))).collect()
            });
        }
        sift(text, &mut found, |part| {
            address::find(part).into_iter().map(|(range, value)| (range, Kind::Address, value)).collect()
        });
        if found.len() == before {
            return found;
        }
    }
}

/// Runs one rule over the gaps between the finds so far, and adds its own.
fn sift(text: &str, found: &mut Vec<Found>, rule: impl Fn(&str) -> Vec<(Range<usize>, Kind, String)>) {
    let mut all = Vec::with_capacity(found.len());
    let mut start = 0;
    for end in found.drain(..).map(Some).chain([None]) {
        let gap = start..end.as_ref().map_or(text.len(), |found| found.range.start);
        for (range, kind, value) in rule(&text[gap.clone()]) {
            all.push(Found { range: gap.start + range.start..gap.start + range.end, kind, value });
        }
        if let Some(end) = end {
            start = end.range.end;
            all.push(end);
        }
    }
    *found = all;
}

static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24}")
});

/// `ssh://git@host` and `git@host:path` name a machine.
fn is_login(text: &str, email: Range<usize>) -> bool {
    text[..email.start].ends_with("://")
        || text[email.clone()].starts_with("git@") && text[email.end..].starts_with(':')
}

static CARD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[2-6]\d{3}(?:[ -]?\d){9,15}"));

/// Writes a number's digits the one way that all its spellings share: country code first.
type SpellOut = fn(&str) -> String;

/// Separators stay on one line, so that a restored number cannot break a JSON string.
static PHONES: LazyLock<[(Regex, SpellOut); 5]> = LazyLock::new(|| {
    [
        (
            pattern(r"\+ ?[1-9]\d{0,2}(?:[ .\u{a0}-]{0,2}\(\d{1,4}\))?(?:[ .\u{a0}/-]{0,2}\d){6,13}"),
            |digits| digits.to_owned(),
        ),
        (pattern(r"00[1-9]\d{0,2}[ /-](?:[ /-]?\d){7,12}"), |digits| digits[2..].to_owned()),
        (pattern(r"(?:1[ -])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])\d{3}[ .-]\d{4}"), |digits| {
            if digits.len() == 10 { format!("1{digits}") } else { digits.to_owned() }
        }),
        (pattern(r"(?:86[ -]?)?1[3-9]\d(?:\d{8}|[ -]\d{4}[ -]\d{4})"), |digits| {
            if digits.len() == 11 { format!("86{digits}") } else { digits.to_owned() }
        }),
        // National numbers with an area code: 010-12345678, 0171 2345678, 020 7946 0958, 06 12 34 56 78.
        (
            pattern(r"\(?0[1-9]\d{0,3}\)?[ /-]\d{3,4}[ -]?\d{3,5}|010[ -]\d{8}|0[1-9](?:[ .]\d{2}){4}"),
            |digits| digits.to_owned(),
        ),
    ]
});

/// The numbers of a pattern that stand alone and are what they seem. A match may have taken a figure too many behind
/// the number ("4111 1111 1111 1111 12/28"); it is tried without its last groups too.
fn numbers(text: &str, pattern: &Regex, is_one: impl Fn(&str) -> bool) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(number) = pattern.find_at(text, at) {
        at = number.start() + 1;
        let mut range = number.range();
        while starts_alone(text, range.start) && !range.is_empty() {
            let digits: String = text[range.clone()].chars().filter(char::is_ascii_digit).collect();
            if ends_alone(text, range.end) && is_one(&digits) && is_whole(pattern, &text[range.clone()]) {
                at = range.end;
                found.push((range, digits));
                break;
            }
            let group = text[range.clone()].rfind(|c: char| !c.is_ascii_digit()).unwrap_or(0);
            range.end = range.start
                + text[range.start..range.start + group]
                    .trim_end_matches(|c: char| !c.is_ascii_digit())
                    .len();
        }
    }
    found
}

fn is_whole(pattern: &Regex, text: &str) -> bool {
    pattern.find(text).is_some_and(|found| found.len() == text.len())
}

/// Not a part of a longer number, word, hash, version or path, and not an order's number.
fn starts_alone(text: &str, start: usize) -> bool {
    static ORDER: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?i)(?:order|invoice|ticket|tracking|case|issue|ref(?:erence)?|serial|isbn|订单|单号|编号|№|#)",
            r"[^\pL\n]{0,4}(?:n[ro°]\.?|number|id|号)?[^\pL\n]{0,4}$",
        ))
    });
    let mut before = text[..start].chars().rev();
    let (last, last_but_one) = (before.next(), before.next());
    if last.is_some_and(|c| c.is_ascii_alphanumeric() || "_#$".contains(c)) || is_link(last, last_but_one) {
        return false;
    }
    let head = text[..start].char_indices().rev().nth(23).map_or(0, |(at, _)| at);
    !ORDER.is_match(&text[head..start])
}

fn ends_alone(text: &str, end: usize) -> bool {
    let mut after = text[end..].chars();
    let (first, second) = (after.next(), after.next());
    !first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') && !is_link(first, second)
}

/// A hyphen or a point joins figures ("3-1381…", "1.415.555.2671") and hex, not words ("tel-138…").
fn is_link(sign: Option<char>, beyond: Option<char>) -> bool {
    matches!(sign, Some('-' | '.' | '/' | ':' | '+')) && beyond.is_some_and(|c| c.is_ascii_hexdigit())
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
        && luhn.is_multiple_of(10)
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
            ("4111 1111 1111 1111 12/28", "4111 1111 1111 1111", Kind::Card),
            ("call +49 171 2345678 5pm", "+49 171 2345678", Kind::Phone),
            ("12345 4111 1111 1111 1111", "4111 1111 1111 1111", Kind::Card),
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
