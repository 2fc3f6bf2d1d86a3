//! The night and `apply`, from flags to printed outcome.

use dreamer::config::Config;

use crate::args::Night;
use crate::failure::Failure;

/// Dreams.
pub(crate) async fn dream(config: &Config, _night: &Night) -> Result<u8, Failure> {
    config.check_night()?;
    Ok(0)
}

/// Carries out a dry run's plan.
pub(crate) async fn apply(config: &Config, _run: &str, _json: bool) -> Result<u8, Failure> {
    config.check_night()?;
    Ok(0)
}
