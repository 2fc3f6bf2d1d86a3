//! What a model's own files say of it: its family and measures, how words become one vector, how long a text may be,
//! and what is to stand before it. Nothing is computed here, and the weights are not read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::OpenError;

/// The file that says what a model is.
pub(super) const CONFIG: &str = "config.json";
/// The file of its vocabulary.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The file of its weights.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// The file that says in which steps a vector is made.
pub(super) const MODULES: &str = "modules.json";
/// The file that says how long a text may be.
pub(super) const LENGTHS: &str = "sentence_bert_config.json";
/// The file with what is to stand before a text.
pub(super) const PROMPTS: &str = "config_sentence_transformers.json";

/// The encoders that are known here. Their arithmetic is the same, the names of their tensors and their positions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Bert,
    /// Also XLM-RoBERTa and CamemBERT: positions are counted from behind the padding's id.
    Roberta,
    DistilBert,
}

/// What stands between the two products of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Gelu,
    /// By the hyperbolic tangent.
    GeluTanh,
    Relu,
}

/// How the vectors of words become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// That of the first token.
    First,
    Mean,
    Max,
    /// The sum by the root of the number of tokens.
    MeanSqrt,
}

/// A layer behind the pooling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DenseLayer {
    /// The file of its weights.
    pub(super) weights: PathBuf,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) has_bias: bool,
    pub(super) has_tanh: bool,
}

/// A model, as far as its files describe it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Description {
    pub(super) tokenizer: PathBuf,
    pub(super) weights: PathBuf,
    pub(super) family: Family,
    pub(super) vocabulary: usize,
    pub(super) width: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) inner: usize,
    pub(super) positions: usize,
    pub(super) types: usize,
    pub(super) padding: u32,
    pub(super) epsilon: f32,
    pub(super) activation: Activation,
    /// What is pooled, one after the other in one vector.
    pub(super) pooling: Vec<Pooling>,
    pub(super) dense: Vec<DenseLayer>,
    /// Tokens of a text, those of the model's own included; what is beyond is cut off, as the original program does.
    pub(super) max_tokens: usize,
    pub(super) lowercase: bool,
    /// What stands before every text.
    pub(super) prefix: String,
}

impl Description {
    /// How many numbers a vector has.
    pub(super) fn dimension(&self) -> usize {
        self.dense.last().map_or(self.width * self.pooling.len(), |layer| layer.to)
    }

    /// Reads what the files in a folder say. `name` is what the model was asked for by: some tell by it alone that they are of
    /// the e5 kind.
    ///
    /// # Errors
    /// When a file is missing or malformed, or the model needs something that is not known here.
    pub(super) fn read(folder: &Path, name: &str) -> Result<Self, OpenError> {
        let steps = Steps::read(folder)?;
        let config_path = steps.encoder.join(CONFIG);
        let config: Config = json(&config_path)?.ok_or_else(|| missing(&steps.encoder, CONFIG))?;
        let unsupported = |what: String| OpenError::Unsupported { path: config_path.clone(), what };
        let family = family(&config.model_type).map_err(unsupported)?;
        let activation = activation(&config.hidden_act).map_err(unsupported)?;
        if config.position_embedding_type != "absolute" {
            let what = format!("position_embedding_type is {:?}", config.position_embedding_type);
            return Err(unsupported(what));
        }
        if config.num_attention_heads == 0 || !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            return Err(unsupported("hidden_size cannot be shared among its attention heads".into()));
        }
        for file in [TOKENIZER, WEIGHTS] {
            if !steps.encoder.join(file).is_file() {
                return Err(missing(&steps.encoder, file));
            }
        }
        let lengths: Lengths = json(&steps.encoder.join(LENGTHS))?.unwrap_or_default();
        let offset = if family == Family::Roberta { config.pad_token_id as usize + 1 } else { 0 };
        let most = config.max_position_embeddings.saturating_sub(offset);
        let max_tokens = lengths.max_seq_length.unwrap_or(most).min(most);
        if max_tokens < 3 {
            return Err(unsupported(format!("it takes texts of {max_tokens} tokens alone")));
        }
        let prefix = prefix(folder, name, &config.name_or_path)?;
        Ok(Self {
            tokenizer: steps.encoder.join(TOKENIZER),
            weights: steps.encoder.join(WEIGHTS),
            family,
            vocabulary: config.vocab_size,
            width: config.hidden_size,
            layers: config.num_hidden_layers,
            heads: config.num_attention_heads,
            inner: config.intermediate_size,
            positions: config.max_position_embeddings,
            types: if family == Family::DistilBert { 0 } else { config.type_vocab_size },
            padding: config.pad_token_id,
            epsilon: config.layer_norm_eps as f32,
            activation,
            pooling: steps.pooling,
            dense: steps.dense,
            max_tokens,
            lowercase: lengths.do_lower_case,
            prefix,
        })
    }
}

