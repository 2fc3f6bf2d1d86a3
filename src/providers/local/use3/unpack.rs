//! From the archive of weights as it is published to the files as they are kept: the table's 17 parts interleaved, so that
//! a piece's row lies at its id, and the matrices one after the other.

use std::fs::File;
use std::io::{self, Read, Seek, Write as _};
use std::path::Path;

use super::super::archive::Archive;
use super::weights::{PART_ROWS, PARTS, TABLE_BYTES, WIDTH, parts};
use super::{MATRICES, TABLE};

/// Writes both files into a folder.
///
/// # Errors
/// When an array is missing or not what it should be, or a file cannot be written.
pub(in super::super) fn unpack<R: Read + Seek>(archive: &mut Archive<R>, folder: &Path) -> io::Result<()> {
    let mut table = vec![0_u8; TABLE_BYTES as usize];
    for part in 0..PARTS {
        let codes = archive.array(&format!("q{}", part + 1), "|u1", &[PART_ROWS, WIDTH])?;
        for (row, codes) in codes.chunks_exact(WIDTH).enumerate() {
            let at = (row * PARTS + part) * WIDTH;
            table[at..at + WIDTH].copy_from_slice(codes);
        }
    }
    write(&folder.join(TABLE), &[&table])?;
    let mut matrices = Vec::new();
    for part in parts() {
        let shape = [part.rows, part.columns];
        let shape = if part.rows == 1 { &shape[1..] } else { &shape[..] };
        matrices.push(archive.array(&part.name, "<f4", shape)?);
    }
    write(&folder.join(MATRICES), &matrices)
}

fn write<T: AsRef<[u8]>>(path: &Path, pieces: &[T]) -> io::Result<()> {
    let mut file = File::create(path)?;
    for piece in pieces {
        file.write_all(piece.as_ref())?;
    }
    file.sync_all()
}
