//! Numbers with their units, as digits or as words: 1,000 = 1000 = 一千, "nine" = 9, 百分之五 = 5 %.
//! Dates, times and identifiers are taken out of the text before this looks at it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::numeral::{counted_value, german_value, han_digit, han_value, scale, small};
use super::unit::{self, Unit};
use super::{blank, compile};

/// A number in canonical decimal form, with its unit where one follows directly. Seconds, minutes and hours are
/// all seconds, days and weeks are days, so that 90 minutes are 1.5 hours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number {
    /// Plain decimal without trailing zeros.
    pub value: String,
    /// The canonical unit: `s`, `d`, `month`, `year`, `%`, `USD`, `kg`, …
    pub unit: Option<&'static str>,
}

impl Number {
    fn new(value: f64, unit: Option<(&'static str, f64)>) -> Self {
        let (unit, factor) = unit.map_or((None, 1.0), |(unit, factor)| (Some(unit), factor));
        // Six places are enough for what people say and hide what floating point adds.
        let decimal = format!("{:.6}", value * factor);
        let value = decimal.trim_end_matches('0').trim_end_matches('.').to_owned();
        Self { value, unit }
    }

    /// Same value, and the units do not contradict each other.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        self.value == other.value && (self.unit.is_none() || other.unit.is_none() || self.unit == other.unit)
    }

    /// Whether this says all the other says: same value, and the unit if the other has one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.value == other.value && (other.unit.is_none() || self.unit == other.unit)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Some(unit) => write!(f, "{} {unit}", self.value),
            None => f.write_str(&self.value),
        }
    }
}

/// What may follow a numeral written in Han characters for it to be a count and not part of a word.
const MEASURES: &str = "个個位名次回年月日天周小秒分块塊元岁歲歳杯只隻条條本张張件套家台辆輛公米克斤匹つ枚階层層樓楼倍首部口号號门門节節种種场場顿頓碗瓶袋盒步页頁章度時时ヶか人点行段遍班级級世篇把双雙头頭颗棵";

/// Words that look like Han numerals with a measure and are none.
const NOT_NUMBERS: &[&str] = &[
    "十分",
    "千万",
    "万一",
    "百分",
    "四川",
    "三明",
    "三文",
    "百度",
    "百年孤",
    "三亚",
    "四季",
    "八卦",
    "七夕",
    "四周",
    "一些",
];

static DIGITS: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"([$€£¥₩] ?)?(-)?(\d{1,3}(?:,\d{3})+(?:\.\d+)?\b|\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?\b|\d{1,3}(?:\.\d{3})+(?:,\d{1,2})?\b|\d+(?:\.\d+|,\d{1,2})?)",
    )
});

static HAN: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(百分之|第)?([〇零一二三四五六七八九十百千万亿两兩萬億半]+)(?:点([〇零一二三四五六七八九]+))?(个半|個半)?",
    )
});

static WORD: LazyLock<Regex> = LazyLock::new(|| compile(r"[A-Za-zÀ-ÿ]+"));

static ONE_HOUR: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i)\b(?:(half) an?|(?:for|about|over|almost|than|within|takes|took) an?) (hour|minute|day|week|month|year)\b",
    )
});

static KOREAN: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?:^|[\s\p{P}])((?:열|스물|서른|마흔|쉰|예순|일흔|여든|아흔)?(?:한|두|세|네|다섯|여섯|일곱|여덟|아홉)|열|스무|서른|마흔|쉰|예순|일흔|여든|아흔) ?(개|명|번|살|마리|잔|시간|권|대|달|주|분|사람|곳|병|장|가지)",
    )
});

// A single syllable of these is too often part of a word.
static SINO_KOREAN: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?:^|[\s\p{P}])([일이삼사오육칠팔구십백천만억]{2,}|[십백천만]) ?(원|명|분|년|개월|퍼센트|킬로|미터|층|번|주|세|호|일|달러|유로|보|걸음|초|도)",
    )
});

// Before these a single one is no other word: 사 년 are four years, 사원 is an employee.
static LONE_KOREAN: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?:^|[\s\p{P}])([삼사오육칠팔구])(?: ?(층|개월|퍼센트)| (원|년|분|초|호))"));

static KANA: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(ふたつ|みっつ|よっつ|いつつ|むっつ|ななつ|やっつ|ここのつ|ふたり)()"));

/// Takes every number out of the text.
pub(super) fn take(text: &mut String) -> BTreeSet<Number> {
    spans(text).into_iter().map(|(number, _)| number).collect()
}

