//! Keys of a private authority, for NATS servers that only the trainers of one user reach.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ED25519,
};

use crate::error::ConnectError;
use crate::init_method::Address;

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
        refuse_existing(texts.iter().map(|(path, _)| *path))?;
        let mut created: Vec<&Path> = Vec::new();
        for (path, text) in &texts {
            // Of two processes that create keys in one folder, one fails at the first file.
            if let Err(error) = create_private(path, text.as_bytes()) {
                created.iter().for_each(|path| drop(fs::remove_file(path)));
                return Err(error);
            }
            created.push(path);
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

/// Refuses a folder in which some of the files at `paths` exist.
fn refuse_existing<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<(), ConnectError> {
    let exists = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let (existing, missing): (Vec<&Path>, Vec<&Path>) = paths.partition(exists);
    let Some(path) = existing.first() else {
        return Ok(());
    };
    let what = match missing.first() {
        None => "this file exists, and keys are never replaced; choose another folder".to_owned(),
        Some(missing) => format!(
            "this file exists, but {} does not: creating these keys was interrupted; remove the folder if no trainer uses \
             it, or choose another one, since keys are never replaced",
            missing.display()
        ),
    };
    Err(ConnectError::Content {
        path: (*path).to_owned(),
        what,
    })
}

/// Creates a file that only its owner may read. Fails if it exists.
fn create_private(path: &Path, bytes: &[u8]) -> Result<(), ConnectError> {
    let create = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(path)
    };
    let mut file = create().map_err(ConnectError::file(path))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Nobody else has a file that was created here.
        drop(fs::remove_file(path));
        ConnectError::file(path)(error)
    })
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
        assert!(error.contains("authority.pem does not"), "{error}");
        assert_eq!(fs::read(&files.authority_key).unwrap(), before);
        assert!(!files.authority.exists());
    }

    #[test]
    fn of_many_that_create_keys_in_one_folder_one_succeeds() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("keys");
        let hosts = ["localhost".to_owned()];
        let create = || KeyFiles::create(&folder, &hosts).is_ok();
        let succeeded: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            all.into_iter()
                .map(|one| usize::from(one.join().unwrap()))
                .sum()
        });
        assert_eq!(succeeded, 1);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 6);
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
