//! The category of a claim by its words, in English, Chinese, Japanese and Korean: for the extractive distiller and
//! for ranking. A model says its own.

use std::sync::LazyLock;

use regex::Regex;

use crate::memory::Category;

static DECISION: LazyLock<Regex> = LazyLock::new(|| {
    words(
        r"\b(we|i|they|team)('ve| have)? (decided|agreed|chose|settled on|will go with|are going with|picked)\b|\bdecision\b|\bfrom now on\b|\blet's (use|go with|switch)\b|决定|决议|商定|约定|定下来|选定|改用|決め|決定|にする(こと|。)|결정|하기로",
    )
});
static PREFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    words(
        r"\b(like|likes|love|loves|enjoy|enjoys|prefer|prefers|preferred|favou?rite|hate|hates|dislike|dislikes|can't stand|fond of|rather not|allergic)\b|\b(always|never) (use|want|drink|eat|put|do)\b|喜欢|喜爱|最爱|偏好|讨厌|不喜欢|热爱|爱吃|爱喝|宁愿|习惯用|过敏|好き|嫌い|好む|苦手|좋아|싫어|선호",
    )
});
static ENTITY: LazyLock<Regex> = LazyLock::new(|| {
    words(
        r"\b(is|am|are|was) (called|named)\b|\bname is\b|\bmy (wife|husband|mother|father|mom|dad|sister|brother|son|daughter|boss|friend|dog|cat|partner|colleague)\b|叫做|名叫|我叫|名字(是|叫)|我的?(妻子|丈夫|妈妈|爸爸|姐姐|妹妹|哥哥|弟弟|儿子|女儿|老板|朋友|同事|男友|女友)|という名前|の名前は|이름은|라고 (한다|합니다|해)",
    )
});
static FACT: LazyLock<Regex> = LazyLock::new(|| {
    words(
        r"\b(is|are|was|were|has|have|had|lives?|works?|moved|owns?|runs?|uses?|went|visited|bought|started|finished|am|i'm|'ve|scheduled|deadline|costs?)\b|是|在|有|住|去了|买了|搬|工作|开始|完成|です|ます|した|だ|있|이다|입니다|했",
    )
});

fn words(pattern: &str) -> Regex {
    Regex::new(&format!("(?i){pattern}")).expect("the pattern is fixed")
}

/// The category of a claim, by its words.
pub fn categorise(text: &str) -> Category {
    for (pattern, category) in [
        (&DECISION, Category::Decision),
        (&PREFERENCE, Category::Preference),
        (&ENTITY, Category::Entity),
        (&FACT, Category::Fact),
    ] {
        if pattern.is_match(text) {
            return category;
        }
    }
    Category::Other
}

/// Importance of a claim by rules, 0 to 1: decisions and preferences of the user last longer than passing remarks.
pub fn importance_of(category: Category, said_by_user: bool, dated: bool) -> f64 {
    let base = match category {
        Category::Decision => 0.75,
        Category::Preference => 0.7,
        Category::Entity => 0.65,
        Category::Fact => 0.55,
        Category::Other => 0.4,
    };
    let speaker = if said_by_user { 0.0 } else { -0.15 };
    base + speaker + if dated { 0.05 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_gets_its_category_from_its_words() {
        for (text, category) in [
            ("We decided to use PostgreSQL for billing.", Category::Decision),
            ("我们决定把站会改到十点。", Category::Decision),
            ("I really enjoy painting and tea tasting.", Category::Preference),
            ("我很喜欢绘画、弹钢琴和品茶。", Category::Preference),
            ("My dog is called Biscuit.", Category::Entity),
            ("你好，我叫张曼婷。", Category::Entity),
            ("Alice lives in Berlin.", Category::Fact),
            ("田中さんは東京に住んでいます。", Category::Fact),
            ("Hm.", Category::Other),
        ] {
            assert_eq!(categorise(text), category, "{text}");
        }
    }
}
