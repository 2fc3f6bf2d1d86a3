//! Taking a memory out of what was written about it: JSON documents, lines of a queue, dream logs, episodes. Pure: text
//! in, text out. Done twice it changes nothing more.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::language;
use crate::nrem::quote::words_of;

/// What stands in the place of an erased item.
pub const ERASED: &str = "(erased)";
/// What stands in the place of an erased line of an episode. A message that says only this is noise.
pub const BLANKED: &str = "[erased]";
/// A text of fewer bytes is erased where it stands alone, not inside another one: "tea" is in too many.
const SHORTEST_PART: usize = 12;

/// Keys under which documents of ours hold words. Elsewhere a text of one word would be any name, kind or category.
const WORDS: [&str; 12] = [
    "text",
    "texts",
    "said",
    "new",
    "old",
    "proposal",
    "subjects",
    "questions",
    "only_if",
    "reply",
    "content",
    "quote",
];

/// What is to go.
#[derive(Debug, Clone, Default)]
pub struct Target {
    ids: BTreeSet<String>,
    texts: BTreeSet<String>,
    /// The agents whose memories they are, where nothing of any other memory may change.
    alone: Option<BTreeSet<String>>,
}

impl Target {
    /// The memories of these ids and what they said.
    pub fn new<'t>(
        ids: BTreeSet<String>,
        texts: impl IntoIterator<Item = &'t (impl AsRef<str> + ?Sized + 't)>,
    ) -> Self {
        let wordings =
            texts.into_iter().map(AsRef::as_ref).flat_map(|text| [text.to_owned(), words_of(text)]);
        let texts = wordings.map(|text| plain(&text)).filter(|text| !text.is_empty()).collect();
        Self { ids, texts, alone: None }
    }

    /// The same, of these agents and of no other memory: what merely contains the words stays.
    #[must_use]
    pub fn alone(self, agents: BTreeSet<String>) -> Self {
        Self { alone: Some(agents), ..self }
    }

    /// Their ids.
    pub fn ids(&self) -> &BTreeSet<String> {
        &self.ids
    }

    /// Whether a text says what is to go.
    pub fn holds(&self, text: &str) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        let text = plain(text);
        self.texts.iter().any(|gone| text == *gone || gone.len() >= SHORTEST_PART && text.contains(gone))
    }

    /// Whether a text under that key of a document is to go.
    fn goes(&self, key: &str, text: &str) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        let (text, of_words) = (plain(text), WORDS.contains(&key));
        self.texts.iter().any(|gone| {
            let is_sentence =
                gone.len() >= SHORTEST_PART && gone.contains(|c: char| c == ' ' || !c.is_ascii());
            let is_in = self.alone.is_none() && gone.len() >= SHORTEST_PART && text.contains(gone);
            (of_words || is_sentence) && (text == *gone || is_in)
        })
    }

    /// Whether any text within a document says it.
    pub fn is_in(&self, value: &Value) -> bool {
        self.is_under("", value)
    }

    fn is_under(&self, key: &str, value: &Value) -> bool {
        match value {
            Value::String(text) => self.goes(key, text) || WORDS.contains(&key) && self.holds(text),
            Value::Array(items) => items.iter().any(|item| self.is_under(key, item)),
            Value::Object(fields) => fields.iter().any(|(key, field)| self.is_under(key, field)),
            _ => false,
        }
    }

    /// Whether an element is about another memory, or of another agent, where nothing of theirs may change.
    fn is_of_another(&self, item: &Value) -> bool {
        let Some(agents) = &self.alone else { return false };
        let at =
            |path: &[&str]| path.iter().try_fold(item, |value, key| value.get(key)).and_then(Value::as_str);
        let id = at(&["id"]).or_else(|| at(&["row", "id"])).or_else(|| at(&["memory", "id"]));
        let id = id.or_else(|| at(&["row", "memory", "id"]));
        let agent = at(&["agent"]).or_else(|| at(&["partition", "agent"]));
        id.is_some_and(|id| !self.ids.contains(id)) || agent.is_some_and(|agent| !agents.contains(agent))
    }

    /// Whether an element of a list is about the memory itself: its row, its trace, its shown form, a raw chunk or a
    /// question that names it. A tombstone stays.
    fn is_item(&self, item: &Value) -> bool {
        let names = |path: &[&str]| {
            let place = path.iter().try_fold(item, |value, key| value.get(key));
            place.and_then(Value::as_str).is_some_and(|id| self.ids.contains(id))
        };
        let rests =
            |list: &Vec<Value>| list.iter().any(|id| id.as_str().is_some_and(|id| self.ids.contains(id)));
        item.get("forgotten_at").is_none()
            && (names(&["id"])
                || names(&["row", "id"])
                || names(&["memory", "id"])
                || names(&["row", "memory", "id"])
                || item.get("memories").and_then(Value::as_array).is_some_and(rests))
    }
}

