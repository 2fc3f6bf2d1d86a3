//! Greetings, thanks, farewells, acknowledgements and praise that state nothing.
//! A fact lost as small talk is worse than small talk kept: every clause must be known to be empty, one that is
//! not known makes the whole text content.

use std::sync::LazyLock;

use regex::Regex;

use super::normalise;

const LATIN: &[&str] = &[
    // Greetings.
    r"(?:hello|hi|hey|hiya|greetings)(?: (?:there|again|everyone|all))?",
    r"good (?:morning|afternoon|evening|night|day)",
    r"(?:it(?:'s| is) )?(?:very |so )?(?:nice|great|good|glad|happy|pleased)(?: to (?:meet|see|talk to|chat with) you(?: (?:too|again))?)",
    r"i(?:'m| am) (?:very |so )?(?:glad|happy|pleased) to (?:meet|see) you(?: (?:too|again))?",
    r"i(?:'m| am) back(?: to (?:chat|talk) (?:with|to) you)?(?: again)?(?: today)?",
    r"i(?:'m| am) here to (?:chat|talk) with you again(?: today)?",
    r"(?:this|it) is our first chat",
    r"how are you(?: (?:doing|today|feeling))*",
    r"how have you been(?: (?:feeling|lately|recently|doing))*",
    r"what's up|long time no see",
    // Acknowledgements.
    r"ok|okay|alright|all right|right|sure|yes|yeah|yep|yup|no|nope|fine|understood|agreed|exactly|indeed|certainly|of course|hm+|oh|ah|wow|well|haha+|lol|roger",
    r"got it|i see|i understand|i agree|makes sense|that makes sense|sounds (?:good|great|fine)|no problem|never mind|that's right|you're right|i think so too|me too|very well|not bad",
    // Thanks and their answers.
    r"(?:many )?thanks(?: (?:a lot|again|so much|very much|a million))*(?: for (?:your|the|all your|all the) (?:great |good |kind |helpful |useful )?(?:help|advice|suggestions?|recommendations?|guidance|answers?|support|explanation|information|reply|encouragement|reminder|understanding|company|tips?)(?: and (?:help|advice|suggestions?|recommendations?|guidance|support|encouragement|company))?)?",
    r"thank you(?: (?:so|very) much)?(?: again)?(?: for (?:your|the|all your|all the) (?:great |good |kind |helpful |useful )?(?:help|advice|suggestions?|recommendations?|guidance|answers?|support|explanation|information|reply|encouragement|reminder|understanding|company|tips?)(?: and (?:help|advice|suggestions?|recommendations?|guidance|support|encouragement|company))?)?",
    r"(?:i )?(?:really )?appreciate (?:it|that|your (?:help|advice|support))|i(?:'m| am) (?:very |so )?grateful",
    r"you(?:'re| are) (?:very |most )?welcome|my pleasure|don't mention it|not at all|feel free to ask(?: me)?(?: anything)?(?: you need)?",
    // Promises to do what was said, without saying what.
    r"i(?:'ll| will)(?: (?:definitely|certainly|seriously|surely|also))?(?: go(?: and)?)? (?:take a look|have a look|look into (?:it|them|that)|check (?:it|them|that|those) out|check|try|try (?:it|that|them|these|those|this)(?: out)?|try my best|give (?:it|them|that) a (?:try|go|shot)|keep (?:that|it|this|them) in mind|remember (?:that|it)|think about (?:it|that)|do (?:that|it|so|my best)|(?:seriously )?consider (?:it|that|them|your (?:advice|suggestions?)|these suggestions?))",
    r"i will try to do some of the things you suggested",
    r"let me (?:try|see|think)(?: (?:it|that|about it|about that))?",
    // Farewells.
    r"(?:good ?)?bye(?: bye)?(?: for now)?|see you(?: (?:later|soon|tomorrow|next time|then|again|around))*|take care|good luck|have a (?:nice|good|great|lovely) (?:day|evening|night|weekend|one|time)|sleep well|sweet dreams",
    r"(?:let's )?(?:talk|chat)(?: to you)?(?: again)?(?: (?:later|soon|tomorrow|next time))+",
    r"(?:no )?that(?:'s| is) (?:it|all)(?: for (?:today|now))?",
    // Praise without content.
    r"(?:that(?:'s| is| was| sounds)|it(?:'s| is| was| sounds)|this is|these are|those are|you(?:'re| are)|(?:your|these|those|all your) (?:advice|suggestions?|recommendations?|answers?) (?:is|are|sounds?)) (?:all )?(?:a |an )?(?:really |very |so |quite |such a |such )?(?:all )?(?:good|great|nice|useful|helpful|practical|amazing|awesome|wonderful|excellent|interesting|fantastic|perfect|cool|true|right|kind|smart|professional|the best)(?: (?:idea|advice|suggestions?|recommendations?|answer|help|point|plan|question))?",
    r"(?:very |so |really |what a )?(?:good|great|nice|amazing|awesome|wonderful|excellent|interesting|fantastic|perfect|cool|helpful|useful|brilliant|impressive)(?: (?:idea|advice|suggestions?|job|work|point|answer|question|one))?",
    r"well (?:done|said)",
    // German, French, Spanish: only the plainest.
    r"hallo|guten (?:morgen|tag|abend)|gute nacht|danke(?: schön| sehr)?|vielen dank|bitte|tschüss|auf wiedersehen|alles klar|gut",
    r"bonjour|bonsoir|salut|merci(?: beaucoup)?|au revoir|d'accord|à bientôt|de rien",
    r"hola|buenos días|buenas (?:tardes|noches)|(?:muchas )?gracias|adiós|hasta (?:luego|mañana)|de acuerdo|vale|de nada",
];

