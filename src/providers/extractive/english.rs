//! The extractive rules for English.

use std::sync::LazyLock;

use super::rules::{Kind, Rules, pattern};

/// What a verb may stand behind: "I", adverbs and auxiliaries that keep its meaning.
macro_rules! self_verb {
    ($verbs:expr) => {
        concat!(
            r"\b(?:i|we|my (?:\w+ ){0,2}\w+(?: and i)?|\w+ and i)(?:'ve| have|'d| had|'m| am|'re| are)?(?: also| just| recently| finally| even| once|",
            r" really| still| always| usually| often| actually| already| then| both| currently| now| sometimes| never| don't| do not|",
            r" didn't| did not| haven't| not| absolutely| truly| especially| particularly| quite| successfully| currently| mostly)*",
            r" (?:", $verbs, r")\b"
        )
    };
}

pub(super) static RULES: LazyLock<Rules> = LazyLock::new(|| Rules {
    opening: pattern(&[concat!(
        r"^(?:(?:and|but|so|then|also|however|anyway|actually|well|btw|by the way|speaking of which|speaking of that|",
        r"for example|for instance|in fact|moreover|furthermore|plus|yet|or|firstly|first of all|one more thing|finally|lastly|hmm+|um+|oh|",
        r"in addition|as for me|to be honest|honestly|frankly|therefore|of course|not yet)\b[\s,:]*)+"
    )]),
    task: pattern(&[
        r"^(?:please |now |ok |okay |can you |could you |also )*(?:write|draft|translate|summari[sz]e|explain|fix|review|generate|show|tell|list|help|rewrite|convert|compare|suggest|recommend|proofread|shorten|give me|find me|make it|look up)\b",
        r"^(?:a (?:bit|little)|slightly|much) (?:more|less) \w+$|\bany (?:ideas|tips|suggestions|recommendations)\b",
    ]),
    talk: pattern(&[
        r"\b(?:chat|chatting|chatted|talk|talking|speak|discuss)(?: (?:more|again|about \w+))* (?:with|to) you\b|\b(?:today's|our|this|first|the) (?:chat|conversation|talk)\b",
        r"\b(?:let's|we (?:can|could|should)|want(?:ed)? to|would like to|'d like to|love to|hope to|continue to) (?:\w+ )?(?:chat|talk|discuss|ask|stay in touch|share)\b",
        r"\b(?:ask|tell|show|share with|get (?:some )?(?:advice|help|suggestions?) from) you\b|\bshare (?:it|them|this|that|something|some \w+|my \w+) with\b",
        r"\b(?:have|got|had|here(?:'s| is)|ask)(?: you)? (?:a|an|one|another|some|one more|a few|a couple of)(?: (?:more|small|quick|little|other))? (?:questions?|requests?)\b",
        r"\bquestions? (?:for|to ask) you\b|\bsince we (?:last )?(?:chatted|talked|spoke)\b|\bstay in touch\b|\bstart chatting\b|\bchat (?:is )?over\b",
        r"\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last) day (?:already|of (?:our|chatting))\b",
    ]),
    promise: pattern(&[
        r"\b(?:i|we)(?:'ll| will| shall|'d| would)(?: \w+ly| also| really| surely| certainly| definitely| do my best to| try(?: my best)? to| make sure to| go and)* (?:try|keep|consider|follow|take|remember|check|give|work|practi[cs]e|implement|look|heed|make sure|pay attention|be careful|do|study|listen|use|apply|read|watch|think|start|go|learn)\b",
        r"^(?:i )?(?:should|can|could|might|may)(?: also| definitely)? (?:try|give|consider)\b|\b(?:i|we) (?:can|could|might|may)(?: also)? (?:try|consider|contact|do|start)\b",
        r"\b(?:i'm|i am) going to (?:try|follow|check|give) (?:it|that|this|these|those|them|your)\b|\btaken? (?:a )?note\b",
        r"\bnext time\b.{0,20}\b(?:i'll|i will)\b",
    ]),
    reaction: pattern(&[
        r"\b(?:sounds?|seems?|looks?) (?:\w+ )?(?:good|great|nice|interesting|practical|useful|helpful|amazing|famous|fun|like (?:a )?(?:good|great|fun))\b",
        r"\bi(?:'m| am)?(?: now| also| really| already)* (?:feel|feeling)(?: \w+)* (?:better|inspired|relieved|encouraged|enlightened|lucky|grateful|the same|touched|happy|motivated|more \w+)\b|\b(?:feel|felt) (?:the )?same\b",
        r"\b(?:i )?(?:totally |completely |really |couldn't |absolutely )?agree\b|\b(?:very|so|really|absolutely|definitely|quite|totally) (?:right|true|helpful|useful|inspiring|practical|informative)\b",
        r"\b(?:suggestions?|advice|recommendations?|tips?|guidance|methods) (?:is|are|was|were|sounds?|seems?)\b|\blearned a lot\b|\bthat's (?:it|all)\b|\bmakes? (?:a lot of )?sense\b",
        r"\bi (?:look|am looking) forward to (?:it|that|our|your|next)\b|\bi(?:'m| am) (?:just )?(?:kidding|joking)\b",
    ]),
    you: pattern(&[
        r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b|\bai (?:companion|assistant|friend)\b|\bmy friend[.!]?$|^(?:dear |my )?(?:ai|friend|companion)$|^for (?:your|the|all)\b|^thank|\bplease\b",
    ]),
    lasting: pattern(&[
        r"\bwhen(?:ever)? you (?:show|write|give|send|answer|recommend|suggest|reply|make|book|plan|tell)\b|\bany (?:\w+ )you (?:give|send|show|make)\b|\bcall me\b|\bremind me to\b|\bdon't (?:[\w']+ ){1,8}(?:again|anymore)\b|\bfrom now on\b|\bin (?:the )?future\b.{0,30}\byou\b|\b(?:please |do )?(?:always|never) \w+|\bwhenever\b.{0,60}\b(?:please|you)\b|\bremember (?:that )?(?:i|my|we|our)\b",
        r"\bi(?:'d| would)? (?:want|like|prefer|need) you to\b|\bdon't (?:ever|call|use|send|remind|mention)\b|\bremind me (?:every|each|on)\b",
        r"\b(?:answer|reply|write|respond|speak)(?: to me)? in (?:english|german|french|spanish|chinese|japanese|korean|italian|short|bullet)\b",
    ]),
    weather: pattern(&[
        r"\bweather\b|\b(?:sunny|rainy|cloudy|gloomy) (?:day|today|outside)\b|\bbeautiful day\b|\bnice day\b|^today is (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)$",
    ]),
    vague: pattern(&[
        r"\bheard of (?:a|an|some)\b[^,]*$",
        r"\b(?:a|an|some|many|one|two|few|several|any|other)(?: \w+)? (?:problems?|troubles?|questions?|things?|issues?|matters?|difficult(?:y|ies)|suggestions?|advice|recommendations?|ways?|ideas?|methods?|photos|pictures)(?: (?:today|recently|lately|happened|\w+ recently|to ask|to talk about|that happened))*$",
        r"\b(?:encountered|ran into|have|had|met|faced|got|facing) (?:a|an|some)(?: \w+)? (?:problems?|troubles?|issues?|difficult(?:y|ies))(?: (?:today|recently|lately|now))?(?: and\b.*)?$",
        r"^(?:i|we) (?:don't|do not) know (?:what to do|how to (?:solve|do|handle) it|where to (?:go|start|begin))(?: and feel helpless)?$",
        r"^(?:i'm|i am|and i'm) not sure (?:where to go|what to do|how to start)$|^(?:i )?(?:haven't|not yet|didn't)$",
    ]),
    opinion: pattern(&[
        r"^(?:i|we)?(?:'m| am)?\s?(?:also |really |still |just |always |do )*(?:think|believe|feel like|feel that|felt like|felt that|guess|suppose|hope that|sure|afraid that|find that|found that|agree that)(?: that)?\s",
    ]),
    sequel: pattern(&[r"^(?:and )?(?:then|finally|next|after that|afterwards|lastly)\b"]),
    answer: pattern(&[
        r"^(?:not (?:yet|really|at all)|maybe|perhaps|probably|i do|i am|i did|i don't|i'm not|i have|i haven't)$",
    ]),
    today: pattern(&[r"\b(?:today|tonight|this (?:morning|afternoon|evening)|later)\b"]),
    condition: pattern(&[r"^(?:if|unless|whether|in case|suppose|once i|when i (?:make|have time))\b"]),
    passing: pattern(&[
        r"\b(?:have|having|eat|cook|get|take) (?:dinner|lunch|breakfast|supper|a shower|a nap|some rest)(?: now| soon)?\b|\b(?:go|going|off) to (?:bed|sleep|work now)\b|\bin a (?:minute|moment|bit)\b|\bbe right back\b",
        r"^(?:i'm|i am|we're|we are) (?:quietly |just |simply )?(?:sitting|lying|standing|waiting|reading at home|at home|here|back|fine|ok|okay|good|well|doing)\b",
    ]),
    aside: pattern(&[
        r"\b(?:that|which|what|who|whom|things|something) (?:i|we)(?: \w+ly)? (?:like|love|enjoy|prefer|hate)d?\b",
    ]),
    fragment: pattern(&[r"^(?:because|which|who|whose)\b"]),
    offer: pattern(&[
        r"\b(?:i|we)(?: can|'ll| will|'d| would|'m happy to| could)\b.*\b(?:recommend|suggest)\b|\bas an ai\b",
    ]),
    advice: pattern(&[
        r"\b(?:recommend|suggest)(?:ed|ing)?\b|\byou (?:can|could|may|might|should)(?: also)? (?:try|watch|read|visit|check|listen|go to|consider|choose|use|look)\b|\byou (?:might|may) (?:like|enjoy)\b",
    ]),
    own: Some(pattern(&[
        r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|myself|we|we're|we've|we'll|we'd|our|ours|us)\b",
    ])),
    no_pointing: pattern(&[
        r"\b(?:this|these|that|those) (?:morning|afternoon|evening|week|weekend|month|year|spring|summer|autumn|fall|winter|term|semester|quarter|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|december|days)\b",
        r"\b(?:find|found|make|makes|made) it \w+ (?:to|that)\b|\bit(?:'s| is| was|'ll| will| has| takes| took| rained| rains)\b(?: \w+){0,2} (?:to|that|raining|snowing)\b|\bthere (?:is|are|was|were|'s|has|have)\b|\bone of\b|\bthat one day\b|\bsuch as\b|\bthis is (?:my|our|the)\b",
        r"\bat the same time\b|\bof its own\b|\bso that\b|\bnow that\b|\bthis time\b",
    ]),
    pointing: pattern(&[
        r"\b(?:it|they|them|he|she|him|his|her|hers|its|their|theirs|this|these|those|there)\b|\bit's\b|\bthey're\b|\bhe's\b|\bshe's\b",
        r"\bthat(?:'s)?(?: (?:is|was|kind|sort|way|method|book|movie|song|place|feeling|advice|suggestion|time|idea|one|too|as well))\b|\b(?:of|about|with|for|after|like|do|did|heard|know|knew|try|tried|doing|from|to|on|in) that$|\bthat[.!]?$|^that\b",
        r"\bsuch (?:a |an )?\w+|\bones?$|\bthe (?:former|latter|same|one|other|others|method|methods|main character|plot|rest|answer)\b|\b(?:me|i do|so do i) (?:too|either)$|\bdo so\b|^(?:not|no|yes|yeah|maybe|perhaps|probably)\b|\brelated \w+s$|\bmentioned\b",
        r"^(?:i|we) (?:(?:really|also|just) )?(?:want|would like|'d like|hope|need|do|did|am|have|can|will|would|love|like|tried|try) ?(?:to)?$",
        r"\b(?:both|all|some|any|most|none|each) of (?:them|these|those)\b|\bother \w+s$",
    ]),
    kinds: vec![
        (
            Kind::Health,
            pattern(&[
                r"\ballerg(?:y|ies|ic)\b|\bdiabet\w+|\b\w{3,}itis\b|\bcolou?r-?blind|\bdeuteranop\w+|\bmigraines?\b|\badhd\b|\bautis\w+|\bcarpal tunnel\b|\bmeniscus\b|\bhernia\b|\bcataracts?\b|\bepipen\b|\basthma\w*|\bepilep\w+|\b(?:i|my \w+)\b.{0,30}\b(?:pregnant|surgery|operation|diagnosed|medication|prescri\w+|blood pressure|heart condition|celiac|intoleran\w+)\b",
            ]),
        ),
        (
            Kind::Identity,
            pattern(&[
                r"\b(?:my|our)(?: full| first| last| nick)? ?names? (?:is|are)\b|\bi(?:'m| am) (?:called|named)\b|\b(?:is|are|was|were) (?:called|named)\b.{0,40}\b(?:my|our)\b|\b(?:my|our)\b.{0,40}\b(?:is|are|was|were) (?:called|named)\b",
                r"\bi(?:'m| am) (?:a|an) (?:\w+ )?(?:\w+(?:er|or|ist|ian|ant|ent|eer|ect|ive|ife|man|woman|nurse|chef|vet|pilot|coach|cook|clerk|judge|monk|widow|student|parent))\b",
                r"\bi(?:'m| am) (?:from|married|single|engaged|divorced|vegan|vegetarian|retired|left-handed|\d{1,3} years? old|\d{1,3})\b|\bi turn(?:ed)? \d+\b",
                self_verb!(
                    "was born|were born|come from|live|lives|lived|work as|work for|work at|work in|works as|works for|works at|studied at|study at|major in|majored in|grew up"
                ),
                r"\bmy (?:wife|husband|mother|father|mom|mum|dad|sister|brother|son|daughter|boss|manager|girlfriend|boyfriend|partner|fiancée?|dog|cat|uncle|aunt|grandmother|grandfather|grandma|grandpa|cousin|niece|nephew|roommate|colleague|teacher|birthday|phone number|address|email)(?: \p{L}+)? (?:is|are|was|has|lives|works|likes|loves|had)\b",
                r"\bi have (?:a|an|one|two|three|four|\d+) (?:\w+ )?(?:dogs?|cats?|sons?|daughters?|brothers?|sisters?|child|children|kids?|pets?|twins)\b",
            ]),
        ),
        (
            Kind::Decision,
            pattern(&[
                r"\b(?:we|i|they|team)(?:'ve| have|'d| had)?(?: \w+ly| also| just| finally)? (?:decided|agreed|chose|chosen|settled on|will go with|picked|opted|committed)\b|\b(?:are|am|is) going with\b|\bfrom now on\b|\blet's (?:use|go with|switch)\b|\b(?:the|our|final) decision (?:is|was)\b|\bgave up\b|\b(?:i|we) quit\b",
            ]),
        ),
        (
            Kind::Preference,
            pattern(&[
                r"\b(?:i|we)(?: really| also| do| still| always| just| too| don't| do not| never| usually| especially| particularly| absolutely| truly| mostly| both| quite| very much|'ve always| have always)* (?:like|liked|love|loved|enjoy|enjoyed|prefer|preferred|hate|hated|dislike|adore|can't stand|cannot stand|miss)\b",
                r"\b(?:i'm|i am|we're|we are) (?:\w+ )?(?:fond of|into|interested in|keen on|obsessed with|passionate about|a (?:\w+ )?fan of|not a fan of|crazy about)\b|\bfavou?rites?\b|\bi'd rather\b|\bmy (?:main |biggest )?(?:hobby|hobbies|interests?)\b",
            ]),
        ),
        (
            Kind::Plan,
            pattern(&[
                r"\b(?:i|we)(?:'m| am|'re| are|'ve been| have been| was| were)(?: \w+ly| also| still| now| currently)* (?:planning|preparing|going to|hoping|thinking of|thinking about|considering|looking to|looking for|looking forward|trying to|saving|aiming|flying|meeting|moving|wondering whether)\b",
                r"\b(?:i|we)(?:'d| would)?(?: \w+ly| also| still| just| too)* (?:plan|want|hope|intend|wish|need|aim|like|love|have) (?:to|for)\b|\bmy (?:\w+ )?(?:goal|plan|dream|aim|next|deadline|appointment|exam|interview|flight|trip)\b",
                r"\b(?:i|we)(?:'ll| will)\b.{0,80}\b(?:tomorrow|next|on|in \d+|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|december|\d)\b",
            ]),
        ),
        (
            Kind::Event,
            pattern(&[self_verb!(
                r"went|gone|been to|saw|seen|bought|made|ate|eaten|met|visited|watched|took|taken|wrote|written|found|got|gotten|received|won|lost|read|heard|learned|learnt|tore|wore|threw|grew|blew|hurt|cut|hit|held|kept|led|lent|slept|spoke|stole|swam|woke|shot|moved|set up|split up|broke up|split|quit|tried|sold|broke|left|spent|built|ran|rode|drove|flew|drew|sang|taught|brought|sent|paid|caught|began|began to|told|gave|had|did|put|perfected|chose|forgot|fell|came|travelled|felt bad|\w{3,}[^e]ed|\w{2,}[iv]ed"
            )]),
        ),
        (
            Kind::Ongoing,
            pattern(&[
                r"\b(?:i|we)(?:'ve| have)(?: \w+)? been \w+ing\b|\b(?:i'm|i am|we're|we are|my \w+ is|my \w+ are)(?: \w+ly| also| still| now| already)* (?:learning|studying|working|training|writing|building|preparing|taking|teaching|developing|migrating|using|living|renting|saving|managing|leading|growing|raising|practicing|running|reading)\b",
                r"\b(?:recently|lately|currently|these days|nowadays|at the moment|for (?:\d+|a few|several|two|three|many) (?:weeks|months|years|days))\b.*\b(?:i|we|my|our|me)\b|\b(?:i|we|my|our|me)\b.*\b(?:recently|lately|currently|these days|nowadays|at the moment|for (?:\d+|a few|several|two|three|many) (?:weeks|months|years|days))\b",
            ]),
        ),
        (
            Kind::Habit,
            pattern(&[
                r"\b(?:usually|often|always|regularly|normally|mostly|typically|every (?:day|morning|afternoon|evening|night|week|weekend|month|year|time|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|(?:once|twice|\d+ times) (?:a|per) (?:day|week|month|year)|on weekends|each (?:day|morning|week))\b",
            ]),
        ),
        (
            Kind::Trouble,
            pattern(&[
                r"\b(?:stress(?:ed|ful)?|anxious|anxiety|nervous|overwhelmed|overwhelming|lost and|confused|confusing|difficult(?:y|ies)?|hard to|hard time|struggl\w+|trouble \w+ing|problems? with|afraid|worried|worry|scared|tired|exhausted|pain(?:ful)?|hurts?|sick|ill|injur\w+|unsure|lonely|helpless|insomnia|can't sleep|busy|pressure|procrastinat\w+|depress\w+|burn(?:ed|t) out|(?:slow|no|not making|much) (?:\w+ )?progress|no direction|no time|don't know (?:how|which|where)|can't seem|feel lost|bored|frustrat\w+|no idea how)\b",
            ]),
        ),
        (
            Kind::State,
            pattern(&[
                r"\b(?:my|our) (?:wife|husband|mother|father|mom|mum|dad|sister|brother|son|daughter|boss|manager|girlfriend|boyfriend|partner|fianc(?:é|e)e?|dog|cat|uncle|aunt|grandmother|grandfather|grandma|grandpa|cousin|niece|nephew|roommate|colleague|neighbou?rs?|teacher|kids?|children|parents|family|landlord|doctor|team)(?:'s)?\b",
                r"\b(?:my|our) [\w' -]{2,40}? (?:is|are|was|were|has|have|had|seems?|runs|uses|lives|lies|costs|needs|moved|expires|starts|ends|opens|closes)\b|\bmy \w+ and \w+ are\b",
                r"\b(?:i|we)(?: \w+ly| also| still| now| only| just)? (?:have (?:a|an|two|three|four|five|no|my|our|\d+)\b|(?:own|use|run|drive|speak|play|weigh|earn|owe|keep|store|host|deploy|manage|lead|teach|collect|pay) )",
            ]),
        ),
    ],
    fact: pattern(&[
        r"\b(?:is|are|was|were|has|have|had|lives?|works?|moved|owns?|runs?|uses?|went|visited|bought|started|starts|finished|scheduled|costs?|expires?|opens?|closes?|needs?|requires?|moves|belongs|put|told|said|gave|took|made|got|left|lost|won|sold|came|became|likes|loves|prefers|hates|will|must|lies|listens|returns|fails|failed|broke|supports|became|becomes|changed|ends|ended|arrives|leaves|\w{3,}ed|married)\b|\b\w+'(?:s|re|ll)\b|\b\w+'s (?:birthday|phone|number|address|name|office)\b",
    ]),
    function_words: &[
        "the",
        "and",
        "but",
        "for",
        "with",
        "from",
        "that",
        "this",
        "these",
        "those",
        "have",
        "has",
        "had",
        "was",
        "were",
        "are",
        "been",
        "being",
        "very",
        "really",
        "quite",
        "also",
        "just",
        "still",
        "some",
        "any",
        "lot",
        "lots",
        "much",
        "many",
        "more",
        "most",
        "today",
        "now",
        "recently",
        "lately",
        "yesterday",
        "tomorrow",
        "then",
        "there",
        "here",
        "its",
        "it's",
        "i'm",
        "i've",
        "i'd",
        "i'll",
        "you",
        "your",
        "our",
        "his",
        "her",
        "their",
        "they",
        "them",
        "she",
        "him",
        "who",
        "what",
        "which",
        "when",
        "where",
        "how",
        "why",
        "not",
        "don't",
        "didn't",
        "can",
        "could",
        "will",
        "would",
        "should",
        "may",
        "might",
        "must",
        "into",
        "about",
        "out",
        "over",
        "off",
        "too",
        "such",
        "than",
        "because",
        "while",
        "after",
        "before",
        "usually",
        "always",
        "often",
        "sometimes",
        "thing",
        "things",
        "something",
        "get",
        "got",
        "went",
        "going",
        "make",
        "made",
        "know",
        "think",
        "feel",
        "felt",
        "want",
        "like",
        "good",
        "great",
        "nice",
        "one",
        "ones",
        "all",
        "bit",
        "kind",
        "did",
        "does",
        "doing",
        "done",
        "let",
        "say",
        "said",
        "well",
        "other",
        "another",
        "same",
        "even",
        "actually",
    ],
    empty_parts: None,
});
