//! Numbers with their units, as digits or as words: 1,000 = 1000 = 一千, "nine" = 9, 百分之五 = 5 %.
//! Dates, times and identifiers are taken out of the text before this looks at it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::blank;

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

const UNITS: &[(&str, &str, f64)] = &[
    ("ms", "ms", 1.0),
    ("millisecond", "ms", 1.0),
    ("毫秒", "ms", 1.0),
    ("s", "s", 1.0),
    ("sec", "s", 1.0),
    ("second", "s", 1.0),
    ("sekunde", "s", 1.0),
    ("seconde", "s", 1.0),
    ("segundo", "s", 1.0),
    ("秒钟", "s", 1.0),
    ("秒間", "s", 1.0),
    ("秒", "s", 1.0),
    ("초", "s", 1.0),
    ("min", "s", 60.0),
    ("minute", "s", 60.0),
    ("minuto", "s", 60.0),
    ("分钟", "s", 60.0),
    ("分鐘", "s", 60.0),
    ("分間", "s", 60.0),
    ("分", "s", 60.0),
    ("분", "s", 60.0),
    ("h", "s", 3600.0),
    ("hr", "s", 3600.0),
    ("hour", "s", 3600.0),
    ("stunde", "s", 3600.0),
    ("heure", "s", 3600.0),
    ("hora", "s", 3600.0),
    ("小时", "s", 3600.0),
    ("小時", "s", 3600.0),
    ("个小时", "s", 3600.0),
    ("個小時", "s", 3600.0),
    ("个钟头", "s", 3600.0),
    ("時間", "s", 3600.0),
    ("시간", "s", 3600.0),
    ("day", "d", 1.0),
    ("tag", "d", 1.0),
    ("jour", "d", 1.0),
    ("día", "d", 1.0),
    ("天", "d", 1.0),
    ("日間", "d", 1.0),
    ("日间", "d", 1.0),
    ("日", "d", 1.0),
    ("일간", "d", 1.0),
    ("일", "d", 1.0),
    ("week", "d", 7.0),
    ("woche", "d", 7.0),
    ("semaine", "d", 7.0),
    ("semana", "d", 7.0),
    ("周", "d", 7.0),
    ("週間", "d", 7.0),
    ("个星期", "d", 7.0),
    ("个礼拜", "d", 7.0),
    ("星期", "d", 7.0),
    ("주", "d", 7.0),
    ("month", "month", 1.0),
    ("monat", "month", 1.0),
    ("mois", "month", 1.0),
    ("mes", "month", 1.0),
    ("个月", "month", 1.0),
    ("個月", "month", 1.0),
    ("ヶ月", "month", 1.0),
    ("か月", "month", 1.0),
    ("カ月", "month", 1.0),
    ("개월", "month", 1.0),
    ("year", "year", 1.0),
    ("yr", "year", 1.0),
    ("jahr", "year", 1.0),
    ("an", "year", 1.0),
    ("año", "year", 1.0),
    ("年间", "year", 1.0),
    ("年間", "year", 1.0),
    ("年", "year", 1.0),
    ("년", "year", 1.0),
    ("岁", "year", 1.0),
    ("歲", "year", 1.0),
    ("歳", "year", 1.0),
    ("살", "year", 1.0),
    ("세", "year", 1.0),
    ("%", "%", 1.0),
    ("percent", "%", 1.0),
    ("prozent", "%", 1.0),
    ("パーセント", "%", 1.0),
    ("퍼센트", "%", 1.0),
    ("$", "USD", 1.0),
    ("dollar", "USD", 1.0),
    ("usd", "USD", 1.0),
    ("美元", "USD", 1.0),
    ("美金", "USD", 1.0),
    ("ドル", "USD", 1.0),
    ("달러", "USD", 1.0),
    ("€", "EUR", 1.0),
    ("euro", "EUR", 1.0),
    ("eur", "EUR", 1.0),
    ("欧元", "EUR", 1.0),
    ("ユーロ", "EUR", 1.0),
    ("유로", "EUR", 1.0),
    ("£", "GBP", 1.0),
    ("pound", "GBP", 1.0),
    ("gbp", "GBP", 1.0),
    ("英镑", "GBP", 1.0),
    ("yuan", "CNY", 1.0),
    ("rmb", "CNY", 1.0),
    ("cny", "CNY", 1.0),
    ("元", "CNY", 1.0),
    ("块钱", "CNY", 1.0),
    ("块", "CNY", 1.0),
    ("人民币", "CNY", 1.0),
    ("yen", "JPY", 1.0),
    ("jpy", "JPY", 1.0),
    ("円", "JPY", 1.0),
    ("日元", "JPY", 1.0),
    ("¥", "¥", 1.0),
    ("₩", "KRW", 1.0),
    ("원", "KRW", 1.0),
    ("won", "KRW", 1.0),
    ("mm", "mm", 1.0),
    ("cm", "mm", 10.0),
    ("厘米", "mm", 10.0),
    ("m", "m", 1.0),
    ("meter", "m", 1.0),
    ("metre", "m", 1.0),
    ("米", "m", 1.0),
    ("km", "m", 1000.0),
    ("kilometer", "m", 1000.0),
    ("kilometre", "m", 1000.0),
    ("公里", "m", 1000.0),
    ("千米", "m", 1000.0),
    ("キロメートル", "m", 1000.0),
    ("mile", "mile", 1.0),
    ("英里", "mile", 1.0),
    ("g", "g", 1.0),
    ("gram", "g", 1.0),
    ("克", "g", 1.0),
    ("kg", "g", 1000.0),
    ("kilo", "g", 1000.0),
    ("kilogram", "g", 1000.0),
    ("公斤", "g", 1000.0),
    ("千克", "g", 1000.0),
    ("斤", "g", 500.0),
    ("キログラム", "g", 1000.0),
    ("kb", "KB", 1.0),
    ("mb", "MB", 1.0),
    ("gb", "GB", 1.0),
    ("tb", "TB", 1.0),
    ("kib", "KiB", 1.0),
    ("mib", "MiB", 1.0),
    ("gib", "GiB", 1.0),
    ("hz", "Hz", 1.0),
    ("mhz", "MHz", 1.0),
    ("ghz", "GHz", 1.0),
    ("px", "px", 1.0),
    ("°c", "°C", 1.0),
    ("°f", "°F", 1.0),
    ("度", "°", 1.0),
    ("liter", "l", 1.0),
    ("litre", "l", 1.0),
    ("l", "l", 1.0),
    ("ml", "ml", 1.0),
    ("升", "l", 1.0),
    ("毫升", "ml", 1.0),
];

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
    Regex::new(r"([$€£¥₩] ?)?(-)?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+|,\d{1,2})?)")
        .expect("a literal pattern")
});

static HAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(百分之|第)?([〇零一二三四五六七八九十百千万亿两兩萬億半]+)(?:点([〇零一二三四五六七八九]+))?(个半|個半)?").expect("a literal pattern")
});

static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[A-Za-zÀ-ÿ]+").expect("a literal pattern"));

static ONE_HOUR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:(half) an?|(?:for|about|over|almost|than|within|takes|took) an?) (hour|minute|day|week|month|year)\b")
        .expect("a literal pattern")
});

static KOREAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:^|[\s\p{P}])(두|세|네|다섯|여섯|일곱|여덟|아홉|열|스무) ?(개|명|번|살|마리|잔|시간|권|대|달|주|분|사람|곳|병|장|가지)")
        .expect("a literal pattern")
});

/// Takes every number out of the text.
pub(super) fn take(text: &mut String) -> BTreeSet<Number> {
    let mut found = BTreeSet::new();
    let lone: Vec<_> = ONE_HOUR
        .captures_iter(text)
        .map(|m| {
            (m.get(0).expect("group 0").range(), if m.get(1).is_some() { 0.5 } else { 1.0 }, unit_of(&m[2]))
        })
        .collect();
    for (range, value, unit) in lone {
        found.insert(Number::new(value, unit));
        blank(text, range);
    }
    take_digits(text, &mut found);
    take_words(text, &mut found);
    if !text.is_ascii() {
        take_han(text, &mut found);
        for m in KOREAN.captures_iter(text) {
            let value = ["", "", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열"]
                .iter()
                .position(|word| *word == &m[1])
                .unwrap_or(20);
            found.insert(Number::new(value as f64, unit_of(&m[2])));
        }
    }
    found
}

fn take_digits(text: &mut String, found: &mut BTreeSet<Number>) {
    let mut taken = Vec::new();
    for m in DIGITS.captures_iter(text) {
        let (whole, digits) = (m.get(0).expect("group 0"), m.get(3).expect("group 3"));
        let before = text[..whole.start()].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let decimal = if digits.as_str().contains(',') && !thousands(digits.as_str()) {
            digits.as_str().replace(',', ".")
        } else {
            digits.as_str().replace(',', "")
        };
        let Ok(mut value) = decimal.parse::<f64>() else { continue };
        // A dash after a space or at the start is a minus; elsewhere it joins a range.
        if m.get(2).is_some() && before.is_none_or(char::is_whitespace) {
            value = -value;
        }
        let (factor, unit, end) = suffix(text, digits.end());
        let Some(unit) = unit else { continue };
        let unit = m.get(1).map_or(unit, |sign| unit_of(sign.as_str().trim()));
        found.insert(Number::new(value * factor, unit));
        taken.push(whole.start()..end);
    }
    taken.into_iter().for_each(|range| blank(text, range));
}

fn thousands(digits: &str) -> bool {
    digits.split(['.', ',']).nth(1).is_some_and(|group| group.len() == 3)
}

type Unit = Option<(&'static str, f64)>;

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
            return match unit_of(word) {
                Some(unit) => (1.0, Some(Some(unit)), end + word.len()),
                None => (1.0, None, end),
            };
        }
    }
    let rest = &text[end..];
    let gap = usize::from(rest.starts_with([' ', '-']));
    let (unit, length) = leading_unit(&rest[gap..]);
    let million = rest[gap..].len() >= 7 && rest.as_bytes()[gap..gap + 7].eq_ignore_ascii_case(b"million");
    if million {
        return (factor * 1e6, Some(None), end + gap + 7);
    }
    (factor, Some(unit), if length > 0 { end + gap + length } else { end })
}

