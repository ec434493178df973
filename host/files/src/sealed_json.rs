//! Manifests: JSON files that end with the checksum of all preceding text.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{self as files, FileError};

/// Name of the manifest in the folder of a dataset or a checkpoint.
pub const MANIFEST: &str = "manifest.json";

/// Maximum size of a manifest in bytes. It is far more than any manifest needs, and keeps a wrong file from filling
/// memory.
pub const MAX_BYTES: u64 = 1 << 30;
const KEY: &str = ",\n  \"crc32\": \"";
const END: &str = "\"\n}\n";
const DIGITS: usize = 8;

/// Error of reading a manifest.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The content is not what was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Path of the manifest.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The manifest is of another format, or of another version of this program.
    #[error("{} has the format `{found}`, but `{expected}` is required", path.display())]
    Format {
        /// Path of the manifest.
        path: PathBuf,
        /// Format and version of the manifest.
        found: String,
        /// Format and versions that this program reads.
        expected: String,
    },
}

/// Name and version of a format, the first two fields of its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestFormat {
    /// Field `format`.
    pub name: &'static str,
    /// Field `format_version` of manifests that this program writes.
    pub version: u32,
    /// Oldest version that this program reads.
    pub oldest: u32,
}

/// Serializes a manifest: `format`, `format_version`, the fields of `body`, `crc32`.
///
/// # Errors
/// When `body` is not serialized as a JSON object.
pub fn seal(format: ManifestFormat, body: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
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

/// Manifest with the checksum that identifies it.
#[derive(Debug)]
pub struct Unsealed<T> {
    /// Fields of the manifest.
    pub body: T,
    /// Checksum of the manifest's text, eight hexadecimal digits.
    pub crc32: String,
}

/// Reads and verifies the manifest at `path`.
///
/// # Errors
/// When the file cannot be read, was changed since it was written, or has another format.
pub fn read<T: DeserializeOwned>(
    path: &Path,
    format: ManifestFormat,
) -> Result<Unsealed<T>, SealError> {
    let damaged = |what: String| SealError::Damaged {
        path: path.to_owned(),
        what,
    };
    let bytes = files::read(path, MAX_BYTES).map_err(|error| match error.is_damage() {
        true => damaged(error.cause.to_string()),
        false => SealError::File(error),
    })?;
    unseal(&bytes, path, format)
}

/// Verifies the manifest with the content `bytes`, which was read from `path`.
///
/// # Errors
/// When it was changed since it was written, or has another format.
pub fn unseal<T: DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    format: ManifestFormat,
) -> Result<Unsealed<T>, SealError> {
    let damaged = |what: String| SealError::Damaged {
        path: path.to_owned(),
        what,
    };
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text".to_owned()))?;
    check_format(path, text, format)?;
    let crc32 = verify(text).map_err(|what| damaged(what.to_owned()))?;
    let body = serde_json::from_str(text).map_err(|e| damaged(e.to_string()))?;
    Ok(Unsealed {
        body,
        crc32: crc32.to_owned(),
    })
}

/// Checks the format before the checksum, because a later version may be sealed differently.
fn check_format(path: &Path, text: &str, format: ManifestFormat) -> Result<(), SealError> {
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
    // If the checksum is wrong and the version is readable, one changed byte in the header is likelier than another
    // format. Report it as damage.
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

    const FORMAT: ManifestFormat = ManifestFormat {
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
        let of_version = |version| ManifestFormat { version, ..FORMAT };
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
