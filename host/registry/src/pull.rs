//! Pulls of components.

use reqwest::Method;

use crate::client::RegistryClient;
use crate::digest::ContentDigest;
use crate::error::RegistryError;
use crate::exchange::ApiRequest;
use crate::manifest::{ComponentPlace, component_place};
use crate::reference::RegistryReference;

/// Component from a registry, with the digests that it was checked against.
#[derive(Debug)]
pub struct PulledComponent {
    /// The file.
    pub bytes: Vec<u8>,
    /// Digest of the file.
    pub digest: ContentDigest,
    /// Reference with the digest of the manifest, which always names the same component.
    pub reference: RegistryReference,
    /// What the tag of the reference names now, if it has a tag.
    pub tag: Option<TagState>,
}

/// What a tag names at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagState {
    /// The manifest that was pulled.
    Pulled,
    /// Another manifest than that of the digest in the reference.
    Other(ContentDigest),
    /// Nothing.
    Missing,
}

impl RegistryClient {
    /// Pulls the component of the reference, of at most `limit` bytes.
    ///
    /// # Errors
    /// When the registry does not have it, or delivers something else.
    pub fn pull(&mut self, limit: u64) -> Result<PulledComponent, RegistryError> {
        let reference = self.reference.clone();
        self.pull_any(limit).map_err(|error| error.at(reference))
    }

    fn pull_any(&mut self, limit: u64) -> Result<PulledComponent, RegistryError> {
        let (tag, digest) = (self.reference.tag(), self.reference.digest());
        let (tag, digest) = (tag.map(str::to_owned), digest.map(ContentDigest::to_string));
        let name = digest.clone().or_else(|| tag.clone()).unwrap_or_default();
        let Some(manifest) = self.manifest(&name)? else {
            let what = "the registry has no such component";
            let advice = "check the repository, and the tag or digest";
            return Err(RegistryError::content(what).advised(advice));
        };
        let place = component_place(&manifest.bytes)?;
        if place.size > limit {
            return Err(RegistryError::content(format!(
                "the component has {} bytes, more than the {limit} that a plugin may have",
                place.size
            )));
        }
        let bytes = self.component(&place)?;
        let tag = match (tag, digest) {
            (None, _) => None,
            (Some(_), None) => Some(TagState::Pulled),
            (Some(tag), Some(_)) => Some(match self.manifest(&tag)? {
                None => TagState::Missing,
                Some(named) if named.digest == manifest.digest => TagState::Pulled,
                Some(named) => TagState::Other(named.digest),
            }),
        };
        Ok(PulledComponent {
            bytes,
            digest: place.digest,
            reference: self.reference.with_digest(manifest.digest),
            tag,
        })
    }

    fn component(&mut self, place: &ComponentPlace) -> Result<Vec<u8>, RegistryError> {
        const WHAT: &str = "the component";
        let path = format!("{}/blobs/{}", self.reference.repository(), place.digest);
        let request = ApiRequest::new(Method::GET, self.exchange.url(&path)?, WHAT);
        let Some(response) = self.exchange.send(&request)? else {
            return Err(RegistryError::content(
                "the registry has the manifest, but not the component that it names; push it again",
            ));
        };
        let bytes = self.exchange.read(response, place.size, WHAT)?;
        if (bytes.len() as u64) < place.size {
            return Err(RegistryError::content(format!(
                "the registry sends {} bytes for the component instead of {}; try again",
                bytes.len(),
                place.size
            )));
        }
        let found = ContentDigest::of(&bytes);
        match found == place.digest {
            true => Ok(bytes),
            false => Err(RegistryError::content(format!(
                "the registry sends another component than the manifest names: its SHA-256 is {}, not {}",
                found.hexadecimal(),
                place.digest.hexadecimal()
            ))
            .advised("do not use it; the registry, or something between it and this machine, changes contents")),
        }
    }
}
