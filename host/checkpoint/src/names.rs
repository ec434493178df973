//! File names in a checkpoint: the key of the content, `.v` and the version that the file was written for, then the
//! writing trainer where there are several.

use std::fs;
use std::path::Path;

use pbg_ledger::{FileId, Token};

use pbg_files::{FileError, STAGED_SUFFIX};

/// Key of the model parameters.
pub(super) const MODEL: &str = "model";
const ENDING: &str = ".safetensors";
/// Prefix of the names of preserved checkpoints.
pub(super) const PRESERVED: &str = "epoch_";
/// Returns the folder name of the checkpoint preserved at the end of an epoch.
pub(super) fn preserved(epoch: u32) -> String {
    format!("{PRESERVED}{epoch}")
}

/// Parses the epoch from the folder name of a preserved checkpoint.
pub(super) fn parse_preserved(name: &str) -> Option<u32> {
    let epoch = name.strip_prefix(PRESERVED)?.parse().ok()?;
    (preserved(epoch) == name).then_some(epoch)
}

/// Folder name of the preserved checkpoint with the best validation result.
pub(super) const BEST: &str = "best";

/// Returns the key of a partition.
pub(super) fn partition(entity_type: &str, partition: u32) -> String {
    format!("embeddings_{entity_type}_{partition}")
}

/// Parsed name of a checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileName<'a> {
    /// Key of the content.
    pub(super) key: &'a str,
    /// Version that the file was written for.
    pub(super) version: u64,
    /// Trainer that wrote the file and its file count, where several trainers write.
    pub(super) writer: Option<(Token, u64)>,
}

impl FileName<'_> {
    pub(super) fn token(&self) -> Option<Token> {
        self.writer.map(|(token, _)| token)
    }

    pub(super) fn id(&self) -> FileId {
        let (version, writer) = (self.version, self.writer);
        FileId { version, writer }
    }
}

/// Returns the file name of the content of `key` in a version.
pub(super) fn versioned(key: &str, version: u64, writer: Option<(Token, u64)>) -> String {
    match writer {
        None => format!("{key}.v{version}{ENDING}"),
        Some((token, count)) => format!("{key}.v{version}.{token}-{count}{ENDING}"),
    }
}

/// Returns the temporary name under which a trainer writes a manifest.
pub(super) fn staged_manifest(token: Token) -> String {
    format!("manifest.{token}{STAGED_SUFFIX}")
}

/// Parses the trainer's token from a name of the form of [`staged_manifest`].
pub(super) fn staged_by(name: &str) -> Option<Token> {
    let token = name.strip_prefix("manifest.")?;
    parse_token(token.strip_suffix(STAGED_SUFFIX)?)
}

/// Returns the name of the file that shows that a trainer has access to the folder.
pub(super) fn presence(token: Token) -> String {
    format!("trainer.{token}")
}

/// Parses the trainer's token from the name of a presence file.
pub(super) fn parse_presence(name: &str) -> Option<Token> {
    parse_token(name.strip_prefix("trainer.")?)
}

fn parse_token(text: &str) -> Option<Token> {
    Token::try_from(text.to_owned()).ok()
}

/// Returns the name of a trainer's event file.
pub(super) fn events(token: Token) -> String {
    format!("events.{token}.jsonl")
}

/// Parses the trainer's token from the name of an event file.
pub(super) fn parse_events(name: &str) -> Option<Token> {
    parse_token(name.strip_prefix("events.")?.strip_suffix(".jsonl")?)
}

/// Returns the name of a part of a trainer's events, which begins at byte `from` of all its events. Objects cannot be
/// appended to.
pub(super) fn event_part(token: Token, from: u64) -> String {
    format!("events.{token}.{from}.jsonl")
}

/// Parses the trainer's token and the first byte from a name of the form of [`event_part`].
pub(super) fn parse_event_part(name: &str) -> Option<(Token, u64)> {
    let name = name.strip_prefix("events.")?.strip_suffix(".jsonl")?;
    let (token, from) = name.split_once('.')?;
    Some((parse_token(token)?, parse_number(from)?))
}

/// Folder of an object store with the ledger of the run.
pub(super) const LEDGER: &str = "ledger";

