//! Which language model an agent of the gateway talks with, and where it is: `agents.defaults.model` (a name, or an object
//! with `primary`), an agent's own `model`, and `models.providers`.

use serde_json::Value;

use super::config::OpenClaw;
use super::memory_settings::Key;

/// A language model of the gateway.
#[derive(Debug, Clone)]
pub struct ChatModel {
    /// The provider's id, such as `openai`.
    pub provider: String,
    /// The model's name there.
    pub model: String,
    /// What the provider speaks, where `models.providers` says.
    pub api: Option<String>,
    /// The server, where it says.
    pub base_url: Option<String>,
    /// The key.
    pub key: Key,
}

impl OpenClaw {
    /// The model of an agent: its own, else the default one; none where the settings do not say.
    pub fn chat_model(&self, agent: &str) -> Option<ChatModel> {
        let own = self.agent_entry(agent).and_then(|entry| self.primary(entry.get("model")?));
        let name = own.or_else(|| self.primary(self.at(&["agents", "defaults", "model"])?))?;
        let (provider, model) = name.split_once('/')?;
        let of_provider = |key: &str| self.at(&["models", "providers", provider, key]);
        let key = match of_provider("apiKey") {
            Some(key) => self.key(key),
            None if provider == "openai" => self.key_of_variable("OPENAI_API_KEY").unwrap_or(Key::Nowhere),
            None => Key::Nowhere,
        };
        Some(ChatModel {
            provider: provider.to_owned(),
            model: model.to_owned(),
            api: of_provider("api").and_then(|api| self.resolve(api)),
            base_url: of_provider("baseUrl").and_then(|url| self.resolve(url)),
            key,
        })
    }

    fn primary(&self, model: &Value) -> Option<String> {
        self.resolve(if model.is_object() { model.get("primary")? } else { model })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;

    fn model(text: &str, agent: &str) -> Option<ChatModel> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), text).unwrap();
        let mut layers = Layers::of(&[]);
        layers.user_home = Some(dir.path().to_owned());
        OpenClaw::read(&layers).unwrap().chat_model(agent)
    }

    #[test]
    fn the_model_is_the_agents_own_or_the_default_with_its_providers_address() {
        let text = "{agents: {defaults: {model: {primary: 'mock/mock-chat'}}, entries: {work: {model: 'openai/gpt-5'}}},
            models: {providers: {mock: {baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'k', api: 'openai-completions'}}}}";
        let main = model(text, "main").unwrap();
        assert_eq!((main.provider.as_str(), main.model.as_str()), ("mock", "mock-chat"));
        assert_eq!(main.base_url.as_deref(), Some("http://127.0.0.1:9/v1"));
        assert_eq!(main.api.as_deref(), Some("openai-completions"));
        assert!(matches!(main.key, Key::Plain(..)));
        let work = model(text, "work").unwrap();
        assert_eq!((work.provider.as_str(), work.model.as_str()), ("openai", "gpt-5"));
        assert!(matches!(work.key, Key::Nowhere));
        let named = model("{agents: {defaults: {model: 'openrouter/meta/llama'}}}", "main").unwrap();
        assert_eq!((named.provider.as_str(), named.model.as_str()), ("openrouter", "meta/llama"));
        assert!(model("{}", "main").is_none());
    }
}
