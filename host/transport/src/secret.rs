//! The secret shared by all trainers of a run, and the keys derived from it.
//!
//! The secret itself is never sent: not to the server, and not in its configuration. Both sides derive the same keys
//! from it. The server knows the public key of the only user, and accepts clients that sign its challenge. Its
//! certificate is signed by an authority that only owners of the secret can be, so a trainer connects to no other
//! server.

use std::collections::BTreeSet;
use std::fmt;

use async_nats::rustls::{ClientConfig, RootCertStore};
use nkeys::{KeyPair as UserKey, KeyPairType};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ED25519,
};
use sha2::{Digest, Sha256};

use crate::error::ConnectError;
use crate::limits::SECRET_DIGITS;

/// Least number of distinct digits of a secret. One in 10^14 random secrets has fewer.
const LEAST_DIFFERENT: usize = 8;

/// Prefix of the 32 bytes of an Ed25519 key in PKCS #8.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Secret shared by all trainers of a run. It is never shown, not even in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Checks a secret: 64 random hexadecimal digits.
    ///
    /// # Errors
    /// [`ConnectError::Secret`].
    pub fn new(text: &str) -> Result<Self, ConnectError> {
        let text = text.to_ascii_lowercase();
        let digits: BTreeSet<char> = text.chars().collect();
        let is_hexadecimal = digits.iter().all(char::is_ascii_hexdigit);
        match text.len() == SECRET_DIGITS && is_hexadecimal && digits.len() >= LEAST_DIFFERENT {
            true => Ok(Self(text)),
            false => Err(ConnectError::Secret),
        }
    }

    /// Draws a random secret of 256 bits.
    ///
    /// # Errors
    /// Fails if the system provides no random numbers.
    pub(crate) fn draw() -> Result<Self, ConnectError> {
        Ok(Self(hexadecimal(&random()?)))
    }

    /// Returns the text, for the file in which other trainers find it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Derives 32 bytes from the secret, different ones for each purpose.
    fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"pbg-host cluster 1 ");
        hash.update(purpose.as_bytes());
        hash.update([0]);
        hash.update(self.0.as_bytes());
        hash.finalize().into()
    }

    /// Returns the secret with which requests to partition servers are signed.
    #[must_use]
    pub fn partition_key(&self) -> String {
        hexadecimal(&self.derive("partition servers"))
    }

    /// Returns the certificate (PEM) of the authority that signs those of the run's servers.
    ///
    /// # Errors
    /// Fails if no key can be created.
    pub fn authority_certificate(&self) -> Result<String, ConnectError> {
        Ok(self.authority()?.pem())
    }

    fn user(&self) -> Result<UserKey, ConnectError> {
        UserKey::new_from_raw(KeyPairType::User, self.derive("user")).map_err(no_key)
    }

    /// Returns the key with which a client signs the server's challenge.
    ///
    /// # Errors
    /// Fails if no key can be created.
    pub(crate) fn user_seed(&self) -> Result<String, ConnectError> {
        self.user()?.seed().map_err(no_key)
    }

    /// Returns the public key with which the server verifies that signature.
    ///
    /// # Errors
    /// Fails if no key can be created.
    pub(crate) fn user_public(&self) -> Result<String, ConnectError> {
        Ok(self.user()?.public_key())
    }

    fn authority(&self) -> Result<CertifiedIssuer<'static, KeyPair>, ConnectError> {
        let pkcs8 = [&PKCS8[..], &self.derive("authority")].concat();
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_slice().into(), &PKCS_ED25519)
            .map_err(no_key)?;
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "pbg-host run");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        CertifiedIssuer::self_signed(params, key).map_err(no_key)
    }

    /// Creates a certificate and key (PEM) for the server at `host`, new ones at each call.
    ///
    /// # Errors
    /// Fails if no key can be created.
    pub fn certificate(&self, host: &str) -> Result<(String, String), ConnectError> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(no_key)?;
        let params = CertificateParams::new(vec![host.to_owned()]).map_err(no_key)?;
        let certificate = params
            .signed_by(&key, &*self.authority()?)
            .map_err(no_key)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Returns the TLS configuration with which a client verifies that a server has the secret, too.
    ///
    /// # Errors
    /// Fails if no key can be created.
    pub(crate) fn tls(&self) -> Result<ClientConfig, ConnectError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority()?.der().clone()).map_err(no_key)?;
        let builder = ClientConfig::builder().with_root_certificates(roots);
        Ok(builder.with_no_client_auth())
    }
}

/// Returns random bytes of the system.
///
/// # Errors
/// Fails if there are none.
pub(crate) fn random() -> Result<[u8; 32], ConnectError> {
    let mut bytes = [0; 32];
    pbg_clock::fill_random(&mut bytes)
        .map_err(|error| ConnectError::System(format!("draw a random number: {error}")))?;
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn no_key(error: impl fmt::Display) -> ConnectError {
    ConnectError::System(format!("create the keys of a secret: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_from_the_secret_and_do_not_show_it() {
        let digits = "0123456789abcdef".repeat(4);
        let one = Secret::new(&digits).unwrap();
        let same = Secret::new(&digits.to_uppercase()).unwrap();
        let other = Secret::draw().unwrap();
        assert_eq!(one.user_public().unwrap(), same.user_public().unwrap());
        assert_ne!(one.user_public().unwrap(), other.user_public().unwrap());
        let key = |secret: &Secret| secret.authority().unwrap().key().serialize_der();
        assert_eq!(key(&one), key(&same));
        assert_ne!(key(&one), key(&other));
        assert_eq!(format!("{one:?}"), "Secret");
        let (certificate, private) = one.certificate("10.0.0.1").unwrap();
        assert!(!certificate.contains(one.expose()) && private.contains("PRIVATE KEY"));
    }

    #[test]
    fn secrets_that_could_be_guessed_are_refused() {
        let drawn = Secret::draw().unwrap().expose().to_owned();
        for text in [
            "",
            "sixteen-letters!",
            "a-longer-secret-of-words-that-a-dictionary-would-have-everywhere",
            &drawn[..63],
            &format!("{drawn}0"),
            &format!("{drawn}\n"),
            &"0".repeat(64),
            &"0123456".repeat(10)[..64],
        ] {
            assert!(Secret::new(text).is_err(), "{text:?}");
        }
        for _ in 0..100 {
            let drawn = Secret::draw().unwrap();
            assert_eq!(Secret::new(drawn.expose()).unwrap(), drawn);
        }
    }
}