/// Returns whether a file is one that trainers write for each other: a presence file, events, or metrics of a version.
pub(super) fn is_of_trainers(name: &str) -> bool {
    parse_presence(name).is_some()
        || parse_events(name).is_some()
        || parse_event_part(name).is_some()
        || parse_metrics(name).is_some()
}

/// Returns the temporary name of the `metrics.jsonl` that the trainer `token` writes for a version.
pub(super) fn metrics_of(version: u64, token: Token) -> String {
    format!("metrics.v{version}.{token}.jsonl")
}

/// Parses the version from a name of the form of [`metrics_of`].
pub(super) fn parse_metrics(name: &str) -> Option<u64> {
    let name = name.strip_prefix("metrics.v")?.strip_suffix(".jsonl")?;
    let (version, token) = name.split_once('.')?;
    parse_token(token)?;
    parse_number(version)
}

/// Parses the name of a checkpoint file; `None` for any other name.
pub(super) fn parse(name: &str) -> Option<FileName<'_>> {
    let (key, version) = name.strip_suffix(ENDING)?.rsplit_once(".v")?;
    let (version, writer) = match version.split_once('.') {
        None => (version, None),
        Some((version, writer)) => (version, Some(parse_writer(writer)?)),
    };
    let is_plain = !key.contains('/') && (key == MODEL || key.starts_with("embeddings_"));
    let version = parse_number(version).filter(|_| is_plain)?;
    Some(FileName {
        key,
        version,
        writer,
    })
}

fn parse_writer(text: &str) -> Option<(Token, u64)> {
    let (token, count) = text.split_once('-')?;
    Some((parse_token(token)?, parse_number(count)?))
}

/// Parses digits only; `str::parse` would accept a sign.
fn parse_number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns the key of a file's content: its name without version and writer.
pub(super) fn key_of(name: &str) -> &str {
    parse(name).map_or(name, |name| name.key)
}

/// Parses the entity type and the partition from a file's name.
pub(super) fn parse_partition(name: &str) -> Option<(String, u32)> {
    let (entity_type, partition) = key_of(name).strip_prefix("embeddings_")?.rsplit_once('_')?;
    Some((entity_type.to_owned(), partition.parse().ok()?))
}

pub(super) fn entries(folder: &Path) -> Result<Vec<String>, FileError> {
    let failed = |e| FileError::new("list", folder, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the name of the manifest of `version` where several trainers write, before it replaces `manifest.json`.
pub(super) fn numbered_manifest(version: u64) -> String {
    format!("manifest.v{version}.json")
}

/// Parses the version from a name of the form of [`numbered_manifest`].
pub(super) fn parse_numbered(name: &str) -> Option<u64> {
    parse_number(name.strip_prefix("manifest.v")?.strip_suffix(".json")?)
}

/// Returns whether a folder name is that of a preserved checkpoint.
pub(super) fn is_preserved(name: &str) -> bool {
    name == BEST || name.starts_with(PRESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_hold() {
        let key = partition("my_type.v3", 12);
        let writer = Some((Token(0x1a2b), 40));
        for (writer, expected) in [
            (None, "embeddings_my_type.v3_12.v7.safetensors"),
            (
                writer,
                "embeddings_my_type.v3_12.v7.0000000000001a2b-40.safetensors",
            ),
        ] {
            let name = versioned(&key, 7, writer);
            assert_eq!(name, expected);
            let (key, version) = (key.as_str(), 7);
            assert_eq!(
                parse(&name),
                Some(FileName {
                    key,
                    version,
                    writer
                })
            );
            assert_eq!(parse_partition(&name), Some(("my_type.v3".to_owned(), 12)));
        }
        assert!(parse("model.v1.safetensors").is_some());
        for other in [
            "notes.v1.safetensors",
            "model.v.safetensors",
            "model.v+1.safetensors",
            "model.safetensors",
            "model.v1.txt",
            "model.v1.2b-4.safetensors",
            "model.v1.0000000000001a2b.safetensors",
            "model.v1.0000000000001a2b-+4.safetensors",
            "model.v1.+000000000001a2b-4.safetensors",
            "embeddings_x/../../y_0.v1.safetensors",
            "manifest.json",
        ] {
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
