//! The key that placeholders follow from where they are stored (`DREAMER_MASK_PII=always`): with it the same phone number
//! has the same placeholder on every night, and no list of numbers is kept. What a placeholder is, `privacy` knows.

use std::path::Path;

use super::{StateError, read_if_there, write_atomically};
use crate::config::{Config, MaskPii};
use crate::privacy::{Key, Privacy};

/// The policy of a run. Where placeholders are stored it needs the home's key, and makes one of these random bytes if there
/// is none yet.
///
/// # Errors
/// As [`read_or_make`].
pub fn policy(config: &Config, random: [u8; 32]) -> Result<Privacy, StateError> {
    let beyond = config.prompts_leave();
    Ok(match config.mask_pii {
        MaskPii::Always => {
            Privacy::keyed(config.mask_pii, beyond, read_or_make(&config.state_dir(), random)?)
        }
        MaskPii::External | MaskPii::Never => Privacy::new(config.mask_pii, beyond),
    })
}

/// Reads the home's key, or makes one of these random bytes where there is none.
///
/// # Errors
/// When the file cannot be read or written, or does not hold a key: another one would give every value a new placeholder.
pub fn read_or_make(state_dir: &Path, random: [u8; 32]) -> Result<Key, StateError> {
    let path = state_dir.join("placeholder.key");
    let Some(bytes) = read_if_there(&path)? else {
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        write_atomically(&path, format!("{text}\n").as_bytes())?;
        return Ok(Key::from_bytes(random));
    };
    let key = String::from_utf8(bytes).ok().and_then(|text| from_hex(text.trim()));
    key.map(Key::from_bytes).ok_or_else(|| StateError::Malformed {
        path,
        detail: "it should hold 64 hexadecimal digits; bring it back from a backup, or remove it and accept that stored \
                 placeholders and new ones differ"
            .into(),
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(place * 2..place * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_then_kept() {
        let dir = tempfile::tempdir().unwrap();
        let placeholder = |random| {
            let key = read_or_make(dir.path(), [random; 32]).unwrap();
            Privacy::keyed(MaskPii::Always, true, key).to_store("anna@example.org")
        };
        assert_eq!(placeholder(1), placeholder(2));
        std::fs::write(dir.path().join("placeholder.key"), "short").unwrap();
        assert!(matches!(read_or_make(dir.path(), [3; 32]), Err(StateError::Malformed { .. })));
    }
}
