//! The arithmetic of BERT and its kin: words and positions become vectors, layers of attention mix them, pooling makes one
//! of them. 32-bit floats on the processor; `weights` reads the numbers, `description` says how many there are.

use candle_core::{D, DType, Device, Result as Computed, Tensor};
use candle_nn::ops::{layer_norm, softmax_last_dim};

use super::OpenError;
use super::description::{Activation, DenseLayer, Description, Family, Pooling};
use super::weights::Weights;

/// A matrix and what is added behind it.
#[derive(Debug)]
struct Linear {
    /// Turned, so that rows of inputs can be multiplied with it.
    matrix: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    fn forward(&self, rows: &Tensor) -> Computed<Tensor> {
        let product = rows.matmul(&self.matrix)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

#[derive(Debug)]
struct Norm {
    gain: Tensor,
    bias: Tensor,
    epsilon: f32,
}

impl Norm {
    fn forward(&self, rows: &Tensor) -> Computed<Tensor> {
        layer_norm(rows, &self.gain, &self.bias, self.epsilon)
    }
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    out_norm: Norm,
    up: Linear,
    down: Linear,
    down_norm: Norm,
}

/// An encoder with its pooling.
#[derive(Debug)]
pub(super) struct Encoder {
    words: Tensor,
    positions: Tensor,
    /// What is added to every word: all texts are of the first type.
    first_type: Option<Tensor>,
    norm: Norm,
    layers: Vec<Layer>,
    dense: Vec<(Linear, DenseLayer)>,
    heads: usize,
    activation: Activation,
    pooling: Vec<Pooling>,
    padding: u32,
    /// The position of a text's first token.
    first_position: u32,
}

/// What the tensors of a layer are called.
struct Names {
    layer: &'static str,
    attention: [&'static str; 4],
    attention_norm: &'static str,
    up: &'static str,
    down: &'static str,
    down_norm: &'static str,
}

const OF_BERT: Names = Names {
    layer: "encoder.layer",
    attention: [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    ],
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    down_norm: "output.LayerNorm",
};

const OF_DISTILBERT: Names = Names {
    layer: "transformer.layer",
    attention: ["attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"],
    attention_norm: "sa_layer_norm",
    up: "ffn.lin1",
    down: "ffn.lin2",
    down_norm: "output_layer_norm",
};

/// Reads parts of an encoder, whose tensors all have the same beginning.
struct Reader {
    weights: Weights,
    prefix: String,
}

impl Reader {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> std::result::Result<Tensor, OpenError> {
        self.weights.tensor(&format!("{}{name}", self.prefix), shape)
    }

    fn linear(
        &mut self,
        name: &str,
        from: usize,
        to: usize,
        has_bias: bool,
    ) -> std::result::Result<Linear, OpenError> {
        let matrix = self.tensor(&format!("{name}.weight"), &[to, from])?;
        let matrix = matrix.t().expect("a matrix can be turned");
        let bias = has_bias.then(|| self.tensor(&format!("{name}.bias"), &[to])).transpose()?;
        Ok(Linear { matrix, bias })
    }

    fn norm(&mut self, name: &str, width: usize, epsilon: f32) -> std::result::Result<Norm, OpenError> {
        let gain = self.tensor(&format!("{name}.weight"), &[width])?;
        Ok(Norm { gain, bias: self.tensor(&format!("{name}.bias"), &[width])?, epsilon })
    }

    fn layer(&mut self, of: &Description, nth: usize) -> std::result::Result<Layer, OpenError> {
        let names = if of.family == Family::DistilBert { OF_DISTILBERT } else { OF_BERT };
        let own = |part: &str| format!("{}.{nth}.{part}", names.layer);
        let (width, inner) = (of.width, of.inner);
        let [query, key, value, out] = names.attention;
        Ok(Layer {
            query: self.linear(&own(query), width, width, true)?,
            key: self.linear(&own(key), width, width, true)?,
            value: self.linear(&own(value), width, width, true)?,
            out: self.linear(&own(out), width, width, true)?,
            out_norm: self.norm(&own(names.attention_norm), width, of.epsilon)?,
            up: self.linear(&own(names.up), width, inner, true)?,
            down: self.linear(&own(names.down), inner, width, true)?,
            down_norm: self.norm(&own(names.down_norm), width, of.epsilon)?,
        })
    }
}

impl Encoder {
    /// Reads the weights that a description speaks of.
    ///
    /// # Errors
    /// When one is missing or of another shape.
    pub(super) fn read(of: &Description) -> std::result::Result<Self, OpenError> {
        const WORDS: &str = "embeddings.word_embeddings.weight";
        let weights = Weights::open(&of.weights)?;
        let prefix = weights.prefix_of(WORDS).unwrap_or_default().to_owned();
        let mut reader = Reader { weights, prefix };
        let width = of.width;
        let positions = reader.tensor("embeddings.position_embeddings.weight", &[of.positions, width])?;
        let types = match of.types {
            0 => None,
            types => Some(reader.tensor("embeddings.token_type_embeddings.weight", &[types, width])?),
        };
        let first_type = types.map(|types| types.narrow(0, 0, 1).expect("there is a first type"));
        let mut dense = Vec::new();
        for layer in &of.dense {
            let mut own = Reader { weights: Weights::open(&layer.weights)?, prefix: String::new() };
            dense.push((own.linear("linear", layer.from, layer.to, layer.has_bias)?, layer.clone()));
        }
        Ok(Self {
            words: reader.tensor(WORDS, &[of.vocabulary, width])?,
            positions,
            first_type,
            norm: reader.norm("embeddings.LayerNorm", width, of.epsilon)?,
            layers: (0..of.layers).map(|nth| reader.layer(of, nth)).collect::<std::result::Result<_, _>>()?,
            dense,
            heads: of.heads,
            activation: of.activation,
            pooling: of.pooling.clone(),
            padding: of.padding,
            first_position: if of.family == Family::Roberta { of.padding + 1 } else { 0 },
        })
    }

    /// One vector for each text, given as ids. Texts of about the same length cost least: all are made as long as the longest.
    ///
    /// # Errors
    /// When an id or a position is beyond what the weights hold.
    pub(super) fn vectors(&self, texts: &[&[u32]]) -> Computed<Vec<Vec<f32>>> {
        let longest = texts.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let lengths: Vec<usize> = texts.iter().map(|ids| ids.len()).collect();
        let mut hidden = self.embed(texts, longest)?;
        let mask = mask(&lengths, longest)?;
        for layer in &self.layers {
            hidden = self.attend(layer, &hidden, mask.as_ref(), texts.len(), longest)?;
        }
        let width = hidden.dim(D::Minus1)?;
        let numbers = hidden.flatten_all()?.to_vec1::<f32>()?;
        let pooled = lengths.iter().enumerate().map(|(nth, length)| {
            let tokens = &numbers[nth * longest * width..][..length * width];
            self.pooling.iter().flat_map(|way| pool(*way, tokens, width)).collect()
        });
        self.finish(pooled.collect())
    }

    /// A row a token: word, position and type.
    fn embed(&self, texts: &[&[u32]], longest: usize) -> Computed<Tensor> {
        let (mut ids, mut positions) = (Vec::new(), Vec::new());
        for text in texts {
            ids.extend(text.iter().copied().chain(std::iter::repeat_n(self.padding, longest - text.len())));
            // Behind the end it does not matter: nobody attends to that.
            positions
                .extend((0..longest as u32).map(|at| at.min(text.len() as u32 - 1) + self.first_position));
        }
        let rows = ids.len();
        let words = self.words.index_select(&Tensor::from_vec(ids, rows, &Device::Cpu)?, 0)?;
        let positions = self.positions.index_select(&Tensor::from_vec(positions, rows, &Device::Cpu)?, 0)?;
        let sum = (words + positions)?;
        let sum = match &self.first_type {
            Some(first) => sum.broadcast_add(first)?,
            None => sum,
        };
        self.norm.forward(&sum)
    }

    fn attend(
        &self,
        layer: &Layer,
        hidden: &Tensor,
        mask: Option<&Tensor>,
        texts: usize,
        longest: usize,
    ) -> Computed<Tensor> {
        let width = hidden.dim(D::Minus1)?;
        let split = |linear: &Linear| {
            let rows = linear.forward(hidden)?;
            rows.reshape((texts, longest, self.heads, width / self.heads))?.transpose(1, 2)?.contiguous()
        };
        let query = (split(&layer.query)? / ((width / self.heads) as f64).sqrt())?;
        let scores = query.matmul(&split(&layer.key)?.transpose(2, 3)?)?;
        let scores = match mask {
            Some(mask) => scores.broadcast_add(mask)?,
            None => scores,
        };
        let mixed = softmax_last_dim(&scores)?.matmul(&split(&layer.value)?)?;
        let mixed = mixed.transpose(1, 2)?.contiguous()?.reshape((texts * longest, width))?;
        let hidden = layer.out_norm.forward(&(layer.out.forward(&mixed)? + hidden)?)?;
        let up = layer.up.forward(&hidden)?;
        let up = match self.activation {
            Activation::Gelu => up.gelu_erf()?,
            Activation::GeluTanh => up.gelu()?,
            Activation::Relu => up.relu()?,
        };
        layer.down_norm.forward(&(layer.down.forward(&up)? + hidden)?)
    }

    /// The layers behind the pooling, where a model has some.
    fn finish(&self, pooled: Vec<Vec<f32>>) -> Computed<Vec<Vec<f32>>> {
        if self.dense.is_empty() || pooled.is_empty() {
            return Ok(pooled);
        }
        let mut rows = Tensor::new(pooled, &Device::Cpu)?.to_dtype(DType::F32)?;
        for (linear, layer) in &self.dense {
            rows = linear.forward(&rows)?;
            if layer.has_tanh {
                rows = rows.tanh()?;
            }
        }
        rows.to_vec2()
    }
}

/// What keeps tokens from attending to padding; none where all texts are of one length.
fn mask(lengths: &[usize], longest: usize) -> Computed<Option<Tensor>> {
    if lengths.iter().all(|length| *length == longest) {
        return Ok(None);
    }
    let row =
        |length: &usize| (0..longest).map(|at| if at < *length { 0.0 } else { f32::MIN }).collect::<Vec<_>>();
    let numbers: Vec<f32> = lengths.iter().flat_map(row).collect();
    Tensor::from_vec(numbers, (lengths.len(), 1, 1, longest), &Device::Cpu).map(Some)
}

/// One vector of those of a text's tokens, which stand one after the other.
fn pool(way: Pooling, tokens: &[f32], width: usize) -> Vec<f32> {
    let count = (tokens.len() / width) as f32;
    let mut pooled = tokens[..width].to_vec();
    if way == Pooling::First {
        return pooled;
    }
    for token in tokens.chunks_exact(width).skip(1) {
        for (sum, number) in pooled.iter_mut().zip(token) {
            *sum = if way == Pooling::Max { sum.max(*number) } else { *sum + number };
        }
    }
    let divisor = match way {
        Pooling::Mean => count,
        Pooling::MeanSqrt => count.sqrt(),
        Pooling::First | Pooling::Max => 1.0,
    };
    pooled.iter_mut().for_each(|number| *number /= divisor);
    pooled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_pooled_as_the_model_says() {
        let tokens = [1.0, -4.0, 3.0, 2.0];
        for (way, expected) in [
            (Pooling::First, [1.0, -4.0]),
            (Pooling::Mean, [2.0, -1.0]),
            (Pooling::Max, [3.0, 2.0]),
            (Pooling::MeanSqrt, [4.0 / 2.0_f32.sqrt(), -2.0 / 2.0_f32.sqrt()]),
        ] {
            assert_eq!(pool(way, &tokens, 2), expected, "{way:?}");
        }
    }

    #[test]
    fn nobody_attends_to_padding() {
        assert!(mask(&[3, 3], 3).expect("a mask").is_none());
        let mask = mask(&[1, 2], 2).expect("a mask").expect("one text is shorter");
        assert_eq!(
            mask.flatten_all().and_then(|m| m.to_vec1::<f32>()).expect("numbers"),
            [0.0, f32::MIN, 0.0, 0.0]
        );
    }
}
