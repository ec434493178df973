//! Tokens of trainers, and the partition files that the record names.

use pbg_core::seed::{self, StreamPurpose};
use serde::{Deserialize, Serialize};

/// Identifier of a trainer: 64 random bits, drawn when it joins and never used again, even by the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token(pub u64);

impl Token {
    /// Returns the hash that this token gives together with `key`. Of several owners, that with the greatest hash owns
    /// the key (rendezvous hashing, Thaler and Ravishankar 1998): when one joins or leaves, only its own keys move.
    #[must_use]
    pub fn rendezvous_hash(self, key: &[u8]) -> u64 {
        let text = [&self.0.to_le_bytes(), key].concat();
        seed::of_text(0, StreamPurpose::Order, &text)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.to_string()
    }
}

/// Error for a text that is not a [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has 16 lower-case hexadecimal digits")]
pub struct InvalidToken;

impl TryFrom<String> for Token {
    type Error = InvalidToken;

    fn try_from(text: String) -> Result<Self, InvalidToken> {
        let token = u64::from_str_radix(&text, 16).map_err(|_| InvalidToken)?;
        match Self(token).to_string() == text {
            true => Ok(Self(token)),
            false => Err(InvalidToken),
        }
    }
}

/// The part of a file's name that is unique among the files of one partition and entity type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileId {
    /// Version number of the checkpoint that it was written for.
    #[serde(rename = "v")]
    pub version: u64,
    /// Trainer that wrote it, and the trainer's count of files; none for a single trainer.
    #[serde(rename = "w")]
    pub writer: Option<(Token, u64)>,
}

/// File with its size and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionFile {
    /// Unique part of its name.
    pub id: FileId,
    /// Size in bytes.
    pub size: u64,
    /// CRC-32 of the content.
    pub crc32: u32,
}

/// Partition in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionVersion {
    /// Number of times that its files were replaced.
    #[serde(rename = "g")]
    pub generation: u64,
    /// One file per table of its side, in the order of the grid; empty if it was never written.
    #[serde(rename = "f")]
    pub files: Vec<PartitionFile>,
}

/// Version of a partition that a copy in memory was read from.
///
/// A generation alone does not identify it: after the register has lost its last writes, the same number is used again
/// with other files. Names of files are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyVersion {
    /// Number of times that the files were replaced.
    pub generation: u64,
    /// First of the files.
    pub first: Option<FileId>,
}

impl PartitionVersion {
    /// Returns the version that a copy made now would have. A copy is valid as long as this stays the same.
    #[must_use]
    pub fn stamp(&self) -> CopyVersion {
        CopyVersion {
            generation: self.generation,
            first: self.files.first().map(|file| file.id),
        }
    }
}
