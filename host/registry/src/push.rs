//! Pushes of components.

use bytes::Bytes;
use reqwest::Method;

use crate::client::{DIGEST_HEADER, RegistryClient};
use crate::digest::ContentDigest;
use crate::error::RegistryError;
use crate::exchange::{ApiRequest, header};
use crate::manifest::{ComponentDescription, MANIFEST_TYPE, manifest_of};
use crate::reference::RegistryReference;

/// What a push has done.
#[derive(Debug)]
pub struct PushedComponent {
    /// Reference with the digest of the manifest.
    pub reference: RegistryReference,
    /// Digest of what the tag named before, if that was something else.
    pub replaced: Option<ContentDigest>,
}

impl RegistryClient {
    /// Pushes a component under the tag of the reference.
    ///
    /// # Errors
    /// When the reference has a digest or no tag, or the registry does not store the component.
    pub fn push(
        &mut self,
        bytes: Vec<u8>,
        described: &ComponentDescription,
    ) -> Result<PushedComponent, RegistryError> {
        let reference = self.reference.clone();
        self.push_any(bytes, described)
            .map_err(|error| error.at(reference))
    }

    fn push_any(
        &mut self,
        bytes: Vec<u8>,
        described: &ComponentDescription,
    ) -> Result<PushedComponent, RegistryError> {
        let (Some(tag), None) = (self.reference.tag(), self.reference.digest()) else {
            return Err(RegistryError::usage(format!(
                "{}: has a digest, which follows from the component; write oci://HOST/REPOSITORY:TAG",
                self.reference
            )));
        };
        let tag = tag.to_owned();
        let pair = manifest_of(&bytes, described);
        let digest = ContentDigest::of(&pair.manifest);
        self.exchange.ask_to_push();
        // A repository that does not exist yet is one in which the tag is missing.
        let before = self.manifest(&tag)?.map(|manifest| manifest.digest);
        self.upload(bytes.into(), "the component")?;
        self.upload(pair.config.into(), "the description of the component")?;
        let path = format!("{}/manifests/{tag}", self.reference.repository());
        let request = ApiRequest {
            content: Some((MANIFEST_TYPE, pair.manifest.into())),
            ..ApiRequest::new(Method::PUT, self.exchange.url(&path)?, "the manifest")
        };
        let response = self.exchange.send(&request)?;
        let stored = response
            .as_ref()
            .and_then(|response| header(response, DIGEST_HEADER));
        if let Some(stored) = stored
            .and_then(ContentDigest::parse)
            .filter(|stored| *stored != digest)
        {
            return Err(RegistryError::content(format!(
                "the registry has stored another manifest, {stored}, than the one that was sent, {digest}"
            )));
        }
        Ok(PushedComponent {
            replaced: before.filter(|before| *before != digest),
            reference: self.reference.with_digest(digest),
        })
    }

    /// Uploads a content unless the registry has it.
    fn upload(&mut self, content: Bytes, what: &'static str) -> Result<(), RegistryError> {
        let (repository, digest) = (self.reference.repository(), ContentDigest::of(&content));
        let stored = self.exchange.url(&format!("{repository}/blobs/{digest}"))?;
        let begin = self.exchange.url(&format!("{repository}/blobs/uploads/"))?;
        let asked = ApiRequest::new(Method::HEAD, stored, what);
        if self.exchange.send(&asked)?.is_some() {
            return Ok(());
        }
        let request = ApiRequest {
            content: Some(("application/octet-stream", Bytes::new())),
            ..ApiRequest::new(Method::POST, begin.clone(), what)
        };
        let response = self.exchange.send(&request)?;
        let response = response.ok_or_else(|| {
            RegistryError::service(format!("the registry does not say where to send {what}"))
        })?;
        let mut place = self.exchange.location(&begin, &response, what)?;
        place
            .query_pairs_mut()
            .append_pair("digest", digest.as_str());
        let request = ApiRequest {
            content: Some(("application/octet-stream", content)),
            ..ApiRequest::new(Method::PUT, place, what)
        };
        self.exchange.send(&request).map(drop)
    }
}
