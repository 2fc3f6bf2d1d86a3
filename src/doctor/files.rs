//! The home's folders and files: whether they are there, whose eyes they are open to, whether they can be written, and
//! whether a link leads out of the home or nowhere.

use std::fs;
use std::path::{Path, PathBuf};

use super::Line;
use crate::config::{FLUSH_VARIABLES, VARIABLES, read_env_file};
use crate::setup::FOLDERS;

const CHECK: &str = "files";

/// What a path should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The home.
    Home,
    /// A folder of the home.
    Folder,
    /// A folder elsewhere that a night writes to.
    Outside,
    /// The settings file: whether a key stands in it.
    Settings { holds_a_key: bool },
}

/// A path and how it is.
#[derive(Debug, Clone)]
pub(super) struct Found {
    path: PathBuf,
    kind: Kind,
    is_there: bool,
    /// The permission bits, where this system has them.
    mode: Option<u32>,
    is_writable: bool,
    /// Where a link leads; none where it leads nowhere.
    link: Option<Option<PathBuf>>,
}

pub(super) fn look(home: &Path, others: &[PathBuf]) -> Vec<Found> {
    let mut found = vec![at(home, Kind::Home)];
    found.extend(FOLDERS.iter().map(|name| at(&home.join(name), Kind::Folder)));
    let outside = |path: &&PathBuf| !path.starts_with(home);
    found.extend(others.iter().filter(outside).map(|path| at(path, Kind::Outside)));
    let settings = home.join(".env");
    let values = read_env_file(&settings).ok().flatten().map(|file| file.values).unwrap_or_default();
    let secrets = VARIABLES.iter().chain(FLUSH_VARIABLES).filter(|variable| variable.secret);
    let holds_a_key = secrets
        .map(|variable| values.get(variable.name))
        .any(|value| value.is_some_and(|v| !v.trim().is_empty()));
    found.push(at(&settings, Kind::Settings { holds_a_key }));
    found
}

fn at(path: &Path, kind: Kind) -> Found {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_symlink());
    let metadata = fs::metadata(path).ok();
    Found {
        path: path.to_owned(),
        kind,
        is_there: metadata.is_some(),
        mode: metadata.as_ref().and_then(mode),
        is_writable: is_writable(path),
        link: is_link.then(|| fs::canonicalize(path).ok()),
    }
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.permissions().readonly())
}

pub(super) fn lines(found: &[Found]) -> Vec<Line> {
    let home = found.iter().find(|found| found.kind == Kind::Home).map(|found| found.path.clone());
    let mut lines: Vec<Line> =
        found.iter().flat_map(|found| line(found, home.as_deref().unwrap_or(Path::new("/")))).collect();
    if lines.is_empty() {
        let home = home.map(|home| home.display().to_string()).unwrap_or_default();
        lines.push(Line::ok(CHECK, format!("{home} and its folders are there, yours alone and writable")));
    }
    lines
}

