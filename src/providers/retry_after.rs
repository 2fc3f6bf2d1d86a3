//! How long a server asks to wait before the next try, in the ways servers say it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Response;

/// How long the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date.
pub(super) fn retry_after(response: &Response, now: DateTime<Utc>) -> Option<Duration> {
    let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    if let Some(ms) = header("retry-after-ms").and_then(|ms| ms.trim().parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    wait_of(&header("retry-after")?, now)
}

pub(super) fn wait_of(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let date = DateTime::parse_from_rfc2822(value.trim()).ok()?;
    Some((date.with_timezone(&Utc) - now).to_std().unwrap_or_default())
}

/// How long it is until a moment in milliseconds since 1970.
pub(super) fn until(moment: i64, now: DateTime<Utc>) -> Option<Duration> {
    Some((DateTime::from_timestamp_millis(moment)? - now).to_std().unwrap_or_default())
}
