//! `dreamer doctor`: calls the library and prints. Settings that cannot be read are a finding here, not the end.

use chrono::Utc;
use dreamer::config::{ConfigError, Layers};
use dreamer::doctor::{self, Asking, show};

use crate::args::Common;
use crate::failure::{Failure, print};

/// Looks at everything and ends with 1 if a check failed.
pub(crate) async fn look(
    common: &Common,
    layers: Result<Layers, ConfigError>,
    offline: bool,
    json: bool,
) -> Result<u8, Failure> {
    let (layers, broken) = match layers {
        Ok(layers) => (layers, None),
        Err(error) => (Layers::readable(common.home.as_deref(), common.env_file.as_deref()), Some(error)),
    };
    let asking = if offline { Asking::Nobody } else { Asking::Once };
    let checkup = doctor::doctor(&layers, broken.as_ref(), asking, Utc::now()).await;
    let text = match json {
        true => {
            let checks = serde_json::to_value(&checkup.checks).expect("lines are plain data");
            format!("{}\n", serde_json::json!({ "ok": !checkup.has_failed(), "checks": checks }))
        }
        false => show(&checkup),
    };
    print(&text)?;
    Ok(u8::from(checkup.has_failed()))
}