fn line(found: &Found, home: &Path) -> Vec<Line> {
    let Found { path, kind, is_there, mode, is_writable, link } = found;
    let shown = path.display();
    match link {
        Some(None) => {
            return vec![Line::fail(
                CHECK,
                format!("{shown} is a link that leads nowhere"),
                "remove or correct it",
            )];
        }
        Some(Some(to)) if *kind != Kind::Home && *kind != Kind::Outside && !leads_inside(to, home) => {
            let what = format!("{shown} is a link out of the home, to {}", to.display());
            let remedy = "let the settings name that folder instead; backups of the home lack it";
            return vec![Line::warn(CHECK, what, remedy)];
        }
        _ => {}
    }
    if !is_there {
        return match kind {
            Kind::Settings { .. } => vec![Line::warn(
                CHECK,
                format!("there is no {shown}"),
                "run `dreamer setup`, it makes one to edit",
            )],
            Kind::Outside => vec![Line::fail(
                CHECK,
                format!("{shown} is not there"),
                "correct DREAMER_LANCEDB_URI, or start the gateway, which makes it",
            )],
            Kind::Home | Kind::Folder => vec![Line::warn(
                CHECK,
                format!("{shown} is missing"),
                "run `dreamer setup`, it makes what is missing",
            )],
        };
    }
    let mut lines = Vec::new();
    if !is_writable && !matches!(kind, Kind::Settings { .. }) {
        lines.push(Line::fail(
            CHECK,
            format!("{shown} cannot be written"),
            format!("chown or chmod it for the user that runs dreamer: {shown}"),
        ));
    }
    let is_open = mode.is_some_and(|mode| mode & 0o077 != 0);
    match kind {
        Kind::Home if is_open => lines.push(Line::warn(
            CHECK,
            format!("{shown} is open to others ({:03o}), and memories are private", mode.unwrap_or_default()),
            format!("chmod 700 {shown}"),
        )),
        Kind::Settings { holds_a_key: true } if is_open => lines.push(Line::fail(
            CHECK,
            format!("{shown} holds a key and is open to others ({:03o})", mode.unwrap_or_default()),
            format!("chmod 600 {shown}"),
        )),
        Kind::Settings { holds_a_key: false } if is_open => lines.push(Line::warn(
            CHECK,
            format!("{shown} is open to others ({:03o})", mode.unwrap_or_default()),
            format!("chmod 600 {shown}"),
        )),
        _ => {}
    }
    lines
}

fn leads_inside(to: &Path, home: &Path) -> bool {
    let real = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    to.starts_with(real) || to.starts_with(home)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn found(kind: Kind, mode: u32) -> Found {
        Found { path: "/h/x".into(), kind, is_there: true, mode: Some(mode), is_writable: true, link: None }
    }

    fn told(found: Found) -> Option<(Level, String)> {
        let mut lines = line(&found, Path::new("/h"));
        assert!(lines.len() < 2, "{lines:?}");
        lines.pop().map(|line| (line.level, line.remedy.unwrap()))
    }

    #[test]
    fn what_is_open_missing_closed_or_linked_away_is_told() {
        let settings = |holds_a_key| Kind::Settings { holds_a_key };
        assert_eq!(told(found(Kind::Home, 0o700)), None);
        assert_eq!(told(found(Kind::Folder, 0o755)), None, "the home keeps it closed");
        assert_eq!(told(found(Kind::Home, 0o755)), Some((Level::Warn, "chmod 700 /h/x".into())));
        assert_eq!(told(found(settings(true), 0o644)), Some((Level::Fail, "chmod 600 /h/x".into())));
        assert_eq!(told(found(settings(false), 0o644)).unwrap().0, Level::Warn);
        assert_eq!(told(found(settings(true), 0o600)), None);
        let missing = |kind| told(Found { is_there: false, mode: None, ..found(kind, 0) }).unwrap().0;
        assert_eq!((missing(Kind::Folder), missing(Kind::Outside)), (Level::Warn, Level::Fail));
        assert_eq!(told(Found { is_writable: false, ..found(Kind::Folder, 0o500) }).unwrap().0, Level::Fail);
        assert_eq!(told(Found { link: Some(None), ..found(Kind::Folder, 0o700) }).unwrap().0, Level::Fail);
        let away = Found { link: Some(Some("/mnt/x".into())), ..found(Kind::Folder, 0o700) };
        assert_eq!(told(away).unwrap().0, Level::Warn);
        let inside = Found { link: Some(Some("/h/y".into())), ..found(Kind::Folder, 0o700) };
        assert_eq!(told(inside), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_home_as_setup_makes_it_is_fine_and_nothing_is_made_by_looking() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        for name in FOLDERS {
            crate::state::create_folder(&home.join(name)).unwrap();
        }
        let told = lines(&look(&home, &[]));
        assert_eq!((told.len(), told[0].level), (1, Level::Warn), "no settings file: {told:?}");
        fs::write(home.join(".env"), "OPENAI_API_KEY=sk-x\n").unwrap();
        fs::set_permissions(home.join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
        let told = lines(&look(&home, &[home.join("lancedb")]));
        assert_eq!((told.len(), told[0].level), (1, Level::Ok), "{told:?}");
        fs::set_permissions(home.join(".env"), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(lines(&look(&home, &[]))[0].level, Level::Fail);
    }
}
