//! What an alert says, before any service has its way with it: a title and labelled lines, free of secrets. Pure, but
//! for the name of this machine.

use std::path::Path;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::observe::Trouble;
use super::state::Kind;
use crate::privacy::without_secrets;

/// A change that the operator has to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What kind of trouble.
    pub kind: Kind,
    /// When it began.
    pub since: DateTime<Utc>,
    /// The trouble; none when it is over.
    pub trouble: Option<Trouble>,
    /// The run that noticed, where there was one.
    pub run: Option<String>,
    /// Its dream log, where there is one.
    pub dream_log: Option<String>,
}

/// Where an alert comes from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The machine.
    pub host: String,
    /// `DREAMER_HOME`.
    pub home: String,
    /// The operator's time zone.
    pub timezone: Tz,
    secrets: Vec<String>,
}

impl Origin {
    /// An origin of the given names.
    pub fn new(host: &str, home: &Path, timezone: Tz) -> Self {
        Self { host: host.to_string(), home: home.display().to_string(), timezone, secrets: Vec::new() }
    }

    /// This machine.
    pub(super) fn of_this_machine(home: &Path, timezone: Tz) -> Self {
        Self::new(&host(), home, timezone)
    }

    /// Keeps these values out of every text.
    #[must_use]
    pub fn hiding<'a>(mut self, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        self.secrets.extend(secrets.into_iter().filter(|secret| secret.len() > 3).map(str::to_string));
        self
    }

    /// A text as it may be told: without the values to hide, without what looks like a secret, without control
    /// characters.
    fn clean(&self, text: &str) -> String {
        let hidden = self
            .secrets
            .iter()
            .fold(text.to_string(), |text, secret| text.replace(secret, "[secret removed]"));
        let text = without_secrets(&hidden).text;
        text.chars().filter(|c| !c.is_control() || *c == '\n').collect::<String>().trim().to_string()
    }
}

fn host() -> String {
    let of_file = |path: &str| std::fs::read_to_string(path).ok();
    ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .into_iter()
        .filter_map(of_file)
        .chain(std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_string())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown host".into())
}

/// A labelled line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is; empty for a text that stands for itself.
    pub label: &'static str,
    /// Its text.
    pub text: String,
    /// Whether it is to be read letter by letter: an error, a path.
    pub is_literal: bool,
}

/// An alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The kind's word, or `message`.
    pub event: String,
    /// `raised`, `over` or `sent`.
    pub status: &'static str,
    /// What it is about, in one line.
    pub title: String,
    /// The rest. The first line may be long, the others are short.
    pub lines: Vec<Line>,
    /// When the trouble began, or the message was written.
    pub since: DateTime<Utc>,
    /// When the message was written.
    pub at: DateTime<Utc>,
    /// The run, where there was one.
    pub run: Option<String>,
    /// Its dream log, where there is one.
    pub dream_log: Option<String>,
    /// The machine.
    pub host: String,
    /// `DREAMER_HOME`.
    pub home: String,
}

impl Message {
    /// The message about a change.
    pub fn of_event(event: &Event, now: DateTime<Utc>, origin: &Origin) -> Self {
        let line = |label, text: &str, is_literal| Line { label, text: text.to_string(), is_literal };
        let since = event.since.with_timezone(&origin.timezone).format("%Y-%m-%d %H:%M %Z").to_string();
        let mut lines = Vec::new();
        match &event.trouble {
            Some(trouble) => lines.extend([
                line("What", &trouble.what, true),
                line("Since", &since, false),
                line("Waits", &trouble.waits, false),
                line("Do", &trouble.remedy, false),
            ]),
            None => lines.push(line("It began", &since, false)),
        }
        let log = event.dream_log.as_deref().unwrap_or_default();
        lines.extend([
            line("Run", event.run.as_deref().unwrap_or_default(), true),
            line("Dream log", log, true),
            line("Home", &origin.home, true),
        ]);
        let status = if event.trouble.is_some() { "raised" } else { "over" };
        let title = format!("{} on {}", title(&event.kind, event.trouble.is_some()), origin.host);
        Self {
            run: event.run.clone(),
            dream_log: event.dream_log.as_deref().map(|log| origin.clean(log)),
            since: event.since,
            ..Self::new(event.kind.word(), status, &title, lines, now, origin)
        }
    }

