//! Sample chunks for unit tests of the stages.

use chrono::{NaiveDate, TimeZone, Utc};

use crate::episode::Speaker;
use crate::memory::text_digest;
use crate::nrem::chunk::{Chunk, Standing};

/// A chunk said on 2026-03-10 by `user`, `assistant`, `note` or a person of that name.
pub(crate) fn chunk(text: &str, speaker: &str) -> Chunk {
    Chunk {
        digest: text_digest(&format!("{speaker}: {text}")),
        agent: "main".into(),
        episode: "2026-03-10.md".into(),
        lines: (1, 1),
        headings: vec![],
        speaker: match speaker {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "note" => Speaker::Note,
            name => Speaker::Person(name.into()),
        },
        said_at: Utc.with_ymd_and_hms(2026, 3, 10, 12, 0, 0).single().expect("a valid time"),
        date: NaiveDate::from_ymd_opt(2026, 3, 10).expect("a valid date"),
        text: text.into(),
        reply_to: None,
        reply_lines: None,
        context: vec![],
        injected: vec![],
        standing: Standing::Evidence,
    }
}