/// Takes every number out of the text; each with where it stood.
pub(super) fn spans(text: &mut String) -> Vec<(Number, Range<usize>)> {
    let mut found = Vec::new();
    let lone: Vec<_> = ONE_HOUR
        .captures_iter(text)
        .map(|m| {
            (m.get(0).expect("group 0").range(), if m.get(1).is_some() { 0.5 } else { 1.0 }, unit::of(&m[2]))
        })
        .collect();
    for (range, value, unit) in lone {
        blank(text, range.clone());
        found.push((Number::new(value, unit), range));
    }
    take_digits(text, &mut found);
    take_words(text, &mut found);
    if !text.is_ascii() {
        let read = HAN.captures_iter(text).filter_map(|m| read_han(text, &m)).collect();
        keep(text, read, &mut found);
        for words in [&*KOREAN, &*SINO_KOREAN, &*LONE_KOREAN, &*KANA] {
            let read = words.captures_iter(text).filter_map(|m| read_counted(&m)).collect();
            keep(text, read, &mut found);
        }
    }
    found
}

fn take_digits(text: &mut String, found: &mut Vec<(Number, Range<usize>)>) {
    let mut taken = Vec::new();
    let german = crate::language::is_german(text);
    for m in DIGITS.captures_iter(text) {
        let (whole, digits) = (m.get(0).expect("group 0"), m.get(3).expect("group 3"));
        let before = text[..whole.start()].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let Ok(mut value) = decimal(digits.as_str(), german).parse::<f64>() else { continue };
        // A dash after a space or at the start is a minus; elsewhere it joins a range.
        if m.get(2).is_some() && before.is_none_or(char::is_whitespace) {
            value = -value;
        }
        let (factor, unit, end) = suffix(text, digits.end());
        let Some(unit) = unit else { continue };
        let unit = m.get(1).map_or(unit, |sign| unit::of(sign.as_str().trim()));
        taken.push((Number::new(value * factor, unit), whole.start()..end));
    }
    keep(text, taken, found);
}

/// The digits as Rust reads them. Thousands are grouped by commas, spaces, apostrophes or dots; one dot before three
/// digits groups in German and where the group is only zeros, else it is a decimal point.
fn decimal(digits: &str, german: bool) -> String {
    let plain = digits.replace([' ', '\''], "");
    let groups: Vec<&str> = plain.split('.').collect();
    let dotted =
        groups.len() > 2 || groups.len() == 2 && groups[1].len() == 3 && (german || groups[1] == "000");
    if dotted && !groups[0].is_empty() && groups[0].len() <= 3 && !plain.contains(',') {
        return groups.concat();
    }
    if dotted && let Some((whole, fraction)) = plain.split_once(',') {
        return format!("{}.{fraction}", whole.replace('.', ""));
    }
    let thousands = plain.split(['.', ',']).nth(1).is_some_and(|group| group.len() == 3);
    if plain.contains(',') && !thousands { plain.replace(',', ".") } else { plain.replace(',', "") }
}

/// What follows the digits: a magnitude, a unit (`None` if letters follow that are neither: then it is no number
/// but part of an identifier), and where that ends.
fn suffix(text: &str, digits_end: usize) -> (f64, Option<Unit>, usize) {
    let rest = &text[digits_end..];
    let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let mut end = digits_end;
    let mut factor = 1.0;
    match &rest[..letters] {
        "" => {
            for (mark, size) in [
                ("万", 1e4),
                ("萬", 1e4),
                ("亿", 1e8),
                ("億", 1e8),
                ("千", 1e3),
                ("百", 1e2),
                ("만", 1e4),
                ("억", 1e8),
            ] {
                if rest.starts_with(mark) {
                    factor = size;
                    end += mark.len();
                    break;
                }
            }
        }
        "k" | "K" => (factor, end) = (1e3, end + 1),
        "M" => (factor, end) = (1e6, end + 1),
        "th" | "st" | "nd" | "rd" => return (1.0, Some(None), end + 2),
        word => {
            return match unit::of(word) {
                Some(unit) => (1.0, Some(Some(unit)), end + word.len()),
                None => (1.0, None, end),
            };
        }
    }
    let rest = &text[end..];
    let gap = usize::from(rest.starts_with([' ', '-']));
    let (unit, length) = unit::leading(&rest[gap..]);
    let million = rest[gap..].len() >= 7 && rest.as_bytes()[gap..gap + 7].eq_ignore_ascii_case(b"million");
    if million {
        return (factor * 1e6, Some(None), end + gap + 7);
    }
    (factor, Some(unit), if length > 0 { end + gap + length } else { end })
}

