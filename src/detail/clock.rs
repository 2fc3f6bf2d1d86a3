//! Times of day: 9:00 = 9am = 上午九点 = 오전 9시, 15:00 = 3pm = 下午三点. Durations are numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::numeral::han_value;
use super::{blank, compile};

/// A time of day in minutes after midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// 0 to 1439; read as before noon when the text does not say.
    pub minutes: u16,
    /// Whether the half of the day was left open ("三点", "3 o'clock").
    pub open: bool,
}

impl Time {
    /// The same time, an open one read as written.
    pub(crate) fn agrees(self, other: Self) -> bool {
        self.minutes == other.minutes
    }

    /// Whether this says all the other says: an open time is covered by either half of the day.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.minutes == other.minutes || other.open && self.minutes % 720 == other.minutes % 720
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}

static MERIDIEM: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i)\b(\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?:[:.](\d{2}))?(?:\s?(a\.?m\b\.?|p\.?m\b\.?)|(?: o'clock)? (?:in the (morning|afternoon|evening)|at (night)))",
    )
});
static MERIDIEM_BEHIND: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?i)^ ?(?:[ap]\.?m\b|(?:in the (?:morning|afternoon|evening)|at night)\b)"));
static COLON: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?:(上午|早上|早晨|清晨|凌晨|中午|下午|傍晚|晚上|夜里|今晚|午前|午後|夜|朝|오전|오후|저녁|밤|아침)\s*的?)?([01]?\d|2[0-4]):([0-5]\d)(?::[0-5]\d)?(?: ?(?:Uhr|h)\b)?",
    )
});
static CLOCK_WORD: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i)\b(\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) o'clock\b|\b(\d{1,2}) Uhr(?: (\d{1,2}))?\b|\b(\d{1,2})h(\d{2})\b|\b(noon|midnight)\b|\b(half|quarter) (past|to) (\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    )
});
static CJK: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?:(上午|早上|早晨|清晨|凌晨|中午|下午|傍晚|晚上|夜里|今晚|午前|午後|夜|朝|오전|오후|저녁|밤|아침)\s*的?)?",
        r"(\d{1,2}|[一二三四五六七八九十两]{1,3}|(?:두|세|네|다섯|여섯|일곱|여덟|아홉|열두|열한|열))\s*(点钟|點鐘|点|點|時|시)(?:\s*(?:(半|반)|(一刻)|(三刻)|(\d{1,2}|[零〇一二三四五六七八九十]{1,3}|[일이삼사오육칠팔구십]{1,3}(?:\s*분))\s*(分|분)?))?"
    ))
});

/// Takes every time of day out of the text.
pub(super) fn take(text: &mut String) -> BTreeSet<Time> {
    let mut found = BTreeSet::new();
    if text.contains(':') {
        replace(text, &COLON, &mut found, |m, before, after| {
            let joins = |c: char| c.is_ascii_alphanumeric() || c == ':' || c == '.';
            if before.ends_with(joins) || after.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                return None;
            }
            // 6:45 pm is read with its mark below.
            if MERIDIEM_BEHIND.is_match(after) {
                return None;
            }
            let (hour, minute) = (m[2].parse().ok()?, m[3].parse().ok()?);
            let half = m.get(1).map(|word| half_of(word.as_str()));
            // A clock with minutes is read on 24 hours: 9:00 is the morning's.
            time(hour, minute, half.or(Some(Half::Written)))
        });
    }
    replace(text, &MERIDIEM, &mut found, |m, _, _| {
        let mark = m.get(3).or(m.get(4)).or(m.get(5))?.as_str().to_lowercase();
        let half = if mark.starts_with('a') && !mark.starts_with("af") || mark == "morning" {
            Half::Morning
        } else {
            Half::Afternoon
        };
        time(hour_of(&m[1])?, m.get(2).map_or(Some(0), |part| part.as_str().parse().ok())?, Some(half))
    });
    replace(text, &CLOCK_WORD, &mut found, |m, _, _| read_clock_word(m));
    if !text.is_ascii() {
        replace(text, &CJK, &mut found, read_cjk);
    }
    found
}

#[derive(Clone, Copy, PartialEq)]
enum Half {
    Morning,
    Noon,
    Afternoon,
    /// On 24 hours, as written.
    Written,
}

fn half_of(word: &str) -> Half {
    match word {
        "上午" | "早上" | "早晨" | "清晨" | "凌晨" | "午前" | "朝" | "오전" | "아침" => {
            Half::Morning
        }
        "中午" => Half::Noon,
        _ => Half::Afternoon,
    }
}

fn time(hour: u16, minute: u16, half: Option<Half>) -> Option<BTreeSet<Time>> {
    if hour > 24 || minute > 59 {
        return None;
    }
    let hour = match half {
        Some(Half::Morning) if hour == 12 => 0,
        Some(Half::Afternoon) if hour < 12 => hour + 12,
        Some(Half::Noon) if hour < 10 => hour + 12,
        _ => hour % 24,
    };
    Some(BTreeSet::from([Time { minutes: hour * 60 + minute, open: half.is_none() && hour <= 12 }]))
}

fn hour_of(word: &str) -> Option<u16> {
    let words = [
        "", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    ];
    let lower = word.to_lowercase();
    word.parse().ok().or_else(|| words.iter().position(|name| *name == lower).map(|place| place as u16))
}

