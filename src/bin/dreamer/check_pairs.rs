//! `dreamer check-pairs`: asks the configured embedder, counts with the library, and prints.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use chrono::Utc;
use dreamer::check_pairs::{self, Checked, Counts, LabelledPair, Quality};
use dreamer::config::Config;
use dreamer::error::Error;
use dreamer::privacy::Privacy;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::calibration::{CalibrationError, calibrate};
use dreamer::providers::{Embedder, Thresholds, configured};
use serde_json::{Value, json};

use crate::failure::{Failure, print};
use crate::output;

/// Prints how well a night would tell the labelled pairs of a file apart.
pub(crate) async fn check(config: &Config, file: &Path, as_json: bool) -> Result<u8, Failure> {
    let pairs = check_pairs::read(file).map_err(Error::from)?;
    config.check_embedder()?;
    let limits = Limits::new(config.max_calls, config.max_minutes, config.concurrency, Instant::now());
    let embedder = configured::embedder(config, Budget::new(limits))?;
    let privacy = Privacy::new(config.mask_pii, false);
    let (thresholds, origin) = thresholds(config, embedder.as_ref(), &privacy).await?;
    let today = Utc::now().with_timezone(&config.timezone).date_naive();
    let checked = check_pairs::check(&pairs, embedder.as_ref(), &privacy, thresholds, today).await?;
    let text = match as_json {
        true => format!("{}\n", in_json(embedder.model(), thresholds, &checked)),
        false => in_words(embedder.model(), thresholds, origin, &checked),
    };
    print(&text).map(|()| 0)
}

/// The similarities that a night would work with, and what is to be said of them. What would be derived on a first night is
/// derived here, too, and not kept.
async fn thresholds(
    config: &Config,
    embedder: &dyn Embedder,
    privacy: &Privacy,
) -> Result<(Thresholds, &'static str), Failure> {
    if let Some(known) = config.thresholds(config.calibrated()?)? {
        return Ok((known, ""));
    }
    let found = calibrate(embedder, privacy).await.map_err(|error| match error {
        CalibrationError::Provider(error) => Error::Provider(error),
        CalibrationError::Inseparable { auc } => {
            Error::Uncalibrated { model: embedder.model().to_owned(), auc }
        }
    })?;
    let derived = config.thresholds(Some(found.thresholds))?.unwrap_or(found.thresholds);
    Ok((derived, ", derived from the built-in pairs as a first night would; not kept"))
}

fn in_json(model: &str, thresholds: Thresholds, checked: &Checked) -> Value {
    let quality = |quality: Quality| json!({ "precision": quality.precision(), "recall": quality.recall() });
    let counts = |counts: &Counts| {
        json!({
            "pairs": counts.pairs,
            "duplicate": quality(counts.duplicate),
            "conflict_flag": quality(counts.conflict_flag),
            "conflicts_dropped": counts.conflicts_dropped,
        })
    };
    let across = checked.across;
    let mut report = json!({
        "model": model,
        "thresholds": { "duplicate": rounded(thresholds.duplicate), "related": rounded(thresholds.related) },
        "all": counts(&checked.all),
        "xdup": { "pairs": across.pairs, "duplicates": across.duplicates, "flagged": across.flagged },
    });
    for (language, of_language) in &checked.languages {
        report[language] = counts(of_language);
    }
    report
}

/// A similarity as it was set: as a float it would be printed with digits it never had.
fn rounded(similarity: f32) -> f64 {
    (f64::from(similarity) * 1e6).round() / 1e6
}

fn in_words(model: &str, thresholds: Thresholds, origin: &str, checked: &Checked) -> String {
    let Thresholds { duplicate, related, .. } = thresholds;
    let mut text =
        format!("{model}: a duplicate at {duplicate} or above, compared at {related} or above{origin}\n\n");
    let heading = ["", "pairs", "duplicate", "", "conflict flag", "", "conflicts dropped"];
    let below = ["", "", "precision", "recall", "precision", "recall", "as duplicates"];
    let mut rows = vec![heading.map(str::to_owned).to_vec(), below.map(str::to_owned).to_vec()];
    rows.extend(checked.languages.iter().map(|(language, counts)| row(language, counts)));
    rows.push(row("all", &checked.all));
    text.push_str(&output::table(&rows));
    let across = checked.across;
    if across.pairs > 0 {
        let (found, flagged, pairs) = (across.duplicates, across.flagged, across.pairs);
        let _ = writeln!(
            text,
            "\nacross languages: {found} of {pairs} taken for duplicates, {flagged} put to the judge as conflicts"
        );
    }
    for LabelledPair { line, texts: [first, second], .. } in &checked.dropped {
        let short = |text: &str| output::shorten(text, 60);
        let _ = writeln!(text, "dropped  line {line}: {} / {}", short(first), short(second));
    }
    text
}

fn row(name: &str, counts: &Counts) -> Vec<String> {
    let share = |share: Option<f64>, of: usize| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{share:.2} of {of}"))
    };
    let (duplicate, flag) = (counts.duplicate, counts.conflict_flag);
    vec![
        name.to_owned(),
        counts.pairs.to_string(),
        share(duplicate.precision(), duplicate.found),
        share(duplicate.recall(), duplicate.there),
        share(flag.precision(), flag.found),
        share(flag.recall(), flag.there),
        format!("{} of {}", counts.conflicts_dropped, flag.there),
    ]
}
