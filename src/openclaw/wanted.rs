//! What `openclaw.json` lacks for Dreamer to have something to work on: the hook that writes episodes, long enough, and the
//! memory plugin in its slot. Rendered as JSON5 for a person to paste; never written.

use serde_json::{Map, Value, json};

use super::config::OpenClaw;
use super::gateway::hello::{Release, release};
use super::memory_settings::PLUGIN;

/// How many messages of a session the hook should keep at least: the days of most people fit.
pub const ENOUGH_MESSAGES: u64 = 200;
/// How many it is told to keep where it keeps fewer.
pub const WANTED_MESSAGES: u64 = 500;

/// The newest release known to bring the plugin along.
const BRINGS_THE_PLUGIN: Release = (2026, 4, 15);

const HOOK: &str = "session-memory";

/// Whether the hook is selected, by the rules of openclaw 2026.9.6 (`automation/hooks/configuration`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// It is.
    On,
    /// It is switched off.
    Off,
    /// Nobody switched it on: entries are a list of those that are loaded, and without any none is.
    NotSelected,
}

impl OpenClaw {
    /// Whether the hook that writes episodes is selected.
    pub fn hook(&self) -> Hook {
        let internal = |path: &[&str]| self.at(&[&["hooks", "internal"], path].concat());
        let is = |path: &[&str], value: bool| internal(path).and_then(Value::as_bool) == Some(value);
        if is(&["enabled"], false) || is(&["entries", HOOK, "enabled"], false) {
            return Hook::Off;
        }
        let entries = internal(&["entries"]).and_then(Value::as_object);
        let is_named = entries.is_some_and(|entries| entries.contains_key(HOOK));
        let names_others = entries.is_some_and(|entries| !entries.is_empty());
        let discovers = is(&["enabled"], true) && !names_others
            || internal(&["load", "extraDirs"])
                .and_then(Value::as_array)
                .is_some_and(|dirs| !dirs.is_empty());
        if is_named || discovers { Hook::On } else { Hook::NotSelected }
    }

    /// The settings that are missing, as far as Dreamer is concerned; none if nothing is.
    pub fn missing(&self) -> Option<Value> {
        let mut missing = Map::new();
        let (hook, kept) = (self.hook(), self.messages_kept());
        let mut entry = Map::new();
        if hook != Hook::On {
            entry.insert("enabled".into(), json!(true));
        }
        if kept < ENOUGH_MESSAGES {
            entry.insert("messages".into(), json!(WANTED_MESSAGES));
        }
        if !entry.is_empty() {
            let mut internal = json!({ "entries": { HOOK: entry } });
            if hook != Hook::On {
                internal["enabled"] = json!(true);
            }
            missing.insert("hooks".into(), json!({ "internal": internal }));
        }
        let plugins = self.missing_plugins();
        if !plugins.is_empty() {
            missing.insert("plugins".into(), Value::Object(plugins));
        }
        (!missing.is_empty()).then_some(Value::Object(missing))
    }

    /// Whether the plugin lacks the right to see prompts and messages. It is one of its own package in current releases, which
    /// ask for that; a release that still brought it along refuses settings with this key.
    fn needs_conversation_access(&self, is_there: bool) -> bool {
        let entry = |path: &[&str]| self.at(&[&["plugins", "entries", PLUGIN], path].concat());
        if entry(&["hooks", "allowConversationAccess"]) == Some(&Value::Bool(true)) {
            return false;
        }
        match self.written_by().as_deref().and_then(release) {
            Some(release) => release > BRINGS_THE_PLUGIN,
            None => !is_there || entry(&["config", "embedding", "provider"]).is_some(),
        }
    }

    fn missing_plugins(&self) -> Map<String, Value> {
        let memory = self.memory();
        let mut plugins = Map::new();
        if memory.slot != PLUGIN {
            plugins.insert("slots".into(), json!({ "memory": PLUGIN }));
        }
        let mut entry = Map::new();
        if !memory.is_there || memory.is_off {
            entry.insert("enabled".into(), json!(true));
        }
        if self.needs_conversation_access(memory.is_there) {
            entry.insert("hooks".into(), json!({ "allowConversationAccess": true }));
        }
        if memory.embedding.is_none() {
            let embedding =
                json!({ "apiKey": "${OPENAI_API_KEY}", "model": super::memory_settings::DEFAULT_MODEL });
            entry.insert(
                "config".into(),
                json!({ "embedding": embedding, "autoRecall": true, "autoCapture": true }),
            );
        }
        if !entry.is_empty() {
            plugins.insert("entries".into(), json!({ PLUGIN: entry }));
        }
        plugins
    }
}

