//! Words that turn what a clause says: denial, condition, doubt, wish, question, past. For each the words that put a
//! source's clause under it, and those by which a claim still says so. All on normalised text.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::super::{compile, wording};

macro_rules! pattern {
    ($name:ident, $($part:expr),+ $(,)?) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| compile(&[$($part),+].join("|")));
    };
}

/// What turns a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    /// It is denied.
    Denied,
    /// It holds only if something else does.
    Condition,
    /// It may be so.
    Doubt,
    /// Somebody wants it.
    Wish,
    /// It was so.
    Past,
}

impl Mark {
    pub(super) const ALL: [Self; 5] = [Self::Denied, Self::Condition, Self::Doubt, Self::Wish, Self::Past];

    /// What is wrong with a claim that drops the mark.
    pub(super) fn dropped(self) -> &'static str {
        match self {
            Self::Denied => "the chunks deny it: a negation is lost",
            Self::Condition => "the chunks say it under a condition, which is lost",
            Self::Doubt => "the chunks say it may be so; the doubt is lost",
            Self::Wish => "the chunks say it is wished or planned, not that it is so",
            Self::Past => "the chunks say it was so, not that it is",
        }
    }
}

// Words that look like denial and deny nothing, beside those of `wording`.
pattern!(
    IDIOM,
    r"\b(?:don't|do not|never|not to|can't|cannot) (?:forget|worry|mind|hesitate|wait|help)\b|\bwhether or not\b|\bwhy not\b|\bnot (?:bad|to mention|only|just|until|sure|certain|decided)\b|\bno (?:doubt|wonder|later than|more than|less than|problem|worries|idea)\b|\bnothing but\b|\bcan't believe\b|\bnever mind\b|\bif not\b",
    r",? ?\b(?:is|are|do|does|did|was|wo|ca|have|has|should|would|could)n't (?:it|i|you|he|she|they|we|that)\b",
    r"\bnicht (?:nur|wahr|vergessen|sicher)\b|\bvergiss nicht\b|\bkein problem\b|\bkeine (?:ahnung|sorge)\b",
    r"忍不住|不禁|不得不|不愧|等不及|别忘|不要忘|离不开|少不了|说不定|没想到|没准|不妨|不由|不时|不少|了不起|要不|不一定|不确定|不知道(?:该|要)?|无论|不知不觉|不对|不可或缺|不可缺",
    r"忘れないで|しかない|ほかない|なくては|ないといけない|じゃない[?？]|なければ|欠かせない|わからない|間違いない",
    r"잊지 ?마|지 않을까|지 않나요|아닐까|밖에 없|빼놓을 수 없|모르겠",
);

// What says no without a word of denial.
pattern!(
    SAYS_NO,
    r"\b(?:stop\w*|quit\w*|g[ai]ve up|given up|avoid\w*|refus\w*|dislik\w*|hat(?:e|es|ed|ing)|lack\w*|without|free of|-free|vegan|vegetarian|single|unmarried|un\w{4,}ed|never|fail\w*|forg[eo]t\w*|miss(?:ed|es|ing)?|allerg\w*|intoleran\w*|instead|skip\w*|ban|banned|forb\w*|cancel\w*|declin\w*|reject\w*|except|former\w*|unable|cannot|hardly|rarely|seldom|alone|less|absen\w*|den(?:y|ied|ies)|doubt\w*|impossible|unhappy|unhealthy|unlike\w*|illegal|off|out of|away from|prevent\w*|kept from|rather than|no|ex-\w+)\b",
    r"\b(?:vermeide\w*|verzicht\w*|aufgehört|hasst?|lehnt?|ledig|allein\w*|allergi\w*|selten|statt|verpasst?|vergess\w*|ohne|vegan\w*|vegetari\w*|unver\w+)\b",
    r"戒|讨厌|拒绝|避免|停止|放弃|过敏|单身|素食|忌|取消|除了|缺|失|忘|很少|难|非|免|零|无|反对|厌",
    r"嫌|やめ|辞め|避け|禁|苦手|アレルギー|独身|断|忘れ|取り消|キャンセル|無|欠|しか",
    r"싫|끊|그만|피하|피한|금지|거절|알레르기|독신|미혼|취소|잊|드물|무",
);

