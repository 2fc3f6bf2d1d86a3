//! A quote: a source's own words as a memory, with speaker and day. Written where no model words the claim, and read
//! back so that two quotes are compared by their words and not by their dates.

use std::sync::LazyLock;

use chrono::NaiveDate;
use regex::Regex;

use crate::episode::Speaker;
use crate::language::{self, Language};
use crate::nrem::steer;

/// A source's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Who said them.
    pub speaker: Speaker,
    /// On which day.
    pub said_on: NaiveDate,
    /// The words.
    pub words: String,
}

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)^(?<speaker>[^\n:：(（]{1,60}?)\s?[(（](?<date>\d{4}-\d{2}-\d{2})[)）][:：]\s?[“「](?<words>.*)[”」]$")
        .expect("the pattern is fixed")
});

const SPEAKERS: [(Language, &str, &str, &str); 3] = [
    (Language::Chinese, "用户", "助手", "笔记"),
    (Language::Japanese, "ユーザー", "アシスタント", "メモ"),
    (Language::Korean, "사용자", "어시스턴트", "메모"),
];

/// What stands for the user before words that ask for something: a wish, not an order to whoever reads it.
const WISHES: [&str; 5] =
    ["The user wants", "Der Nutzer möchte", "用户希望", "ユーザーの希望", "사용자의 바람"];

/// The label of a request, in the language of the words.
fn wish_in(language: Language, words: &str) -> &'static str {
    match language {
        Language::Chinese => WISHES[2],
        Language::Japanese => WISHES[3],
        Language::Korean => WISHES[4],
        _ if language::is_german(words) => WISHES[1],
        _ => WISHES[0],
    }
}

impl Quote {
    /// The memory's text: `User (2026-03-10): “…”`, in the language of the words; `The user wants (2026-03-10): “…”`
    /// where they ask for something.
    pub fn into_text(self) -> String {
        let language = language::spoken(&self.words).unwrap_or(Language::Latin);
        let (user, assistant, note) = SPEAKERS
            .iter()
            .find(|(l, ..)| *l == language)
            .map_or(("User", "Assistant", "Note"), |(_, user, assistant, note)| (*user, *assistant, *note));
        let speaker = match &self.speaker {
            Speaker::User if steer::is_request(&self.words) => wish_in(language, &self.words),
            Speaker::User => user,
            Speaker::Assistant => assistant,
            Speaker::Note => note,
            Speaker::Person(name) => name,
        };
        let (date, words) = (self.said_on, self.words.trim());
        match language {
            Language::Chinese => format!("{speaker}（{date}）：“{words}”"),
            Language::Japanese => format!("{speaker}（{date}）：「{words}」"),
            _ => format!("{speaker} ({date}): “{words}”"),
        }
    }

    /// Reads what [`Quote::into_text`] wrote; none for any other text.
    pub fn read(text: &str) -> Option<Self> {
        let form = FORM.captures(text.trim())?;
        let said_on = form["date"].parse().ok()?;
        let name = form["speaker"].trim();
        let speaker = match name {
            "User" => Speaker::User,
            "Assistant" => Speaker::Assistant,
            "Note" => Speaker::Note,
            _ if WISHES.contains(&name) => Speaker::User,
            _ if SPEAKERS.iter().any(|(_, user, ..)| *user == name) => Speaker::User,
            _ if SPEAKERS.iter().any(|(_, _, assistant, _)| *assistant == name) => Speaker::Assistant,
            _ if SPEAKERS.iter().any(|(.., note)| *note == name) => Speaker::Note,
            _ => Speaker::Person(name.to_owned()),
        };
        Some(Self { speaker, said_on, words: form["words"].to_owned() })
    }
}

/// Whether two texts are the words of different people: what Anna says of herself is nothing that Ben says, or the user,
/// in the same words. A text that is no quote is nobody's in particular, but not the words of a person it does not name.
pub fn of_different_people(one: &str, other: &str) -> bool {
    let speaker = |text: &str| Quote::read(text).map(|quote| quote.speaker);
    let same = |a: &str, b: &str| language::normalise(a) == language::normalise(b);
    let names = |text: &str, name: &str| language::normalise(text).contains(&language::normalise(name));
    match (speaker(one), speaker(other)) {
        (Some(Speaker::Person(a)), Some(Speaker::Person(b))) => !same(&a, &b),
        (Some(Speaker::Person(name)), None) => !names(other, &name),
        (None, Some(Speaker::Person(name))) => !names(one, &name),
        (Some(a), Some(b)) => {
            [&a, &b].iter().any(|s| matches!(s, Speaker::Person(_) | Speaker::Assistant)) && a != b
        }
        _ => false,
    }
}

/// Whether somebody speaks of themselves: "I", "my".
pub fn speaks_of_self(words: &str) -> bool {
    static SELF: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)\b(?:i|i['’](?:m|ve|d|ll)|me|my|mine|myself|we|we['’](?:re|ve|ll)|our|ours|us|ich|mir|mich|mein\p{L}{0,2}|",
            r"wir|uns|unser\p{L}{0,2})\b|[我俺咱]|[私僕]|나는|저는|제가|내가|(?:^|\s)(?:제|내|우리)\s",
        ))
        .expect("the pattern is fixed")
    });
    SELF.is_match(words)
}

/// The words of a memory: of a quote those between the marks, else the whole text.
pub fn words_of(text: &str) -> String {
    Quote::read(text).map_or_else(|| text.to_owned(), |quote| quote.words)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_of_two_people_are_two_claims() {
        let said = |who: &str| format!("{who} (2026-03-10): “My birthday is in May.”");
        let (anna, ben, user) = (said("Anna"), said("Ben"), said("User"));
        let bare = "My birthday is in May.".to_owned();
        for (one, other, apart) in [
            (&anna, &ben, true),
            (&anna, &user, true),
            (&anna, &bare, true),
            (&user, &bare, false),
            (&anna, &anna.replace("2026-03-10", "2026-03-11"), false),
            (&anna, &"Anna's birthday is in May.".to_owned(), false),
            (&said("Assistant"), &user, true),
            (&said("Note"), &user, false),
        ] {
            assert_eq!(of_different_people(one, other), apart, "{one} | {other}");
            assert_eq!(of_different_people(other, one), apart, "{other} | {one}");
        }
        for (words, own) in [
            ("My birthday is in May.", true),
            ("The office closes at six.", false),
            ("我的生日是五月。", true),
            ("Mein Hund heißt Rex.", true),
            ("The meadow is green.", false),
        ] {
            assert_eq!(speaks_of_self(words), own, "{words}");
        }
    }

    #[test]
    fn a_quote_reads_back_as_it_was_written() {
        let said_on = NaiveDate::from_ymd_opt(2026, 3, 10).unwrap();
        for (speaker, words) in [
            (Speaker::User, "Standup is at 9:00: be there (really)."),
            (Speaker::Assistant, "我推荐《小王子》。"),
            (Speaker::Person("Carol Smith".into()), "She said “no”."),
            (Speaker::Note, "東京に住んでいます。"),
            (Speaker::User, "저는 차를 좋아해요."),
            (Speaker::User, "Always run the tests before a commit."),
            (Speaker::User, "Bitte antworte immer auf Deutsch."),
        ] {
            let quote = Quote { speaker, said_on, words: words.into() };
            let text = quote.clone().into_text();
            assert_eq!(Quote::read(&text), Some(quote), "{text}");
        }
        assert_eq!(Quote::read("The user (2026) said: hello"), None);
        assert_eq!(words_of("User (2026-03-10): “I like tea.”"), "I like tea.");
    }
}
