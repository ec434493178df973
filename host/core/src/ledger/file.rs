//! Who writes, and which files of partitions the record names.

use serde::{Deserialize, Serialize};

/// What tells one trainer from all others, those before it included: 64 random bits that it draws when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token(pub u64);

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

/// A text that is no [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has 16 lower-case hexadecimal digits")]
pub struct WrongToken;

impl TryFrom<String> for Token {
    type Error = WrongToken;

    fn try_from(text: String) -> Result<Self, WrongToken> {
        let token = u64::from_str_radix(&text, 16).map_err(|_| WrongToken)?;
        match Self(token).to_string() == text {
            true => Ok(Self(token)),
            false => Err(WrongToken),
        }
    }
}

/// What the name of a file says beside the partition and the entity type that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileId {
    /// Number of the checkpoint that it was written for.
    #[serde(rename = "v")]
    pub version: u64,
    /// The trainer that wrote it and its count of files; none for a machine alone.
    #[serde(rename = "w")]
    pub writer: Option<(Token, u64)>,
}

/// A file with its size and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub id: FileId,
    /// Bytes.
    pub size: u64,
    /// CRC-32 of the bytes.
    pub crc32: u32,
}

/// A partition in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// How often its files were replaced.
    #[serde(rename = "g")]
    pub generation: u64,
    /// A file per table of its side, in the order of the grid; none as long as it was never written.
    #[serde(rename = "f")]
    pub files: Vec<File>,
}

/// What a copy of a partition in memory is of.
///
/// A generation alone does not say that: after the register lost its last writes, the same number comes again with
/// other files. Names of files never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// How often the files were replaced.
    pub generation: u64,
    /// The first of them.
    pub first: Option<FileId>,
}

impl Partition {
    /// What a copy that is made of it now is of. A copy is valid as long as this stays the same.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp {
            generation: self.generation,
            first: self.files.first().map(|file| file.id),
        }
    }
}
