//! Dates and weekdays, absolute and relative, in English, Chinese, Japanese and Korean (and the plain forms of
//! German, French and Spanish). Relative ones are resolved against the day they were said on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use chrono::{Datelike, NaiveDate};
use regex::{Captures, Regex};

use super::numeral::{counted_value, han_value};
use super::relative::{add_days, english_count, monday_of, relative, shifted};
use super::{blank, compile};

/// A date as far as a text states it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Date {
    /// A day, month or year; what is not said is `None`.
    Calendar {
        /// Four digits.
        year: Option<i32>,
        /// 1 to 12.
        month: Option<u32>,
        /// 1 to 31.
        day: Option<u32>,
    },
    /// A weekday that no calendar day is known for. 0 is Monday.
    Weekday(u8),
    /// The week that begins on this Monday.
    Week(NaiveDate),
    /// A relative date whose anchor is not known: `day-1` is yesterday.
    Relative(String),
}

impl Date {
    pub(crate) fn day(date: NaiveDate) -> Self {
        Self::Calendar { year: Some(date.year()), month: Some(date.month()), day: Some(date.day()) }
    }

    /// The calendar day, when year, month and day are known.
    pub(crate) fn full(&self) -> Option<NaiveDate> {
        match *self {
            Self::Calendar { year: Some(year), month: Some(month), day: Some(day) } => {
                NaiveDate::from_ymd_opt(year, month, day)
            }
            _ => None,
        }
    }

    /// Same date as far as both say; only the year may be left out.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Calendar { year, month, day }, Self::Calendar { year: y, month: m, day: d }) => {
                month == m && day == d && (year == y || month.is_some() && (year.is_none() || y.is_none()))
            }
            _ => self == other,
        }
    }

    /// Whether this says all the other says, and perhaps more.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Calendar { year, month, day }, Self::Calendar { year: y, month: m, day: d }) => {
                (y.is_none() || year == y) && (m.is_none() || month == m) && (d.is_none() || day == d)
            }
            (_, Self::Weekday(weekday)) => {
                self == other
                    || self
                        .full()
                        .is_some_and(|day| day.weekday().num_days_from_monday() == u32::from(*weekday))
            }
            (_, Self::Week(monday)) => {
                self == other || self.full().is_some_and(|day| (0..7).contains(&(day - *monday).num_days()))
            }
            _ => self == other,
        }
    }

    /// Whether a claim may state this date when its source, said on that day, states `source`: as exact or
    /// coarser, or completed from the day (its year, or the weekday's nearest days).
    pub(crate) fn follows(&self, source: &Self, said_on: Option<NaiveDate>) -> bool {
        if source.covers(self) {
            return true;
        }
        let Some(said_on) = said_on else { return false };
        match source {
            Self::Calendar { year: None, month, day } => (-1..=1).any(|offset| {
                Self::Calendar { year: Some(said_on.year() + offset), month: *month, day: *day }.covers(self)
            }),
            Self::Weekday(weekday) => self.full().is_some_and(|day| {
                day.weekday().num_days_from_monday() == u32::from(*weekday)
                    && (day - said_on).num_days().abs() <= 7
            }),
            _ => false,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calendar { year, month, day } => {
                let parts = [
                    year.map(|y| format!("{y:04}")),
                    month.map(|m| format!("{m:02}")),
                    day.map(|d| format!("{d:02}")),
                ];
                f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("-"))
            }
            Self::Weekday(day) => f.write_str(
                ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
                    [usize::from(*day % 7)],
            ),
            Self::Week(monday) => write!(f, "week of {monday}"),
            Self::Relative(name) => f.write_str(name),
        }
    }
}

const MONTH: &str = r"jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|février|mar(?:ch)?|märz|mars|marzo|apr(?:il)?|avril|abril|may|mai|mayo|june?|juni|juin|junio|july?|juli|juillet|julio|aug(?:ust)?|août|agosto|sep(?:t(?:ember)?)?|septembre|septiembre|oct(?:ober|obre)?|oktober|octubre|nov(?:ember|embre|iembre)?|dec(?:ember)?|dezember|décembre|diciembre|enero|febrero";

