//! The words of a Japanese text without inflection and politeness: 住んでいます and 住んでいる, 飲みません and 飲まない.
//! Rules on the kana behind a word, without a dictionary: what a verb loses here it loses in both texts that are compared.

use crate::language::is_han;

use super::phrase::{Ending, Phrase, Role};

const PARTICLES: &[(&str, Role)] = &[
    ("からは", Role::From),
    ("までは", Role::Until),
    ("までに", Role::Until),
    ("には", Role::Goal),
    ("にも", Role::Goal),
    ("では", Role::Place),
    ("でも", Role::Place),
    ("とは", Role::With),
    ("から", Role::From),
    ("まで", Role::Until),
    ("より", Role::Than),
    ("だけ", Role::Only),
    ("は", Role::Topic),
    ("も", Role::Topic),
    ("が", Role::Subject),
    ("を", Role::Object),
    ("の", Role::Genitive),
    ("に", Role::Goal),
    ("で", Role::Place),
    ("へ", Role::Way),
    ("と", Role::With),
    ("や", Role::With),
];

const SHORT_I: &str = "いきぎしじちにひびぴみり";
const SHORT_E: &str = "えけげせぜてでねへべぺめれ";
const SHORT_A: &str = "わかがさざたなはばぱまら";
const SHORT_U: &str = "うくぐすつぬぶむる";

fn is_hiragana(c: char) -> bool {
    ('\u{3041}'..='\u{309f}').contains(&c)
}

/// What a character belongs to; a run of one kind is a word or its kana.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Hiragana,
    Word(u8),
    Value,
    Break,
}

fn kind(c: char) -> Kind {
    match c {
        _ if is_hiragana(c) => Kind::Hiragana,
        _ if is_han(c) => Kind::Word(0),
        '\u{30a0}'..='\u{30ff}' => Kind::Word(1),
        '\u{1}' => Kind::Value,
        _ if c.is_alphanumeric() || c == '_' => Kind::Word(2),
        _ => Kind::Break,
    }
}

/// The phrases, in order; marks stand for values that were taken out.
pub(super) fn phrases(normal: &str) -> Vec<Phrase> {
    let runs = runs(normal);
    let mut phrases: Vec<Phrase> = Vec::new();
    for (place, (kind, run)) in runs.iter().enumerate() {
        match kind {
            Kind::Word(_) => phrases.push(Phrase { word: run.clone(), role: Role::Bare, ending: None }),
            Kind::Hiragana => {
                let behind = place.checked_sub(1).map(|before| runs[before].0);
                let closes = runs.get(place + 1).is_none_or(|(next, _)| *next == Kind::Break);
                read_kana(run, matches!(behind, Some(Kind::Word(_))), closes, &mut phrases);
            }
            Kind::Value | Kind::Break => {}
        }
    }
    phrases.retain(|phrase| !phrase.word.is_empty() || phrase.ending.is_some());
    phrases
}

/// The text with its predicates without endings, everything else as it stands.
pub(super) fn plain(normal: &str) -> String {
    let runs = runs(normal);
    let closes = |place: usize| runs.get(place + 1).is_none_or(|(next, _)| *next == Kind::Break);
    let shown = |(place, (kind, run)): (usize, &(Kind, String))| match kind {
        Kind::Hiragana if closes(place) => predicate(run).0,
        _ => run.clone(),
    };
    runs.iter().enumerate().map(shown).collect()
}

fn runs(normal: &str) -> Vec<(Kind, String)> {
    let mut runs: Vec<(Kind, String)> = Vec::new();
    for c in normal.chars() {
        match runs.last_mut() {
            Some((last, run)) if *last == kind(c) => run.push(c),
            _ => runs.push((kind(c), c.to_string())),
        }
        // 毎週荷物 is two words: every week, and what comes then.
        if let Some((Kind::Word(_), run)) = runs.last()
            && run.starts_with('毎')
            && run.chars().count() == 3
            && let Some((_, run)) = runs.last_mut()
            && let Some(next) = run.pop()
        {
            runs.push((kind(next), next.to_string()));
        }
    }
    runs
}

