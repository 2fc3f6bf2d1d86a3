//! The gateway's ways of writing a time: `2026-11-30 07:22:41 UTC` in a header, `Wed 2026-11-30 07:38:05 GMT+8` or
//! `Wed 2026-11-30T07:38:05Z` in an envelope. Turns them into instants; knows no envelope.

use std::sync::LazyLock;

use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc};
use chrono_tz::{OffsetName, Tz};
use regex::Regex;

use crate::episode::from_local;

/// An instant, and the zone word if it was not understood (the configured zone was taken instead).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stamp {
    pub at: DateTime<Utc>,
    pub unknown_zone: Option<String>,
}

/// Reads a date, a time (`07:38` or `07:38:05`) and a zone word, which may be empty.
pub(crate) fn read(date: &str, time: &str, zone: &str, timezone: Tz) -> Option<Stamp> {
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    let time = NaiveTime::parse_from_str(time, "%H:%M:%S")
        .or_else(|_| NaiveTime::parse_from_str(time, "%H:%M"))
        .ok()?;
    let local = date.and_time(time);
    let known = |at| Some(Stamp { at, unknown_zone: None });
    let zone = zone.trim();
    if zone.is_empty() || is_abbreviation_of(timezone, local, zone) {
        return known(from_local(local, timezone));
    }
    if let Some(offset) = fixed(zone) {
        return known(offset.from_local_datetime(&local).earliest()?.to_utc());
    }
    if let Ok(named) = zone.parse::<Tz>() {
        return known(from_local(local, named));
    }
    Some(Stamp { at: from_local(local, timezone), unknown_zone: Some(zone.to_owned()) })
}

/// The time at the end of an envelope or of a `timestamp` field, with the text before it. A time without a weekday
/// must name its zone: the gateway writes one or the other, people write neither.
pub(crate) fn at_end(text: &str, timezone: Tz) -> Option<(&str, DateTime<Utc>)> {
    static END: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?:^|\s)(?P<day>[A-Z][a-z]{2} )?(?P<date>\d{4}-\d{2}-\d{2})[T ](?P<time>\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?(?P<zone>Z| ?[A-Za-z][A-Za-z0-9_/+:−-]*| ?[+-]\d{2}:?\d{2})?$",
        )
        .expect("the pattern is fixed")
    });
    let found = END.captures(text)?;
    let zone = found.name("zone").map_or("", |zone| zone.as_str());
    if zone.is_empty() && found.name("day").is_none() {
        return None;
    }
    let stamp = read(&found["date"], &found["time"], zone, timezone)?;
    Some((text[..found.get(0)?.start()].trim_end(), stamp.at))
}

/// China's `CST` is no other zone's in a run that is configured for Shanghai.
fn is_abbreviation_of(timezone: Tz, local: NaiveDateTime, word: &str) -> bool {
    timezone
        .offset_from_local_datetime(&local)
        .earliest()
        .is_some_and(|offset| offset.abbreviation() == Some(word))
}

fn fixed(word: &str) -> Option<FixedOffset> {
    static OFFSET: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?i:UTC|GMT)?([+−-])(\d{1,2})(?::?(\d{2}))?$").expect("the pattern is fixed")
    });
    // Only the abbreviations that mean one thing; CST, IST and BST do not.
    let minutes = match word.to_ascii_uppercase().as_str() {
        "UTC" | "GMT" | "Z" => 0,
        "EST" | "CDT" => -300,
        "EDT" => -240,
        "MST" => -420,
        "MDT" => -360,
        "PST" => -480,
        "PDT" => -420,
        "CET" => 60,
        "CEST" => 120,
        "JST" | "KST" => 540,
        _ => {
            let found = OFFSET.captures(word)?;
            let hours: i32 = found[2].parse().ok()?;
            let minutes: i32 = found.get(3).map_or(Ok(0), |part| part.as_str().parse()).ok()?;
            (hours * 60 + minutes) * if &found[1] == "+" { 1 } else { -1 }
        }
    };
    FixedOffset::east_opt(minutes * 60)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use chrono_tz::{America, Asia, Europe};

    fn utc(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(text).unwrap().to_utc()
    }

    #[test]
    fn zone_words_are_read() {
        let cases = [
            ("UTC", "2026-11-30T07:22:41Z"),
            ("GMT+8", "2026-11-29T23:22:41Z"),
            ("GMT+5:30", "2026-11-30T01:52:41Z"),
            ("+0100", "2026-11-30T06:22:41Z"),
            ("UTC-05:00", "2026-11-30T12:22:41Z"),
            ("Asia/Shanghai", "2026-11-29T23:22:41Z"),
            ("PST", "2026-11-30T15:22:41Z"),
            ("", "2026-11-30T06:22:41Z"),
            ("CET", "2026-11-30T06:22:41Z"),
        ];
        for (zone, expected) in cases {
            let stamp = read("2026-11-30", "07:22:41", zone, Europe::Berlin).unwrap();
            assert_eq!((stamp.at, stamp.unknown_zone), (utc(expected), None), "{zone}");
        }
    }

    #[test]
    fn an_ambiguous_zone_counts_as_the_configured_one() {
        let stamp = read("2026-11-30", "07:22", "CST", Europe::Berlin).unwrap();
        assert_eq!(stamp, Stamp { at: utc("2026-11-30T06:22:00Z"), unknown_zone: Some("CST".to_owned()) });
        let at_home = read("2026-11-30", "07:22", "CST", Asia::Shanghai).unwrap();
        assert_eq!(at_home, Stamp { at: utc("2026-11-29T23:22:00Z"), unknown_zone: None });
    }

    #[test]
    fn hours_that_summer_time_skips_or_repeats_still_read() {
        let gap = read("2026-03-08", "02:30", "America/New_York", Europe::Berlin).unwrap();
        assert_eq!(gap.at, utc("2026-03-08T07:30:00Z"));
        let twice = read("2026-11-01", "01:30", "", America::New_York).unwrap();
        assert_eq!(twice.at, utc("2026-11-01T05:30:00Z"));
        assert_eq!(read("2026-02-30", "01:30", "", America::New_York), None);
        assert_eq!(read("2026-02-20", "25:30", "", America::New_York), None);
    }

    #[test]
    fn the_time_at_the_end_of_an_envelope_is_found() {
        let cases = [
            ("Wed 2026-11-30 07:38 UTC", Some(("", "2026-11-30T07:38:00Z"))),
            ("Wed 2026-11-30T07:38:05Z", Some(("", "2026-11-30T07:38:05Z"))),
            (
                "Telegram Alice id:123 2026-03-01 12:30 UTC",
                Some(("Telegram Alice id:123", "2026-03-01T12:30:00Z")),
            ),
            (
                "WhatsApp +49 +2m Wed 2026-11-30 07:38:05 GMT+8",
                Some(("WhatsApp +49 +2m", "2026-11-29T23:38:05Z")),
            ),
            ("2026-11-30 07:38", None),
            ("Meeting 2026-11-30 07:38", None),
            ("tea", None),
        ];
        for (text, expected) in cases {
            let found = at_end(text, Europe::Berlin);
            assert_eq!(found, expected.map(|(before, at)| (before, utc(at))), "{text}");
        }
    }
}
