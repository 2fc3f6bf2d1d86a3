//! Numerals written as words: English, German, French and Spanish up to ninety, and Han characters.

/// The value of a number word up to ninety, or an ordinal.
pub(super) fn small(word: &str) -> Option<f64> {
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
    let place = WORDS.iter().position(|name| *name == word).map(|place| place as f64);
    place.or_else(|| OTHERS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value))
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
