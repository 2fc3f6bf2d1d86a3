//! The timers: whether anything runs the night, and the flush before it. systemd is asked, for the system and for the user,
//! and the crontab is read.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Line;

const CHECK: &str = "timers";

/// Whether a timer of systemd is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Enabled,
    /// It is there and does not run.
    Disabled,
    Missing,
}

/// What runs the night and the flush.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The timers of the night and of the flush; none where there is no systemctl.
    units: Option<(Unit, Unit)>,
    /// Whether lines of a crontab run them.
    cron: (bool, bool),
    has_gateway: bool,
    /// Folders that a night writes to and its unit does not let it.
    closed: Vec<PathBuf>,
}

/// `written` are the folders that a night writes to.
pub(super) fn look(has_gateway: bool, written: &[PathBuf]) -> Found {
    let cron = crontab();
    let runs = |program: &str| {
        let mut lines = cron.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        lines.any(|line| line.split(|c: char| c.is_whitespace() || c == '/').any(|word| word == program))
    };
    Found {
        units: unit("dreamer.timer").zip(unit("session-flush.timer")),
        cron: (runs("dreamer"), runs("session-flush")),
        has_gateway,
        closed: said("systemctl", &["show", "--property=ReadWritePaths", "dreamer.service"])
            .map(|shown| closed(&shown, written))
            .unwrap_or_default(),
    }
}

/// The folders outside what `systemctl show` says can be written. A unit that says nothing of that keeps nothing closed.
fn closed(shown: &str, written: &[PathBuf]) -> Vec<PathBuf> {
    let listed = shown.lines().find_map(|line| line.strip_prefix("ReadWritePaths=")).unwrap_or_default();
    // A dash stands before one that need not be there; a path with spaces is several words here.
    let is_open = |folder: &PathBuf| {
        listed.contains(&*folder.to_string_lossy())
            || listed.split_whitespace().any(|word| folder.starts_with(word.trim_matches(['-', '"'])))
    };
    match listed.trim().is_empty() {
        true => Vec::new(),
        false => written.iter().filter(|folder| !is_open(folder)).cloned().collect(),
    }
}

/// The better one of the system's and the user's unit of that name.
fn unit(name: &str) -> Option<Unit> {
    let states =
        [said("systemctl", &["is-enabled", name])?, said("systemctl", &["--user", "is-enabled", name])?];
    let state = |said: &String| match said.trim() {
        "enabled" | "enabled-runtime" | "static" | "linked" | "alias" => Unit::Enabled,
        "disabled" | "masked" | "masked-runtime" | "indirect" => Unit::Disabled,
        _ => Unit::Missing,
    };
    let all: Vec<Unit> = states.iter().map(state).collect();
    let best = [Unit::Enabled, Unit::Disabled].into_iter().find(|unit| all.contains(unit));
    Some(best.unwrap_or(Unit::Missing))
}

/// The lines of the user's crontab and of the system's.
fn crontab() -> String {
    let mut text = said("crontab", &["-l"]).unwrap_or_default();
    for path in ["/etc/crontab", "/etc/cron.d/dreamer"] {
        text.push('\n');
        text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
    }
    text
}

/// What a program says on stdout; none where there is no such program.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn lines(found: &Found) -> Vec<Line> {
    let (night, flush) = match found.units {
        Some(units) => units,
        None => (Unit::Missing, Unit::Missing),
    };
    let mut lines = vec![one("dreamer", "the night", night, found.cron.0, found.units.is_some())];
    if found.has_gateway {
        lines.push(one("session-flush", "the flush before it", flush, found.cron.1, found.units.is_some()));
    }
    lines.extend(found.closed.iter().map(|folder| {
        Line::fail(
            CHECK,
            format!("dreamer.service does not let a timed night write to {}", folder.display()),
            "run `sudo scripts/install-units` again: the settings have changed since",
        )
    }));
    lines
}

fn one(name: &str, what: &str, unit: Unit, by_cron: bool, has_systemd: bool) -> Line {
    match (unit, by_cron, has_systemd) {
        (Unit::Enabled, _, _) => Line::ok(CHECK, format!("{name}.timer runs {what}")),
        (_, true, _) => Line::ok(CHECK, format!("a crontab runs {what}")),
        (Unit::Disabled, false, _) => Line::warn(
            CHECK,
            format!("{name}.timer is installed and not enabled"),
            format!("sudo systemctl enable --now {name}.timer"),
        ),
        (Unit::Missing, false, true) => Line::warn(
            CHECK,
            format!("nothing runs {what}: no {name}.timer and no line in a crontab"),
            "sudo scripts/install-units",
        ),
        (Unit::Missing, false, false) => Line::warn(
            CHECK,
            format!("there is no systemctl here, and no crontab runs {what}"),
            "see examples/crontab, or run it by other means",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_night_that_nobody_starts_is_told() {
        let told = |units, cron| {
            let lines = lines(&Found { units, cron, has_gateway: true, closed: vec![] });
            (lines[0].level, lines[1].level, lines[0].remedy.clone().unwrap_or_default())
        };
        let (enabled, disabled, missing) = (Unit::Enabled, Unit::Disabled, Unit::Missing);
        assert_eq!(told(Some((enabled, enabled)), (false, false)), (Level::Ok, Level::Ok, String::new()));
        let half = told(Some((enabled, disabled)), (false, false));
        assert_eq!((half.0, half.1), (Level::Ok, Level::Warn));
        assert!(told(Some((disabled, enabled)), (false, false)).2.contains("enable --now dreamer.timer"));
        assert!(told(Some((missing, missing)), (false, false)).2.contains("install-units"));
        assert_eq!(told(Some((missing, missing)), (true, true)).0, Level::Ok);
        assert!(told(None, (false, false)).2.contains("examples/crontab"));
        assert_eq!(told(None, (true, false)).1, Level::Warn);
        let alone = lines(&Found { units: None, cron: (true, false), has_gateway: false, closed: vec![] });
        assert_eq!(alone.len(), 1, "without a gateway there is nothing to flush");
    }

    #[test]
    fn a_folder_that_the_unit_keeps_closed_is_told() {
        let written = ["/home/ann/.dreamer/episodes", "/srv/db", "/ws/my notes/memory", "/ws-work/memory"];
        let written = written.map(PathBuf::from);
        let shown = "ReadWritePaths=/home/ann/.dreamer -/srv/db \"-/ws/my notes/memory\"\n";
        assert_eq!(closed(shown, &written), [PathBuf::from("/ws-work/memory")]);
        assert!(closed("ReadWritePaths=\n", &written).is_empty(), "it says nothing of that");
        assert!(closed("enabled\n", &written).is_empty());
        let closed = vec!["/ws-work/memory".into()];
        let lines = lines(&Found { units: None, cron: (true, true), has_gateway: true, closed });
        assert!(lines[2].level == Level::Fail && lines[2].what.ends_with("/ws-work/memory"), "{lines:?}");
    }

    #[test]
    fn a_program_that_is_not_there_says_nothing() {
        assert_eq!(said("no-such-program-of-dreamer", &[]), None);
    }
}
