//! The gateway: whether it can be reached, lets us in and lets us end a session, whether it sees what the last night wrote, and
//! whether its own dreaming is in our way. It is asked nothing but to log in.

use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, NaiveTime, TimeDelta, Utc};
use chrono_tz::Tz;
use tokio::net::TcpStream;

use super::runs;
use super::table::Table;
use super::{Asking, Line};
use crate::config::Config;
use crate::error::chain;
use crate::openclaw::config::{OpenClaw, OpenClawError};
use crate::openclaw::dreaming::Dreaming;
use crate::openclaw::gateway::GatewayError;
use crate::openclaw::gateway::hello::{Hello, SCOPE_OF_RESET, pins_its_table};
use crate::openclaw::gateway::websocket::WebSocket;
use crate::privacy::is_loopback;
use crate::state::versions::last_version;

const CHECK: &str = "gateway";
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of asking.
#[derive(Debug)]
enum Asked {
    /// The home has none. A file that describes one all the same.
    HasNone(Option<String>),
    /// Its settings cannot be used, or it has none we can read: what is wrong.
    Unusable(String),
    /// It is on another machine and `--offline` was said.
    Offline(String),
    /// Nothing listens there, at which address.
    NotThere(String),
    /// It did not let us in: why.
    Refused(String),
    /// It cannot answer now: why.
    Busy(String),
    /// It let us in.
    In(String, Hello),
}

/// The gateway and what bears on it.
pub(super) struct Found {
    asked: Asked,
    /// When the last night that changed something ended.
    last_night: Option<DateTime<Utc>>,
    /// Whether somebody wrote to the table since the last run; none where that is not known.
    written_since: Option<bool>,
    now: DateTime<Utc>,
    timezone: Tz,
    window: Option<(NaiveTime, NaiveTime)>,
    dreaming: Option<Dreaming>,
    /// Whether session-flush asks by the gateway's own program, which may be let in where we are not.
    by_program: bool,
}

pub(super) async fn look(
    config: &Config,
    by_program: bool,
    openclaw: Result<OpenClaw, OpenClawError>,
    runs: &runs::Found,
    table: &Table,
    asking: Asking,
    now: DateTime<Utc>,
) -> Found {
    let asked = ask(config, &openclaw, asking).await;
    let version = match &asked {
        Asked::In(_, hello) => hello.version.clone(),
        _ => None,
    };
    let openclaw = openclaw.ok().filter(|openclaw| openclaw.found() && config.has_gateway());
    Found {
        asked,
        last_night: runs.last_change(),
        written_since: written_since(table, &config.state_dir()).await,
        now,
        timezone: config.timezone,
        window: config.window,
        dreaming: openclaw.map(|openclaw| openclaw.dreaming(version.as_deref())),
        by_program,
    }
}

/// No night wrote a version that is later than the one the last run left: the gateway did, and has opened it anew by that.
async fn written_since(table: &Table, state_dir: &Path) -> Option<bool> {
    let (left_at, _) = last_version(state_dir)?;
    let is_at = table.as_ref().ok()?.store.version().await.ok()?;
    Some(is_at > left_at)
}

async fn ask(config: &Config, openclaw: &Result<OpenClaw, OpenClawError>, asking: Asking) -> Asked {
    if !config.has_gateway() {
        let found = openclaw.as_ref().ok().filter(|openclaw| openclaw.found());
        return Asked::HasNone(found.map(|openclaw| openclaw.path().display().to_string()));
    }
    let openclaw = match openclaw {
        Ok(openclaw) => openclaw,
        Err(error) => return Asked::Unusable(format!("could not {}", chain(error))),
    };
    let endpoint = openclaw.websocket();
    let place = match openclaw.listens_at() {
        Ok(place) => place,
        Err(error) => return Asked::Unusable(format!("could not {}", chain(&error))),
    };
    let url =
        endpoint.as_ref().map_or_else(|_| format!("ws://{place}"), |endpoint| endpoint.shown().to_owned());
    if asking == Asking::Nobody && !is_loopback(&url) {
        return Asked::Offline(url);
    }
    let is_here = endpoint.as_ref().map_or(true, |endpoint| is_loopback(&endpoint.url));
    if is_here && !matches!(tokio::time::timeout(PATIENCE, TcpStream::connect(&place)).await, Ok(Ok(_))) {
        return Asked::NotThere(url);
    }
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => return Asked::Unusable(format!("could not {}", chain(&error))),
    };
    match WebSocket::open(&endpoint, PATIENCE).await {
        Ok(socket) => Asked::In(url, socket.hello().clone()),
        Err(GatewayError::Refused { .. } | GatewayError::Unreachable { .. }) => Asked::NotThere(url),
        Err(error) if error.is_temporary() => Asked::Busy(format!("could not {}", chain(&error))),
        Err(error) => Asked::Refused(format!("could not {}", chain(&error))),
    }
}

