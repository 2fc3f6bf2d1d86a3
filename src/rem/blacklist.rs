//! The merge blacklist: pairs of names that are never one person or thing, whatever a judge says. Parsing and matching;
//! the file of a list is read where settings are (`config`).

use crate::detail;
use crate::language::normalise;

/// Pairs of names that must never be merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blacklist(Vec<(String, String)>);

impl Blacklist {
    /// Reads `name=name;name=name`.
    ///
    /// # Errors
    /// The entry that is no pair, and what to do.
    pub fn parse(value: &str) -> Result<Self, String> {
        let entries = value.split([';', '；']).map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// Reads the text of a file with one pair a line, parted by a tab or `=`; `#` begins a comment.
    ///
    /// # Errors
    /// The number of the line that is no pair, and what to do.
    pub fn parse_file(text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| pair(line).map_err(|why| format!("line {number}: {why}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The pair that keeps two texts apart: one text names the one, the other text the other.
    pub fn forbids(&self, one: &str, other: &str) -> Option<(&str, &str)> {
        let (one, other) = (normalise(one), normalise(other));
        let apart = |a: &str, b: &str| detail::names(&one, a) && detail::names(&other, b);
        self.0.iter().find(|(a, b)| apart(a, b) || apart(b, a)).map(|(a, b)| (a.as_str(), b.as_str()))
    }

    /// How many pairs it holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn pair(entry: &str) -> Result<(String, String), String> {
    let entry = entry.split(" #").next().unwrap_or(entry);
    let parts: Vec<String> =
        entry.split(['\t', '=', '＝']).map(normalise).filter(|name| !name.is_empty()).collect();
    match <[String; 2]>::try_from(parts) {
        Ok([a, b]) if a != b => Ok((a, b)),
        Ok([a, _]) => Err(format!("`{a}` stands on both sides; write two different names")),
        Err(_) => Err(format!("`{}` is no pair; write one name, `=` and the other name", entry.trim())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_from_a_value_and_from_a_file() {
        let list = Blacklist::parse("张工=章工; Ann = Anne ;").unwrap();
        assert_eq!(list.len(), 2);
        let file = Blacklist::parse_file("# people\n张工\t章工\n\nＡｎｎ=Anne # sisters\n").unwrap();
        assert_eq!(file, list);
        assert!(Blacklist::parse("").unwrap().is_empty());
        for (text, expected) in [("Ann", "no pair"), ("Ann=Ann", "both sides"), ("a=b=c", "no pair")] {
            assert!(Blacklist::parse(text).unwrap_err().contains(expected), "{text}");
        }
        assert!(Blacklist::parse_file("# x\nAnn=Anne\nBob\n").unwrap_err().starts_with("line 3: "));
    }

    #[test]
    fn a_pair_applies_when_each_text_names_one_side() {
        let list = Blacklist::parse("Ann=Anne;张工=章工").unwrap();
        for (one, other, expected) in [
            ("Ann lives in Rome.", "ANNE lives in Rome.", true),
            ("Anne's cat sleeps.", "The cat of Ann sleeps.", true),
            ("Anna lives in Rome.", "Anne lives in Rome.", false),
            ("Ann lives in Rome.", "Ann likes tea.", false),
            ("张工住在北京。", "章工去了上海。", true),
            ("张工住在北京。", "张工去了上海。", false),
        ] {
            assert_eq!(list.forbids(one, other).is_some(), expected, "{one} / {other}");
            assert_eq!(list.forbids(other, one).is_some(), expected, "{other} / {one}");
        }
    }
}
