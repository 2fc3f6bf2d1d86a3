//! The embedder's own source files, without the rest of Dreamer: what is measured is what a night runs.

#![allow(missing_docs, dead_code)]

#[path = "../../src/providers/local/use3/forward.rs"]
mod forward;
#[path = "../../src/providers/local/use3/normaliser.rs"]
mod normaliser;
#[path = "../../src/providers/local/use3/protobuf.rs"]
mod protobuf;
#[path = "../../src/providers/local/use3/sentencepiece.rs"]
mod sentencepiece;
#[path = "../../src/providers/local/use3/weights.rs"]
mod weights;

use std::path::Path;

use sentencepiece::Tokenizer;
use weights::{BRANCH, FEATURES, WIDTH, WINDOWS, Weights};

/// The model in a folder, as `dreamer model pull` leaves it.
pub struct Model {
    tokenizer: Tokenizer,
    weights: Weights,
}

impl Model {
    pub fn open(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let tokenizer = Tokenizer::read(&std::fs::read(folder.join("sp.model"))?)?;
        let weights = Weights::read(&std::fs::read(folder.join("matrices.f32"))?, &folder.join("table.u8"))?;
        Ok(Self { tokenizer, weights: weights.ok_or("the weights are damaged")? })
    }

    pub fn pieces(&self, text: &str) -> Vec<u32> {
        let mut ids = self.tokenizer.encode(text);
        ids.insert(0, 1);
        ids.push(2);
        ids
    }

    pub fn vectors(&self, texts: &[String]) -> std::io::Result<Vec<Vec<f32>>> {
        let pieces: Vec<_> = texts.iter().map(|text| self.pieces(text)).collect();
        forward::vectors(&self.weights, &pieces)
    }
}

/// Floating point operations of the products for so many tokens in so many texts.
pub fn operations(tokens: usize, texts: usize) -> u64 {
    let windows: usize = WINDOWS.iter().sum();
    let a_token = WIDTH * WINDOWS.len() * BRANCH + 2 * windows * BRANCH * BRANCH;
    let a_text = FEATURES * WIDTH + 2 * WIDTH * 320 + 320 * 320 + 2 * 320 * WIDTH + WIDTH * WIDTH;
    2 * (tokens * a_token + texts * a_text) as u64
}
