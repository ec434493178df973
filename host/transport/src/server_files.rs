//! Location of the files of a server that rank 0 starts, and addresses of this machine on which it can listen.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use crate::init_method::Address;

/// Location of the files of a server that rank 0 starts.
#[derive(Clone, Debug)]
pub(crate) struct ServerFiles {
    /// File of its `ServerRecord`.
    pub(crate) record: PathBuf,
    /// Folder of its files.
    pub(crate) store: PathBuf,
}

impl ServerFiles {
    /// Returns the location for `file://PATH`.
    pub(crate) fn of_file(path: &Path) -> Self {
        let mut store = OsString::from(path);
        store.push(".nats");
        Self {
            record: path.to_owned(),
            store: store.into(),
        }
    }

    /// Returns the location for `tcp://`, in the given folder.
    pub(crate) fn of_folder(folder: &Path) -> Self {
        let store = folder.join("nats");
        Self {
            record: store.join("server.json"),
            store,
        }
    }
}

/// Returns the address of the interface through which this machine reaches others. Nothing is sent: the peer's address
/// is one reserved for documentation.
#[must_use]
pub fn outgoing_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Returns the address of this machine to which a host name resolves, or the unspecified address if it resolves to none
/// of this machine's, as behind network address translation.
pub(crate) fn local_address(address: &Address) -> IpAddr {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    let mut candidates = resolved.into_iter().flatten().map(|found| found.ip());
    let is_own = |ip: &IpAddr| TcpListener::bind((*ip, 0)).is_ok();
    candidates
        .find(is_own)
        .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}
