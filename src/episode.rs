//! An episode: one markdown file of raw experience. Finds the files of a night, reads them (the one directory read
//! outside the edges) and says which day and which messages they hold.
//! Cutting the messages into chunks is `nrem::chunk`; the gateway's own grammar is `openclaw::session`.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use regex::Regex;
use sha2::{Digest, Sha256};

use crate::language;
use crate::openclaw::session;

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The owner of the agent.
    User,
    /// The agent.
    Assistant,
    /// Another person, by name.
    Person(String),
    /// Nobody: a note, a document, a free-form file.
    Note,
}

impl Speaker {
    /// `user`, `assistant`, `note`, or the person's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Person(name) => name,
            Self::Note => "note",
        }
    }
}

/// One message of a session, after its envelope was read and stripped.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who said it.
    pub speaker: Speaker,
    /// When, if the message itself says so.
    pub at: Option<DateTime<Utc>>,
    /// The words, cleaned: no envelope, no recalled block. Empty when nothing that anybody said is left.
    pub text: String,
    /// Why nothing is left, for a message that was cleaned away whole.
    pub noise: Option<&'static str>,
    /// Memories the gateway had put before the prompt: recalled text, never evidence.
    pub injected: Vec<String>,
    /// First and last line in the file, counted from 1.
    pub lines: (usize, usize),
}

/// What an episode holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A session written by the gateway's hook.
    Session(Vec<Message>),
    /// Any other markdown: its text, front matter blanked out with the line count kept.
    Notes(String),
}

/// One markdown file of raw experience.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Where it lies.
    pub path: PathBuf,
    /// Its file name: `YYYY-MM-DD.md` or `YYYY-MM-DD-slug.md`.
    pub name: String,
    /// The date in its name.
    pub date: NaiveDate,
    /// Hex SHA-256 of the file's bytes as read.
    pub digest: String,
    /// The agent it belongs to, from the session key; else the configured one.
    pub agent: String,
    /// The session key of the header.
    pub session_key: Option<String>,
    /// The session id of the header.
    pub session_id: Option<String>,
    /// When its words were said where a message does not say: session header (one before 05:00 local time belongs to the
    /// previous day: its last second), else the last second of the file's date.
    pub said_at: DateTime<Utc>,
    /// What it holds.
    pub content: Content,
    /// Things the operator should know, such as "3 bytes were not valid UTF-8".
    pub warnings: Vec<String>,
}

/// The settings that reading an episode needs.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Names or sender ids of the agent's owner; may be empty.
    pub owner: Vec<String>,
    /// Whose memories those of an episode without a session key are.
    pub agent: String,
    /// The zone of file dates and of times without one.
    pub timezone: Tz,
}

/// A file that is an episode by its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Where it lies.
    pub path: PathBuf,
    /// Its file name.
    pub name: String,
    /// The date in its name.
    pub date: NaiveDate,
    /// When it last changed.
    pub modified: SystemTime,
    /// Bytes.
    pub len: u64,
}

/// What lies in the episodes folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The episodes, by date, then name.
    pub found: Vec<Found>,
    /// Names of files that are no episodes, such as `notes.md`; folders are not listed.
    pub ignored: Vec<String>,
}

/// What came of reading a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// It was read.
    Episode(Episode),
    /// It changed since it was found or while it was read: it waits for the next night.
    Changing,
    /// It could not be read; the night goes on without it.
    Skipped {
        /// The file.
        what: PathBuf,
        /// Why, as a fragment for people.
        why: String,
    },
}

/// Why the episodes could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpisodeError {
    /// The folder could not be listed.
    #[error("list the episodes in {path}; check that the folder exists and DREAMER_EPISODES_DIR")]
    List {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// The hour at which the gateway resets its sessions' latest: a header before it tells of the day before.
const DAY_STARTS: u32 = 5;

/// The episodes of a folder, by date, then name. Does not recurse; follows links to files, never to folders.
///
/// # Errors
/// When the folder cannot be listed.
pub fn find(dir: &Path) -> Result<Vec<Found>, EpisodeError> {
    Ok(list(dir)?.found)
}

/// Like [`find`], with the names of the files that are no episodes.
///
/// # Errors
/// When the folder cannot be listed.
pub fn list(dir: &Path) -> Result<Listing, EpisodeError> {
    let failed = |source| EpisodeError::List { path: dir.to_owned(), source };
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // `metadata` follows links; a dangling one has none and is no episode. Neither is one that leads out of the folder.
        let metadata = fs::metadata(&path).ok().filter(|_| is_inside(&path, dir));
        match (date_in(&name), metadata) {
            (_, Some(metadata)) if metadata.is_dir() => {}
            (Some(date), Some(metadata)) if metadata.is_file() => {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                listing.found.push(Found { path, name, date, modified, len: metadata.len() });
            }
            _ => listing.ignored.push(name),
        }
    }
    listing.found.sort_by(|a, b| (a.date, &a.name).cmp(&(b.date, &b.name)));
    listing.ignored.sort();
    Ok(listing)
}

