//! The tensors of a `model.safetensors`, each read from the file when it is asked for: never more is in memory than the
//! model itself. What a tensor means is `encoder`'s business.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;

use super::OpenError;

/// A header beyond this is not one.
const LONGEST_HEADER: u64 = 100 << 20;

/// An entry of the header.
#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// An open file of weights.
#[derive(Debug)]
pub(super) struct Weights {
    path: PathBuf,
    file: File,
    entries: BTreeMap<String, Entry>,
    data: u64,
}

impl Weights {
    /// Reads the header.
    ///
    /// # Errors
    /// When the file cannot be read, is no file of safetensors, or is shorter than its header says.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let unreadable = |why: String| OpenError::Unreadable { path: path.to_owned(), why };
        let io = |error: io::Error| unreadable(error.to_string());
        let mut file = File::open(path).map_err(io)?;
        let whole = file.metadata().map_err(io)?.len();
        let mut length = [0; 8];
        let header = || unreadable("it is no file of safetensors".into());
        file.read_exact(&mut length).map_err(|_| header())?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER || length + 8 > whole {
            return Err(header());
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact(&mut bytes).map_err(io)?;
        let mut raw: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&bytes).map_err(|_| header())?;
        raw.remove("__metadata__");
        let mut entries = BTreeMap::new();
        for (name, value) in raw {
            let entry: Entry = serde_json::from_value(value).map_err(|_| header())?;
            let (begin, end) = entry.data_offsets;
            if begin > end || end > whole - 8 - length {
                return Err(unreadable(
                    "it is shorter than it should be: it was not fetched to its end".into(),
                ));
            }
            entries.insert(name, entry);
        }
        Ok(Self { path: path.to_owned(), file, entries, data: 8 + length })
    }

    /// What stands before the names of all tensors, if there is one of the name `ending` at all.
    pub(super) fn prefix_of(&self, ending: &str) -> Option<&str> {
        self.entries.keys().filter_map(|name| name.strip_suffix(ending)).min_by_key(|prefix| prefix.len())
    }

    /// The tensor of that name as 32-bit floats.
    ///
    /// # Errors
    /// When there is none, or it has another shape or type.
    pub(super) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, OpenError> {
        let path = self.path.clone();
        let unreadable = move |why: String| OpenError::Unreadable { path: path.clone(), why };
        let entry = self.entries.get(name);
        let entry = entry.ok_or_else(|| unreadable(format!("it holds no tensor {name}")))?;
        if entry.shape != shape {
            let why =
                format!("the tensor {name} has the shape {:?}, and {shape:?} was expected", entry.shape);
            return Err(unreadable(why));
        }
        let kind = match entry.dtype.as_str() {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            "F64" => DType::F64,
            other => return Err(unreadable(format!("the tensor {name} is of type {other}"))),
        };
        let (begin, end) = entry.data_offsets;
        let count: usize = shape.iter().product();
        if (end - begin) as usize != count * kind.size_in_bytes() {
            return Err(unreadable(format!("the tensor {name} is not as long as its shape says")));
        }
        self.file.seek(SeekFrom::Start(self.data + begin)).map_err(|error| unreadable(error.to_string()))?;
        let bytes = (&self.file).take(end - begin);
        let read = match kind {
            DType::F32 => floats(bytes, count)
                .map_err(candle_core::Error::from)
                .and_then(|numbers| Tensor::from_vec(numbers, shape, &Device::Cpu)),
            kind => raw(bytes, kind, shape),
        };
        read.map_err(|error| unreadable(format!("the tensor {name}: {error}")))
    }
}

/// Numbers without a second copy of them as bytes.
fn floats(bytes: impl Read, count: usize) -> io::Result<Vec<f32>> {
    let mut bytes = BufReader::with_capacity(1 << 16, bytes);
    let mut numbers = Vec::with_capacity(count);
    let mut four = [0; 4];
    for _ in 0..count {
        bytes.read_exact(&mut four)?;
        numbers.push(f32::from_le_bytes(four));
    }
    Ok(numbers)
}

fn raw(mut bytes: impl Read, kind: DType, shape: &[usize]) -> candle_core::Result<Tensor> {
    let mut whole = Vec::new();
    bytes.read_to_end(&mut whole)?;
    Tensor::from_raw_buffer(&whole, kind, shape, &Device::Cpu)?.to_dtype(DType::F32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixtures::safetensors;
    use super::*;

    fn open(bytes: &[u8]) -> Result<Weights, OpenError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        Weights::open(&path)
    }

    #[test]
    fn tensors_come_out_as_floats_whatever_their_type() {
        let halves: Vec<u8> = [0x3c00_u16, 0xc000].iter().flat_map(|x| x.to_le_bytes()).collect();
        let brains: Vec<u8> = [0x3f80_u16, 0xc000].iter().flat_map(|x| x.to_le_bytes()).collect();
        let singles: Vec<u8> = [1.0_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut weights = open(&safetensors(&[
            ("a.h", "F16", &[2], &halves),
            ("a.b", "BF16", &[2, 1], &brains),
            ("a.s", "F32", &[1, 2], &singles),
            ("a.i", "I64", &[1], &[0; 8]),
        ]))
        .unwrap();
        for (name, shape) in [("a.h", &[2][..]), ("a.b", &[2, 1]), ("a.s", &[1, 2])] {
            let tensor = weights.tensor(name, shape).unwrap();
            assert_eq!(tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap(), [1.0, -2.0], "{name}");
        }
        assert_eq!(weights.prefix_of("h"), Some("a."));
        let mut told = |name: &str, shape: &[usize]| weights.tensor(name, shape).unwrap_err().to_string();
        assert!(told("a.x", &[1]).contains("no tensor a.x"));
        assert!(told("a.s", &[2]).contains("[1, 2]"));
        assert!(told("a.i", &[1]).contains("I64"));
    }

    #[test]
    fn what_is_cut_off_is_an_error_and_never_a_panic() {
        let whole = safetensors(&[("a", "F32", &[2], &[0; 8])]);
        assert!(open(&whole).is_ok());
        for end in 0..whole.len() {
            let told = open(&whole[..end]).unwrap_err().to_string();
            assert!(told.contains("model.safetensors"), "{end}: {told}");
        }
        assert!(open(&[0xff; 64]).is_err());
    }
}
