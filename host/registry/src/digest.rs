//! Digests of contents in registries.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// SHA-256 of a content in a registry, shown as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDigest(String);

/// What digests begin with.
const ALGORITHM: &str = "sha256:";

impl ContentDigest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let digits = Sha256::digest(bytes);
        let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{ALGORITHM}{digits}"))
    }

    /// Parses a digest. Other algorithms than SHA-256 are not supported.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(ALGORITHM)?;
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        let is_valid = digits.len() == 64 && digits.bytes().all(is_digit);
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Returns the text with the algorithm.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn hexadecimal(&self) -> &str {
        self.0.strip_prefix(ALGORITHM).unwrap_or(&self.0)
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
