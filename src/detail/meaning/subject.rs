//! Who a clause is about: the user, the assistant, or somebody else. Only where a pronoun, a name or a word for a relative
//! says so; otherwise nobody knows, and nothing follows from it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::super::compile;
use super::clause::words;

/// Whom a clause is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// Whoever speaks: "I", or "the user" in a memory.
    Speaker,
    /// Whoever is spoken to.
    Addressee,
    /// Somebody else, by name or as "he" and "my sister".
    Other(String),
    /// Nobody can tell.
    Unknown,
}

const FIRST: &[&str] = &[
    "i", "i'm", "i've", "i'd", "i'll", "we", "we're", "we've", "we'll", "us", "me", "myself", "ich", "wir",
    "mir", "mich", "uns",
];
const SECOND: &[&str] = &["you", "you're", "you've", "you'll", "du", "dir", "dich"];
const THIRD: &[&str] = &["he", "she", "they", "he's", "she's", "they're", "him", "er"];
const POSSESSIVE: &[&str] =
    &["my", "our", "mein", "meine", "meiner", "meinem", "meinen", "unser", "unsere", "user's", "nutzers"];
const RELATIVES: &[&str] = &[
    "wife",
    "husband",
    "brother",
    "sister",
    "mother",
    "father",
    "mum",
    "mom",
    "dad",
    "son",
    "daughter",
    "friend",
    "boss",
    "colleague",
    "neighbour",
    "neighbor",
    "girlfriend",
    "boyfriend",
    "partner",
    "cousin",
    "uncle",
    "aunt",
    "grandmother",
    "grandfather",
    "grandma",
    "grandpa",
    "roommate",
    "flatmate",
    "teacher",
    "doctor",
    "manager",
    "parents",
    "kids",
    "children",
    "nephew",
    "niece",
    "landlord",
    "coworker",
    "fiancée",
    "fiancé",
    "frau",
    "mann",
    "bruder",
    "schwester",
    "mutter",
    "vater",
    "sohn",
    "tochter",
    "freund",
    "freundin",
    "chef",
    "chefin",
    "kollege",
    "kollegin",
    "nachbar",
    "nachbarin",
    "onkel",
    "tante",
    "oma",
    "opa",
    "eltern",
    "kinder",
    "dog",
    "cat",
    "hund",
    "katze",
];
const PREPOSITIONS: &[&str] = &[
    "in", "at", "from", "to", "with", "of", "for", "near", "by", "on", "about", "like", "called", "named",
    "bei", "mit", "von", "nach", "aus", "für", "über", "zu", "than", "as", "the", "a", "an",
];

static CJK_SPEAKER: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"我们?|咱们?|本人|俺|用户|私|僕|自分|ユーザー|(?:^|\s)(?:나|저|내|제|우리)(?:는|가|도|의|를|에게|한테|\s)|사용자|(?:^|\s)(?:난|전) ",
    )
});
const CJK_RELATIVES: &str = r"妻子|丈夫|老婆|老公|儿子|女儿|妈妈|爸爸|母亲|父亲|哥哥|弟弟|姐姐|妹妹|朋友|同事|老板|女友|男友|邻居|爷爷|奶奶|室友|同学|孩子|妻|夫|母|父|兄|姉|弟|妹|息子|娘|友達|友人|同僚|上司|彼氏|祖母|祖父|아내|남편|형|누나|언니|오빠|동생|엄마|아빠|어머니|아버지|아들|딸|친구|동료|상사|이웃";
static CJK_RELATIVE: LazyLock<Regex> = LazyLock::new(|| {
    compile(&format!(
        r"(?:^|[\s,。、]|我的?|用户的?|私の|僕の|ユーザーの|제 ?|내 ?|우리 ?|사용자의 ?)({CJK_RELATIVES})(?:[^的の\p{{Hangul}}]|은|는|이|가|께서|도)"
    ))
});
static CJK_THIRD: LazyLock<Regex> =
    LazyLock::new(|| compile(r"[他她]们?|彼女?[はがも]|(?:^|\s)그녀?(?:는|가)"));
static ANY_RELATIVE: LazyLock<Regex> = LazyLock::new(|| {
    let latin = RELATIVES.join("|");
    compile(&format!(
        r"\b(?:{latin}|married|spouse|engaged|verheiratet|famil\w+|siblings?)\b|{CJK_RELATIVES}|结婚|已婚|家|結婚|既婚|결혼|가족"
    ))
});

/// Whether a text speaks of a relative or friend at all.
pub(super) fn names_a_relative(normal: &str) -> bool {
    ANY_RELATIVE.is_match(normal)
}