/// Whether a file lies in the folder itself, or is a link to one that does.
fn is_inside(path: &Path, dir: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_symlink());
    let real = |path: &Path| fs::canonicalize(path).ok();
    !is_link || real(path).zip(real(dir)).is_some_and(|(path, dir)| path.starts_with(dir))
}

/// The date in an episode's file name; none if it is not one.
pub fn date_in(name: &str) -> Option<NaiveDate> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(\d{4}-\d{2}-\d{2})(?:-.+)?\.md$").expect("the pattern is fixed"));
    NaiveDate::parse_from_str(&NAME.captures(name)?[1], "%Y-%m-%d").ok()
}

/// Reads one file.
///
/// # Errors
/// None today: what a file does to us becomes [`Read::Changing`] or [`Read::Skipped`].
pub fn read(found: &Found, reading: &Reading) -> Result<Read, EpisodeError> {
    let skipped = |error: io::Error| Read::Skipped { what: found.path.clone(), why: error.to_string() };
    let same = |metadata: &fs::Metadata| {
        metadata.len() == found.len && metadata.modified().ok().is_none_or(|at| at == found.modified)
    };
    let before = match fs::metadata(&found.path) {
        Ok(metadata) => metadata,
        Err(error) => return Ok(skipped(error)),
    };
    let bytes = match fs::read(&found.path) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(skipped(error)),
    };
    let after = match fs::metadata(&found.path) {
        Ok(metadata) => metadata,
        Err(error) => return Ok(skipped(error)),
    };
    if !same(&before) || !same(&after) || bytes.len() as u64 != found.len {
        return Ok(Read::Changing);
    }
    let mut episode = parse(&found.name, &bytes, reading);
    episode.path.clone_from(&found.path);
    Ok(Read::Episode(episode))
}

/// Makes an episode of a file's bytes. Pure; `path` is the bare name. A name without a date counts as 1970-01-01
/// where the session header does not help ([`find`] gives no such names).
pub fn parse(name: &str, bytes: &[u8], reading: &Reading) -> Episode {
    let date = date_in(name).unwrap_or_default();
    let mut warnings = Vec::new();
    let text = without_front_matter(decode(bytes, &mut warnings));
    let mut episode = Episode {
        path: PathBuf::from(name),
        name: name.to_owned(),
        date,
        digest: format!("{:x}", Sha256::digest(bytes)),
        agent: reading.agent.clone(),
        session_key: None,
        session_id: None,
        said_at: last_second(date, reading.timezone),
        content: Content::Notes(String::new()),
        warnings,
    };
    match session::read(&text, reading) {
        Some(session) => {
            if let Some(at) = session.at {
                episode.said_at = day_of_session(at, reading.timezone);
            }
            if let Some(agent) = session.key.as_deref().and_then(session::agent_of) {
                agent.clone_into(&mut episode.agent);
            }
            episode.session_key = session.key;
            episode.session_id = session.id;
            episode.warnings.extend(session.warnings);
            episode.content = Content::Session(session.messages);
        }
        None => episode.content = Content::Notes(text),
    }
    episode
}

/// The instant of a local wall-clock time; the earlier of two, and in a gap the time after it.
pub(crate) fn from_local(local: NaiveDateTime, timezone: Tz) -> DateTime<Utc> {
    timezone
        .from_local_datetime(&local)
        .earliest()
        .or_else(|| timezone.from_local_datetime(&(local + TimeDelta::hours(1))).earliest())
        .map_or_else(|| Utc.from_utc_datetime(&local), |at| at.to_utc())
}

/// The last second of a local day.
pub(crate) fn last_second(date: NaiveDate, timezone: Tz) -> DateTime<Utc> {
    let end = NaiveTime::from_hms_opt(23, 59, 59).unwrap_or_default();
    from_local(date.and_time(end), timezone)
}

/// A session that ended before 05:00 was the day before's: the gateway resets at night.
fn day_of_session(at: DateTime<Utc>, timezone: Tz) -> DateTime<Utc> {
    let local = at.with_timezone(&timezone).naive_local();
    match local.date().checked_sub_days(Days::new(1)) {
        Some(previous) if local.hour() < DAY_STARTS => last_second(previous, timezone),
        _ => at,
    }
}

