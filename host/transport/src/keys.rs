//! Keys of a private authority, for NATS servers that only the trainers of one user reach.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ED25519,
};

use crate::error::ConnectError;
use crate::init_method::Address;
use crate::server::write_private;

/// Files of a private authority: its certificate and key, and those that it has signed, all as PEM. Servers and trainers
/// trust each other by the authority's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    /// Certificate of the authority.
    pub authority: PathBuf,
    /// Key of the authority. Who has it can sign further certificates.
    pub authority_key: PathBuf,
    /// Certificate of the servers, for all of their hosts.
    pub server: PathBuf,
    /// Key of the servers.
    pub server_key: PathBuf,
    /// Certificate of the trainers.
    pub trainer: PathBuf,
    /// Key of the trainers.
    pub trainer_key: PathBuf,
}

impl KeyFiles {
    fn of(folder: &Path) -> Self {
        Self {
            authority: folder.join("authority.pem"),
            authority_key: folder.join("authority-key.pem"),
            server: folder.join("server.pem"),
            server_key: folder.join("server-key.pem"),
            trainer: folder.join("trainer.pem"),
            trainer_key: folder.join("trainer-key.pem"),
        }
    }

    /// Creates a private authority and signs certificates for servers at `hosts` and for trainers. Files have mode 0600,
    /// and a new folder has mode 0700. Certificates do not expire.
    ///
    /// # Errors
    /// [`ConnectError::Host`] if one of `hosts` is not a host; [`ConnectError::Content`] if one of the files exists;
    /// [`ConnectError::File`] if one cannot be written.
    pub fn create(folder: &Path, hosts: &[String]) -> Result<Self, ConnectError> {
        for host in hosts {
            let parsed = Address::parse(&bracketed(host), Some(1));
            if parsed.is_ok_and(|address| address.host == *host) {
                continue;
            }
            let what = format!("\"{host}\" is not a host name or an IP address");
            return Err(ConnectError::Host(what));
        }
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.map_err(ConnectError::file(folder))?;
        let files = Self::of(folder);
        let texts = files.texts(hosts)?;
        if let Some((path, _)) = texts
            .iter()
            .find(|(path, _)| fs::symlink_metadata(path).is_ok())
        {
            return Err(ConnectError::Content {
                path: (*path).to_owned(),
                what: "this file exists, and keys are never replaced; choose another folder"
                    .to_owned(),
            });
        }
        for (path, text) in texts {
            write_private(path, text.as_bytes())?;
        }
        Ok(files)
    }

    /// Creates the contents of all files.
    fn texts(&self, hosts: &[String]) -> Result<[(&Path, String); 6], ConnectError> {
        let mut params = named("pbg-host authority", Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, key()?).map_err(failed)?;
        let signed = |name: &str, hosts: &[String], purposes: &[ExtendedKeyUsagePurpose]| {
            let mut params = named(name, hosts.to_vec())?;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = purposes.to_vec();
            let key = key()?;
            let certificate = params.signed_by(&key, &*authority).map_err(failed)?;
            Ok::<_, ConnectError>((certificate.pem(), key.serialize_pem()))
        };
        let (serves, asks) = (
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        );
        // The servers of a cluster connect to each other.
        let (server, server_key) = signed("pbg-host server", hosts, &[serves, asks.clone()])?;
        let (trainer, trainer_key) = signed("pbg-host trainer", &[], &[asks])?;
        Ok([
            (&self.authority, authority.pem()),
            (&self.authority_key, authority.key().serialize_pem()),
            (&self.server, server),
            (&self.server_key, server_key),
            (&self.trainer, trainer),
            (&self.trainer_key, trainer_key),
        ])
    }
}

/// Returns a host as addresses have it: an IPv6 address in brackets.
fn bracketed(host: &str) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{host}]"),
        Err(_) => host.to_owned(),
    }
}

fn named(name: &str, hosts: Vec<String>) -> Result<CertificateParams, ConnectError> {
    let mut params = CertificateParams::new(hosts).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn key() -> Result<KeyPair, ConnectError> {
    KeyPair::generate_for(&PKCS_ED25519).map_err(failed)
}

fn failed(error: rcgen::Error) -> ConnectError {
    ConnectError::System(format!("create a certificate: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_private_and_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/keys");
        let hosts = ["nats.example.org", "10.0.0.5", "2001:db8::1"].map(str::to_owned);
        let files = KeyFiles::create(&folder, &hosts).unwrap();
        let all = fs::read_dir(&folder).unwrap();
        let modes =
            all.map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777);
        assert_eq!(modes.collect::<Vec<_>>(), [0o600; 6]);
        let before = fs::read(&files.authority_key).unwrap();
        fs::remove_file(&files.authority).unwrap();
        let error = KeyFiles::create(&folder, &hosts).unwrap_err().to_string();
        assert!(error.contains("keys are never replaced"), "{error}");
        assert_eq!(fs::read(&files.authority_key).unwrap(), before);
        assert!(!files.authority.exists());
    }

    #[test]
    fn what_is_no_host_is_refused_before_anything_is_written() {
        let place = tempfile::tempdir().unwrap();
        for wrong in ["", "a b", "user@host", "host:4222", "[::1]", "nats://host"] {
            let folder = place.path().join("keys");
            let refused = KeyFiles::create(&folder, &[wrong.to_owned()]);
            assert!(matches!(refused, Err(ConnectError::Host(_))), "{wrong}");
            assert!(!folder.exists());
        }
    }
}
