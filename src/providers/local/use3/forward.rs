//! The forward pass: pieces of texts in, unit vectors out. Tokens of several texts go through the products together, so
//! that the matrices are read from memory once for all of them; a long text goes in stretches that overlap by what a
//! token sees of its neighbours, so that memory does not grow with it. A text's vector is the same in any company.

use std::io;
use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2};

use super::weights::{BRANCH, Branch, FEATURES, Weights, as_matrix};

/// Tokens that go through the products together; more need more memory and are not faster.
const TOKENS: usize = 1024;
/// Texts that go through the last layers together.
const TEXTS: usize = 64;
/// Tokens on either side that a token's features depend on: two passes over a window of five.
const SEEN: usize = 4;
/// Guards the norms against a division by zero.
const EPSILON: f32 = 1e-12;

/// A stretch of a text: the tokens themselves, and those around them that they see.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    text: usize,
    with_seen: Range<usize>,
    own: Range<usize>,
}

/// The vectors of texts that are given as pieces; a text has one piece at least.
///
/// # Errors
/// When the table of embeddings cannot be read.
pub(super) fn vectors(weights: &Weights, texts: &[Vec<u32>]) -> io::Result<Vec<Vec<f32>>> {
    let mut vectors = Vec::with_capacity(texts.len());
    for texts in texts.chunks(TEXTS) {
        let mut sums = vec![0.0; texts.len() * FEATURES];
        let mut batch: Vec<Stretch> = Vec::new();
        let mut tokens = 0;
        for stretch in texts.iter().enumerate().flat_map(|(text, ids)| stretches(text, ids.len())) {
            if tokens + stretch.with_seen.len() > TOKENS + 2 * SEEN {
                add_features(weights, texts, &batch, &mut sums)?;
                batch.clear();
                tokens = 0;
            }
            tokens += stretch.with_seen.len();
            batch.push(stretch);
        }
        add_features(weights, texts, &batch, &mut sums)?;
        let lengths: Vec<f32> = texts.iter().map(|ids| ids.len() as f32).collect();
        vectors.extend(last_layers(weights, &sums, &lengths));
    }
    Ok(vectors)
}

fn stretches(text: usize, length: usize) -> impl Iterator<Item = Stretch> {
    (0..length).step_by(TOKENS).map(move |begin| {
        let own = begin..(begin + TOKENS).min(length);
        let with_seen = own.start.saturating_sub(SEEN)..(own.end + SEEN).min(length);
        Stretch { text, with_seen, own }
    })
}

/// Adds the normalised features of every token to its text's sum.
fn add_features(
    weights: &Weights,
    texts: &[Vec<u32>],
    batch: &[Stretch],
    sums: &mut [f32],
) -> io::Result<()> {
    let ids: Vec<u32> =
        batch.iter().flat_map(|stretch| &texts[stretch.text][stretch.with_seen.clone()]).copied().collect();
    let embeddings = weights.embeddings(&ids)?;
    let mut branches: Vec<Vec<f32>> = weights.branches.iter().map(|b| projection(b, &embeddings)).collect();
    for token in 0..ids.len() {
        let mut row: Vec<&mut [f32]> =
            branches.iter_mut().map(|x| &mut x[token * BRANCH..(token + 1) * BRANCH]).collect();
        let (mean, deviation) = spread(row.iter().map(|part| &**part));
        for (part, branch) in row.iter_mut().zip(&weights.branches) {
            for ((x, gain), bias) in part.iter_mut().zip(&branch.gain).zip(&branch.bias) {
                *x = (*x - mean) / deviation * gain + bias;
            }
        }
    }
    let lengths: Vec<usize> = batch.iter().map(|stretch| stretch.with_seen.len()).collect();
    for (x, branch) in branches.iter_mut().zip(&weights.branches) {
        for (matrix, bias) in &branch.passes {
            pass(x, branch.window, &lengths, matrix, bias);
        }
    }
    let mut begin = 0;
    for stretch in batch {
        let sum = &mut sums[stretch.text * FEATURES..(stretch.text + 1) * FEATURES];
        let first = begin + stretch.own.start - stretch.with_seen.start;
        for token in first..first + stretch.own.len() {
            let embedding = embeddings.row(token);
            let embedding = embedding.as_slice().expect("rows lie together");
            let parts = std::iter::once(embedding)
                .chain(branches.iter().map(|x| &x[token * BRANCH..(token + 1) * BRANCH]));
            add_normalised(weights, parts, sum);
        }
        begin += stretch.with_seen.len();
    }
    Ok(())
}

fn projection(branch: &Branch, embeddings: &Array2<f32>) -> Vec<f32> {
    let mut x = product(embeddings.view(), &branch.projection);
    add_to_rows(&mut x, &branch.projection_bias);
    x.into_raw_vec_and_offset().0
}

/// x += relu(window · matrix + bias), where a token's window are the tokens around it, zeros beyond its stretch.
fn pass(x: &mut [f32], window: usize, lengths: &[usize], matrix: &Array2<f32>, bias: &[f32]) {
    let before = (window - 1) / 2;
    let mut windows = vec![0.0; x.len() * window];
    let mut begin = 0;
    for length in lengths {
        let end = begin + length;
        for token in begin..end {
            for place in 0..window {
                let Some(other) = (token + place).checked_sub(before) else { continue };
                if (begin..end).contains(&other) {
                    let to = (token * window + place) * BRANCH;
                    windows[to..to + BRANCH].copy_from_slice(&x[other * BRANCH..(other + 1) * BRANCH]);
                }
            }
        }
        begin = end;
    }
    let added = product(as_matrix(&windows, window * BRANCH), matrix);
    for (row, added) in x.chunks_exact_mut(BRANCH).zip(added.rows()) {
        for ((x, added), bias) in row.iter_mut().zip(added).zip(bias) {
            *x += (added + bias).max(0.0);
        }
    }
}

