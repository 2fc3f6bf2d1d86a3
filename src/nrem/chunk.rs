//! A chunk: one self-contained piece of an episode, cut so that code blocks and tables stay whole.
//! Pure: an episode in, chunks out. Fates are decided later.

mod notes;
mod split;
mod tag;

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;
use sha2::{Digest, Sha256};

use crate::episode::{Content, Episode, Message, Speaker};
use crate::openclaw::noise;
use crate::privacy::without_secrets;

/// What a chunk is before anybody judged its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Evidence for the night.
    Evidence,
    /// Nobody said it, or it says nothing (heartbeat, notice, greeting): the reason.
    Noise(&'static str),
    /// Under a heading or in a message tagged `#tmp` or `#no_archive`.
    Excluded,
}

/// One self-contained piece of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// Hex SHA-256 of agent, date of said-at, speaker, text and the repeat number within the file.
    pub digest: String,
    /// The agent it was said to.
    pub agent: String,
    /// The episode's file name.
    pub episode: String,
    /// First and last line of `text` in the file, counted from 1.
    pub lines: (usize, usize),
    /// The headings above it, outermost first; empty in a dialogue.
    pub headings: Vec<String>,
    /// Who said `text`.
    pub speaker: Speaker,
    /// When it was said.
    pub said_at: DateTime<Utc>,
    /// The day it was said, in the configured time zone.
    pub date: NaiveDate,
    /// The words: evidence.
    pub text: String,
    /// In a dialogue, the assistant message just before it, which is evidence too, as said by the assistant.
    pub reply_to: Option<String>,
    /// First and last line of `reply_to` in the file, counted from 1.
    pub reply_lines: Option<(usize, usize)>,
    /// Its neighbours in the conversation, shortened: they help to understand, they are never evidence.
    pub context: Vec<String>,
    /// Memories recalled into this session before the message.
    pub injected: Vec<String>,
    /// Evidence, noise or excluded.
    pub standing: Standing,
}

/// Characters a neighbour is shortened to.
const CONTEXT_CHARS: usize = 200;

/// Recalled memories a chunk carries at most, the latest: a session that recalled more is no evidence of re-occurrence
/// anyway, and a copy of all of them on every chunk would grow with the square of the session.
const MAX_INJECTED: usize = 100;

/// Cuts an episode into chunks, in the order of the file. Every message of a session is the text of one chunk (of several
/// in a row if it is long) or the `reply_to` of exactly one; every line of notes that is not blank, a heading or a rule
/// is in exactly one chunk.
pub fn chunk(episode: &Episode, timezone: Tz) -> Vec<Chunk> {
    let mut chunks = match &episode.content {
        Content::Session(messages) => of_session(episode, messages, timezone),
        Content::Notes(text) if text.trim_start().starts_with("# Dream log") => {
            let lines = (1, text.trim_end().split('\n').count());
            let standing = Standing::Noise(noise::DREAM_LOG);
            vec![Chunk { lines, standing, ..blank(episode, Speaker::Note, episode.said_at, timezone) }]
        }
        Content::Notes(text) => of_notes(episode, text, 0, episode.said_at, timezone),
    };
    number(&mut chunks);
    chunks
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is a chunk of its own.
    Own,
    /// A chunk of its own, and excluded.
    Excluded,
    /// It is what the next message that somebody said answers.
    ReplyTo,
}

