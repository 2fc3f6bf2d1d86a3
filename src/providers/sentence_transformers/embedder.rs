//! The embedder: texts are sorted by length, go through the encoder in batches, and come back in their order as unit vectors.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sha2::{Digest, Sha256};

use super::OpenError;
use super::description::{self, Description};
use super::encoder::Encoder;
use super::words::{Words, cjk};
use crate::language::Language;
use crate::privacy::Outbound;
use crate::providers::{Embedder, ProviderError, normalise};

/// Tokens of a batch, padding included; one text may be longer. What a batch takes in memory grows with it.
const BATCH: usize = 1024;

/// How much of each end of the weights tells one model from another.
const SAMPLE: u64 = 1 << 20;

/// The embedder. It reaches no network and spends no budget; it computes on all cores, or on as many as
/// `RAYON_NUM_THREADS` says.
#[derive(Debug, Clone)]
pub struct SentenceTransformer(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    name: String,
    version: String,
    words: Words,
    encoder: Encoder,
    threads: ThreadPool,
    /// Languages that the vocabulary has no words for, once that was asked.
    unread: OnceLock<Vec<Language>>,
    /// Those of them that texts came in.
    met: Mutex<BTreeSet<Language>>,
}

impl SentenceTransformer {
    /// Reads the model from its folder; `name` is what the operator calls it.
    ///
    /// # Errors
    /// When a file is missing, damaged, or asks for something that is not known here.
    pub fn open(name: &str, folder: &Path) -> Result<Self, OpenError> {
        let description = Description::read(folder, name)?;
        let version = version(folder, &description)
            .map_err(|error| OpenError::Unreadable { path: folder.to_owned(), why: error.to_string() })?;
        let threads = ThreadPoolBuilder::new().thread_name(|nth| format!("embed-{nth}")).build();
        let threads = threads.map_err(|error| OpenError::Unreadable {
            path: folder.to_owned(),
            why: format!("no threads can be started: {error}"),
        })?;
        Ok(Self(Arc::new(Loaded {
            name: name.to_owned(),
            version,
            words: Words::read(&description)?,
            encoder: Encoder::read(&description)?,
            threads,
            unread: OnceLock::new(),
            met: Mutex::new(BTreeSet::new()),
        })))
    }

    /// The unit vectors of texts; a blank text has one, too.
    ///
    /// # Errors
    /// When the model cannot compute one.
    pub fn vectors<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.0.threads.install(|| self.0.vectors(texts))
    }

    /// Notes texts in a language that the vocabulary has no words for, and says so the first time.
    fn meet<T: AsRef<str>>(&self, texts: &[T]) {
        let loaded = &self.0;
        for language in texts.iter().filter_map(|text| cjk(text.as_ref())).collect::<BTreeSet<_>>() {
            if !loaded.unread.get_or_init(|| loaded.words.unread()).contains(&language) {
                continue;
            }
            let is_new = loaded.met.lock().unwrap_or_else(PoisonError::into_inner).insert(language);
            if is_new {
                tracing::warn!("{}", told(&loaded.name, language));
            }
        }
    }
}

/// What the operator is told of a language that a model does not read.
fn told(model: &str, language: Language) -> String {
    let language = match language {
        Language::Chinese => "Chinese",
        Language::Japanese => "Japanese",
        Language::Korean => "Korean",
        Language::Latin | Language::Other => "this language",
    };
    format!(
        "the vocabulary of {model} has no words for {language}: it compares such texts by little more than their length; \
         take a model of many languages, such as DREAMER_EMBEDDING_PROVIDER=builtin or \
         ST_MODEL_NAME=intfloat/multilingual-e5-small"
    )
}

impl Loaded {
    fn vectors<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let unusable = |detail: String| ProviderError::Unusable { model: self.name.clone(), detail };
        let ids: Vec<Vec<u32>> = texts
            .iter()
            .map(|text| self.words.ids(text.as_ref()))
            .collect::<Result<_, _>>()
            .map_err(unusable)?;
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|place| ids[*place].len());
        let mut vectors = vec![Vec::new(); ids.len()];
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch(rest, &ids));
            rest = behind;
            let pieces: Vec<&[u32]> = batch.iter().map(|place| ids[*place].as_slice()).collect();
            let made = self.encoder.vectors(&pieces).map_err(|error| unusable(error.to_string()))?;
            for (place, mut vector) in batch.iter().zip(made) {
                if !normalise(&mut vector) {
                    let detail = "a text has no direction: the weights are damaged".to_owned();
                    return Err(ProviderError::Malformed { model: self.name.clone(), detail });
                }
                vectors[*place] = vector;
            }
        }
        Ok(vectors)
    }
}

