//! Numbers that a state or a bank gives to one person: identity cards, tax and insurance numbers, passports, accounts.
//! Most carry a check digit, so that few figures are taken for one by chance; those without are known by their label.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::{Kind, ends_alone, starts_alone};

/// A kind of number.
struct Number {
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test names a number by it"))]
    name: &'static str,
    kind: Kind,
    /// The group `number` is the number; without one, the whole match.
    pattern: &'static str,
    /// Whether these letters and figures, in capitals and without separators, are one.
    check: fn(&[u8]) -> bool,
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test reads them"))]
    samples: &'static [&'static str],
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test reads them"))]
    spared: &'static [&'static str],
}

const NUMBERS: [Number; 16] = [
    Number {
        name: "IBAN",
        kind: Kind::Iban,
        pattern: r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?",
        check: is_iban,
        samples: &[
            "DE89 3704 0044 0532 0130 00",
            "GB29NWBK60161331926819",
            "FR14 2004 1010 0505 0001 3M02 606",
        ],
        spared: &["DE89 3704 0044 0532 0130 01", "DE2026", "GB12 ROOM FOUR"],
    },
    Number {
        name: "Chinese identity card",
        kind: Kind::NationalId,
        pattern: r"[1-9]\d{5}(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]",
        check: is_chinese,
        samples: &["身份证号11010519491231002X", "110105194912310 02X 440524188001010014"],
        spared: &["110105194912310021", "202611301234567890"],
    },
    Number {
        name: "US social security number",
        kind: Kind::NationalId,
        pattern: r"\d{3}-\d{2}-\d{4}|(?i:ssn|social security (?:number|no\.?))[ :#]{1,3}(?:is )?(?P<number>\d{3}[- ]?\d{2}[- ]?\d{4})",
        check: |digits| {
            !matches!(&digits[..3], b"000" | b"666")
                && digits[0] != b'9'
                && &digits[3..5] != b"00"
                && &digits[5..] != b"0000"
        },
        samples: &["123-45-6789", "SSN: 123456789", "my social security number is 123 45 6789"],
        spared: &["000-12-3456", "912-34-5678", "2026-11-30", "123-45-67890"],
    },
    Number {
        name: "German tax number",
        kind: Kind::NationalId,
        pattern: r"(?i:steuer-?id(?:entifikationsnummer)?|identifikationsnummer|idnr\.?|tax id)[ :]{0,3}(?:ist |lautet |is )?(?P<number>[1-9]\d ?\d{3} ?\d{3} ?\d{3})|[1-9]\d \d{3} \d{3} \d{3}",
        check: is_german,
        samples: &[
            "Steuer-ID: 86095742719",
            "86 095 742 719",
            "Meine Steueridentifikationsnummer lautet 65 929 970 489",
        ],
        spared: &["86095742719", "86 095 742 718", "Steuer-ID fehlt"],
    },
    Number {
        name: "British insurance number",
        kind: Kind::NationalId,
        pattern: r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
        check: |text| !matches!(&text[..2], b"GB" | b"NK" | b"TN" | b"ZZ" | b"BG" | b"KN" | b"NT"),
        samples: &["AB 12 34 56 C", "QQ123456C is a sample but HH123456C too"],
        spared: &["DA123456C", "AB 12 34 56", "AB123456CD"],
    },
    Number {
        name: "French insurance number",
        kind: Kind::NationalId,
        pattern: r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
        check: is_french,
        samples: &["2 55 08 14 168 025 38", "255081416802538"],
        spared: &["2 55 08 14 168 025 39"],
    },
    Number {
        name: "Spanish identity number",
        kind: Kind::NationalId,
        pattern: r"(?:\d{8}|[XYZ]-?\d{7})-?[A-Z]",
        check: is_spanish,
        samples: &["DNI 12345678Z", "NIE X-1234567-L"],
        spared: &["12345678A", "20261130T"],
    },
    Number {
        name: "Italian tax code",
        kind: Kind::NationalId,
        pattern: r"(?i:[A-Z]{6}\d{2}[ABCDEHLMPRST]\d{2}[A-Z]\d{3}[A-Z])",
        check: is_italian,
        samples: &["RSSMRA85T10A562S"],
        spared: &["RSSMRA85T10A562T"],
    },
    Number {
        name: "Brazilian tax number",
        kind: Kind::NationalId,
        pattern: r"\d{3}\.\d{3}\.\d{3}-\d{2}",
        check: is_brazilian,
        samples: &["CPF 529.982.247-25"],
        spared: &["529.982.247-26", "111.111.111-11"],
    },
    Number {
        name: "Korean resident number",
        kind: Kind::NationalId,
        pattern: r"\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])-[1-8]\d{6}",
        check: |_| true,
        samples: &["주민번호 900101-1234567"],
        spared: &["901301-1234567", "900101-9234567"],
    },
    Number {
        name: "Indian identity number",
        kind: Kind::NationalId,
        pattern: r"(?i:aadhaar|aadhar)(?: (?:no\.?|number))?[ :]{1,3}(?:is )?(?P<number>[2-9]\d{3} ?\d{4} ?\d{4})",
        check: |_| true,
        samples: &["Aadhaar: 2341 2341 2346"],
        spared: &["Aadhaar is needed", "2341 2341 2346"],
    },
    Number {
        name: "Japanese personal number",
        kind: Kind::NationalId,
        pattern: r"(?:マイナンバー|個人番号|(?i:my number))(?:は|が|[:： ])+(?P<number>\d{4}[ -]?\d{4}[ -]?\d{4})",
        check: |_| true,
        samples: &["マイナンバーは123456789018です"],
        spared: &["マイナンバーカード", "123456789018"],
    },
    Number {
        name: "Taiwanese identity card",
        kind: Kind::NationalId,
        pattern: r"[A-Z][12]\d{8}",
        check: is_taiwanese,
        samples: &["身分證 A123456789"],
        spared: &["A123456788", "B2026113001"],
    },
    Number {
        name: "Hong Kong identity card",
        kind: Kind::NationalId,
        pattern: r"[A-Z]{1,2}\d{6}\([0-9A]\)",
        check: |_| true,
        samples: &["HKID A123456(3)"],
        spared: &["A123456"],
    },
    Number {
        name: "insurance or citizen number",
        kind: Kind::NationalId,
        pattern: r"(?i:bsn|burgerservicenummer|pesel|personnummer|cpr-nummer|sozialversicherungsnummer|svnr|ahv-nr|rentenversicherungsnummer|national insurance number|numéro de sécu(?:rité sociale)?|codice fiscale|社会保险号|社保号|社会保障号)[ .:：#]{0,3}(?:(?:is|ist|lautet|est|è|是|为) ?)?(?P<number>\d{2}[A-Z0-9 .-]{5,16}[A-Z0-9])",
        check: |text| text.iter().filter(|byte| byte.is_ascii_digit()).count() >= 8,
        samples: &["BSN: 111222333", "PESEL 44051401359", "Sozialversicherungsnummer: 12 345678 A 123"],
        spared: &["BSN is missing", "PESEL 44"],
    },
    Number {
        name: "passport or licence",
        kind: Kind::NationalId,
        pattern: r"(?i:passport|reisepass|passnummer|personalausweis|ausweisnummer|passeport|pasaporte|driver'?s licen[cs]e|führerschein|护照|護照|パスポート|여권|驾照|通行证)(?:(?i: ?(?:no\.?|number|nr\.?|nummer|numéro|número|n°))|号码?|番号|번호)?(?:[ :：#]|是|为|は|(?i:is |ist |est |es |lautet ))+(?P<number>[A-Z]{0,3}\d[A-Z0-9]{5,10})",
        check: |text| text.iter().filter(|byte| byte.is_ascii_digit()).count() >= 5,
        samples: &["passport number C01X00T478", "护照号是E12345678", "Reisepass: C01X00T47123"],
        spared: &["passport control", "护照办好了", "passport 2026"],
    },
];

