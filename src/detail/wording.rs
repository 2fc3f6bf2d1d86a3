//! Words that turn a claim: negation, change, opposites, and the slots that hold one value at a time.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::{Details, compile, name::has_word};
use crate::language::normalise;

macro_rules! pattern {
    ($name:ident, $($part:expr),+ $(,)?) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            let parts: &[&str] = &[$($part),+];
            compile(&parts.join("|"))
        });
    };
}

// "tabs, not spaces", "rather than spaces", "instead of": a contrast, not a denial of the claim.
pattern!(
    CONTRAST,
    r"(?:, ?(?:and |but )?not|rather than|instead of|而不是|而非|ではなく|이 아니라|가 아니라) ?(?:with |in |on |at |the |a |an )?(\w+)",
);

pattern!(
    NEGATION,
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|cannot|without|no longer|forbidden|prohibited|banned|disallowed|refuses?|refused)\b|n't\b",
    r"\b(?:nicht|kein\w*|nie|niemals|ohne|verboten|pas|jamais|sans|aucune?|nunca|jamás|sin|ningun[oa]?|prohibido)\b",
    // Chinese: words in which 不, 没, 无, 未 deny nothing are cut first.
    r"不|没|未|别|无法|禁止|严禁|勿",
    r"ない|ません|なかった|ず(?:に|、)|禁止",
    r"(?:^|\s)(?:안|못)\s|않|없|아니|금지|지 못|못[하한합해했할]|지 마",
);

pattern!(
    NOT_NEGATION,
    r"不错|不过|不但|不仅|不断|不久|不同|不论|不管|不得不|差不多|没错|没关系|没问题|未来|对不起|不好意思|是不是|要不要|能不能|会不会|有没有|特别|别人|区别|个别|分别|级别|类别|性别|性別|告别|别的|别墅|不用谢|不客气|不足|不安|不良|不具合|不思議|不便",
    r"少ない|はかない|切ない|かもしれない|かもしれません|に違いない|なければならない|なければなりません|危ない",
    r"\bno\. ?\d|not only|\bno problem\b|\b(?:can't|cannot) (?:stand|bear|wait)\b|아니라",
);

pattern!(
    CHANGE,
    r"\b(?:now|nowadays|no longer|any ?more|from now on|as of|moved|switched|changed|used to|formerly|previously|became|has become|turned into|replaced|migrated|(?:grown|grew|increased|decreased|reduced|raised|lowered|cut|went up|went down)(?: \S+){0,4}? to|gave up|given up|gives up|cancell?ed|postponed|rescheduled|delayed|brought forward|quit|stopped|started|began|updated to|upgraded|renamed|ex-\w+|not .{0,20}yet|so far|until (?:now|recently))\b",
    r"\b(?:jetzt|nicht mehr|früher|inzwischen|umgezogen|maintenant|désormais|ne .{1,12} plus|ahora|ya no|antes)\b",
    r"现在|目前|如今|改到|改为|改成|改用|改在|换成|换到|换了|换用|不再|已经|以前|之前|曾经|原来|从今|搬到|搬家|搬去|迁移|迁到|变成|变为|推迟|提前|延期|升级|更新为|调整|取消|戒了|戒掉|放弃|开始|停止|转为|转到|成为|還沒|还没|尚未",
    r"今は|今では|現在|もう|以前|かつて|これから|引っ越し|変更|変わ|変え|移(?:り|っ|動)|なった|になりました|やめ|辞め|諦め|始め|延期|まだ",
    r"이제|지금|현재|예전|이전|더 ?이상|바뀌|바꾸|바꿨|변경|옮기|옮겼|이사|그만|끊었|끊으셨|포기|시작|되었|됐|아직",
);

// A cause: what became so is not what the claim says of today.
pattern!(
    CAUSE,
    r"(?:なった|なっていた|変わった)(?:ため|ので|せいで|ことから|ことで)",
    r"(?:되었|됐|바뀌었|변했)기 때문|(?:되어|돼|바뀌어)서 ",
    r"\bbecause .{1,40}\b(?:became|had become|has become)\b",
);