/// The unit a text begins with, and its length in bytes.
fn leading_unit(text: &str) -> (Unit, usize) {
    let letters = text
        .chars()
        .take_while(|c| c.is_alphabetic() && (*c as u32) < 0x250)
        .map(char::len_utf8)
        .sum::<usize>();
    if letters > 0 {
        let unit = unit_of(&text[..letters]);
        return (unit, if unit.is_some() { letters } else { 0 });
    }
    let best = UNITS
        .iter()
        .filter(|(word, _, _)| !word.as_bytes()[0].is_ascii_lowercase() && text.starts_with(word))
        .max_by_key(|(word, _, _)| word.len());
    best.map_or((None, 0), |&(word, unit, factor)| (Some((unit, factor)), word.len()))
}

fn unit_of(word: &str) -> Unit {
    let word = word.to_lowercase();
    let find =
        |word: &str| UNITS.iter().find(|(name, _, _)| *name == word).map(|&(_, unit, factor)| (unit, factor));
    let singular = || {
        ["s", "n", "en", "e"]
            .iter()
            .find_map(|end| word.strip_suffix(end).filter(|stem| stem.len() >= 3).and_then(find))
    };
    find(&word).or_else(singular)
}

fn small(word: &str) -> Option<f64> {
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
    const OTHERS: &[(&str, f64)] = &[
        ("thirty", 30.0),
        ("forty", 40.0),
        ("fifty", 50.0),
        ("sixty", 60.0),
        ("seventy", 70.0),
        ("eighty", 80.0),
        ("ninety", 90.0),
        ("third", 3.0),
        ("fourth", 4.0),
        ("fifth", 5.0),
        ("sixth", 6.0),
        ("seventh", 7.0),
        ("eighth", 8.0),
        ("ninth", 9.0),
        ("tenth", 10.0),
        ("nineteenth", 19.0),
        ("twentieth", 20.0),
        ("dozen", 12.0),
        ("zwei", 2.0),
        ("drei", 3.0),
        ("vier", 4.0),
        ("fünf", 5.0),
        ("sechs", 6.0),
        ("sieben", 7.0),
        ("neun", 9.0),
        ("zehn", 10.0),
        ("zwölf", 12.0),
        ("zwanzig", 20.0),
        ("deux", 2.0),
        ("trois", 3.0),
        ("quatre", 4.0),
        ("cinq", 5.0),
        ("huit", 8.0),
        ("dix", 10.0),
        ("douze", 12.0),
        ("vingt", 20.0),
        ("dos", 2.0),
        ("tres", 3.0),
        ("cuatro", 4.0),
        ("cinco", 5.0),
        ("seis", 6.0),
        ("siete", 7.0),
        ("ocho", 8.0),
        ("nueve", 9.0),
        ("diez", 10.0),
        ("veinte", 20.0),
    ];
    let place = WORDS.iter().position(|name| *name == word).map(|place| place as f64);
    place.or_else(|| OTHERS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value))
}

fn scale(word: &str) -> Option<f64> {
    Some(match word {
        "hundred" => 100.0,
        "thousand" => 1e3,
        "million" => 1e6,
        "billion" => 1e9,
        _ => return None,
    })
}

