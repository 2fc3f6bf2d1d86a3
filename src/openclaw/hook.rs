//! The files that the gateway's session-memory hook leaves, as far as one must be recognised and counted right after a
//! reset. Reading them as episodes is `session`'s work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use regex::Regex;

use crate::episode;

/// The head of such a file and what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Its session key.
    pub key: String,
    /// Its session's id.
    pub id: String,
    /// Messages of the user.
    pub by_user: usize,
    /// Messages of user and assistant.
    pub messages: usize,
    /// Why the hook could not read the session.
    pub unavailable: Option<String>,
}

/// Reads such a file; none if it is something else or not complete yet.
pub fn read(text: &str) -> Option<Written> {
    static ROLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^(user|assistant): ").expect("the pattern is fixed"));
    if !text.starts_with("# Session: ") || !text.ends_with('\n') {
        return None;
    }
    let field = |name: &str| {
        let start = format!("- **{name}**: ");
        text.lines().take(12).find_map(|line| line.strip_prefix(&start)).map(|value| value.trim().to_string())
    };
    let unavailable =
        text.lines().find_map(|line| line.strip_prefix("> Transcript content was unavailable: "));
    let roles: Vec<&str> =
        ROLE.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    Some(Written {
        key: field("Session Key")?,
        id: field("Session ID").unwrap_or_default(),
        by_user: roles.iter().filter(|role| **role == "user").count(),
        messages: roles.len(),
        unavailable: unavailable.map(|why| why.trim().trim_matches('"').to_string()),
    })
}

/// Size and time of every episode in some folders, to tell later which is new.
pub(crate) type Seen = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// The episodes in the folders as they are now. A folder that is not there holds none.
pub(crate) fn look(folders: &[PathBuf]) -> Seen {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let episode = |path: &Path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_episode);
    entries
        .map(|entry| entry.path())
        .filter(|path| episode(path))
        .filter_map(|path| {
            let metadata = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
            Some((path, (metadata.len(), metadata.modified().ok())))
        })
        .collect()
}

fn is_episode(name: &str) -> bool {
    episode::date_in(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_hook_is_recognised_and_counted() {
        let text = "# Session: 2026-11-30 07:39:48 UTC\n\n- **Session Key**: agent:main:main\n\
            - **Session ID**: s-1\n- **Source**: gateway:sessions.reset\n\n## Conversation Summary\n\n\
            user: \"Anna visits.\"\nassistant: \"Noted.\"\n";
        let written = read(text).expect("it is one");
        assert_eq!((written.key.as_str(), written.id.as_str()), ("agent:main:main", "s-1"));
        assert_eq!((written.by_user, written.messages, written.unavailable), (1, 2, None));
        assert_eq!(read(text.trim_end()), None, "it is still being written");
        assert_eq!(read("# Notes\n"), None);
    }

    #[test]
    fn a_session_that_the_hook_could_not_read_says_why() {
        let text = "# Session: 2026-11-30 07:39:48 UTC\n\n- **Session Key**: k\n- **Session ID**: unknown\n\n\
            ## Conversation Summary\n\n> Transcript content was unavailable: \"database is locked\"\n";
        assert_eq!(read(text).and_then(|w| w.unavailable), Some("database is locked".to_string()));
    }
}