/// Every number of the table in the text, with the same value for all spellings.
pub(super) fn find(text: &str) -> Vec<(Range<usize>, Kind, String)> {
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        NUMBERS.iter().map(|number| Regex::new(number.pattern).expect("the pattern is fixed")).collect()
    });
    let mut all: Vec<(Range<usize>, Kind, String)> = Vec::new();
    for (number, pattern) in NUMBERS.iter().zip(PATTERNS.iter()) {
        for (range, value) in number.find(pattern, text) {
            if all.iter().all(|(other, ..)| other.end <= range.start || range.end <= other.start) {
                all.push((range, number.kind, value));
            }
        }
    }
    all.sort_by_key(|(range, ..)| range.start);
    all
}

impl Number {
    fn find(&self, pattern: &Regex, text: &str) -> Vec<(Range<usize>, String)> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(groups) = pattern.captures_at(text, at) {
            let whole = groups.get(0).map_or(at..at, |whole| whole.range());
            let mut range = groups.name("number").map_or(whole.clone(), |number| number.range());
            at = whole.start + text[whole.start..].chars().next().map_or(1, char::len_utf8);
            // A word behind the number may look like one more group of it.
            while !range.is_empty() && starts_alone(text, range.start) {
                let value = value(&text[range.clone()]);
                let value =
                    value.filter(|value| ends_alone(text, range.end) && (self.check)(value.as_bytes()));
                if let Some(value) = value {
                    at = range.end;
                    found.push((range, value));
                    break;
                }
                let group = text[range.clone()].rfind(' ').unwrap_or(0);
                range.end = range.start + group;
                if pattern.find(&text[range.clone()]).is_none_or(|found| found.len() != range.len()) {
                    break;
                }
            }
        }
        found
    }
}

/// In capitals and without separators. None if a figure or letter is not ASCII: the patterns also take those of other
/// scripts, whose values no check is made for.
fn value(text: &str) -> Option<String> {
    let signs = text.chars().filter(|c| c.is_alphanumeric());
    signs.map(|c| c.is_ascii().then(|| c.to_ascii_uppercase())).collect()
}

fn digit(byte: u8) -> u32 {
    u32::from(byte.wrapping_sub(b'0'))
}

