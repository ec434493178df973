//! Where a server that rank 0 starts has its files, and on which addresses of this machine it can listen.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use crate::method::Address;

/// The place of a server that rank 0 starts.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where its [`Record`] is.
    pub(crate) record: PathBuf,
    /// The folder of its files.
    pub(crate) store: PathBuf,
}

impl Place {
    /// That of `file://PATH`.
    pub(crate) fn of_file(path: &Path) -> Self {
        let mut store = OsString::from(path);
        store.push(".nats");
        Self {
            record: path.to_owned(),
            store: store.into(),
        }
    }

    /// That of `tcp://`, in a folder that the caller names.
    pub(crate) fn of_folder(folder: &Path) -> Self {
        let store = folder.join("nats");
        Self {
            record: store.join("server.json"),
            store,
        }
    }
}

/// The address of the interface by which this machine reaches others. Nothing is sent: the address of the other side is
/// one that is set aside for documentation.
pub(crate) fn outgoing_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The address of this machine that a name means; all addresses where it means none of them, as behind a translation of
/// addresses.
pub(crate) fn local_address(address: &Address) -> IpAddr {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    let mut candidates = resolved.into_iter().flatten().map(|found| found.ip());
    let is_own = |ip: &IpAddr| TcpListener::bind((*ip, 0)).is_ok();
    candidates
        .find(is_own)
        .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}
