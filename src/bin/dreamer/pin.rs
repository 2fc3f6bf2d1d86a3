//! `dreamer pin` and `dreamer unpin`: call the library and say what it means.

use chrono::Utc;
use dreamer::config::Config;
use dreamer::pin::{self, Pin};

use crate::failure::{Failure, print};
use crate::output;

/// Pins or unpins one memory.
pub(crate) async fn pin(config: &Config, id: &str, wanted: Pin) -> Result<u8, Failure> {
    let pinned = pin::pin(config, id, wanted, Utc::now()).await?;
    let (word, meaning) = match wanted {
        Pin::Set => ("pinned", "it neither fades nor merges until `dreamer unpin`"),
        Pin::Clear => ("unpinned", "it may fade and merge again"),
    };
    let memory = &pinned.memory;
    let text = output::shorten(&memory.text, output::columns().saturating_sub(50).max(30));
    let already = if pinned.was_so { "it was so already; " } else { "" };
    print(&format!("{word:<9} {}  {text}\n          {already}{meaning}\n", memory.id)).map(|()| 0)
}
