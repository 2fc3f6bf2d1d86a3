//! The example: invented episodes of yesterday and today for a home of their own. They must not become memories of a real agent.

use std::fs;
use std::path::PathBuf;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Report, SetupError, create_new};
use crate::config::Config;
use crate::error::Error;
use crate::store::Store;

/// The example episodes: how many days ago each was, the end of the file's name, and its text with `{at}` and `{agent}`
/// left open. What the second session says became of something that the first one says, so they are of two days.
const EXAMPLES: [(i64, &str, &str); 3] = [
    (1, "dreamer-example-1.md", include_str!("../../examples/episodes/session-1.md")),
    (0, "dreamer-example-2.md", include_str!("../../examples/episodes/session-2.md")),
    (0, "dreamer-example-note.md", include_str!("../../examples/episodes/note.md")),
];

/// Invented episodes must not become memories of a real agent.
pub(super) async fn refuse_real_home(config: &Config, table: Option<&Store>) -> Result<(), Error> {
    let refuse = |why| Err(SetupError::RealHome { home: config.home.clone(), why }.into());
    if config.has_gateway() {
        return refuse("its episodes or its database belong to a gateway");
    }
    let Some(table) = table else { return Ok(()) };
    let is_empty = table.rows(&config.agent).await?.memories.is_empty();
    if !is_empty && example_in(config).is_none() {
        return refuse("it holds memories already");
    }
    Ok(())
}

/// Writes the example episodes, dated yesterday and today, unless some are here already.
pub(super) fn make_examples(config: &Config, now: DateTime<Utc>, report: &mut Report) -> Result<(), Error> {
    if let Some(path) = example_in(config) {
        report.found(&path, ", the example; it is not added again");
        return Ok(());
    }
    let folder = config.folders().into_iter().next().map_or_else(|| config.episodes_dir.clone(), |f| f.path);
    for (index, (days_ago, name, text)) in EXAMPLES.iter().enumerate() {
        let then = now - TimeDelta::days(*days_ago);
        let date = then.with_timezone(&config.timezone).format("%Y-%m-%d");
        let path = folder.join(format!("{date}-{name}"));
        // One after the other, the last one just now.
        let ended = then - TimeDelta::minutes(30 * (EXAMPLES.len() - index) as i64);
        let text = text
            .replace("{at}", &ended.format("%Y-%m-%d %H:%M:%S").to_string())
            .replace("{agent}", &config.agent);
        if create_new(&path, &text, 0o600)? {
            report.made(&path, "");
        } else {
            report.found(&path, ", left as it is");
        }
    }
    Ok(())
}

/// The first example episode in the folders of this home.
fn example_in(config: &Config) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = config
        .folders()
        .into_iter()
        .chain(config.archives())
        .filter_map(|folder| fs::read_dir(folder.path).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .and_then(|n| n.to_str())
                .is_some_and(|n| EXAMPLES.iter().any(|(_, end, _)| n.ends_with(end)))
        })
        .collect();
    found.sort();
    found.into_iter().next()
}