pub(super) fn lines(found: &Found) -> Vec<Line> {
    let mut lines = match &found.asked {
        Asked::HasNone(None) => vec![Line::ok(CHECK, "none: episodes and database lie in the home")],
        Asked::HasNone(Some(file)) => vec![Line::ok(
            CHECK,
            format!(
                "none uses this home; {file} describes one, for which `dreamer setup --openclaw` makes a home"
            ),
        )],
        Asked::Unusable(why) => {
            vec![Line::fail(
                CHECK,
                why.clone(),
                "run `dreamer setup --openclaw PATH`, or set OPENCLAW_CONFIG_PATH",
            )]
        }
        Asked::Offline(url) => vec![Line::ok(CHECK, format!("{url} was not asked: --offline"))],
        Asked::NotThere(url) => vec![Line::fail(
            CHECK,
            format!("nothing listens at {url}"),
            "start it (`openclaw gateway start`), or set OPENCLAW_GATEWAY_URL",
        )],
        Asked::Refused(why) if found.by_program => vec![Line::warn(
            CHECK,
            why.clone(),
            "session-flush asks by the gateway's own program (DREAMER_FLUSH_TRANSPORT=cli); try `session-flush --dry-run`",
        )],
        Asked::Busy(why) => {
            vec![Line::warn(CHECK, why.clone(), "it is starting or busy: try again in a minute")]
        }
        Asked::Refused(why) => {
            vec![Line::fail(CHECK, why.clone(), "see what it says; session-flush does not work without")]
        }
        Asked::In(url, hello) => of_hello(url, hello, found),
    };
    if let (Some(dreaming), Some(window)) = (&found.dreaming, found.window) {
        lines.push(of_dreaming(dreaming, window, found.timezone, found.now));
    }
    lines
}

fn of_hello(url: &str, hello: &Hello, found: &Found) -> Vec<Line> {
    let version = hello.version.as_deref().unwrap_or("of an unknown version");
    let mut lines = vec![match hello.may_reset() {
        Some(false) => Line::fail(
            CHECK,
            format!(
                "{url} ({version}) lets us in, and grants no {SCOPE_OF_RESET}: session-flush cannot end a session"
            ),
            "use the gateway's own token (gateway.auth.token), or DREAMER_FLUSH_TRANSPORT=cli",
        ),
        Some(true) => {
            Line::ok(CHECK, format!("{url} ({version}) lets us in and lets session-flush end a session"))
        }
        None => Line::ok(CHECK, format!("{url} ({version}) lets us in; it does not say what it grants")),
    }];
    lines.extend(of_open_table(hello, found));
    lines
}

/// Whether the gateway may still be looking at the table as it was before the last night.
fn of_open_table(hello: &Hello, found: &Found) -> Option<Line> {
    const CHECK: &str = "open table";
    let (last_night, now) = (found.last_night?, found.now);
    if found.written_since == Some(true) {
        return Some(Line::ok(CHECK, "the gateway has written since the last night, so it sees its work"));
    }
    let how = match pins_its_table(hello.version.as_deref()) {
        Some(true) => "keeps the table open as it was",
        _ => "may keep the table open as it was (nobody has measured this release)",
    };
    let Some(uptime) = hello.uptime.and_then(|uptime| TimeDelta::from_std(uptime).ok()) else {
        let what = format!("since when the gateway runs is not known, and it {how}");
        return Some(Line::warn(
            CHECK,
            what,
            "restart the gateway to see the night's work, if it ran through the night",
        ));
    };
    if now - uptime > last_night {
        return Some(Line::ok(CHECK, "the gateway was started after the last night"));
    }
    let what = format!("the gateway runs since before the last night and {how} until it writes itself");
    Some(Line::warn(CHECK, what, "restart the gateway to see the night's work"))
}

