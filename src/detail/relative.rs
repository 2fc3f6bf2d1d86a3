//! What relative words for dates mean on the day they were said: yesterday, 下周, two years ago.
//! Finding the words is `date`'s work.

use chrono::{Datelike, Days, Months, NaiveDate, Weekday};

use super::date::Date;

/// The Monday of the date's week.
pub(super) fn monday_of(date: NaiveDate) -> NaiveDate {
    date.week(Weekday::Mon).checked_first_day().unwrap_or(date)
}

/// The date so many days later, or earlier.
pub(super) fn add_days(date: NaiveDate, days: i64) -> Option<NaiveDate> {
    let distance = Days::new(days.unsigned_abs());
    if days < 0 { date.checked_sub_days(distance) } else { date.checked_add_days(distance) }
}

/// "a", "two" or digits.
pub(super) fn english_count(word: &str) -> Option<i64> {
    let words = ["", "a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let word = word.to_lowercase();
    if word == "an" {
        return Some(1);
    }
    word.parse().ok().or_else(|| words.iter().position(|name| *name == word).map(|place| place as i64))
}

/// The day, week, month or year so many units from the day it was said on.
pub(super) fn shifted(count: i64, unit: &str, said_on: Option<NaiveDate>) -> Option<Vec<Date>> {
    let Some(said_on) = said_on else { return Some(vec![Date::Relative(format!("{unit}{count:+}"))]) };
    let months = |count: i64| {
        let distance = Months::new(u32::try_from(count.unsigned_abs()).ok()?);
        if count < 0 { said_on.checked_sub_months(distance) } else { said_on.checked_add_months(distance) }
    };
    let date = match unit {
        "day" => Date::day(add_days(said_on, count)?),
        "week" => Date::day(add_days(said_on, count * 7)?),
        "month" => months(count).map(|d| Date::Calendar {
            year: Some(d.year()),
            month: Some(d.month()),
            day: None,
        })?,
        _ => {
            Date::Calendar { year: Some(said_on.year() + i32::try_from(count).ok()?), month: None, day: None }
        }
    };
    Some(vec![date])
}

/// The date a relative word means; without an anchor it keeps a name that is the same in every language.
pub(super) fn relative(word: &str, said_on: Option<NaiveDate>) -> Option<Vec<Date>> {
    let squeezed: String = word.split_whitespace().collect::<Vec<_>>().join(" ");
    let (unit, count) = match squeezed.as_str() {
        "today" | "tonight" | "今天" | "今日" | "今晚" | "今早" | "今朝" | "きょう" | "오늘" | "heute"
        | "aujourd'hui" | "hoy" => ("day", 0),
        "yesterday" | "last night" | "昨天" | "昨日" | "昨晚" | "昨夜" | "きのう" | "어제" | "gestern"
        | "hier soir" | "ayer" => ("day", -1),
        "tomorrow" | "明天" | "明日" | "明早" | "明晚" | "あした" | "내일" | "demain" => {
            ("day", 1)
        }
        "day after tomorrow" | "后天" | "明後日" | "あさって" | "모레" => ("day", 2),
        "day before yesterday" | "前天" | "一昨日" | "おととい" | "그저께" => ("day", -2),
        "大后天" => ("day", 3),
        "大前天" => ("day", -3),
        "last week" | "last weekend" | "上周" | "上星期" | "上个星期" | "先週" | "지난주" => {
            ("whole week", -1)
        }
        "this week" | "this weekend" | "这周" | "本周" | "这星期" | "这个星期" | "今週" | "이번주" => {
            ("whole week", 0)
        }
        "next week" | "next weekend" | "下周" | "下星期" | "下个星期" | "来週" | "다음주" => {
            ("whole week", 1)
        }
        "last month" | "上个月" | "先月" | "지난달" => ("month", -1),
        "this month" | "这个月" | "本月" | "今月" | "이번달" => ("month", 0),
        "next month" | "下个月" | "来月" | "다음달" => ("month", 1),
        "last year" | "去年" | "昨年" | "작년" => ("year", -1),
        "this year" | "今年" | "올해" => ("year", 0),
        "next year" | "明年" | "来年" | "내년" => ("year", 1),
        "前年" => ("year", -2),
        "后年" => ("year", 2),
        _ => return None,
    };
    match (unit, said_on) {
        ("whole week", Some(said_on)) => Some(vec![Date::Week(add_days(monday_of(said_on), count * 7)?)]),
        ("whole week", None) => Some(vec![Date::Relative(format!("week{count:+}"))]),
        _ => shifted(count, unit, said_on),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_languages_mean_the_same_date() {
        let said_on = NaiveDate::from_ymd_opt(2026, 3, 11);
        for (words, expected) in [
            (&["yesterday", "昨天", "きのう", "어제", "gestern", "ayer"][..], "2026-03-10"),
            (&["next week", "下周", "来週", "다음주"], "week of 2026-03-16"),
            (&["last month", "上个月", "先月", "지난달"], "2026-02"),
            (&["next year", "明年", "来年", "내년"], "2027"),
        ] {
            for word in words {
                let dates = relative(word, said_on).unwrap();
                assert_eq!(dates.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected], "{word}");
                assert_eq!(relative(word, None), relative(words[0], None), "{word}");
            }
        }
        assert_eq!(relative("whenever", said_on), None);
    }

    #[test]
    fn a_shift_past_the_calendar_is_no_date() {
        assert_eq!(shifted(i64::MAX / 8, "day", NaiveDate::from_ymd_opt(2026, 3, 11)), None);
        assert_eq!(add_days(NaiveDate::MIN, -1), None);
    }
}
