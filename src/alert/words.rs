//! Failures in words that may leave this machine: Dreamer's own. What a server answered or a library quotes may hold the
//! user's text, so it stays in the dream log and the journal; of it, only the status and a known code are told. Pure.

use std::error::Error as StdError;
use std::io;
use std::sync::LazyLock;

use regex::Regex;

use super::observe::Trouble;
use crate::config::ConfigError;
use crate::error::Error;
use crate::providers::ProviderError;
use crate::state::StateError;

/// An error that ended a run.
pub(super) fn of_error(error: &Error) -> Trouble {
    match error {
        Error::Config(error) => of_config(error),
        Error::Provider(error) => of_failure(&crate::error::chain(error)),
        other => Trouble {
            what: format!("could not {}", own_chain(other)),
            waits: "the night is not done; nothing is lost, the next one takes it up".into(),
            remedy: "run `dreamer --verbose` to see more".into(),
        },
    }
}

/// Settings that cannot be used.
pub(super) fn of_config(error: &ConfigError) -> Trouble {
    Trouble {
        what: format!("could not {}", own_chain(error)),
        waits: "no night runs until that is mended".into(),
        remedy: "`dreamer config` shows every setting and where it comes from".into(),
    }
}

/// The failure a report names: the chain of a provider's error, as text.
pub(super) fn of_failure(failure: &str) -> Trouble {
    let own = OF_OTHERS.find(failure).map_or(failure, |found| &failure[..found.end()]);
    let remedy = match status_of(failure) {
        _ if failure.contains("insufficient_quota") => {
            "the account has no quota left (insufficient_quota): check its billing"
        }
        Some(401 | 403) => "check the provider's key",
        Some(404) => "check the model's name and the server's address",
        Some(429) => "the server asks for less, the next night tries again; DREAMER_CONCURRENCY=1 may help",
        Some(500..) => "the server is ill or overloaded, the next night tries again",
        Some(_) => "the dream log holds the server's answer",
        None if failure.starts_with("reach ") => "check that the server runs and its address",
        None => "the next night tries again; the dream log says more",
    };
    let waits = "the next night takes up what was held back; what was settled is saved".into();
    Trouble { what: format!("could not {}", unquoted(own)), waits, remedy: remedy.into() }
}

/// Where the words of a server or a parser begin: after its status, or after "the reply of MODEL".
static OF_OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\banswered \d{3}|\bread the reply of [^:\n]{1,120}|\b(?:the reply is not JSON|it is not JSON)",
    )
    .expect("a valid pattern")
});

static STATUS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\banswered (\d{3})").expect("a valid pattern"));

fn status_of(failure: &str) -> Option<u16> {
    STATUS.captures(failure)?[1].parse().ok()
}

/// Something between quotation marks is somebody else's text; a name in it is not worth the risk.
fn unquoted(text: &str) -> String {
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?s)"[^"]*(?:"|$)|“[^”]*(?:”|$)|「[^」]*(?:」|$)|`[^`]*(?:`|$)"#)
            .expect("a valid pattern")
    });
    QUOTED.replace_all(text, "…").into_owned()
}

/// An error and those of its causes whose words are ours or the operating system's. A database or HTTP library may
/// quote a row or a request: it is left out.
///
/// A message of ours may end in what a JSON parser says, which quotes what it read.
fn own_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(own) = own_words(cause) {
            text.push_str(": ");
            text.push_str(&own);
        }
        source = cause.source();
    }
    static QUOTED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?s)"[^"]*(?:"|$)"#).expect("a valid pattern"));
    QUOTED.replace_all(&text, "…").into_owned()
}

fn own_words(cause: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        // Only the system's own message is free of other people's text.
        return Some(match error.raw_os_error() {
            Some(_) => error.to_string(),
            None => error.kind().to_string(),
        });
    }
    if cause.is::<StateError>() || cause.is::<ConfigError>() {
        return Some(cause.to_string());
    }
    cause.downcast_ref::<ProviderError>().map(|error| of_failure(&crate::error::chain(error)).what)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PRIVATE: &str = "Ann is allergic to cats";

    #[test]
    fn a_providers_words_stay_here_and_its_status_is_told() {
        for (failure, what, remedy) in [
            (
                format!("ask m at https://h/v1: answered 400: bad input: {PRIVATE}"),
                "could not ask m at https://h/v1: answered 400",
                "dream log",
            ),
            (
                format!("ask m at https://h/v1: answered 429: (insufficient_quota); {PRIVATE}"),
                "could not ask m at https://h/v1: answered 429",
                "no quota left (insufficient_quota)",
            ),
            (
                format!(
                    "reach m at http://h/v1 in 4 tries; check that it runs: the server answered 503: {PRIVATE}"
                ),
                "could not reach m at http://h/v1 in 4 tries; check that it runs: the server answered 503",
                "ill or overloaded",
            ),
            (
                "reach m at http://h in 4 tries; check: send the request: connection refused".into(),
                "could not reach m at http://h in 4 tries; check: send the request: connection refused",
                "check that the server runs",
            ),
            (
                format!("read the reply of m: invalid type: string \"{PRIVATE}\""),
                "could not read the reply of m",
                "next night",
            ),
            (
                "ask m at https://h/v1: answered 401: check OPENAI_API_KEY. no".into(),
                "could not ask m at https://h/v1: answered 401",
                "provider's key",
            ),
        ] {
            let trouble = of_failure(&failure);
            assert_eq!(trouble.what, what);
            assert!(trouble.remedy.contains(remedy), "{failure}: {}", trouble.remedy);
        }
    }

    #[test]
    fn an_unknown_failure_loses_what_it_quotes() {
        for failure in [
            format!("use x: saw \"{PRIVATE}\" there"),
            format!("use x: saw \"{PRIVATE}"),
            format!("use x: “{PRIVATE}”"),
        ] {
            let what = of_failure(&failure).what;
            assert!(what.starts_with("could not use x") && !what.contains("cats"), "{what}");
        }
    }

    #[test]
    fn causes_are_told_only_where_the_words_are_ours_or_the_systems() {
        let write = |source| Error::from(StateError::Write { path: "/home/ann/x".into(), source });
        let full = of_error(&write(io::Error::from_raw_os_error(28))).what;
        assert!(full.contains("write /home/ann/x") && full.contains("No space left on device"), "{full}");
        let other = of_error(&write(io::Error::other(PRIVATE))).what;
        assert!(other.contains("write /home/ann/x") && !other.contains("cats"), "{other}");
        let store = crate::store::StoreError::Missing { path: "/db".into() };
        assert!(of_error(&Error::from(store)).what.contains("/db"));
        let refused = ProviderError::Refused {
            model: "m".into(),
            url: "https://h/v1".into(),
            status: 400,
            detail: PRIVATE.into(),
        };
        let told = of_error(&Error::from(refused));
        assert_eq!(told.what, "could not ask m at https://h/v1: answered 400");
    }

    #[test]
    fn settings_are_told_with_their_variable() {
        let told = of_config(&ConfigError::Missing { variable: "OPENAI_API_KEY", remedy: "set it".into() });
        assert_eq!(told.what, "could not go on without OPENAI_API_KEY: set it");
    }
}
