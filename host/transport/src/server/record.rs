//! The record file of a server that rank 0 has started: its address and secret.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::ConnectError;

/// Largest size of a record in bytes; a larger file is not a record.
const MAX_SIZE: u64 = 16 << 10;

/// Record of a server that was started. The file has mode 0600, because its reader can join the run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerRecord {
    /// Run that it was started for.
    pub(crate) run: String,
    /// Address, as `host:port`.
    pub(crate) address: String,
    /// Secret that trainers need; none if they get it in another way, or if none is needed.
    pub(crate) secret: Option<String>,
    /// Process id of the server.
    pub(crate) pid: u32,
    /// Name of the machine on which it runs.
    pub(crate) host: String,
    /// Time of its start, in seconds since 1970; for information only.
    pub(crate) started: u64,
}

impl fmt::Debug for ServerRecord {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRecord")
            .field("run", &self.run)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl ServerRecord {
    /// Reads a record. Returns `None` if there is no file.
    ///
    /// # Errors
    /// [`ConnectError::File`]; [`ConnectError::Content`] if it is not a record.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConnectError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ConnectError::file(path)(error)),
        };
        let mut bytes = Vec::new();
        let read = file.take(MAX_SIZE + 1).read_to_end(&mut bytes);
        read.map_err(ConnectError::file(path))?;
        let parsed = match bytes.len() as u64 > MAX_SIZE {
            true => None,
            false => serde_json::from_slice(&bytes).ok(),
        };
        // The parser's message could contain a part of the secret.
        parsed.map(Some).ok_or_else(|| ConnectError::Content {
            path: path.to_owned(),
            what: "this file was not written by pbg-host as the meeting point of its trainers"
                .into(),
        })
    }

    /// Writes the record atomically: a reader gets either the old one or the new one.
    ///
    /// # Errors
    /// [`ConnectError::File`].
    pub(crate) fn write(&self, path: &Path) -> Result<(), ConnectError> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| ConnectError::file(path)(error.into()))?;
        text.push('\n');
        write_private(path, text.as_bytes())
    }
}

/// Writes a file atomically, with read permission for its owner only.
///
/// # Errors
/// [`ConnectError::File`].
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ConnectError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = || -> io::Result<()> {
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    written().map_err(ConnectError::file(path))
}

/// Returns the name of this machine.
pub(crate) fn machine() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn record() -> ServerRecord {
        ServerRecord {
            run: "a".into(),
            address: "10.0.0.1:4".into(),
            secret: Some("secret-of-the-run".into()),
            pid: 7,
            host: "node".into(),
            started: 3,
        }
    }

    #[test]
    fn is_read_as_it_was_written_and_by_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meet");
        assert_eq!(ServerRecord::read(&path).unwrap(), None);
        for _ in 0..2 {
            record().write(&path).unwrap();
            assert_eq!(ServerRecord::read(&path).unwrap(), Some(record()));
        }
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn other_files_are_refused_without_showing_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meet");
        let good = serde_json::to_string(&record()).unwrap();
        let long = " ".repeat(20 << 10) + &good;
        assert!(!format!("{:?}", record()).contains("secret-of"));
        for text in [
            "",
            "{}",
            &good[..30],
            &good.replace("\"pid\"", "\"id\""),
            &long,
        ] {
            fs::write(&path, text).unwrap();
            let error = ServerRecord::read(&path).unwrap_err().to_string();
            assert!(error.contains("was not written by pbg-host"), "{error}");
            assert!(!error.contains("secret-of"), "{error}");
        }
    }
}
