//! `/v1/embeddings`: texts in, unit vectors out, batched by number and tokens, every vector checked.
//! Which text may be sent was decided before: only `Outbound` text comes here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use crate::privacy::Outbound;
use crate::providers::budget::Budget;
use crate::providers::http::{Endpoint, Failure, Rejection};
use crate::providers::{Embedder, ProviderError, normalise};

/// An embedding model behind the OpenAI API.
///
/// A text beyond the model's 8,191 tokens is never cut: it is split, and its vector is the mean of its pieces'
/// vectors, weighted by their length and scaled to length 1. Equal texts are sent once.
#[derive(Debug)]
pub struct OpenAiEmbedder {
    endpoint: Endpoint,
    wanted_dim: Option<usize>,
    manners: Mutex<Manners>,
    /// The dimension of the first vector; all others must have it.
    dim: OnceLock<usize>,
}

/// What a server takes in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Manners {
    inputs: usize,
    tokens: usize,
    /// Tokens of one input.
    input_tokens: usize,
    dimensions: bool,
    encoding_format: bool,
}

impl Manners {
    /// OpenAI's documented limits.
    const FIRST: Self =
        Self { inputs: 2_048, tokens: 300_000, input_tokens: 8_191, dimensions: true, encoding_format: true };

    /// The next way to ask after a refusal: smaller pieces, smaller batches or fewer parameters.
    fn adapt(self, rejection: &Rejection, sends_dimensions: bool) -> Option<Self> {
        if rejection.is_too_long() {
            return (self.input_tokens > 256).then_some(Self { input_tokens: self.input_tokens / 2, ..self });
        }
        if rejection.status == 413 || rejection.names(&["batch size", "batch_size", "too many inputs"]) {
            let (inputs, tokens) = ((self.inputs / 4).max(1), (self.tokens / 4).max(self.input_tokens));
            return (self.inputs > 1).then_some(Self { inputs, tokens, ..self });
        }
        if !matches!(rejection.status, 400 | 422) {
            return None;
        }
        let without_dimensions = Self { dimensions: false, ..self };
        if self.encoding_format && rejection.names(&["encoding_format"]) {
            return Some(Self { encoding_format: false, ..self });
        }
        (self.dimensions && sends_dimensions).then_some(without_dimensions)
    }
}

impl OpenAiEmbedder {
    /// A model at `base_url` (with `/v1`); `dim` is asked for where the server can, and checked in any case.
    ///
    /// # Errors
    /// When the address or the key cannot be used at all. Nothing is sent yet.
    pub fn new(
        base_url: &str,
        key: Option<SecretString>,
        model: &str,
        dim: Option<usize>,
        budget: Arc<Budget>,
    ) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::new(base_url, key, model, budget)?;
        let (manners, wanted_dim) = (Mutex::new(Manners::FIRST), dim);
        Ok(Self { endpoint, wanted_dim, manners, dim: OnceLock::new() })
    }

    /// One vector a text, all texts different and none blank. Starts over when the server shows its limits.
    async fn embed_distinct(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let mut manners = *self.manners.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let rejection = match self.try_embed(texts, manners).await {
                Err(Failure::Rejected(rejection)) => rejection,
                Err(Failure::Final(error)) => return Err(error),
                Ok(vectors) => {
                    *self.manners.lock().unwrap_or_else(PoisonError::into_inner) = manners;
                    return Ok(vectors);
                }
            };
            let Some(next) = manners.adapt(&rejection, self.wanted_dim.is_some()) else {
                return Err(self.endpoint.refused(rejection));
            };
            tracing::debug!(model = self.model(), ?next, refusal = rejection.message, "asking another way");
            manners = next;
        }
    }

    async fn try_embed(&self, texts: &[&str], manners: Manners) -> Result<Vec<Vec<f32>>, Failure> {
        let pieces: Vec<Vec<&str>> = texts.iter().map(|text| split(text, manners.input_tokens)).collect();
        let flat: Vec<&str> = pieces.iter().flatten().copied().collect();
        let mut vectors = Vec::with_capacity(flat.len());
        for batch in batches(&flat, manners) {
            vectors.extend(self.embed_batch(batch, manners).await?);
        }
        let mut vectors = vectors.into_iter();
        let joined = pieces.iter().map(|pieces| mean(pieces, vectors.by_ref().take(pieces.len()).collect()));
        Ok(joined.collect())
    }

    async fn embed_batch(&self, batch: &[&str], manners: Manners) -> Result<Vec<Vec<f32>>, Failure> {
        let mut body = json!({ "model": self.model(), "input": batch });
        if manners.encoding_format {
            body["encoding_format"] = json!("float");
        }
        if let Some(dim) = self.wanted_dim.filter(|_| manners.dimensions) {
            body["dimensions"] = json!(dim);
        }
        let reply: Embeddings = self.endpoint.post("embeddings", &body).await?;
        let usage = reply.usage.unwrap_or_default();
        self.endpoint.budget().add_tokens(usage.prompt_tokens.unwrap_or(usage.total_tokens), 0);
        let mut vectors = in_order(reply.data, batch.len())
            .map_err(|detail| Failure::Final(self.endpoint.malformed(detail)))?;
        for vector in &mut vectors {
            self.check(vector).map_err(|detail| Failure::Final(self.endpoint.malformed(detail)))?;
        }
        Ok(vectors)
    }

    /// Checks a vector and scales it to length 1.
    fn check(&self, vector: &mut [f32]) -> Result<(), String> {
        let dim = vector.len();
        if let Some(wanted) = self.wanted_dim.filter(|wanted| *wanted != dim) {
            return Err(format!("its vectors have {dim} dimensions, DREAMER_EMBEDDING_DIM is {wanted}"));
        }
        let first = *self.dim.get_or_init(|| dim);
        if first != dim {
            return Err(format!("one vector has {first} dimensions, another {dim}"));
        }
        normalise(vector).then_some(()).ok_or_else(|| "a vector is zero or not finite".to_owned())
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &str {
        self.endpoint.model()
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut distinct = Vec::new();
        for (index, text) in texts.iter().map(Outbound::as_str).enumerate() {
            if text.trim().is_empty() {
                return Err(ProviderError::Blank { model: self.model().to_owned(), index });
            }
            places.entry(text).or_insert_with(|| {
                distinct.push(text);
                distinct.len() - 1
            });
        }
        let vectors = self.embed_distinct(&distinct).await?;
        Ok(texts.iter().map(|text| vectors[places[text.as_str()]].clone()).collect())
    }
}

