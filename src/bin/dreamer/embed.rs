//! `dreamer embed`: what the configured embedding model makes of texts.

use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::time::Instant;

use dreamer::config::Config;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::configured;
use dreamer::state::placeholder_key;
use serde_json::json;

use crate::failure::{Failure, print};

/// Prints the vectors of texts, or of the lines of stdin where none are given.
pub(crate) async fn show(config: &Config, texts: Vec<String>, json: bool) -> Result<u8, Failure> {
    config.check_embedder()?;
    let texts = match texts.is_empty() {
        true => io::stdin().lock().lines().collect::<Result<_, _>>().map_err(Failure::of_input)?,
        false => texts,
    };
    if texts.is_empty() {
        return Ok(0);
    }
    let privacy = placeholder_key::policy(config, rand::random())?;
    let words: Vec<_> = texts.iter().map(|text| privacy.to_embed(&privacy.to_store(text))).collect();
    let limits = Limits::new(config.max_calls, config.max_minutes, config.concurrency, Instant::now());
    let vectors = configured::embedder(config, Budget::new(limits))?.embed(&words).await?;
    if json {
        let line = |(text, vector)| json!({ "text": text, "vector": vector }).to_string() + "\n";
        return print(&texts.iter().zip(&vectors).map(line).collect::<String>()).map(|()| 0);
    }
    print(&(listing(&texts, &vectors) + &cosines(&vectors))).map(|()| 0)
}

/// A text and its vector each.
fn listing(texts: &[String], vectors: &[Vec<f32>]) -> String {
    let mut out = String::new();
    for (nth, (text, vector)) in texts.iter().zip(vectors).enumerate() {
        let norm = dot(vector, vector).sqrt();
        let numbers: Vec<String> = vector.iter().map(|number| format!("{number:.6}")).collect();
        let _ = writeln!(out, "{}  {text}", nth + 1);
        let _ = writeln!(out, "   {} numbers, norm {norm:.6}", vector.len());
        let _ = writeln!(out, "   {}", numbers.join(" "));
    }
    out
}

/// A row a text, with its cosines to itself and those before it.
fn cosines(vectors: &[Vec<f32>]) -> String {
    if vectors.len() < 2 {
        return String::new();
    }
    let mut out = "cosines\n".to_owned();
    for (nth, vector) in vectors.iter().enumerate() {
        let _ = write!(out, "{:>4}", nth + 1);
        for other in &vectors[..=nth] {
            let norms = (dot(vector, vector) * dot(other, other)).sqrt();
            let _ = write!(out, " {:>7.4}", if norms > 0.0 { dot(vector, other) / norms } else { 0.0 });
        }
        out.push('\n');
    }
    let head: String = (1..=vectors.len()).map(|nth| format!(" {nth:>7}")).collect();
    out + "    " + &head + "\n"
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_of_every_pair_whatever_the_norms() {
        let told = cosines(&[vec![2.0, 0.0], vec![3.0, 3.0], vec![0.0, 0.0]]);
        let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["1", "1.0000"]);
        assert_eq!(rows[2], ["2", "0.7071", "1.0000"]);
        assert_eq!(rows[3], ["3", "0.0000", "0.0000", "0.0000"]);
        assert_eq!(rows[4], ["1", "2", "3"]);
    }

    #[test]
    fn a_listing_has_each_text_with_its_length_and_norm() {
        let told = listing(&["hello".to_owned()], &[vec![0.6, 0.8]]);
        assert_eq!(told, "1  hello\n   2 numbers, norm 1.000000\n   0.600000 0.800000\n");
    }
}
