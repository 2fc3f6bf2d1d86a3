//! `dreamer preview`: calls the library and prints. `setup` shows the same before the first night on an existing table.

use chrono::Utc;
use dreamer::config::{Config, Layers};
use dreamer::preview::{self, show};

use crate::failure::{Failure, print};

/// Tells what the next night would do.
pub(crate) async fn tell(config: &Config, json: bool) -> Result<u8, Failure> {
    let preview = preview::preview(config, Utc::now()).await?;
    let text = match json {
        true => serde_json::to_string(&preview).expect("a preview is plain data") + "\n",
        false => show(&preview, config),
    };
    print(&text).map(|()| 0)
}

/// The same after `setup`, where there are memories and no night has been yet. That it cannot be told is no failure of
/// the setup.
pub(crate) async fn before_the_first_night(layers: &Layers) -> Result<u8, Failure> {
    let Ok((config, _)) = Config::resolve(layers) else { return Ok(0) };
    match preview::is_first_night_on_existing_table(&config).await {
        Ok(true) => {}
        _ => return Ok(0),
    }
    match preview::preview(&config, Utc::now()).await {
        Ok(preview) => print(&format!(
            "\nThe first night (`dreamer preview` tells it again):\n{}",
            show(&preview, &config)
        )),
        Err(error) => {
            tracing::warn!("no preview of the first night: could not {}", dreamer::error::chain(&error));
            Ok(())
        }
    }
    .map(|()| 0)
}
