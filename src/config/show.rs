//! How settings are printed: `dreamer config`. No value of a secret ever gets here.

use serde_json::json;

use super::{FLUSH_VARIABLES, Layers, Origin, Variable, address};
use crate::state::calibrations::Calibrated;

/// One effective setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The variable.
    pub name: &'static str,
    /// What counts, as people read it; none when nothing does. A secret is `set`.
    pub value: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether the value is hidden.
    pub secret: bool,
}

impl Setting {
    fn shown(&self) -> &str {
        match (&self.value, self.secret) {
            (Some(_), true) => "set",
            (Some(value), false) => value,
            (None, true) => "unset",
            (None, false) => "-",
        }
    }
}

/// All settings as an aligned table: name, value, origin.
pub fn show(settings: &[Setting]) -> String {
    let width = |text: fn(&Setting) -> usize, most: usize| {
        settings.iter().map(text).filter(|w| *w <= most).max().unwrap_or(0)
    };
    let name_width = width(|s| s.name.len(), 60);
    // A long path does not push every origin out of sight; its own row is wider.
    let value_width = width(|s| s.shown().chars().count(), 48);
    settings
        .iter()
        .map(|s| format!("{:name_width$}  {:value_width$}  {}\n", s.name, s.shown(), s.origin))
        .collect()
}

/// All settings as one JSON object: `{"NAME": {"value": …, "origin": …}}`.
pub fn show_json(settings: &[Setting]) -> String {
    let object: serde_json::Map<String, serde_json::Value> = settings
        .iter()
        .map(|s| {
            let value = if s.value.is_some() || s.secret { json!(s.shown()) } else { json!(null) };
            (s.name.to_string(), json!({ "value": value, "origin": s.origin.to_string() }))
        })
        .collect();
    serde_json::Value::Object(object).to_string()
}

/// What `session-flush` reads besides, as it was set: only that program knows what may stand there.
pub fn of_flush(layers: &Layers) -> Vec<Setting> {
    let setting = |variable: &Variable| {
        let default = || variable.default.map(|value| (value, Origin::Default));
        let (value, origin) = layers.get(variable.name).or_else(default).unzip();
        // An address may carry a password or a token, a folder or a number does not.
        let open = |value: &str| !address::has_credentials(value) && !value.contains('?');
        let secret =
            variable.secret || value.is_some_and(|value| variable.name.ends_with("_URL") && !open(value));
        let value = value.map(|value| if secret { "set" } else { value }.to_string());
        Setting { name: variable.name, value, origin: origin.unwrap_or(Origin::Default), secret }
    };
    FLUSH_VARIABLES.iter().map(setting).collect()
}