/// A number word being read: "two hundred and fifty-one".
#[derive(Default)]
struct Reading {
    total: f64,
    part: f64,
    words: usize,
    start: usize,
    end: usize,
    only_one: bool,
}

impl Reading {
    fn extend(&mut self, word: &regex::Match<'_>) {
        if self.words == 0 {
            self.start = word.start();
        }
        (self.words, self.end) = (self.words + 1, word.end());
    }

    /// Adds "twenty" or "one".
    fn add(&mut self, value: f64, word: &regex::Match<'_>) {
        self.only_one = self.words == 0 && value == 1.0;
        self.part += value;
        self.extend(word);
    }

    /// Multiplies by "hundred" or "million".
    fn scale(&mut self, size: f64, word: &regex::Match<'_>) {
        let part = if self.part == 0.0 { 1.0 } else { self.part };
        if size == 100.0 {
            self.part = part * size;
        } else {
            (self.total, self.part) = (self.total + part * size, 0.0);
        }
        self.only_one = false;
        self.extend(word);
    }

    /// Ends the number. A lone "one" counts only with a span of time: "one of them" and "no one" state no number.
    fn finish(&mut self, text: &str) -> Option<(Number, Range<usize>)> {
        let done = std::mem::take(self);
        let rest = &text[done.end..];
        let gap = usize::from(rest.starts_with([' ', '-']));
        let (unit, length) = unit::leading(&rest[gap..]);
        let end = if length > 0 { done.end + gap + length } else { done.end };
        let states = done.words > 0 && (!done.only_one || unit::is_span(unit));
        states.then(|| (Number::new(done.total + done.part, unit), done.start..end))
    }
}

fn take_words(text: &mut String, found: &mut Vec<(Number, Range<usize>)>) {
    let german = crate::language::is_german(text);
    let mut reading = Reading::default();
    let mut article = false;
    let mut read = Vec::new();
    for word in WORD.find_iter(text) {
        let lower = word.as_str().to_lowercase();
        // DOS, TEN in capitals are names, not numbers.
        let shout = word.len() > 1 && word.as_str().bytes().all(|b| b.is_ascii_uppercase());
        let gap = text.get(reading.end..word.start()).unwrap_or_default();
        let joins = reading.words > 0 && gap.trim_matches([' ', '-']).is_empty();
        if !joins {
            read.extend(reading.finish(text));
        }
        if let (Some(value), false) = (small(&lower).or_else(|| german.then(|| german_value(&lower))?), shout)
        {
            // "Twenty one" is one number, "two three" are two.
            if reading.words > 0 && (reading.part % 10.0 != 0.0 || reading.part == 10.0) {
                read.extend(reading.finish(text));
            }
            reading.add(value, &word);
        } else if let (Some(size), true) = (scale(&lower), reading.words > 0 || article) {
            reading.scale(size, &word);
        } else if lower == "and" && joins && reading.part >= 100.0 {
            reading.end = word.end();
        } else {
            read.extend(reading.finish(text));
        }
        article = lower == "a";
    }
    read.extend(reading.finish(text));
    keep(text, read, found);
}

fn keep(text: &mut String, read: Vec<(Number, Range<usize>)>, found: &mut Vec<(Number, Range<usize>)>) {
    for (number, range) in read {
        blank(text, range.clone());
        found.push((number, range));
    }
}

/// The number a numeral in Han characters states, unless it is part of a word.
fn read_han(text: &str, m: &Captures<'_>) -> Option<(Number, Range<usize>)> {
    let (whole, numeral) = (m.get(0)?, m.get(2)?);
    let (rest, from) = (&text[whole.end()..], &text[numeral.start()..]);
    let after_digit = text[..numeral.start()].ends_with(|c: char| c.is_ascii_digit());
    if after_digit || numeral.as_str() == "半" && !rest.starts_with(['小', '个', '個', '年', '天']) {
        return None;
    }
    // 十分钟 are ten minutes, 十分高兴 is very glad.
    let minutes = ["十分钟", "十分鐘", "十分間"].iter().any(|word| from.starts_with(word));
    if !minutes && NOT_NUMBERS.iter().any(|word| from.starts_with(word)) {
        return None;
    }
    let mut value = han_value(numeral.as_str())?;
    if let Some(fraction) = m.get(3) {
        let digits = fraction.as_str().chars().filter_map(han_digit);
        let places: String = digits.map(|d| char::from(b'0' + d)).collect();
        value += format!("0.{places}").parse::<f64>().ok()?;
    }
    if m.get(4).is_some() {
        value += 0.5;
    }
    let marked = m.get(1).map(|mark| mark.as_str());
    let (unit, length) = match marked {
        Some("百分之") => (Some(("%", 1.0)), 0),
        _ => unit::leading(rest),
    };
    let composed = numeral.as_str().chars().count() > 1;
    let counted = composed || marked.is_some() || rest.starts_with(|c| MEASURES.contains(c));
    // 一 is mostly an article or part of a word; with a clear unit it is a number.
    let clear = value != 1.0 || marked == Some("百分之") || unit::is_span(unit);
    (counted && clear).then(|| (Number::new(value, unit), whole.start()..whole.end() + length))
}

