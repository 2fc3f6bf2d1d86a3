//! The weights as they lie on the disk: the matrices in memory, the table of 128,010 embeddings read row by row from its
//! file, so that embedding needs 14 MB and not 80. What is computed with them is `forward`'s.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ndarray::{Array2, ArrayView2};

/// Numbers a piece's embedding has, and a text's vector.
pub const WIDTH: usize = 512;
/// Parts in which the table was quantised, each with a scale and a lowest value: a piece's is its id modulo this.
pub const PARTS: usize = 17;
/// Rows of one part.
pub const PART_ROWS: usize = 7530;
/// Numbers a branch has for a token.
pub const BRANCH: usize = 256;
/// Tokens a branch sees at once.
pub const WINDOWS: [usize; 3] = [2, 3, 5];
/// Numbers a token has in the end: its embedding and the three branches.
pub const FEATURES: usize = WIDTH + WINDOWS.len() * BRANCH;
/// Numbers of the inner layers.
const INNER: usize = 320;

/// One array of the weights: its name in the archive it comes from, its rows and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The name, without `.npy`.
    pub name: String,
    /// Rows; 1 for a vector.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

/// The arrays of the file of matrices, in its order.
pub fn parts() -> Vec<Part> {
    let part = |name: &str, rows, columns| Part { name: name.to_owned(), rows, columns };
    let mut all = vec![part("scale", 1, PARTS), part("lo", 1, PARTS)];
    for window in WINDOWS {
        all.extend([
            part(&format!("proj{window}"), WIDTH, BRANCH),
            part(&format!("proj_b{window}"), 1, BRANCH),
            part(&format!("ln_g{window}"), 1, BRANCH),
            part(&format!("ln_b{window}"), 1, BRANCH),
            part(&format!("w1_{window}"), window * BRANCH, BRANCH),
            part(&format!("b1_{window}"), 1, BRANCH),
            part(&format!("w2_{window}"), window * BRANCH, BRANCH),
            part(&format!("b2_{window}"), 1, BRANCH),
        ]);
    }
    all.extend([
        part("ln_g", 1, FEATURES),
        part("ln_b", 1, FEATURES),
        part("cnn_W", FEATURES, WIDTH),
        part("cnn_b", 1, WIDTH),
        part("d0", WIDTH, INNER),
        part("d1", INNER, INNER),
        part("p1", WIDTH, INNER),
        part("d2", INNER, WIDTH),
        part("p3", INNER, WIDTH),
        part("d3", WIDTH, WIDTH),
    ]);
    all
}

/// A branch: its projection, the gain and bias of its share of the layer norm, and its two passes.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) window: usize,
    pub(super) projection: Array2<f32>,
    pub(super) projection_bias: Vec<f32>,
    pub(super) gain: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) passes: [(Array2<f32>, Vec<f32>); 2],
}

/// The weights.
#[derive(Debug)]
pub(super) struct Weights {
    table: Table,
    pub(super) branches: Vec<Branch>,
    pub(super) gain: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) sum: (Array2<f32>, Vec<f32>),
    pub(super) d0: Array2<f32>,
    pub(super) d1: Array2<f32>,
    pub(super) p1: Array2<f32>,
    pub(super) d2: Array2<f32>,
    pub(super) p3: Array2<f32>,
    pub(super) d3: Array2<f32>,
}

/// The file of embeddings: a row a piece, a byte a number.
#[derive(Debug)]
struct Table {
    file: Mutex<File>,
    scale: Vec<f32>,
    lowest: Vec<f32>,
}

/// Bytes of the table's file.
pub const TABLE_BYTES: u64 = (PARTS * PART_ROWS * WIDTH) as u64;

impl Weights {
    /// Takes the matrices from the bytes of their file and opens the table; none where they are too few or too many.
    pub(super) fn read(matrices: &[u8], table: &Path) -> io::Result<Option<Self>> {
        let file = File::open(table)?;
        let length = file.metadata()?.len();
        let wanted: usize = parts().iter().map(|part| part.rows * part.columns * size_of::<f32>()).sum();
        if matrices.len() != wanted || length != TABLE_BYTES {
            return Ok(None);
        }
        Ok(Self::take(Cursor { rest: matrices, parts: parts().into_iter() }, file))
    }

    fn take(mut from: Cursor<'_>, file: File) -> Option<Self> {
        let table = Table { file: Mutex::new(file), scale: from.vector()?, lowest: from.vector()? };
        let mut branches = Vec::new();
        for window in WINDOWS {
            branches.push(Branch {
                window,
                projection: from.matrix()?,
                projection_bias: from.vector()?,
                gain: from.vector()?,
                bias: from.vector()?,
                passes: [(from.matrix()?, from.vector()?), (from.matrix()?, from.vector()?)],
            });
        }
        Some(Self {
            table,
            branches,
            gain: from.vector()?,
            bias: from.vector()?,
            sum: (from.matrix()?, from.vector()?),
            d0: from.matrix()?,
            d1: from.matrix()?,
            p1: from.matrix()?,
            d2: from.matrix()?,
            p3: from.matrix()?,
            d3: from.matrix()?,
        })
    }

    /// The embeddings of these pieces, one row each.
    ///
    /// # Errors
    /// When the file cannot be read any more, or has no such piece.
    pub(super) fn embeddings(&self, ids: &[u32]) -> io::Result<Array2<f32>> {
        let mut out = Array2::zeros((ids.len(), WIDTH));
        let mut codes = [0_u8; WIDTH];
        // Nothing is left half done where a panic could have poisoned it: every read seeks first.
        let mut file = self.table.file.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, mut row) in ids.iter().zip(out.rows_mut()) {
            file.seek(SeekFrom::Start(u64::from(*id) * WIDTH as u64))?;
            file.read_exact(&mut codes)?;
            let part = *id as usize % PARTS;
            let (scale, lowest) = (self.table.scale[part], self.table.lowest[part]);
            for (number, code) in row.iter_mut().zip(codes) {
                *number = f32::from(code) * scale + lowest;
            }
        }
        Ok(out)
    }
}

/// What is left of the file of matrices.
struct Cursor<'a> {
    rest: &'a [u8],
    parts: std::vec::IntoIter<Part>,
}

impl Cursor<'_> {
    fn matrix(&mut self) -> Option<Array2<f32>> {
        let part = self.parts.next()?;
        let bytes;
        (bytes, self.rest) = self.rest.split_at_checked(part.rows * part.columns * size_of::<f32>())?;
        let numbers = bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
        Array2::from_shape_vec((part.rows, part.columns), numbers).ok()
    }

    fn vector(&mut self) -> Option<Vec<f32>> {
        self.matrix().map(|matrix| matrix.into_raw_vec_and_offset().0)
    }
}

/// The numbers of a matrix with so many columns, as one.
pub(super) fn as_matrix(numbers: &[f32], columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((numbers.len() / columns, columns), numbers).expect("a buffer holds whole rows")
}
