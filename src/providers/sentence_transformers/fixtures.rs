//! A model small enough to be written by a test: two layers, eight numbers a word, a vocabulary of letters and a few words,
//! weights from a fixed sequence.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::description::{CONFIG, TOKENIZER, WEIGHTS};

const WIDTH: usize = 8;
const INNER: usize = 16;
const POSITIONS: usize = 34;

/// A file of safetensors with these tensors: name, type, shape and bytes.
pub(crate) fn safetensors(tensors: &[(&str, &str, &[usize], &[u8])]) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut data = Vec::new();
    for (name, kind, shape, bytes) in tensors {
        let end = data.len() + bytes.len();
        header.insert(
            (*name).into(),
            json!({ "dtype": kind, "shape": shape, "data_offsets": [data.len(), end] }),
        );
        data.extend_from_slice(bytes);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// How the tensors of a family are called, from the names of BERT.
fn renamed(name: &str, family: &str) -> Option<String> {
    let name = match family {
        "distilbert" if name.contains("token_type") => return None,
        "distilbert" => name
            .replace("encoder.layer", "transformer.layer")
            .replace("attention.self.query", "attention.q_lin")
            .replace("attention.self.key", "attention.k_lin")
            .replace("attention.self.value", "attention.v_lin")
            .replace("attention.output.dense", "attention.out_lin")
            .replace("attention.output.LayerNorm", "sa_layer_norm")
            .replace("intermediate.dense", "ffn.lin1")
            .replace("output.dense", "ffn.lin2")
            .replace("output.LayerNorm", "output_layer_norm"),
        "xlm-roberta" => format!("roberta.{name}"),
        _ => name.to_owned(),
    };
    Some(name)
}

/// Numbers between -1 and 1 that are always the same.
struct Numbers(u32);

impl Numbers {
    fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next() * scale).collect()
    }
}

/// Writes the model as one of a family: `bert`, `distilbert` or `xlm-roberta`. All three make the same vectors: their types add
/// nothing, and the positions of the last begin where its padding ends.
pub(crate) fn write(folder: &Path, family: &str) {
    let words = vocabulary();
    let pad = if family == "xlm-roberta" { 1 } else { 0 };
    let config = match family {
        "distilbert" => json!({ "model_type": family, "vocab_size": words.len(), "dim": WIDTH, "n_layers": 2,
            "n_heads": 2, "hidden_dim": INNER, "activation": "gelu", "max_position_embeddings": POSITIONS, "pad_token_id": pad }),
        _ => {
            json!({ "model_type": family, "vocab_size": words.len(), "hidden_size": WIDTH, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": INNER, "hidden_act": "gelu",
            "max_position_embeddings": POSITIONS, "type_vocab_size": 1, "pad_token_id": pad, "layer_norm_eps": 1e-12 })
        }
    };
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join(CONFIG), config.to_string()).expect("a file");
    fs::write(folder.join(TOKENIZER), tokenizer(&words).to_string()).expect("a file");
    fs::write(folder.join(WEIGHTS), weights(family, words.len())).expect("a file");
}

/// Takes a tensor: its name, shape and numbers.
type Add<'a> = &'a mut dyn FnMut(String, &[usize], Vec<f32>);

fn weights(family: &str, words: usize) -> Vec<u8> {
    let mut numbers = Numbers(7);
    let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    let mut add =
        |name: String, shape: &[usize], numbers: Vec<f32>| tensors.push((name, shape.to_vec(), numbers));
    add("embeddings.word_embeddings.weight".into(), &[words, WIDTH], numbers.take(words * WIDTH, 1.0));
    let mut positions = numbers.take(POSITIONS * WIDTH, 0.3);
    if family == "xlm-roberta" {
        positions.rotate_right(2 * WIDTH);
    }
    add("embeddings.position_embeddings.weight".into(), &[POSITIONS, WIDTH], positions);
    add("embeddings.token_type_embeddings.weight".into(), &[1, WIDTH], vec![0.0; WIDTH]);
    let norms = ["attention.output.LayerNorm", "output.LayerNorm"];
    let linear = [
        ("attention.self.query", WIDTH, WIDTH),
        ("attention.self.key", WIDTH, WIDTH),
        ("attention.self.value", WIDTH, WIDTH),
        ("attention.output.dense", WIDTH, WIDTH),
        ("intermediate.dense", WIDTH, INNER),
        ("output.dense", INNER, WIDTH),
    ];
    let norm = |name: String, numbers: &mut Numbers, add: Add<'_>| {
        let gain = numbers.take(WIDTH, 0.2).into_iter().map(|x| 1.0 + x).collect();
        add(format!("{name}.weight"), &[WIDTH], gain);
        add(format!("{name}.bias"), &[WIDTH], numbers.take(WIDTH, 0.2));
    };
    norm("embeddings.LayerNorm".into(), &mut numbers, &mut add);
    for layer in 0..2 {
        for (name, from, to) in linear {
            let name = format!("encoder.layer.{layer}.{name}");
            add(format!("{name}.weight"), &[to, from], numbers.take(to * from, 0.6));
            add(format!("{name}.bias"), &[to], numbers.take(to, 0.2));
        }
        for name in norms {
            norm(format!("encoder.layer.{layer}.{name}"), &mut numbers, &mut add);
        }
    }
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .filter_map(|(name, shape, numbers)| {
            let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            Some((renamed(&name, family)?, shape, bytes))
        })
        .collect();
    let tensors: Vec<(&str, &str, &[usize], &[u8])> = bytes
        .iter()
        .map(|(name, shape, bytes)| (name.as_str(), "F32", shape.as_slice(), bytes.as_slice()))
        .collect();
    safetensors(&tensors)
}

fn vocabulary() -> BTreeMap<String, usize> {
    let marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ":", "query", "the", "user", "likes", "tea", "coffee"];
    let letters = ('a'..='z').flat_map(|c| [c.to_string(), format!("##{c}")]);
    marks.into_iter().map(str::to_owned).chain(letters).enumerate().map(|(id, word)| (word, id)).collect()
}

fn tokenizer(words: &BTreeMap<String, usize>) -> Value {
    let mark = |word: &str| json!({ "id": word, "ids": [words[word]], "tokens": [word] });
    let added: Vec<Value> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
        .into_iter()
        .map(|word| {
            json!({ "id": words[word], "content": word, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
        })
        .collect();
    json!({
        "version": "1.0",
        "truncation": { "max_length": 5, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": { "strategy": { "Fixed": 9 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]" },
        "added_tokens": added,
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "[CLS]": mark("[CLS]"), "[SEP]": mark("[SEP]") }
        },
        "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": words }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_in_the_folder_of_fixtures_is_the_small_one() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), "bert");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sentence-transformers");
        for name in [CONFIG, TOKENIZER, WEIGHTS] {
            let read = |folder: &Path| fs::read(folder.join(name)).expect("a file");
            assert!(read(dir.path()) == read(&kept), "{name}");
        }
    }
}
