//! What the rules of one language look like: patterns on normalised text that tell what a clause does. The languages'
//! own are beside this file.

use std::sync::LazyLock;

use regex::Regex;

use super::{chinese, english, japanese, korean};
use crate::language::{self, Language};

/// What a claim is about: the reason why it is worth a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Health: what must not be forgotten.
    Health,
    /// What the agent is to do from now on.
    Wish,
    /// Who somebody is: name, origin, family, work.
    Identity,
    /// What was decided.
    Decision,
    /// What somebody likes or does not.
    Preference,
    /// What somebody intends, wants or has to do.
    Plan,
    /// What happened.
    Event,
    /// What somebody is at these days.
    Ongoing,
    /// What somebody does again and again.
    Habit,
    /// What weighs on somebody.
    Trouble,
    /// What somebody has, or how their things stand.
    State,
    /// A fact about something else.
    Fact,
    /// A recommendation of the assistant, by name.
    Recommendation,
}

impl Kind {
    /// What a memory's reason calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Wish => "a lasting wish",
            Self::Identity => "who somebody is",
            Self::Decision => "a decision",
            Self::Preference => "a preference",
            Self::Plan => "a plan",
            Self::Event => "an event",
            Self::Ongoing => "what goes on these days",
            Self::Habit => "a habit",
            Self::Trouble => "a trouble",
            Self::State => "how things stand",
            Self::Fact => "a fact",
            Self::Recommendation => "a recommendation by name",
        }
    }

    /// Whether the sentence behind it, of such a kind too, likely goes on about the same; the others stand for themselves.
    pub(super) fn goes_on(self) -> bool {
        matches!(self, Self::Event | Self::Trouble | Self::Plan | Self::Ongoing | Self::Habit | Self::State)
    }

    /// How much the kind alone speaks for a sentence, beside its centrality of 0 to 1.
    pub(super) fn weight(self) -> f64 {
        match self {
            Self::Health | Self::Wish | Self::Decision => 0.6,
            Self::Identity | Self::Preference => 0.5,
            Self::Plan | Self::Event | Self::Trouble => 0.35,
            Self::Ongoing | Self::Habit | Self::State => 0.3,
            Self::Fact => 0.25,
            Self::Recommendation => -0.3,
        }
    }

    /// Words with a meaning of their own that a claim of this kind needs: "I went there" has none.
    pub(super) fn least_content(self) -> usize {
        match self {
            Self::Plan => 3,
            Self::Event | Self::Ongoing | Self::Habit | Self::Trouble | Self::State | Self::Fact => 2,
            _ => 1,
        }
    }
}

/// The patterns of one language. All are tried on one normalised clause, except where it says otherwise.
pub(super) struct Rules {
    /// Words at the start that only tie a clause to the one before; taken off.
    pub(super) opening: Regex,
    /// Asks for something to be done now: nothing to remember, with all that belongs to it.
    pub(super) task: Regex,
    /// About the conversation itself: "I have a question for you".
    pub(super) talk: Regex,
    /// A promise to follow advice.
    pub(super) promise: Regex,
    /// What the advice, or the talk, made somebody feel.
    pub(super) reaction: Regex,
    /// Speaks of or to the agent.
    pub(super) you: Regex,
    /// Asks the agent for something that is to hold for good.
    pub(super) lasting: Regex,
    /// The weather.
    pub(super) weather: Regex,
    /// Names something without saying what: "I ran into a problem".
    pub(super) vague: Regex,
    /// An opinion's opening; taken off before the kind is looked for.
    pub(super) opinion: Regex,
    /// The next step of something told before.
    pub(super) sequel: Regex,
    /// Yes or no, and nothing else.
    pub(super) answer: Regex,
    /// This very day: what is only planned for it is over by the night.
    pub(super) today: Regex,
    /// A condition: what follows it is no fact.
    pub(super) condition: Regex,
    /// Something in view as the words are said, not worth remembering.
    pub(super) passing: Regex,
    /// What only describes a thing: "a job that I like"; taken out before the kind is looked for.
    pub(super) aside: Regex,
    /// Starts in the middle of a thought.
    pub(super) fragment: Regex,
    /// Only offers to recommend something.
    pub(super) offer: Regex,
    /// Recommends something.
    pub(super) advice: Regex,
    /// Somebody speaks of themselves; none where the speaker is seldom named.
    pub(super) own: Option<Regex>,
    /// What looks like pointing and is not; blanked before `pointing` is tried.
    pub(super) no_pointing: Regex,
    /// Points at something that was said before.
    pub(super) pointing: Regex,
    /// Kinds of claims about the speaker, the first that matches counts.
    pub(super) kinds: Vec<(Kind, Regex)>,
    /// States a fact of something else.
    pub(super) fact: Regex,
    /// Words without a meaning of their own; none for scripts without spaces, where `empty_parts` counts.
    pub(super) function_words: &'static [&'static str],
    /// Stretches without a meaning of their own, for scripts without spaces between words.
    pub(super) empty_parts: Option<Regex>,
}

/// Compiles alternatives.
pub(super) fn pattern(parts: &[&str]) -> Regex {
    Regex::new(&parts.join("|")).expect("the pattern is fixed")
}

/// Words that only an English text is likely to have.
static ENGLISH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[concat!(
        r"\b(?:i|my|the|is|are|we|our|and|to|of|it|you|was|have|has|i'm|i've|with|from|for|at|those|these|this|that|very|not|",
        r"can|will|be|on|what|don't|they|he|she|so|but|please|some|thanks|okay|let's|about|a|an|by|if|or|me|just|all|no|yes|up|out|how|why|when|who|which|do|did|does|would|could|should|there|here|never|always)\b"
    )])
});

/// Words of other languages in Latin letters.
static FOREIGN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[concat!(
        r"\b(?:bitte|nie|immer|keine|nur|sie|du|der|die|das|den|dem|ein|eine|und|ist|nicht|ich|mein|meine|auf|für|wir|le|les|des|du|est|je|j'ai|et|une?|dans|pour|mon|ma|",
        r"el|los|las|que|y|es|en|mi|por|para|con|il|che|di|è|sono|non|io|os|não|em|um|uma|eu|ik|het|een|niet|jag|är|och)\b"
    )])
});

/// The rules for a text; none for a language they were not written for, whose sentences are then judged by shape alone.
pub(super) fn rules_for(text: &str) -> Option<&'static Rules> {
    match language::spoken(text)? {
        Language::Chinese => Some(&chinese::RULES),
        Language::Japanese => Some(&japanese::RULES),
        Language::Korean => Some(&korean::RULES),
        Language::Latin => {
            let normal = language::normalise(text);
            let foreign = FOREIGN.find_iter(&normal).count();
            let known = ENGLISH.find_iter(&normal).count();
            (known > 0 && foreign <= known).then_some(&*english::RULES)
        }
        _ => None,
    }
}
