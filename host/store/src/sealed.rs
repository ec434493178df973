//! Manifests: readable JSON that ends with the checksum of all that stands before it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::{self, FileError};

/// Far more than any manifest needs; keeps a wrong file from filling the memory.
const MAX_BYTES: u64 = 1 << 30;
const KEY: &str = ",\n  \"crc32\": \"";
const END: &str = "\"\n}\n";
const DIGITS: usize = 8;

/// A manifest that cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its bytes are not those that were written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// It is a manifest of something else, or of another version of this program.
    #[error("{} is of format `{found}`, and `{expected}` is needed", path.display())]
    Format {
        /// The manifest.
        path: PathBuf,
        /// The format and version it states.
        found: String,
        /// The format and version that this program reads.
        expected: String,
    },
}

/// Name and version of a format, the first two fields of its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Field `format`.
    pub name: &'static str,
    /// Field `format_version`, as it is written.
    pub version: u32,
    /// The oldest that is still read.
    pub oldest: u32,
}

/// The text of a manifest: `format`, `format_version`, the fields of `body`, `crc32`.
///
/// # Errors
/// When `body` is no JSON object.
pub fn seal(format: Format, body: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Framed<'a, T> {
        format: &'a str,
        format_version: u32,
        #[serde(flatten)]
        body: &'a T,
    }
    let framed = Framed {
        format: format.name,
        format_version: format.version,
        body,
    };
    let mut text = serde_json::to_string_pretty(&framed)?;
    text.truncate(text.len() - "\n}".len());
    let crc32 = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("{KEY}{crc32:08x}{END}"));
    Ok(text.into_bytes())
}

/// A manifest and the checksum that identifies it.
#[derive(Debug)]
pub struct Unsealed<T> {
    /// Its fields.
    pub body: T,
    /// Eight hexadecimal digits: the checksum of its text.
    pub crc32: String,
}

/// Reads and verifies the manifest at `path`.
///
/// # Errors
/// When the file cannot be read, was changed since it was written, or is of another format.
pub fn read<T: DeserializeOwned>(path: &Path, format: Format) -> Result<Unsealed<T>, SealError> {
    let damaged = |what: String| SealError::Damaged {
        path: path.to_owned(),
        what,
    };
    let bytes = files::read(path, MAX_BYTES).map_err(|error| match error.is_damage() {
        true => damaged(error.cause.to_string()),
        false => SealError::File(error),
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is not text".to_owned()))?;
    check_format(path, text, format)?;
    let crc32 = verify(text).map_err(|what| damaged(what.to_owned()))?;
    let body = serde_json::from_str(text).map_err(|e| damaged(e.to_string()))?;
    Ok(Unsealed {
        body,
        crc32: crc32.to_owned(),
    })
}

/// The format comes first: a manifest of a later version may be sealed differently.
fn check_format(path: &Path, text: &str, format: Format) -> Result<(), SealError> {
    #[derive(serde::Deserialize)]
    struct Header {
        format: String,
        format_version: u32,
    }
    let Ok(header) = serde_json::from_str::<Header>(text) else {
        return Ok(());
    };
    let Header {
        format: found,
        format_version,
    } = header;
    let is_read = (format.oldest..=format.version).contains(&format_version);
    if found == format.name && is_read {
        return Ok(());
    }
    // One changed byte in the header is damage, not another format.
    if verify(text).is_err() && is_read {
        return Ok(());
    }
    Err(SealError::Format {
        path: path.to_owned(),
        found: format!("{found} {format_version}"),
        expected: match format.oldest == format.version {
            true => format!("{} {}", format.name, format.version),
            false => format!("{} {} to {}", format.name, format.oldest, format.version),
        },
    })
}

fn verify(text: &str) -> Result<&str, &'static str> {
    let rest = text.strip_suffix(END).ok_or("its end is missing")?;
    let split = rest
        .len()
        .checked_sub(DIGITS)
        .filter(|&at| rest.is_char_boundary(at));
    let (rest, digits) = rest.split_at(split.ok_or("its end is missing")?);
    let content = rest.strip_suffix(KEY).ok_or("its checksum is missing")?;
    if format!("{:08x}", crc32fast::hash(content.as_bytes())) == digits {
        Ok(digits)
    } else {
        Err("its checksum does not match its content")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        name: "test",
        version: 3,
        oldest: 2,
    };

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Body {
        name: String,
        numbers: Vec<f64>,
    }

    fn body() -> Body {
        Body {
            name: "a \"b\" é".to_owned(),
            numbers: vec![0.1, -3.0, 1e300],
        }
    }

    #[test]
    fn what_was_sealed_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        files::replace(&path, &seal(FORMAT, &body()).unwrap()).unwrap();
        assert_eq!(read::<Body>(&path, FORMAT).unwrap().body, body());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        let sealed = seal(FORMAT, &body()).unwrap();
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut bytes = sealed.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(&path, &bytes).unwrap();
                assert!(read::<Body>(&path, FORMAT).is_err(), "byte {at} bit {bit}");
            }
            std::fs::write(&path, &sealed[..at]).unwrap();
            assert!(read::<Body>(&path, FORMAT).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        let of_version = |version| Format { version, ..FORMAT };
        files::replace(&path, &seal(of_version(2), &body()).unwrap()).unwrap();
        assert_eq!(read::<Body>(&path, FORMAT).unwrap().body, body());
        files::replace(&path, &seal(of_version(1), &body()).unwrap()).unwrap();
        read::<Body>(&path, FORMAT).unwrap_err();
        let newer = of_version(4);
        files::replace(&path, &seal(newer, &body()).unwrap()).unwrap();
        let error = read::<Body>(&path, FORMAT).unwrap_err().to_string();
        assert!(
            error.contains("`test 4`") && error.contains("`test 2 to 3`"),
            "{error}"
        );
    }
}