fn of_dreaming(dreaming: &Dreaming, window: (NaiveTime, NaiveTime), ours: Tz, now: DateTime<Utc>) -> Line {
    const CHECK: &str = "its own dreaming";
    if !dreaming.is_on {
        return Line::ok(CHECK, "is off");
    }
    match dreaming.begins_inside(window, ours, now) {
        Some(time) => Line::warn(
            CHECK,
            format!(
                "begins at {} ({}), inside DREAMER_WINDOW {}-{}: both ask models and read the same notes at once",
                time.format("%H:%M"),
                dreaming.frequency,
                window.0.format("%H:%M"),
                window.1.format("%H:%M")
            ),
            format!(
                "move it (`openclaw config set {}.frequency \"0 6 * * *\"`), or switch it off ({0}.enabled: false)",
                dreaming.key
            ),
        ),
        None => Line::ok(CHECK, format!("({}) is not in our window", dreaming.frequency)),
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

    fn found(asked: Asked) -> Found {
        Found {
            asked,
            last_night: None,
            written_since: Some(false),
            now: at("2026-03-10T12:00:00Z"),
            timezone: Tz::UTC,
            window: None,
            dreaming: None,
            by_program: false,
        }
    }

    fn found_like(other: &Found) -> Found {
        Found { last_night: other.last_night, now: other.now, ..found(Asked::HasNone(None)) }
    }

    fn first(asked: Asked) -> Line {
        lines(&found(asked)).remove(0)
    }

    fn hello(scopes: Option<&[&str]>, uptime: Option<u64>) -> Hello {
        Hello {
            version: Some("2026.9.6".into()),
            scopes: scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect()),
            uptime: uptime.map(Duration::from_secs),
        }
    }

    #[test]
    fn a_gateway_is_reached_lets_us_in_and_lets_us_reset_or_it_is_said_why_not() {
        let url = || "ws://127.0.0.1:1".to_owned();
        assert_eq!(first(Asked::HasNone(None)).level, Level::Ok);
        assert!(first(Asked::HasNone(Some("/x/openclaw.json".into()))).what.contains("--openclaw"));
        assert_eq!(first(Asked::Offline(url())).what, "ws://127.0.0.1:1 was not asked: --offline");
        for fails in [Asked::Unusable("x".into()), Asked::NotThere(url()), Asked::Refused("x".into())] {
            assert_eq!(first(fails).level, Level::Fail);
        }
        let busy = first(Asked::Busy("x".into()));
        assert!(busy.level == Level::Warn && busy.remedy.unwrap().contains("try again"));
        let by_program = Found { by_program: true, ..found(Asked::Refused("x".into())) };
        assert_eq!(lines(&by_program)[0].level, Level::Warn);
        let all = first(Asked::In(url(), hello(Some(&["operator.admin"]), None)));
        assert!(all.level == Level::Ok && all.what.contains("2026.9.6"), "{all:?}");
        let few = first(Asked::In(url(), hello(Some(&["operator.read"]), None)));
        assert!(few.level == Level::Fail && few.what.contains("operator.admin"), "{few:?}");
        assert_eq!(first(Asked::In(url(), hello(None, None))).level, Level::Ok);
    }

    #[test]
    fn a_gateway_that_ran_through_the_night_must_be_restarted() {
        let now = at("2026-03-10T12:00:00Z");
        let told = |version: &str, uptime, night: Option<&str>| {
            let hello = Hello { version: Some(version.into()), ..hello(None, uptime) };
            let found = Found { last_night: night.map(at), now, ..found(Asked::HasNone(None)) };
            let since = of_open_table(&hello, &Found { written_since: Some(true), ..found_like(&found) });
            assert!(since.is_none_or(|line| line.level == Level::Ok), "it has written itself");
            of_open_table(&hello, &found).map(|line| (line.level, line.what))
        };
        let night = Some("2026-03-10T03:10:00Z");
        let through = told("2026.9.6", Some(86_400), night).unwrap();
        assert!(through.0 == Level::Warn && through.1.contains("keeps the table open"), "{through:?}");
        assert!(told("2027.1.0", Some(86_400), night).unwrap().1.contains("may keep"));
        assert_eq!(told("2026.9.6", Some(3_600), night).unwrap().0, Level::Ok);
        assert_eq!(told("2026.9.6", None, night).unwrap().0, Level::Warn);
        assert_eq!(told("2026.9.6", Some(86_400), None), None, "no night has changed anything yet");
    }

    #[test]
    fn two_dreams_at_the_same_time_are_told() {
        let time = |hour| NaiveTime::from_hms_opt(hour, 0, 0).unwrap();
        let told = |is_on, frequency: &str| {
            let dreaming = Dreaming { is_on, frequency: frequency.into(), timezone: None, key: "k".into() };
            of_dreaming(&dreaming, (time(1), time(5)), Tz::UTC, at("2026-03-10T12:00:00Z"))
        };
        let both = told(true, "0 3 * * *");
        assert!(both.level == Level::Warn && both.what.contains("03:00"), "{both:?}");
        assert!(both.remedy.unwrap().contains("openclaw config set k.frequency"));
        assert_eq!(told(true, "0 6 * * *").level, Level::Ok);
        assert_eq!(told(false, "0 3 * * *").level, Level::Ok);
    }
}
