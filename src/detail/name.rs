//! Proper names by rules: capitalised words, acronyms and quoted titles; people by surname, title or call name and
//! places by a short list and their endings in Chinese, Japanese and Korean.
//! Two sets: *certain* names decide the draft check, *likely* ones are only hints.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use super::gazetteer::{CJK_PLACE, aliases};
use super::{blank, compile};
use crate::language::is_cjk;

/// What [`find`] returns.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub certain: BTreeSet<String>,
    pub likely: BTreeSet<String>,
}

/// Words that open a sentence or are written with a capital and name nothing.
const COMMON: &str = " a an the this that these those there here it its he she we they you i my your his her our their user users assistant ai ok okay yes no not never always use run set keep add make do does did don't avoid prefer prefers please remember remind if when while after before since until because although though however also and or but so then for from in on at by with without to of as is are was were be been has have had will would can could should may might must let today tomorrow yesterday now later once every each all any some most many few both either neither one two three four five six seven eight nine ten first second third last next new old good great nice hello hi hey thanks thank dear sorry sure well oh wow hmm what who where when why how which note notes todo project team meeting meetings release deploy deploys indent code file files test tests customer customers data memory people everyone someone nobody nothing everything something only just still even during about under over between into out up down off than not instead rather according based recently currently previously usually sometimes often maybe perhaps mr mrs ms dr prof sir madam mum mom dad monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november december am pm spring summer autumn winter north south east west important warning never not must very again birthday christmas haha yeah alright actually besides lately anyway finally definitely feel see share believe goodbye companion speaking talking seeing makes life more less other another same such whenever wherever whether yet ich wir sie er es der die das ein eine mein und oder aber nicht  nutzer nutzers nutzerin benutzer benutzers le la les un une je nous vous il elle el los las yo usted ";

static COMMON_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| COMMON.split_whitespace().collect());

/// Verbs after which a capitalised first word is a person or a thing with a name.
const NAMED_VERBS: &str = " lives lived works worked likes liked loves loved hates prefers preferred said says told asked wants wanted owns owned bought moved joined left plays played speaks studies teaches manages leads wrote called visited knows met gave got quit started stopped married plans drinks eats enjoys thinks needs uses decided moved runs wohnt arbeitet mag heißt habite aime travaille vive trabaja ";

static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| compile(r#"《([^《》]{1,60})》|『([^『』]{1,60})』|"([^"]{2,60})""#));

static WORD: LazyLock<Regex> = LazyLock::new(|| compile(r"[\p{Latin}][\p{Latin}\p{M}0-9'’&-]*"));

const SURNAMES: &str = "张王李赵刘陈杨黄周吴徐孙朱胡郭何林罗郑梁谢宋唐邓韩冯曹彭曾萧蔡潘袁董苏叶吕魏蒋沈卢姜崔钟谭陆汪范石廖贾韦夏傅邹孟熊秦邱侯江尹薛闫段雷龙黎史陶贺顾毛郝龚邵万钱覃武戴莫孔汤章張陳劉黃楊趙吳孫羅鄭韓馮";

/// Words that begin with a surname's character and are no names.
const NOT_PEOPLE: &[&str] = &[
    "周末", "周会", "周报", "周年", "周围", "周边", "黄色", "黄油", "黄金", "何时", "何处", "何必", "曾经",
    "谢谢", "钱包", "孙子", "孙女", "石头", "夏天", "夏季", "江湖", "毛巾", "毛衣", "万一", "万岁", "林业",
    "叶子", "雷雨", "龙虾", "史上", "武器", "武术", "钟头", "唐朝", "宋朝", "汤圆", "马上", "杨树", "苏打",
    "陈旧", "李子", "张开", "梁柱", "高兴", "莫名", "孔雀", "贺卡", "陶瓷", "顾客", "万能", "章节", "章程",
    "张力", "外卖", "了", "来", "过", "醒", "停", "你", "他", "她", "我", "什么", "一", "车", "人",
];

/// What follows a person's name in a sentence.
const AFTER_PERSON: &str = r"住|说|喜欢|喜爱|爱|讨厌|去|来|是|在|的|和|跟|与|会|要|想|有|已|现在|去年|今年|昨天|今天|明天|每天|对|从|由|把|给|叫|生于|出生|负责|同意|决定|买|养|学|做|开始|认为|觉得|告诉|建议|不|没|搬|从事|工作|毕业|认识|欠|借|送|请|帮|教|娶|嫁|雇|见|陪|[，。,.!?！？、；:：]|$";

static PERSON: LazyLock<Regex> = LazyLock::new(|| {
    compile(&format!(
        r"(?:^|[\s，。,.!?！？、；:：“（(]|同事|朋友|老板|经理|妻子|丈夫|女友|男友|同学|和|跟|与|给|对|让|找)([{SURNAMES}]\p{{Han}}{{1,2}}?)(?:{AFTER_PERSON})"
    ))
});

static CALLED: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?:叫做|名叫|名字是|名字叫|(?:我|他|她|它|用户|妻子|丈夫|老婆|老公|儿子|女儿|女友|男友|朋友|同事|妹妹|弟弟|姐姐|哥哥|爸爸|妈妈|孩子|宠物|狗|猫)叫)([\p{Han}A-Za-z·]{1,6}?)(?:[，。,.!?！？、；\s的]|$)",
    )
});