/// As texts are compared here: also without the backslashes of a dream log.
fn plain(text: &str) -> String {
    language::normalise(&text.replace('\\', ""))
}

/// Takes elements about the memory out of every list, and what it said out of every other text. Returns how many places
/// changed.
pub fn document(value: &mut Value, target: &Target) -> usize {
    under("", value, target)
}

fn under(key: &str, value: &mut Value, target: &Target) -> usize {
    if target.is_of_another(value) && !target.is_item(value) {
        return 0;
    }
    match value {
        Value::String(text) if target.goes(key, text) => {
            *text = ERASED.to_owned();
            1
        }
        Value::Array(items) => {
            let before = items.len();
            items.retain(|item| !target.is_item(item));
            before - items.len() + items.iter_mut().map(|item| under(key, item, target)).sum::<usize>()
        }
        Value::Object(fields) => fields.iter_mut().map(|(key, field)| under(key, field, target)).sum(),
        _ => 0,
    }
}

/// Takes the lines of a JSON-lines file out that name the memory or say what it said; none if nothing changes. Lines
/// that are no JSON go where they say it.
pub fn lines(text: &str, target: &Target) -> Option<(String, usize)> {
    let says = |value: &Value| match target.alone {
        None => target.is_in(value),
        Some(_) => !target.is_of_another(value) && document(&mut value.clone(), target) > 0,
    };
    let goes = |line: &&str| match serde_json::from_str::<Value>(line) {
        Ok(value) => target.is_item(&value) || says(&value),
        Err(_) => target.holds(line),
    };
    let (gone, kept): (Vec<&str>, Vec<&str>) = text.lines().partition(goes);
    let kept = kept.iter().map(|line| format!("{line}\n")).collect();
    (!gone.is_empty()).then_some((kept, gone.len()))
}

/// Replaces the items of a dream log that name the memory or say what it said, and every other line that says it; none
/// if nothing changes. An item is a line that begins with a dash and the lines indented under it.
pub fn log(text: &str, target: &Target) -> Option<(String, usize)> {
    let short: Vec<String> = target.ids.iter().map(|id| format!("`{}`", id.get(..8).unwrap_or(id))).collect();
    let names = |line: &str| {
        short.iter().any(|id| line.contains(id)) || target.ids.iter().any(|id| line.contains(id.as_str()))
    };
    let (mut kept, mut gone) = (String::new(), 0);
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let mut from = 0;
    while from < all.len() {
        let is_item = all[from].starts_with("- ");
        let under = if is_item {
            all[from + 1..].iter().take_while(|line| line.starts_with("  ")).count()
        } else {
            0
        };
        let item = &all[from..=from + under];
        let whole = item.concat();
        let says = match target.alone {
            None => target.holds(&whole) || item.iter().any(|line| target.holds(line)),
            Some(_) => item.iter().any(|line| target.goes("text", line.trim().trim_start_matches("- "))),
        };
        if names(&whole) || says {
            kept.push_str(if is_item { "- " } else { "" });
            kept.push_str(ERASED);
            kept.push('\n');
            gone += 1;
        } else {
            kept.push_str(&whole);
        }
        from += under + 1;
    }
    (gone > 0 && kept != text).then_some((kept, gone))
}

