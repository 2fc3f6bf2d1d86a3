//! The machine: room on the disk, the clock, the time zone, and whether timed runs stand aside.

use chrono::{DateTime, Datelike as _, TimeDelta, Utc};
use chrono_tz::Tz;

use super::Line;
use super::runs;
use crate::config::{Config, Layers};
use crate::error::chain;
use crate::openclaw::config::OpenClaw;
use crate::space::{self, Needs};
use crate::state::maintenance::Maintenance;

/// No clock of this program's time shows an earlier year.
const FIRST_YEAR: i32 = 2025;
const MB: u64 = 1024 * 1024;

/// What was found out about the machine.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Megabytes free, where that is known, or why a night would not start.
    disk: Result<Option<u64>, String>,
    now: DateTime<Utc>,
    timezone: Tz,
    /// The zone the gateway takes the user to be in.
    gateways: Option<String>,
    last_end: Option<DateTime<Utc>>,
    /// What timed runs stand aside for, or why that cannot be told.
    maintenance: Result<Option<Maintenance>, String>,
}

pub(super) fn look(config: &Config, layers: &Layers, runs: &runs::Found, now: DateTime<Utc>) -> Found {
    let free = space::disk_of(std::path::Path::new(&config.lancedb_uri))
        .or_else(|_| space::disk_of(&config.home))
        .ok()
        .map(|disk| disk.free / MB);
    let openclaw = OpenClaw::read(layers).ok().filter(|_| config.has_gateway());
    Found {
        disk: match space::check(config, Needs::at_least(), space::disk_of) {
            Ok(()) => Ok(free),
            Err(error) => Err(error.to_string()),
        },
        now,
        timezone: config.timezone,
        gateways: openclaw.and_then(|openclaw| openclaw.user_timezone()),
        last_end: runs.last_end(),
        maintenance: Maintenance::read(&config.state_dir())
            .map_err(|error| format!("could not {}", chain(&error))),
    }
}

pub(super) fn lines(found: &Found) -> Vec<Line> {
    let mut lines = vec![of_disk(&found.disk), of_clock(found), of_timezone(found)];
    lines.extend(of_maintenance(found));
    lines
}

fn of_disk(disk: &Result<Option<u64>, String>) -> Line {
    match disk {
        Ok(Some(free)) => Line::ok("disk", format!("{free} MB free")),
        Ok(None) => Line::ok("disk", "how much is free is not known"),
        Err(why) => Line::fail("disk", format!("could not {why}"), "make room, or lower DREAMER_MIN_FREE_MB"),
    }
}

fn of_clock(found: &Found) -> Line {
    let shown = found.now.with_timezone(&found.timezone).format("%Y-%m-%d %H:%M");
    if found.now.year() < FIRST_YEAR {
        return Line::fail(
            "clock",
            format!("it is {shown}, which cannot be"),
            "set the clock (`timedatectl set-ntp true`)",
        );
    }
    match found.last_end.filter(|end| *end - found.now > TimeDelta::hours(1)) {
        Some(end) => Line::warn(
            "clock",
            format!(
                "it is {shown}, and the last run ended {}, in the future",
                end.with_timezone(&found.timezone).format("%Y-%m-%d %H:%M")
            ),
            "set the clock (`timedatectl set-ntp true`)",
        ),
        None => Line::ok("clock", format!("it is {shown}")),
    }
}

fn of_timezone(found: &Found) -> Line {
    let ours = found.timezone.name();
    match &found.gateways {
        Some(theirs) if theirs.parse::<Tz>().is_ok_and(|zone| zone != found.timezone) => Line::warn(
            "time zone",
            format!(
                "ours is {ours}, the gateway's {theirs}: episodes would be of another day than their names say"
            ),
            format!("set DREAMER_TIMEZONE={theirs}"),
        ),
        Some(theirs) if theirs.parse::<Tz>().is_err() => {
            Line::ok("time zone", format!("{ours}; the gateway's is {theirs}, which is no IANA name"))
        }
        Some(_) => Line::ok("time zone", format!("{ours}, as the gateway's")),
        None => Line::ok("time zone", ours),
    }
}

fn of_maintenance(found: &Found) -> Option<Line> {
    match &found.maintenance {
        Err(why) => {
            Some(Line::fail("maintenance", why.clone(), "`dreamer maintenance off` removes the file"))
        }
        Ok(Some(on)) if on.is_on(found.now) => {
            let reason = on.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let what = format!("is on, timed runs stand aside{reason}");
            Some(Line::warn("maintenance", what, "`dreamer maintenance off` when you are done"))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn found() -> Found {
        Found {
            disk: Ok(Some(5_000)),
            now: at("2026-03-10T12:00:00Z"),
            timezone: Tz::Europe__Berlin,
            gateways: None,
            last_end: Some(at("2026-03-10T03:00:00Z")),
            maintenance: Ok(None),
        }
    }

    fn levels(found: &Found) -> Vec<(&'static str, Level)> {
        lines(found).into_iter().map(|line| (line.check, line.level)).collect()
    }

    #[test]
    fn a_machine_in_order_is_three_lines() {
        let ok = [("disk", Level::Ok), ("clock", Level::Ok), ("time zone", Level::Ok)];
        assert_eq!(levels(&found()), ok);
        assert_eq!(lines(&found())[1].what, "it is 2026-03-10 13:00");
    }

    #[test]
    fn a_full_disk_a_wrong_clock_another_zone_and_maintenance_are_told() {
        assert_eq!(levels(&Found { disk: Err("dream: …".into()), ..found() })[0].1, Level::Fail);
        assert_eq!(levels(&Found { now: at("1970-01-01T00:00:00Z"), ..found() })[1].1, Level::Fail);
        assert_eq!(
            levels(&Found { last_end: Some(at("2026-03-11T03:00:00Z")), ..found() })[1].1,
            Level::Warn
        );
        let zone = |zone: &str| lines(&Found { gateways: Some(zone.into()), ..found() })[2].clone();
        assert_eq!(zone("Asia/Shanghai").remedy.as_deref(), Some("set DREAMER_TIMEZONE=Asia/Shanghai"));
        assert_eq!(zone("Europe/Berlin").level, Level::Ok);
        assert_eq!(zone("Berlin").level, Level::Ok);
        let on =
            Maintenance { since: at("2026-03-10T11:00:00Z"), until: None, reason: Some("new disk".into()) };
        let told = lines(&Found { maintenance: Ok(Some(on.clone())), ..found() });
        assert!(told[3].level == Level::Warn && told[3].what.ends_with(": new disk"), "{told:?}");
        let over = Maintenance { until: Some(at("2026-03-10T11:30:00Z")), ..on };
        assert_eq!(lines(&Found { maintenance: Ok(Some(over)), ..found() }).len(), 3);
        assert_eq!(levels(&Found { maintenance: Err("x".into()), ..found() })[3].1, Level::Fail);
    }
}