/// How many of these texts, which become longer and longer, fit in one batch; at least one.
fn batch(order: &[usize], ids: &[Vec<u32>]) -> usize {
    let fits = |(nth, place): &(usize, &usize)| (nth + 1) * ids[**place].len() <= BATCH;
    order.iter().enumerate().take_while(fits).count().max(1)
}

/// What tells these weights from others of the same name: a digest of the files that describe them, and of both ends of the
/// weights themselves, of which a model that was trained further changes every part.
fn version(folder: &Path, of: &Description) -> io::Result<String> {
    let mut hash = Sha256::new();
    for name in [description::CONFIG, description::MODULES, description::LENGTHS, description::PROMPTS] {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.update(format!("{:?} {} {}", of.pooling, of.max_tokens, of.prefix));
    for path in of.dense.iter().map(|layer| &layer.weights).chain([&of.weights, &of.tokenizer]) {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        hash.update(length.to_le_bytes());
        let mut bytes = Vec::new();
        (&file).take(SAMPLE).read_to_end(&mut bytes)?;
        file.seek(SeekFrom::Start(length.saturating_sub(SAMPLE)))?;
        file.read_to_end(&mut bytes)?;
        hash.update(bytes);
    }
    let digest = format!("{:x}", hash.finalize());
    Ok(digest[..16].to_owned())
}

#[async_trait]
impl Embedder for SentenceTransformer {
    fn model(&self) -> &str {
        &self.0.name
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let texts: Vec<String> = texts.iter().map(|text| text.as_str().to_owned()).collect();
        let model = self.clone();
        // Tens of milliseconds a text: too long for the threads on which everything else waits.
        let work = tokio::task::spawn_blocking(move || {
            model.meet(&texts);
            model.vectors(&texts)
        });
        work.await.map_err(|error| ProviderError::Unusable {
            model: self.0.name.clone(),
            detail: error.to_string(),
        })?
    }

    async fn version(&self) -> Option<String> {
        Some(self.0.version.clone())
    }

    fn warnings(&self) -> Vec<String> {
        let met = self.0.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.iter().map(|language| told(&self.0.name, *language)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::PathBuf;

    use serde::Deserialize;

    use super::super::{DEFAULT, THRESHOLDS, fixtures};
    use super::*;
    use crate::config::{Layers, models_dir};
    use crate::nrem::cluster::dot;

    /// The small model of a family, with files of its own.
    fn small(family: &str, files: &[(&str, &str)]) -> SentenceTransformer {
        let dir = tempfile::tempdir().unwrap();
        fixtures::write(dir.path(), family);
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        SentenceTransformer::open("small", dir.path()).unwrap()
    }

    fn one(model: &SentenceTransformer, text: &str) -> Vec<f32> {
        model.vectors(&[text]).unwrap().remove(0)
    }

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn a_vector_does_not_depend_on_the_texts_beside_it_nor_on_their_order() {
        let model = small("bert", &[]);
        let long = "the user likes tea ".repeat(40);
        let texts = ["tea", long.as_str(), "", "the user likes coffee", " ", "用户喜欢茶", "tea"];
        let many: Vec<&str> = texts.iter().copied().cycle().take(700).collect();
        let together = model.vectors(&many).unwrap();
        assert!(batch(&[0, 1], &[vec![1; 600], vec![1; 600]]) == 1, "they go in several batches");
        for (nth, vector) in together.iter().enumerate() {
            assert!(close(vector, &one(&model, many[nth])), "{nth}");
            assert!((dot(vector, vector) - 1.0).abs() < 1e-5);
        }
        assert!(!close(&together[0], &together[3]) && close(&together[2], &together[4]));
        assert!(model.vectors::<&str>(&[]).unwrap().is_empty());
    }

    #[test]
    fn the_three_families_compute_the_same_by_their_own_names() {
        let models = ["bert", "distilbert", "xlm-roberta"].map(|family| small(family, &[]));
        let texts = ["tea", "the user likes tea", "the user likes coffee and tea"];
        let [bert, distil, roberta] = models.map(|model| model.vectors(&texts).unwrap());
        for nth in 0..texts.len() {
            assert!(close(&bert[nth], &distil[nth]), "{:?} {:?}", bert[nth], distil[nth]);
            assert!(close(&bert[nth], &roberta[nth]), "{:?} {:?}", bert[nth], roberta[nth]);
        }
    }

    #[test]
    fn the_models_length_counts_and_not_the_one_it_was_trained_with() {
        let words = |count: usize| vec!["tea"; count].join(" ");
        // The tokenizer's file says 5 ids, padded to 9; the positions allow 34.
        let model = small("bert", &[]);
        assert!(!close(&one(&model, &words(4)), &one(&model, &words(5))));
        assert!(close(&one(&model, &words(32)), &one(&model, &words(90))));
        let short = small("bert", &[(description::LENGTHS, r#"{"max_seq_length": 6}"#)]);
        assert!(close(&one(&short, &words(4)), &one(&short, &words(5))));
    }

    #[test]
    fn pooling_prefix_and_case_are_the_models() {
        let (mean, text) = (small("bert", &[]), "the user likes tea");
        let first = small("bert", &[("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true}"#)]);
        assert!(!close(&one(&mean, text), &one(&first, text)));
        let both = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}"#;
        let both = one(&small("bert", &[("1_Pooling/config.json", both)]), text);
        assert_eq!(both.len(), 2 * one(&mean, text).len());
        let prompts = r#"{"prompts": {"q": "query: "}, "default_prompt_name": "q"}"#;
        let prompted = small("bert", &[(description::PROMPTS, prompts)]);
        assert!(close(&one(&prompted, "tea"), &one(&mean, "query: tea")));
        assert!(!close(&one(&prompted, "tea"), &one(&mean, "tea")));
    }

    #[test]
    fn a_layer_behind_the_pooling_changes_length_and_direction() {
        let dir = tempfile::tempdir().unwrap();
        fixtures::write(dir.path(), "bert");
        let kinds = ["Transformer", "Pooling", "Dense", "Normalize"];
        let paths = ["", "1_Pooling", "2_Dense", "3_Normalize"];
        let modules: Vec<_> = kinds
            .iter()
            .zip(paths)
            .map(|(kind, path)| serde_json::json!({ "path": path, "type": format!("sentence_transformers.models.{kind}") }))
            .collect();
        for folder in &paths[1..3] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("modules.json"), serde_json::to_vec(&modules).unwrap()).unwrap();
        fs::write(dir.path().join("1_Pooling/config.json"), r#"{"pooling_mode": "mean"}"#).unwrap();
        let config = r#"{"in_features": 8, "out_features": 2, "bias": false,
            "activation_function": "torch.nn.modules.linear.Identity"}"#;
        fs::write(dir.path().join("2_Dense/config.json"), config).unwrap();
        // It takes the first and the third number.
        let mut matrix = [0.0_f32; 16];
        (matrix[0], matrix[8 + 2]) = (1.0, 1.0);
        let bytes: Vec<u8> = matrix.iter().flat_map(|x| x.to_le_bytes()).collect();
        let weights = fixtures::safetensors(&[("linear.weight", "F32", &[2, 8], &bytes)]);
        fs::write(dir.path().join("2_Dense/model.safetensors"), weights).unwrap();
        let model = SentenceTransformer::open("small", dir.path()).unwrap();
        let (found, plain) = (one(&model, "tea"), one(&small("bert", &[]), "tea"));
        let mut expected = vec![plain[0], plain[2]];
        assert!(normalise(&mut expected) && close(&found, &expected), "{found:?} {expected:?}");
    }

    #[test]
    fn weights_that_do_not_fit_their_description_are_told_by_file_and_tensor() {
        let dir = tempfile::tempdir().unwrap();
        fixtures::write(dir.path(), "bert");
        let config = fs::read_to_string(dir.path().join("config.json")).unwrap();
        let told = |config: &str| {
            fs::write(dir.path().join("config.json"), config).unwrap();
            SentenceTransformer::open("small", dir.path()).unwrap_err().to_string()
        };
        let deeper = told(&config.replace("\"num_hidden_layers\":2", "\"num_hidden_layers\":3"));
        assert!(deeper.contains("model.safetensors") && deeper.contains("encoder.layer.2."), "{deeper}");
        let longer =
            told(&config.replace("\"max_position_embeddings\":34", "\"max_position_embeddings\":99"));
        assert!(longer.contains("position_embeddings") && longer.contains("[34, 8]"), "{longer}");
        let fewer = told(&config.replace("\"vocab_size\":63", "\"vocab_size\":60"));
        assert!(fewer.contains("tokenizer.json") && fewer.contains("another model"), "{fewer}");
        fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
        assert!(told(&config).contains("tokenizer.json"));
    }

    #[tokio::test]
    async fn a_language_without_words_is_told_once_and_only_when_met() {
        let model = small("bert", &[]);
        let privacy = crate::privacy::Privacy::new(crate::config::MaskPii::External, false);
        let embed = async |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| privacy.to_embed(text)).collect();
            model.embed(&texts).await.unwrap();
        };
        embed(&["the user likes tea", "Tea is 茶 in Chinese and the user likes it"]).await;
        assert_eq!(model.warnings(), [""; 0]);
        embed(&["用户喜欢茶", "用户喜欢咖啡"]).await;
        embed(&["用户喜欢猫", "사용자는 차를 좋아합니다"]).await;
        let told = model.warnings();
        assert!(told.len() == 2 && told[0].contains("small has no words for Chinese"), "{told:?}");
        assert!(told[1].contains("Korean"), "{told:?}");
    }

    #[tokio::test]
    async fn other_weights_are_another_version() {
        let version = async |files: &[(&str, &str)]| small("bert", files).version().await.unwrap();
        let plain = version(&[]).await;
        assert_eq!(plain, version(&[]).await);
        assert_ne!(plain, version(&[("1_Pooling/config.json", r#"{"pooling_mode": "max"}"#)]).await);
        assert_ne!(plain, small("xlm-roberta", &[]).version().await.unwrap());
    }

    /// Texts in six scripts, blank ones among them, each with the vector of the original program, rounded to six places.
    const REFERENCE: &str = include_str!("../../../tests/fixtures/minilm/reference.jsonl");
    const PAIRS: &str = include_str!("../pairs.tsv");

    #[derive(Deserialize)]
    struct Row {
        text: String,
        vector: Vec<f32>,
    }

    /// The model of whoever runs the tests. Without it a test says loudly that it was skipped, and fails where
    /// `DREAMER_REQUIRE_MODEL` is set.
    fn minilm() -> Option<SentenceTransformer> {
        let layers = Layers {
            environment: std::env::vars().collect(),
            user_home: std::env::home_dir(),
            ..Layers::of(&[])
        };
        let folder: PathBuf = models_dir(&layers).join(DEFAULT);
        if !folder.is_dir() {
            let told = format!("{DEFAULT} is not in {}: dreamer model pull {DEFAULT}", folder.display());
            assert!(
                std::env::var_os("DREAMER_REQUIRE_MODEL").is_none(),
                "DREAMER_REQUIRE_MODEL is set and {told}"
            );
            // Not by a macro: what those say is shown of failed tests only.
            io::stderr().write_all(format!("SKIPPED: {told}\n").as_bytes()).unwrap();
            return None;
        }
        Some(SentenceTransformer::open(DEFAULT, &folder).unwrap())
    }

    #[test]
    fn the_vectors_are_those_of_the_original_program() {
        let Some(model) = minilm() else { return };
        let rows: Vec<Row> = REFERENCE.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 16);
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let together = model.vectors(&texts).unwrap();
        for (row, vector) in rows.iter().zip(&together) {
            let cosine = dot(vector, &row.vector) / dot(&row.vector, &row.vector).sqrt();
            assert!(cosine >= 0.9999 && vector.len() == 384, "{:?}: {cosine}", row.text);
            assert!(close(vector, &one(&model, &row.text)), "{:?} alone and in a batch", row.text);
        }
    }

    #[test]
    fn minilm_reads_no_chinese_japanese_or_korean() {
        let Some(model) = minilm() else { return };
        assert_eq!(model.0.words.unread(), [Language::Chinese, Language::Japanese, Language::Korean]);
    }

    #[test]
    fn the_thresholds_do_on_the_english_pairs_what_their_table_says() {
        let Some(model) = minilm() else { return };
        let counts = |threshold: f32| {
            ["dup", "conf", "topic", "unrel"].map(|relation| {
                let rows = PAIRS.lines().map(|line| line.split('\t').collect::<Vec<_>>());
                rows.filter(|row| row[0] == relation && row[1] == "en")
                    .filter(|row| {
                        let vectors = model.vectors(&row[2..4]).unwrap();
                        dot(&vectors[0], &vectors[1]) >= threshold
                    })
                    .count()
            })
        };
        let found = [THRESHOLDS.related, THRESHOLDS.cluster, THRESHOLDS.duplicate, 0.90].map(counts);
        assert_eq!(found, [[10, 10, 1, 0], [10, 9, 0, 0], [10, 8, 0, 0], [4, 3, 0, 0]]);
    }
}
