//! What a move has to do: the texts that have vectors, those that need no embedding any more, and whether the table is of
//! the configured model already. Asks the model about a few texts; writes nothing but the log of vectors.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::{BEFORE, Mover, Outlook, ReembedError, Wish, keep_all};
use crate::config::{Config, MaskPii};
use crate::error::Error;
use crate::memory::text_digest;
use crate::nrem::cluster::dot;
use crate::plan::Run;
use crate::privacy::Privacy;
use crate::providers::estimate_tokens;
use crate::providers::normalise;
use crate::state::StateError;
use crate::state::lock::Half;
use crate::store::{Store, VectorLog, VectorsByText, texts_before};

/// A median cosine above this means the same model.
pub(super) const SAME_MODEL: f32 = 0.99;
/// Texts that are embedded to find that out.
const PROBED: usize = 5;
/// Those of the move under way, until it writes.
const BEFORE_NEW: &str = "reembed/before.new";

/// Everything a move rests on.
pub(super) struct Gathered {
    pub(super) outlook: Outlook,
    /// Texts that are to have a vector.
    pub(super) wanted: BTreeSet<String>,
    /// The new vectors so far.
    pub(super) vectors: VectorsByText,
    /// Texts in which there is nothing to embed.
    pub(super) wordless: BTreeSet<String>,
    state: PathBuf,
    log: PathBuf,
    /// Nothing in the log can be used.
    starts_anew: bool,
}

impl Gathered {
    /// Takes in what was embedded, once it is on disk.
    pub(super) fn keep(&mut self, texts: &[String], vectors: Vec<Vec<f32>>) -> Result<(), Error> {
        let kept: Vec<(String, Vec<f32>)> =
            texts.iter().map(|text| text_digest(text)).zip(vectors.iter().cloned()).collect();
        VectorLog::in_folder(self.log.clone()).keep(&kept)?;
        self.vectors.extend(texts.iter().cloned().zip(vectors));
        Ok(())
    }

    /// Keeps the vectors that are about to be written over.
    pub(super) async fn keep_the_old(&self, store: &Store) -> Result<(), Error> {
        let (new, kept) = (self.state.join(BEFORE_NEW), self.state.join(BEFORE));
        remove(&new)?;
        keep_all(&VectorLog::in_folder(new.clone()), &store.vectors_by_text().await?)?;
        if new.is_dir() {
            remove(&kept)?;
            std::fs::rename(&new, &kept).map_err(|source| StateError::Write { path: kept, source })?;
        }
        Ok(())
    }

    /// Before anything is kept: what another model left in the log goes.
    pub(super) fn open_log(&self) -> Result<(), Error> {
        if self.starts_anew {
            remove(&self.log)?;
        }
        Ok(())
    }

    /// The move is over: nobody needs the log any more.
    pub(super) fn log_is_done(&self) -> Result<(), Error> {
        Ok(remove(&self.log)?)
    }
}

