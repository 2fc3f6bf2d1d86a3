//! Transcripts of older gateways: one JSONL file a session under `agents/<agent>/sessions`, with `sessions.json` as the
//! index of the sessions that are open. Reads only.
//!
//! Facts, read in the source of openclaw 2026.4.15 (`config/sessions/artifacts`, `session-memory`):
//! - `<session id>.jsonl`, with a topic `<session id>-topic-<n>.jsonl`. After `/new` the key gets another session id and
//!   the old file is renamed to `<session id>.jsonl.reset.<time>`; one that was deleted to `….deleted.<time>`.
//! - `….checkpoint.<uuid>.jsonl` and `….bak.<time>` are copies; they and what was deleted are not read.
//! - `sessions.json` maps a session key to its entry with `sessionId`; a session that was left is no longer in it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use chrono::{DateTime, NaiveDateTime, Utc};
use regex::Regex;
use serde_json::Value;

use super::line::{self, Event, Line};
use super::{Transcript, standing};

/// The transcripts of one agent, and what the operator should know.
pub(super) fn read(
    folder: &Path,
    agent: &str,
    session: Option<&str>,
) -> io::Result<(Vec<Transcript>, Vec<String>)> {
    let mut warnings = Vec::new();
    let keys = keys(&folder.join("sessions.json"), &mut warnings);
    let mut files: Vec<(PathBuf, String, Option<DateTime<Utc>>)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((id, ended)) = session_in(&name)
            && path.is_file()
            && session.is_none_or(|wanted| super::plain(&id) == wanted)
        {
            files.push((path, id, ended));
        }
    }
    files.sort();
    let mut transcripts = Vec::new();
    for (path, id, ended) in files {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                warnings.push(format!("{}: {error}: this transcript is not read", path.display()));
                continue;
            }
        };
        let (lines, torn) = lines_of(&bytes);
        if torn > 0 {
            let lines = crate::language::counted(torn, "line");
            warnings.push(format!(
                "{}: {lines} could not be read and {} passed over",
                path.display(),
                if torn == 1 { "is" } else { "are" }
            ));
        }
        let header = lines.iter().find_map(|line| match &line.event {
            Event::Header(id) if !id.is_empty() => Some(id.clone()),
            _ => None,
        });
        // The file's name and its header may tell of two sessions: what either is, it is.
        let told = [header.as_ref().unwrap_or(&id), &id]
            .map(|id| keys.get(id).map_or((None, &Value::Null), |(key, entry)| (Some(key.clone()), entry)));
        let standing = told.iter().map(|(key, entry)| standing::of(key.as_deref(), entry)).max();
        let standing = standing.unwrap_or(standing::of(None, &Value::Null));
        let key = told.into_iter().find_map(|(key, _)| key);
        let id = header.unwrap_or(id);
        transcripts.push(Transcript {
            agent: agent.to_owned(),
            session: id,
            key,
            standing,
            path,
            lines,
            ended,
        });
    }
    Ok((transcripts, warnings))
}

/// The session id in a transcript's name, and when the session was left.
fn session_in(name: &str) -> Option<(String, Option<DateTime<Utc>>)> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^([^.]+)\.jsonl(?:\.reset\.(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2})(?:\.\d{3})?Z)?$")
            .expect("the pattern is fixed")
    });
    let found = NAME.captures(name)?;
    let ended =
        found.get(2).and_then(|time| NaiveDateTime::parse_from_str(time.as_str(), "%Y-%m-%dT%H-%M-%S").ok());
    Some((found[1].to_owned(), ended.map(|time| time.and_utc())))
}

/// Session key and entry by session id. Without the index a session's key is unknown, and the messages tell what it is.
fn keys(path: &Path, warnings: &mut Vec<String>) -> HashMap<String, (String, Value)> {
    let regular = fs::metadata(path).and_then(|found| match found.is_file() {
        true => fs::read_to_string(path),
        false => Err(io::Error::other("it is no file")),
    });
    let text = match regular {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                warnings.push(format!("{}: {error}: session keys are unknown", path.display()));
            }
            return HashMap::new();
        }
    };
    let entries = match serde_json::from_str::<serde_json::Map<String, Value>>(&text) {
        Ok(entries) => entries,
        Err(error) => {
            warnings.push(format!("{}: {error}: session keys are unknown", path.display()));
            return HashMap::new();
        }
    };
    let by_id = |(key, entry): (String, Value)| Some((entry["sessionId"].as_str()?.to_owned(), (key, entry)));
    entries.into_iter().filter_map(by_id).collect()
}

/// The events of a file and how many lines could not be read. The last line does not count while it is being written.
fn lines_of(bytes: &[u8]) -> (Vec<Line>, usize) {
    let text = String::from_utf8_lossy(bytes);
    let (mut lines, mut torn) = (Vec::new(), 0);
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut at = 0;
    for (index, row) in text.split('\n').enumerate() {
        let being_written = at >= whole;
        at += row.len() + 1;
        if row.trim().is_empty() {
            continue;
        }
        match line::read(row, index + 1) {
            Some(line) => lines.push(line),
            None => torn += usize::from(!being_written),
        }
    }
    (lines, torn)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_transcripts_are_read_and_no_copies_of_them() {
        let id = "880235eb-83ae-4dea-a023-03e858b5e462";
        for (name, expected) in [
            (format!("{id}.jsonl"), Some(None)),
            (format!("{id}-topic-7.jsonl"), Some(None)),
            (format!("{id}.jsonl.reset.2026-11-30T07-22-41.123Z"), Some(Some("2026-11-30T07:22:41Z"))),
            (format!("{id}.jsonl.deleted.2026-11-30T07-22-41.123Z"), None),
            (format!("{id}.jsonl.bak.2026-11-30T07-22-41.123Z"), None),
            (format!("{id}.checkpoint.{id}.jsonl"), None),
            (format!("{id}.trajectory.jsonl"), None),
            ("sessions.json".to_owned(), None),
        ] {
            let expected = expected.map(|ended| ended.map(|at| at.parse::<DateTime<Utc>>().unwrap()));
            assert_eq!(session_in(&name).map(|(_, ended)| ended), expected, "{name}");
        }
    }

    #[test]
    fn a_torn_line_is_passed_over_and_one_being_written_waits() {
        let (lines, torn) = lines_of(b"{\"type\":\"session\",\"id\":\"s\"}\n{\"type\":\"mess\n\n{\"type\":\"reset\",\"id\":\"r\",\"parentId\":null}\n{\"type\":\"mes");
        assert_eq!((lines.len(), torn), (2, 1));
        assert_eq!(lines[1].number, 4);
    }
}
