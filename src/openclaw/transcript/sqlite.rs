//! Transcripts of current gateways: `transcript_events` in `agents/<agent>/agent/openclaw-agent.sqlite`. Never writes to
//! the database nor leaves a file beside it.
//!
//! Facts, read in the source of openclaw 2026.9.6 (`openclaw-agent-schema`, `transcript-payload`, `sqlite-wal`):
//! - `user_version` is 23. An event is `event_json`, or `event_zstd` (one zstd frame, no dictionary, `event_utf8_bytes` long
//!   when unpacked, 4 MiB at most). `session_windows` gives a session's key, `session_nodes.entry_json` its entry.
//! - One session id lives on through `/new`: a `reset` event parts the conversations.
//! - The gateway writes in WAL mode. While it runs, `-wal` and `-shm` are there and a reader joins them as any other; it
//!   takes a read lock for as long as it reads. When it does not, there is no `-wal`, and an ordinary reader would
//!   make one: so such a database is opened as immutable, and read again if it changed meanwhile. A `-wal` without
//!   `-shm` is what a crash left: database and `-wal` are read as a copy in a temporary folder.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Value, json};

use super::line::{self, Line};
use super::{Transcript, standing};

/// The newest schema that this version knows.
const SCHEMA: i64 = 23;
/// How long a reader waits for a lock.
const PATIENCE: Duration = Duration::from_millis(250);
/// Bytes of an unpacked event at most.
const EVENT_BYTES: usize = 4 << 20;

/// Why a database is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// It belongs to a gateway that is newer than this program.
    #[error("it has schema {0}, and this version of Dreamer reads up to {SCHEMA}; update Dreamer")]
    Newer(i64),
    /// It has not the tables that are read.
    #[error("it has schema {0} without {1}; let `openclaw doctor --fix` bring it up to date")]
    Lacks(i64, &'static str),
    /// Another program holds it.
    #[error("it is locked by another program; the next night tries again")]
    Locked,
    /// SQLite says so.
    #[error("{0}")]
    Sqlite(rusqlite::Error),
    /// A file cannot be read or copied.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<rusqlite::Error> for Unreadable {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Self::Locked,
            _ => Self::Sqlite(error),
        }
    }
}

/// The transcripts in a database, and what the operator should know.
pub(super) fn read(
    path: &Path,
    agent: &str,
    session: Option<&str>,
) -> Result<(Vec<Transcript>, Vec<String>), Unreadable> {
    let before = stamp(path)?;
    let first = read_once(path, agent, session);
    // Somebody began to write while it was read as if nobody could: only the second look is sure of what it saw.
    if stamp(path)? == before { first } else { read_once(path, agent, session) }
}

/// What changes when somebody writes to a database that was at rest.
fn stamp(path: &Path) -> io::Result<(u64, Option<SystemTime>, bool)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.len(), metadata.modified().ok(), beside(path, "-wal").exists()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn read_once(
    path: &Path,
    agent: &str,
    session: Option<&str>,
) -> Result<(Vec<Transcript>, Vec<String>), Unreadable> {
    with(path, |database| read_from(database, path, agent, session))
}

/// Lets a database be read without leaving a trace of that.
fn with<T>(path: &Path, read: impl Fn(&Connection) -> Result<T, Unreadable>) -> Result<T, Unreadable> {
    let wal = beside(path, "-wal").is_file();
    if wal && !beside(path, "-shm").exists() {
        let copy = tempfile::tempdir()?;
        let name = copy.path().join("copy.sqlite");
        fs::copy(path, &name)?;
        fs::copy(beside(path, "-wal"), beside(&name, "-wal"))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        return read(&Connection::open_with_flags(&name, flags)?);
    }
    let read_only =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let immutable = if !wal && is_wal_mode(path)? { "?immutable=1" } else { "" };
    let address = format!("file:{}{immutable}", escaped(path));
    read(&Connection::open_with_flags(address, read_only)?)
}

/// Which events of each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Every one.
    All,
    /// The one that tells of the session itself.
    First,
}

/// The newest events with their sessions, in the order in which they happened: for figures, so any schema that has them
/// will do, and what cannot be unpacked is left out.
pub(super) fn events(path: &Path, which: Which, most: u32) -> Result<Vec<(String, String)>, Unreadable> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    with(path, |database| {
        database.busy_timeout(PATIENCE)?;
        let there = columns(database, "transcript_events")?;
        let packed = there.contains("event_zstd") && there.contains("event_utf8_bytes");
        let query = format!(
            "SELECT session_id, event_json, {} FROM transcript_events {} ORDER BY created_at DESC, seq DESC LIMIT ?1",
            if packed { "event_zstd, event_utf8_bytes" } else { "NULL, NULL" },
            if which == Which::First { "WHERE seq <= 1" } else { "" }
        );
        let mut statement = database.prepare(&query)?;
        let mut rows = statement.query([most])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            let text = match row.get::<_, Option<String>>(1)? {
                Some(text) => Some(text),
                None => unpacked(row.get(2)?, row.get(3)?),
            };
            events.extend(text.map(|text| Ok::<_, Unreadable>((row.get(0)?, text))).transpose()?);
        }
        events.reverse();
        Ok(events)
    })
}