/// Opposite values of one property, in all languages together. A word belongs to one side only.
#[rustfmt::skip]
const OPPOSITES: &[(&[&str], &[&str])] = &[
    (&[], &[]),
    (&["allowed", "permitted", "允许", "可以", "許可", "허용"], &["forbidden", "prohibited", "banned", "disallowed", "禁止", "금지"]),
    (&["dark", "深色", "暗色", "ダーク", "暗い", "다크", "어두운"], &["light", "bright", "浅色", "亮色", "ライト", "明るい", "라이트", "밝은"]),
    (&["enabled", "enable", "enables", "开启", "启用", "有効", "활성화"], &["disabled", "disable", "disables", "关闭", "禁用", "無効", "비활성화"]),
    (&["like", "likes", "loves", "love", "enjoys", "喜欢", "喜爱", "好き", "좋아"], &["hate", "hates", "dislike", "dislikes", "can't stand", "cannot stand", "can't bear", "讨厌", "厌恶", "受不了", "嫌い", "싫어"]),
    (&["always", "总是", "一直", "いつも", "항상"], &["never", "rarely", "seldom", "从不", "很少"]),
    (&["before", "之前", "以前", "前に", "전에"], &["after", "之后", "以后", "後に", "후에"]),
    (&["increase", "increased", "increases", "增加", "提高", "上升"], &["decrease", "decreased", "decreases", "减少", "降低", "下降"]),
    (&["start", "started", "starts", "began", "begins", "开始", "始め", "시작"], &["stop", "stopped", "stops", "quit", "ended", "停止", "やめ", "그만"]),
    (&["accepted", "accepts", "accept", "approved", "同意", "接受", "批准"], &["rejected", "rejects", "reject", "declined", "denied", "拒绝", "驳回"]),
    (&["open", "opened", "opens", "打开", "开门"], &["closed", "close", "closes", "关上", "关门"]),
    (&["public", "公开", "公開"], &["private", "私有", "私密", "非公開"]),
    (&["single", "unmarried", "单身", "独身"], &["married", "已婚", "结婚", "結婚", "결혼"]),
    (&["succeeded", "success", "passed", "成功", "성공"], &["failed", "fails", "failure", "失败", "失敗", "실패"]),
    (&["morning", "mornings", "早上", "早晨", "上午", "朝", "아침"], &["evening", "evenings", "night", "nights", "晚上", "夜里", "夜", "저녁"]),
    (&["left", "左"], &["right", "右"]),
    (&["high", "higher", "高い", "높은"], &["low", "lower", "低い", "낮은"]),
    (&["more", "更多", "多い"], &["less", "fewer", "更少", "少ない"]),
    (&["true"], &["false"]),
    (&["best", "favourite", "favorite", "最喜欢"], &["worst", "least", "最讨厌"]),
    (&["mandatory", "required", "必须", "必須"], &["optional", "可选", "任意"]),
    (&["indoor", "indoors", "室内"], &["outdoor", "outdoors", "户外", "室外"]),
    (&["remote", "remotely", "远程", "リモート"], &["onsite", "on-site", "现场"]),
    (&["buy", "buys", "bought", "买了", "购买"], &["sell", "sells", "sold", "卖了", "出售"]),
    (&["fixed", "resolved", "修复了", "已修复"], &["broken", "unfixed", "unresolved", "未修复"]),
    (&["on by default", "turned on", "switched on", "turn on"], &["off by default", "turned off", "switched off", "turn off"]),
    (&["all", "every", "所有", "全部"], &["some", "few", "部分", "有些"]),
    (&["subscribed", "subscribes", "subscribe", "订阅", "購読", "구독"], &["unsubscribed", "unsubscribes", "unsubscribe", "退订", "解約", "해지"]),
    (&["pass", "passes", "通过"], &["fail", "fails", "未通过"]),
];

/// Verbs whose past and present say different things of today.
const TENSES: &[(&str, &str)] = &[
    ("lives", "lived"),
    ("works", "worked"),
    ("owns", "owned"),
    ("likes", "liked"),
    ("loves", "loved"),
    ("prefers", "preferred"),
    ("wants", "wanted"),
    ("uses", "used"),
    ("has", "had"),
    ("plays", "played"),
    ("drinks", "drank"),
    ("eats", "ate"),
    ("smokes", "smoked"),
    ("studies", "studied"),
    ("speaks", "spoke"),
    ("teaches", "taught"),
    ("manages", "managed"),
    ("needs", "needed"),
];

/// Any word of [`OPPOSITES`] or [`TENSES`].
static OPPOSED: LazyLock<Regex> = LazyLock::new(|| {
    let values = OPPOSITES.iter().flat_map(|(a, b)| a.iter().chain(*b).copied());
    let verbs = TENSES.iter().flat_map(|&(now, then)| [now, then]);
    compile(&values.chain(verbs).collect::<Vec<_>>().join("|"))
});

