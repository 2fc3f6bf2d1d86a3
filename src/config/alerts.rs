//! Where alerts go, as settings. They can be read on their own, because the operator must hear of it when the other
//! settings cannot be used. What is told, and how, is `alert`'s business.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::resolve::Reader;
use super::value::one_of;
use super::{ConfigError, Layers, Origin, address};
use crate::privacy::is_loopback;

const PROVIDER: &str = "DREAMER_ALERT_PROVIDER";
const BOT_TOKEN: &str = "DREAMER_ALERT_TELEGRAM_BOT_TOKEN";
const CHAT_ID: &str = "DREAMER_ALERT_TELEGRAM_CHAT_ID";
const SLACK_URL: &str = "DREAMER_ALERT_SLACK_WEBHOOK_URL";
const WEBHOOK_URL: &str = "DREAMER_ALERT_WEBHOOK_URL";

/// Where the operator hears of trouble.
#[derive(Debug, Clone, Default)]
pub enum AlertTarget {
    /// Nowhere.
    #[default]
    Off,
    /// A Telegram bot writes to a chat.
    Telegram {
        /// What BotFather gave.
        bot_token: SecretString,
        /// A number, or `@name` of a channel.
        chat_id: String,
    },
    /// A Slack incoming webhook.
    Slack {
        /// Its address, which is all that is needed to write there.
        webhook_url: SecretString,
    },
    /// Any address that takes a JSON object by POST.
    Webhook {
        /// Its address, which may hold a token.
        url: SecretString,
    },
}

impl AlertTarget {
    /// The values that must not appear in any text.
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            Self::Off => vec![],
            Self::Telegram { bot_token, .. } => vec![bot_token.expose_secret()],
            Self::Slack { webhook_url: url } | Self::Webhook { url } => vec![url.expose_secret()],
        }
    }

    /// What works, but is probably not what the operator wants.
    pub(super) fn warning(&self) -> Option<String> {
        let (Self::Slack { webhook_url: url } | Self::Webhook { url }) = self else { return None };
        let url = url.expose_secret();
        (url.starts_with("http://") && !is_loopback(url))
            .then(|| format!("alerts travel unencrypted to {}; use https", address::host(url)))
    }
}

/// The settings an alert needs, readable where the others are not.
#[derive(Debug, Clone)]
pub struct AlertSettings {
    /// `DREAMER_HOME`.
    pub home: PathBuf,
    /// Where alerts go.
    pub target: AlertTarget,
}

impl AlertSettings {
    /// Reads them alone.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(layers);
        let settings = Self { home: reader.home(), target: reader.alerts() };
        reader.done(settings).map(|(settings, _)| settings)
    }
}

/// The value of `DREAMER_ALERT_PROVIDER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    Off,
    Telegram,
    Slack,
    Webhook,
}

impl Reader<'_> {
    /// Where alerts go. What the chosen provider needs and nobody set is a problem.
    pub(super) fn alerts(&mut self) -> AlertTarget {
        let all = [
            ("off", Provider::Off),
            ("telegram", Provider::Telegram),
            ("slack", Provider::Slack),
            ("webhook", Provider::Webhook),
        ];
        let provider = self.take(PROVIDER, |value| one_of(value, &all, &[]));
        let bot_token = self.take_optional(BOT_TOKEN, bot_token);
        let chat_id = self.take_optional(CHAT_ID, chat_id);
        let slack = self.take_optional(SLACK_URL, url);
        let webhook = self.take_optional(WEBHOOK_URL, url);
        let needed = match provider {
            Provider::Off => return AlertTarget::Off,
            Provider::Telegram => &[(BOT_TOKEN, bot_token.is_none()), (CHAT_ID, chat_id.is_none())][..],
            Provider::Slack => &[(SLACK_URL, slack.is_none())][..],
            Provider::Webhook => &[(WEBHOOK_URL, webhook.is_none())][..],
        };
        let word = all.iter().find(|(_, p)| *p == provider).map_or("", |(word, _)| *word);
        for (name, _) in needed.iter().filter(|(_, is_missing)| *is_missing) {
            self.miss(name, word);
        }
        match (provider, bot_token, chat_id, slack, webhook) {
            (Provider::Telegram, Some(bot_token), Some(chat_id), ..) => {
                AlertTarget::Telegram { bot_token, chat_id }
            }
            (Provider::Slack, .., Some(webhook_url), _) => AlertTarget::Slack { webhook_url },
            (Provider::Webhook, .., Some(url)) => AlertTarget::Webhook { url },
            // Something is missing, and that is noted.
            _ => AlertTarget::Off,
        }
    }

    /// Notes that a value is missing, unless it is there and was found wrong already.
    fn miss(&mut self, name: &'static str, provider: &str) {
        if self.is_set(name) {
            return;
        }
        let allowed = format!("is not set, and {PROVIDER}={provider} needs it");
        self.problem(name, "", Origin::Default, allowed);
    }
}

fn bot_token(value: &str) -> Result<SecretString, String> {
    let is_token = value.split_once(':').is_some_and(|(bot, key)| {
        !bot.is_empty()
            && bot.chars().all(|c| c.is_ascii_digit())
            && !key.is_empty()
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    });
    if !is_token {
        return Err("must be a token as BotFather gives it, digits:letters (its value is not shown)".into());
    }
    Ok(SecretString::from(value.to_string()))
}

fn chat_id(value: &str) -> Result<String, String> {
    let is_number = value.parse::<i64>().is_ok();
    let is_channel = value
        .strip_prefix('@')
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    match is_number || is_channel {
        true => Ok(value.to_string()),
        false => Err("must be the number of a chat, such as 123456789, or @name of a channel".into()),
    }
}

