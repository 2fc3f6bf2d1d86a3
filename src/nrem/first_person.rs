//! Whether a text speaks as "I": a memory is read months later, by somebody else than whoever spoke. What stands in
//! quotation marks is somebody's own words and may. Told by words alone, so that doubt counts for the text: "World War I",
//! "the US" and "My Neighbor Totoro" are nobody speaking.

use std::sync::LazyLock;

use regex::{Match, Regex};

use crate::language::{self, is_kana};

/// The first word with which a text speaks as "I" or "we", outside quotations, code and addresses.
pub(crate) fn speaks_as(text: &str) -> Option<String> {
    let bare = QUOTED.replace_all(text, "…");
    let bare = NO_SELF.replace_all(&bare, "…");
    english(&bare).or_else(|| german(&bare)).or_else(|| korean(&bare)).or_else(|| {
        match bare.chars().any(is_kana) {
            true => JAPANESE.captures(&bare).map(|found| found["me"].to_owned()),
            false => CHINESE.find(&bare).map(|found| found.as_str().to_owned()),
        }
    })
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed")
}

/// Quotations and titles, code, addresses.
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r#"(?s)“[^”]*”|„[^“”]*[“”]|"[^"]*"|「[^」]*」|『[^』]*』|《[^》]*》|〈[^〉]*〉|«[^»]*»|‘[^’]*’|`[^`]*`|"#,
        r"(?:^|[\s(])'[^'\n]+'|https?://\S+|\S+@\S+",
    ))
});

/// Words that hold one for "I" and do not mean it.
static NO_SELF: LazyLock<Regex> = LazyLock::new(|| {
    pattern("我行我素|我見猶憐|我见犹怜|自我|忘我|[无無]我|唯我|真我|[大小]我|公私|[无無]私")
});

static ENGLISH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:I['’](?:m|ve|d|ll)|I|[Mm]yself|[Mm]y|[Mm]e|[Ww]e['’](?:re|ve|ll|d)|[Ww]e|[Oo]urselves|[Oo]urs?|us)\b",
    )
});

static GERMAN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(?:[Ii]ch|[Mm]ein(?:e[mnrs]?)?|[Ww]ir|[Uu]nser(?:e[mnrs]?|s)?|[Mm]ir|[Mm]ich|[Uu]ns)\b")
});

static KOREAN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?:^|[\s,.!?…])(?<me>저는|제가|내가|저의|나의|저도|나도|저를|나를|저에게|나에게|제게|내게|저희[는가의]?|우리[는가의]?)(?:\s|$)",
        // Inside a sentence these also mean "within", "flies" and "number".
        r"|(?:^|[.!?…]\s*)(?<at_start>나는|내|제)\s\p{Hangul}",
    ))
});

/// With a particle after it: the character alone also means "private".
static JAPANESE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?<me>(?:私|僕|俺|わたし|我々|我)(?:たち|達)?)[はがのもにをとへ]"));

static CHINESE: LazyLock<Regex> = LazyLock::new(|| pattern("我们|我們|咱们|咱們|我|俺|咱"));

/// Words before a numeral "I".
const NUMBERED: [&str; 20] = [
    "type", "phase", "stage", "class", "grade", "level", "part", "war", "volume", "chapter", "section",
    "category", "group", "tier", "act", "book", "article", "figure", "table", "step",
];

/// Words with a capital letter before an "I" that is no king's and no war's number.
const BEFORE_I: [&str; 24] = [
    "when",
    "if",
    "since",
    "today",
    "yesterday",
    "tomorrow",
    "because",
    "while",
    "as",
    "that",
    "and",
    "but",
    "so",
    "then",
    "now",
    "also",
    "once",
    "after",
    "before",
    "although",
    "where",
    "what",
    "how",
    "maybe",
];

fn english(text: &str) -> Option<String> {
    // Polish has "we" and "my", too.
    let is_polish = text.contains(['ą', 'ć', 'ę', 'ł', 'ń', 'ś', 'ź', 'ż']);
    let counts = |found: &Match<'_>| {
        let (before, after) = (&text[..found.start()], &text[found.end()..]);
        if is_part_of_a_name(before, after) || (is_polish && !found.as_str().starts_with('I')) {
            return false;
        }
        let next = after.trim_start().chars().next();
        match found.as_str() {
            "I" => next.is_some_and(|c| c.is_lowercase() || c == '…') && !is_numeral(before),
            contracted if contracted.starts_with('I') => true,
            // A title, if another word with a capital letter follows.
            word if word.starts_with(char::is_uppercase) => {
                begins_sentence(before) && next.is_some_and(|c| !c.is_uppercase())
            }
            _ => true,
        }
    };
    ENGLISH.find_iter(text).find(counts).map(|found| found.as_str().to_owned())
}

