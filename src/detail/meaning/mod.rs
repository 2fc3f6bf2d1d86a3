//! Whether a claim says what its sources say: no negation, condition, doubt or wish dropped or put in, nobody else's words
//! given to the user, no question or piece of advice taken for a fact, no two people swapped, no number made vague.
//! Rules only, on what claim and sources share; a claim in wholly other words is not judged. A false alarm costs a call
//! and some style, a lie that passes stays: denial, numbers and persons are read strictly, the rest where rules are sure.

mod clause;
mod feature;
mod mark;
mod merge;
mod quantity;
mod role;
mod subject;

use std::collections::BTreeSet;

use mark::Mark;
use subject::Subject;

pub use merge::{alike, contradiction, misread_merge, person_of, tells_a_past};

use super::{details, wording};
use crate::language::{self, normalise};

/// What came after the assistant's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The next message takes them over.
    Yes,
    /// It denies them.
    No,
    /// It says something else, or nothing.
    Other,
}

impl Answer {
    /// How a message answers the one before it, by its first word.
    pub fn of(text: &str) -> Self {
        let normal = normalise(text);
        match (mark::is_yes(&normal), mark::is_no(&normal)) {
            (true, _) => Self::Yes,
            (_, true) => Self::No,
            _ => Self::Other,
        }
    }
}

/// A word by which only one of two normalised texts says that it may be so, is wished, holds under a condition, or was so.
pub(super) fn turned(first: &str, second: &str) -> Option<(Option<String>, Option<String>)> {
    let lone = |mark: Mark, one: &str, other: &str| {
        let word = mark::found(mark, one).into_iter().find(|word| !mark::is_duty(&one[word.clone()]))?;
        (!mark::leaves_open(mark, other)).then(|| one[word].trim().to_owned())
    };
    [Mark::Doubt, Mark::Wish, Mark::Condition, Mark::Past].into_iter().find_map(|mark| {
        let (a, b) = (lone(mark, first, second), lone(mark, second, first));
        (a.is_some() || b.is_some()).then_some((a, b))
    })
}

/// Who speaks in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voice {
    /// The user, or nobody: a note.
    User,
    /// Another person of that name.
    Person(String),
    /// The assistant, and how it was answered.
    Assistant(Answer),
    /// A memory, which calls the user so.
    Memory,
}

/// A source with its voice.
#[derive(Debug, Clone)]
pub struct Said {
    /// The words.
    pub text: String,
    /// Whose they are.
    pub voice: Voice,
}

/// One feature of a source with what its clause says of it.
struct Atom {
    feature: String,
    marks: Vec<Mark>,
    /// A denial stands somewhere in the clause.
    near_denial: bool,
    asked: bool,
    subject: Subject,
    sentence: usize,
    source: usize,
}

struct Sentence {
    normal: String,
    asked: bool,
}

/// The sources, taken apart.
struct Sources<'a> {
    said: &'a [Said],
    sentences: Vec<Sentence>,
    atoms: Vec<Atom>,
    german: bool,
}

/// What the claim says otherwise than its sources, in words for people and for a model that is to mend it.
pub fn misread(claim: &str, said: &[Said]) -> Vec<String> {
    misread_as(claim, said, false)
}

/// What is wrong with a claim that denies what no source denies.
const ADDED: &str = "no chunk denies it: a negation is added";

fn misread_as(claim: &str, said: &[Said], merged: bool) -> Vec<String> {
    let german = language::is_german(claim);
    let sources = Sources::of(said, german);
    let names = lower_names(claim);
    let mut found = Vec::new();
    for sentence in language::sentences(claim) {
        let sentence = normalise(sentence);
        let mut last = Subject::Unknown;
        for range in clause::clauses(&sentence) {
            let clause = &sentence[range];
            let about = match subject::of(clause, &names) {
                Subject::Unknown => last.clone(),
                known => known,
            };
            last = about.clone();
            sources.check(&Claimed::of(clause, &sentence, about, german), &mut found);
        }
        found.extend(wording_problem(&sentence, &sources, merged));
    }
    found.extend(role::swapped(claim, said));
    found.extend(quantity::made_vague(claim, said));
    found.extend(quantity::moved(claim, said));
    found.dedup();
    found
}

/// Whether a text says of itself that it is the assistant's: "the assistant recommended …".
pub fn is_the_assistants(text: &str) -> bool {
    mark::is_the_assistants(&normalise(text))
}

/// How many words of content of the claim stand in a text.
pub fn shared(claim: &str, text: &str) -> usize {
    let german = language::is_german(claim);
    let features = |text: &str| -> BTreeSet<String> {
        feature::features(&normalise(text), german).into_iter().map(|(_, feature)| feature).collect()
    };
    features(claim).intersection(&features(text)).count()
}