fn remove(folder: &std::path::Path) -> Result<(), StateError> {
    match std::fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(StateError::Write { path: folder.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

/// Every text that is to have a vector: of the tables, and of the snapshots.
pub(super) async fn wanted(config: &Config, store: &Store) -> Result<BTreeSet<String>, Error> {
    let mut wanted = store.texts().await?;
    for run in Run::all(&config.runs_dir())? {
        wanted.extend(texts_before(&run.folder)?);
    }
    Ok(wanted)
}

/// Looks at the tables, the snapshots, what earlier moves left, and the model.
pub(super) async fn gather(
    config: &Config,
    store: &Store,
    mover: &Mover,
    wish: &Wish,
) -> Result<Gathered, Error> {
    let wanted = wanted(config, store).await?;
    let stored = store.vectors_by_text().await?;
    let probe = Probe::of(mover, &stored, &wanted).await?;
    let (table_dim, dim) = (store.dim(), probe.dim);
    let beside = where_to(config, wish, table_dim, dim, mover)?;
    if wanted.is_empty() {
        let database = config.lancedb_uri.clone();
        return Err(ReembedError::Empty { database, dim }.into());
    }
    let state = config.state_dir();
    let (provider, source) = config.embedding_source();
    let source = source.unwrap_or(&config.ollama.base_url);
    let name = [mover.embedder.model(), provider, source, &dim.to_string(), &config.lancedb_uri].join("\n");
    let name = Sha256::digest(name);
    let log = state.join("reembed").join(format!("{name:x}").get(..16).unwrap_or_default());
    // A server may have changed the model behind a name since.
    let logged = of_this_model(&log, mover, &wanted, dim).await?;
    let starts_anew = logged.is_none();
    let mut by_digest = logged.unwrap_or_default();
    if let Some(before) = of_this_model(&state.join(BEFORE), mover, &wanted, dim).await? {
        by_digest.extend(before);
    }
    by_digest.retain(|_, vector| vector.len() == dim);
    let ready = |text: &String| Some((text.clone(), by_digest.get(&text_digest(text))?.clone()));
    let vectors: VectorsByText = wanted.iter().filter_map(ready).collect();
    let tokens =
        wanted.iter().filter(|text| !vectors.contains_key(*text)).map(|text| estimate_tokens(text)).sum();
    let traces = store.traces().await?.traces;
    let last = traces.values().max_by(|a, b| a.run.cmp(&b.run)).map(|trace| trace.model.clone());
    let outlook = Outlook {
        from: last.filter(|model| !model.is_empty() && *model != mover.embedder.model()),
        to: mover.embedder.model().to_owned(),
        table_dim,
        dim,
        texts: wanted.len(),
        ready: vectors.len(),
        tokens,
        cosine: probe.cosine,
        interrupted: Half::read(&config.state_dir())?.is_some(),
        beside,
    };
    Ok(Gathered { outlook, wanted, vectors, wordless: BTreeSet::new(), state, log, starts_anew })
}

/// Where the new database goes, if it needs one.
fn where_to(
    config: &Config,
    wish: &Wish,
    table_dim: usize,
    dim: usize,
    mover: &Mover,
) -> Result<Option<PathBuf>, ReembedError> {
    if table_dim == dim {
        return match &wish.to {
            None => Ok(None),
            Some(folder) => Err(ReembedError::NeedsNoFolder {
                folder: folder.clone(),
                model: mover.embedder.model().to_owned(),
            }),
        };
    }
    let uri = config.lancedb_uri.trim_start_matches("file://").trim_end_matches('/');
    let folder = wish.to.clone().unwrap_or_else(|| PathBuf::from(format!("{uri}-{dim}")));
    let text = folder.to_string_lossy();
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let is_inside = std::path::absolute(&folder)
        .and_then(|folder| Ok(folder.starts_with(std::path::absolute(uri)?)))
        .unwrap_or(true);
    if text.starts_with('~')
        || text.contains("://")
        || is_inside
        || parent.is_some_and(|parent| !parent.is_dir())
    {
        return Err(ReembedError::NoPlace { folder });
    }
    if folder.exists() { Err(ReembedError::Exists { folder }) } else { Ok(Some(folder)) }
}

/// What the model says of a few texts.
struct Probe {
    dim: usize,
    cosine: Option<f32>,
}

impl Probe {
    async fn of(mover: &Mover, stored: &VectorsByText, wanted: &BTreeSet<String>) -> Result<Self, Error> {
        let some: Vec<&String> = spread(wanted.iter().filter(|text| stored.contains_key(*text)));
        let (dim, cosine) = compare(mover, &some, |text| stored.get(text)).await?;
        Ok(Self { dim, cosine })
    }
}

/// Up to five of them, spread evenly, that hold no secret: what would be embedded are not their words.
fn spread<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<&'t String> {
    let fits = |text: &&String| crate::privacy::without_secrets(text).removed == 0;
    let texts: Vec<&String> = texts.filter(fits).collect();
    let step = (texts.len() / PROBED).max(1);
    texts.into_iter().step_by(step).take(PROBED).collect()
}

/// Embeds texts: the length of the vectors, and the median cosine with what there is.
async fn compare<'v>(
    mover: &Mover,
    texts: &[&String],
    there: impl Fn(&str) -> Option<&'v Vec<f32>>,
) -> Result<(usize, Option<f32>), Error> {
    let privacy = Privacy::new(MaskPii::Never, false);
    let words: Vec<_> = match texts.is_empty() {
        true => vec![privacy.to_embed("dimension")],
        false => texts.iter().map(|text| privacy.to_embed(text)).collect(),
    };
    let vectors = mover.embedder.embed(&words).await?;
    let dim = vectors.first().map_or(0, Vec::len);
    let mut cosines: Vec<f32> = texts
        .iter()
        .zip(&vectors)
        .filter_map(|(text, vector)| {
            let mut there = there(text)?.clone();
            (there.len() == vector.len() && normalise(&mut there)).then(|| dot(&there, vector))
        })
        .collect();
    cosines.sort_by(f32::total_cmp);
    Ok((dim, cosines.get(cosines.len() / 2).copied()))
}

/// The vectors in a log, if they are the configured model's: those of an interrupted move, or of before the last one, which
/// is the way back.
async fn of_this_model(
    log: &std::path::Path,
    mover: &Mover,
    wanted: &BTreeSet<String>,
    dim: usize,
) -> Result<Option<HashMap<String, Vec<f32>>>, Error> {
    let there = VectorLog::in_folder(log.to_path_buf()).read()?;
    let fits = |text: &&String| there.get(&text_digest(text)).is_some_and(|vector| vector.len() == dim);
    let some = spread(wanted.iter().filter(fits));
    if some.is_empty() {
        return Ok(None);
    }
    let (_, cosine) = compare(mover, &some, |text| there.get(&text_digest(text))).await?;
    Ok(cosine.filter(|cosine| *cosine > SAME_MODEL).map(|_| there))
}