/// Whether the claim is denied: an odd reading aside, a word of negation stands outside a contrast.
pub(super) fn is_negated(normal: &str) -> bool {
    let plain = CONTRAST.replace_all(normal, " ");
    let plain = NOT_NEGATION.replace_all(&plain, " ");
    NEGATION.is_match(&plain)
}

/// Where words of denial stand.
pub(super) fn negations(normal: &str) -> Vec<Range<usize>> {
    NEGATION.find_iter(normal).map(|m| m.range()).collect()
}

/// Where words stand that look like denial and are none.
pub(super) fn not_negations(normal: &str) -> Vec<Range<usize>> {
    NOT_NEGATION.find_iter(normal).map(|m| m.range()).collect()
}

/// What a contrast rules out: "spaces" in "tabs, not spaces".
pub(super) fn ruled_out(normal: &str) -> Option<String> {
    CONTRAST.captures(normal).map(|m| m[1].to_owned())
}

/// The first word of change in a normalised text. One that only names a cause changes nothing ("because it had become
/// full").
pub(super) fn change_word(normal: &str) -> Option<&str> {
    let causes: Vec<Range<usize>> = CAUSE.find_iter(normal).map(|m| m.range()).collect();
    let is_cause = |range: Range<usize>| causes.iter().any(|cause| cause.contains(&range.start));
    CHANGE.find_iter(normal).find(|m| !is_cause(m.range())).map(|m| m.as_str())
}

/// Whether the text says that something is no longer as it was ("now", "moved to", 现在, 改到, もう, 이제).
pub fn has_change_word(text: &str) -> bool {
    change_word(&normalise(text)).is_some()
}

