//! What a value may be, variable by variable. Each function reads a trimmed value or says what is allowed, as the end of a
//! sentence that begins with the variable.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use chrono::NaiveTime;
use chrono_tz::Tz;
use secrecy::SecretString;

use crate::providers::{local, sentence_transformers};

use super::{EmbeddingProvider, EpisodeSource, Fade, LlmProvider, MaskPii};

pub(super) fn text(value: &str) -> Result<String, String> {
    if value.chars().any(char::is_control) {
        return Err("must be one line without control characters".into());
    }
    Ok(value.to_string())
}

pub(super) fn list(value: &str) -> Result<Vec<String>, String> {
    let value = text(value)?;
    Ok(value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect())
}

pub(super) fn api_key(value: &str) -> Result<SecretString, String> {
    if value.chars().all(|c| c.is_ascii_graphic()) {
        Ok(SecretString::from(value.to_string()))
    } else {
        Err("must be one word of plain ASCII characters (its value is not shown)".into())
    }
}

pub(super) fn in_range<T: FromStr + PartialOrd + Display>(
    value: &str,
    range: RangeInclusive<T>,
    kind: &str,
) -> Result<T, String> {
    // `contains` is false for NaN.
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| format!("must be a {kind} from {} to {}", range.start(), range.end()))
}

pub(super) fn whole<T: FromStr + PartialOrd + Display>(
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    in_range(value, range, "whole number")
}

/// A number from 0 to 1.
pub(super) fn share<T: FromStr + PartialOrd + Display + From<u8>>(value: &str) -> Result<T, String> {
    in_range(value, T::from(0)..=T::from(1), "number")
}

pub(super) fn decay_rate(value: &str) -> Result<f64, String> {
    share::<f64>(value)
        .ok()
        .filter(|rate| *rate < 1.0)
        .ok_or_else(|| "must be a number from 0 to below 1, a share lost a day, such as 0.05".into())
}

/// One of the words in `all`; `later` are known names that other versions have.
pub(super) fn one_of<T: Copy>(value: &str, all: &[(&str, T)], later: &[&str]) -> Result<T, String> {
    if let Some((_, found)) = all.iter().find(|(word, _)| word.eq_ignore_ascii_case(value)) {
        return Ok(*found);
    }
    let words = all.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    match later.iter().find(|word| word.eq_ignore_ascii_case(value)) {
        Some(word) => Err(format!("is not in this version yet ({word}); it has: {words}")),
        None => Err(format!("must be one of: {words}")),
    }
}

pub(super) fn episode_source(value: &str) -> Result<EpisodeSource, String> {
    let all = [
        ("files", EpisodeSource::Files),
        ("transcripts", EpisodeSource::Transcripts),
        ("both", EpisodeSource::Both),
    ];
    one_of(value, &all, &[])
}

pub(super) fn embedding_provider(value: &str) -> Result<EmbeddingProvider, String> {
    let all = [
        ("openai", EmbeddingProvider::OpenAi),
        ("ollama", EmbeddingProvider::Ollama),
        ("builtin", EmbeddingProvider::Builtin),
        ("sentence-transformers", EmbeddingProvider::SentenceTransformers),
    ];
    match one_of(value, &all, &[])? {
        EmbeddingProvider::SentenceTransformers if !sentence_transformers::IS_BUILT_IN => {
            Err(sentence_transformers::OpenError::NotBuilt.to_string())
        }
        provider => Ok(provider),
    }
}

pub(super) fn llm_provider(value: &str) -> Result<LlmProvider, String> {
    let all = [
        ("openai", LlmProvider::OpenAi),
        ("ollama", LlmProvider::Ollama),
        ("extractive", LlmProvider::Extractive),
    ];
    one_of(value, &all, &["anthropic", "minimax"])
}

pub(super) fn builtin_model(value: &str) -> Result<String, String> {
    let all: Vec<(&str, &str)> = local::NAMES.iter().map(|name| (*name, *name)).collect();
    one_of(value, &all, &[]).map(str::to_string)
}

pub(super) fn fade(value: &str) -> Result<Fade, String> {
    one_of(value, &[("auto", Fade::Auto), ("on", Fade::On), ("off", Fade::Off)], &[])
}

pub(super) fn mask_pii(value: &str) -> Result<MaskPii, String> {
    one_of(
        value,
        &[("external", MaskPii::External), ("always", MaskPii::Always), ("never", MaskPii::Never)],
        &[],
    )
}

pub(super) fn timezone(value: &str) -> Result<Tz, String> {
    Tz::from_str(value).map_err(|_| "must be an IANA time zone, such as Europe/Berlin or UTC".into())
}

pub(super) fn window(value: &str) -> Result<Option<(NaiveTime, NaiveTime)>, String> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let time = |text: &str| NaiveTime::parse_from_str(text.trim(), "%H:%M").ok();
    value
        .split_once('-')
        .and_then(|(start, end)| Some((time(start)?, time(end)?)))
        .filter(|(start, end)| start != end)
        .map(Some)
        .ok_or_else(|| "must be HH:MM-HH:MM with two different times, such as 01:00-05:00, or off".into())
}

pub(super) fn max_tokens(value: &str) -> Result<Option<u64>, String> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    whole(value, 5_000..=1_000_000_000).map(Some).map_err(|allowed| format!("{allowed}, or off"))
}

pub(super) fn min_new(value: &str) -> Result<Option<usize>, String> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    whole(value, 1..=1_000_000).map(Some).map_err(|allowed| format!("{allowed}, or off"))
}

/// How long something is kept; none when for good.
pub(super) fn days_or_off(value: &str) -> Result<Option<u32>, String> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    whole(value, 1..=36_500).map(Some).map_err(|allowed| format!("{allowed}, or off"))
}
