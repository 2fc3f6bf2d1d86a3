//! Which similarities a night works with, and where they come from.
//! Deriving them for an unknown embedder is `providers/calibration.rs`'s work, keeping them `state/calibrations.rs`'s.

use crate::dream::Night;
use crate::error::Error;
use crate::providers::Thresholds;
use crate::providers::calibration::{CalibrationError, calibrate};
use crate::state::calibrations::{Calibrated, Calibrations};

/// The similarities of a night that knows none and has nothing to compare.
pub const NOTHING_ALIKE: Thresholds = Thresholds { cluster: 1.0, duplicate: 1.0, related: 1.0 };

/// The similarities of the night: as set, else what was calibrated for these weights, else the model's, else
/// derived now. What was derived is returned and becomes part of the plan, so that a dry run keeps nothing and `apply`
/// does.
///
/// # Errors
/// When the embedder gives nothing, or vectors that tell nothing apart, or what is set does not go with what was derived.
pub async fn settle(night: &mut Night<'_>, warnings: &mut Vec<String>) -> Result<Option<Calibrated>, Error> {
    let config = night.config;
    if config.thresholds(None)?.is_some() {
        // What somebody calibrated by hand comes before the model's own.
        if let Some(known) = config.thresholds(config.calibrated()?)? {
            night.thresholds = known;
        }
        return Ok(None);
    }
    let (provider, known_version) = config.embedding_source();
    let model = night.embedder.model();
    let version = match known_version {
        Some(version) => Some(version.to_owned()),
        None => night.embedder.version().await,
    };
    let all = Calibrations::read(&config.state_dir())?;
    if let Some(entry) = all.of(provider, model, version.as_deref()) {
        night.thresholds = config.thresholds(Some(entry.thresholds()))?.unwrap_or(NOTHING_ALIKE);
        return Ok(None);
    }
    tracing::info!("the embedding model {model} is calibrated, once, on the built-in pairs");
    let found = calibrate(night.embedder, night.privacy).await.map_err(|error| match error {
        CalibrationError::Provider(error) => Error::Provider(error),
        CalibrationError::Inseparable { auc } => Error::Uncalibrated { model: model.to_owned(), auc },
    })?;
    let Thresholds { cluster, duplicate, related } = found.thresholds;
    let entry = Calibrated {
        provider: provider.to_owned(),
        model: model.to_owned(),
        version: version.unwrap_or_default(),
        cluster,
        duplicate,
        related,
        auc: found.auc,
        blind: found.blind,
        at: night.now,
        run: night.run.to_string(),
        sureness: None,
    };
    night.thresholds = config.thresholds(Some(entry.thresholds()))?.unwrap_or(NOTHING_ALIKE);
    warnings.extend(entry.told(all.of(provider, model, None).is_some()));
    Ok(Some(entry))
}
