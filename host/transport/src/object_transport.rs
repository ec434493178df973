//! A transport over a folder in an object store, without a server.

use std::sync::Arc;
use std::time::Duration;

use pbg_files::FileError;
use pbg_files::remote::{self, Patience};
use pbg_ledger::Token;
use pbg_ledger::transport::{
    Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler, Register, RegisterEntry,
    WriteReply,
};

use crate::error::ConnectError;
use crate::object_register::ObjectRegister;
use crate::polled_traffic::PolledTraffic;
use crate::register::MAX_VALUE;

/// Transport of a run over a folder in an object store.
pub(crate) struct ObjectTransport {
    url: String,
    register: Arc<ObjectRegister>,
    traffic: PolledTraffic,
}

/// Opens the transport in the folder `url`, after a check that the store holds conditions.
///
/// # Errors
/// Fails if the store does not answer, or ignores the conditions of writes.
pub(crate) fn open(url: &str) -> Result<ObjectTransport, ConnectError> {
    let failed = |error: FileError| ConnectError::System(error.to_string());
    let folder = remote::open_folder(url, Patience::Brief).map_err(failed)?;
    probe(&*folder, url)?;
    let register = Arc::new(ObjectRegister::new(Arc::clone(&folder)));
    let traffic = PolledTraffic::start(&folder, &register)?;
    Ok(ObjectTransport {
        url: url.to_owned(),
        register,
        traffic,
    })
}

/// Checks that the store refuses a second creation, and a replacement of a content that was replaced.
fn probe(folder: &dyn remote::RemoteFolder, url: &str) -> Result<(), ConnectError> {
    let random = crate::secret::random()?;
    let number = u64::from_le_bytes(std::array::from_fn(|i| random[i]));
    let name = format!("ledger/probe.{number:016x}");
    let tried = (|| {
        let Some(first) = folder.create(&name, b"1")? else {
            return Ok(Some("finds an object that does not exist"));
        };
        let second = folder.create(&name, b"2")?;
        let replaced = folder.replace(&name, b"3", &first)?;
        let stale = folder.replace(&name, b"4", &first)?;
        Ok(match (second, replaced, stale) {
            (Some(_), _, _) => Some("creates an object that exists already"),
            (_, None, _) => Some("refuses to replace an object whose content is known"),
            (_, _, Some(_)) => Some("replaces an object although its content has changed"),
            (None, Some(_), None) => None,
        })
    })();
    // Its name tells its origin if it stays.
    let _ = folder.remove(&name);
    let failed = |error: std::io::Error| ConnectError::System(format!("write to {url}: {error}"));
    match tried.map_err(failed)? {
        None => Ok(()),
        Some(what) => Err(ConnectError::Unfit {
            who: format!("the store of {url}"),
            what: format!(
                "it {what}, so trainers cannot agree through it; use a NATS server (distributed_init_method)"
            ),
        }),
    }
}

impl ObjectTransport {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Deletes the register.
    pub(crate) fn forget(&self) -> Result<(), NoAnswer> {
        self.register.forget()
    }
}

impl Register for ObjectTransport {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        self.register.read()
    }

    fn write(&self, after: Option<u64>, value: &[u8], _id: &str) -> Result<WriteReply, NoAnswer> {
        if value.len() > MAX_VALUE {
            let size = value.len();
            let what = format!("writing the ledger: a value of {size} bytes is too large");
            return Err(NoAnswer(what));
        }
        self.register.write(after, value)
    }
}

impl LiveTraffic for ObjectTransport {
    fn beat(&self, beat: &Heartbeat) {
        self.traffic.beat(beat);
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        self.traffic.heartbeats()
    }

    /// The others see that the register has changed.
    fn wake(&self) {}

    fn wait(&self, at_most: Duration) -> bool {
        self.traffic.wait(at_most)
    }

    fn carries_questions(&self) -> bool {
        false
    }

    fn ask(&self, whom: Token, _: &[u8], _: Duration) -> Result<Vec<u8>, NoAnswer> {
        Err(NoAnswer(format!(
            "asking {whom}: trainers without a server exchange no parameters"
        )))
    }

    fn answer(&self, _: Token, _: QuestionHandler) -> Result<(), NoAnswer> {
        Ok(())
    }
}
