//! A text as a rule should read it: without the characters nobody sees, with full-width letters and figures narrow. It
//! knows where each of its bytes stands in the original, so that what a rule finds is removed there, hidden characters
//! and all.

use std::borrow::Cow;
use std::ops::Range;

/// The text to search in, and the way back.
pub(super) struct Plain<'a> {
    original: &'a str,
    text: Cow<'a, str>,
    /// For each byte of the text the place of its character in the original; none if both are the same.
    places: Option<Vec<usize>>,
}

impl<'a> Plain<'a> {
    pub(super) fn of(original: &'a str) -> Self {
        if original.is_ascii() || original.chars().all(|c| narrow(c) == Some(c)) {
            return Self { original, text: Cow::Borrowed(original), places: None };
        }
        let mut text = String::with_capacity(original.len());
        let mut places = Vec::with_capacity(original.len());
        for (place, character) in original.char_indices() {
            if let Some(character) = narrow(character) {
                text.push(character);
                places.resize(text.len(), place);
            }
        }
        Self { original, text: Cow::Owned(text), places: Some(places) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Where a range of the text stands in the original. A range is never empty.
    pub(super) fn in_original(&self, range: Range<usize>) -> Range<usize> {
        let Some(places) = &self.places else { return range };
        let last = places[range.end - 1];
        let width = self.original[last..].chars().next().map_or(0, char::len_utf8);
        places[range.start]..last + width
    }
}

/// The character as it is read; nothing for one that nobody sees.
fn narrow(character: char) -> Option<char> {
    match character {
        // Soft hyphen, zero-width characters, marks of direction, variation selectors, tags.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' => None,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => None,
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e01ef}' => None,
        '０'..='９' | 'Ａ'..='Ｚ' | 'ａ'..='ｚ' => char::from_u32(character as u32 - 0xfee0),
        '\u{2010}' | '\u{2011}' | '－' => Some('-'),
        '＿' => Some('_'),
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{3000}' => Some(' '),
        _ => Some(character),
    }
}

#[cfg(test)]
mod tests {
    use super::Plain;

    #[test]
    fn what_nobody_sees_is_read_over_and_found_again() {
        let cases = [
            ("key abc", "key abc", "abc", "abc"),
            ("a\u{200b}b\u{ad}c, d", "abc, d", "abc", "a\u{200b}b\u{ad}c"),
            ("密码ａｂ\u{feff}１２", "密码ab12", "ab12", "ａｂ\u{feff}１２"),
        ];
        for (original, text, part, there) in cases {
            let plain = Plain::of(original);
            assert_eq!(plain.as_str(), text);
            let start = text.find(part).unwrap_or_default();
            assert_eq!(&original[plain.in_original(start..start + part.len())], there);
        }
    }
}