/// Reads kana: the particle of the word before it, a word in kana with its own particle, or an ending.
fn read_kana(run: &str, follows_word: bool, closes: bool, phrases: &mut Vec<Phrase>) {
    let (mut rest, ending) = if closes { predicate(run) } else { (run.to_owned(), None) };
    if follows_word
        && let Some((particle, role)) = PARTICLES.iter().find(|(particle, _)| rest.starts_with(particle))
        && let Some(last) = phrases.last_mut()
    {
        last.role = *role;
        rest = rest[particle.len()..].to_owned();
        push(rest, ending, closes, phrases);
        return;
    }
    if !follows_word && PARTICLES.iter().any(|(particle, _)| *particle == rest) && !closes {
        return;
    }
    // What is left of the kana belongs to the word in front.
    if follows_word && let Some(last) = phrases.last_mut() {
        let (stem, role) = particle_behind(&rest, closes);
        last.word.push_str(stem);
        last.role = role;
        last.ending = ending;
        return;
    }
    push(rest, ending, closes, phrases);
}

fn push(rest: String, ending: Option<Ending>, closes: bool, phrases: &mut Vec<Phrase>) {
    if rest.is_empty() {
        // The copula behind a noun or a value: its tense is the phrase's.
        match phrases.last_mut() {
            Some(last) if last.ending.is_none() && ending.is_some() => last.ending = ending,
            _ => phrases.push(Phrase { word: String::new(), role: Role::Bare, ending }),
        }
        return;
    }
    let (stem, role) = particle_behind(&rest, closes);
    phrases.push(Phrase { word: stem.to_owned(), role, ending });
}

/// The particle that ends a stretch of kana, which then is no ending of the text.
fn particle_behind(rest: &str, closes: bool) -> (&str, Role) {
    let found = PARTICLES.iter().find(|(particle, _)| !closes && rest.ends_with(particle));
    found.map_or((rest, Role::Bare), |(particle, role)| (&rest[..rest.len() - particle.len()], *role))
}

/// What is left of the kana that close a clause without the ending of the predicate, and what the ending says.
fn predicate(run: &str) -> (String, Option<Ending>) {
    let mut rest = run;
    for particle in ["よね", "よ", "ね"] {
        rest = rest.strip_suffix(particle).unwrap_or(rest);
    }
    let mut ending = Ending::default();
    // Polite forms stand behind plain ones: 怖いです, 飲まなかったです.
    if let Some(front) = rest.strip_suffix("でした").filter(|front| !front.ends_with("ません")) {
        (rest, ending.past) = (front, true);
        return (adjective(rest).to_owned(), Some(ending));
    }
    for polite in ["です", "である"] {
        if let Some(front) = rest.strip_suffix(polite) {
            let (stem, inner) =
                if front.is_empty() { (String::new(), ending) } else { unmarked(front, ending) };
            return (stem, Some(inner));
        }
    }
    for (form, past) in [("ませんでした", true), ("ました", true), ("ません", false), ("ます", false)]
    {
        if let Some(front) = rest.strip_suffix(form) {
            ending.past = past;
            return (verb(front, &mut ending), Some(ending));
        }
    }
    let (stem, ending) = unmarked(rest, ending);
    (stem, Some(ending))
}