fn read_clock_word(m: &Captures<'_>) -> Option<BTreeSet<Time>> {
    let number = |group: usize| m.get(group).and_then(|part| part.as_str().parse::<u16>().ok());
    if let Some(hour) = m.get(1) {
        return time(hour_of(hour.as_str())?, 0, None);
    }
    if let Some(hour) = number(2).or(number(4)) {
        return time(hour, number(3).or(number(5)).unwrap_or(0), Some(Half::Written));
    }
    if let Some(word) = m.get(6) {
        let hour = if word.as_str().eq_ignore_ascii_case("noon") { 12 } else { 0 };
        return time(hour, 0, Some(Half::Written));
    }
    let hour = hour_of(&m[9])?;
    let part = if m[7].eq_ignore_ascii_case("half") { 30 } else { 15 };
    if m[8].eq_ignore_ascii_case("past") {
        time(hour, part, None)
    } else {
        time(hour.checked_sub(1)?, 60 - part, None)
    }
}

fn read_cjk(m: &Captures<'_>, before: &str, after: &str) -> Option<BTreeSet<Time>> {
    let (numeral, mark) = (&m[2], &m[3]);
    let half = m.get(1).map(|word| half_of(word.as_str()));
    let has_minutes = m.get(4).is_some() || m.get(5).is_some() || m.get(6).is_some() || m.get(8).is_some();
    // 小时, 時間, 시간 are durations; 三点建议 are points, 有一点 is a little.
    if after.starts_with(['間', '间', '간', '期', '代']) || before.ends_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let points = ["建议", "意见", "要求", "原因", "理由", "内容", "要点", "好处", "点", "儿"]
        .iter()
        .any(|word| after.starts_with(word));
    let some =
        numeral == "一" || before.ends_with(['有', '这', '那', '以', '下', '早', '快', '慢', '第']) || points;
    if mark.starts_with(['点', '點']) && mark.chars().count() == 1 && half.is_none() && !has_minutes && some
    {
        return None;
    }
    // A decimal (三点五) rather than a time.
    if m.get(7).is_some()
        && m.get(8).is_none()
        && half.is_none()
        && !numeral.is_ascii()
        && m[7].chars().count() == 1
    {
        return None;
    }
    let minute = match (m.get(4), m.get(5), m.get(6), m.get(7)) {
        (Some(_), ..) => 30,
        (_, Some(_), ..) => 15,
        (_, _, Some(_), _) => 45,
        (.., Some(part)) => minutes_of(part.as_str())? as u16,
        _ => 0,
    };
    time(han_value(numeral).or_else(|| super::numeral::counted_value(numeral))? as u16, minute, half)
}

fn minutes_of(numeral: &str) -> Option<f64> {
    let korean = || super::numeral::counted_value(numeral.trim_end_matches('분').trim_end());
    han_value(numeral).or_else(korean)
}

/// Takes out what the pattern finds and the reader can read; a match it cannot read stays.
fn replace(
    text: &mut String,
    pattern: &Regex,
    found: &mut BTreeSet<Time>,
    read: impl Fn(&Captures<'_>, &str, &str) -> Option<BTreeSet<Time>>,
) {
    let mut taken = Vec::new();
    for m in pattern.captures_iter(text) {
        let range = m.get(0).expect("group 0").range();
        if let Some(times) = read(&m, &text[..range.start], &text[range.end..]) {
            found.extend(times);
            taken.push(range);
        }
    }
    taken.into_iter().for_each(|range| blank(text, range));
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
    fn one_time_has_one_form() {
        for (texts, expected) in [
            (
                &[
                    "9:00",
                    "9am",
                    "上午九点",
                    "9点",
                    "오전 9시",
                    "09:00",
                    "9 a.m.",
                    "nine o'clock",
                    "9 in the morning",
                    "９：００",
                    "午前9時",
                    "9 Uhr",
                    "早上9:00",
                ][..],
                "09:00",
            ),
            (&["15:00", "3pm", "下午三点", "3 p.m.", "오후 3시", "午後3時", "下午3:00", "15点"], "15:00"),
            (&["9:30", "九点半", "half past nine", "9시 반", "9時30分", "九点三十分", "9.30 am"], "09:30"),
            (&["中午十二点", "noon", "12:00", "12pm"], "12:00"),
            (
                &["晚上八点", "20:00", "8pm", "8 in the evening", "8:00 pm", "8:00 P.M.", "저녁 여덟 시"],
                "20:00",
            ),
            (
                &["18:45", "6:45 pm", "6:45pm", "下午六点四十五分", "오후 여섯 시 사십오 분", "午後6時45分"],
                "18:45",
            ),
            (&["6:45 am", "06:45", "午前六時四十五分"], "06:45"),
        ] {
            for text in texts {
                assert_eq!(of(text), [expected], "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_time_is_not_taken_for_one() {
        for text in
            ["三点建议", "有一点累", "3小时", "3時間", "세 시간", "三点五", "25:00", "ratio 3:4", "一点点"]
        {
            assert_eq!(of(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn an_open_time_is_covered_by_either_half() {
        let open = Time { minutes: 180, open: true };
        assert!(Time { minutes: 900, open: false }.covers(open));
        assert!(!open.covers(Time { minutes: 900, open: false }));
    }
}