/// Whom the clause is about. `names` are the certain names of the text, in lower case.
pub(super) fn of(clause: &str, names: &BTreeSet<String>) -> Subject {
    if let Some(subject) = of_memory(clause, names) {
        return subject;
    }
    if clause.chars().any(crate::language::is_cjk) {
        return of_cjk(clause, names);
    }
    let words: Vec<&str> = words(clause).into_iter().map(|(_, word)| word).collect();
    let relative = |at: usize| {
        POSSESSIVE.contains(&words[at]) && words[at + 1..].iter().take(3).any(|word| RELATIVES.contains(word))
    };
    let opening = words.iter().take(4).position(|word| {
        !["and", "but", "yesterday", "today", "so", "because", "und", "also"].contains(word)
    });
    if let Some(at) = opening.filter(|at| relative(*at)) {
        // "My wife and I" are two, one of them the speaker.
        let both =
            words.iter().any(|word| ["i", "ich", "we", "wir", "me", "us", "mir", "uns"].contains(word));
        return if both {
            Subject::Speaker
        } else {
            Subject::Other(
                words[at + 1..]
                    .iter()
                    .take(3)
                    .find(|w| RELATIVES.contains(w))
                    .map_or(String::new(), |w| (*w).to_owned()),
            )
        };
    }
    if words.iter().any(|word| FIRST.contains(word)) {
        return Subject::Speaker;
    }
    for (at, word) in words.iter().enumerate() {
        let object = at > 0 && PREPOSITIONS.contains(&words[at - 1]);
        if SECOND.contains(word) {
            return Subject::Addressee;
        }
        if THIRD.contains(word) && !object {
            return Subject::Other((*word).to_owned());
        }
        let starts = |name: &&String| name.split(' ').next() == Some(word.strip_suffix("'s").unwrap_or(word));
        if let Some(name) = names.iter().find(starts).filter(|_| !object) {
            // A name behind the verb is no subject: "moved to Oslo", "met Bob".
            return if at < 3 { Subject::Other(name.clone()) } else { Subject::Unknown };
        }
    }
    Subject::Unknown
}

static MEMORY_SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"^\W*(?:(?:on|in|since|as of) [\d-]+,? )?(?:the user|user|der nutzer|die nutzerin|der benutzer)(?P<own>'s|s)? ",
    )
});

/// The subject of a memory, which names the user so.
fn of_memory(clause: &str, names: &BTreeSet<String>) -> Option<Subject> {
    let found = MEMORY_SUBJECT.captures(clause)?;
    if found.name("own").is_none() {
        return Some(Subject::Speaker);
    }
    let rest: Vec<&str> =
        words(&clause[found.get(0)?.end()..]).into_iter().map(|(_, word)| word).take(3).collect();
    let other = rest.iter().find(|word| RELATIVES.contains(word) || names.contains(**word));
    Some(other.map_or(Subject::Unknown, |word| Subject::Other((*word).to_owned())))
}

fn of_cjk(clause: &str, names: &BTreeSet<String>) -> Subject {
    let relative = CJK_RELATIVE
        .captures(clause)
        .filter(|m| m.get(1).is_some_and(|m| clause[..m.start()].chars().count() < 6));
    if let Some(found) = relative {
        return Subject::Other(found[1].to_owned());
    }
    if CJK_SPEAKER.is_match(clause) {
        return Subject::Speaker;
    }
    // A particle makes the name the subject in Japanese and Korean; in Chinese it stands first.
    let marked = |name: &&String| {
        clause.find(name.as_str()).is_some_and(|at| {
            let rest = clause[at + name.len()..]
                .trim_start_matches("さん")
                .trim_start_matches(" 씨")
                .trim_start_matches('씨');
            let kana = clause.chars().any(|c| crate::language::is_kana(c) || crate::language::is_hangul(c));
            if kana {
                rest.starts_with(['は', 'が', 'も', '는', '은', '이', '가'])
            } else {
                clause[..at].chars().count() < 2
            }
        })
    };
    if let Some(name) = names.iter().find(marked) {
        return Subject::Other(name.clone());
    }
    if let Some(found) = CJK_THIRD.find(clause) {
        return Subject::Other(found.as_str().to_owned());
    }
    if clause.contains('你') || clause.contains('您') || clause.contains("あなた") {
        return Subject::Addressee;
    }
    Subject::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_about_whoever_it_names_first() {
        let names: BTreeSet<String> = ["bob", "oslo", "小明", "田中"].map(str::to_owned).into();
        let other = |name: &str| Subject::Other(name.to_owned());
        for (clause, expected) in [
            ("i live in oslo", Subject::Speaker),
            ("bob lives in oslo", other("bob")),
            ("in oslo i met bob", Subject::Speaker),
            ("my brother lives in oslo", other("brother")),
            ("my wife and i live there", Subject::Speaker),
            ("she is a nurse", other("she")),
            ("the user lives in oslo", Subject::Speaker),
            ("the user's brother lives in oslo", other("brother")),
            ("the user's dog is four", other("dog")),
            ("moved to oslo", Subject::Unknown),
            ("you are great", Subject::Addressee),
            ("小明住在北京", other("小明")),
            ("我认识小明", Subject::Speaker),
            ("我妻子是护士", other("妻子")),
            ("用户住在北京", Subject::Speaker),
            ("田中さんは東京に住む", other("田中")),
            ("東京に住む", Subject::Unknown),
            ("妻は看護師です", other("妻")),
            ("저는 서울에 산다", Subject::Speaker),
            ("제 동생은 서울에 산다", other("동생")),
        ] {
            assert_eq!(of(clause, &names), expected, "{clause}");
        }
    }
}
