//! `dreamer calibrate`: calls the library and prints what it derived, and how sure that is.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use chrono::Utc;
use dreamer::calibrate::{self, Derived};
use dreamer::check_pairs;
use dreamer::config::Config;
use dreamer::error::Error;
use dreamer::privacy::Privacy;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::{Thresholds, configured};
use dreamer::store::Store;
use serde_json::json;

use crate::args::Calibrate;
use crate::failure::{Failure, print};
use crate::output;

/// A similarity: its variable, and where it stands.
type Similarity = (&'static str, fn(&Thresholds) -> f32);

const SIMILARITIES: [Similarity; 3] = [
    ("CLUSTER_SIMILARITY", |thresholds| thresholds.cluster),
    ("DEDUP_SIMILARITY", |thresholds| thresholds.duplicate),
    ("CONTRADICTION_SIMILARITY", |thresholds| thresholds.related),
];

/// Derives the similarities of the configured model, and keeps them if that was asked for.
pub(crate) async fn calibrate(config: &Config, asked: &Calibrate) -> Result<u8, Failure> {
    let labelled = asked.pairs.as_deref().map(check_pairs::read).transpose().map_err(Error::from)?;
    config.check_embedder()?;
    let limits = Limits::new(config.max_calls, config.max_minutes, config.concurrency, Instant::now());
    let embedder = configured::embedder(config, Budget::new(limits))?;
    let privacy = Privacy::new(config.mask_pii, false);
    let (derived, from) = match (labelled, asked.table) {
        (Some(pairs), _) => {
            let from = format!("the labelled pairs of {}", shown(asked.pairs.as_deref()));
            (calibrate::from_pairs(&pairs, embedder.as_ref(), &privacy).await?, from)
        }
        (None, true) => {
            let store = Store::open(&config.lancedb_uri).await?;
            let derived = calibrate::from_table(&store, &config.agent, embedder.model()).await?;
            (derived, "pairs of the table's memories".to_owned())
        }
        (None, false) => {
            let pairs = check_pairs::built_in();
            let derived = calibrate::from_pairs(&pairs, embedder.as_ref(), &privacy).await?;
            (derived, "the built-in pairs".to_owned())
        }
    };
    if asked.save {
        calibrate::save(config, embedder.as_ref(), &derived, Utc::now()).await?;
    }
    let text = match asked.json {
        true => format!("{}\n", in_json(embedder.model(), &derived, asked.save)),
        false => in_words(embedder.model(), &from, &derived, asked.save),
    };
    print(&text).map(|()| 0)
}

fn shown(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// A figure as it was rounded: as a float it would be printed with digits it never had.
fn plain(figure: f32) -> f64 {
    (f64::from(figure) * 1e4).round() / 1e4
}

fn in_json(model: &str, derived: &Derived, saved: bool) -> serde_json::Value {
    let mut report = json!({
        "model": model,
        "pairs": derived.pairs,
        "sureness": derived.sureness().as_str(),
        "held_out": plain(derived.held_out),
        "auc": plain(derived.auc),
        "joined": derived.joined.map(plain),
        "blind": derived.blind,
        "saved": saved,
    });
    for (name, of) in SIMILARITIES {
        let (low, high) = derived.range(of);
        report[name] =
            json!({ "value": plain(of(&derived.thresholds)), "lowest": plain(low), "highest": plain(high) });
    }
    report
}

fn in_words(model: &str, from: &str, derived: &Derived, saved: bool) -> String {
    let mut text = format!("{model}: derived from {} of {from}\n\n", derived.pairs);
    let row = |(name, of): Similarity| {
        let (low, high) = derived.range(of);
        let range = format!("{:.3} to {:.3} with a fifth of the pairs left out in turn", low, high);
        vec![name.to_owned(), format!("{:.3}", of(&derived.thresholds)), range]
    };
    text.push_str(&output::table(&SIMILARITIES.map(row)));
    let percent = |share: f32| format!("{:.0} %", share * 100.0);
    let _ = writeln!(
        text,
        "\n{}: of the pairs left out {} were on the right side; a duplicate scores above an unrelated text in {}",
        derived.sureness().as_str(),
        percent(derived.held_out),
        percent(derived.auc)
    );
    if let Some(joined) = derived.joined {
        let _ = writeln!(
            text,
            "of messages of different people {:.1} % of the pairs would be put together, each person's by the figure from \
             the others",
            joined * 100.0
        );
    }
    if !derived.blind.is_empty() {
        let _ = writeln!(
            text,
            "the model cannot tell texts in these languages apart: {}",
            derived.blind.join(", ")
        );
    }
    text.push_str(match saved {
        true => "kept: nights work with these, unless one of the three is set\n",
        false => "not kept; --save has nights work with these\n",
    });
    text
}
