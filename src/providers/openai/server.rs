//! Which server an address is of, as far as requests differ: OpenAI's own, Azure's, OpenRouter's, or any other. What a
//! server does not tell by its address it tells by what it refuses; that is `chat.rs`'s and `embedding.rs`'s work.

use reqwest::Url;

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// OpenAI's own: a strict schema may use only a part of JSON Schema's keywords.
    OpenAi,
    /// Azure OpenAI: the key has a header of its own, and the model is a deployment.
    Azure,
    /// OpenRouter: it may leave out parameters that the server behind it does not know, unless told not to.
    OpenRouter,
    /// Any other.
    Other,
}

impl Kind {
    /// The kind of the server at an address.
    pub(crate) fn of(address: &str) -> Self {
        Url::parse(address).map_or(Self::Other, |url| Self::of_url(&url))
    }

    fn of_url(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let is_azure = is_azure_host(host)
            || url.path().contains("/openai/deployments")
            || url.query().is_some_and(|query| query.contains("api-version="));
        match host {
            _ if is_azure => Self::Azure,
            "api.openai.com" => Self::OpenAi,
            "openrouter.ai" => Self::OpenRouter,
            _ => Self::Other,
        }
    }
}

/// Whether a host is one of Azure's that serve models by the OpenAI API.
pub(crate) fn is_azure_host(host: &str) -> bool {
    [".openai.azure.", ".cognitiveservices.azure.", ".services.ai.azure."]
        .iter()
        .any(|part| host.contains(part))
}

/// The header for the key, where it is not `Authorization`.
pub(super) fn key_header(url: &Url) -> Option<&'static str> {
    (Kind::of_url(url) == Kind::Azure).then_some("api-key")
}

/// The address that requests about `model` go to: at Azure before its v1 the deployment stands in the path.
pub(super) fn base_of(address: &str, model: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return address.to_owned() };
    let path = url.path().trim_end_matches('/').to_owned();
    if Kind::of_url(&url) != Kind::Azure || url.query().is_none() || !path.ends_with("/openai") {
        return address.to_owned();
    }
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("deployments").push(model);
    }
    url.to_string()
}

/// A body without what proxies send to keep a connection alive: lines that begin with a colon, before the JSON.
pub(super) fn unfold(body: String) -> String {
    let mut rest = body.trim_start_matches('\u{feff}').trim_start();
    while rest.starts_with(':') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    if rest.len() == body.len() { body } else { rest.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_address() {
        for (address, kind) in [
            ("https://res.openai.azure.com/openai/v1", Kind::Azure),
            ("https://res.cognitiveservices.azure.com/openai?api-version=2024-10-21", Kind::Azure),
            ("https://gateway.example/openai/deployments/small?api-version=2024-10-21", Kind::Azure),
            ("https://openrouter.ai/api/v1", Kind::OpenRouter),
            ("https://api.openai.com/v1", Kind::OpenAi),
            ("http://127.0.0.1:1234/v1", Kind::Other),
            ("https://openrouter.ai.example/v1", Kind::Other),
        ] {
            assert_eq!(Kind::of(address), kind, "{address}");
        }
    }

    #[test]
    fn the_deployment_stands_in_the_path_where_azure_wants_it_there() {
        for (address, base) in [
            (
                "https://r.openai.azure.com/openai?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/small%20one?api-version=2024-10-21",
            ),
            (
                "https://r.openai.azure.com/openai/deployments/mine?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/mine?api-version=2024-10-21",
            ),
            ("https://r.openai.azure.com/openai/v1", "https://r.openai.azure.com/openai/v1"),
            ("http://127.0.0.1:1234/v1", "http://127.0.0.1:1234/v1"),
        ] {
            assert_eq!(base_of(address, "small one"), base);
        }
    }

    #[test]
    fn what_keeps_a_connection_alive_is_no_part_of_the_reply() {
        for (body, json) in [
            (": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n{\"a\":1}", "{\"a\":1}"),
            ("\n \n{\"a\":\":x\"}", "{\"a\":\":x\"}"),
            ("\u{feff}[1]", "[1]"),
            ("{\"a\":1}", "{\"a\":1}"),
            (": alone", ""),
        ] {
            assert_eq!(unfold(body.to_owned()), json);
        }
    }
}