fn lower_names(text: &str) -> BTreeSet<String> {
    details(text, None).names.into_iter().map(|name| normalise(&name)).collect()
}

/// A clause of the claim.
struct Claimed<'a> {
    clause: &'a str,
    sentence: &'a str,
    about: Subject,
    features: Vec<String>,
    /// The features its denial reaches.
    denied: Vec<String>,
    german: bool,
}

impl<'a> Claimed<'a> {
    fn of(clause: &'a str, sentence: &'a str, about: Subject, german: bool) -> Self {
        let placed = feature::features(clause, german);
        let reaches: Vec<_> =
            mark::found(Mark::Denied, clause).iter().map(|at| clause::reach(clause, at, german)).collect();
        let denied = placed.iter().filter(|(at, _)| reaches.iter().any(|reach| reach.contains(at)));
        let denied = denied.map(|(_, feature)| feature.clone()).collect();
        let features = placed.into_iter().map(|(_, feature)| feature).collect();
        Self { clause, sentence, about, features, denied, german }
    }

    /// Whether enough of what is found stands out: half of it, or what comes first, which in Latin script is the verb.
    fn weighs(&self, part: &[&String], found: &[&String]) -> bool {
        let latin = !self.clause.chars().any(language::is_cjk);
        !part.is_empty()
            && (part.len() * 2 >= found.len() || latin && !self.german && found.first() == part.first())
    }
}

impl Claimed<'_> {
    /// The same, with more than half.
    fn outweighs(&self, part: &[&String], found: &[&String]) -> bool {
        part.len() * 2 > found.len()
            || part.len() * 2 == found.len() && self.weighs(part, found) && part.first() == found.first()
    }

    /// Where the claim may keep a mark: a denial must stand in the clause itself, the rest in its sentence.
    fn sentence_for(&self, mark: Mark) -> &str {
        if mark == Mark::Denied { self.clause } else { self.sentence }
    }
}

impl<'a> Sources<'a> {
    fn of(said: &'a [Said], german: bool) -> Self {
        let mut sources = Self { said, sentences: Vec::new(), atoms: Vec::new(), german };
        for (source, words) in said.iter().enumerate() {
            for sentence in language::sentences(&words.text) {
                sources.read(source, sentence);
            }
        }
        sources
    }

    fn read(&mut self, source: usize, sentence: &str) {
        let names = lower_names(sentence);
        let asked = language::is_question(sentence);
        let normal = normalise(sentence);
        let place = self.sentences.len();
        let conditional = !mark::found(Mark::Condition, &normal).is_empty();
        let mut last = Subject::Unknown;
        for range in clause::clauses(&normal) {
            let clause = &normal[range];
            let about = match subject::of(clause, &names) {
                Subject::Unknown => last.clone(),
                known => known,
            };
            last = about.clone();
            let reaches: Vec<_> = Mark::ALL
                .into_iter()
                .flat_map(|mark| mark::found(mark, clause).into_iter().map(move |at| (mark, at)))
                .map(|(mark, at)| (mark, clause::reach(clause, &at, self.german)))
                .collect();
            for (at, feature) in feature::features(clause, self.german) {
                let granted = is_granted(clause, at);
                let reached = reaches.iter().filter(|(_, reach)| reach.contains(&at)).map(|(mark, _)| *mark);
                let mut marks: Vec<Mark> = reached.filter(|mark| *mark == Mark::Denied || !granted).collect();
                if conditional && !granted {
                    marks.push(Mark::Condition);
                }
                self.atoms.push(Atom {
                    feature,
                    marks,
                    near_denial: reaches.iter().any(|(mark, _)| *mark == Mark::Denied),
                    asked: asked && !granted,
                    subject: about.clone(),
                    sentence: place,
                    source,
                });
            }
        }
        self.sentences.push(Sentence { normal, asked });
    }

    fn atoms_of<'s>(&'s self, feature: &'s str) -> impl Iterator<Item = &'s Atom> {
        self.atoms.iter().filter(move |atom| atom.feature == feature)
    }