/// `config.json`, by the names of BERT and those of DistilBERT.
#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    model_type: String,
    vocab_size: usize,
    #[serde(alias = "dim")]
    hidden_size: usize,
    #[serde(alias = "n_layers")]
    num_hidden_layers: usize,
    #[serde(alias = "n_heads")]
    num_attention_heads: usize,
    #[serde(alias = "hidden_dim")]
    intermediate_size: usize,
    #[serde(alias = "activation")]
    hidden_act: String,
    max_position_embeddings: usize,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default)]
    pad_token_id: u32,
    #[serde(default = "epsilon_of_bert")]
    layer_norm_eps: f64,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default, rename = "_name_or_path")]
    name_or_path: String,
}

fn epsilon_of_bert() -> f64 {
    1e-12
}

fn absolute() -> String {
    "absolute".into()
}

fn family(model_type: &str) -> Result<Family, String> {
    match model_type {
        "bert" => Ok(Family::Bert),
        "roberta" | "xlm-roberta" | "camembert" => Ok(Family::Roberta),
        "distilbert" => Ok(Family::DistilBert),
        other => Err(format!(
            "model_type is {other:?}, and this version knows bert, roberta, xlm-roberta, camembert and distilbert"
        )),
    }
}

fn activation(name: &str) -> Result<Activation, String> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        other => Err(format!("hidden_act is {other:?}, and this version knows gelu, gelu_new and relu")),
    }
}

/// `sentence_bert_config.json`.
#[derive(Debug, Default, Deserialize)]
struct Lengths {
    #[serde(default)]
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// A row of `modules.json`.
#[derive(Debug, Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// `1_Pooling/config.json`; newer ones name the way, older ones have a switch for each.
#[derive(Debug, Deserialize)]
struct PoolingConfig {
    #[serde(default)]
    pooling_mode: Option<String>,
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default)]
    pooling_mode_weightedmean_tokens: bool,
    #[serde(default)]
    pooling_mode_lasttoken: bool,
    /// Whether the tokens of a prompt are pooled with those of the text.
    #[serde(default = "yes")]
    include_prompt: bool,
}

/// `2_Dense/config.json`.
#[derive(Debug, Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    #[serde(default)]
    activation_function: String,
}

fn yes() -> bool {
    true
}

/// `config_sentence_transformers.json`.
#[derive(Debug, Default, Deserialize)]
struct Prompts {
    #[serde(default)]
    prompts: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    default_prompt_name: Option<String>,
}

/// In which steps a vector is made.
struct Steps {
    /// The folder of the encoder.
    encoder: PathBuf,
    pooling: Vec<Pooling>,
    dense: Vec<DenseLayer>,
}

