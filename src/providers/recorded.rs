//! Recorded replies: what a model was paid for is durable in the run's folder before anybody uses it, and a run that goes
//! on where an interrupted one stopped takes its replies from there. What is asked is the stages' business.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Embedder, LanguageModel, Prompt, ProviderError, Reply};
use crate::privacy::Outbound;
use crate::state::{StateError, read_if_there, write_atomically};

/// Texts embedded between two records at most: a kill costs no more than the requests that were on their way.
const RECORDED_AT_ONCE: usize = 256;

/// What one chat request came to. Failures that cost nothing are not recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// A reply.
    Text { text: String, input_tokens: u64, output_tokens: u64 },
    /// A reply that ended at the token limit.
    CutOff { max_tokens: u32 },
    /// A reply that is none.
    Malformed { detail: String },
}

/// One embedded text. The vector is kept as the bits of its numbers, so that it comes back exactly.
#[derive(Debug, Serialize, Deserialize)]
struct Embedded {
    key: String,
    bits: Vec<u32>,
}

/// The replies of one run, and those of interrupted runs that it may use.
#[derive(Debug)]
pub struct Replies {
    folder: PathBuf,
    chats: HashMap<String, Answer>,
    vectors: HashMap<String, Vec<f32>>,
    used_again: AtomicU32,
}

impl Replies {
    /// The folder of a run's replies.
    pub fn folder(run_folder: &Path) -> PathBuf {
        run_folder.join("replies")
    }

    /// Records into `folder`; takes what it can from `earlier`, folders of interrupted runs. A record that is damaged was
    /// not durable when its run was killed: it is asked again.
    ///
    /// # Errors
    /// When a folder exists and cannot be read.
    pub fn open(folder: PathBuf, earlier: &[PathBuf]) -> Result<Self, StateError> {
        let (mut chats, mut vectors) = (HashMap::new(), HashMap::new());
        for path in earlier.iter().map(|folder| files(folder)).collect::<Result<Vec<_>, _>>()?.concat() {
            let Some(bytes) = read_if_there(&path)? else { continue };
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(key) = name.strip_suffix(".chat.json") {
                chats.extend(
                    serde_json::from_slice(&bytes).ok().map(|answer: Answer| (key.to_owned(), answer)),
                );
            } else if name.ends_with(".vectors.json") {
                let embedded: Vec<Embedded> = serde_json::from_slice(&bytes).unwrap_or_default();
                let read = |e: Embedded| (e.key, e.bits.into_iter().map(f32::from_bits).collect());
                vectors.extend(embedded.into_iter().map(read));
            }
        }
        Ok(Self { folder, chats, vectors, used_again: AtomicU32::new(0) })
    }

    /// How many chat replies and embedded texts of interrupted runs were used again so far.
    pub fn used_again(&self) -> u32 {
        self.used_again.load(Ordering::Relaxed)
    }

    fn keep<T: Serialize>(&self, name: &str, value: &T) {
        let bytes = serde_json::to_vec(value).expect("a reply is plain data");
        // The reply is there and paid for: a night is better served by it than by an error.
        if let Err(error) = write_atomically(&self.folder.join(name), &bytes) {
            tracing::warn!("{}", crate::error::chain(&error));
        }
    }

    fn keep_vectors(&self, embedded: &[(String, &[f32])]) {
        let Some((first, _)) = embedded.first() else { return };
        let bits = |vector: &[f32]| vector.iter().map(|x| x.to_bits()).collect();
        let records: Vec<Embedded> =
            embedded.iter().map(|(key, vector)| Embedded { key: key.clone(), bits: bits(vector) }).collect();
        self.keep(&format!("{first}.vectors.json"), &records);
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, StateError> {
    let failed = |source| StateError::Read { path: folder.to_path_buf(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(e) => return Err(failed(e)),
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// A digest of parts that cannot run into each other.
fn key(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_le_bytes());
        digest.update(part.as_bytes());
    }
    format!("{:x}", digest.finalize())
}

/// A language model whose replies are recorded.
pub struct RecordedModel<'a> {
    /// Who is asked.
    pub model: &'a dyn LanguageModel,
    /// Where its replies are kept.
    pub replies: &'a Replies,
}

impl RecordedModel<'_> {
    fn key_of(&self, prompt: &Prompt) -> String {
        let (schema, most) = (prompt.schema.to_string(), prompt.max_tokens.to_string());
        key(&[self.model.model(), &prompt.system, prompt.user.as_str(), prompt.schema_name, &schema, &most])
    }

    fn into_reply(&self, answer: Answer) -> Result<Reply, ProviderError> {
        let model = self.model.model().to_owned();
        match answer {
            Answer::Text { text, input_tokens, output_tokens } => {
                Ok(Reply { text, input_tokens, output_tokens })
            }
            Answer::CutOff { max_tokens } => Err(ProviderError::CutOff { model, max_tokens }),
            Answer::Malformed { detail } => Err(ProviderError::Malformed { model, detail }),
        }
    }
}

#[async_trait]
impl LanguageModel for RecordedModel<'_> {
    fn model(&self) -> &str {
        self.model.model()
    }