/// Bytes to text with `\n` line ends. Nothing here fails; what had to be changed is told.
fn decode(bytes: &[u8], warnings: &mut Vec<String>) -> String {
    let text = match bytes {
        [0xFF, 0xFE, rest @ ..] => from_utf16(rest, u16::from_le_bytes, warnings),
        [0xFE, 0xFF, rest @ ..] => from_utf16(rest, u16::from_be_bytes, warnings),
        [0xEF, 0xBB, 0xBF, rest @ ..] => from_utf8(rest, warnings),
        _ => from_utf8(bytes, warnings),
    };
    let nul = text.bytes().filter(|byte| *byte == 0).count();
    if nul > 0 {
        warnings.push(format!("{nul} NUL bytes were removed"));
    }
    let text = if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text };
    // An order that is hidden from people must not be read by a model, nor a recalled block escape its pattern.
    match language::without_controls(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}

fn from_utf8(bytes: &[u8], warnings: &mut Vec<String>) -> String {
    let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    match invalid {
        0 => {}
        1 => warnings.push("1 byte was not valid UTF-8".to_owned()),
        _ => warnings.push(format!("{invalid} bytes were not valid UTF-8")),
    }
    String::from_utf8_lossy(bytes).into_owned()
}

fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, warnings: &mut Vec<String>) -> String {
    warnings.push("the file is UTF-16, not UTF-8".to_owned());
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

/// Blanks out YAML front matter, keeping the lines. A rule (`---`) with prose below it is not front matter.
fn without_front_matter(text: String) -> String {
    static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"^(?:["']?[\p{L}\p{N}_][\p{L}\p{N}_. -]*["']?:(?:\s.*)?|\s+\S.*|-\s.*|#.*|[\]}].*|\s*)$"#,
        )
        .expect("the pattern is fixed")
    });
    if !text.starts_with("---\n") && !text.starts_with("--- ") {
        return text;
    }
    let mut lines = text.split('\n');
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return text;
    }
    let mut inside = 0;
    for line in lines {
        inside += 1;
        if matches!(line.trim_end(), "---" | "...") {
            let blanked = std::iter::repeat_n("", inside + 1);
            let lines: Vec<&str> = blanked.chain(text.split('\n').skip(inside + 1)).collect();
            return lines.join("\n");
        }
        let begins_with_a_key = inside > 1 || line.starts_with('#') || line.contains(':');
        if !ENTRY.is_match(line) || !begins_with_a_key {
            break;
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use chrono_tz::{Asia, Europe};
    use proptest::prelude::*;

    fn reading(timezone: Tz) -> Reading {
        Reading { owner: Vec::new(), agent: "main".to_owned(), timezone }
    }

    fn notes(bytes: &[u8]) -> (String, Vec<String>) {
        let episode = parse("2026-03-10.md", bytes, &reading(Europe::Berlin));
        match episode.content {
            Content::Notes(text) => (text, episode.warnings),
            Content::Session(_) => panic!("notes were read as a session"),
        }
    }

    fn said_at(header: &str, timezone: Tz) -> String {
        let text = format!("# Session: {header}\n\n- **Session Key**: agent:Ada:main\n\nuser: \"x\"\n");
        let episode = parse("2026-03-10-x.md", text.as_bytes(), &reading(timezone));
        assert_eq!(episode.agent, "Ada");
        episode.said_at.to_rfc3339()
    }

    #[test]
    fn only_dated_files_are_episodes() {
        for name in ["2026-03-10.md", "2026-03-10-0739.md", "2026-03-10-旅行.md"] {
            assert!(date_in(name).is_some(), "{name}");
        }
        for name in [
            "notes.md",
            "empty-session-2026-11-30-0712-2.md",
            "2026-02-30.md",
            "2026-03-10.txt",
            "2026-03-10x.md",
        ] {
            assert!(date_in(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_folder_is_listed_by_date_then_name_and_not_below() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["2026-03-11.md", "2026-03-10-b.md", "2026-03-10-a.md", "notes.md"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        for name in ["archive", "dreaming", ".git", "2026-03-09.md"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("2026-03-08.md"), "x").unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("notes.md"), dir.path().join("2026-03-12.md")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("gone"), dir.path().join("2026-03-13.md")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("archive"), dir.path().join("2026-03-14.md")).unwrap();
        let listing = list(dir.path()).unwrap();
        let names: Vec<&str> = listing.found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["2026-03-10-a.md", "2026-03-10-b.md", "2026-03-11.md", "2026-03-12.md"]);
        assert_eq!(listing.ignored, ["2026-03-13.md", "notes.md"]);
        let error = find(&dir.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("DREAMER_EPISODES_DIR"), "{error}");
    }

    #[test]
    fn a_file_that_changed_waits_and_one_that_is_gone_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("2026-03-10.md");
        fs::write(&path, "Anna called.").unwrap();
        let found = find(dir.path()).unwrap().remove(0);
        let Read::Episode(episode) = read(&found, &reading(Europe::Berlin)).unwrap() else {
            panic!("it was not read")
        };
        assert_eq!(
            (episode.path.as_path(), episode.content),
            (path.as_path(), Content::Notes("Anna called.".to_owned()))
        );
        fs::write(&path, "Anna called. Bob too.").unwrap();
        assert_eq!(read(&found, &reading(Europe::Berlin)).unwrap(), Read::Changing);
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&found, &reading(Europe::Berlin)).unwrap(), Read::Skipped { .. }));
    }

    #[test]
    fn bytes_of_all_kinds_are_read() {
        let warned = |bytes: &[u8]| notes(bytes).1.join("; ");
        assert_eq!(notes("\u{feff}a\r\nb\rc".as_bytes()), ("a\nb\nc".to_owned(), vec![]));
        assert_eq!(notes(b""), (String::new(), vec![]));
        assert_eq!(notes(b"a\xff\xfeb").0, "a\u{fffd}\u{fffd}b");
        assert_eq!(warned(b"a\xff\xfeb"), "2 bytes were not valid UTF-8");
        assert_eq!((notes(b"a\0b").0.as_str(), warned(b"a\0b").as_str()), ("ab", "1 NUL bytes were removed"));
        assert_eq!(notes(b"\xff\xfea\0\n\0").0, "a\n");
    }

    #[test]
    fn front_matter_is_blanked_and_rules_are_not() {
        let cases = [
            ("---\ndate: 2020-01-01\ntags:\n  - a\n---\nbody", "\n\n\n\n\nbody"),
            ("---\n# c\n\"k\": v\n...\nbody", "\n\n\n\nbody"),
            ("---\nAnna moved to Rome.\n---\nbody", "---\nAnna moved to Rome.\n---\nbody"),
            ("---\ntitle: x\nbody", "---\ntitle: x\nbody"),
            ("body\n---\na: b\n---\n", "body\n---\na: b\n---\n"),
            ("---\n- milk\n- eggs\n---\n", "---\n- milk\n- eggs\n---\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(notes(text.as_bytes()).0, expected);
        }
    }

    #[test]
    fn a_session_before_five_belongs_to_the_day_before() {
        assert_eq!(said_at("2026-03-10 04:00:00 UTC", chrono_tz::UTC), "2026-03-09T23:59:59+00:00");
        assert_eq!(said_at("2026-03-10 05:00:00 UTC", chrono_tz::UTC), "2026-03-10T05:00:00+00:00");
        // 21:30 UTC is 05:30 on the next day in Shanghai, 20:30 UTC is 04:30.
        assert_eq!(said_at("2026-03-10 21:30:00 UTC", Asia::Shanghai), "2026-03-10T21:30:00+00:00");
        assert_eq!(said_at("2026-03-10 20:30:00 UTC", Asia::Shanghai), "2026-03-10T15:59:59+00:00");
        assert_eq!(said_at("2026-03-11 04:30:00 Asia/Shanghai", Asia::Shanghai), "2026-03-10T15:59:59+00:00");
    }

    #[test]
    fn without_a_header_the_files_date_counts_in_the_configured_zone() {
        let episode = parse("2026-03-10.md", b"x", &reading(Asia::Shanghai));
        assert_eq!(episode.said_at.to_rfc3339(), "2026-03-10T15:59:59+00:00");
        assert_eq!((episode.agent.as_str(), episode.session_key), ("main", None));
    }

    #[test]
    fn front_matter_and_crlf_do_not_hide_a_session() {
        let text = "---\r\ntags: x\r\n---\r\n# Session: 2026-03-10 12:00:00 UTC\r\n\r\n- **Session ID**: 1\r\n\r\nuser: \"x\"\r\n";
        let episode = parse("2026-03-10.md", text.as_bytes(), &reading(Europe::Berlin));
        let Content::Session(messages) = episode.content else { panic!("no session") };
        assert_eq!((messages[0].text.as_str(), messages[0].lines), ("x", (8, 8)));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reading(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let episode = parse("2026-03-10.md", &bytes, &reading(Europe::Berlin));
            prop_assert_eq!(episode.digest.len(), 64);
        }

        #[test]
        fn blanking_front_matter_keeps_the_lines(text in "(---|\n|a: b|- c|#|x| |\\.\\.\\.){0,20}") {
            let kept = without_front_matter(text.clone());
            prop_assert_eq!(kept.matches('\n').count(), text.matches('\n').count());
        }
    }
}
