//! Numerals written as words: English, German, French and Spanish up to ninety, and Han characters.

use std::collections::HashMap;
use std::sync::LazyLock;

static SMALL: LazyLock<HashMap<&str, f64>> = LazyLock::new(|| {
    const WORDS: &[&str] = &[
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    #[rustfmt::skip]
    const OTHERS: &[(&str, f64)] = &[
        ("thirty", 30.0), ("forty", 40.0), ("fifty", 50.0), ("sixty", 60.0), ("seventy", 70.0),
        ("eighty", 80.0), ("ninety", 90.0), ("third", 3.0), ("fourth", 4.0), ("fifth", 5.0),
        ("sixth", 6.0), ("seventh", 7.0), ("eighth", 8.0), ("ninth", 9.0), ("tenth", 10.0),
        ("nineteenth", 19.0), ("twentieth", 20.0), ("dozen", 12.0), ("zwei", 2.0), ("drei", 3.0),
        ("vier", 4.0), ("fünf", 5.0), ("sechs", 6.0), ("sieben", 7.0), ("neun", 9.0), ("zehn", 10.0),
        ("zwölf", 12.0), ("zwanzig", 20.0), ("deux", 2.0), ("trois", 3.0), ("quatre", 4.0),
        ("cinq", 5.0), ("huit", 8.0), ("dix", 10.0), ("douze", 12.0), ("vingt", 20.0), ("dos", 2.0),
        ("tres", 3.0), ("cuatro", 4.0), ("cinco", 5.0), ("seis", 6.0), ("siete", 7.0), ("ocho", 8.0),
        ("nueve", 9.0), ("diez", 10.0), ("veinte", 20.0),
    ];
    let counted = WORDS.iter().enumerate().map(|(value, word)| (*word, value as f64));
    counted.chain(OTHERS.iter().copied()).collect()
});

/// The value of a number word up to ninety, or an ordinal.
pub(super) fn small(word: &str) -> Option<f64> {
    SMALL.get(word).copied()
}

const GERMAN: &[(&str, f64)] = &[
    ("null", 0.0),
    ("ein", 1.0),
    ("eins", 1.0),
    ("zwei", 2.0),
    ("drei", 3.0),
    ("vier", 4.0),
    ("fünf", 5.0),
    ("sechs", 6.0),
    ("sieben", 7.0),
    ("acht", 8.0),
    ("neun", 9.0),
    ("zehn", 10.0),
    ("elf", 11.0),
    ("zwölf", 12.0),
    ("sechzehn", 16.0),
    ("siebzehn", 17.0),
    ("zwanzig", 20.0),
    ("dreißig", 30.0),
    ("vierzig", 40.0),
    ("fünfzig", 50.0),
    ("sechzig", 60.0),
    ("siebzig", 70.0),
    ("achtzig", 80.0),
    ("neunzig", 90.0),
];

/// The value of a German numeral written in one word: "einundzwanzig", "zweihundertfünfzig", "dreitausend". A lone "ein" is
/// an article.
pub(super) fn german_value(word: &str) -> Option<f64> {
    let simple = |word: &str| GERMAN.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    fn part(word: &str, simple: &impl Fn(&str) -> Option<f64>) -> Option<f64> {
        if word.is_empty() {
            return Some(0.0);
        }
        if let Some(value) = simple(word) {
            return Some(value);
        }
        for (name, size) in [("tausend", 1000.0), ("hundert", 100.0)] {
            if let Some((front, back)) = word.split_once(name) {
                let many = if front.is_empty() { 1.0 } else { part(front, simple)? };
                return Some(many * size + part(back, simple)?);
            }
        }
        if let Some(front) = word.strip_suffix("zehn") {
            return simple(front).filter(|value| (3.0..10.0).contains(value)).map(|value| 10.0 + value);
        }
        let (units, tens) = word.split_once("und")?;
        Some(simple(units).filter(|value| *value < 10.0)? + simple(tens).filter(|value| *value >= 20.0)?)
    }
    (word != "ein").then(|| part(word, &simple))?
}

/// The value of a number word of Korean or in kana, with tens and hundreds: 열두, 삼십, 이백오십, みっつ.
pub(super) fn counted_value(word: &str) -> Option<f64> {
    const KANA: [&str; 8] =
        ["ふたつ", "みっつ", "よっつ", "いつつ", "むっつ", "ななつ", "やっつ", "ここのつ"];
    const UNITS: [&str; 9] = ["한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉"];
    const TENS: [&str; 9] = ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"];
    if word == "ふたり" {
        return Some(2.0);
    }
    if word == "스무" {
        return Some(20.0);
    }
    if let Some(place) = KANA.iter().position(|kana| *kana == word) {
        return Some(place as f64 + 2.0);
    }
    let tens = TENS.iter().position(|ten| word.starts_with(ten));
    let rest = tens.map_or(word, |place| &word[TENS[place].len()..]);
    let units = UNITS.iter().position(|unit| *unit == rest);
    if tens.is_some() && rest.is_empty() || units.is_some() {
        let value = tens.map_or(0, |place| (place + 1) * 10) + units.map_or(0, |place| place + 1);
        // 한 is an article, as "one" is.
        return (value > 1).then_some(value as f64);
    }
    let han = |c: char| "일이삼사오육칠팔구십백천만억".chars().position(|k| k == c);
    let written: Option<String> = word
        .chars()
        .map(|c| han(c).and_then(|place| "一二三四五六七八九十百千万亿".chars().nth(place)))
        .collect();
    han_value(&written?)
}

/// The size of a word that multiplies.
pub(super) fn scale(word: &str) -> Option<f64> {
    Some(match word {
        "hundred" => 100.0,
        "thousand" => 1e3,
        "million" => 1e6,
        "billion" => 1e9,
        _ => return None,
    })
}

/// The value of a single numeral below ten.
pub(super) fn han_digit(c: char) -> Option<u8> {
    Some(match c {
        '〇' | '零' => 0,
        '一' => 1,
        '二' | '两' | '兩' => 2,
        '三' => 3,
        '四' => 4,
        '五' => 5,
        '六' => 6,
        '七' => 7,
        '八' => 8,
        '九' => 9,
        _ => return None,
    })
}

/// The value of a numeral in Han characters (or digits): 三十 = 30, 二〇二六 = 2026, 半 = 0.5.
pub(super) fn han_value(numeral: &str) -> Option<f64> {
    if numeral == "半" {
        return Some(0.5);
    }
    if let Ok(value) = numeral.parse::<u32>() {
        return Some(f64::from(value));
    }
    if numeral.chars().all(|c| han_digit(c).is_some()) {
        let digits: String = numeral.chars().filter_map(han_digit).map(|d| char::from(b'0' + d)).collect();
        return digits.parse().ok();
    }
    let (mut total, mut section, mut digit) = (0.0, 0.0, None);
    for c in numeral.chars() {
        if let Some(value) = han_digit(c) {
            digit = Some(f64::from(value));
            continue;
        }
        let size = match c {
            '十' => 10.0,
            '百' => 100.0,
            '千' => 1000.0,
            '万' | '萬' => 1e4,
            '亿' | '億' => 1e8,
            _ => return None,
        };
        if size >= 1e4 {
            let part: f64 = section + digit.unwrap_or(0.0);
            // 亿 multiplies all before it, 万 only what follows the 亿: 一亿二千万.
            total = match (size >= 1e8, total + part) {
                (_, 0.0) => size,
                (true, all) => all * size,
                (false, _) => total + part * size,
            };
            section = 0.0;
        } else {
            section += digit.unwrap_or(1.0) * size;
        }
        digit = None;
    }
    Some(total + section + digit.unwrap_or(0.0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn han_numerals_have_their_value() {
        for (numeral, value) in [
            ("三十", 30.0),
            ("二百五十", 250.0),
            ("一千", 1000.0),
            ("十二", 12.0),
            ("二〇二六", 2026.0),
            ("两万", 20000.0),
            ("三万五千", 35000.0),
            ("一亿二千万", 120_000_000.0),
            ("半", 0.5),
            ("12", 12.0),
        ] {
            assert_eq!(han_value(numeral), Some(value), "{numeral}");
        }
        assert_eq!(han_value("猫"), None);
    }
}
