//! Whether a server stands on this machine or in the network around it: there it is somebody's own, and perhaps slow.
//! Nothing about privacy: only loopback counts as this machine (see `privacy`).

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

/// Whether an address is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    ip_of(host).map_or_else(|| host == "localhost" || host.ends_with(".localhost"), |ip| ip.is_loopback())
}

/// Whether an address is on this machine or in a private network, by its number or by the kind of its name.
pub(super) fn is_near(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    match ip_of(host) {
        Some(IpAddr::V4(ip)) => {
            let [first, second, ..] = ip.octets();
            // 100.64.0.0/10 is what private networks over the internet number their machines with.
            let is_shared = first == 100 && second & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || is_shared
        }
        Some(IpAddr::V6(ip)) => ip.is_loopback() || is_private(ip),
        None => {
            let private = [".localhost", ".local", ".lan", ".internal", ".home.arpa"];
            // A name without a dot is one of the local network, or a container's.
            !host.contains('.') || private.iter().any(|end| host.ends_with(end))
        }
    }
}

/// Unique local or link-local.
fn is_private(ip: Ipv6Addr) -> bool {
    let first = ip.segments()[0];
    first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
}

fn ip_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_near_server_is_told_from_one_on_the_internet() {
        for (address, near) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://localhost:11434", true),
            ("http://192.168.1.20:8080", true),
            ("http://10.0.0.5", true),
            ("http://172.20.0.3", true),
            ("http://100.100.1.2", true),
            ("http://[fd12::1]:8080", true),
            ("http://ollama:11434", true),
            ("http://gpu.local:8080", true),
            ("http://host.docker.internal:11434", true),
            ("https://api.openai.com/v1", false),
            ("https://192.0.2.10", false),
            ("https://100.128.0.1", false),
            ("https://[2001:db8::1]", false),
            ("https://local.example", false),
        ] {
            assert_eq!(is_near(&Url::parse(address).unwrap()), near, "{address}");
        }
    }
}