pattern!(
    CONDITION,
    r"\b(?:if|unless|in case|provided that|as long as|supposing|should i|were i)\b",
    r"\b(?:falls|sofern|vorausgesetzt)\b|\bwenn (?:ich|wir|es|der|die|das|mein\w*)\b",
    r"如果|(?:^|[，。,. ])要是|假如|假设|万一|除非|倘若|若是",
    r"もし|(?:たら|なら|ならば|れば)(?:[、,]|$)|場合(?:は|に)",
    r"만약|만일|(?:다면|라면|으면|면)(?:[\s,]|$)",
);
pattern!(
    KEEPS_CONDITION,
    r"\b(?:if|unless|in case|provided|when\w*|as long as|depend\w*|would|condition\w*|bei|beim|wenn|falls|sofern|sobald|würde\w*)\b",
    r"如果|要是|假如|的话|时|若|除非|もし|たら|なら|れば|場合|時|면|경우|때|다면",
);

pattern!(
    DOUBT,
    r"\b(?:maybe|perhaps|might|could(?: be| have| become)?|possibly|probably|presumably|not (?:sure|certain|decided)|unsure|undecided|no idea|thinking (?:about|of)|consider(?:ing)?|wonder(?:ing)?|toying with|(?:i|we|he|she|they) may)\b",
    r"\b(?:vielleicht|möglicherweise|eventuell|könnte\w*|vermutlich|wahrscheinlich|überleg\w*|womöglich|nicht sicher|keine ahnung)\b",
    r"(?:^|[^尽])可能|也许|或许|大概|说不定|没准|恐怕|考虑|犹豫|不确定|不一定|还没决定",
    r"かもしれ|たぶん|多分|おそらく|もしかし|かな(?:。|$)|検討|迷って|か分からない|かわからない",
    r"아마|지도 모|을지도|ㄹ지도|고민|고려|할까|을까|모르겠",
);
pattern!(
    KEEPS_DOUBT,
    r"\b(?:maybe|perhaps|might|(?:user|he|she|they|it|we) may|could|possib\w*|probab\w*|likely|presumabl\w*|unsure|uncertain\w*|undecided|not (?:sure|certain|decided|know)|think\w*|consider\w*|wonder\w*|toying|plans?|whether|if|would|hopes?|guess\w*|suspects?|assum\w*|believes?|seems?|option|idea|ask\w*|vielleicht|möglicherweise|eventuell|könnte\w*|vermutlich|wahrscheinlich|überlegt?|unsicher|nicht sicher|womöglich|denkt|ob|erwägt)\b",
    r"可能|也许|或许|大概|说不定|没准|恐怕|考虑|犹豫|不确定|不一定|没决定|想|是否|觉得|打算",
    r"かもしれ|たぶん|多分|おそらく|もしかし|検討|迷|可能性|考え|らしい|だろう|でしょう|か分|かわ",
    r"아마|지도 모|수도|고민|고려|까|가능|생각|모르",
);

pattern!(
    WISH,
    r"\b(?:want(?:s|ed)?(?: you| us)? to|would (?:like|love|prefer) to|(?:i|we|he|she)'d (?:like|love|prefer) to|hop(?:e|es|ing) (?:to|that)|plan(?:s|ning)? (?:to|on)|intend(?:s)? to|dream(?:s|ing)? (?:of|about)|wish(?:es)?|looking forward to|aim(?:s)? to|going to|about to|tempted to|try(?:ing)? to|need(?:s)? to|have to|should)\b",
    r"\b(?:möchte\w*|würde gerne?|hoff\w*|plan(?:e|t|en)|beabsichtig\w*|träum\w*|wünsch\w*|habe vor|hat vor|soll(?:te)?)\b|\b(?:ich|wir) (?:will|wollen)\b",
    r"(?:^|[^没思理感联料猜构幻设着回])想(?:要|去|学|买|换|养|把|在|当|做|试|找|和|跟|吃|喝|看|让)|希望|打算|计划|准备|梦想|愿望|盼望",
    r"(?:[^冷重眠めだみ])たい(?:です|と|。|な|$)|つもり|予定|ほしい|欲しい|夢は|目指",
    r"고 싶|계획|예정|려고|희망|바라|원해|원한",
);
pattern!(
    KEEPS_WISH,
    r"\b(?:want\w*|would|wish\w*|like\w*|love\w*|prefer\w*|hop(?:e|es|ed|ing)|plan\w*|inten\w*|dream\w*|looking|aim\w*|going|will|about to|goal|interest\w*|consider\w*|think\w*|tempted|try\w*|tries|need\w*|must|should|has to|have to|ask\w*|request\w*|decid\w*|prepar\w*|expect\w*|möchte\w*|will|würde\w*|hofft|plant|hat vor|träumt|wünscht|soll\w*|muss|interessiert|ziel|beabsichtigt|wollen|braucht|bittet)\b",
    r"想|希望|打算|计划|准备|梦想|愿望|盼|将|要|会|感兴趣|目标|考虑|需要|期待|偏好|请",
    r"たい|つもり|予定|ほしい|欲しい|夢|目指|希望|望|計画|考え|興味|たがっ|必要|だろう",
    r"싶|계획|예정|려고|희망|바라|바란|원하|원한|목표|생각|꿈|관심|것이다|필요",
);

