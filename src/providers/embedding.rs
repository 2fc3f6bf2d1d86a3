//! Embedding over HTTP, whatever the API: equal texts sent once, batches by number and tokens, over-long texts split and
//! averaged, every vector checked. What a request looks like is the providers' business.

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::http::{Endpoint, Failure, Rejection};
use super::{ProviderError, normalise};
use crate::privacy::Outbound;

/// How one API embeds.
pub(crate) trait EmbeddingApi: Debug + Send + Sync + 'static {
    /// A reply as it is on the wire.
    type Reply: DeserializeOwned + Send;
    /// Where requests go.
    const PATH: &'static str;
    /// What a server takes, until it says otherwise.
    const FIRST: Manners;

    /// A request; `dim` is the dimension to ask for, if any.
    fn body(model: &str, inputs: &[&str], manners: Manners, dim: Option<usize>) -> Value;

    /// The tokens it cost, and the vectors in the order of the inputs or what is wrong with them.
    fn read(reply: Self::Reply, expected: usize) -> (u64, Result<Vec<Vec<f32>>, String>);
}

/// What a server takes in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manners {
    /// Texts.
    pub(crate) inputs: usize,
    /// Tokens of all of them.
    pub(crate) tokens: usize,
    /// Tokens of one input.
    pub(crate) input_tokens: usize,
    /// Whether it knows the parameter of that name.
    pub(crate) dimensions: bool,
    /// Whether it knows the parameter of that name.
    pub(crate) encoding_format: bool,
}

impl Manners {
    /// The next way to ask after a refusal: smaller pieces, smaller batches or fewer parameters.
    fn adapt(self, rejection: &Rejection, sends_dimensions: bool) -> Option<Self> {
        if rejection.is_too_long() {
            return (self.input_tokens > 100).then_some(Self { input_tokens: self.input_tokens / 2, ..self });
        }
        if let Some(limit) = rejection.is_too_many() {
            if let Some(inputs) = limit.filter(|limit| *limit < self.inputs) {
                return Some(Self { inputs, ..self });
            }
            let (inputs, tokens) = ((self.inputs / 4).max(1), (self.tokens / 4).max(self.input_tokens));
            return (self.inputs > 1).then_some(Self { inputs, tokens, ..self });
        }
        if rejection.is_filtered() || rejection.is_version() {
            return None;
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

/// An embedding model behind an API.
///
/// A text beyond the model's limit is never cut: it is split, and its vector is the mean of its pieces' vectors, weighted
/// by their length and scaled to length 1. Equal texts are sent once.
#[derive(Debug)]
pub(crate) struct Remote<A> {
    pub(crate) endpoint: Endpoint,
    wanted_dim: Option<usize>,
    manners: Mutex<Manners>,
    /// The dimension of the first vector; all others must have it.
    dim: OnceLock<usize>,
    api: PhantomData<A>,
}

impl<A: EmbeddingApi> Remote<A> {
    /// The model at this endpoint; `dim` is asked for where the server can, and checked in any case.
    pub(crate) fn new(endpoint: Endpoint, dim: Option<usize>) -> Self {
        let manners = Mutex::new(A::FIRST);
        Self { endpoint, wanted_dim: dim, manners, dim: OnceLock::new(), api: PhantomData }
    }

    /// How many texts the server takes in one request, as far as it has shown.
    pub(crate) fn texts_a_request(&self) -> usize {
        self.manners.lock().unwrap_or_else(PoisonError::into_inner).inputs
    }

    /// One unit vector a text, in order.
    ///
    /// # Errors
    /// As [`super::Embedder::embed`].
    pub(crate) async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut distinct = Vec::new();
        for (index, text) in texts.iter().map(Outbound::as_str).enumerate() {
            if text.trim().is_empty() {
                return Err(ProviderError::Blank { model: self.endpoint.model().to_owned(), index });
            }
            places.entry(text).or_insert_with(|| {
                distinct.push(text);
                distinct.len() - 1
            });
        }
        let vectors = self.embed_distinct(&distinct).await?;
        Ok(texts.iter().map(|text| vectors[places[text.as_str()]].clone()).collect())
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
            let model = self.endpoint.model();
            tracing::debug!(model, ?next, refusal = rejection.message, "asking another way");
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
        let dim = self.wanted_dim.filter(|_| manners.dimensions);
        let body = A::body(self.endpoint.model(), batch, manners, dim);
        let reply: A::Reply = self.endpoint.post(A::PATH, &body).await?;
        let malformed = |detail: String| Failure::Final(self.endpoint.malformed(detail));
        let (tokens, vectors) = A::read(reply, batch.len());
        // Before anything is judged: a reply that cannot be used is paid, too.
        self.endpoint.budget().add_tokens(tokens, 0);
        let mut vectors = vectors.map_err(malformed)?;
        for vector in &mut vectors {
            self.check(vector).map_err(malformed)?;
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

/// How many requests these texts take, as long as the server has not said what it takes.
pub(crate) fn requests<A: EmbeddingApi>(texts: &[&str]) -> usize {
    let pieces: Vec<&str> = texts.iter().flat_map(|text| split(text, A::FIRST.input_tokens)).collect();
    batches(&pieces, A::FIRST).len()
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
pub(crate) fn split(text: &str, limit: usize) -> Vec<&str> {
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
pub(crate) fn estimate_tokens(text: &str) -> usize {
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
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text_and_keep_the_limit() {
        let texts = [
            "",
            "x",
            "one two three",
            "没有空格的一句很长的话",
            "a\u{301}e\u{301} 🙂🙂🙂",
            "0123456789012345678901234567890123456789",
        ];
        for text in texts {
            for limit in [1, 2, 3, 7, 100] {
                let pieces = split(text, limit);
                // Only a stretch of spaces may be left out.
                let words = |text: &str| text.split_whitespace().collect::<String>();
                assert_eq!(words(&pieces.concat()), words(text), "{limit}");
                let fits = |piece: &&str| estimate_tokens(piece) <= limit || piece.chars().count() == 1;
                assert!(pieces.iter().all(fits), "{limit}: {pieces:?}");
            }
        }
    }

    #[test]
    fn the_estimate_is_above_the_rules_of_thumb() {
        // Four characters a token in English prose, one in Chinese and Korean, half a character of an emoji.
        for (text, least) in [
            ("The quick brown fox jumps over the lazy dog.", 44 / 4),
            ("用户喜欢在所有编辑器里使用深色模式。", 18),
            ("사용자는 모든 편집기에서 다크 모드를 선호한다.", 26),
            ("🙂🙂🙂", 6),
            ("", 1),
        ] {
            assert!(estimate_tokens(text) >= least, "{text}: {}", estimate_tokens(text));
        }
    }
}