fn month_of(word: &str) -> Option<u32> {
    let word = word.to_lowercase();
    let month = [
        &["jan", "ene"][..],
        &["feb", "fév"],
        &["mar", "mär"],
        &["apr", "avr", "abr"],
        &["may", "mai"],
        &["jun", "juin"],
        &["jul", "juil"],
        &["aug", "aoû", "ago"],
        &["sep"],
        &["oct", "okt"],
        &["nov"],
        &["dec", "dez", "déc", "dic"],
    ]
    .iter()
    .position(|starts| starts.iter().any(|start| word.starts_with(start)))?;
    Some(month as u32 + 1)
}

macro_rules! pattern {
    ($name:ident, $($part:expr),+) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            let parts: &[&str] = &[$($part),+];
            compile(&parts.concat())
        });
    };
}

pattern!(ISO, r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b");
pattern!(DOTTED, r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b");
pattern!(SLASHED, r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b");
pattern!(SHORT, r"(?i)\b(?:on|by|until|before|due|since|is) (\d{1,2})/(\d{1,2})\b");
pattern!(MONTH_DAY, r"(?i)\b(", MONTH, r")\.?\s+(?:the\s+)?(\d{1,2})(?:st|nd|rd|th)?\b(?:,?\s+(\d{4})\b)?");
pattern!(
    DAY_MONTH,
    r"(?i)\b(\d{1,2})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+|de\s+)?(",
    MONTH,
    r")\b\.?(?:,?\s+(?:de\s+)?(\d{4})\b)?"
);
pattern!(MONTH_YEAR, r"(?i)\b(", MONTH, r")\.?,?\s+(?:of\s+|de\s+)?(\d{4})\b");
pattern!(
    MONTH_ALONE,
    r"\b(?:(?i:in|since|until|by|last|next|early|late|mid|of|during|this|every|each|im|en|seit)[ -](?:(?i:early|late|mid)[ -])?(?i:(",
    MONTH,
    r"))|(January|February|April|June|July|August|September|October|November|December))\b"
);
pattern!(YEAR, r"(?i)\b(?:in|since|by|until|till|from|year|of|before|after|seit|en)\s+((?:19|20)\d{2})\b");
pattern!(
    HAN_DATE,
    r"(?:([12]\d{3}|[一二][〇零一二三四五六七八九]{3})\s*[年년]\s*)?(\d{1,2}|[一二三四五六七八九十]{1,2})\s*[月월]\s*(?:(\d{1,2}|[一二三四五六七八九十]{1,3})\s*([日号號일])?)?"
);
// 유월 and 시월 are written otherwise than they are counted.
pattern!(
    KOREAN_DATE,
    r"(?:^|[\s\p{P}])(유|시|[일이삼사오육칠팔구]|십[일이]?)\s*월\s+([일이삼사오육칠팔구십]{1,3})\s*일"
);
pattern!(HAN_YEAR, r"([12]\d{3}|[一二][〇零一二三四五六七八九]{3})\s*[年년]");
pattern!(HAN_DAY, r"(\d{1,2}|[一二三四五六七八九十]{1,3})[号號]");
pattern!(WEEKDAY, r"(?i)\b(?:(next|last|this|coming)\s+)?(mon|tues|wednes|thurs|fri|satur|sun)days?\b");
pattern!(
    WEEKDAY_OTHER,
    r"(?i)\b(montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo)s?\b"
);
pattern!(WEEKDAY_ZH, r"(上|下|这|本)?(?:个|個)?(?:周|星期|礼拜|週)([一二三四五六日天])");
pattern!(WEEKDAY_JA, r"(?:(先週|来週|今週)の?)?([月火水木金土日])曜");
pattern!(WEEKDAY_KO, r"(?:(지난\s?주|다음\s?주|이번\s?주)\s*)?([월화수목금토일])요일");
pattern!(
    RELATIVE,
    r"(?i)\b(?:the\s+)?(day after tomorrow|day before yesterday|today|tonight|yesterday|last night|tomorrow|(?:last|this|next)\s+(?:weekend|week|month|year)|heute|gestern|hier soir|demain|aujourd'hui|hoy|ayer)\b"
);
pattern!(
    AGO,
    r"(?i)\b(\d{1,3}|a|an|two|three|four|five|six|seven|eight|nine|ten)\s+(day|week|month|year)s?\s+(ago|since|earlier)\b|\bin\s+(\d{1,3}|two|three|four|five|six|seven|ten)\s+(day|week|month|year)s?\b"
);
pattern!(
    RELATIVE_CJK,
    r"大后天|大前天|今天|今日|今晚|今早|昨天|昨日|昨晚|明天|明日|明早|明晚|后天|前天|明後日|一昨日|おととい|きのう|きょう|あした|あさって|今朝|昨夜|오늘|어제|내일|모레|그저께|上周|下周|这周|本周|上个?星期|下个?星期|这个?星期|上个月|下个月|这个月|本月|去年|今年|明年|前年|后年|先週|来週|今週|先月|来月|今月|昨年|来年|지난\s?주|다음\s?주|이번\s?주|지난\s?달|다음\s?달|이번\s?달|작년|올해|내년"
);
pattern!(
    AGO_CJK,
    r"(\d{1,3}|[一二三四五六七八九十两]{1,3})\s*(天|日|周|週間|个星期|个月|ヶ月|か月|年|일|주|개월|년)\s*(之?前|之?后|以前|以后|後|전|후|뒤)"
);

/// Takes every date out of the text.
pub(super) fn take(text: &mut String, said_on: Option<NaiveDate>) -> BTreeSet<Date> {
    let mut found = BTreeSet::new();
    if text.bytes().any(|b| b.is_ascii_digit()) {
        take_written(text, &mut found);
    }
    replace(text, &MONTH_ALONE, &mut found, |m| {
        calendar(None, month_of(m.get(1).or(m.get(2))?.as_str()), None)
    });
    replace(text, &YEAR, &mut found, |m| calendar(m[1].parse().ok(), None, None));
    if !text.is_ascii() {
        take_cjk(text, said_on, &mut found);
    }
    replace(text, &AGO, &mut found, |m| {
        let (count, unit, sign) = if m.get(3).is_some() { (&m[1], &m[2], -1) } else { (&m[4], &m[5], 1) };
        shifted(english_count(count)? * sign, unit.to_lowercase().as_str(), said_on)
    });
    replace(text, &RELATIVE, &mut found, |m| relative(&m[1].to_lowercase(), said_on));
    take_weekdays(text, &WEEKDAY, said_on, &mut found, |word| {
        ["mon", "tues", "wednes", "thurs", "fri", "satur", "sun"].iter().position(|day| *day == word)
    });
    let other = [
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
        "lundi",
        "mardi",
        "mercredi",
        "jeudi",
        "vendredi",
        "samedi",
        "dimanche",
        "lunes",
        "martes",
        "miércoles",
        "jueves",
        "viernes",
        "sábado",
        "domingo",
    ];
    replace(text, &WEEKDAY_OTHER, &mut found, |m| {
        let word = m[1].to_lowercase();
        other.iter().position(|day| *day == word).map(|place| vec![Date::Weekday((place % 7) as u8)])
    });
    found
}

fn take_written(text: &mut String, found: &mut BTreeSet<Date>) {
    let number =
        |m: &Captures<'_>, group: usize| m.get(group).and_then(|part| part.as_str().parse::<u32>().ok());
    let year =
        |m: &Captures<'_>, group: usize| m.get(group).and_then(|part| part.as_str().parse::<i32>().ok());
    replace(text, &ISO, found, |m| calendar(year(m, 1), number(m, 2), number(m, 3)));
    replace(text, &DOTTED, found, |m| calendar(year(m, 3), number(m, 2), number(m, 1)));
    // American order, unless it cannot be.
    let slashed = |m: &Captures<'_>| match (number(m, 1)?, number(m, 2)?) {
        (day, month) if day > 12 => calendar(year(m, 3), Some(month), Some(day)),
        (month, day) => calendar(year(m, 3), Some(month), Some(day)),
    };
    replace(text, &SLASHED, found, slashed);
    replace(text, &SHORT, found, slashed);
    replace(text, &MONTH_DAY, found, |m| calendar(year(m, 3), month_of(&m[1]), number(m, 2)));
    replace(text, &DAY_MONTH, found, |m| calendar(year(m, 3), month_of(&m[2]), number(m, 1)));
    replace(text, &MONTH_YEAR, found, |m| calendar(year(m, 2), month_of(&m[1]), None));
}

fn take_cjk(text: &mut String, said_on: Option<NaiveDate>, found: &mut BTreeSet<Date>) {
    let value = |m: &Captures<'_>, group: usize| {
        m.get(group).and_then(|part| han_value(part.as_str())).map(|v| v as u32)
    };
    replace(text, &AGO_CJK, found, |m| {
        let unit = match &m[2] {
            "天" | "日" | "일" => "day",
            "周" | "週間" | "个星期" | "주" => "week",
            "个月" | "ヶ月" | "か月" | "개월" => "month",
            _ => "year",
        };
        let sign = if m[3].contains('前') || &m[3] == "전" { -1 } else { 1 };
        shifted(i64::from(value(m, 1)?) * sign, unit, said_on)
    });
    replace(text, &HAN_DATE, found, |m| {
        // A day without its mark counts in digits only: 5月3 is a day, 五月三 may be the start of 五月三个.
        let day = if m.get(4).is_some() || m.get(3).is_some_and(|d| d.as_str().is_ascii()) {
            value(m, 3)
        } else {
            None
        };
        calendar(value(m, 1).map(|y| y as i32), value(m, 2), day)
    });
    let korean = |word: &str| match word {
        "유" => Some(6),
        "시" => Some(10),
        // 일 alone is one, 이 two: the reader of counts knows them only composed.
        _ => counted_value(word).map(|value| value as u32),
    };
    replace(text, &KOREAN_DATE, found, |m| calendar(None, Some(korean(&m[1])?), Some(korean(&m[2])?)));
    replace(text, &HAN_YEAR, found, |m| calendar(value(m, 1).map(|y| y as i32), None, None));
    replace(text, &HAN_DAY, found, |m| calendar(None, None, value(m, 1)));
    let han = |word: &str| "一二三四五六日".find(if word == "天" { "日" } else { word }).map(|at| at / 3);
    take_weekdays(text, &WEEKDAY_ZH, said_on, found, han);
    take_weekdays(text, &WEEKDAY_JA, said_on, found, |word| "月火水木金土日".find(word).map(|at| at / 3));
    take_weekdays(text, &WEEKDAY_KO, said_on, found, |word| "월화수목금토일".find(word).map(|at| at / 3));
    replace(text, &RELATIVE_CJK, found, |m| relative(&m[0].replace(' ', ""), said_on));
}

/// Takes out what the pattern finds and the reader can read; a match it cannot read stays.
fn replace(
    text: &mut String,
    pattern: &Regex,
    found: &mut BTreeSet<Date>,
    read: impl Fn(&Captures<'_>) -> Option<Vec<Date>>,
) {
    let mut taken = Vec::new();
    for m in pattern.captures_iter(text) {
        if let Some(dates) = read(&m) {
            found.extend(dates);
            taken.push(m.get(0).expect("group 0").range());
        }
    }
    taken.into_iter().for_each(|range| blank(text, range));
}

fn calendar(year: Option<i32>, month: Option<u32>, day: Option<u32>) -> Option<Vec<Date>> {
    let possible = month.is_none_or(|m| (1..=12).contains(&m)) && day.is_none_or(|d| (1..=31).contains(&d));
    let stated = year.is_some() || month.is_some() || day.is_some();
    (possible && stated).then(|| vec![Date::Calendar { year, month, day }])
}

fn take_weekdays(
    text: &mut String,
    pattern: &Regex,
    said_on: Option<NaiveDate>,
    found: &mut BTreeSet<Date>,
    weekday: impl Fn(&str) -> Option<usize>,
) {
    replace(text, pattern, found, |m| {
        let day = weekday(&m[2].to_lowercase())?;
        let english = m[2].is_ascii();
        let shift = m.get(1).map(|word| match word.as_str().to_lowercase().replace(' ', "").as_str() {
            "next" | "下" | "来週" | "다음주" => 1,
            "last" | "上" | "先週" | "지난주" => -1,
            _ => 0,
        });
        let (Some(shift), Some(said_on)) = (shift, said_on) else {
            return Some(match shift {
                Some(shift) if shift != 0 => {
                    vec![Date::Relative(format!("week{shift:+} {}", Date::Weekday(day as u8)))]
                }
                _ => vec![Date::Weekday(day as u8)],
            });
        };
        let monday = monday_of(said_on);
        let of_week = add_days(monday, shift * 7 + day as i64)?;
        let mut readings = vec![Date::day(of_week)];
        // "Next Tuesday" on a Monday is tomorrow to some and next week's to others: both are kept.
        if english && shift != 0 {
            let nearest = if shift > 0 { 1..=7 } else { -7..=-1 };
            readings.extend(
                nearest
                    .filter_map(|n| add_days(said_on, n))
                    .filter(|d| d.weekday().num_days_from_monday() == day as u32)
                    .map(Date::day),
            );
        }
        Some(readings)
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(text: &str, said_on: Option<&str>) -> Vec<String> {
        let mut text = crate::language::fold(text);
        take(&mut text, said_on.map(|day| day.parse().unwrap())).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_date_has_one_form() {
        for (texts, expected) in [
            (
                &[
                    "14 March",
                    "March 14th",
                    "3月14日",
                    "三月十四日",
                    "the 14th of March",
                    "Mar. 14",
                    "3월 14일",
                    "３月１４日",
                    "due on 3/14",
                    "14. März",
                    "3月14号",
                ][..],
                "03-14",
            ),
            (
                &[
                    "2026-03-14",
                    "March 14, 2026",
                    "14 March 2026",
                    "2026年3月14日",
                    "二〇二六年三月十四日",
                    "2026/3/14",
                    "14.03.2026",
                    "2026년 3월 14일",
                    "3/14/2026",
                ],
                "2026-03-14",
            ),
            (&["in March", "3月", "三月"], "03"),
            (&["March 2026", "2026年3月"], "2026-03"),
            (&["in 2026", "2026年"], "2026"),
            (&["on Tuesdays", "Tuesday", "周二", "星期二", "火曜日", "화요일", "dienstags"], "Tuesday"),
            (&["on Sunday", "周日", "星期天", "日曜"], "Sunday"),
        ] {
            for text in texts {
                assert_eq!(of(text, None), [expected], "{text}");
            }
        }
    }

    #[test]
    fn relative_dates_follow_from_the_day_they_were_said_on() {
        // 2026-03-11 is a Wednesday.
        for (text, expected) in [
            ("today", "2026-03-11"),
            ("yesterday", "2026-03-10"),
            ("昨天", "2026-03-10"),
            ("昨日", "2026-03-10"),
            ("내일", "2026-03-12"),
            ("明天", "2026-03-12"),
            ("the day after tomorrow", "2026-03-13"),
            ("next Tuesday", "2026-03-17"),
            ("下周二", "2026-03-17"),
            ("来週の火曜日", "2026-03-17"),
            ("다음 주 화요일", "2026-03-17"),
            ("last week", "week of 2026-03-02"),
            ("上周", "week of 2026-03-02"),
            ("next month", "2026-04"),
            ("去年", "2025"),
            ("two years ago", "2024"),
            ("三天前", "2026-03-08"),
            ("in 3 days", "2026-03-14"),
            ("两周后", "2026-03-25"),
        ] {
            assert_eq!(of(text, Some("2026-03-11")), [expected], "{text}");
        }
        assert_eq!(of("yesterday", None), ["day-1"]);
        assert_eq!(of("昨天", None), ["day-1"]);
    }

    #[test]
    fn next_tuesday_keeps_both_readings_when_it_has_two() {
        assert_eq!(of("next Tuesday", Some("2026-03-09")), ["2026-03-10", "2026-03-17"]);
        assert_eq!(of("下周二", Some("2026-03-09")), ["2026-03-17"]);
    }

    #[test]
    fn what_is_no_date_is_not_taken_for_one() {
        for text in ["you may go", "三个月", "a march through town", "90日間", "13月", "He marched", "三天"]
        {
            assert_eq!(of(text, None), Vec::<String>::new(), "{text}");
        }
    }
}