fn of_session(episode: &Episode, messages: &[Message], timezone: Tz) -> Vec<Chunk> {
    let places = places(messages);
    let mut injected: Vec<String> = Vec::new();
    let mut reply_to: Option<usize> = None;
    let mut chunks = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        recall(&mut injected, &message.injected);
        if places[index] == Place::ReplyTo {
            reply_to = Some(index);
            continue;
        }
        let said_at = message.at.unwrap_or(episode.said_at);
        let whole = blank(episode, message.speaker.clone(), said_at, timezone);
        let whole = Chunk { lines: message.lines, injected: injected.clone(), ..whole };
        if let Some(reason) = message.noise {
            chunks.push(Chunk { standing: Standing::Noise(reason), ..whole });
            continue;
        }
        if message.speaker == Speaker::Note {
            chunks.extend(of_notes(episode, &message.text, message.lines.0 - 1, said_at, timezone));
            continue;
        }
        let excluded = places[index] == Place::Excluded;
        let standing = if excluded { Standing::Excluded } else { Standing::Evidence };
        let answered = reply_to.take();
        let context = context(messages, &places, answered.unwrap_or(index), index);
        for (part, range) in split::parts(&message.text).into_iter().enumerate() {
            let text = message.text[range].trim().to_owned();
            let answered = answered.filter(|_| part == 0).map(|answered| &messages[answered]);
            let reply_to = answered.map(|message| message.text.clone());
            let reply_lines = answered.map(|message| message.lines);
            let context = context.clone();
            chunks.push(Chunk { text, reply_to, reply_lines, context, standing, ..whole.clone() });
        }
    }
    chunks
}

/// Decides for each message whether it is a chunk or the `reply_to` of one.
fn places(messages: &[Message]) -> Vec<Place> {
    let mut places: Vec<Place> = vec![Place::Own; messages.len()];
    let mut answered: Option<usize> = None;
    let mut after_excluded = false;
    for (index, message) in messages.iter().enumerate() {
        // Noise between two messages is said by nobody: it parts no question from its answer.
        if message.noise.is_some() {
            continue;
        }
        let assistant = message.speaker == Speaker::Assistant;
        // What the agent answers to excluded words repeats them as a rule ("noted, the code is 4711").
        if tag::is_excluded(&message.text) || assistant && after_excluded {
            places[index] = Place::Excluded;
            after_excluded = true;
            answered = None;
            continue;
        }
        if !assistant {
            after_excluded = false;
        }
        match message.speaker {
            Speaker::Assistant => answered = Some(index),
            Speaker::User | Speaker::Person(_) => {
                if let Some(answered) = answered.take() {
                    places[answered] = Place::ReplyTo;
                }
            }
            Speaker::Note => answered = None,
        }
    }
    places
}

/// The neighbours of a chunk that reaches from message `first` to `last`: one before, one after.
fn context(messages: &[Message], places: &[Place], first: usize, last: usize) -> Vec<String> {
    let told = |index: &usize| messages[*index].noise.is_none() && places[*index] != Place::Excluded;
    let before = (0..first).rev().take(8).find(told);
    let after = (last + 1..messages.len()).take(8).find(told);
    before.into_iter().chain(after).map(|index| shortened(&messages[index])).collect()
}

fn shortened(message: &Message) -> String {
    // Half a secret looks like none, so it goes before the text is cut.
    let whole = without_secrets(&message.text).text;
    let mut text: String = whole.chars().take(CONTEXT_CHARS).collect();
    if text.len() < whole.len() {
        text.push('…');
    }
    format!("{}: {text}", message.speaker.as_str())
}

fn recall(injected: &mut Vec<String>, new: &[String]) {
    for memory in new {
        injected.retain(|known| known != memory);
        injected.push(memory.clone());
    }
    let surplus = injected.len().saturating_sub(MAX_INJECTED);
    injected.drain(..surplus);
}

/// Notes: a whole file, or the hand-written lines in a session; `above` lines stand before them in the file.
fn of_notes(episode: &Episode, text: &str, above: usize, said_at: DateTime<Utc>, timezone: Tz) -> Vec<Chunk> {
    let pieces = notes::pieces(text);
    let chunk = |piece: notes::Piece| Chunk {
        lines: (piece.lines.0 + above, piece.lines.1 + above),
        headings: piece.headings,
        text: piece.text,
        standing: piece.standing,
        ..blank(episode, Speaker::Note, said_at, timezone)
    };
    pieces.into_iter().map(chunk).collect()
}

