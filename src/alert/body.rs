//! An alert as each service wants it: the JSON body of a request, escaped for its format and cut at its limit. Pure.

use serde_json::{Value, json};
use unicode_segmentation::UnicodeSegmentation;

use super::message::{Line, Message};

/// Telegram: 4096 characters, which it counts as UTF-16 units. It counts them after reading the markup; counting before
/// keeps below it in any case.
const TELEGRAM_LIMIT: usize = 4096;
/// Slack: characters of a text in a section block.
const SLACK_LIMIT: usize = 3000;
/// A webhook has no limit of its own; nobody reads more than this.
const WEBHOOK_LIMIT: usize = 16_000;
/// A title or a short line, in the same units: what is left is the first line's.
const SHORT: usize = 250;

/// The body of `sendMessage`.
pub fn telegram(message: &Message, chat_id: &str) -> Value {
    json!({
        "chat_id": chat_id,
        "text": render(message, &TELEGRAM),
        "parse_mode": "HTML",
        "link_preview_options": { "is_disabled": true },
    })
}

/// The body of an incoming webhook's request. `text` is what notifications show.
pub fn slack(message: &Message) -> Value {
    json!({
        "text": fit(&message.title, SHORT, SLACK.escape),
        "blocks": [{
            "type": "section",
            "text": { "type": "mrkdwn", "text": render(message, &SLACK), "verbatim": true },
        }],
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

/// The body for a program: fields to branch on, and the same text.
pub fn webhook(message: &Message) -> Value {
    json!({
        "event": message.event,
        "status": message.status,
        "since": message.since,
        "at": message.at,
        "title": fit(&message.title, SHORT, PLAIN.escape),
        "text": render(message, &PLAIN),
        "run_id": message.run,
        "dream_log": message.dream_log,
        "host": message.host,
        "home": message.home,
    })
}

/// How a service marks text.
struct Format {
    limit: usize,
    bold: (&'static str, &'static str),
    code: (&'static str, &'static str),
    escape: fn(&str) -> String,
    /// Escapes text between `code`.
    escape_code: fn(&str) -> String,
}

const TELEGRAM: Format = Format {
    limit: TELEGRAM_LIMIT,
    bold: ("<b>", "</b>"),
    code: ("<code>", "</code>"),
    escape,
    escape_code: escape,
};

const SLACK: Format = Format {
    limit: SLACK_LIMIT,
    bold: ("*", "*"),
    code: ("`", "`"),
    escape,
    // Inside code nothing else is markup, and there is no way to write a backtick in it.
    escape_code: |text| escape(&text.replace('`', "'")),
};

const PLAIN: Format = Format {
    limit: WEBHOOK_LIMIT,
    bold: ("", ""),
    code: ("", ""),
    escape: str::to_string,
    escape_code: str::to_string,
};

/// HTML and Slack agree on the three characters that can begin markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The whole text within the limit: the title, an empty line, the lines. Only the first line gives way.
fn render(message: &Message, format: &Format) -> String {
    let title = fit(&message.title, SHORT, format.escape);
    let head = format!("{}{title}{}\n\n", format.bold.0, format.bold.1);
    let Some((first, rest)) = message.lines.split_first() else { return head.trim_end().to_string() };
    let rest: String = rest.iter().map(|line| format!("\n{}", marked(line, SHORT, format))).collect();
    let room = format.limit.saturating_sub(units(&head) + units(&rest));
    let frame = units(&marked(&Line { text: String::new(), ..first.clone() }, 1, format));
    format!("{head}{}{rest}", marked(first, room.saturating_sub(frame), format))
}

/// A line whose escaped text takes at most `room` units.
fn marked(line: &Line, room: usize, format: &Format) -> String {
    let label = if line.label.is_empty() { String::new() } else { format!("{}: ", line.label) };
    if !line.is_literal {
        return label + &fit(&line.text, room, format.escape);
    }
    // Code stands on one line.
    let text = line.text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{label}{}{}{}", format.code.0, fit(&text, room, format.escape_code), format.code.1)
}

/// The escaped text, cut between characters as people see them so that it takes at most `room` units.
fn fit(text: &str, room: usize, escape: fn(&str) -> String) -> String {
    let escaped = escape(text);
    if units(&escaped) <= room {
        return escaped;
    }
    let mut cut = String::new();
    let mut used = 1;
    for grapheme in text.graphemes(true) {
        let next = escape(grapheme);
        used += units(&next);
        if used > room {
            break;
        }
        cut.push_str(&next);
    }
    cut.trim_end().to_string() + "…"
}

/// What a text takes of a limit: UTF-16 units, the most any of the services counts.
fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::alert::message::{Event, Origin};
    use crate::alert::observe::Trouble;
    use crate::alert::state::Kind;
    use chrono_tz::Tz;
    use proptest::prelude::*;
    use std::path::Path;

    /// An alert about a failure with this text.
    fn alert(what: &str) -> Message {
        let trouble = Trouble {
            what: what.into(),
            waits: "3 chunks held back; what was settled is saved".into(),
            remedy: "the account has no quota left (insufficient_quota): check its billing".into(),
        };
        let event = Event {
            kind: Kind::Failure,
            since: "2026-03-01T02:00:00Z".parse().unwrap(),
            trouble: Some(trouble),
            run: Some("20260301T020000Z-7f3a".into()),
            dream_log: Some("/home/ann/.dreamer/dream-log/2026-03-01_0300.md".into()),
        };
        let origin = Origin::new("nas", Path::new("/home/ann/.dreamer"), Tz::Europe__Berlin);
        let origin = origin.hiding(["own-key-0123456789"]);
        Message::of_event(&event, "2026-03-01T02:00:05Z".parse().unwrap(), &origin)
    }

    const HOSTILE: &str = "could not ask <b>m</b> & <script>alert(1)</script>: *bold* _it_ `code` [x](http://y) \
                           <!channel> <@U123> ~s~\n```\nsk-abcdefgh12345678ijkl own-key-0123456789";

    fn pretty(value: &Value) -> String {
        serde_json::to_string_pretty(value).unwrap()
    }

    #[test]
    fn telegram_gets_html_that_cannot_be_misread() {
        insta::assert_snapshot!(pretty(&telegram(&alert(HOSTILE), "-100123")));
    }

    #[test]
    fn slack_gets_a_block_in_which_nothing_pings_or_links() {
        insta::assert_snapshot!(pretty(&slack(&alert(HOSTILE))));
    }

    #[test]
    fn a_program_gets_fields_and_the_text_as_it_is() {
        insta::assert_snapshot!(pretty(&webhook(&alert(HOSTILE))));
    }

    #[test]
    fn the_all_clear_is_short() {
        let event = Event {
            kind: Kind::Unit("session-flush.service".into()),
            since: "2026-03-01T02:00:00Z".parse().unwrap(),
            trouble: None,
            run: None,
            dream_log: None,
        };
        let origin = Origin::new("nas & co", Path::new("/home/ann/.dreamer"), Tz::UTC);
        let message = Message::of_event(&event, "2026-03-08T02:00:05Z".parse().unwrap(), &origin);
        insta::assert_snapshot!(pretty(&telegram(&message, "1")));
    }

    /// The texts of the three bodies with their limits.
    fn texts(message: &Message) -> [(String, usize); 3] {
        let text = |value: &Value| value.as_str().unwrap().to_string();
        [
            (text(&telegram(message, "1")["text"]), TELEGRAM_LIMIT),
            (text(&slack(message)["blocks"][0]["text"]["text"]), SLACK_LIMIT),
            (text(&webhook(message)["text"]), WEBHOOK_LIMIT),
        ]
    }

    #[test]
    fn ten_thousand_characters_are_cut_between_characters_and_the_rest_stays() {
        for (unit, whole) in [("x", "x"), ("猫", "猫"), ("👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"), ("<", "&lt;"), ("é", "é")]
        {
            for (text, limit) in texts(&alert(&unit.repeat(10_000))) {
                assert!(units(&text) <= limit, "{unit}: {} > {limit}", units(&text));
                if limit != WEBHOOK_LIMIT {
                    assert!(units(&text) > limit - 12, "{unit}: the limit is used: {}", units(&text));
                    let end = text.find('…').unwrap();
                    assert!(text[..end].ends_with(whole), "{unit}: cut within {whole}");
                }
                for part in ["Dreamer failed on nas", "insufficient_quota", "dream-log/2026-03-01_0300.md"] {
                    assert!(text.contains(part), "{unit}: {part} is missing");
                }
                assert_eq!(text.matches("<code>").count(), text.matches("</code>").count());
            }
        }
    }

    #[test]
    fn a_long_telegram_alert_looks_like_this_at_its_cut() {
        let body = telegram(&alert(&format!("{}👍🏽猫<", "错误&".repeat(2_500))), "1");
        let text = body["text"].as_str().unwrap();
        let start = text.char_indices().rev().map(|(at, _)| at).nth(420).unwrap();
        insta::assert_snapshot!(&text[start..]);
    }

    proptest! {
        #[test]
        fn no_text_breaks_a_limit_or_the_markup(piece in "\\PC{1,12}", times in 1usize..2000, label in any::<bool>()) {
            let mut message = alert(&piece.repeat(times));
            message.title = piece.repeat(times % 300);
            if label {
                message.lines.iter_mut().for_each(|line| line.text = piece.repeat(times % 700));
            }
            for (text, limit) in texts(&message) {
                prop_assert!(units(&text) <= limit);
            }
            let html = texts(&message)[0].0.clone();
            let bare = ["<b>", "</b>", "<code>", "</code>"].iter().fold(html, |html, tag| html.replace(tag, ""));
            prop_assert!(!bare.contains('<') && !bare.contains('>'), "{}", bare);
            for part in bare.split('&').skip(1) {
                prop_assert!(["amp;", "lt;", "gt;"].iter().any(|entity| part.starts_with(entity)), "{}", part);
            }
        }
    }
}
