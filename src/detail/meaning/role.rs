//! Who does what to whom: two people who changed places around the same verb.

use super::super::name::has_word;
use super::super::{details, wording};
use super::{Said, Voice, feature};
use crate::language::{self, normalise};

/// What stands for the user in the place of a name.
const USER: &str = "\u{2}";

/// Verbs that hold both ways round.
const MUTUAL: &[&str] = &[
    "meet",
    "met",
    "marr",
    "talk",
    "chat",
    "dat",
    "resembl",
    "friend",
    "neighbour",
    "know",
    "speak",
    "argu",
    "play",
    "liv",
    "work",
    "和",
    "跟",
    "与",
    "同",
    "と",
    "와",
    "과",
    "랑",
    "und",
    "and",
    "&",
    "or",
    "oder",
    ",",
    "、",
];

/// A pair of people in the order of a text, with what stands between and after them.
struct Pair {
    first: String,
    second: String,
    between: Vec<String>,
    after: Vec<String>,
    passive: bool,
    joined: bool,
}

/// What is wrong where the claim swaps two people whom a source names around the same verb.
pub(super) fn swapped(claim: &str, said: &[Said]) -> Option<String> {
    let german = language::is_german(claim);
    let mut names: Vec<String> = vec![USER.to_owned()];
    for text in std::iter::once(claim).chain(said.iter().map(|said| said.text.as_str())) {
        let found = details(text, None);
        let both = found.names.iter().chain(&found.likely_names);
        // "Vielleicht" opens a sentence and is no name where the claim writes it small.
        names.extend(both.filter(|name| claim.contains(name.as_str())).map(|name| normalise(name)));
    }
    names.sort();
    names.dedup();
    let claimed = pairs(claim, &names, german, &Voice::Memory);
    if claimed.is_empty() {
        return None;
    }
    let told: Vec<Pair> =
        said.iter().flat_map(|said| pairs(&said.text, &names, german, &said.voice)).collect();
    claimed.iter().find_map(|pair| {
        let same = |other: &&Pair| same_verb(pair, other);
        let (mut turned, mut straight) = (false, false);
        for other in told.iter().filter(same) {
            let order = other.first == pair.first && other.second == pair.second;
            let reverse = other.first == pair.second && other.second == pair.first;
            // "Bob is owed by Alice" has the order of "Alice owes Bob" turned round, and the meaning not.
            let flips = pair.passive != other.passive;
            turned |= reverse && !flips || order && flips;
            straight |= order && !flips || reverse && flips;
        }
        (turned && !straight).then(|| {
            let show = |name: &str| if name == USER { "the user".to_owned() } else { name.to_owned() };
            format!("{} and {} have changed places", show(&pair.first), show(&pair.second))
        })
    })
}

fn same_verb(one: &Pair, other: &Pair) -> bool {
    let mutual = |pair: &Pair| {
        pair.joined
            || pair
                .between
                .iter()
                .any(|word| MUTUAL.iter().any(|m| word == m || m.len() > 3 && word.starts_with(m)))
    };
    if mutual(one) || mutual(other) {
        return false;
    }
    let verb = |pair: &Pair| pair.between.first().or(pair.after.last()).cloned();
    match (&one.between[..], &other.between[..]) {
        // The verb comes last: in Japanese and Korean, and where German puts it there.
        ([], []) => one.after.iter().any(|word| other.after.contains(word)),
        ([_, ..], [_, ..]) => one.between.iter().any(|word| other.between.contains(word)),
        _ => verb(one) == verb(other),
    }
}

/// The neighbouring people of each clause-like stretch of a text.
fn pairs(text: &str, names: &[String], german: bool, voice: &Voice) -> Vec<Pair> {
    let mut found = Vec::new();
    for sentence in language::sentences(text) {
        let normal = with_user(&normalise(sentence), voice);
        let mut places: Vec<(usize, usize, &String)> = Vec::new();
        for name in names {
            let whole =
                |at: &usize| has_word(&normal[*at..], name) && normal[*at..].starts_with(name.as_str());
            let at = normal.match_indices(name.as_str()).map(|(at, _)| at).filter(whole);
            places.extend(at.map(|at| (at, at + name.len(), name)));
        }
        places.sort_unstable();
        places.dedup_by(|b, a| b.0 < a.1);
        for two in places.windows(2) {
            let ((_, end, first), (start, stop, second)) = (two[0], two[1]);
            if first == second {
                continue;
            }
            let between = &normal[end..start];
            let after: String = normal[stop..].chars().take_while(|c| !",.;!?。".contains(*c)).collect();
            found.push(Pair {
                first: first.clone(),
                second: second.clone(),
                between: words(between, german),
                after: words(&after, german),
                passive: is_passive(between, &after),
                joined: matches!(
                    between.trim(),
                    "and" | "or" | "und" | "," | "、" | "和" | "跟" | "与" | "と" | "와" | "과" | "&" | "'s"
                ),
            });
        }
    }
    found
}

fn words(text: &str, german: bool) -> Vec<String> {
    let text: String =
        text.chars().filter(|c| !"はがもにをへからまで는은이가을를에게한테께".contains(*c)).collect();
    feature::features(&text, german).into_iter().map(|(_, word)| word).collect()
}

fn is_passive(between: &str, after: &str) -> bool {
    let by = |text: &str| [" by ", " von "].iter().any(|word| format!(" {text} ").contains(word));
    let receives = [
        " from ",
        " borrowed ",
        " was given ",
        " got ",
        " is owed ",
        " bekommt ",
        "被",
        "から",
        "に借り",
        "に教わ",
        "にもら",
        "에게서",
    ];
    let text = format!(" {between} {after} ");
    by(between) || receives.iter().any(|word| text.contains(word)) || wording::is_passive(between)
}

/// The text with one sign for the user, whatever the voice calls them.
fn with_user(normal: &str, voice: &Voice) -> String {
    const SPEAKER: &[&str] = &["i", "me", "ich", "mir", "mich"];
    const MEMORY: &[&str] = &["the user", "der nutzer", "dem nutzer", "den nutzer"];
    let own: &[&str] = match voice {
        Voice::User => SPEAKER,
        Voice::Memory => MEMORY,
        _ => &[],
    };
    let mut text = normal.to_owned();
    for word in own {
        let mut from = 0;
        while let Some(at) = text[from..].find(word).map(|at| at + from) {
            let end = at + word.len();
            let letter = |c: char| c.is_alphanumeric();
            let inside = text[..at].ends_with(letter)
                || text[end..].starts_with(letter)
                || text[end..].starts_with("'s");
            if inside {
                from = end;
            } else {
                text.replace_range(at..end, USER);
                from = at + USER.len();
            }
        }
    }
    let cjk: &[&str] = match voice {
        Voice::User => &["我", "私", "僕", "나에게", "저에게", "저는", "나는", "제가", "내가"],
        Voice::Memory => &["用户", "ユーザー", "사용자"],
        _ => &[],
    };
    cjk.iter().fold(text, |text, word| text.replace(word, USER))
}