/// A value as JSON5, the way people write `openclaw.json`: names without quotes where they need none, a comma behind each
/// line.
pub fn json5(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let Value::Object(object) = value else {
        text.push_str(&value.to_string());
        return;
    };
    text.push_str("{\n");
    for (name, value) in object {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        let name = if is_plain { name.clone() } else { Value::from(name.as_str()).to_string() };
        text.push_str(&"  ".repeat(depth + 1));
        text.push_str(&format!("{name}: "));
        write(value, depth + 1, text);
        text.push_str(",\n");
    }
    text.push_str(&"  ".repeat(depth));
    text.push('}');
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;

    fn openclaw(text: &str) -> OpenClaw {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), text).unwrap();
        let mut layers = Layers::of(&[]);
        layers.user_home = Some(dir.path().to_owned());
        OpenClaw::read(&layers).unwrap()
    }

    #[test]
    fn the_hook_is_selected_by_the_gateways_rules() {
        let hook = |internal: &str| openclaw(&format!("{{hooks: {{internal: {internal}}}}}")).hook();
        assert_eq!(openclaw("{}").hook(), Hook::NotSelected);
        assert_eq!(hook("{enabled: true}"), Hook::On);
        assert_eq!(hook("{enabled: true, entries: {'boot-md': {enabled: true}}}"), Hook::NotSelected);
        assert_eq!(hook("{entries: {'session-memory': {messages: 60}}}"), Hook::On);
        assert_eq!(hook("{enabled: true, entries: {'session-memory': {enabled: true}}}"), Hook::On);
        assert_eq!(hook("{entries: {'session-memory': {enabled: false}}}"), Hook::Off);
        assert_eq!(hook("{enabled: false, entries: {'session-memory': {enabled: true}}}"), Hook::Off);
        assert_eq!(hook("{load: {extraDirs: ['/x']}}"), Hook::On);
    }

    #[test]
    fn only_what_is_missing_is_shown_and_can_be_pasted() {
        let whole = "{hooks: {internal: {enabled: true, entries: {'session-memory': {enabled: true, messages: 200}}}},
            plugins: {slots: {memory: 'memory-lancedb'}, entries: {'memory-lancedb': {config: {embedding: {apiKey: 'k'}}}}}}";
        assert_eq!(openclaw(whole).missing(), None);
        let short = openclaw(&whole.replace(", messages: 200", "")).missing().unwrap();
        assert_eq!(short, json!({"hooks": {"internal": {"entries": {"session-memory": {"messages": 500}}}}}));
        let other =
            openclaw(&whole.replace("slots: {memory: 'memory-lancedb'}", "slots: {memory: 'memory-core'}"));
        assert_eq!(other.missing().unwrap(), json!({"plugins": {"slots": {"memory": "memory-lancedb"}}}));
        let access = |settings: &str| {
            openclaw(settings).missing().is_some_and(|m| m.to_string().contains("allowConv"))
        };
        assert!(!access(whole), "an unknown release with the older shape may refuse it");
        assert!(access(&whole.replacen('{', "{meta: {lastTouchedVersion: '2026.9.6'}, ", 1)));
        assert!(!access(&whole.replacen('{', "{meta: {lastTouchedVersion: '2026.4.15'}, ", 1)));
        assert!(access(&whole.replace("apiKey: 'k'", "provider: 'openai'")));
        let all = openclaw("{}").missing().unwrap();
        let text = json5(&all);
        let read: Value = json5::from_str(&text).unwrap();
        assert_eq!(read, all);
        for part in [
            "hooks: {\n  ",
            "\"session-memory\": {",
            "messages: 500,",
            "allowConversationAccess: true,",
            "apiKey: \"${OPENAI_API_KEY}\",",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