    /// A message that says what somebody wanted to say.
    pub fn of_text(text: &str, now: DateTime<Utc>, origin: &Origin) -> Self {
        let lines = vec![
            Line { label: "", text: text.to_string(), is_literal: false },
            Line { label: "Home", text: origin.home.clone(), is_literal: true },
        ];
        let title = format!("Dreamer on {}", origin.host);
        Self::new("message".into(), "sent", &title, lines, now, origin)
    }

    fn new(
        event: String,
        status: &'static str,
        title: &str,
        lines: Vec<Line>,
        now: DateTime<Utc>,
        origin: &Origin,
    ) -> Self {
        let clean = |line: Line| Line { text: origin.clean(&line.text), ..line };
        Self {
            event,
            status,
            title: origin.clean(title),
            lines: lines.into_iter().map(clean).filter(|line| !line.text.is_empty()).collect(),
            since: now,
            at: now,
            run: None,
            dream_log: None,
            host: origin.clean(&origin.host),
            home: origin.clean(&origin.home),
        }
    }
}

fn title(kind: &Kind, is_raised: bool) -> String {
    match (kind, is_raised) {
        (Kind::Failure, true) => "Dreamer failed".into(),
        (Kind::Failure, false) => "Dreamer works again".into(),
        (Kind::LossBudget, true) => "Dreamer holds memories back from leaving".into(),
        (Kind::LossBudget, false) => "Dreamer holds no memories back any more".into(),
        (Kind::VanishedRows, true) => "Memories vanished, Dreamer stopped".into(),
        (Kind::VanishedRows, false) => "Vanished memories are settled, Dreamer works again".into(),
        (Kind::NothingChanged, true) => "Dreamer changes nothing".into(),
        (Kind::NothingChanged, false) => "Dreamer changes memories again".into(),
        (Kind::Unit(unit), true) => format!("{unit} failed"),
        (Kind::Unit(unit), false) => format!("{unit} works again"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TOKEN: &str = "123456789:AAEhiddenhiddenhiddenhiddenhidden12";

    fn event(what: &str) -> Event {
        let trouble = Trouble { what: what.into(), waits: String::new(), remedy: "mend it".into() };
        Event {
            kind: Kind::Failure,
            since: "2026-03-01T03:00:00Z".parse().unwrap(),
            trouble: Some(trouble),
            run: Some("20260301T030000Z-1".into()),
            dream_log: None,
        }
    }

    fn message(what: &str) -> Message {
        let origin = Origin::new("nas", Path::new("/home/ann/.dreamer"), Tz::Europe__Berlin);
        let origin = origin.hiding(["own-key-that-looks-like-nothing", TOKEN]);
        Message::of_event(&event(what), "2026-03-01T03:05:00Z".parse().unwrap(), &origin)
    }

    #[test]
    fn a_message_says_what_since_when_and_what_to_do_in_the_operators_time() {
        let message = message("could not ask");
        assert_eq!((message.title.as_str(), message.status), ("Dreamer failed on nas", "raised"));
        let line = |label| message.lines.iter().find(|l| l.label == label).map(|l| l.text.as_str());
        assert_eq!(line("What"), Some("could not ask"));
        assert_eq!(line("Since"), Some("2026-03-01 04:00 CET"));
        assert_eq!(line("Do"), Some("mend it"));
        assert_eq!(line("Home"), Some("/home/ann/.dreamer"));
        assert_eq!(line("Waits"), None, "what is empty is left out");
    }

    #[test]
    fn no_secret_gets_into_a_message_whatever_it_looks_like() {
        for secret in [
            "own-key-that-looks-like-nothing",
            TOKEN,
            "sk-abcdefgh12345678ijkl",
            "https://hooks.slack.com/services/T000/B000/XXXXXXXX",
        ] {
            let message = format!("{:?}", message(&format!("saw {secret}/sendMessage and <b>")));
            assert!(!message.contains(secret) && message.contains("[secret removed]"), "{message}");
        }
    }

    #[test]
    fn control_characters_go_and_line_ends_stay() {
        assert_eq!(message("a\u{1b}[31m\nb\r\u{0}").lines[0].text, "a[31m\nb");
    }

    #[test]
    fn every_kind_has_its_titles() {
        let kinds = [
            Kind::Failure,
            Kind::LossBudget,
            Kind::VanishedRows,
            Kind::NothingChanged,
            Kind::Unit("x.service".into()),
        ];
        let titles: Vec<String> = kinds.iter().flat_map(|k| [title(k, true), title(k, false)]).collect();
        let distinct: std::collections::BTreeSet<_> = titles.iter().collect();
        assert_eq!(distinct.len(), 10, "{titles:?}");
    }
}
