//! References to components in registries, as users write them.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::digest::ContentDigest;
use crate::error::RegistryError;

/// What references begin with.
const SCHEME: &str = "oci://";
/// How a reference is written.
const FORM: &str = "write oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST";
/// Tag of references that have neither a tag nor a digest, as for other programs.
const DEFAULT_TAG: &str = "latest";
/// Length of the longest repository name.
const REPOSITORY_BYTES: usize = 255;
/// Length of the longest tag.
const TAG_BYTES: usize = 128;

/// Reference to a component in a registry: `oci://HOST/REPOSITORY[:TAG][@sha256:DIGEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryReference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<ContentDigest>,
}

impl RegistryReference {
    /// Parses a reference.
    ///
    /// # Errors
    /// When it is no reference, or contains credentials.
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        // Without quoting the text, which may have a password.
        let (_, named) = text.split_once("://").unwrap_or_default();
        let host = named.split('/').next().unwrap_or_default();
        let is_digest = |rest: &str| rest.starts_with("sha") && !rest.contains('@');
        let has_credentials = host.contains('@')
            || text
                .split_once('@')
                .is_some_and(|(_, rest)| !is_digest(rest));
        if has_credentials {
            return Err(RegistryError::usage(
                "the reference has credentials, or an `@` without a digest behind it",
            )
            .advised(
                "name the host only, since other users of this machine can see arguments; credentials come from the \
                 configuration of Docker or from PBG_REGISTRY_PASSWORD",
            ));
        }
        let wrong = |what: &str| Err(RegistryError::usage(format!("{text}: {what}; {FORM}")));
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return match text.split_once("://") {
                Some(("http", _)) => wrong(
                    "begins with http://, but registries are asked over HTTPS, unless they are on this machine",
                ),
                _ => wrong("does not begin with oci://"),
            };
        };
        let Some((host, path)) = rest.split_once('/') else {
            return wrong("names no repository");
        };
        if base(host).is_none() {
            return wrong("its host is not a name or an address with an optional port");
        }
        let (path, digest) = match path.split_once('@') {
            None => (path, None),
            Some((path, digest)) => match ContentDigest::parse(digest) {
                None => {
                    return wrong(
                        "its digest is not sha256: with 64 hexadecimal digits, in small letters",
                    );
                }
                digest => (path, digest),
            },
        };
        let (repository, tag) = match path.split_once(':') {
            None => (path, None),
            Some((repository, tag)) => (repository, Some(tag)),
        };
        if !is_repository(repository) {
            return wrong(
                "its repository is not of small letters and digits, with single `.`, `_` and `-` between them",
            );
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return wrong("its tag is not of at most 128 letters, digits, `_`, `.` and `-`");
        }
        let tag = match digest {
            None => Some(tag.unwrap_or(DEFAULT_TAG)),
            Some(_) => tag,
        };
        Ok(Self {
            host: host.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }

    /// Returns the host, with its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the repository.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the last component of the repository.
    #[must_use]
    pub fn last_part(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Option<&ContentDigest> {
        self.digest.as_ref()
    }

    /// Returns the reference with this digest.
    #[must_use]
    pub fn with_digest(&self, digest: ContentDigest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// Returns the address of the registry's interface, which ends with a slash.
    pub(crate) fn base(&self) -> Result<Url, RegistryError> {
        let host = match self.host.as_str() {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            host => host,
        };
        base(host).ok_or_else(|| RegistryError::usage(format!("{self}: has no valid host")))
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Returns the address of the interface of the registry at `host`: encrypted unless the host is this machine.
fn base(host: &str) -> Option<Url> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.', ':', '[', ']'].contains(&c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    let url = Url::parse(&format!("https://{host}/v2/")).ok()?;
    match is_loopback(&url) {
        true => Url::parse(&format!("http://{host}/v2/")).ok(),
        false => Some(url),
    }
}

/// Returns whether the host of an address is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_address = address
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    host == "localhost" || is_address
}

fn is_repository(text: &str) -> bool {
    text.len() <= REPOSITORY_BYTES && text.split('/').all(is_component)
}

/// Returns whether a text is of small letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_component(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut separators = text.split(is_word).filter(|part| !part.is_empty());
    let is_separator =
        |part: &str| [".", "_", "__"].contains(&part) || part.bytes().all(|byte| byte == b'-');
    text.starts_with(is_word) && text.ends_with(is_word) && separators.all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= TAG_BYTES
        && text.starts_with(is_letter)
        && text.chars().all(|c| is_letter(c) || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn references_are_read_and_shown() {
        let with_digest = format!("oci://ghcr.io/me/my_order:1.0@{DIGEST}");
        let digest_only = format!("oci://[::1]:5000/a.b/c--d@{DIGEST}");
        for (text, shown, base) in [
            (
                "oci://ghcr.io/me/my_order",
                "oci://ghcr.io/me/my_order:latest",
                "https://ghcr.io/v2/",
            ),
            (
                "oci://docker.io/me/o:1",
                "oci://docker.io/me/o:1",
                "https://registry-1.docker.io/v2/",
            ),
            (
                "oci://localhost:5000/o:1",
                "oci://localhost:5000/o:1",
                "http://localhost:5000/v2/",
            ),
            (
                "oci://127.0.0.1:80/o:1",
                "oci://127.0.0.1:80/o:1",
                "http://127.0.0.1/v2/",
            ),
            (&with_digest, &with_digest, "https://ghcr.io/v2/"),
            (&digest_only, &digest_only, "http://[::1]:5000/v2/"),
        ] {
            let reference = RegistryReference::parse(text).unwrap();
            let found = (reference.to_string(), reference.base().unwrap().to_string());
            assert_eq!(found, (shown.to_owned(), base.to_owned()));
        }
    }

    #[test]
    fn what_is_not_this_machine_is_asked_over_https() {
        for host in [
            "10.0.0.1:5000",
            "localhost.example.org",
            "registry",
            "127.0.0.1.nip.io",
            "[2001:db8::1]",
        ] {
            let text = format!("oci://{host}/o:1");
            let reference = RegistryReference::parse(&text).unwrap();
            assert_eq!(reference.base().unwrap().scheme(), "https", "{host}");
        }
    }

    #[test]
    fn unusable_references_are_refused() {
        for text in [
            "ghcr.io/me/o:1",
            "oci://",
            "oci://ghcr.io",
            "oci:///o:1",
            "oci://ghcr.io/",
            "oci://ghcr.io/Me/o:1",
            "oci://ghcr.io/me//o:1",
            "oci://ghcr.io/me/../o:1",
            "oci://ghcr.io/me/o:",
            "oci://ghcr.io/me/o:-1",
            "oci://ghcr.io/me/o:1@sha256:12",
            "oci://ghcr.io/me/o@sha512:12",
            "oci://ghcr.io/me/o?x:1",
            "oci://ghcr.io:99999/me/o:1",
            "http://ghcr.io/me/o:1",
            "oci://gh cr.io/o:1",
            "oci://ghcr.io\n/o:1",
        ] {
            assert!(RegistryReference::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_password_in_a_reference_is_not_repeated() {
        for text in [
            "oci://me:hidden@ghcr.io/o:1",
            "oci://me:hidden@share.example.org/o:1",
            "https://me:hidden@ghcr.io/o",
            "me:hidden@ghcr.io/o",
            "oci://me:a/hidden@ghcr.io/o:1",
        ] {
            let error = RegistryReference::parse(text).unwrap_err();
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
    }
}