/// The settings with the similarities that were calibrated for the model, where nobody set them.
pub fn with_calibration(mut settings: Vec<Setting>, calibrated: &Calibrated) -> Vec<Setting> {
    let nobody =
        |setting: &&mut Setting| setting.value.is_none() || matches!(setting.origin, Origin::Model(..));
    for setting in settings.iter_mut().filter(nobody) {
        let value = match setting.name {
            "CLUSTER_SIMILARITY" => calibrated.cluster,
            "DEDUP_SIMILARITY" => calibrated.duplicate,
            "CONTRADICTION_SIMILARITY" => calibrated.related,
            _ => continue,
        };
        setting.value = Some(value.to_string());
        setting.origin = Origin::Calibrated(calibrated.model.clone(), calibrated.how());
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Vec<Setting> {
        let plain = |name, value: Option<&str>, origin| Setting {
            name,
            value: value.map(str::to_string),
            origin,
            secret: false,
        };
        vec![
            plain("DREAMER_HOME", Some("/home/ann/.dreamer"), Origin::Flag),
            Setting {
                name: "OPENAI_API_KEY",
                value: Some("never shown".into()),
                origin: Origin::Environment,
                secret: true,
            },
            plain("DREAMER_OWNER", None, Origin::Default),
        ]
    }

    #[test]
    fn the_table_is_aligned_and_hides_secrets() {
        insta::assert_snapshot!(show(&settings()), @r"
        DREAMER_HOME    /home/ann/.dreamer  flag
        OPENAI_API_KEY  set                 environment
        DREAMER_OWNER   -                   default
        ");
    }

    #[test]
    fn calibrated_similarities_stand_where_nobody_set_one() {
        let similarity = |name, value: Option<&str>| Setting {
            name,
            value: value.map(str::to_string),
            origin: if value.is_some() { Origin::Environment } else { Origin::Default },
            secret: false,
        };
        let settings = vec![
            similarity("DREAMER_OWNER", None),
            similarity("CLUSTER_SIMILARITY", None),
            similarity("DEDUP_SIMILARITY", Some("0.95")),
            similarity("CONTRADICTION_SIMILARITY", None),
        ];
        let calibrated = Calibrated {
            provider: "ollama".into(),
            model: "nomic-embed-text".into(),
            version: String::new(),
            cluster: 0.74,
            duplicate: 0.86,
            related: 0.671,
            auc: 0.99,
            blind: vec![],
            at: "2026-03-10T03:00:00Z".parse().expect("a time"),
            run: "20260310T030000Z-1".into(),
            sureness: None,
        };
        insta::assert_snapshot!(show(&with_calibration(settings.clone(), &calibrated)), @r"
        DREAMER_OWNER             -      default
        CLUSTER_SIMILARITY        0.74   calibrated for nomic-embed-text on 2026-03-10 by the night 20260310T030000Z-1; duplicates above unrelated texts in 99 %
        DEDUP_SIMILARITY          0.95   environment
        CONTRADICTION_SIMILARITY  0.671  calibrated for nomic-embed-text on 2026-03-10 by the night 20260310T030000Z-1; duplicates above unrelated texts in 99 %
        ");
        let by_hand =
            Calibrated { run: "calibrate".into(), sureness: Some("fairly sure".into()), ..calibrated };
        let shown = show(&with_calibration(settings, &by_hand));
        assert!(
            shown.contains("on 2026-03-10 by dreamer calibrate, fairly sure; duplicates above"),
            "{shown}"
        );
    }

    #[test]
    fn what_the_flush_reads_is_shown_as_it_was_set_and_no_secret() {
        let set = [
            ("OPENCLAW_GATEWAY_URL", "wss://ann:pass@gateway.example"),
            ("OPENCLAW_GATEWAY_TOKEN", "never shown"),
            ("DREAMER_FLUSH_WAIT", "60"),
        ];
        insta::assert_snapshot!(show(&of_flush(&Layers::of(&set))), @r"
        OPENCLAW_CONFIG_PATH                -         default
        OPENCLAW_STATE_DIR                  -         default
        OPENCLAW_GATEWAY_URL                set       environment
        OPENCLAW_GATEWAY_PORT               -         default
        OPENCLAW_GATEWAY_TOKEN              set       environment
        OPENCLAW_GATEWAY_PASSWORD           unset     default
        OPENCLAW_ALLOW_INSECURE_PRIVATE_WS  -         default
        DREAMER_FLUSH_TRANSPORT             ws        default
        DREAMER_FLUSH_WAIT                  60        environment
        DREAMER_FLUSH_PROGRAM               openclaw  default
        ");
    }

    #[test]
    fn json_has_every_setting_by_name() {
        let read: serde_json::Value = serde_json::from_str(&show_json(&settings())).expect("it is JSON");
        let expected = json!({
            "DREAMER_HOME": { "value": "/home/ann/.dreamer", "origin": "flag" },
            "OPENAI_API_KEY": { "value": "set", "origin": "environment" },
            "DREAMER_OWNER": { "value": null, "origin": "default" },
        });
        assert_eq!(read, expected);
    }
}