const CJK: &[&str] = &[
    // Chinese greetings and farewells.
    r"(?:大家)?(?:你|您|大家)好(?:啊|呀|哦)?|嗨|哈喽|早(?:上好|安)?|(?:上午|中午|下午|晚上)好|晚安|好久不见|在吗",
    r"(?:很|非常)?高兴(?:能)?(?:认识|见到|遇见)(?:你|您)",
    r"今天我?又来(?:和|跟|找)(?:你|您)聊(?:天|聊)(?:了|啦)?|我又来(?:了|啦)|这是我们的?第一次聊天",
    r"(?:你|您)?(?:最近)?(?:感觉|过得)?(?:怎么样|还好吗|好吗)",
    r"再见|拜拜|回头见|(?:明天|下次|回头|改天)(?:见|再聊|聊)|我们(?:明天|下次)再聊|今天先到这里吧?|没有了|没了|保重",
    // Acknowledgements.
    r"(?:好|好的|好吧|好呀|好啊|好嘞|行|可以|嗯+|恩+|哦+|噢|喔|是的|是啊|对|对的|对呀|对啊|没错|当然|明白(?:了)?|知道了|懂了|了解(?:了)?|收到|原来如此|确实(?:是|如此)?(?:的)?|有道理|很有道理|没问题(?:呀|的)?|好主意|同意|我同意|我也(?:这么|是这样)(?:想|觉得)|哇|哈+|那就(?:决定|这样)(?:了|吧)?|就这样吧?|不用了|没事|没关系)",
    // Thanks and their answers.
    r"(?:再次|那|真的|好的)?(?:非常|十分|真是|太|多|很)?(?:感谢|谢谢|多谢|谢)(?:了|啦|你|您|你们|你了|您了)?(?:的)?(?:提供)?(?:这些|宝贵|好)?(?:的)?(?:建议|推荐|帮助|指导|指点|分享|回答|解答|支持|鼓励|提醒|陪伴|理解|关心|意见|好意|解释)?(?:和(?:建议|推荐|帮助|支持|鼓励|陪伴))?(?:啊|呀|哦|朋友)?",
    r"(?:我)?(?:很|非常)感激|麻烦(?:你|您)了|辛苦(?:了|你了)|不(?:用|必)(?:谢|客气)|不客气|别客气",
    // Promises to do what was said, without saying what.
    r"我(?:会|先|再)?(?:一定)?(?:会)?(?:去|好好|认真|努力|来)?(?:地)?(?:试试(?:看)?|试一试|试一下|尝试(?:一下)?(?:的)?|看看|看一看|看一下|注意|考虑(?:一下)?(?:你的建议|这些建议)?|记住|照做|努力|加油)(?:的|吧)?(?:你的建议|这些建议|这些方法)?",
    r"我(?:会)?(?:已经)?记(?:下来|住)了|让我想想|我想想",
    r"我会尝试着去做一些你说的事情",
    // Praise.
    r"(?:你|这|这个|那|这些|这些都|那个|听起来|听着|这听起来|你的建议|这些建议|这个建议|这个主意|你说的|你说得|说的|说得)?(?:都|是|真的|确实|也)*(?:非常|很|真|真的|好|太|挺|都很|都是|十分)*(?:是)?(?:不错|好|棒|厉害|有用|实用|有帮助|有道理|专业|有趣|有意思|赞|对|优秀|完美|贴心)(?:的)?(?:了|啊|呀|哦|呢)?(?:的)?(?:主意|建议|想法|方法)?",
    // Japanese.
    r"こんにちは|こんばんは|おはよう(?:ございます)?|はじめまして|お?久しぶり(?:です(?:ね)?)?|どうぞ?よろしく(?:お願いします|お願いいたします)?|よろしく(?:お願いします|お願いいたします)?|お元気ですか|おやすみ(?:なさい)?|さようなら|じゃあ?ね|じゃあ?また(?:明日|今度|ね)?|また(?:明日|今度|ね|後で)|バイバイ|お疲れ様(?:です|でした)?",
    r"(?:どうも|本当に|大変|色々と?|アドバイス|教えてくれて)?ありがとう(?:ございます|ございました)?(?:ね)?|どうも|感謝します|助かり(?:ます|ました)|いえいえ|どういたしまして|すみません",
    r"はい|ええ|うん|いいえ|いや|わかりました|分かりました|了解(?:です|しました)?|承知(?:しました)?|なるほど(?:ですね)?|そうです(?:ね|か)?|そうだね|そうか|オーケー|大丈夫(?:です)?|もちろん(?:です)?|やってみます|試してみます|見てみます|考えてみます",
    r"(?:それは|とても|すごく|本当に|いい|良い)*(?:すごい|素晴らしい|いい|良い|面白い|完璧)(?:です|アイデア|考え)*(?:ね|よ)?",
    // Korean.
    r"안녕(?:하세요|하십니까|히 계세요|히 가세요)?|반갑습니다|반가워요?|만나서 반갑습니다|좋은 (?:아침|하루|밤)(?:이에요|입니다| 되세요| 보내세요)?|잘 지냈어요?|잘 자(?:요)?|안녕히 주무세요|또 봐요?|내일 봐요?|다음에 (?:봐요?|또 봐요?)",
    r"(?:정말|너무|추천|조언|도와주셔서|알려주셔서|알려줘서)? ?(?:감사합니다|감사해요|고마워요?|고맙습니다)|천만에요|별말씀을요",
    r"네+|예|응|아니요?|알겠습니다|알겠어요?|알았어요?|그래요?|그렇군요|그렇네요|좋아요?|좋습니다|물론이죠|오케이|괜찮아요?|한번 (?:해|가|봐)볼게요?|해볼게요?|시도해 ?볼게요?|생각해 ?볼게요?|그럴게요?|확인해 ?볼게요?",
    r"(?:정말|아주|너무|참)? ?(?:대단해요?|대단하네요|훌륭해요?|멋져요?|멋지네요|좋네요|유용하네요|재미있네요|최고예요|좋은 생각이(?:에요|네요|야))",
];