    /// The features of which every atom answers yes.
    fn only<'c>(&self, found: &[&'c String], is: impl Fn(&Atom) -> bool) -> Vec<&'c String> {
        found.iter().copied().filter(|feature| self.atoms_of(feature).all(&is)).collect()
    }

    fn check(&self, claimed: &Claimed<'_>, problems: &mut Vec<String>) {
        let found: Vec<&String> =
            claimed.features.iter().filter(|feature| self.atoms_of(feature).next().is_some()).collect();
        problems.extend(self.added_denial(claimed, &found));
        if found.is_empty() {
            return;
        }
        for mark in Mark::ALL {
            let marked = self.only(&found, |atom| atom.marks.contains(&mark));
            // What somebody wants to do may hold other facts: "to visit my sister in Oslo".
            let weighs = if mark == Mark::Wish {
                claimed.outweighs(&marked, &found)
            } else {
                claimed.weighs(&marked, &found)
            };
            if weighs && !mark::keeps(mark, claimed.sentence_for(mark)) {
                problems.push(mark.dropped().to_owned());
            }
        }
        problems.extend(self.asked(claimed, &found));
        problems.extend(self.advised(claimed, &found));
        problems.extend(self.of_another(claimed, &found));
        problems.extend(self.of_the_user(claimed, &found));
    }

    /// A claim that denies what no source denies.
    fn added_denial(&self, claimed: &Claimed<'_>, found: &[&String]) -> Option<String> {
        if !mark::denies(claimed.clause) {
            return None;
        }
        let answered_no = self.said.iter().any(|said| Answer::of(&said.text) == Answer::No);
        let shared = |sentence: usize| {
            let holds = |f: &&&String| self.atoms_of(f).any(|atom| atom.sentence == sentence);
            found.iter().filter(holds).count()
        };
        let counts: Vec<usize> = (0..self.sentences.len()).map(shared).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let close = counts.iter().zip(&self.sentences).filter(|(count, _)| **count * 2 >= most);
        let said_no = close.into_iter().any(|(_, sentence)| mark::says_no(&sentence.normal));
        if !said_no && !answered_no && !self.sentences.is_empty() {
            return Some(ADDED.into());
        }
        let denied: Vec<&String> = found.iter().copied().filter(|f| claimed.denied.contains(f)).collect();
        let stated = self.only(&denied, |atom| !atom.near_denial);
        let object = denied.last().is_some_and(|last| stated.contains(last));
        let implied = || {
            let sentences = self.sentences.iter().map(|sentence| sentence.normal.as_str());
            sentences.into_iter().any(|text| mark::says_no(text) && !mark::denies(text))
        };
        let moved = object && stated.len() * 2 >= denied.len() && !answered_no && !implied();
        moved.then(|| "the chunks deny something else: the negation is moved".into())
    }

    fn asked(&self, claimed: &Claimed<'_>, found: &[&String]) -> Option<String> {
        let by_assistant = |atom: &Atom| matches!(self.said[atom.source].voice, Voice::Assistant(_));
        let asked = self.only(found, |atom| atom.asked && !by_assistant(atom));
        (claimed.weighs(&asked, found) && !mark::only_asks(claimed.sentence))
            .then(|| "the chunks only ask it".into())
    }

    /// What only the assistant said and nobody took over.
    fn advised(&self, claimed: &Claimed<'_>, found: &[&String]) -> Option<String> {
        let denied = mark::says_no(claimed.sentence) || self.corrects(claimed, found);
        let open = |atom: &Atom| match self.said[atom.source].voice {
            Voice::Assistant(answer) => answer == Answer::Other || answer == Answer::No && !denied,
            _ => false,
        };
        let advised = self.only(found, |atom| open(atom) && !self.sentences[atom.sentence].asked);
        let all = self.only(found, open);
        let only_heard = claimed.outweighs(&advised, found) || all.len() == found.len();
        (only_heard && !mark::is_the_assistants(claimed.sentence)).then(|| {
            "only the assistant says so; word it \"the assistant recommended …\" or leave it out".into()
        })
    }

    /// Whether the claim says what somebody put in the place of the assistant's words: "no, it is on Thursday". What it
    /// is about may then be the assistant's word, but no value of the same kind.
    fn corrects(&self, claimed: &Claimed<'_>, found: &[&String]) -> bool {
        let by_assistant = |atom: &Atom| matches!(self.said[atom.source].voice, Voice::Assistant(_));
        let own = self.only(found, |atom| !by_assistant(atom));
        let denied =
            self.only(found, |atom| matches!(self.said[atom.source].voice, Voice::Assistant(Answer::No)));
        // A number or a day that only the denied words hold was not taken over.
        let keeps = denied.iter().any(|feature| is_value(feature))
            || own.iter().all(|feature| !is_value(feature)) && { own.len() < denied.len().min(2) };
        !own.is_empty() && !keeps && !mark::is_the_assistants(claimed.sentence)
    }

    /// What is said of somebody else, given to the user.
    fn of_another(&self, claimed: &Claimed<'_>, found: &[&String]) -> Option<String> {
        if claimed.about != Subject::Speaker {
            return None;
        }
        let of_user = |atom: &Atom| match (&self.said[atom.source].voice, &atom.subject) {
            (Voice::Person(_), _) => false,
            (Voice::Assistant(_), _) => true,
            (_, Subject::Addressee) => {
                mark::keeps(Mark::Wish, claimed.sentence) || mark::only_asks(claimed.sentence)
            }
            (_, Subject::Other(_)) => false,
            _ => true,
        };
        let foreign = self.only(found, |atom| !of_user(atom));
        if !claimed.weighs(&foreign, found) || subject::names_a_relative(claimed.sentence) {
            return None;
        }
        let who = |atom: &Atom| match (&self.said[atom.source].voice, &atom.subject) {
            (_, Subject::Other(name)) => name.clone(),
            (Voice::Person(name), _) => normalise(name),
            _ => "the assistant".to_owned(),
        };
        let others: BTreeSet<String> = foreign.iter().flat_map(|f| self.atoms_of(f)).map(who).collect();
        let told = others.iter().any(|name| {
            claimed.sentence.contains(name.as_str())
                && !["he", "she", "they", "er", "他", "她"].contains(&name.as_str())
        });
        let named = lower_names_in(claimed.sentence, &others);
        (!told && !named).then(|| {
            let who = others.into_iter().collect::<Vec<_>>().join(", ");
            format!("the chunks say it of {who}, not of the user")
        })
    }

    /// What is said of the user, given to somebody with a name.
    fn of_the_user(&self, claimed: &Claimed<'_>, found: &[&String]) -> Option<String> {
        let Subject::Other(name) = &claimed.about else { return None };
        let named = |text: &str| super::name::stands_in(name, text);
        let known = self.sentences.iter().any(|sentence| named(&sentence.normal));
        let speaker = |atom: &Atom| match &self.said[atom.source].voice {
            Voice::Person(person) => !super::name::stands_in(name, &normalise(person)),
            Voice::User | Voice::Memory => true,
            Voice::Assistant(_) => false,
        };
        let others: Vec<&String> = found
            .iter()
            .copied()
            .filter(|f| !name.split(' ').any(|part| part.starts_with(f.as_str())))
            .collect();
        let own = self.only(&others, |atom| {
            atom.subject == Subject::Speaker && speaker(atom) && !named(&self.sentences[atom.sentence].normal)
        });
        let pronoun = ["he", "she", "they", "er"].contains(&name.as_str()) || subject::names_a_relative(name);
        (known && !pronoun && claimed.weighs(&own, &others))
            .then(|| format!("the chunks say it of the speaker, not of {name}"))
    }
}