pattern!(
    PAST,
    r"\bused to\b|\bformerly\b|\bno longer\b|\bwas (?:a|an|married|single|engaged|vegetarian|vegan|employed)\b|\bex-\w+",
    r"\bfrüher\b|\behemals\b|\bdamals\b|\bnicht mehr\b",
    r"以前|曾经|从前|过去(?:我|常|是)|小时候|(?:^|[，。,. ])原来",
    r"以前|かつて|昔",
    r"예전|옛날|이전에",
);
// "I am used to cycling" is a habit of today.
pattern!(
    NOT_PAST,
    r"\b(?:am|is|are|be|get|got|getting|'m|'re|'s) used to\b|\bmore than before\b",
    r"和以前一样|以前から|와 같이|예전부터|从以前"
);
pattern!(
    KEEPS_PAST,
    r"\b(?:used to|formerly|previously|once|earlier|before|past|until|former|ex-\w+|no longer|not .{0,30}any ?more|was|were|had|did|quit|stopped|gave up|childhood|back then|in \d{4}|\w{2,}ed|früher|ehemal\w*|damals|war|hatte\w*|nicht mehr|wurde|aufgehört|\w+te|ge\w+t|bis)\b",
    r"以前|曾|过去|从前|小时候|原来|之前|不再|戒|过|了|已",
    r"以前|かつて|昔|た[。、]|ていた|だった|やめ|た$|過去|元",
    r"예전|옛날|이전|과거|[았었였했]|끊|전에|더 ?이상",
);

pattern!(PREFERS, r"偏好|喜欢|最好|好き|好む|好み|ほうがいい|좋아|좋다|선호");

// A claim that only asks or ponders.
pattern!(
    ASKS,
    r"\b(?:ask\w*|wonder\w*|consider\w*|want\w* to know|unsure|think\w*|whether|interest\w*|looking (?:for|into)|search\w*|request\w*|inquir\w*|curious|want\w*|plan\w*|need\w*|question\w*|fragt\w*|fragte|überlegt|sucht|wissen|interessiert|möchte|ob)\b",
    r"问|想知道|考虑|咨询|询问|犹豫|想|好奇|打算|寻找|是否|请|需要|感兴趣",
    r"尋ね|聞い|聞き|知りた|迷|検討|質問|興味|探し|たい|相談|考え",
    r"물어|물었|궁금|고민|고려|질문|찾|관심|알고|싶|문의|생각",
);

// The claim is given as the assistant's.
pattern!(
    ASSISTANTS,
    r"\b(?:assistant\w*|agent\w*|recommend\w*|suggest\w*|propos\w*|advice|advis\w*|assistent\w*|empf\w+|vorgeschlagen|vorschlag\w*|schlug|rät|riet|told|explained|offered)\b",
    r"助手|助理|伴侣|推荐|建议|アシスタント|おすすめ|勧め|推奨|提案|어시스턴트|추천|제안|권",
);