#[derive(Deserialize)]
struct Embeddings {
    data: Vec<Item>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<u64>,
    total_tokens: u64,
}

/// The vectors in the order of the inputs. A server that leaves out every index answers in order.
fn in_order(data: Vec<Item>, expected: usize) -> Result<Vec<Vec<f32>>, String> {
    if data.len() != expected {
        return Err(format!("{} vectors for {expected} texts", data.len()));
    }
    let numbered = data.iter().any(|item| item.index.is_some());
    let mut slots: Vec<Option<Vec<f32>>> = vec![None; expected];
    for (place, item) in data.into_iter().enumerate() {
        let index = if numbered { item.index } else { Some(place) };
        let slot = index.and_then(|index| slots.get_mut(index)).filter(|slot| slot.is_none());
        *slot.ok_or("its indices do not count the texts")? = Some(item.embedding);
    }
    Ok(slots.into_iter().flatten().collect())
}

/// Splits the inputs into requests.
fn batches<'a, 'b>(texts: &'a [&'b str], manners: Manners) -> Vec<&'a [&'b str]> {
    let (mut batches, mut start, mut tokens) = (Vec::new(), 0, 0);
    for (end, text) in texts.iter().enumerate() {
        let more = estimate_tokens(text);
        if end > start && (end - start >= manners.inputs || tokens + more > manners.tokens) {
            batches.push(&texts[start..end]);
            (start, tokens) = (end, 0);
        }
        tokens += more;
    }
    if start < texts.len() {
        batches.push(&texts[start..]);
    }
    batches
}

/// Splits a text into pieces of at most `limit` tokens, at a space or sentence end where the last quarter has one.
fn split(text: &str, limit: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(end) = end_within(rest, limit) {
        let piece = &rest[..end];
        let natural = piece.rfind(|c: char| c.is_whitespace() || "。！？；，、".contains(c));
        let natural = natural.filter(|at| *at > end / 4 * 3);
        let end = natural.map_or(end, |at| at + piece[at..].chars().next().map_or(1, char::len_utf8));
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces.push(rest);
    // A stretch of spaces alone is no input.
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// Where a text's first `limit` tokens end; `None` if it has no more.
fn end_within(text: &str, limit: usize) -> Option<usize> {
    let mut twelfths = 0;
    for (at, c) in text.char_indices() {
        twelfths += twelfths_of_a_token(c);
        if twelfths > limit.max(1) * 12 && at > 0 {
            return Some(at);
        }
    }
    None
}

/// An upper estimate of a text's tokens. OpenAI's vocabularies take about four Latin letters a token and one to
/// one and a half CJK characters; this counts three and two thirds.
fn estimate_tokens(text: &str) -> usize {
    text.chars().map(twelfths_of_a_token).sum::<usize>().div_ceil(12).max(1)
}

fn twelfths_of_a_token(c: char) -> usize {
    match c {
        'a'..='z' | 'A'..='Z' | ' ' => 4,
        '\0'..='\u{24f}' => 8,
        // Greek, Cyrillic, Hebrew, Arabic, Indic and the like.
        '\u{250}'..='\u{10ff}' => 12,
        '\u{1100}'..='\u{ffff}' => 18,
        _ => 36,
    }
}

/// The unit vector of a split text.
fn mean(pieces: &[&str], mut vectors: Vec<Vec<f32>>) -> Vec<f32> {
    let mut sum = vec![0.0; vectors[0].len()];
    for (piece, vector) in pieces.iter().zip(&vectors) {
        let weight = estimate_tokens(piece) as f32;
        sum.iter_mut().zip(vector).for_each(|(total, x)| *total += weight * x);
    }
    // One piece stays as it is. Pieces that cancel out have no mean direction; the first speaks for the text.
    if vectors.len() > 1 && normalise(&mut sum) { sum } else { vectors.swap_remove(0) }
}

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