    async fn complete(&self, prompt: &Prompt) -> Result<Reply, ProviderError> {
        let key = self.key_of(prompt);
        let name = format!("{key}.chat.json");
        if let Some(answer) = self.replies.chats.get(&key) {
            self.replies.used_again.fetch_add(1, Ordering::Relaxed);
            self.replies.keep(&name, answer);
            return self.into_reply(answer.clone());
        }
        let outcome = self.model.complete(prompt).await;
        let answer = match &outcome {
            Ok(Reply { text, input_tokens, output_tokens }) => Answer::Text {
                text: text.clone(),
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
            },
            Err(ProviderError::CutOff { max_tokens, .. }) => Answer::CutOff { max_tokens: *max_tokens },
            Err(ProviderError::Malformed { detail, .. }) => Answer::Malformed { detail: detail.clone() },
            Err(_) => return outcome,
        };
        self.replies.keep(&name, &answer);
        outcome
    }

    async fn release(&self) {
        self.model.release().await;
    }
}

/// An embedder whose vectors are recorded.
pub struct RecordedEmbedder<'a> {
    /// Who embeds.
    pub embedder: &'a dyn Embedder,
    /// Where its vectors are kept.
    pub replies: &'a Replies,
}

impl RecordedEmbedder<'_> {
    async fn embed_and_keep(&self, due: &[(String, Outbound)]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let texts: Vec<Outbound> = due.iter().map(|(_, text)| text.clone()).collect();
        let vectors = self.embedder.embed(&texts).await?;
        let keys = due.iter().map(|(key, _)| key.clone());
        self.replies.keep_vectors(&keys.zip(vectors.iter().map(Vec::as_slice)).collect::<Vec<_>>());
        Ok(vectors)
    }
}