impl Steps {
    fn read(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(MODULES);
        let Some(modules) = json::<Vec<Module>>(&path)? else {
            // An encoder alone: the original program takes the mean then.
            let pooling = match json(&folder.join("1_Pooling").join(CONFIG))? {
                Some(config) => pooling(config, &folder.join("1_Pooling").join(CONFIG))?,
                None => vec![Pooling::Mean],
            };
            return Ok(Self { encoder: folder.to_owned(), pooling, dense: Vec::new() });
        };
        let mut steps = Self { encoder: folder.to_owned(), pooling: vec![Pooling::Mean], dense: Vec::new() };
        for module in modules {
            let inside = Path::new(&module.path);
            if !inside.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
                let what = format!("the path {:?} leads out of the folder", module.path);
                return Err(OpenError::Unsupported { path, what });
            }
            let own = folder.join(inside);
            let config = own.join(CONFIG);
            match module.kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => steps.encoder = own,
                "Pooling" => {
                    let read = json(&config)?.ok_or_else(|| missing(&own, CONFIG))?;
                    steps.pooling = pooling(read, &config)?;
                }
                "Dense" => steps.dense.push(dense(&own)?),
                // Every vector is made one of length 1 at the end, as the table wants them.
                "Normalize" | "Dropout" => {}
                other => {
                    let what = format!("it needs the module {other}, which this version does not have");
                    return Err(OpenError::Unsupported { path, what });
                }
            }
        }
        Ok(steps)
    }
}

fn pooling(config: PoolingConfig, path: &Path) -> Result<Vec<Pooling>, OpenError> {
    let unsupported = |what: &str| OpenError::Unsupported { path: path.to_owned(), what: what.to_owned() };
    if !config.include_prompt {
        return Err(unsupported("it leaves the prompt out of the pooling (include_prompt is false)"));
    }
    if let Some(way) = config.pooling_mode {
        return match way.as_str() {
            "cls" => Ok(vec![Pooling::First]),
            "mean" => Ok(vec![Pooling::Mean]),
            "max" => Ok(vec![Pooling::Max]),
            "mean_sqrt_len_tokens" => Ok(vec![Pooling::MeanSqrt]),
            _ => Err(unsupported("its pooling_mode is none of cls, mean, max and mean_sqrt_len_tokens")),
        };
    }
    if config.pooling_mode_weightedmean_tokens || config.pooling_mode_lasttoken {
        return Err(unsupported("its pooling is none of cls, mean, max and mean_sqrt_len"));
    }
    let ways = [
        (config.pooling_mode_cls_token, Pooling::First),
        (config.pooling_mode_max_tokens, Pooling::Max),
        (config.pooling_mode_mean_tokens, Pooling::Mean),
        (config.pooling_mode_mean_sqrt_len_tokens, Pooling::MeanSqrt),
    ];
    let chosen: Vec<Pooling> = ways.into_iter().filter(|(is_on, _)| *is_on).map(|(_, way)| way).collect();
    if chosen.is_empty() { Err(unsupported("it names no way of pooling")) } else { Ok(chosen) }
}

fn dense(folder: &Path) -> Result<DenseLayer, OpenError> {
    let path = folder.join(CONFIG);
    let config: DenseConfig = json(&path)?.ok_or_else(|| missing(folder, CONFIG))?;
    let weights = folder.join(WEIGHTS);
    if !weights.is_file() {
        return Err(missing(folder, WEIGHTS));
    }
    let has_tanh = match config.activation_function.rsplit('.').next().unwrap_or_default() {
        "Tanh" => true,
        "Identity" | "" => false,
        other => {
            let what =
                format!("its activation_function is {other}, and this version knows Tanh and Identity");
            return Err(OpenError::Unsupported { path, what });
        }
    };
    let (from, to) = (config.in_features, config.out_features);
    Ok(DenseLayer { weights, from, to, has_bias: config.bias, has_tanh })
}

