//! Whether two quoted subjects are the same person or thing. Names that only sound or look alike are different.

use crate::language::normalise;

const USER: &[&str] = &[
    "user",
    "i",
    "me",
    "my",
    "the owner",
    "owner",
    "用户",
    "使用者",
    "我",
    "本人",
    "ユーザー",
    "ユーザ",
    "私",
    "僕",
    "俺",
    "사용자",
    "유저",
    "나",
    "저",
    "ich",
    "je",
    "yo",
];

/// Words in front of or behind a name that do not tell who it is.
const BEFORE: &[&str] = &[
    "the ", "a ", "an ", "this ", "that ", "our ", "my ", "mr. ", "mr ", "mrs. ", "mrs ", "ms. ", "ms ",
    "dr. ", "dr ", "prof. ", "该", "这个", "那个", "この", "その", "이 ", "그 ",
];
const AFTER: &[&str] = &[
    "'s",
    "先生",
    "女士",
    "小姐",
    "さん",
    "くん",
    "ちゃん",
    "君",
    "様",
    "씨",
    " 씨",
    "님",
    "的",
    "の",
    "은",
    "는",
    "이",
    "가",
    "は",
    "が",
];

/// Whether two quoted subjects agree after aliases: case, width, articles, titles, the user's names for themselves,
/// and a first name with the full name that holds it as a whole word.
pub fn same_subject(quote_a: &str, quote_b: &str) -> bool {
    let (a, b) = (bare(quote_a), bare(quote_b));
    if a.is_empty() || b.is_empty() {
        return false;
    }
    if a == b {
        return true;
    }
    let user = |name: &str| USER.contains(&name);
    if user(&a) || user(&b) {
        return user(&a) && user(&b);
    }
    let place = super::gazetteer::aliases(&a);
    if place.is_some_and(|names| names.iter().any(|name| normalise(name) == b)) {
        return true;
    }
    // "Alice" is in "Alice Smith" as a word; "the dog" and "the dog food" are not people, so the quotes must be names.
    let (short, long) = if a.len() < b.len() { (&a, &b) } else { (&b, &a) };
    let named =
        quote_a.trim().starts_with(char::is_uppercase) && quote_b.trim().starts_with(char::is_uppercase);
    let cut = |quote: &str| BEFORE[..6].iter().any(|article| normalise(quote).starts_with(article));
    let words: Vec<_> = long.split(' ').collect();
    let name = short.split(' ').collect::<Vec<_>>();
    named
        && !cut(quote_a)
        && !cut(quote_b)
        && words.len() > name.len()
        && (words.starts_with(&name) || words.ends_with(&name))
}

fn bare(quote: &str) -> String {
    let normal = normalise(quote);
    let mut name = normal.trim_matches(|c: char| !c.is_alphanumeric());
    loop {
        let before = BEFORE.iter().find_map(|word| name.strip_prefix(word));
        // A name of one character is a surname (张 is not 张先生 without its title): the title then tells who it is.
        let after =
            || AFTER.iter().find_map(|word| name.strip_suffix(word)).filter(|rest| rest.chars().count() > 1);
        match before.or_else(after).map(str::trim) {
            Some(rest) if !rest.is_empty() => name = rest,
            _ => return name.to_owned(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn subjects_agree_after_aliases_and_never_by_sound() {
        for (a, b, expected) in [
            ("the user", "User", true),
            ("the user", "用户", true),
            ("I", "ユーザー", true),
            ("사용자는", "The user", true),
            ("Alice", "alice", true),
            ("Alice's", "Alice", true),
            ("Alice", "Alice Smith", true),
            ("Smith", "Alice Smith", true),
            ("the standup", "Standup", true),
            ("田中さん", "田中", true),
            ("王老师", "王老师", true),
            ("李华", "李华", true),
            ("民수", "민수", false),
            ("民수씨", "民수", true),
            ("张工", "章工", false),
            ("Anna", "Anne", false),
            ("小明", "小红", false),
            ("Ann", "Annabel Lee", false),
            ("Alice Smith", "Alice Jones", false),
            ("the user", "Alice", false),
            ("the dog", "the dog food", false),
            ("张先生", "李先生", false),
            ("", "", false),
        ] {
            assert_eq!(same_subject(a, b), expected, "{a} / {b}");
            assert_eq!(same_subject(b, a), expected, "{b} / {a}");
        }
    }
}