/// A number word of Korean or kana before its counter.
fn read_counted(m: &Captures<'_>) -> Option<(Number, Range<usize>)> {
    let (word, counter) = (m.get(1)?, m.get(2).or(m.get(3)));
    let end = counter.map_or(word.end(), |counter| counter.end());
    let unit = counter.and_then(|counter| unit::of(counter.as_str()));
    Some((Number::new(counted_value(word.as_str())?, unit), word.start()..end))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut text = crate::language::fold(text);
        take(&mut text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_number_has_one_form() {
        for (texts, expected) in [
            (
                &[
                    "1,000 files",
                    "1000 files",
                    "一千份文件",
                    "１０００ files",
                    "a thousand files",
                    "1k files",
                ][..],
                "1000",
            ),
            (&["nine engineers", "9 engineers", "九位工程师"], "9"),
            (&["三十个人", "30 people", "thirty people", "30人"], "30"),
            (&["百分之五", "5%", "5 percent", "5パーセント", "5 %", "five percent"], "5 %"),
            (&["30 seconds", "30s", "30秒", "30-second", "三十秒", "half a minute", "30초"], "30 s"),
            (&["90 minutes", "1.5 hours", "一个半小时", "90分钟", "1,5 Stunden"], "5400 s"),
            (&["three months", "3个月", "三个月", "3ヶ月", "3개월"], "3 month"),
            (&["two weeks", "14 days", "两周", "14天"], "14 d"),
            (&["$30", "30 dollars", "30美元"], "30 USD"),
            (&["twenty-one boats", "21 boats", "二十一条船"], "21"),
            (&["two hundred and fifty boats", "250 boats", "二百五十条船"], "250"),
            (&["3.5万人", "35,000 people", "三万五千人"], "35000"),
            (&["for an hour", "1 hour", "一个小时", "one hour"], "3600 s"),
            (&["128k tokens", "128,000 tokens"], "128000"),
            (&["两只猫", "two cats", "고양이 두 마리"], "2"),
            (&["the 3rd time", "第三次"], "3"),
            (
                &[
                    "10,000 steps",
                    "10 000 steps",
                    "10\u{a0}000 steps",
                    "10\u{202f}000 steps",
                    "10'000 steps",
                    "10’000 steps",
                    "10.000 steps",
                    "10.000 Schritte",
                    "ten thousand steps",
                    "zehntausend Schritte sind viel",
                    "一万步",
                    "1万歩",
                    "만 보",
                ],
                "10000",
            ),
            (&["1.234 Euro für das Rad", "1234 EUR", "1 234 €", "1,234 euros"], "1234 EUR"),
            (&["3.141 is a number", "3.141"], "3.141"),
            (&["einundzwanzig Boote und ein Floß", "21 boats"], "21"),
            (&["acht Katzen und ein Hund", "8 cats", "八只猫", "여덟 마리", "猫がやっつ"], "8"),
            (&["zweihundertfünfzig Boote sind es", "이백오십 명"], "250"),
            (&["열두 개", "twelve", "zwölf"], "12"),
        ] {
            for text in texts {
                assert_eq!(of(text), [expected], "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_not_taken_for_one() {
        for text in [
            "one of them",
            "no one",
            "十分高兴",
            "一起去",
            "千万别忘",
            "万一下雨",
            "四川菜",
            "三明治",
            "一个人",
            "a second-hand bicycle",
            "H100",
            "abc123def",
            "有一些",
            "DOS prompt",
            "the first time",
        ] {
            assert_eq!(of(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn different_units_are_different_numbers() {
        assert_ne!(of("30 seconds"), of("30 minutes"));
        assert_ne!(of("$30"), of("€30"));
    }
}