/// Whether the header says that the database is written in WAL mode.
fn is_wal_mode(path: &Path) -> io::Result<bool> {
    let mut header = [0_u8; 20];
    let mut file = fs::File::open(path)?;
    Ok(file.read_exact(&mut header).is_ok() && header[18..20] == [2, 2])
}

/// A path as SQLite wants it in an address.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

fn read_from(
    database: &Connection,
    path: &Path,
    agent: &str,
    session: Option<&str>,
) -> Result<(Vec<Transcript>, Vec<String>), Unreadable> {
    database.busy_timeout(PATIENCE)?;
    // One snapshot for all that is read.
    database.execute_batch("BEGIN")?;
    let schema: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if schema > SCHEMA {
        return Err(Unreadable::Newer(schema));
    }
    let events = columns(database, "transcript_events")?;
    let windows = columns(database, "session_windows")?;
    let nodes = columns(database, "session_nodes")?;
    let has = |columns: &HashSet<String>, names: &[&str]| names.iter().all(|name| columns.contains(*name));
    for (there, what) in [
        (has(&events, &["session_id", "seq", "event_json"]), "transcript_events"),
        (has(&windows, &["session_id", "session_key"]), "session_windows"),
        (has(&nodes, &["session_key", "entry_json"]), "session_nodes"),
    ] {
        if !there {
            return Err(Unreadable::Lacks(schema, what));
        }
    }
    let mut warnings = Vec::new();
    let mut transcripts = Vec::new();
    for (id, key, entry) in sessions(database, &windows, &nodes)? {
        if session.is_some_and(|wanted| super::plain(&id) != wanted) {
            continue;
        }
        let standing = standing::of(key.as_deref(), &entry);
        let mut damaged = 0;
        let lines = match standing {
            // Not even looked at.
            standing::Standing::Private => vec![],
            _ => lines_of(database, &events, &id, &mut damaged)?,
        };
        if damaged > 0 {
            let events = crate::language::counted(damaged, "event");
            let are = if damaged == 1 { "is" } else { "are" };
            warnings.push(format!(
                "{}: {events} of session {id} could not be read and {are} passed over",
                path.display()
            ));
        }
        let path = path.to_owned();
        transcripts.push(Transcript {
            agent: agent.to_owned(),
            session: id,
            key,
            standing,
            path,
            lines,
            ended: None,
        });
    }
    Ok((transcripts, warnings))
}

fn columns(database: &Connection, table: &str) -> Result<HashSet<String>, Unreadable> {
    let mut statement = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Session id, key and what is kept about the session.
fn sessions(
    database: &Connection,
    windows: &HashSet<String>,
    nodes: &HashSet<String>,
) -> Result<Vec<(String, Option<String>, Value)>, Unreadable> {
    let column = |there: &HashSet<String>, table: &str, name: &str| match there.contains(name) {
        true => format!("{table}.{name}"),
        false => "NULL".to_owned(),
    };
    let query = format!(
        "SELECT w.session_id, w.session_key, n.entry_json, {}, {}, {}, {} \
         FROM session_windows w LEFT JOIN session_nodes n ON n.session_key = w.session_key ORDER BY w.session_id",
        column(windows, "w", "spawned_by"),
        column(windows, "w", "acp_owned"),
        column(windows, "w", "hook_external_content_source"),
        column(nodes, "n", "created_via"),
    );
    let session = |row: &Row<'_>| {
        let entry: Option<String> = row.get(2)?;
        let mut entry: Value = entry.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        if !entry.is_object() {
            entry = json!({});
        }
        for (name, place) in [("spawnedBy", 3), ("hookExternalContentSource", 5), ("createdVia", 6)] {
            if let Some(text) = row.get::<_, Option<String>>(place)? {
                entry[name] = text.into();
            }
        }
        if row.get::<_, Option<i64>>(4)? == Some(1) {
            entry["acp"] = json!({});
        }
        Ok((row.get(0)?, row.get(1)?, entry))
    };
    let mut statement = database.prepare(&query)?;
    let sessions = statement.query_map([], session)?;
    Ok(sessions.collect::<Result<_, _>>()?)
}

/// The events of a session in order. One that cannot be unpacked or read is counted and passed over.
fn lines_of(
    database: &Connection,
    columns: &HashSet<String>,
    session: &str,
    damaged: &mut usize,
) -> Result<Vec<Line>, Unreadable> {
    let packed = columns.contains("event_zstd") && columns.contains("event_utf8_bytes");
    let query = format!(
        "SELECT seq, event_json, {} FROM transcript_events WHERE session_id = ?1 ORDER BY seq",
        if packed { "event_zstd, event_utf8_bytes" } else { "NULL, NULL" }
    );
    let mut statement = database.prepare(&query)?;
    let mut rows = statement.query([session])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let number = usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default() + 1;
        let text = match row.get::<_, Option<String>>(1)? {
            Some(text) => Some(text),
            None => unpacked(row.get(2)?, row.get(3)?),
        };
        match text.and_then(|text| line::read(&text, number)) {
            Some(line) => lines.push(line),
            None => *damaged += 1,
        }
    }
    Ok(lines)
}

fn unpacked(bytes: Option<Vec<u8>>, length: Option<i64>) -> Option<String> {
    let length = usize::try_from(length?).ok().filter(|length| *length <= EVENT_BYTES)?;
    let text = zstd::bulk::decompress(&bytes?, length).ok()?;
    String::from_utf8(text).ok().filter(|text| text.len() == length)
}

#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;