static TITLED: LazyLock<Regex> = LazyLock::new(|| {
    compile(&format!(
        r"([{SURNAMES}]\p{{Han}}{{0,2}}?(?:先生|女士|小姐|老师|教授|医生|经理|老板|同学|总监|师傅|律师|阿姨|叔叔)|[{SURNAMES}](?:工|总|哥|姐)|老[{SURNAMES}]|小[王李张赵刘陈杨吴徐孙朱胡郭何罗郑梁宋邓韩冯曹彭蔡潘袁董吕魏蒋沈明红华丽芳刚强军娟敏静燕])"
    ))
});

static JAPANESE: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"(\p{Han}{1,4}|[\p{Katakana}ー]{2,8}|[A-Z][a-z]+) ?(?:さん|くん|ちゃん|君|様|氏)")
});

static KOREAN: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?:^|\s)([가-힣]{2,4}?) ?씨|(?:^|\s)([김이박최정강조윤장임한오서신권황안송전홍민지수현영][가-힣]{1,2})(?:은|는|이|가|의|에게|와|과|랑)(?:\s|$)",
    )
});

static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"(?:在|去|到|于|从|由|住|往|离开|来自)(\p{Han}{2,3}(?:省|市|区|县|镇|路|公园|大学|岛))")
});

/// Takes titles of books, songs and the like out of the text: what stands in 《》 or 『』, and between quotes what has
/// capitals like a title. Other quotes may be speech, and their numbers and dates must be read; they stay.
pub(super) fn take_titles(text: &mut String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut taken = Vec::new();
    for m in QUOTED.captures_iter(text) {
        let marked = m.get(1).or(m.get(2));
        let title = marked.or(m.get(3)).map_or("", |part| part.as_str().trim());
        if !title.contains('\u{1}') && (marked.is_some() || is_title(title)) {
            found.insert(title.to_owned());
            taken.push(m.get(0).expect("group 0").range());
        }
    }
    taken.into_iter().for_each(|range| blank(text, range));
    found
}

/// Capitals at both ends and on most words, and no end of a sentence.
fn is_title(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let capital = |word: &&&str| word.starts_with(char::is_uppercase);
    let ends = words.first().iter().all(&capital) && words.last().iter().all(&capital);
    let capitals = words.iter().filter(capital).count();
    ends && !words.is_empty() && capitals * 2 >= words.len() && !text.ends_with(['.', '!', '?', ','])
}

/// The proper names of a text from which URLs, identifiers, dates and numbers were already taken.
pub(super) fn find(text: &str) -> Names {
    let mut names = Names::default();
    find_latin(text, &mut names);
    if !text.is_ascii() {
        find_cjk(text, &mut names);
    }
    let certain = &names.certain;
    names.likely.retain(|name| !certain.contains(name));
    names
}

/// One capitalised word, where it stands.
struct Capital<'a> {
    word: &'a str,
    opens: bool,
    possessive: bool,
    end: usize,
    next: Option<&'a str>,
}