/// Whether a word of content is a value that something may have: a number, a day of the week, a month.
fn is_value(feature: &str) -> bool {
    const STEMS: [&str; 31] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
        "januar",
        "februar",
        "april",
        "june",
        "juni",
        "july",
        "juli",
        "august",
        "septemb",
        "octob",
        "oktob",
        "novemb",
        "decemb",
        "dezemb",
        "march",
        "märz",
        "noon",
    ];
    let day =
        ["周", "星期", "月", "号", "日", "点", "時", "曜", "요일"].iter().any(|unit| feature.contains(unit));
    let stem = |known: &str| feature.len() >= 4 && (feature.starts_with(known) || known.starts_with(feature));
    day || feature.chars().any(|c| c.is_ascii_digit()) || STEMS.into_iter().any(stem)
}

/// Whether one of the people is named by another word of theirs ("smith" for "anna smith").
fn lower_names_in(text: &str, people: &BTreeSet<String>) -> bool {
    people
        .iter()
        .flat_map(|name| name.split(' '))
        .any(|part| part.chars().count() > 2 && super::name::has_word(text, part))
}

/// Whether a word is taken for granted even in a question or a wish: what stands behind "my".
fn is_granted(clause: &str, at: usize) -> bool {
    const OWN: &[&str] =
        &["my", "our", "mein", "meine", "meinen", "meinem", "meiner", "unser", "unsere", "user's", "their"];
    let words = clause::words(clause);
    let Some(place) = words.iter().position(|(start, word)| *start <= at && at < start + word.len().max(1))
    else {
        let before = &clause[..at];
        return ["我的", "我们的", "私の", "僕の", "제 ", "내 ", "우리 "]
            .iter()
            .any(|own| before.ends_with(own));
    };
    words[place.saturating_sub(2)..place].iter().any(|(_, word)| OWN.contains(word))
}

/// An opposite in place of the source's word, or another tense of its verb, where nothing denies.
fn wording_problem(sentence: &str, sources: &Sources<'_>, merged: bool) -> Option<String> {
    let own = sources.said.iter().filter(|said| !matches!(said.voice, Voice::Assistant(_)));
    let all = normalise(&own.map(|said| said.text.as_str()).collect::<Vec<_>>().join(" "));
    if mark::denies(sentence) || mark::denies(&all) {
        return None;
    }
    if let Some((claimed, said)) = wording::reversed(sentence, &all) {
        return Some(format!("the chunks say “{said}”, not “{claimed}”"));
    }
    // A merge tells the older claim as past.
    if merged || !mark::found(Mark::Past, &all).is_empty() {
        return None;
    }
    wording::other_tense(sentence, &all)
        .map(|(claimed, said)| format!("the chunks say “{said}”, not “{claimed}”"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