/// Two opposite words, or a present and a past, of which one text has the one and the other has the other.
pub(super) fn opposites(first: &str, second: &str) -> Option<(&'static str, &'static str)> {
    // Most texts hold no such word at all, and one pass tells so.
    if !OPPOSED.is_match(first) || !OPPOSED.is_match(second) {
        return None;
    }
    let one = |text: &str, words: &[&'static str]| words.iter().copied().find(|word| has_word(text, word));
    let sides = |a: &[&'static str], b: &[&'static str]| match (
        one(first, a),
        one(first, b),
        one(second, a),
        one(second, b),
    ) {
        (Some(x), None, None, Some(y)) | (None, Some(x), Some(y), None) => Some((x, y)),
        _ => None,
    };
    let opposite = OPPOSITES.iter().find_map(|(a, b)| sides(a, b));
    opposite.or_else(|| TENSES.iter().find_map(|(now, then)| sides(&[*now], &[*then])))
}

/// Pairs of [`OPPOSITES`] of which one cannot hold beside the other: liked and hated, allowed and forbidden. Mornings and
/// evenings, buying and selling can.
const EXCLUDING: &[&str] = &[
    "allowed",
    "dark",
    "enabled",
    "like",
    "always",
    "accepted",
    "public",
    "single",
    "succeeded",
    "true",
    "mandatory",
    "fixed",
    "on by default",
    "pass",
    "remote",
];

/// The word of one text and its opposite in the other, where both cannot hold.
pub(super) fn excluded(first: &str, second: &str) -> Option<(&'static str, &'static str)> {
    opposites_among(first, second, |side| side.first().is_some_and(|word| EXCLUDING.contains(word)))
}

/// The word by which a claim turns round what its sources say, and theirs.
pub(super) fn reversed(claim: &str, sources: &str) -> Option<(&'static str, &'static str)> {
    // "Left" and "right", "all" and "some" have other meanings too often.
    opposites_among(claim, sources, |side| {
        !side.iter().any(|word| ["left", "all", "open", "high"].contains(word))
    })
}

fn opposites_among(
    first: &str,
    second: &str,
    counts: impl Fn(&[&'static str]) -> bool,
) -> Option<(&'static str, &'static str)> {
    let one = |text: &str, words: &[&'static str]| words.iter().copied().find(|word| has_word(text, word));
    OPPOSITES.iter().filter(|(side, _)| counts(side)).find_map(|(a, b)| {
        match (one(first, a), one(first, b), one(second, a), one(second, b)) {
            (Some(x), None, None, Some(y)) | (None, Some(x), Some(y), None) => Some((x, y)),
            _ => None,
        }
    })
}

/// The claim's verb in the present where the sources have it only in the past, or the other way round.
pub(super) fn other_tense(claim: &str, sources: &str) -> Option<(&'static str, &'static str)> {
    // The forms of these have other uses: "used to", "had to", "wanted to ask".
    let plain = |now: &str| !["uses", "has", "wants", "needs", "plays", "manages"].contains(&now);
    TENSES.iter().filter(|(now, _)| plain(now)).find_map(|&(now, then)| {
        let base = now.strip_suffix("ies").map_or_else(
            || {
                now.strip_suffix("hes")
                    .map_or_else(|| now.trim_end_matches('s').to_owned(), |stem| format!("{stem}h"))
            },
            |stem| format!("{stem}y"),
        );
        let present = |text: &str| {
            let gerund = format!("{}ing", base.trim_end_matches('e'));
            [now, base.as_str(), gerund.as_str()].iter().any(|form| has_word(text, form))
        };
        if has_word(claim, now) && has_word(sources, then) && !present(sources) {
            return Some((now, then));
        }
        (has_word(claim, then) && present(sources) && !has_word(sources, then) && !present(claim))
            .then_some((then, now))
    })
}

/// Whether a verb in Latin letters stands in the passive: "is owed", "was given".
pub(super) fn is_passive(text: &str) -> bool {
    static PASSIVE: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            r"\b(?:is|are|was|were|been|being|gets|got)(?: \w+ly)? \w+(?:ed|en|ght|aid|ld)\b|\bwird .*ge\w+t\b|\bwurde\b",
        )
    });
    PASSIVE.is_match(text)
}

/// One pattern for each kind of slot that holds one value at a time.
static SLOTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"\b(?:lives? in|living in|resides? in|moved to|is based in|wohnt in|habite|vive en)\b|住在|住到|搬到|搬去|搬家到|定居|に住|へ引っ越|に引っ越|에 산다|에 살|거주|으로 이사|로 이사",
        r"\b(?:works? (?:at|as|for|in)|is employed|job is|is an? (?:nurse|doctor|teacher|engineer|lawyer|student|developer|manager|designer)|works? remotely)\b|在.{1,12}(?:工作|上班)|从事|职业是|で働|に勤め|勤務|에서 일|근무",
        r"\b(?:is called|is named|name is|my name|goes by|renamed)\b|名字是|名字叫|名叫|叫做|叫.{1,5}$|という名|名前は|이름은|이름이",
        r"\b(?:birthday|born|geburtstag|anniversaire|cumpleaños)\b|生日|出生|生于|誕生日|생일|태어",
        r"\b(?:is scheduled|scheduled for|takes place|deadline|due (?:on|date|by)|starts at|begins at|release date|is on (?:mon|tues|wednes|thurs|fri|satur|sun)days?|was moved to|moved to|rescheduled|postponed)\b|定在|改到|截止|安排在|推迟到|发布时间|開催|予定|期限|締め切り|예정|마감|일정",
        r"\b(?:is set to|set to|timeout|limit is|default|port is|configured (?:to|as)|equals)\b|设置为|设为|设定为|超时|默认|上限|に設定|タイムアウト|デフォルト|설정|기본값|타임아웃",
        r"\bprefers? .{0,30}\b(?:mode|theme|layout|editor|language)\b|(?:喜欢|偏好|使用).{0,12}(?:模式|主题)|モード|テーマ|모드|테마",
        r"\blicen[sc]ed?\b|许可证|ライセンス|라이선스",
        r"\b(?:is located|located (?:in|at)|capital)\b|位于|地址是|に位置|にあります|위치",
        r"\b(?:is married|is single|is divorced|husband is|wife is|years old|is aged)\b|已婚|单身|丈夫是|妻子是|岁|歳|살(?:이다|입니다)?\b|结婚|結婚|결혼",
        r"\b(?:are|is) (?:allowed|forbidden|enabled|disabled|prohibited|required|optional)\b|允许|禁止|启用|禁用|허용|금지|許可",
        r"\b(?:indent|version|uses? .{1,30} (?:for|as)|written in|deployed (?:on|to)|hosted on|runs on)\b|版本|缩进|部署在|运行在|バージョン|버전",
        r"\b(?:team has|consists of|costs?|price is|salary|budget|weighs?|height is|is \w+ tall)\b|价格|工资|预算|体重|身高|人数|価格|予算|가격|예산",
        r"\b(?:favou?rite|best friend|boss is|manager is|leader is|ceo|is led by|is responsible for|owner is)\b|最喜欢的|负责人|老板是|経理|一番好き|担当|가장 좋아하는|담당",
        r"\b(?:is|are|was|has been|hasn't been|not been) (?:not )?(?:yet )?(?:fixed|done|finished|resolved|released|closed|open|broken|completed)\b|修复|已完成|未完成|修正|완료",
    ]
    .iter()
    .map(|pattern| compile(pattern))
    .collect()
});

