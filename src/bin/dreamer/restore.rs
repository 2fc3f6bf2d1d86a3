//! `dreamer restore`: calls the library and says what it means.

use std::fmt::Write as _;

use chrono::Utc;
use dreamer::config::Config;
use dreamer::restore::{self, Restored};
use dreamer::state::audit;

use crate::failure::{Failure, print};
use crate::output;

/// Brings one archived memory back and says what that means.
pub(crate) async fn bring_back(config: &Config, id: &str) -> Result<u8, Failure> {
    let now = Utc::now();
    let restored = restore::restore(config, id, now.with_timezone(&config.timezone).date_naive()).await?;
    print(&told(&restored))?;
    audit::note(config, restored.event(now))?;
    Ok(0)
}

fn told(restored: &Restored) -> String {
    let memory = &restored.memory;
    let mut text = format!(
        "restored  {}  {}\n          it was {} in run {}; its importance is {:.2}, and forgetting starts anew today\n",
        memory.id,
        output::shorten(&memory.text, output::columns().saturating_sub(50).max(30)),
        restored.reason.as_str(),
        restored.run,
        memory.importance
    );
    if let Some(successor) = &restored.successor {
        let _ = writeln!(
            text,
            "          {} still carries its content too: {}",
            successor.id,
            output::shorten(&successor.text, output::columns().saturating_sub(70).max(30))
        );
    }
    text
}