/// Blanks lines of an episode, counted from 1, so that every other line keeps its number and the file its grammar.
/// Returns how many lines changed.
pub fn episode(text: &str, spans: &[(usize, usize)]) -> (String, usize) {
    let is_due = |number: usize| spans.iter().any(|(first, last)| (*first..=*last).contains(&number));
    let (mut blanked, mut changed) = (String::with_capacity(text.len()), 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let words = line.trim_end_matches(['\n', '\r']);
        if !is_due(index + 1) || words.trim().is_empty() {
            blanked.push_str(line);
            continue;
        }
        let new = blank(words);
        changed += usize::from(new != words);
        blanked.push_str(&new);
        blanked.push_str(&line[words.len()..]);
    }
    (blanked, changed)
}

/// A line of a session keeps who said it.
fn blank(line: &str) -> String {
    for role in ["user: ", "assistant: "] {
        match line.strip_prefix(role) {
            Some(said) if said.starts_with('"') => return format!("{role}\"{BLANKED}\""),
            Some(_) => return format!("{role}{BLANKED}"),
            None => {}
        }
    }
    BLANKED.to_owned()
}

/// Whether nothing but erased lines is left of what somebody said.
pub fn is_blanked(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word == BLANKED)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ID: &str = "aaaaaaaa-0000-4000-8000-000000000001";
    const TEXT: &str = "The user is allergic to peanuts.";

    fn target() -> Target {
        Target::new(BTreeSet::from([ID.to_owned()]), [TEXT])
    }

    #[test]
    fn a_plan_loses_what_is_about_the_memory_and_nothing_else() {
        let mut plan = json!({
            "inserts": [{ "memory": { "id": ID, "text": TEXT }, "vector": [1.0], "only_if": [] },
                        { "memory": { "id": "b", "text": "Tea." }, "vector": [0.5], "only_if": [[ID, TEXT]] }],
            "merged_drafts": [{ "row": { "memory": { "id": ID } }, "leaving": { "id": ID } }],
            "traces": [{ "id": ID }, { "id": "b", "merged_from": [ID] }],
            "raw": [{ "id": "r", "text": "words of the user", "memories": [ID, "b"] }, { "id": "q", "memories": ["b"] }],
            "unarchive": [ID],
            "tombstones": [{ "id": ID, "forgotten_at": "2026-01-01T00:00:00Z" }],
            "report": { "questions": [format!("{TEXT} / Tea? — why")], "live": [1, 2] },
        });
        let expected = json!({
            "inserts": [{ "memory": { "id": "b", "text": "Tea." }, "vector": [0.5], "only_if": [[ID, ERASED]] }],
            "merged_drafts": [],
            "traces": [{ "id": "b", "merged_from": [ID] }],
            "raw": [{ "id": "q", "memories": ["b"] }],
            "unarchive": [ID],
            "tombstones": [{ "id": ID, "forgotten_at": "2026-01-01T00:00:00Z" }],
            "report": { "questions": [ERASED], "live": [1, 2] },
        });
        assert_eq!(document(&mut plan, &target()), 6);
        assert_eq!(plan, expected);
        assert_eq!(document(&mut plan, &target()), 0);
    }

    #[test]
    fn a_text_of_one_word_is_no_kind_and_no_name() {
        let mut plan = json!({ "category": "fact", "agent": "fact", "report": { "mode": "fact", "new": [{ "text": "fact" }] } });
        let one_word = Target::new(BTreeSet::new(), ["fact"]);
        assert_eq!(document(&mut plan, &one_word), 1);
        assert_eq!(plan["report"]["new"][0]["text"], ERASED);
        assert_eq!((&plan["category"], &plan["report"]["mode"]), (&json!("fact"), &json!("fact")));
        let asked = Target::new(BTreeSet::new(), ["asked"]);
        assert!(lines("{\"id\":\"b\",\"way\":\"asked\"}\n", &asked).is_none());
    }

    #[test]
    fn alone_it_takes_nothing_of_another_memory_or_agent() {
        let alone = || target().alone(BTreeSet::from(["main".to_owned()]));
        let more = format!("{TEXT} And to nuts.");
        let mut plan = json!({
            "inserts": [{ "memory": { "id": ID, "text": TEXT } }, { "memory": { "id": "b", "text": more } }],
            "report": { "created": [{ "id": "b", "text": more, "agent": "main" }, { "text": TEXT, "agent": "work" },
                                    { "text": TEXT, "agent": "main" }] },
        });
        assert_eq!(document(&mut plan, &alone()), 2);
        assert_eq!(plan["inserts"], json!([{ "memory": { "id": "b", "text": more } }]));
        let created = &plan["report"]["created"];
        assert_eq!(
            (&created[0]["text"], &created[1]["text"], &created[2]["text"]),
            (&json!(more), &json!(TEXT), &json!(ERASED))
        );
        let text = format!("- {more}\n  <br>`bbbbbbbb` fact\n- {TEXT}\n  <br>`aaaaaaaa` fact\n");
        let (kept, _) = log(&text, &alone()).unwrap();
        assert_eq!(kept, format!("- {more}\n  <br>`bbbbbbbb` fact\n- (erased)\n"));
        let queue =
            format!("{{\"id\":\"1\",\"agent\":\"work\",\"memories\":[\"w\"],\"texts\":[\"{TEXT}\"]}}\n");
        assert!(lines(&queue, &alone()).is_none());
    }

    #[test]
    fn a_short_text_goes_only_where_it_stands_alone() {
        let target = Target::new(BTreeSet::new(), ["Tea."]);
        assert!(target.holds("tea.") && !target.holds("The user drinks tea. Often."));
        let long = Target::new(BTreeSet::new(), ["User (2026-03-10): “I am allergic to peanuts.”"]);
        assert!(long.holds("assistant said: i am allergic  to peanuts. ok"));
        let chinese = Target::new(BTreeSet::new(), ["对花生过敏"]);
        assert!(chinese.holds("用户对花生过敏。"));
    }

    #[test]
    fn lines_of_a_queue_go_when_they_name_it_or_say_it() {
        let text = format!(
            "{{\"id\":\"1\",\"memories\":[\"{ID}\"]}}\n{{\"id\":\"2\",\"texts\":[\"the user is allergic to peanuts.\"]}}\n\
             {{\"id\":\"3\",\"texts\":[\"Tea\"]}}\n"
        );
        let (kept, gone) = lines(&text, &target()).unwrap();
        assert_eq!((kept.as_str(), gone), ("{\"id\":\"3\",\"texts\":[\"Tea\"]}\n", 2));
        assert!(lines(&kept, &target()).is_none());
    }

    #[test]
    fn items_of_a_log_are_replaced_whole() {
        let text = "# Dream log\n\n## New\n\n- The user is allergic to peanuts.\n  <br>`aaaaaaaa` fact\n- Tea is hot.\n  <br>`bbbbbbbb` fact\n\n\
                    ## Said again\n\n- Somewhat else\n  <br>`aaaaaaaa` by “no nuts for me”\n\nThe user is allergic\\ to peanuts.\n";
        let (kept, gone) = log(text, &target()).unwrap();
        let expected = "# Dream log\n\n## New\n\n- (erased)\n- Tea is hot.\n  <br>`bbbbbbbb` fact\n\n\
                        ## Said again\n\n- (erased)\n\n(erased)\n";
        assert_eq!((kept.as_str(), gone), (expected, 3));
        assert!(log(&kept, &target()).is_none());
    }

    #[test]
    fn lines_of_an_episode_keep_their_numbers_and_their_speaker() {
        let text = "# Session\r\nuser: \"I am allergic\"\r\nassistant: Noted\nmore of it\n\n- a note";
        let (blanked, changed) = episode(text, &[(2, 2), (4, 6)]);
        assert_eq!(blanked, "# Session\r\nuser: \"[erased]\"\r\nassistant: Noted\n[erased]\n\n[erased]");
        assert_eq!(changed, 3);
        assert_eq!(episode(&blanked, &[(2, 2), (4, 6)]), (blanked.clone(), 0));
    }

    #[test]
    fn what_was_erased_says_nothing() {
        assert!(is_blanked("[erased]") && is_blanked("[erased]\n[erased]"));
        assert!(!is_blanked("") && !is_blanked("[erased] but") && !is_blanked("erased"));
    }

    proptest! {
        #[test]
        fn an_episode_keeps_its_line_count(text in "(user: |assistant: |\"|\n|\r\n|x){0,30}", first in 1usize..6, length in 0usize..5) {
            let (blanked, _) = episode(&text, &[(first, first + length)]);
            prop_assert_eq!(text.matches('\n').count(), blanked.matches('\n').count());
        }
    }
}
