//! What all trainers of a run know, and the keys that follow from it.
//!
//! The secret itself goes nowhere: not to the server, not into its configuration. Both sides make the same keys of it. The
//! server knows the public key of the one user and lets in who signs its challenge; its certificate is signed by an
//! authority that only who knows the secret can be, so a trainer talks to no other server.

use std::fmt;

use async_nats::rustls::{ClientConfig, RootCertStore};
use nkeys::{KeyPair as UserKey, KeyPairType};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ED25519,
};
use sha2::{Digest, Sha256};

use crate::error::ClusterError;

/// Fewer characters could be guessed by who sees a signature.
pub(crate) const SHORTEST: usize = 16;
/// More would be a wrong file.
pub(crate) const LONGEST: usize = 1024;

/// What comes before the 32 bytes of an Ed25519 key in PKCS #8.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// What all trainers of a run know. It is not shown, not even for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Takes a text of 16 to 1024 characters without spaces.
    ///
    /// # Errors
    /// [`ClusterError::Secret`].
    pub fn new(text: &str) -> Result<Self, ClusterError> {
        let is_wrong = |c: char| c.is_whitespace() || c.is_control();
        match (SHORTEST..=LONGEST).contains(&text.len()) && !text.contains(is_wrong) {
            true => Ok(Self(text.to_owned())),
            false => Err(ClusterError::Secret),
        }
    }

    /// Draws one of 256 bits.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn draw() -> Result<Self, ClusterError> {
        Ok(Self(hexadecimal(&random()?)))
    }

    /// The text, for the file in which others find it and for servers that ask for a token.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// 32 bytes that follow from the secret, others for each purpose.
    fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"pbg-host cluster 1 ");
        hash.update(purpose.as_bytes());
        hash.update([0]);
        hash.update(self.0.as_bytes());
        hash.finalize().into()
    }

    fn user(&self) -> Result<UserKey, ClusterError> {
        UserKey::new_from_raw(KeyPairType::User, self.derive("user")).map_err(no_key)
    }

    /// The key with which a client signs the server's challenge.
    ///
    /// # Errors
    /// When no key can be made.
    pub(crate) fn user_seed(&self) -> Result<String, ClusterError> {
        self.user()?.seed().map_err(no_key)
    }

    /// What the server knows that key by.
    ///
    /// # Errors
    /// When no key can be made.
    pub(crate) fn user_public(&self) -> Result<String, ClusterError> {
        Ok(self.user()?.public_key())
    }

    fn authority(&self) -> Result<CertifiedIssuer<'static, KeyPair>, ClusterError> {
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

    /// A certificate and key (PEM) for the server at `host`, made anew each time.
    ///
    /// # Errors
    /// When no key can be made.
    pub(crate) fn certificate(&self, host: &str) -> Result<(String, String), ClusterError> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(no_key)?;
        let params = CertificateParams::new(vec![host.to_owned()]).map_err(no_key)?;
        let certificate = params
            .signed_by(&key, &*self.authority()?)
            .map_err(no_key)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// By what a client knows that a server has the secret, too.
    ///
    /// # Errors
    /// When no key can be made.
    pub(crate) fn tls(&self) -> Result<ClientConfig, ClusterError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority()?.der().clone()).map_err(no_key)?;
        let builder = ClientConfig::builder().with_root_certificates(roots);
        Ok(builder.with_no_client_auth())
    }
}

/// Random bytes of the system.
///
/// # Errors
/// When it has none.
pub(crate) fn random() -> Result<[u8; 32], ClusterError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| ClusterError::System(format!("draw a random number: {error}")))?;
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn no_key(error: impl fmt::Display) -> ClusterError {
    ClusterError::System(format!("make the keys of a secret: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_from_the_secret_and_do_not_show_it() {
        let one = Secret::new("correct-horse-battery").unwrap();
        let same = Secret::new("correct-horse-battery").unwrap();
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
    fn short_secrets_and_files_with_ends_of_lines_are_refused() {
        for text in [
            "",
            "fifteen-letters",
            "sixteen-letters \n",
            "two words in it too",
        ] {
            assert!(Secret::new(text).is_err(), "{text:?}");
        }
        assert_eq!(Secret::draw().unwrap().expose().len(), 64);
    }
}