fn german(text: &str) -> Option<String> {
    let is_german = language::is_german(text);
    let counts = |found: &Match<'_>| {
        let (before, after) = (&text[..found.start()], &text[found.end()..]);
        let word = found.as_str();
        // Other languages have these: a space station, Portuguese articles.
        let is_only_german = !["mir", "mich", "uns"].contains(&word.to_lowercase().as_str());
        let is_word = !word.starts_with(char::is_uppercase) || begins_sentence(before);
        is_word && (is_german || is_only_german) && !is_part_of_a_name(before, after)
    };
    GERMAN.find_iter(text).find(counts).map(|found| found.as_str().to_owned())
}

fn korean(text: &str) -> Option<String> {
    let found = KOREAN.captures(text)?;
    found.name("me").or_else(|| found.name("at_start")).map(|word| word.as_str().to_owned())
}

/// Whether the word is a piece of something longer: `my-app`, `i.e.`, `I/O`, `about.me`.
fn is_part_of_a_name(before: &str, after: &str) -> bool {
    const JOINTS: [char; 8] = ['-', '_', '/', '@', '#', '&', '+', '\\'];
    let dotted = after.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    dotted || before.ends_with(JOINTS) || before.ends_with('.') || after.starts_with(JOINTS)
}

fn begins_sentence(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty()
        || before.ends_with(['.', '!', '?', ';', ':', ',', '…', '。', '！', '？', '(', '—', '–', '-'])
}

/// Whether an "I" after these words is a number.
fn is_numeral(before: &str) -> bool {
    if begins_sentence(before) {
        return false;
    }
    let word = before.split_whitespace().next_back().unwrap_or_default();
    let known = |words: &[&str]| words.contains(&word.to_lowercase().as_str());
    if word.starts_with(char::is_uppercase) { !known(&BEFORE_I) } else { known(&NUMBERED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_as_i_is_heard() {
        for (text, word) in [
            // Recorded: drafts of a model with 135 million parameters.
            ("I live in Beijing.", "I"),
            ("I am sorry to hear that. I will stop looking for shelters.", "I"),
            ("The user said that I live in Beijing.", "I"),
            ("It is true that I work in Lisbon.", "I"),
            ("Today I moved.", "I"),
            ("Yesterday it rained and I stayed at home.", "I"),
            ("I’m allergic to cats.", "I’m"),
            ("My dog is called Biscuit.", "My"),
            ("The dog is my friend.", "my"),
            ("The doctor told me to rest.", "me"),
            ("We decided to publish release 2.4 on Friday.", "We"),
            ("The landlord sent us a letter.", "us"),
            ("Our standup is at 9:00.", "Our"),
            ("我住在北京。", "我"),
            ("我们决定周五发布。", "我们"),
            ("私は東京に住んでいます。", "私"),
            ("昨日、私たちの猫が逃げた。", "私たち"),
            ("저는 서울에 살아요.", "저는"),
            ("고양이는 제가 키워요.", "제가"),
            ("내 고양이는 까맣다.", "내"),
            ("Ich wohne in Berlin.", "Ich"),
            ("Mein Hund heißt Rex.", "Mein"),
            ("Der Arzt hat mir Ruhe verordnet und das ist gut.", "mir"),
        ] {
            assert_eq!(speaks_as(text).as_deref(), Some(word), "{text}");
        }
    }

    #[test]
    fn quotations_names_and_numbers_are_nobody_speaking() {
        for text in [
            "The user lives in Beijing.",
            "The user said “I live in Beijing”.",
            "The user's motto is \"my home is my castle\".",
            "Carol's favourite song is 'My Way', the user's is ‘We Will Rock You’.",
            "The user read about World War I and Elizabeth I of England.",
            "The user has type I diabetes, i.e. the early kind.",
            "The user moved to the US and works on I/O in `my_app`.",
            "The user loves My Neighbor Totoro; the repository is my-notes.",
            "The user writes at https://example.org/my/page and about.me to me@example.org.",
            "用户最喜欢的书是《我与地坛》，在私立学校工作，很有自我意识。",
            "用户说：“我住在北京。”",
            "ユーザーは私立の学校に通い、公私の区別を大切にしている。",
            "ユーザーは「私は猫が好き」と言った。",
            "사용자는 일주일 내 답장을 원하고 커피 향이 나는 차를 좋아한다.",
            "사용자는 제 3회 대회에 나갔다.",
            "Der Nutzer ist Vater und wohnt in Berlin.",
            "Użytkownik mieszka we Wrocławiu.",
        ] {
            assert_eq!(speaks_as(text), None, "{text}");
        }
    }
}