#[async_trait]
impl Embedder for RecordedEmbedder<'_> {
    fn model(&self) -> &str {
        self.embedder.model()
    }

    fn texts_a_request(&self) -> usize {
        self.embedder.texts_a_request()
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let keys: Vec<String> = texts.iter().map(|text| key(&[self.model(), text.as_str()])).collect();
        let mut due: Vec<(String, Outbound)> = Vec::new();
        let mut known: HashMap<&str, Vec<f32>> = HashMap::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for (key, text) in keys.iter().zip(texts) {
            match self.replies.vectors.get(key) {
                Some(vector) => {
                    known.insert(key, vector.clone());
                }
                None if seen.insert(key) => due.push((key.clone(), text.clone())),
                None => {}
            }
        }
        self.replies.used_again.fetch_add(known.len() as u32, Ordering::Relaxed);
        self.replies.keep_vectors(
            &known.iter().map(|(key, vector)| ((*key).to_owned(), vector.as_slice())).collect::<Vec<_>>(),
        );
        let at_once = self.texts_a_request().clamp(1, RECORDED_AT_ONCE);
        let asked =
            futures::future::join_all(due.chunks(at_once).map(|part| self.embed_and_keep(part))).await;
        for (part, vectors) in due.chunks(at_once).zip(asked) {
            known.extend(part.iter().map(|(key, _)| key.as_str()).zip(vectors?));
        }
        Ok(keys.iter().map(|key| known[key.as_str()].clone()).collect())
    }

    async fn version(&self) -> Option<String> {
        self.embedder.version().await
    }

    async fn release(&self) {
        self.embedder.release().await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixtures::prompt;
    use super::super::replay::Replay;
    use super::*;
    use crate::config::MaskPii;
    use crate::privacy::Privacy;

    /// Counts how often it is asked for a text.
    #[derive(Default)]
    struct Counting {
        asked: AtomicU32,
        fails_at: Option<&'static str>,
    }

    #[async_trait]
    impl Embedder for Counting {
        fn model(&self) -> &str {
            "counting"
        }

        fn texts_a_request(&self) -> usize {
            2
        }

        async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
            if texts.iter().any(|text| Some(text.as_str()) == self.fails_at) {
                return Err(ProviderError::Unusable { model: "counting".into(), detail: "broken".into() });
            }
            self.asked.fetch_add(texts.len() as u32, Ordering::Relaxed);
            Ok(texts.iter().map(|text| vec![text.as_str().len() as f32, 0.1]).collect())
        }
    }

    fn outbound(texts: &[&str]) -> Vec<Outbound> {
        let privacy = Privacy::new(MaskPii::Never, false);
        texts.iter().map(|text| privacy.to_embed(text)).collect()
    }

    #[tokio::test]
    async fn a_reply_that_had_arrived_is_not_asked_for_again() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let cut_off = ProviderError::CutOff { model: "replay".into(), max_tokens: 9 };
        let gone = ProviderError::Unusable { model: "replay".into(), detail: "no key".into() };
        let replay = Replay::in_order(["one"]).then(Err(cut_off)).then(Err(gone));
        let replies = Replies::open(first.clone(), &[]).unwrap();
        let model = RecordedModel { model: &replay, replies: &replies };
        assert_eq!(model.complete(&prompt("a")).await.unwrap().text, "one");
        assert!(matches!(
            model.complete(&prompt("b")).await,
            Err(ProviderError::CutOff { max_tokens: 9, .. })
        ));
        assert!(matches!(model.complete(&prompt("c")).await, Err(ProviderError::Unusable { .. })));

        // The next run knows a and b; c was never answered.
        let replay = Replay::in_order(["three"]);
        let replies = Replies::open(second.clone(), &[first]).unwrap();
        let model = RecordedModel { model: &replay, replies: &replies };
        assert_eq!(model.complete(&prompt("a")).await.unwrap().text, "one");
        assert!(matches!(
            model.complete(&prompt("b")).await,
            Err(ProviderError::CutOff { max_tokens: 9, .. })
        ));
        assert_eq!(model.complete(&prompt("c")).await.unwrap().text, "three");
        assert_eq!((replay.prompts().len(), replies.used_again()), (1, 2));

        // What was used again is the second run's own now.
        let replay = Replay::new();
        let replies = Replies::open(dir.path().join("third"), &[second]).unwrap();
        let model = RecordedModel { model: &replay, replies: &replies };
        assert_eq!(model.complete(&prompt("a")).await.unwrap().text, "one");
        assert_eq!(replay.prompts().len(), 0);
    }

    #[tokio::test]
    async fn vectors_that_had_arrived_come_back_bit_for_bit_also_when_a_later_request_failed() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let texts = outbound(&["a", "bb", "ccc", "dddd", "a"]);
        let broken = Counting { fails_at: Some("dddd"), ..Counting::default() };
        let replies = Replies::open(first.clone(), &[]).unwrap();
        RecordedEmbedder { embedder: &broken, replies: &replies }.embed(&texts).await.unwrap_err();
        assert_eq!(broken.asked.load(Ordering::Relaxed), 2);

        let whole = Counting::default();
        let replies = Replies::open(second, &[first]).unwrap();
        let embedder = RecordedEmbedder { embedder: &whole, replies: &replies };
        let vectors = embedder.embed(&texts).await.unwrap();
        assert_eq!(vectors, [[1.0, 0.1], [2.0, 0.1], [3.0, 0.1], [4.0, 0.1], [1.0, 0.1]]);
        assert_eq!((whole.asked.load(Ordering::Relaxed), replies.used_again()), (2, 2));
    }

    #[tokio::test]
    async fn a_damaged_record_is_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let replay = Replay::in_order(["one"]);
        let replies = Replies::open(dir.path().to_path_buf(), &[]).unwrap();
        RecordedModel { model: &replay, replies: &replies }.complete(&prompt("a")).await.unwrap();
        for path in files(dir.path()).unwrap() {
            std::fs::write(path, "{\"text\":").unwrap();
        }
        let replay = Replay::in_order(["again"]);
        let replies = Replies::open(dir.path().join("next"), &[dir.path().to_path_buf()]).unwrap();
        let model = RecordedModel { model: &replay, replies: &replies };
        assert_eq!(model.complete(&prompt("a")).await.unwrap().text, "again");
    }
}
