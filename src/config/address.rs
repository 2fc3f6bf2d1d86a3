//! Addresses of servers, as far as settings are concerned: their plain form and their host.
//! Whether one is this machine is `privacy`'s to say; talking to them is the providers' work.

use crate::providers::is_azure_host;

/// `http(s)://host[:port][/path]` of a server with the OpenAI API; a trailing slash and the path of a request, which people
/// copy along, go. Without a path it gets the one that the server has its API at, `/v1` at most. Of Azure it may end with
/// `?api-version=…`; nothing else may stand in a query, since a key there would be shown and logged.
pub(crate) fn normalise(value: &str) -> Result<String, String> {
    let (address, query) =
        value.split_once('?').map_or((value, None), |(address, query)| (address, Some(query)));
    if has_secret_query(value) {
        return Err(
            "may hold nothing but api-version (of Azure) after the `?`; a key goes into OPENAI_API_KEY or \
                    OPENAI_EMBEDDING_API_KEY (the value is not shown)"
                .into(),
        );
    }
    let (server, path) = server_and_path(address, "http://127.0.0.1:8080/v1")?;
    let requests = ["/chat/completions", "/completions", "/embeddings"];
    let path = requests.into_iter().find_map(|request| path.strip_suffix(request)).unwrap_or(path);
    let host = host(&server);
    let path = match path.trim_end_matches('/') {
        // Azure has its API below this path, with a version or as v1.
        "" | "/openai" | "/v1" if is_azure_host(host) && query.is_none() => "/openai/v1",
        "" if is_azure_host(host) => "/openai",
        "" | "/api" | "/v1" if host == "openrouter.ai" => "/api/v1",
        "" => "/v1",
        path => path,
    };
    if is_azure_host(host) && path.contains("/deployments") && query.is_none() {
        return Err("names a deployment, which Azure answers only with a version, such as ?api-version=2024-10-21 at the \
                    end; or end it with /openai/v1 and name the deployment as the model"
            .into());
    }
    Ok(match query {
        Some(query) => format!("{server}{path}?{query}"),
        None => format!("{server}{path}"),
    })
}

/// Whether an address has a query that may hold a secret: anything but a version.
pub(crate) fn has_secret_query(value: &str) -> bool {
    let is_version = |query: &str| {
        let version = query.strip_prefix("api-version=").unwrap_or_default();
        !version.is_empty() && version.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    value.split_once('?').is_some_and(|(_, query)| !is_version(query) || query.len() > 40)
}

/// The same for Ollama's own API: the paths of its APIs, which people copy along, go too.
pub(crate) fn normalise_ollama(value: &str) -> Result<String, String> {
    let (server, path) = server_and_path(value, "http://localhost:11434")?;
    let path = ["/v1", "/api"].into_iter().find_map(|api| path.strip_suffix(api)).unwrap_or(path);
    Ok(format!("{server}{path}"))
}

/// The address of a hub of models, without a trailing slash.
pub(crate) fn normalise_hub(value: &str) -> Result<String, String> {
    let (server, path) = server_and_path(value, "https://huggingface.co")?;
    Ok(format!("{server}{path}"))
}

/// Scheme and authority, and the path without a trailing slash.
fn server_and_path<'a>(value: &'a str, such_as: &str) -> Result<(String, &'a str), String> {
    let wrong = || format!("must be http://host[:port][/path] or https://…, such as {such_as}");
    if has_credentials(value) {
        return Err(
            "must not hold a user or password; a key of an OpenAI API goes into OPENAI_API_KEY".into()
        );
    }
    let (scheme, rest) = value.split_once("://").ok_or_else(wrong)?;
    let scheme = scheme.to_ascii_lowercase();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = value.chars().all(|c| c.is_ascii_graphic() && !"?#\\\"<>^`{|}".contains(c));
    let port_is_fine = match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().is_ok_and(|port| port > 0),
        _ => true,
    };
    if !matches!(scheme.as_str(), "http" | "https") || host(value).is_empty() || !is_plain || !port_is_fine {
        return Err(wrong());
    }
    Ok((format!("{scheme}://{authority}"), path.trim_end_matches('/')))
}

/// Scheme, host and port of an address.
pub(crate) fn server(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    url[..end].to_ascii_lowercase()
}

/// The host of an address, without port and brackets.
pub(crate) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    match authority.strip_prefix('[') {
        Some(ipv6) => ipv6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether an address carries a user or a password.
pub(crate) fn has_credentials(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| rest.split('/').next().unwrap_or_default().contains('@'))
}

/// Undoes percent-encoding.
pub(crate) fn decode(path: &str) -> Result<String, String> {
    let wrong = || "holds a % that is not followed by two hexadecimal digits of UTF-8".to_string();
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let digits = tail.get(..2).and_then(|d| std::str::from_utf8(d).ok()).ok_or_else(wrong)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_openai_address_gets_the_path_that_its_server_has() {
        for (value, plain) in [
            ("http://127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
            ("http://127.0.0.1:1234/", "http://127.0.0.1:1234/v1"),
            ("HTTP://127.0.0.1:1234/v1/", "http://127.0.0.1:1234/v1"),
            ("http://127.0.0.1:8080/v1/chat/completions", "http://127.0.0.1:8080/v1"),
            ("http://127.0.0.1:8080/embeddings", "http://127.0.0.1:8080/v1"),
            ("https://models.lan/team/v1", "https://models.lan/team/v1"),
            ("https://openrouter.ai", "https://openrouter.ai/api/v1"),
            ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1"),
            ("https://r.openai.azure.com/", "https://r.openai.azure.com/openai/v1"),
            ("https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1"),
            ("https://r.openai.azure.com/openai", "https://r.openai.azure.com/openai/v1"),
            (
                "https://r.openai.azure.com?api-version=2024-10-21",
                "https://r.openai.azure.com/openai?api-version=2024-10-21",
            ),
            (
                "https://r.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2025-01-01-preview",
                "https://r.openai.azure.com/openai/deployments/mine?api-version=2025-01-01-preview",
            ),
            (
                "https://gateway.example/openai/deployments/mine?api-version=2024-10-21",
                "https://gateway.example/openai/deployments/mine?api-version=2024-10-21",
            ),
        ] {
            assert_eq!(normalise(value).as_deref(), Ok(plain), "{value}");
        }
    }

    #[test]
    fn a_key_in_a_query_is_refused() {
        for value in [
            "https://r.openai.azure.com/openai?api-key=4f9a",
            "https://r.openai.azure.com/openai?api-version=2024-10-21&api-key=4f9a",
            "https://r.openai.azure.com/openai?api-version=",
            "http://127.0.0.1:1/v1?",
            "http://127.0.0.1:1/v1?api-version=a%26b",
        ] {
            assert!(has_secret_query(value), "{value}");
            let told = normalise(value).unwrap_err();
            assert!(told.contains("OPENAI_API_KEY") && !told.contains("4f9a"), "{told}");
        }
        let told = normalise("https://r.openai.azure.com/openai/deployments/mine").unwrap_err();
        assert!(told.contains("?api-version="), "{told}");
    }
}