/// Words of address: alone, or behind a phrase ("thank you my friend"), never a phrase of their own inside one.
const ADDRESS: &str = r"(?:my )?(?:dear )?(?:friend|buddy|assistant|ai companion|companion|ai)|(?:我的)?(?:朋友|亲爱的|助手|小助手|ai伴侣|ai|伙伴|老师)";

/// A clause that is one phrase, or several ("okay thank you so much").
static EMPTY: LazyLock<Regex> = LazyLock::new(|| {
    let latin = LATIN.join("|");
    let cjk = CJK.join("|");
    let opening = r"(?:(?:and|so|but|then|also|oh|那|那么|啊|呀|哦|啦|嗯|え|あ|아|오)\s*)?";
    let phrases =
        format!(r"(?:{latin})(?:\s+(?:and |so |then |but )?(?:{latin}))*|(?:(?:{cjk})[ 啊呀哦啦呢吧~]*)+");
    Regex::new(&format!("^(?:{opening}(?:{phrases})(?: ?(?:{ADDRESS}))?|{ADDRESS})$"))
        .expect("literal patterns")
});

/// Whether the text only greets, thanks, takes leave, acknowledges or praises. Names, feelings, plans, facts and
/// other questions are content. A text without letters ("👍", "...") says nothing either.
pub fn is_small_talk(text: &str) -> bool {
    let folded = normalise(text);
    if folded.bytes().any(|b| b.is_ascii_digit()) || folded.contains(['/', '`', '@', '"']) {
        return false;
    }
    folded
        .split(|c: char| ",.!?;:~、。！？；，…()♪\n".contains(c))
        .map(|clause| clause.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|clause| !clause.is_empty())
        .all(|clause| EMPTY.is_match(clause))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn talk_without_content_is_small_talk() {
        for text in [
            "Okay, thank you for your recommendations. I will take a look.",
            "Hi, I'm back to chat with you again today. How have you been?",
            "Thanks!",
            "No, that's it for today. Let's talk again tomorrow.",
            "That's a great idea!",
            "You're welcome.",
            "ok",
            "👍",
            "Good morning, my friend.",
            "Vielen Dank!",
            "好的，谢谢你的推荐，我会去看一看。",
            "你好，今天我又来和你聊天啦！",
            "不客气",
            "好的，我会注意的。再次感谢你的帮助。",
            "没有了，今天先到这里吧。我们明天再聊。",
            "这些建议很有用，谢谢你。",
            "こんにちは！お元気ですか？",
            "わかりました、ありがとうございます。",
            "안녕하세요! 반갑습니다.",
            "네, 알겠습니다. 감사합니다.",
        ] {
            assert!(is_small_talk(text), "{text}");
        }
    }

    #[test]
    fn anything_that_states_something_is_not_small_talk() {
        for text in [
            "Hello, my name is Emily.",
            "Okay, I will study hard.",
            "Thank you, I feel much better now.",
            "I will consider taking a trip to relax.",
            "Yes, I have two cats.",
            "No, I never drink coffee.",
            "Not yet, but I'm sure I will have one.",
            "I like comedies and romance films.",
            "Do you have any good recommendations?",
            "See you at 10",
            "Thank you for fixing the parser.",
            "good tabs",
            "no meat",
            "你好，我叫张曼婷，很高兴认识你。",
            "好的，我会去爬一座山。",
            "我喜欢喜剧和爱情片。",
            "谢谢小明",
            "我对花生过敏",
            "はじめまして、田中です。",
            "はい、猫が好きです。",
            "안녕하세요, 저는 민수입니다.",
            "네, 커피를 좋아해요.",
        ] {
            assert!(!is_small_talk(text), "{text}");
        }
    }
}