fn find_latin(text: &str, names: &mut Names) {
    let words: Vec<_> = WORD.find_iter(text).collect();
    let starts_low = |word: &str| word.chars().next().is_some_and(char::is_lowercase);
    let capitals = words.iter().filter(|m| !starts_low(m.as_str())).count();
    // A title or German: capitals are no evidence there.
    let weak = capitals > 3 && capitals * 10 > words.len() * 6 || is_german(&words);
    let mut run: Vec<Capital<'_>> = Vec::new();
    for (place, m) in words.iter().enumerate() {
        let word = m.as_str().trim_end_matches(['\'', '’', '-', '&']);
        let word = word.strip_suffix("'s").or(word.strip_suffix("’s")).unwrap_or(word);
        if starts_low(word) || word == "I" || word.starts_with("I'") || word.starts_with("I’") {
            close(&mut run, weak, names);
            continue;
        }
        let joined = run.last().is_some_and(|last| text.get(last.end..m.start()) == Some(" "));
        if !joined {
            close(&mut run, weak, names);
        }
        let next = words.get(place + 1).map(|next| next.as_str());
        let possessive = word.len() != m.len();
        run.push(Capital { word, opens: opens_sentence(&text[..m.start()]), possessive, end: m.end(), next });
        if possessive {
            close(&mut run, weak, names);
        }
    }
    close(&mut run, weak, names);
}

fn is_german(words: &[regex::Match<'_>]) -> bool {
    let known = words
        .iter()
        .filter(|m| {
            matches!(
                m.as_str(),
                "der"
                    | "die"
                    | "das"
                    | "und"
                    | "ist"
                    | "nicht"
                    | "ein"
                    | "eine"
                    | "mit"
                    | "für"
                    | "auf"
                    | "den"
                    | "dem"
                    | "von"
                    | "zu"
                    | "wird"
                    | "hat"
                    | "Der"
                    | "Die"
                    | "Das"
            )
        })
        .count();
    known * 6 >= words.len() && known > 0
}

fn opens_sentence(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '"', '\'', '(', '*', '_', '\t', '[']);
    before.is_empty()
        || before.ends_with([
            '.', '!', '?', ':', ';', '。', '！', '？', '；', '：', '\n', '…', '-', '|', '#', '>', '•',
        ])
}

/// Ends a run of capitalised words and judges it.
fn close(run: &mut Vec<Capital<'_>>, weak: bool, names: &mut Names) {
    let mut words = std::mem::take(run);
    // "You're" is as common as "you".
    let common = |word: &str| {
        let stem = word.split(['\'', '’']).next().unwrap_or(word);
        COMMON_WORDS.contains(stem.to_lowercase().as_str())
    };
    // "The Eiffel Tower", "Today Alice": the opening word is no part of the name.
    while words.first().is_some_and(|first| common(first.word)) {
        words.remove(0);
    }
    while words.last().is_some_and(|last| common(last.word)) {
        words.pop();
    }
    let Some(first) = words.first() else { return };
    let name = words.iter().map(|word| word.word).collect::<Vec<_>>().join(" ");
    let inner = first.word.chars().skip(1).any(char::is_uppercase);
    let known = aliases(&name).is_some();
    let certain = if first.word.chars().count() < 2 && words.len() == 1 {
        return;
    } else if inner || known {
        true
    } else if weak && !(words.len() == 1 && first.opens) {
        false
    } else if words.len() == 1 && first.opens {
        let named =
            first.possessive || first.next.is_some_and(|next| NAMED_VERBS.contains(&format!(" {next} ")));
        named && !plain_noun(first.word)
    } else {
        true
    };
    if certain {
        names.certain.insert(name)
    } else {
        names.likely.insert(name)
    };
}

/// A first word that by its ending is rather a common noun: "Deployments", "Gardening".
fn plain_noun(word: &str) -> bool {
    ["ing", "tion", "ment", "ness", "ity", "ers", "ions", "ments", "ts", "ps"]
        .iter()
        .any(|end| word.ends_with(end))
}

