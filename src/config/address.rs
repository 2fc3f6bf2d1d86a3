//! Addresses of servers, as far as settings are concerned: their plain form and their host.
//! Whether one is this machine is `privacy`'s to say; talking to them is the providers' work.

/// `http(s)://host[:port][/path]`; without a path it gets `/v1`, a trailing slash goes.
pub(crate) fn normalise(value: &str) -> Result<String, String> {
    let (server, path) = server_and_path(value, "http://127.0.0.1:8080/v1")?;
    Ok(format!("{server}{}", if path.is_empty() { "/v1" } else { path }))
}

/// The same for Ollama's own API: the paths of its APIs, which people copy along, go too.
pub(crate) fn normalise_ollama(value: &str) -> Result<String, String> {
    let (server, path) = server_and_path(value, "http://localhost:11434")?;
    let path = ["/v1", "/api"].into_iter().find_map(|api| path.strip_suffix(api)).unwrap_or(path);
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

/// The host of an address, without port and brackets.
pub(crate) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
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