/// A number word being read: "two hundred and fifty-one".
#[derive(Default)]
struct Reading {
    total: f64,
    part: f64,
    words: usize,
    end: usize,
    only_one: bool,
}

fn take_words(text: &str, found: &mut BTreeSet<Number>) {
    let mut reading = Reading::default();
    let mut article = false;
    for word in WORD.find_iter(text) {
        let lower = word.as_str().to_lowercase();
        // DOS, TEN in capitals are names, not numbers.
        let shout = word.len() > 1 && word.as_str().bytes().all(|b| b.is_ascii_uppercase());
        let joins = reading.words > 0 && text[reading.end..word.start()].trim_matches([' ', '-']).is_empty();
        if !joins {
            finish(text, &mut reading, found);
        }
        if let (Some(value), false) = (small(&lower), shout) {
            if reading.words > 0 && (reading.part % 10.0 != 0.0 || reading.part == 10.0) {
                finish(text, &mut reading, found);
            }
            reading.only_one = reading.words == 0 && value == 1.0;
            reading.part += value;
            (reading.words, reading.end) = (reading.words + 1, word.end());
        } else if let (Some(size), true) = (scale(&lower), reading.words > 0 || article) {
            let part = if reading.part == 0.0 { 1.0 } else { reading.part };
            if size == 100.0 {
                reading.part = part * size;
            } else {
                (reading.total, reading.part) = (reading.total + part * size, 0.0);
            }
            reading.only_one = false;
            (reading.words, reading.end) = (reading.words + 1, word.end());
        } else if lower == "and" && joins && reading.part >= 100.0 {
            reading.end = word.end();
        } else {
            finish(text, &mut reading, found);
        }
        article = lower == "a";
    }
    finish(text, &mut reading, found);
}

/// Ends a number word. A lone "one" counts only with a unit: "one of them" and "no one" state no number.
fn finish(text: &str, reading: &mut Reading, found: &mut BTreeSet<Number>) {
    let done = std::mem::take(reading);
    if done.words == 0 {
        return;
    }
    let rest = &text[done.end..];
    let unit = leading_unit(rest.strip_prefix([' ', '-']).unwrap_or(rest)).0;
    if !done.only_one
        || unit.is_some_and(|(unit, factor)| factor > 1.0 && unit == "s" || unit == "month" || unit == "year")
    {
        found.insert(Number::new(done.total + done.part, unit));
    }
}

fn take_han(text: &str, found: &mut BTreeSet<Number>) {
    for m in HAN.captures_iter(text) {
        let numeral = m.get(2).expect("group 2");
        let end = m.get(0).expect("group 0").end();
        let (rest, from) = (&text[end..], &text[numeral.start()..]);
        let before = text[..numeral.start()].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_digit())
            || numeral.as_str() == "半" && !rest.starts_with(['小', '个', '個', '年', '天'])
        {
            continue;
        }
        let (unit, _) = leading_unit(rest);
        let minutes = from.starts_with("十分") && unit.is_some_and(|(_, factor)| factor == 60.0);
        if NOT_NUMBERS.iter().any(|word| from.starts_with(word)) && !minutes && !from.starts_with("十分钟")
        {
            continue;
        }
        let Some(mut value) = han_value(numeral.as_str()) else { continue };
        if let Some(fraction) = m.get(3) {
            let places: String =
                fraction.as_str().chars().filter_map(han_digit).map(|d| char::from(b'0' + d)).collect();
            value += format!("0.{places}").parse::<f64>().unwrap_or_default();
        }
        let percent = m.get(1).is_some_and(|mark| mark.as_str() == "百分之");
        let unit = if percent { Some(("%", 1.0)) } else { unit };
        if m.get(4).is_some() {
            value += 0.5;
        }
        let composed = numeral.as_str().chars().count() > 1;
        let counted = composed || percent || m.get(1).is_some() || rest.starts_with(|c| MEASURES.contains(c));
        // 一 is mostly an article or part of a word; with a clear unit it is a number.
        let clear = percent
            || unit.is_some_and(|(unit, factor)| {
                unit == "s" && factor > 1.0 || unit == "month" || unit == "year"
            });
        if counted && (value != 1.0 || clear) {
            found.insert(Number::new(value, unit));
        }
    }
}

fn han_digit(c: char) -> Option<u8> {
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
            total = (total + if part == 0.0 { 1.0 } else { part }) * size;
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