fn unmarked(run: &str, mut ending: Ending) -> (String, Ending) {
    if let Some(front) = run.strip_suffix("だった") {
        ending.past = true;
        return (adjective(front).to_owned(), ending);
    }
    if let Some(front) = run.strip_suffix("なかった") {
        ending.past = true;
        return (verb(cut_last(front, &[SHORT_A]), &mut ending), ending);
    }
    if let Some(front) = run.strip_suffix("かった") {
        ending.past = true;
        return (front.to_owned(), ending);
    }
    if let Some(front) = run.strip_suffix("ない") {
        let denied = cut_last(front, &[SHORT_A]);
        let stem = if denied.len() < front.len() { denied.to_owned() } else { verb(front, &mut ending) };
        return (stem, ending);
    }
    // 住んだ is a past, 医者だ is none.
    if let Some(front) = run.strip_suffix("んだ").or(run.strip_suffix('た')) {
        ending.past = true;
        return (verb(front, &mut ending), ending);
    }
    if let Some(front) = run.strip_suffix('だ') {
        return (adjective(front).to_owned(), ending);
    }
    if let Some(front) = run.strip_suffix("する") {
        return (front.to_owned(), ending);
    }
    if run.ends_with('い') {
        return (adjective(run).to_owned(), ending);
    }
    let front = cut_last(run, &[SHORT_U]);
    if front.len() < run.len() {
        (verb(front, &mut ending), ending)
    } else {
        (adjective(run).to_owned(), ending)
    }
}

/// The stem of a verb in front of ます, た, る: without ている and without the vowel that the form changes.
fn verb(front: &str, ending: &mut Ending) -> String {
    for lasting in ["てい", "でい"] {
        if let Some(stem) = front.strip_suffix(lasting) {
            ending.lasting = true;
            return cut_last(stem, &["っん", SHORT_I, SHORT_E]).to_owned();
        }
    }
    cut_last(front, &["っん", SHORT_I, SHORT_E]).to_owned()
}

/// 怖い and 好き without their last kana.
fn adjective(run: &str) -> &str {
    cut_last(run, &["いき"])
}

/// Without the last character, where it is one of these.
fn cut_last<'a>(text: &'a str, rows: &[&str]) -> &'a str {
    match text.chars().next_back() {
        Some(last) if rows.iter().any(|row| row.contains(last)) => &text[..text.len() - last.len_utf8()],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::normalise;

    /// The last word and its ending.
    fn last(text: &str) -> (String, Ending) {
        let phrases = phrases(&normalise(text));
        phrases.last().map(|last| (last.word.clone(), last.ending.unwrap_or_default())).unwrap_or_default()
    }

    #[test]
    fn polite_and_plain_forms_are_one_word() {
        for (forms, word) in [
            (&["書く", "書きます", "書かない", "書きません"][..], "書"),
            (&["食べる", "食べます", "食べない", "食べません"], "食"),
            (&["運転する", "運転します", "運転しません", "運転しない"], "運転"),
            (&["保存される", "保存されます"], "保存さ"),
            (&["始まる", "始まります", "始まりません"], "始ま"),
            (&["医者だ", "医者です", "医者である"], "医者"),
            (&["怖い", "怖いです"], "怖"),
            (&["好きだ", "好きです", "好む"], "好"),
        ] {
            for form in forms {
                assert_eq!(last(&format!("{form}。")), (word.to_owned(), Ending::default()), "{form}");
            }
        }
    }

    #[test]
    fn what_an_ending_says_is_kept() {
        let (past, lasting) = (true, true);
        for (forms, word, expected) in [
            (&["書いた", "書きました", "書きませんでした"][..], "書", Ending { past, lasting: false }),
            (&["住んでいた", "住んでいました"], "住", Ending { past, lasting }),
            (&["住んでいる", "住んでいます"], "住", Ending { past: false, lasting }),
            (&["住んだ", "住みました"], "住", Ending { past, lasting: false }),
            (&["医者だった", "医者でした"], "医者", Ending { past, lasting: false }),
            (&["怖かった", "怖かったです"], "怖", Ending { past, lasting: false }),
        ] {
            for form in forms {
                assert_eq!(last(form), (word.to_owned(), expected), "{form}");
            }
        }
        for (one, other) in
            [("買う", "買いたい"), ("教えてくれる", "教えてもらう"), ("保存する", "保存される")]
        {
            assert_ne!(last(one).0, last(other).0, "{one} / {other}");
        }
    }
}