fn blank(episode: &Episode, speaker: Speaker, said_at: DateTime<Utc>, timezone: Tz) -> Chunk {
    Chunk {
        digest: String::new(),
        agent: episode.agent.clone(),
        episode: episode.name.clone(),
        lines: (1, 1),
        headings: Vec::new(),
        speaker,
        said_at,
        date: said_at.with_timezone(&timezone).date_naive(),
        text: String::new(),
        reply_to: None,
        reply_lines: None,
        context: Vec::new(),
        injected: Vec::new(),
        standing: Standing::Evidence,
    }
}

/// Digests the chunks. Neither `reply_to` nor context is in the digest: a file that grew by one message must not give
/// its old chunks a new one.
fn number(chunks: &mut [Chunk]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for chunk in chunks {
        let hash = hash(&chunk.agent, chunk.date, &chunk.speaker, &chunk.text);
        let digest = format!("{:x}", hash.clone().finalize());
        let repeat = seen.entry(digest.clone()).and_modify(|times| *times += 1).or_insert(0);
        chunk.digest = match *repeat {
            0 => digest,
            times => format!("{:x}", hash.chain_update(times.to_string()).finalize()),
        };
    }
}

fn hash(agent: &str, date: NaiveDate, speaker: &Speaker, text: &str) -> Sha256 {
    let speaker = match speaker {
        // A person who calls herself "user" is not the user.
        Speaker::Person(name) => format!("@{name}"),
        other => other.as_str().to_owned(),
    };
    let mut hash = Sha256::new();
    for part in [agent, &date.to_string(), &speaker, text] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash
}

