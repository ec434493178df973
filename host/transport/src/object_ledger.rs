//! The register of a run in an object store, after a check that it can be there.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pbg_files::FileError;
use pbg_files::remote::{self, Patience, RemoteFolder};

use crate::error::ConnectError;
use crate::object_register::ObjectRegister;
use crate::polled_traffic::PolledTraffic;

/// Folder in an object store with the register of a run.
pub(crate) struct ObjectLedger {
    pub(crate) url: String,
    pub(crate) register: Arc<ObjectRegister>,
    folder: Arc<dyn RemoteFolder>,
}

impl ObjectLedger {
    /// Opens the register in the folder `url`. If this process may create it (`creates`), checks before that the store
    /// keeps the conditions of writes.
    ///
    /// # Errors
    /// Fails if the store does not answer, or ignores conditions.
    pub(crate) fn open(url: &str, creates: bool) -> Result<Self, ConnectError> {
        let opened = remote::open_folder(url, Patience::Brief);
        let folder = opened.map_err(ConnectError::Store)?;
        if creates {
            probe(&*folder, url)?;
        }
        Ok(Self {
            url: url.to_owned(),
            register: Arc::new(ObjectRegister::new(Arc::clone(&folder))),
            folder,
        })
    }

    /// Starts live traffic over objects of the same folder.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub(crate) fn start_traffic(&self) -> Result<PolledTraffic, ConnectError> {
        PolledTraffic::start(&self.folder, &self.register)
    }
}

/// Checks that the store refuses a second creation, and a replacement of a content that was replaced.
fn probe(folder: &dyn RemoteFolder, url: &str) -> Result<(), ConnectError> {
    let random = crate::secret::random()?;
    let number = u64::from_le_bytes(std::array::from_fn(|i| random[i]));
    let name = format!("ledger/probe.{number:016x}");
    let tried: io::Result<Option<&str>> = (|| {
        let first = match folder.create(&name, b"1")? {
            Some(tag) => tag,
            // The answer to an earlier attempt was lost.
            None => folder.look_up(&name)?.tag,
        };
        let second = folder.create(&name, b"2")?;
        folder.replace(&name, b"3", &first)?;
        let stale = folder.replace(&name, b"4", &first)?;
        let content = folder.read(&name, 1)?.bytes;
        Ok(match (second, stale, &content[..]) {
            (Some(_), _, _) => Some("creates an object that exists already"),
            (_, Some(_), _) => Some("replaces an object although its content has changed"),
            (_, _, b"3") => None,
            _ => Some("refuses to replace an object whose content is known"),
        })
    })();
    let what = match tried {
        Ok(what) => what.map(str::to_owned),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            Some(format!("has no conditional writes ({error})"))
        }
        Err(cause) => {
            let path = Path::new(url).join(&name);
            return Err(ConnectError::Store(FileError::new("write", &path, cause)));
        }
    };
    // Its name tells its origin if it stays.
    let _ = folder.remove(&name);
    match what {
        None => Ok(()),
        Some(what) => Err(ConnectError::Unfit {
            who: format!("the store of {url}"),
            what: format!(
                "it {what}, so trainers cannot agree through it; use a NATS server: set `distributed_init_method`, and \
                 `distributed.ledger` to `nats`"
            ),
        }),
    }
}
