//! Tick boxes: what a person ticked in the dream logs of the last days. A box is a list item with a marker of ours at its
//! end; the words before it are for people and decide nothing. Writing boxes and reading them back lies here, so that the
//! two cannot drift apart; what a tick leads to is `carry_out`'s.

use std::path::Path;
use std::sync::LazyLock;

use chrono::{Days, NaiveDate};
use regex::Regex;

use super::decisions::Answer;
use crate::plan::RunId;
use crate::state::{StateError, read_if_there};

/// Dream logs older than this are not read for ticks.
pub const DAYS: u64 = 14;

/// What a box is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TickBox {
    /// An answer to a review item.
    Review {
        /// The item.
        item: String,
        /// The answer.
        answer: Answer,
    },
    /// Taking back what a night did to one memory.
    Undo {
        /// The night.
        run: String,
        /// The memory that left, or that carries what was merged.
        memory: String,
    },
}

impl TickBox {
    /// What decisions about it are kept under.
    pub fn key(&self) -> String {
        match self {
            Self::Review { item, .. } => item.clone(),
            Self::Undo { run, memory } => format!("{run}/{memory}"),
        }
    }

    /// The list item: an empty box, `words` on one line without any markup of its own, and the marker.
    pub fn line(&self, words: &str) -> String {
        let marker = match self {
            Self::Review { item, answer } => format!("review:{item}:{}", answer.as_str()),
            Self::Undo { run, memory } => format!("undo:{run}:{memory}"),
        };
        format!("- [ ] {words} <!-- {marker} -->")
    }
}

/// Whether a box can be read back: its ids hold nothing that could end the marker. A gateway's ids are UUIDs.
pub fn is_marked(of: &TickBox) -> bool {
    let plain =
        |id: &str| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    match of {
        TickBox::Review { item, .. } => plain(item),
        TickBox::Undo { run, memory } => plain(run) && plain(memory),
    }
}

/// A box somebody ticked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// The box.
    pub of: TickBox,
    /// The name of the log it stands in.
    pub log: String,
}

/// The ticked boxes of a log. A marker that is not the whole end of a list item, or that was escaped because it stood in
/// a memory, is no marker.
pub fn ticked(text: &str) -> Vec<TickBox> {
    static TICKED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"^\s{0,3}[-*+] \[[xX]\] [^\n]+ <!-- (review|undo):([0-9A-Za-z-]+):([0-9A-Za-z_-]+) -->\s*$",
        )
        .expect("the pattern is fixed")
    });
    let read = |line: &str| {
        let found = TICKED.captures(line)?;
        let (first, second) = (found[2].to_owned(), found[3].to_owned());
        match &found[1] {
            "review" => Some(TickBox::Review { item: first, answer: Answer::from_word(&second)? }),
            _ => Some(TickBox::Undo { run: RunId::parse(&first)?.as_str().to_owned(), memory: second }),
        }
    };
    text.lines().filter_map(read).collect()
}

/// The ticks in the dream logs of the last days, oldest log first. A log that cannot be read is told.
///
/// # Errors
/// When the folder exists and cannot be listed.
pub fn read(dream_logs: &Path, today: NaiveDate, told: &mut Vec<String>) -> Result<Vec<Tick>, StateError> {
    let failed = |source| StateError::Read { path: dream_logs.to_path_buf(), source };
    let entries = match std::fs::read_dir(dream_logs) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(e) => return Err(failed(e)),
    };
    let since = today.checked_sub_days(Days::new(DAYS)).unwrap_or(today);
    let mut logs = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let date: Option<NaiveDate> = name.get(..10).and_then(|date| date.parse().ok());
        // A day ahead: the clock's zone may have changed since.
        let is_recent = date.is_some_and(|date| date >= since && date <= today + Days::new(1));
        if is_recent && name.ends_with(".md") && path.is_file() {
            logs.push((name, path));
        }
    }
    logs.sort();
    let mut ticks = Vec::new();
    for (log, path) in logs {
        match read_if_there(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
                ticks.extend(ticked(&text).into_iter().map(|of| Tick { of, log: log.clone() }));
            }
            Err(error) => told.push(format!("{}: no ticks were read there", crate::error::chain(&error))),
        }
    }
    Ok(ticks)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn boxes() -> [TickBox; 2] {
        let item = "3d7c1e0a-0000-5000-8000-000000000001".to_owned();
        let (run, memory) =
            ("20260311-030000-00000a".to_owned(), "00000001-0000-4000-8000-000000000000".to_owned());
        [TickBox::Review { item, answer: Answer::RawOnly }, TickBox::Undo { run, memory }]
    }

    #[test]
    fn a_box_is_read_back_once_it_is_ticked() {
        for of in boxes() {
            let line = of.line("keep “likes tea”");
            assert_eq!(ticked(&line), []);
            for mark in ["- [x] ", "- [X] ", "* [x] ", "  - [x] "] {
                let line = line.replacen("- [ ] ", mark, 1);
                let read = ticked(&format!("# Log\n\n{line}  \r\ntext\n"));
                assert_eq!(read, std::slice::from_ref(&of), "{line}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_ticked_box_is_none() {
        for line in [
            "- [x] likes tea \\<!-- review:a-b:keep -->",
            "- [x] likes tea <!-- review:a-b:keep --> and more",
            "- [x] likes tea <!-- review:a-b:burn -->",
            "- [x] likes tea <!-- review:../a:keep -->",
            "- [x] likes tea `<!-- review:a-b:keep -->`",
            "    - [x] in a block of code <!-- review:a-b:keep -->",
            "said: - [x] likes tea <!-- review:a-b:keep -->",
            "- [ ] likes tea <!-- review:a-b:keep -->",
        ] {
            assert_eq!(ticked(line), [], "{line}");
        }
    }

    #[test]
    fn only_the_logs_of_the_last_days_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let [of, _] = boxes();
        let line = of.line("keep").replace("[ ]", "[x]");
        for name in ["2026-03-11_0300.md", "2026-02-24_0300.md", "notes.md", "2026-03-11_0300.md.bak"] {
            std::fs::write(dir.path().join(name), &line).unwrap();
        }
        let read = |today: &str| read(dir.path(), today.parse().unwrap(), &mut vec![]).unwrap();
        assert_eq!(read("2026-03-11"), [Tick { of, log: "2026-03-11_0300.md".into() }]);
        assert_eq!(read("2026-03-30"), []);
        assert_eq!(
            super::read(&dir.path().join("none"), "2026-03-11".parse().unwrap(), &mut vec![]).unwrap(),
            []
        );
    }
}
