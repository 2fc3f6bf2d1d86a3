//! Characters that a person does not see: control and escape codes, marks that turn the direction of writing, and
//! characters without width. They can hide an order or disguise a word, so no text of ours holds them. What writing
//! needs stays: joiners inside emoji and in the scripts that use them, one variation selector after its character.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
/// The black flag: tag characters after it spell a region.
const FLAG: char = '\u{1f3f4}';
const END_OF_TAG: char = '\u{e007f}';

/// Terminal sequences: colours and cursor moves, titles and links, and the short ones.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?:\x1b\[|\u{9b})[0-?]*[ -/]*[@-~]",
        r"|(?:\x1b[\]PX^_]|[\u{9d}\u{90}\u{98}\u{9e}\u{9f}])[^\x07\x1b\u{9c}\n]*(?:\x07|\x1b\\|\u{9c})",
        r"|\x1b[ -/]*[0-~]?",
    ))
    .expect("a literal pattern")
});

/// The text without hidden characters. Line breaks and tabs stay; the separators U+2028, U+2029 and U+0085 become spaces,
/// so that lines keep the numbers they have in the file.
/// Doing it twice changes nothing.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.chars().any(may_hide) {
        return Cow::Borrowed(text);
    }
    // What goes may bring two others together, or part a joiner from its picture.
    let mut clean = cleaned(text);
    loop {
        let again = cleaned(&clean);
        if again == clean {
            return Cow::Owned(clean);
        }
        clean = again;
    }
}

fn cleaned(text: &str) -> String {
    let text = ESCAPE.replace_all(text, "");
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_flag = false;
    while let Some(c) = chars.next() {
        let before = clean.chars().next_back();
        in_flag = c == FLAG || in_flag && is_tag(c) && before.is_some_and(|b| b != END_OF_TAG);
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            '\u{2028}' | '\u{2029}' | '\u{85}' => clean.push(' '),
            ZERO_WIDTH_JOINER | ZERO_WIDTH_NON_JOINER => {
                if joins(c, before, chars.peek().copied()) {
                    clean.push(c);
                }
            }
            _ if is_selector(c) => {
                if before.is_some_and(|b| takes_selector(b, c)) {
                    clean.push(c);
                }
            }
            _ if is_tag(c) => {
                if in_flag {
                    clean.push(c);
                }
            }
            _ if is_hidden(c) => {}
            _ => clean.push(c),
        }
    }
    clean
}

/// Whether the character may have to go; the fast way out for nearly every text.
fn may_hide(c: char) -> bool {
    !matches!(c, ' '..='~' | '\n' | '\t') && (is_hidden(c) || is_selector(c) || is_tag(c))
        || matches!(c, ZERO_WIDTH_JOINER | ZERO_WIDTH_NON_JOINER | '\u{2028}' | '\u{2029}' | '\u{85}')
}

fn is_hidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}' | '\u{e0001}')
}

fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0020}'..='\u{e007f}')
}

fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}')
}

/// One selector after a character that has variants: a symbol or digit has pictures, a Han character has shapes.
fn takes_selector(before: char, selector: char) -> bool {
    match selector {
        '\u{fe0e}' | '\u{fe0f}' => is_pictured(before),
        '\u{180b}'..='\u{180d}' => matches!(before, '\u{1800}'..='\u{18af}'),
        _ => super::is_han(before),
    }
}

fn is_pictured(c: char) -> bool {
    c.is_ascii_digit()
        || matches!(c, '#' | '*' | '©' | '®' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
            | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a joiner has work to do: between two pictures, or between letters of a script in which it changes their shape.
fn joins(joiner: char, before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let picture = |c: char| is_pictured(c) && !c.is_ascii() || c == '\u{fe0f}';
    let emoji = joiner == ZERO_WIDTH_JOINER && picture(before) && picture(after);
    // Arabic and its kin, Syriac, N'Ko, Mongolian, and the scripts of India and around it.
    let shaped = |c: char| {
        matches!(c, '\u{600}'..='\u{7ff}' | '\u{840}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
            | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
    };
    let end = |c: char| shaped(c) || c.is_whitespace();
    emoji || shaped(before) && (if joiner == ZERO_WIDTH_JOINER { end(after) } else { shaped(after) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_go() {
        for (text, expected) in [
            ("I\u{200b}g\u{200b}nore", "Ignore"),
            ("al\u{200d}ways for\u{200c}ward", "always forward"),
            ("\u{202e}evil\u{202c} \u{2066}x\u{2069}", "evil x"),
            ("a\u{feff}b\u{2060}c\u{ad}d\u{3164}", "abcd"),
            ("\u{1b}[31mred\u{1b}[0m \u{1b}]8;;https://x.example\u{7}link\u{1b}]8;;\u{7}", "red link"),
            ("bell\u{7} nul\u{0} del\u{7f} csi\u{9b}1m", "bell nul del csi"),
            ("a\u{2028}b\u{85}c\r\nd\re", "a b c\nd\ne"),
            ("x\u{e0049}\u{e0067}\u{e006e}y", "xy"),
            ("a\u{fe01}\u{fe02}\u{e0101}b", "ab"),
            ("hi\u{fe0f}", "hi"),
        ] {
            assert_eq!(without_controls(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_writing_needs_stays() {
        for text in [
            "plain\ttext\nwith lines",
            "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 🏳\u{fe0f}\u{200d}🌈 👩🏽\u{200d}🚒 1\u{fe0f}\u{20e3}",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} flag",
            "می\u{200c}خواهم نامه بنویسم",
            "שלום עולם",
            "مرحبا بالعالم",
            "क\u{94d}\u{200d}ष",
            "葛\u{e0100}城",
            "café, naïve, 你好，世界。안녕",
        ] {
            assert_eq!(without_controls(text), text);
        }
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing(text in "(\\PC|[\u{0}-\u{1f}\u{80}-\u{9f}\u{1b}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}]|\u{e0041}|\u{fe0f}|🏴|👩|م|\\[|\\]|m){0,30}") {
            let once = without_controls(&text).into_owned();
            prop_assert_eq!(without_controls(&once).into_owned(), once.clone());
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