fn find_cjk(text: &str, names: &mut Names) {
    names.certain.extend(CJK_PLACE.find_iter(text).map(|m| m.as_str().to_owned()));
    let mut add = |pattern: &Regex, certain: bool| {
        let mut from = 0;
        while let Some(m) = pattern.captures_at(text, from) {
            let Some(name) = m.iter().skip(1).flatten().next() else { break };
            // What follows a name may open the next: go on right behind it.
            from = name.end().max(from + 1);
            while !text.is_char_boundary(from) {
                from += 1;
            }
            let word = name.as_str();
            if !NOT_PEOPLE.iter().any(|other| word.starts_with(other)) {
                if certain {
                    names.certain.insert(word.to_owned())
                } else {
                    names.likely.insert(word.to_owned())
                };
            }
        }
    };
    add(&CALLED, true);
    add(&PERSON, true);
    add(&TITLED, true);
    add(&PLACE, false);
    if text.chars().any(crate::language::is_hangul) {
        add(&KOREAN, false);
    }
    if text.chars().any(crate::language::is_kana) {
        let people = JAPANESE.captures_iter(text).map(|m| m[1].to_owned());
        let roles = [
            "客", "皆", "母", "父", "兄", "姉", "医者", "店員", "子", "奥", "患者", "王", "神", "仕", "同",
            "人",
        ];
        names.certain.extend(people.filter(|name| !roles.contains(&name.as_str())));
    }
}

/// Whether a name stands in a text, both folded to lower case: each of its words as a whole word, or a CJK name
/// as written, or the place by another of its names.
pub(super) fn stands_in(name: &str, lower: &str) -> bool {
    let has = |name: &str| {
        let name = name.to_lowercase();
        name.split_whitespace().all(|word| has_word(lower, word.trim_matches(|c: char| !c.is_alphanumeric())))
    };
    has(name) || aliases(name).is_some_and(|names| names.iter().any(|alias| has(alias)))
}

/// Whether the word occurs, and in Latin letters not inside another word (a plural or possessive s aside).
pub(super) fn has_word(text: &str, word: &str) -> bool {
    if word.is_empty() {
        return true;
    }
    let inner = |c: char| c.is_alphanumeric() && !is_cjk(c);
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + word.len()..];
        let open = !word.starts_with(inner) || before.is_none_or(|c| !inner(c));
        let rest = after.strip_prefix('s').unwrap_or(after);
        open && (!word.ends_with(inner)
            || after.chars().next().is_none_or(|c| !inner(c))
            || rest.chars().next().is_none_or(|c| !inner(c)))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn certain(text: &str) -> Vec<String> {
        crate::detail::details(text, None).names.into_iter().collect()
    }

    #[test]
    fn names_are_found_where_they_are_certain() {
        for (text, expected) in [
            ("Alice lives in Berlin.", &["Alice", "Berlin"][..]),
            ("Yesterday Bob met Alice Smith at the store.", &["Alice Smith", "Bob"]),
            ("The user's dog is called Biscuit.", &["Biscuit"]),
            ("We use PostgreSQL for billing.", &["PostgreSQL"]),
            ("I read \"The Great Gatsby\" twice.", &["The Great Gatsby"]),
            ("The license is MIT.", &["MIT"]),
            (
                "I like \"One Hundred Years of Solitude\" and \"Listen to Mom\".",
                &["Listen to Mom", "One Hundred Years of Solitude"],
            ),
            ("Deploys on Fridays are allowed.", &[]),
            ("Use tabs. Never use spaces.", &[]),
            ("User prefers tea.", &[]),
            ("Gardening is a hobby.", &[]),
            ("Der Hund mag die Katze und das Haus.", &[]),
            ("李华住在北京。", &["北京", "李华"]),
            ("我叫张曼婷，很高兴认识你。", &["张曼婷"]),
            ("张工说没问题", &["张工"]),
            ("王老师和小明去了公园", &["小明", "王老师"]),
            ("周末很高兴", &[]),
            ("谢谢你的建议", &[]),
            ("我在看《活着》", &["活着"]),
            ("田中さんは東京に住んでいる。", &["東京", "田中"]),
            ("お客さんが来た", &[]),
            ("민수는 서울에 산다.", &["서울"]),
        ] {
            assert_eq!(certain(text), expected, "{text}");
        }
    }

    #[test]
    fn a_name_stands_in_a_text_as_a_whole_word_or_by_another_name() {
        for (name, text, expected) in [
            ("Alice", "alice's cat", true),
            ("Ann", "anna came", false),
            ("Alice Smith", "alice came", false),
            ("北京", "she lives in beijing", true),
            ("Beijing", "李华住在北京", true),
            ("李华", "李华住在北京", true),
        ] {
            assert_eq!(stands_in(name, text), expected, "{name} in {text}");
        }
    }
}
