//! `dreamer memories search`: the memories nearest to a text, by the embedder the night would use.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use dreamer::config::Config;
use dreamer::memory::{Memory, Partition, Similarity};
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::configured;
use dreamer::state::placeholder_key;
use dreamer::store::{Query, Store};
use serde_json::json;

use crate::failure::{Failure, print};
use crate::memories::{Dates, listing, print_lines, rows_by_id, tier, with_tier};

/// Prints the memories nearest to `text`: of the configured agent, unless the table has one agent anyway.
pub(crate) async fn search(
    config: &Config,
    store: &Store,
    text: &str,
    limit: u16,
    json: bool,
) -> Result<u8, Failure> {
    let memories = store.rows(&config.agent).await?.memories;
    let vector = embed(config, text).await?;
    let agents: BTreeSet<&String> = memories.iter().map(|memory| &memory.partition.agent).collect();
    let partitions: BTreeSet<&Partition> = memories
        .iter()
        .map(|memory| &memory.partition)
        .filter(|partition| agents.len() == 1 || partition.agent == config.agent)
        .collect();
    let queries: Vec<Query> = partitions
        .into_iter()
        .map(|partition| Query { vector: vector.clone(), partition: partition.clone(), exclude: None })
        .collect();
    let limit = usize::from(limit);
    let mut near: Vec<_> = store
        .neighbours(&queries, Similarity(-1.0), limit, &config.agent)
        .await?
        .into_iter()
        .flatten()
        .collect();
    near.sort_by(|a, b| b.similarity.0.total_cmp(&a.similarity.0).then_with(|| a.id.cmp(&b.id)));
    near.truncate(limit);
    let by_id: HashMap<&String, &Memory> = memories.iter().map(|memory| (&memory.id, memory)).collect();
    let found: Vec<(&Memory, Similarity)> =
        near.iter().filter_map(|n| Some((*by_id.get(&n.id)?, n.similarity))).collect();
    if json {
        let ids: Vec<String> = found.iter().map(|(memory, _)| memory.id.clone()).collect();
        let mut rows = rows_by_id(store, Some(&ids)).await?;
        return print_lines(found.iter().filter_map(|(memory, similarity)| {
            let mut row = with_tier(rows.remove(&memory.id)?, memory);
            row["similarity"] = json!(similarity);
            Some(row)
        }));
    }
    let dates = Dates::read(config, store).await?;
    let similar: Vec<Similarity> = found.iter().map(|(_, similarity)| *similarity).collect();
    let rows = found.iter().map(|(memory, _)| (*memory, tier(memory.importance))).collect();
    print(&listing(rows, &dates, &similar))?;
    Ok(0)
}

/// The vector of a question, by the embedder that the night would use.
async fn embed(config: &Config, text: &str) -> Result<Vec<f32>, Failure> {
    config.check_embedder()?;
    // Where placeholders are stored, the question is put with the same ones.
    let privacy = placeholder_key::policy(config, rand::random())?;
    let outbound = privacy.to_embed(&privacy.to_store(text));
    if outbound.as_str().trim().is_empty() {
        return Err(Failure::Memory("nothing to look for: the text is empty".into()));
    }
    let limits = Limits::new(config.max_calls, config.max_minutes, config.concurrency, Instant::now());
    let embedder = configured::embedder(config, Budget::new(limits))?;
    let vectors = embedder.embed(&[outbound]).await?;
    Ok(vectors.into_iter().next().unwrap_or_default())
}
