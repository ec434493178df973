//! Manifests of components: what a registry stores beside them.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::digest::ContentDigest;
use crate::error::RegistryError;

/// Media type of manifests.
pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of lists of manifests.
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// Media types of answers that are understood, or refused with a reason.
pub(crate) const ACCEPTED: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
/// Media type of the description of a component.
const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// Media types of components: that of the CNCF's layout, and that of older programs.
const LAYER_TYPES: [&str; 2] = [
    "application/wasm",
    "application/vnd.wasm.content.layer.v1+wasm",
];
/// Date in what is pushed. It is always the same, so that the same component has the same digest.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// System in descriptions of components, whether or not they use it.
const SYSTEM: &str = "wasip2";

/// What a registry says of a component that it stores.
#[derive(Clone, Debug, Default)]
pub struct ComponentDescription {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// Interfaces that it imports.
    pub imports: Vec<String>,
    /// Interfaces that it exports.
    pub exports: Vec<String>,
}

/// What a manifest says of a content.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentInfo {
    media_type: String,
    digest: String,
    size: u64,
}

/// The parts of a manifest that are needed to pull a component; others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestParts {
    schema_version: u32,
    media_type: Option<String>,
    layers: Option<Vec<ContentInfo>>,
    manifests: Option<Vec<serde::de::IgnoredAny>>,
}

/// Digest and size of a component, as its manifest says.
#[derive(Debug)]
pub(crate) struct ComponentPlace {
    pub(crate) digest: ContentDigest,
    pub(crate) size: u64,
}

/// Returns where the component of a manifest is.
///
/// # Errors
/// When it is no manifest of one component.
pub(crate) fn component_place(manifest: &[u8]) -> Result<ComponentPlace, RegistryError> {
    let wrong = |what: String| {
        RegistryError::content(what).advised(
            "a component has a manifest with one layer of the type application/wasm, as `pbg-host plugin push` makes it",
        )
    };
    let parts: ManifestParts = serde_json::from_slice(manifest)
        .map_err(|_| wrong("the registry sends a manifest that cannot be read".to_owned()))?;
    let is_index = parts.media_type.as_deref() == Some(INDEX_TYPE);
    if is_index || parts.manifests.is_some() {
        return Err(RegistryError::content(
            "names a list of manifests, such as an image for several processors, and no component",
        )
        .advised("name the digest of one manifest of the list"));
    }
    let is_manifest = parts.media_type.is_none_or(|given| given == MANIFEST_TYPE);
    if parts.schema_version != 2 || !is_manifest {
        return Err(wrong(
            "has a manifest of a kind that is not supported".to_owned(),
        ));
    }
    let layers = parts.layers.unwrap_or_default();
    let [layer] = &layers[..] else {
        return Err(wrong(format!(
            "is no component: its manifest has {} layers, not one",
            layers.len()
        )));
    };
    if !LAYER_TYPES.contains(&layer.media_type.as_str()) {
        return Err(wrong(format!(
            "is no component: its layer is not of the type {}, nor {}",
            LAYER_TYPES[0], LAYER_TYPES[1]
        )));
    }
    let Some(digest) = ContentDigest::parse(&layer.digest) else {
        return Err(wrong(
            "has a layer whose digest is not a SHA-256".to_owned(),
        ));
    };
    Ok(ComponentPlace {
        digest,
        size: layer.size,
    })
}

/// Contents to push for a component beside itself.
pub(crate) struct ManifestPair {
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
}

/// Makes manifest and description of a component. They depend on nothing else, so the same component has the same
/// digest wherever and whenever it is pushed.
pub(crate) fn manifest_of(bytes: &[u8], described: &ComponentDescription) -> ManifestPair {
    let digest = ContentDigest::of(bytes);
    let config = json!({
        "created": CREATED,
        "architecture": "wasm",
        "os": SYSTEM,
        "layerDigests": [digest.as_str()],
        "component": {
            "exports": described.exports,
            "imports": described.imports,
            "target": null,
        },
    })
    .to_string()
    .into_bytes();
    let info = |media_type: &str, content: &[u8]| ContentInfo {
        media_type: media_type.to_owned(),
        digest: ContentDigest::of(content).to_string(),
        size: content.len() as u64,
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": info(CONFIG_TYPE, &config),
        "layers": [info(LAYER_TYPES[0], bytes)],
        "annotations": {
            "org.opencontainers.image.title": described.name,
            "org.opencontainers.image.version": described.version,
            "org.opencontainers.image.description": described.summary,
        },
    });
    ManifestPair {
        config,
        manifest: manifest.to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_can_be_pulled() {
        let pair = manifest_of(b"component", &ComponentDescription::default());
        let place = component_place(&pair.manifest).unwrap();
        assert_eq!(
            (place.digest, place.size),
            (ContentDigest::of(b"component"), 9)
        );
    }

    #[test]
    fn manifests_of_other_programs_are_read() {
        let digest = ContentDigest::of(b"x");
        for layer in LAYER_TYPES {
            for config in [
                "application/vnd.oci.empty.v1+json",
                "application/vnd.wasm.config.v1+json",
            ] {
                let manifest = json!({
                    "schemaVersion": 2,
                    "artifactType": "application/wasm",
                    "config": {"mediaType": config, "digest": digest.as_str(), "size": 2},
                    "layers": [{"mediaType": layer, "digest": digest.as_str(), "size": 1, "annotations": {"a": "b"}}],
                });
                component_place(manifest.to_string().as_bytes()).unwrap();
            }
        }
    }

    #[test]
    fn manifests_of_something_else_are_refused() {
        let digest = ContentDigest::of(b"x");
        let layer = json!({"mediaType": LAYER_TYPES[0], "digest": digest.as_str(), "size": 1});
        let tar = json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest.as_str(), "size": 1});
        let other = json!({"mediaType": LAYER_TYPES[0], "digest": "sha512:12", "size": 1});
        for manifest in [
            json!({"schemaVersion": 2, "layers": []}),
            json!({"schemaVersion": 2, "layers": [layer, layer]}),
            json!({"schemaVersion": 2, "layers": [tar]}),
            json!({"schemaVersion": 2, "layers": [other]}),
            json!({"schemaVersion": 1, "layers": [layer]}),
            json!({"schemaVersion": 2, "mediaType": "text/plain", "layers": [layer]}),
            json!({"schemaVersion": 2, "manifests": [layer]}),
            json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "layers": [layer]}),
            json!({"schemaVersion": 2, "layers": [{"mediaType": LAYER_TYPES[0], "digest": digest.as_str(), "size": -1}]}),
            json!([]),
        ] {
            assert!(
                component_place(manifest.to_string().as_bytes()).is_err(),
                "{manifest}"
            );
        }
    }
}