/// An address to which a text is sent as it stands: nothing is added to it, and a query or password may belong to it.
fn url(value: &str) -> Result<SecretString, String> {
    let is_address = ["http://", "https://"]
        .iter()
        .any(|scheme| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let is_plain = value.chars().all(|c| c.is_ascii_graphic() && !"\\\"<>^`{|}".contains(c));
    if !is_address || !is_plain || address::host(value).is_empty() {
        return Err("must be https://host/path or http://… (its value is not shown)".into());
    }
    Ok(SecretString::from(value.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::{Config, show, show_json};

    const TOKEN: (&str, &str) = (BOT_TOKEN, "123456789:AAE-hidden_hidden_hidden_hidden_1234");
    const CHAT: (&str, &str) = (CHAT_ID, "-1001234567890");
    const SLACK: (&str, &str) = (SLACK_URL, "https://hooks.slack.com/services/T0/B0/hidden");

    fn resolve(values: &[(&str, &str)]) -> Result<AlertTarget, String> {
        let layers = Layers::of(&[&[("DREAMER_HOME", "/srv/d")], values].concat());
        let whole = Config::resolve(&layers).map(|(config, _)| config.alerts).map_err(|e| e.to_string());
        let alone = AlertSettings::resolve(&layers).map_err(|e| e.to_string());
        assert_eq!(whole.as_ref().err(), alone.as_ref().err());
        assert!(alone.is_err() || alone.unwrap().home.ends_with("d"));
        whole
    }

    #[test]
    fn alerts_are_off_unless_somebody_chooses_a_provider() {
        assert!(matches!(resolve(&[]), Ok(AlertTarget::Off)));
        assert!(matches!(resolve(&[TOKEN, CHAT]), Ok(AlertTarget::Off)));
    }

    #[test]
    fn each_provider_takes_its_own_settings() {
        match resolve(&[(PROVIDER, "telegram"), TOKEN, CHAT]).unwrap() {
            AlertTarget::Telegram { bot_token, chat_id } => {
                assert_eq!((bot_token.expose_secret(), chat_id.as_str()), (TOKEN.1, CHAT.1));
            }
            other => panic!("{other:?}"),
        }
        let slack = resolve(&[(PROVIDER, "Slack"), SLACK]).unwrap();
        assert!(matches!(&slack, AlertTarget::Slack { .. }) && slack.secrets() == [SLACK.1]);
        let hook = [(PROVIDER, "webhook"), (WEBHOOK_URL, "http://user:pw@10.0.0.1:8080/alert?key=1")];
        assert!(matches!(resolve(&hook), Ok(AlertTarget::Webhook { .. })));
    }

    #[test]
    fn what_the_chosen_provider_needs_is_named_when_it_is_missing() {
        for (provider, missing) in
            [("telegram", &[BOT_TOKEN, CHAT_ID][..]), ("slack", &[SLACK_URL]), ("webhook", &[WEBHOOK_URL])]
        {
            let told = resolve(&[(PROVIDER, provider)]).unwrap_err();
            for name in missing {
                assert!(told.contains(&format!("{name} (default) is not set")), "{told}");
                assert!(told.contains(&format!("{PROVIDER}={provider} needs it")), "{told}");
            }
        }
    }

    #[test]
    fn a_bad_value_is_refused_whoever_is_chosen_and_never_shown() {
        for (name, value, allowed) in [
            (PROVIDER, "mail", "must be one of: off, telegram, slack, webhook"),
            (BOT_TOKEN, "hidden-bot", "BotFather"),
            (BOT_TOKEN, "123:hidden/../x", "BotFather"),
            (CHAT_ID, "my chat", "number of a chat"),
            (SLACK_URL, "hooks.slack.com/hidden", "https://"),
            (WEBHOOK_URL, "https:///hidden", "https://"),
            (WEBHOOK_URL, "ftp://hidden", "https://"),
        ] {
            let told = resolve(&[(name, value)]).unwrap_err();
            assert!(told.contains(name) && told.contains(allowed), "{name}={value}: {told}");
            assert!(!told.contains("hidden"), "{told}");
            assert_eq!(told.matches(name).count(), 1, "told once: {told}");
        }
        let told = resolve(&[(PROVIDER, "slack"), (SLACK_URL, "nonsense")]).unwrap_err();
        assert!(!told.contains("is not set"), "it is set, and wrong: {told}");
    }

    #[test]
    fn tokens_and_addresses_are_shown_only_as_set() {
        let values = [("DREAMER_HOME", "/d"), (PROVIDER, "telegram"), TOKEN, CHAT, SLACK];
        let (config, settings) = Config::resolve(&Layers::of(&values)).unwrap();
        let shown = format!("{}{}{config:?}{settings:?}", show(&settings), show_json(&settings));
        assert!(!shown.contains("hidden"), "{shown}");
        assert!(shown.contains(CHAT.1), "the chat is no secret");
        let row = show(&settings).lines().find(|line| line.starts_with(WEBHOOK_URL)).unwrap().to_string();
        assert!(row.contains(" unset "), "{row}");
    }

    #[test]
    fn an_unencrypted_address_elsewhere_is_warned_about_without_its_path() {
        for (url, warned) in [
            ("http://alerts.example.org/hidden", true),
            ("https://alerts.example.org/hidden", false),
            ("http://127.0.0.1:9/hidden", false),
        ] {
            let target = resolve(&[(PROVIDER, "webhook"), (WEBHOOK_URL, url)]).unwrap();
            assert_eq!(target.warning().is_some(), warned, "{url}");
            assert!(!target.warning().unwrap_or_default().contains("hidden"));
        }
    }
}