/// What stands before every text: the model's default prompt; else, of the e5 kind, what its makers want before texts that
/// are compared with each other. Both sides of a comparison are memories here, so both get the same.
fn prefix(folder: &Path, name: &str, trained_as: &str) -> Result<String, OpenError> {
    let path = folder.join(PROMPTS);
    let prompts: Prompts = json(&path)?.unwrap_or_default();
    if let Some(chosen) = prompts.default_prompt_name {
        return prompts.prompts.get(&chosen).cloned().ok_or_else(|| OpenError::Unsupported {
            path,
            what: format!("its default_prompt_name is {chosen:?}, and its prompts hold none of this name"),
        });
    }
    let words = |name: &str| -> Vec<String> {
        let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
        last.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect()
    };
    let has = |word: &str| [name, trained_as].iter().any(|name| words(name).iter().any(|own| own == word));
    Ok(match (has("e5"), has("instruct")) {
        (true, true) => "Instruct: Retrieve semantically similar text.\nQuery: ".into(),
        (true, false) => prompts.prompts.get("query").cloned().unwrap_or_else(|| "query: ".into()),
        (false, _) => String::new(),
    })
}

/// A file as it should be; none where there is no such file.
fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, OpenError> {
    let unreadable = |why: String| OpenError::Unreadable { path: path.to_owned(), why };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

fn missing(folder: &Path, file: &'static str) -> OpenError {
    let other = ["pytorch_model.bin", "model.safetensors.index.json", "tf_model.h5", "onnx/model.onnx"];
    let instead = other.into_iter().find(|other| file == WEIGHTS && folder.join(other).is_file());
    OpenError::Missing { folder: folder.to_owned(), file, instead }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BERT: &str = r#"{"model_type": "bert", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu", "max_position_embeddings": 32,
        "type_vocab_size": 2, "pad_token_id": 0, "layer_norm_eps": 1e-12}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let whole = [(CONFIG, BERT), (TOKENIZER, "{}"), (WEIGHTS, "")];
        for (name, content) in whole.iter().chain(files) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    fn read(files: &[(&str, &str)], name: &str) -> Result<Description, OpenError> {
        Description::read(folder(files).path(), name)
    }

    fn told(files: &[(&str, &str)]) -> String {
        read(files, "m").unwrap_err().to_string()
    }

    #[test]
    fn an_encoder_alone_is_averaged_and_as_long_as_its_positions() {
        let found = read(&[], "m").unwrap();
        assert_eq!((found.family, found.pooling.as_slice()), (Family::Bert, &[Pooling::Mean][..]));
        assert_eq!((found.max_tokens, found.dimension(), found.prefix.as_str()), (32, 8, ""));
    }

    #[test]
    fn the_models_own_files_say_length_pooling_and_steps() {
        let modules = r#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
            {"path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}]"#;
        let dense = r#"{"in_features": 8, "out_features": 4, "bias": true,
            "activation_function": "torch.nn.modules.activation.Tanh"}"#;
        let found = read(
            &[
                (MODULES, modules),
                (
                    "1_Pooling/config.json",
                    r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
                ),
                ("2_Dense/config.json", dense),
                ("2_Dense/model.safetensors", ""),
                (LENGTHS, r#"{"max_seq_length": 20, "do_lower_case": true}"#),
            ],
            "m",
        )
        .unwrap();
        assert_eq!((found.pooling.as_slice(), found.max_tokens), (&[Pooling::First][..], 20));
        assert!(found.lowercase && found.dense[0].has_tanh);
        assert_eq!(found.dimension(), 4);
        let newer = read(&[("1_Pooling/config.json", r#"{"pooling_mode": "max"}"#)], "m").unwrap();
        assert_eq!(newer.pooling, [Pooling::Max]);
    }

    #[test]
    fn a_length_beyond_the_positions_is_cut_to_them() {
        let roberta = BERT
            .replace(r#""bert""#, r#""xlm-roberta""#)
            .replace(r#""pad_token_id": 0"#, r#""pad_token_id": 1"#);
        let found = read(&[(CONFIG, &roberta), (LENGTHS, r#"{"max_seq_length": 512}"#)], "m").unwrap();
        assert_eq!((found.family, found.max_tokens, found.padding), (Family::Roberta, 30, 1));
        assert_eq!(read(&[(LENGTHS, r#"{"max_seq_length": null}"#)], "m").unwrap().max_tokens, 32);
    }

    #[test]
    fn distilbert_is_read_by_its_own_names() {
        let config = r#"{"model_type": "distilbert", "vocab_size": 9, "dim": 8, "n_layers": 2, "n_heads": 2,
            "hidden_dim": 16, "activation": "gelu", "max_position_embeddings": 32, "pad_token_id": 0}"#;
        let found = read(&[(CONFIG, config)], "m").unwrap();
        assert_eq!((found.family, found.width, found.inner, found.types), (Family::DistilBert, 8, 16, 0));
    }

    #[test]
    fn prompts_come_from_the_model_and_e5_has_its_own() {
        let default = r#"{"prompts": {"sts": "STS: ", "query": "Q: "}, "default_prompt_name": "sts"}"#;
        let none = r#"{"prompts": {"query": "Q: "}, "default_prompt_name": null}"#;
        for (files, name, prefix) in [
            (&[][..], "intfloat/multilingual-e5-small", "query: "),
            (&[], "/srv/models/e5-base-v2", "query: "),
            (
                &[],
                "intfloat/multilingual-e5-large-instruct",
                "Instruct: Retrieve semantically similar text.\nQuery: ",
            ),
            (&[], "all-MiniLM-L6-v2", ""),
            (&[], "some/made5", ""),
            (&[(PROMPTS, default)], "x", "STS: "),
            (&[(PROMPTS, default)], "x/e5-small", "STS: "),
            (&[(PROMPTS, none)], "x/e5-small", "Q: "),
            (&[(PROMPTS, none)], "x/minilm", ""),
        ] {
            assert_eq!(read(files, name).unwrap().prefix, prefix, "{name}");
        }
        let renamed =
            BERT.replace(r#""vocab_size""#, r#""_name_or_path": "intfloat/e5-small", "vocab_size""#);
        assert_eq!(read(&[(CONFIG, &renamed)], "/srv/model").unwrap().prefix, "query: ");
    }

    #[test]
    fn what_is_missing_or_not_known_is_named_with_its_file() {
        let bare = folder(&[]);
        fs::remove_file(bare.path().join(WEIGHTS)).unwrap();
        let of_bare = || Description::read(bare.path(), "m").unwrap_err().to_string();
        assert!(of_bare().contains("holds no model.safetensors"), "{}", of_bare());
        fs::write(bare.path().join("pytorch_model.bin"), "").unwrap();
        assert!(of_bare().contains("pytorch_model.bin"), "{}", of_bare());
        fs::remove_file(bare.path().join(CONFIG)).unwrap();
        assert!(of_bare().contains("holds no config.json"), "{}", of_bare());
        let mpnet = BERT.replace(r#""bert""#, r#""mpnet""#);
        let relative =
            BERT.replace(r#""pad_token_id""#, r#""position_embedding_type": "relative_key", "pad_token_id""#);
        let silu = BERT.replace(r#""gelu""#, r#""silu""#);
        let lstm = r#"[{"path": "1_LSTM", "type": "sentence_transformers.models.LSTM"}]"#;
        let out = r#"[{"path": "../x", "type": "sentence_transformers.models.Transformer"}]"#;
        for (files, part) in [
            (&[(CONFIG, mpnet.as_str())][..], "model_type is \"mpnet\""),
            (&[(CONFIG, &relative)], "relative_key"),
            (&[(CONFIG, &silu)], "hidden_act is \"silu\""),
            (&[(CONFIG, "{")], "config.json"),
            (&[(MODULES, lstm)], "the module LSTM"),
            (&[(MODULES, out)], "leads out of the folder"),
            (&[("1_Pooling/config.json", r#"{"pooling_mode_lasttoken": true}"#)], "1_Pooling/config.json"),
            (&[(PROMPTS, r#"{"prompts": {}, "default_prompt_name": "sts"}"#)], "\"sts\""),
            (&[(LENGTHS, r#"{"max_seq_length": 2}"#)], "2 tokens"),
        ] {
            let told = told(files);
            assert!(told.contains(part), "{told:?} lacks {part:?}");
        }
    }
}
