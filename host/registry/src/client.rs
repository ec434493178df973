//! Client of a registry for one component.

use reqwest::Method;
use reqwest::header::HeaderName;

use crate::credentials::RegistryCredentials;
use crate::digest::ContentDigest;
use crate::error::RegistryError;
use crate::exchange::{ApiRequest, RegistryExchange, RequestTimes, header};
use crate::manifest::ACCEPTED;
use crate::reference::RegistryReference;

/// Size of the largest manifest that is read; registries need not store larger ones.
const MANIFEST_BYTES: u64 = 4 << 20;
/// Header with the digest of a manifest.
pub(crate) const DIGEST_HEADER: HeaderName = HeaderName::from_static("docker-content-digest");

/// Client of a registry, for the component that a reference names.
pub struct RegistryClient {
    pub(crate) reference: RegistryReference,
    pub(crate) exchange: RegistryExchange,
}

/// Manifest as a registry sends it.
pub(crate) struct ReceivedManifest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: ContentDigest,
}

impl RegistryClient {
    /// Creates a client; nothing is sent yet.
    ///
    /// # Errors
    /// When this machine does not allow connections.
    pub fn new(
        reference: RegistryReference,
        credentials: RegistryCredentials,
    ) -> Result<Self, RegistryError> {
        Self::with_times(reference, credentials, RequestTimes::USUAL)
    }

    /// Creates a client as [`RegistryClient::new`] does, whose requests take no longer than `times`.
    ///
    /// # Errors
    /// As for [`RegistryClient::new`].
    pub fn with_times(
        reference: RegistryReference,
        credentials: RegistryCredentials,
        times: RequestTimes,
    ) -> Result<Self, RegistryError> {
        Ok(Self {
            exchange: RegistryExchange::new(&reference, credentials, times)?,
            reference,
        })
    }

    /// Returns the manifest that `name`, a tag or a digest, names in the repository; `None` if there is none.
    pub(crate) fn manifest(
        &mut self,
        name: &str,
    ) -> Result<Option<ReceivedManifest>, RegistryError> {
        const WHAT: &str = "the manifest";
        let path = format!("{}/manifests/{name}", self.reference.repository());
        let request = ApiRequest {
            accept: Some(ACCEPTED),
            ..ApiRequest::new(Method::GET, self.exchange.url(&path)?, WHAT)
        };
        let Some(response) = self.exchange.send(&request)? else {
            return Ok(None);
        };
        let claimed = header(&response, DIGEST_HEADER).and_then(ContentDigest::parse);
        let bytes = self.exchange.read(response, MANIFEST_BYTES, WHAT)?;
        let digest = ContentDigest::of(&bytes);
        let expected = ContentDigest::parse(name).or(claimed);
        match expected.filter(|expected| *expected != digest) {
            None => Ok(Some(ReceivedManifest { bytes, digest })),
            Some(expected) => Err(RegistryError::content(format!(
                "the registry sends another manifest than that of {expected}: the digest of what it sends is {digest}"
            ))
            .advised("do not use it; the registry, or something between it and this machine, changes contents")),
        }
    }
}