/// The remainder of a number that is given in figures.
fn remainder(digits: impl Iterator<Item = u32>, by: u32) -> u32 {
    digits.fold(0, |rest, digit| (rest * 10 + digit) % by)
}

/// ISO 13616: country and check digits to the end, letters as numbers from ten, remainder one by 97.
fn is_iban(text: &[u8]) -> bool {
    if !(15..=34).contains(&text.len()) {
        return false;
    }
    let turned = text[4..].iter().chain(&text[..4]);
    let digits = turned.flat_map(|byte| match byte {
        b'A'..=b'Z' => {
            let number = u32::from(byte - b'A') + 10;
            vec![number / 10, number % 10]
        }
        _ => vec![digit(*byte)],
    });
    remainder(digits, 97) == 1
}

/// GB 11643: weights 2^(17-place), remainder by 11 against a table.
fn is_chinese(text: &[u8]) -> bool {
    let sum: u32 =
        text[..17].iter().enumerate().map(|(place, byte)| digit(*byte) * ((1 << (17 - place)) % 11)).sum();
    b"10X98765432"[(sum % 11) as usize] == text[17]
}

/// ISO 7064 mod 11,10; and of the first ten figures exactly one stands there twice or three times.
fn is_german(digits: &[u8]) -> bool {
    let product = digits[..10].iter().fold(10, |product, byte| {
        let sum = (digit(*byte) + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    let times = |figure: u8| digits[..10].iter().filter(|byte| **byte == figure).count();
    let most = (b'0'..=b'9').map(times).max().unwrap_or(0);
    (11 - product) % 10 == digit(digits[10]) && (2..=3).contains(&most)
}

/// 97 less the remainder by 97; the departments of Corsica count as 19 and 18.
fn is_french(text: &[u8]) -> bool {
    let mut digits: Vec<u32> = text[..13].iter().map(|byte| digit(*byte)).collect();
    match text[6] {
        b'A' => (digits[5], digits[6]) = (1, 9),
        b'B' => (digits[5], digits[6]) = (1, 8),
        _ => {}
    }
    97 - remainder(digits.into_iter(), 97) == digit(text[13]) * 10 + digit(text[14])
}

fn is_spanish(text: &[u8]) -> bool {
    let first = match text[0] {
        b'X' => 0,
        b'Y' => 1,
        b'Z' => 2,
        byte => digit(byte),
    };
    let digits = std::iter::once(first).chain(text[1..8].iter().map(|byte| digit(*byte)));
    b"TRWAGMYFPDXBNJZSQVHLCKE"[remainder(digits, 23) as usize] == text[8]
}

/// Places are counted from one: the odd ones have a table of their own.
fn is_italian(text: &[u8]) -> bool {
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let sum: u32 = text[..15]
        .iter()
        .enumerate()
        .map(|(place, byte)| {
            let number = if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' };
            if place % 2 == 0 { ODD[usize::from(number)] } else { u32::from(number) }
        })
        .sum();
    u32::from(text[15] - b'A') == sum % 26
}

fn is_brazilian(digits: &[u8]) -> bool {
    let check = |length: usize| {
        let sum: u32 = digits[..length]
            .iter()
            .enumerate()
            .map(|(place, byte)| digit(*byte) * (length + 1 - place) as u32)
            .sum();
        sum * 10 % 11 % 10
    };
    digits.iter().any(|byte| *byte != digits[0])
        && check(9) == digit(digits[9])
        && check(10) == digit(digits[10])
}

fn is_taiwanese(text: &[u8]) -> bool {
    let Some(letter) = b"ABCDEFGHJKLMNPQRSTUVXYWZIO".iter().position(|letter| *letter == text[0]) else {
        return false;
    };
    let number = letter as u32 + 10;
    let rest: u32 =
        text[1..9].iter().enumerate().map(|(place, byte)| digit(*byte) * (8 - place as u32)).sum();
    (number / 10 + number % 10 * 9 + rest + digit(text[9])).is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::{NUMBERS, find};
    use crate::privacy::personal::Kind;

    #[test]
    fn every_number_finds_its_samples_and_spares_what_it_must() {
        let mut wrong = Vec::new();
        for number in &NUMBERS {
            let pattern = regex::Regex::new(number.pattern).expect("the pattern is fixed");
            assert!(!number.samples.is_empty() && !number.spared.is_empty(), "{} has no cases", number.name);
            for text in number.samples {
                if number.find(&pattern, text).is_empty() {
                    wrong.push(format!("{} misses {text}", number.name));
                }
            }
            for text in number.spared {
                let found = number.find(&pattern, text);
                if !found.is_empty() {
                    wrong.push(format!("{} takes {found:?} of {text}", number.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_word_behind_a_number_is_no_part_of_it() {
        assert_eq!(find("DNI １２345678Z, ٠١٢٣٤٥٦٧Z, RſſMRA85T10A562S"), []);
        let text = "to DE89 3704 0044 0532 0130 00 AND more";
        assert_eq!(find(text), [(3..30, Kind::Iban, "DE89370400440532013000".to_owned())]);
    }
}
