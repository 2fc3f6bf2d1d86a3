//! Databases as the gateway makes them: how they are read, and that nothing is left beside them.
#![allow(clippy::unwrap_used)]

use super::super::Standing;
use super::super::line::Event;
use super::*;

const SCHEMA_SQL: &str = include_str!("../../../tests/fixtures/openclaw/agent-schema-2026.9.6.sql");
const EVENTS: &str =
    include_str!("../../../tests/fixtures/openclaw/session-2026.9.6.transcript_events.jsonl");

/// A database in WAL mode, as the gateway's; the connection is the gateway's, too.
fn gateway(folder: &Path) -> (PathBuf, Connection) {
    let path = folder.join("openclaw-agent.sqlite");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; {SCHEMA_SQL}"))
        .unwrap();
    (path, database)
}

fn session(database: &Connection, id: &str, key: &str, entry: &str) {
    database
        .execute(
            "INSERT INTO session_nodes (session_key, current_session_id, entry_json, updated_at) VALUES (?1, ?2, ?3, 0)",
            [key, id, entry],
        )
        .unwrap();
    let window =
        "INSERT INTO session_windows (session_id, session_key, created_at, updated_at) VALUES (?1, ?2, 0, 0)";
    database.execute(window, [id, key]).unwrap();
}

fn events(database: &Connection, id: &str, events: &str) {
    for (seq, event) in events.lines().enumerate() {
        let insert =
            "INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?1, ?2, ?3, 0)";
        database.execute(insert, rusqlite::params![id, seq as i64, event]).unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn told(path: &Path) -> Result<Vec<Transcript>, String> {
    read(path, "main", None)
        .map(|(transcripts, warnings)| {
            assert_eq!(warnings, Vec::<String>::new());
            transcripts
        })
        .map_err(|error| error.to_string())
}

#[test]
fn a_database_in_use_is_read_with_what_is_not_yet_in_its_main_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, database) = gateway(dir.path());
    session(&database, "s-1", "agent:main:main", "{\"sessionId\":\"s-1\"}");
    events(&database, "s-1", EVENTS);
    let (before, bytes) = (names(dir.path()), fs::read(&path).unwrap());
    let transcripts = told(&path).unwrap();
    assert_eq!((transcripts.len(), transcripts[0].lines.len()), (1, EVENTS.lines().count()));
    assert_eq!(
        (transcripts[0].key.as_deref(), transcripts[0].standing),
        (Some("agent:main:main"), Standing::Conversation)
    );
    assert_eq!(transcripts[0].lines[4].number, 5);
    assert_eq!((names(dir.path()), fs::read(&path).unwrap()), (before, bytes));
    // The gateway goes on as if nobody had been there.
    events(&database, "s-2", "");
    session(&database, "s-2", "agent:main:other", "{}");
}

#[test]
fn a_database_at_rest_is_read_and_no_file_appears_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, database) = gateway(dir.path());
    session(&database, "s-1", "agent:main:main", "{}");
    events(&database, "s-1", EVENTS);
    drop(database);
    assert_eq!(names(dir.path()), ["openclaw-agent.sqlite"]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(told(&path).unwrap()[0].lines.len(), EVENTS.lines().count());
    assert_eq!(
        (names(dir.path()), fs::read(&path).unwrap()),
        (vec!["openclaw-agent.sqlite".to_owned()], bytes)
    );
}

#[test]
fn what_a_crash_left_is_read_from_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (path, database) = gateway(dir.path());
    session(&database, "s-1", "agent:main:main", "{}");
    events(&database, "s-1", EVENTS);
    let crashed = tempfile::tempdir().unwrap();
    let copy = crashed.path().join("openclaw-agent.sqlite");
    fs::copy(&path, &copy).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&copy, "-wal")).unwrap();
    assert_eq!(told(&copy).unwrap()[0].lines.len(), EVENTS.lines().count());
    assert_eq!(names(crashed.path()), ["openclaw-agent.sqlite", "openclaw-agent.sqlite-wal"]);
}

#[test]
fn a_locked_database_a_newer_one_and_a_broken_one_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (path, database) = gateway(dir.path());
    database.execute_batch("PRAGMA user_version = 24").unwrap();
    assert!(told(&path).unwrap_err().contains("schema 24"));
    database.execute_batch("PRAGMA user_version = 16; DROP TABLE transcript_events").unwrap();
    assert!(told(&path).unwrap_err().contains("schema 16 without transcript_events"));
    database.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    assert!(told(&path).unwrap_err().contains("locked"));
    let broken = dir.path().join("broken.sqlite");
    fs::write(&broken, "not a database, and long enough to hold a header").unwrap();
    assert!(told(&broken).is_err());
    fs::write(&broken, "").unwrap();
    assert!(told(&broken).unwrap_err().contains("schema 0"));
}

#[test]
fn a_packed_event_is_unpacked_and_a_damaged_one_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (path, database) = gateway(dir.path());
    session(&database, "s-1", "agent:main:main", "{}");
    let event = EVENTS.lines().find(|line| line.contains("no peanuts")).unwrap();
    let navigation = "{\"version\":1,\"report\":{\"kind\":\"canonical\"},\"navigation\":{},\"reset\":{},\"model\":{},\
                      \"modelBytes\":1,\"modelWithoutCheckpointBytes\":1,\"withoutCustomDataBytes\":1}";
    let insert = "INSERT INTO transcript_events (session_id, seq, created_at, event_zstd, event_utf8_bytes, navigation_json) \
                  VALUES ('s-1', ?1, 0, ?2, ?3, ?4)";
    let packed = zstd::bulk::compress(event.as_bytes(), 1).unwrap();
    let length = event.len() as i64;
    database.execute(insert, rusqlite::params![0, packed, length, navigation]).unwrap();
    database.execute(insert, rusqlite::params![1, &packed[..packed.len() / 2], length, navigation]).unwrap();
    database.execute(insert, rusqlite::params![2, packed, length - 1, navigation]).unwrap();
    let (transcripts, warnings) = read(&path, "main", None).unwrap();
    let said = |line: &Line| matches!(&line.event, Event::Said(said) if said.text.contains("no peanuts"));
    assert_eq!((transcripts[0].lines.len(), said(&transcripts[0].lines[0])), (1, true));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("2 events of session s-1"), "{warnings:?}");
}

#[test]
fn private_sessions_are_not_read_and_machines_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (path, database) = gateway(dir.path());
    for (id, key, entry) in [
        ("a", "agent:main:dashboard:incognito-1", "{}"),
        ("b", "agent:main:dashboard:2", "{\"incognito\":true}"),
        ("c", "agent:main:cron:job:run:1", "{}"),
        ("d", "agent:main:main", "{}"),
        ("e", "agent:main:dashboard:3", "{}"),
    ] {
        session(&database, id, key, entry);
        events(&database, id, EVENTS);
    }
    database
        .execute("UPDATE session_windows SET spawned_by = 'agent:main:main' WHERE session_id = 'e'", [])
        .unwrap();
    let standing: Vec<(Standing, bool)> =
        told(&path).unwrap().iter().map(|t| (t.standing, t.lines.is_empty())).collect();
    let (private, machine, people) =
        ((Standing::Private, true), (Standing::Unattended, false), (Standing::Conversation, false));
    assert_eq!(standing, [private, private, machine, people, machine]);
    assert_eq!(read(&path, "main", Some("d")).unwrap().0.len(), 1);
}