// An answer that takes over what the assistant said, and one that denies it.
pattern!(
    YES,
    r"^(?:yes|yeah|yep|yup|right|exactly|correct|sure|ok|okay|agreed|deal|true|of course|absolutely|definitely|indeed|perfect|great|good|sounds|fine|let's|ja|genau|stimmt|richtig|klar|gut|gern|einverstanden)\b",
    r"^(?:是|对|好|嗯|没错|当然|可以|行|同意|はい|そう|うん|ええ|もちろん|いい|네|예|응|맞|그래|좋)",
);
pattern!(NO, r"^(?:no|nope|never|not|nein|nie|nicht)\b|^(?:不|没|否|いいえ|いや|ううん|아니|아뇨)");

pub(super) fn is_yes(normal: &str) -> bool {
    YES.is_match(normal)
}

pub(super) fn is_no(normal: &str) -> bool {
    NO.is_match(normal)
}

pub(super) fn only_asks(normal: &str) -> bool {
    ASKS.is_match(normal)
}

pub(super) fn is_the_assistants(normal: &str) -> bool {
    ASSISTANTS.is_match(normal)
}

/// The clause with idioms overwritten by marks of the same length.
fn without_idioms(normal: &str) -> String {
    let mut text = normal.to_owned();
    let mut spans: Vec<Range<usize>> = IDIOM.find_iter(normal).map(|m| m.range()).collect();
    spans.extend(wording::not_negations(normal));
    spans.extend(a_not_a(normal));
    for span in spans {
        // A tag question after its clause, and a word that two idioms share.
        let marks = "\u{1}".repeat(span.len());
        text.replace_range(span, &marks);
    }
    text
}

/// 吃不吃, 去没去: it asks and denies nothing.
fn a_not_a(normal: &str) -> Vec<Range<usize>> {
    let chars: Vec<(usize, char)> = normal.char_indices().collect();
    let asks = |three: &&[(usize, char)]| three[0].1 == three[2].1 && matches!(three[1].1, '不' | '没');
    chars.windows(3).filter(asks).map(|three| three[1].0..three[2].0).collect()
}

/// Where a word of the mark stands in a clause.
pub(super) fn found(mark: Mark, clause: &str) -> Vec<Range<usize>> {
    let ranges = |pattern: &Regex, text: &str| pattern.find_iter(text).map(|m| m.range()).collect::<Vec<_>>();
    match mark {
        Mark::Denied => wording::negations(&without_idioms(clause)),
        Mark::Condition => ranges(&CONDITION, &clause.replace("as if", "\u{1}\u{1}\u{1}\u{1}\u{1}")),
        Mark::Doubt => {
            ranges(&DOUBT, clause).into_iter().filter(|r| !clause[r.end..].starts_with(" not")).collect()
        }
        Mark::Wish => ranges(&WISH, clause),
        Mark::Past if NOT_PAST.is_match(clause) => Vec::new(),
        Mark::Past => ranges(&PAST, clause),
    }
}

/// Whether a claim's clause still says what the mark says.
pub(super) fn keeps(mark: Mark, clause: &str) -> bool {
    match mark {
        Mark::Denied => denies(clause) || SAYS_NO.is_match(clause),
        Mark::Condition => KEEPS_CONDITION.is_match(clause) || KEEPS_DOUBT.is_match(clause),
        Mark::Doubt => KEEPS_DOUBT.is_match(clause) || KEEPS_CONDITION.is_match(clause),
        Mark::Wish => KEEPS_WISH.is_match(clause) || KEEPS_DOUBT.is_match(clause),
        Mark::Past => KEEPS_PAST.is_match(clause),
    }
}

/// Whether a word of wish says what has to be done: an order says the same without it.
pub(super) fn is_duty(word: &str) -> bool {
    matches!(word.trim(), "should" | "need to" | "needs to" | "have to")
}

/// Whether a text that is compared with one under the mark may mean the same. Who wants something and who likes it are
/// the same here: a preference is no plan.
pub(super) fn leaves_open(mark: Mark, normal: &str) -> bool {
    keeps(mark, normal) || mark == Mark::Wish && PREFERS.is_match(normal)
}

/// Whether a word of denial stands in the clause.
pub(super) fn denies(clause: &str) -> bool {
    !found(Mark::Denied, clause).is_empty()
}

/// Whether the text says no in any way.
pub(super) fn says_no(text: &str) -> bool {
    denies(text) || SAYS_NO.is_match(text)
}