/// The digest that a message's first chunk has if it is said on that day, and is not said twice then.
pub(crate) fn digest_of_message(agent: &str, date: NaiveDate, speaker: &Speaker, text: &str) -> String {
    let first = split::parts(text).into_iter().next().map_or("", |range| text[range].trim());
    format!("{:x}", hash(agent, date, speaker, first).finalize())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::episode::{Reading, parse};
    use chrono_tz::Europe;
    use proptest::prelude::*;

    fn chunks_of(name: &str, text: &str) -> Vec<Chunk> {
        let timezone = Europe::Berlin;
        let reading = Reading { owner: Vec::new(), agent: "main".to_owned(), timezone };
        chunk(&parse(name, text.as_bytes(), &reading), timezone)
    }

    fn notes(text: &str) -> Vec<Chunk> {
        chunks_of("2026-03-10.md", text)
    }

    fn session(messages: &[(&str, &str)]) -> Vec<Chunk> {
        let line =
            |(role, text): &(&str, &str)| format!("{role}: {}\n", serde_json::to_string(text).unwrap());
        let body: String = messages.iter().map(line).collect();
        let head = "# Session: 2026-03-10 12:00:00 UTC\n\n- **Session Key**: agent:main:main\n\n## Conversation Summary\n\n";
        chunks_of("2026-03-10-1200.md", &format!("{head}{body}"))
    }

    fn texts(chunks: &[Chunk]) -> Vec<&str> {
        chunks.iter().map(|chunk| chunk.text.as_str()).collect()
    }

    fn pairs(chunks: &[Chunk]) -> Vec<(Option<&str>, &str)> {
        chunks.iter().map(|chunk| (chunk.reply_to.as_deref(), chunk.text.as_str())).collect()
    }

    #[test]
    fn a_dialogue_chunk_is_a_user_message_with_the_assistants_before_it() {
        let chunks = session(&[
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
            ("assistant", "four"),
            ("assistant", "five"),
            ("user", "six"),
            ("assistant", "seven"),
        ]);
        let expected =
            [(None, "one"), (Some("two"), "three"), (None, "four"), (Some("five"), "six"), (None, "seven")];
        assert_eq!(pairs(&chunks), expected);
        assert_eq!(chunks[1].context, ["user: one", "assistant: four"]);
        assert_eq!((chunks[1].lines, chunks[2].speaker.clone()), ((9, 9), Speaker::Assistant));
    }

    #[test]
    fn noise_is_a_chunk_and_parts_no_answer() {
        let chunks = session(&[
            ("assistant", "Where do you live?"),
            ("user", "[OpenClaw heartbeat poll]"),
            ("assistant", "HEARTBEAT_OK"),
            ("user", "In Rome"),
        ]);
        let told: Vec<_> = chunks.iter().map(|chunk| (chunk.standing, chunk.reply_to.as_deref())).collect();
        let expected = [
            (Standing::Noise(noise::HEARTBEAT), None),
            (Standing::Noise(noise::ANSWER), None),
            (Standing::Evidence, Some("Where do you live?")),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_secret_is_gone_from_the_context_before_that_is_cut() {
        let filler = "word ".repeat(37);
        let key = format!("gh{}{}", "p_", "a1B2c3D4e5".repeat(4));
        let chunks = session(&[("user", &format!("{filler}{key} is the key")), ("user", "Thanks.")]);
        let context = &chunks[1].context[0];
        assert!(context.contains("[secret") && !context.contains("a1B2"), "{context}");
    }

    #[test]
    fn tagged_words_and_their_answer_are_excluded_and_no_context() {
        let chunks = session(&[
            ("assistant", "Hello"),
            ("user", "The door code is 4711 #tmp"),
            ("assistant", "Noted: 4711"),
            ("user", "I like tea"),
        ]);
        let excluded: Vec<_> = chunks.iter().map(|chunk| chunk.standing == Standing::Excluded).collect();
        assert_eq!(excluded, [false, true, true, false]);
        assert!(chunks[3].reply_to.is_none() && !chunks[3].context.iter().any(|text| text.contains("4711")));
        assert!(!chunks[0].context.iter().any(|text| text.contains("4711")));
    }

    #[test]
    fn recalled_memories_travel_with_what_comes_after_them() {
        let recalled = "<relevant-memories>\n1. [fact] tea\n</relevant-memories>\n\n";
        let chunks = session(&[("user", "a"), ("user", &format!("{recalled}b")), ("user", "c")]);
        let injected: Vec<usize> = chunks.iter().map(|chunk| chunk.injected.len()).collect();
        assert_eq!(injected, [0, 1, 1]);
    }

    #[test]
    fn a_long_message_is_split_between_sentences_and_code_stays_whole() {
        let prose = "This is a sentence about tea. ".repeat(60);
        let code = format!("```\n{}\n```", "let tea = 1. \n".repeat(120));
        let text = format!("{prose}\n\n{code}\n\n{}", "今天去了颐和园，天气很好。".repeat(120));
        let chunks = session(&[("assistant", "Tell"), ("user", &text)]);
        assert!(chunks.len() > 4);
        assert!(chunks.iter().any(|chunk| chunk.text == code));
        for chunk in chunks.iter().filter(|chunk| chunk.text != code) {
            assert!(
                chunk.text.chars().count() <= split::PART_CHARS && chunk.text.ends_with(['.', '。']),
                "{}",
                chunk.text
            );
        }
        let answers: Vec<_> = chunks.iter().map(|chunk| chunk.reply_to.is_some()).collect();
        assert!(answers[0] && answers[1..].iter().all(|answers| !answers));
    }

    #[test]
    fn an_unclosed_fence_ends_with_its_message() {
        let chunks = session(&[("user", "look:\n```\nlet a = 1;"), ("assistant", "ok"), ("user", "thanks")]);
        assert_eq!(texts(&chunks), ["look:\n```\nlet a = 1;", "thanks"]);
    }

    #[test]
    fn notes_are_cut_into_blocks_under_their_headings() {
        let text = "# Day\n\nWent out.\nWith Anna.\n\n## Food *today*\n- tea\n- cake\n  - with cream\n1. eggs\n\nRun this:\n\n```sh\nls\n\npwd\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> wise\n> words\n\n我住在北京。\n";
        let chunks = notes(text);
        let expected = [
            "Went out.\nWith Anna.",
            "tea",
            "cake\n  - with cream",
            "eggs",
            "Run this:\n\n```sh\nls\n\npwd\n```",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "wise\nwords",
            "我住在北京。",
        ];
        assert_eq!(texts(&chunks), expected);
        assert_eq!(chunks[0].headings, ["Day"]);
        assert_eq!(chunks[1].headings, ["Day", "Food today"]);
        assert_eq!((chunks[0].lines, chunks[2].lines, chunks[4].lines), ((3, 4), (8, 9), (12, 18)));
        assert!(chunks.iter().all(|chunk| chunk.speaker == Speaker::Note));
        assert_eq!(chunks[0].said_at.to_rfc3339(), "2026-03-10T22:59:59+00:00");
    }

    #[test]
    fn long_items_leave_their_nested_items_alone() {
        let nested = "word ".repeat(50);
        let chunks = notes(&format!("- plan\n  - {nested}\n  - {nested}\n\n  after\n- next\n"));
        assert_eq!(texts(&chunks), ["plan", nested.trim(), nested.trim(), "after", "next"]);
    }

    #[test]
    fn what_the_parser_passes_over_is_kept() {
        let text = "see [x]\n\n[x]: https://example.org/anna \"Anna's page\"\n\nnote[^1]\n\n[^1]: a footnote\n\nI moved to Berlin.\n---\nThen on.\n\n***\n\n<div>kept</div>\n\n[y]: https://example.org/last\n";
        let chunks = notes(text);
        let expected = [
            "see [x]",
            "[x]: https://example.org/anna \"Anna's page\"",
            "note[^1]",
            "[^1]: a footnote",
            "I moved to Berlin.\n---",
            "Then on.",
            "<div>kept</div>",
            "[y]: https://example.org/last",
        ];
        assert_eq!(texts(&chunks), expected);
    }

    #[test]
    fn headings_alone_yield_nothing_unless_there_is_nothing_else() {
        assert_eq!(texts(&notes("# Day\n\n## Buy milk\n\nWent out.")), ["Went out."]);
        assert_eq!(texts(&notes("# Day\n\n## Buy milk\n")), ["# Day\n\n## Buy milk"]);
        assert_eq!(notes("\n\n---\n").len() + notes("").len(), 0);
    }

    #[test]
    fn a_tag_excludes_its_section_or_its_block() {
        let chunks = notes(
            "# A\n\none #tmp\n\ntwo\n\n## B #no_archive\n\nthree\n\n### C\n\n- four\n\n# D #tmpfile\n\nfive",
        );
        let excluded: Vec<_> = chunks.iter().map(|chunk| chunk.standing == Standing::Excluded).collect();
        assert_eq!(texts(&chunks), ["one #tmp", "two", "three", "four", "five"]);
        assert_eq!(excluded, [true, false, true, true, false]);
    }

    #[test]
    fn the_gateways_dreams_and_our_own_logs_are_noise() {
        let text = "a\n\n<!-- openclaw:dreaming:light:start -->\n- dreamt\n\n# x\n<!-- openclaw:dreaming:light:end -->\n\nb\n<!-- openclaw:dreaming:rem:start -->\nc";
        let chunks = notes(text);
        assert_eq!(texts(&chunks), ["a", "", "b", "", "c"]);
        assert_eq!((chunks[1].standing, chunks[1].lines), (Standing::Noise(noise::DREAMING), (3, 7)));
        let log = notes("# Dream log 2026-03-10\n\n- created");
        assert_eq!(
            (log.len(), log[0].standing, log[0].lines),
            (1, Standing::Noise(noise::DREAM_LOG), (1, 3))
        );
    }

    #[test]
    fn hand_written_notes_in_a_session_keep_their_place() {
        let text = "# Session: 2026-03-10 12:00:00 UTC\n- **Session ID**: 1\n\nuser: \"Hi\"\n\n## Mine\n\nAnna called.\n\n- She is well\n";
        let chunks = chunks_of("2026-03-10-1200.md", text);
        assert_eq!(texts(&chunks), ["Hi", "Anna called.", "She is well"]);
        assert_eq!((chunks[2].lines, chunks[2].headings.clone()), ((10, 10), vec!["Mine".to_owned()]));
    }

    #[test]
    fn the_same_words_have_one_digest_a_place_and_day() {
        let once = session(&[
            ("user", "I like tea"),
            ("user", "I like tea"),
            ("assistant", "ok"),
            ("user", "I like tea"),
        ]);
        let mut digests: Vec<&str> = once.iter().map(|chunk| chunk.digest.as_str()).collect();
        digests.dedup();
        assert_eq!(digests.len(), 3);
        let grown = session(&[("assistant", "Well?"), ("user", "I like tea"), ("user", "and cake")]);
        assert_eq!(grown[0].digest, once[0].digest);
        let later = chunks_of("2026-03-11.md", "I like tea")[0].digest.clone();
        assert_ne!(later, notes("I like tea")[0].digest);
    }

    fn fixture(name: &str) -> Vec<Chunk> {
        let path = format!("{}/tests/fixtures/episodes/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        chunks_of(name.rsplit('/').next().unwrap(), &text)
    }

    #[test]
    fn real_sessions_are_cut_into_exchanges() {
        let raw = fixture("openclaw-2026.4.15/2026-11-30-mock-reply-to-reply-with-only-.md");
        assert_eq!(raw.len(), 9);
        assert_eq!(
            raw[3].text,
            "Please store this. TOOL:memory_store {\"text\":\"Anna is allergic to peanuts\",\"importance\":0.9,\"category\":\"fact\"}"
        );
        assert!(raw[3].reply_to.as_ref().unwrap().starts_with("Mock reply to: Remember that my dog"));
        assert_eq!((raw[3].lines, raw[3].injected.len()), ((22, 28), 2));
        let json = fixture("openclaw-2026.9.6/2026-11-30-0739.md");
        let noise = json.iter().filter(|chunk| matches!(chunk.standing, Standing::Noise(_))).count();
        assert_eq!((json.len(), noise), (10, 2));
    }

    #[test]
    fn real_dialogues_keep_each_message_once() {
        let chinese = fixture("memorybank/zh-01/2023-04-27-2130.md");
        assert_eq!(chinese[0].text, "你好，我叫张曼婷，很高兴认识你。");
        assert_eq!(chinese[2].reply_to.as_deref().map(|text| text.starts_with("当然了")), Some(true));
        assert_eq!(chinese[0].said_at.to_rfc3339(), "2023-04-27T21:30:00+00:00");
        for name in ["zh-01/2023-04-27", "zh-01/2023-04-28", "en-01/2023-04-27", "en-01/2023-04-28"] {
            let name = format!("memorybank/{name}-2130.md");
            let path = format!("{}/tests/fixtures/episodes/{name}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let messages = text
                .lines()
                .filter(|line| line.starts_with("user: ") || line.starts_with("assistant: "))
                .count();
            let chunks = fixture(&name);
            assert_eq!(
                chunks.len() + chunks.iter().filter(|chunk| chunk.reply_to.is_some()).count(),
                messages,
                "{name}"
            );
        }
    }

    /// Fragments that markdown gives a meaning, mixed with words.
    fn markdown() -> impl Strategy<Value = String> {
        let pieces = [
            "\n",
            "\n\n",
            "# h\n",
            "## h #tmp\n",
            "- item\n",
            "  - nested\n",
            "1. one\n",
            "    indented\n",
            "```\n",
            "~~~\n",
            "> quote\n",
            "| a | b |\n|---|---|\n| c | d |\n",
            "---\n",
            "===\n",
            "***\n",
            "[x]: u \"t\"\n",
            "[^1]: note\n",
            "word ",
            "你好。",
            ": ",
            "<!-- c -->\n",
            "<b>",
            "\t",
            " ",
            "- - deep\n",
            "*",
            "-\n",
            "\\",
            "![a](b)",
            "- [ ] task\n",
            ">\n",
        ];
        let piece = prop_oneof![
            6 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
            1 => "\\PC{0,8}",
            1 => "[a-z]{150,400} ",
        ];
        proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    fn words(text: &str) -> String {
        text.chars().filter(|c| c.is_alphanumeric()).collect()
    }

    /// The lines that the parser takes for a section's heading, counted from 0.
    fn heading_lines(text: &str) -> std::collections::HashSet<usize> {
        use pulldown_cmark::{Event, Parser, Tag};
        let mut depth = 0;
        let mut found = std::collections::HashSet::new();
        let line = |offset: usize| text[..offset].matches('\n').count();
        for (event, range) in Parser::new_ext(text, split::options()).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 && matches!(tag, Tag::Heading { .. }) {
                        found.extend(line(range.start)..=line(range.end - 1));
                    }
                    depth += 1;
                }
                Event::End(_) => depth -= 1,
                _ => {}
            }
        }
        found
    }

    #[test]
    fn a_separator_that_is_no_line_break_moves_no_line() {
        let chunks = notes("start\n\n\u{2028}A\n\nlast");
        assert_eq!(chunks.iter().map(|chunk| chunk.lines).collect::<Vec<_>>(), [(1, 1), (3, 3), (5, 5)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn notes_rejoin_to_their_text(body in markdown()) {
            // No front matter and no session, so that all of it is notes.
            let text = format!("start\n\n{body}");
            let chunks = notes(&text);
            let lines: Vec<&str> = text.split('\n').collect();
            let mut last = 0;
            let mut covered = vec![false; lines.len()];
            for chunk in &chunks {
                // Parts of a split line share it; whole blocks never overlap.
                prop_assert!(chunk.lines.0 >= last && chunk.lines.1 >= chunk.lines.0 && chunk.lines.1 <= lines.len());
                last = chunk.lines.1;
                covered[chunk.lines.0 - 1..chunk.lines.1].fill(true);
                if chunk.standing == Standing::Evidence {
                    let source = lines[chunk.lines.0 - 1..chunk.lines.1].join("\n");
                    prop_assert!(words(&source).contains(&words(&chunk.text)), "{:?} in {:?}", chunk.text, source);
                }
            }
            let headings = heading_lines(&text);
            for (number, line) in lines.iter().enumerate() {
                prop_assert!(covered[number] || words(line).is_empty() || headings.contains(&number), "{line:?} is lost");
            }
        }

        #[test]
        fn every_message_of_a_session_appears_once(
            messages in proptest::collection::vec((prop_oneof!["user", "assistant"], prop_oneof![
                3 => "[a-z]{1,8}", 1 => Just("NO_REPLY".to_owned()), 1 => Just("x #tmp".to_owned()), 1 => Just("[cron:1 a] b".to_owned()),
                1 => "[a-z。]{1200,3000}",
            ]), 0..12)
        ) {
            // No two that are told apart by nothing.
            let unique = |(index, (role, text)): (usize, &(String, String))| {
                (role.clone(), if text == "NO_REPLY" { text.clone() } else { format!("{text} {index}") })
            };
            let messages: Vec<(String, String)> = messages.iter().enumerate().map(unique).collect();
            let messages: Vec<(&str, &str)> = messages.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
            let chunks = session(&messages);
            let mut told = vec![0; messages.len()];
            for (chunk, before) in chunks.iter().zip(std::iter::once(None).chain(chunks.iter().map(Some))) {
                let continued = before.is_some_and(|before: &Chunk| before.lines == chunk.lines);
                told[chunk.lines.0 - 7] += usize::from(!continued);
                if chunk.reply_to.is_some() {
                    let answered = (0..chunk.lines.0 - 7).rev().find(|index| {
                        messages[*index].0 == "assistant" && Some(messages[*index].1) == chunk.reply_to.as_deref()
                    });
                    told[answered.unwrap()] += 1;
                }
            }
            prop_assert!(told.iter().all(|times| *times == 1), "{told:?}");
        }

        #[test]
        fn parts_rejoin_to_their_text(text in prop_oneof![markdown(), "(?s)[a-z。.\n ]{0,9000}"]) {
            for parts in [split::parts(&text), split::paragraph_parts(&text)] {
                let joined: String = parts.iter().map(|range| &text[range.clone()]).collect();
                prop_assert_eq!(joined, text.clone());
            }
        }

        #[test]
        fn no_text_breaks_the_chunker(text in "(?s).{0,200}") {
            for chunk in notes(&text) {
                prop_assert!(chunk.lines.0 >= 1 && chunk.lines.1 >= chunk.lines.0);
            }
        }
    }
}
