//! Whether the settings can be used, and what in them looks like a slip.

use super::Line;
use crate::config::{Config, ConfigError, Layers, warnings};
use crate::error::chain;

const CHECK: &str = "settings";

pub(super) fn lines(
    broken: Option<&ConfigError>,
    resolved: Result<&Config, &ConfigError>,
    layers: &Layers,
) -> Vec<Line> {
    let mut lines: Vec<Line> = broken
        .map(|error| Line::fail(CHECK, format!("could not {}", chain(error)), "correct the file"))
        .into_iter()
        .collect();
    match resolved {
        Err(ConfigError::Invalid { problems }) => {
            lines.extend(problems.iter().map(|problem| {
                Line::fail(CHECK, problem.to_string(), format!("correct {}", problem.variable))
            }))
        }
        Err(error) => {
            lines.push(Line::fail(CHECK, format!("could not {}", chain(error)), "correct the settings"))
        }
        Ok(config) => {
            let slips = warnings(layers, config);
            lines.extend(slips.into_iter().map(|slip| Line::warn(CHECK, slip, "see `dreamer config`")));
            if let Err(error) = config.check_night() {
                lines.push(missing(&error));
            }
        }
    }
    if lines.is_empty() {
        lines.push(Line::ok(CHECK, "every value can be used"));
    }
    lines
}

fn missing(error: &ConfigError) -> Line {
    match error {
        ConfigError::Missing { variable, remedy } => Line::fail(
            CHECK,
            format!("{variable} is not set, and no night starts without it"),
            remedy.clone(),
        ),
        other => Line::fail(CHECK, chain(other), "correct the settings"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn told(environment: &[(&str, &str)]) -> Vec<Line> {
        let layers = Layers::of(&[environment, &[("DREAMER_HOME", "/home/ann/.dreamer")]].concat());
        let resolved = Config::resolve(&layers);
        lines(None, resolved.as_ref().map(|(config, _)| config), &layers)
    }

    #[test]
    fn values_slips_and_missing_models_are_told() {
        let fine = told(&[("OPENAI_API_KEY", "sk-x")]);
        assert_eq!(fine, [Line::ok(CHECK, "every value can be used")]);
        let bad = told(&[("DREAMER_FADE", "perhaps"), ("MAX_NEW_MEMORIES", "0")]);
        assert!(bad.iter().all(|line| line.level == Level::Fail) && bad.len() == 2, "{bad:?}");
        assert_eq!(bad[0].remedy.as_deref(), Some("correct DREAMER_FADE"));
        let slip = told(&[("OPENAI_API_KEY", "sk-x"), ("DREAMER_HOEM", "x")]);
        assert_eq!(slip[0].level, Level::Warn);
        assert!(slip[0].what.contains("did you mean DREAMER_HOME?"), "{slip:?}");
        let none = told(&[]);
        assert_eq!(none[0].level, Level::Fail);
        assert!(none[0].what.starts_with("OPENAI_API_KEY is not set"), "{none:?}");
        assert!(none[0].remedy.as_ref().unwrap().contains("extractive"));
        let broken = ConfigError::ParseEnvFile { path: "/h/.env".into(), line: 3 };
        let layers = Layers::of(&[("DREAMER_HOME", "/h")]);
        let told = lines(Some(&broken), Err(&broken), &layers);
        assert!(told[0].what.contains("/h/.env") && told[0].what.contains("line 3"), "{told:?}");
    }
}