/// Whether both claims fill a slot that holds one value at a time (where one lives, a birthday, a time, a setting),
/// so that two values exclude each other. Owning, liking, visiting, buying and reading do not.
pub fn exclusive(first: &str, second: &str) -> bool {
    let (a, b) = (normalise(first), normalise(second));
    if SLOTS.iter().any(|slot| slot.is_match(&a) && slot.is_match(&b)) {
        return true;
    }
    let (a, b) = (super::details(first, None), super::details(second, None));
    let single = |details: &Details| details.times.len() == 1;
    single(&a) && single(&b) && shares_words(first, second)
}

/// Whether two texts share a word of content: "standup" at nine and at ten.
fn shares_words(first: &str, second: &str) -> bool {
    let words = super::slot::tokens(first);
    let content = |token: &&String| super::slot::is_content(token);
    let second = super::slot::tokens(second);
    words.iter().filter(content).any(|word| second.contains(word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_claim_is_seen_in_every_language() {
        for (text, expected) in [
            ("Alice does not live in Berlin", true),
            ("Alice doesn't smoke", true),
            ("Alice no longer smokes", true),
            ("Alice smokes", false),
            ("use tabs, not spaces", false),
            ("use tabs rather than spaces", false),
            ("not only tea", false),
            ("用户不喝咖啡", true),
            ("味道不错", false),
            ("没问题", false),
            ("我没去过", true),
            ("不要提交", true),
            ("禁止提交", true),
            ("コーヒーを飲まない", true),
            ("コーヒーを飲む", false),
            ("커피를 안 마신다", true),
            ("커피를 마시지 않는다", true),
            ("커피를 마신다", false),
        ] {
            assert_eq!(is_negated(&normalise(text)), expected, "{text}");
        }
    }

    #[test]
    fn words_of_change_are_known_in_every_language() {
        for (text, expected) in [
            ("Alice lives in Madrid now", true),
            ("the standup moved to 10:00", true),
            ("she used to smoke", true),
            ("she knows him", false),
            ("站会改到十点", true),
            ("李华现在住在广州", true),
            ("李华住在广州", false),
            ("田中さんは今は大阪に住んでいる", true),
            ("민수는 이제 부산에 산다", true),
            ("민수는 부산에 산다", false),
        ] {
            assert_eq!(has_change_word(text), expected, "{text}");
        }
    }

    #[test]
    fn a_slot_of_one_value_is_told_from_a_list() {
        for (first, second, expected) in [
            ("Alice lives in Berlin.", "Alice lives in Madrid.", true),
            ("Standup is at 9:00", "Standup is at 10:00", true),
            ("The project license is MIT.", "The project license is GPL version 3.", true),
            ("The user prefers dark mode.", "The user prefers light mode.", true),
            ("The timeout is set to 30 seconds.", "The timeout is set to 120 seconds.", true),
            ("Alice's birthday is on March 14th.", "Alice was born on 15 March.", true),
            ("李华住在北京。", "李华住在广州。", true),
            ("站会九点", "站会十点", true),
            ("田中さんは東京に住んでいる。", "田中さんは大阪に住んでいる。", true),
            ("민수는 서울에 산다.", "민수는 부산에 산다.", true),
            ("The user owns a cat.", "The user owns a dog.", false),
            ("The user likes tea.", "The user likes coffee.", false),
            ("The user visited Paris.", "The user visited Rome.", false),
            ("The user bought a bike.", "The user bought a car.", false),
            ("The user has read Dune.", "The user has read Emma.", false),
            ("用户养了一只猫", "用户养了一只狗", false),
            ("用户喜欢茶", "用户喜欢咖啡", false),
        ] {
            assert_eq!(exclusive(first, second), expected, "{first} / {second}");
            assert_eq!(exclusive(second, first), expected, "{second} / {first}");
        }
    }
}
