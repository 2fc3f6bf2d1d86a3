//! The probe: whether the table's vectors are of the configured model, asked before anything is paid or written.

use crate::dream::Night;
use crate::error::Error;
use crate::memory::Memory;
use crate::nrem::cluster::dot;
use crate::nrem::select::Material;
use crate::privacy::without_secrets;
use crate::remembered::Remembered;

/// Rows that are embedded again to see whether the table is of the configured model.
pub(crate) const PROBED: usize = 5;
/// The median cosine that must be exceeded.
pub(crate) const SAME_MODEL: f32 = 0.99;

/// Whether there was anything to ask the embedder about.
pub(super) enum Asked {
    Something,
    Nothing,
}

/// Stops before anything is paid or written when the table's vectors are of another model.
pub(super) async fn check_model(
    night: &Night<'_>,
    known: &Remembered,
    material: &Material,
) -> Result<Asked, Error> {
    let last = last_model(known, night.embedder.model());
    let sample = sample(known);
    let stored = night.store.vectors(&sample).await?;
    let texts: Vec<(String, Vec<f32>)> = stored
        .into_iter()
        .filter_map(|(id, vector)| Some((known.rows.get(&id)?.text.clone(), vector)))
        .collect();
    let dim = night.store.dim();
    if let Some(model_dim) = night.config.dimension().filter(|model_dim| *model_dim != dim) {
        return Err(other_dimension(night, model_dim, last).await?);
    }
    if known.rows.is_empty() && material.chunks.is_empty() {
        return Ok(Asked::Nothing);
    }
    // An empty table has nothing to compare with, but the dimension must fit all the same.
    let words: Vec<_> = match texts.is_empty() {
        true => vec![night.privacy.to_embed("dimension")],
        false => texts.iter().map(|(text, _)| night.privacy.to_embed(text)).collect(),
    };
    let vectors = night.embedder.embed(&words).await?;
    if let Some(other) = vectors.iter().find(|vector| vector.len() != dim) {
        return Err(other_dimension(night, other.len(), last).await?);
    }
    let stored = texts.into_iter().map(|(_, stored)| stored).collect();
    match agreement(stored, vectors) {
        Some((probed, cosine)) if cosine <= SAME_MODEL => {
            Err(Error::OtherModel { dim, model: night.embedder.model().to_owned(), probed, cosine, last })
        }
        _ => Ok(Asked::Something),
    }
}

/// How many rows could be compared with what the model makes of their texts now, and the median of their cosines; none where
/// there is nothing to compare.
pub(crate) fn agreement(stored: Vec<Vec<f32>>, embedded: Vec<Vec<f32>>) -> Option<(usize, f32)> {
    let mut cosines: Vec<f32> = stored
        .into_iter()
        .zip(embedded)
        .filter_map(|(mut stored, vector)| {
            crate::providers::normalise(&mut stored).then(|| dot(&stored, &vector))
        })
        .collect();
    cosines.sort_by(f32::total_cmp);
    Some((cosines.len(), *cosines.get(cosines.len() / 2)?))
}

async fn other_dimension(night: &Night<'_>, model_dim: usize, last: String) -> Result<Error, Error> {
    Ok(Error::OtherDimension {
        path: night.config.lancedb_uri.clone(),
        table: night.store.dim(),
        model: night.embedder.model().to_owned(),
        model_dim,
        last,
        empty: night.store.is_empty().await?,
    })
}

fn sample(known: &Remembered) -> Vec<String> {
    sample_of(known.rows.values()).into_iter().map(|row| row.id.clone()).collect()
}

/// Up to five rows, spread evenly: the first rows of a table are often of one day. A row that the gateway captured with a
/// secret is none of them: what would be embedded are not its words.
pub(crate) fn sample_of<'a>(rows: impl ExactSizeIterator<Item = &'a Memory> + Clone) -> Vec<&'a Memory> {
    let fits = |row: &&Memory| without_secrets(&row.text).removed == 0;
    let step = (rows.len() / PROBED).max(1);
    let spread: Vec<&Memory> = rows.clone().step_by(step).filter(fits).take(PROBED).collect();
    if !spread.is_empty() {
        return spread;
    }
    rows.filter(fits).take(PROBED).collect()
}

fn last_model(known: &Remembered, configured: &str) -> String {
    let last = known.traces.values().max_by(|a, b| a.run.cmp(&b.run)).map(|trace| trace.model.as_str());
    last.filter(|model| *model != configured)
        .map(|model| format!("; the last run used {model}"))
        .unwrap_or_default()
}