/// Mean and standard deviation of the numbers of one token.
fn spread<'a>(parts: impl Iterator<Item = &'a [f32]> + Clone) -> (f32, f32) {
    let count = parts.clone().map(<[f32]>::len).sum::<usize>() as f32;
    let mean = parts.clone().map(|part| part.iter().sum::<f32>()).sum::<f32>() / count;
    let squares = parts.map(|part| part.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>()).sum::<f32>();
    (mean, (squares / count + EPSILON).sqrt())
}

fn add_normalised<'a>(weights: &Weights, parts: impl Iterator<Item = &'a [f32]> + Clone, sum: &mut [f32]) {
    let (mean, deviation) = spread(parts.clone());
    let mut at = 0;
    for part in parts {
        let (gain, bias) = (&weights.gain[at..at + part.len()], &weights.bias[at..at + part.len()]);
        let sum = &mut sum[at..at + part.len()];
        for (((sum, x), gain), bias) in sum.iter_mut().zip(part).zip(gain).zip(bias) {
            *sum += (x - mean) / deviation * gain + bias;
        }
        at += part.len();
    }
}

/// The layers behind the sum over a text's tokens: unit vectors.
fn last_layers(weights: &Weights, sums: &[f32], lengths: &[f32]) -> Vec<Vec<f32>> {
    let (matrix, bias) = &weights.sum;
    let mut m = product(as_matrix(sums, FEATURES), matrix);
    for (mut row, length) in m.rows_mut().into_iter().zip(lengths) {
        for (x, bias) in row.iter_mut().zip(bias) {
            *x = (*x + length * bias) / length.sqrt();
        }
    }
    let y0 = relu(product(m.view(), &weights.d0));
    let y1 = relu(product(m.view(), &weights.p1) + product(y0.view(), &weights.d1));
    let y2 = relu(product(y1.view(), &weights.d2));
    let z = product(y1.view(), &weights.p3) + product(y2.view(), &weights.d3);
    let unit = |row: ndarray::ArrayView1<'_, f32>| {
        let row: Vec<f32> = row.iter().map(|x| x.tanh()).collect();
        let norm = row.iter().map(|x| x * x).sum::<f32>().max(EPSILON).sqrt();
        row.into_iter().map(|x| x / norm).collect()
    };
    z.rows().into_iter().map(unit).collect()
}

fn product(a: ArrayView2<'_, f32>, b: &Array2<f32>) -> Array2<f32> {
    let mut out = Array2::zeros((a.nrows(), b.ncols()));
    general_mat_mul(1.0, &a, b, 0.0, &mut out);
    out
}

fn relu(mut x: Array2<f32>) -> Array2<f32> {
    x.mapv_inplace(|x| x.max(0.0));
    x
}

fn add_to_rows(x: &mut Array2<f32>, bias: &[f32]) {
    for mut row in x.rows_mut() {
        for (x, bias) in row.iter_mut().zip(bias) {
            *x += bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_goes_in_stretches_that_own_each_token_once_and_see_their_neighbours() {
        let all: Vec<Stretch> = stretches(3, 2 * TOKENS + 1).collect();
        let own: Vec<usize> = all.iter().flat_map(|stretch| stretch.own.clone()).collect();
        assert_eq!(own, (0..2 * TOKENS + 1).collect::<Vec<_>>());
        let seen: Vec<_> = all.iter().map(|stretch| stretch.with_seen.clone()).collect();
        assert_eq!(
            seen,
            [0..TOKENS + SEEN, TOKENS - SEEN..2 * TOKENS + 1, 2 * TOKENS - SEEN..2 * TOKENS + 1]
        );
    }

    #[test]
    fn a_pass_sees_the_window_of_its_width_and_nothing_of_other_stretches() {
        // One number a token counts: its first. The matrix adds up the first numbers of a window.
        for (window, sums) in [
            (2, [1.0 + 2.0, 2.0 + 4.0, 4.0, 8.0 + 16.0, 16.0]),
            (3, [1.0 + 2.0, 1.0 + 2.0 + 4.0, 2.0 + 4.0, 8.0 + 16.0, 8.0 + 16.0]),
            (5, [7.0, 7.0, 7.0, 24.0, 24.0]),
        ] {
            let mut x = vec![0.0; 5 * BRANCH];
            for token in 0..5 {
                x[token * BRANCH] = f32::powi(2.0, token as i32);
            }
            let mut matrix = Array2::zeros((window * BRANCH, BRANCH));
            for place in 0..window {
                matrix[(place * BRANCH, 0)] = 1.0;
            }
            let mut bias = vec![-1.0; BRANCH];
            bias[0] = 0.5;
            pass(&mut x, window, &[3, 2], &matrix, &bias);
            let firsts: Vec<f32> = x.iter().step_by(BRANCH).copied().collect();
            let expected: Vec<f32> =
                (0..5).map(|token| f32::powi(2.0, token) + sums[token as usize] + 0.5).collect();
            assert_eq!(firsts, expected, "{window}");
            assert_eq!(x[1], 0.0, "below zero nothing is added");
        }
    }

    #[test]
    fn mean_and_deviation_are_of_all_parts_together() {
        let (mean, deviation) = spread([&[1.0, 2.0][..], &[3.0], &[6.0, 8.0]].into_iter());
        assert!((mean - 4.0).abs() < 1e-6 && (deviation - 6.8_f32.sqrt()).abs() < 1e-6);
    }
}
