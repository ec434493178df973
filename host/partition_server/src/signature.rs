//! Signatures of requests, version 4 of AWS, in the header `Authorization`.
//!
//! Times are not compared: clocks of machines may differ. Who can listen could repeat a request, but not make another one;
//! connections beyond this machine are encrypted.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};

/// Beginning of the header, and name of the algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Header with the digest of the content.
const CONTENT_DIGEST: &str = "x-amz-content-sha256";
/// Digest of a content that is not part of the signature.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Key with which requests are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Name of the key.
    pub id: String,
    /// The secret. It is never sent and never shown.
    pub secret: String,
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccessKey").field(&self.id).finish()
    }
}

/// What a signature says about the content of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignedContent {
    /// Nothing.
    Any,
    /// It has this SHA-256, in hexadecimal.
    Digest(String),
}

impl SignedContent {
    /// Returns whether a content is the signed one.
    pub(crate) fn is(&self, content: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Digest(digest) => hexadecimal(&Sha256::digest(content)) == *digest,
        }
    }
}

/// A request without its content.
pub(crate) struct UnverifiedRequest<'r> {
    pub(crate) method: &'r str,
    /// Path as it was sent.
    pub(crate) path: &'r str,
    /// Query as it was sent.
    pub(crate) query: &'r str,
    pub(crate) headers: &'r HeaderMap,
}

impl UnverifiedRequest<'_> {
    /// Checks the signature. Returns `None` if it is missing, wrong, or of another kind.
    pub(crate) fn check(&self, key: &AccessKey) -> Option<SignedContent> {
        let header = self.header(AUTHORIZATION.as_str())?;
        let fields = header.strip_prefix(ALGORITHM)?.split(',');
        let (mut credential, mut signed, mut signature) = (None, None, None);
        for field in fields {
            match field.trim().split_once('=')? {
                ("Credential", value) => credential = Some(value),
                ("SignedHeaders", value) => signed = Some(value),
                ("Signature", value) => signature = Some(value),
                _ => return None,
            }
        }
        let (id, scope) = credential?.split_once('/')?;
        let scope_parts: Vec<&str> = scope.split('/').collect();
        let &[date, region, service, "aws4_request"] = scope_parts.as_slice() else {
            return None;
        };
        let (signed, time) = (signed?, self.header("x-amz-date")?);
        // Otherwise, somebody who listens could send the request to another server.
        let is_bound = ["host", "x-amz-date", CONTENT_DIGEST];
        let names: Vec<&str> = signed.split(';').collect();
        if id != key.id || !is_bound.iter().all(|name| names.contains(name)) {
            return None;
        }
        let digest = self.header(CONTENT_DIGEST)?;
        let canonical = hexadecimal(&Sha256::digest(self.canonical(&names, digest)?));
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{canonical}");
        let mut secret = keyed(format!("AWS4{}", key.secret).as_bytes(), date)?;
        for part in [region, service, "aws4_request"] {
            secret = keyed(&secret, part)?;
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).ok()?;
        mac.update(text.as_bytes());
        // Takes the same time wherever the first difference is.
        mac.verify_slice(&bytes_of(signature?)?).ok()?;
        match digest {
            UNSIGNED => Some(SignedContent::Any),
            digest if digest.len() == 64 => Some(SignedContent::Digest(digest.to_owned())),
            _ => None,
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then(|| value.trim())
    }

    /// Returns the text that is signed.
    fn canonical(&self, names: &[&str], digest: &str) -> Option<String> {
        let mut pairs: Vec<(&str, &str)> = self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        pairs.sort_unstable();
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let mut text = format!("{}\n{}\n{}\n", self.method, self.path, pairs.join("&"));
        for name in names {
            let value = self.header(name)?;
            let words: Vec<&str> = value.split_whitespace().collect();
            text.push_str(&format!("{name}:{}\n", words.join(" ")));
        }
        text.push_str(&format!("\n{}\n{digest}", names.join(";")));
        Some(text)
    }
}

fn keyed(secret: &[u8], text: &str) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(text.as_bytes());
    Some(mac.finalize().into_bytes().to_vec())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses hexadecimal digits.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of a request for an object in AWS's documentation ("Signature Calculations for the Authorization
    /// Header"), whose signature is given there.
    fn example(secret: &str, changed: Option<(&'static str, &str)>) -> Option<SignedContent> {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            (
                "x-amz-content-sha256",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            ("x-amz-date", "20130524T000000Z"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
                 SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
                 Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        if let Some((name, value)) = changed {
            headers.insert(name, value.parse().unwrap());
        }
        let request = UnverifiedRequest {
            method: "GET",
            path: "/test.txt",
            query: "",
            headers: &headers,
        };
        request.check(&AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: secret.to_owned(),
        })
    }

    #[test]
    fn the_published_example_is_accepted_and_nothing_else() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let content = example(secret, None).unwrap();
        assert!(content.is(b"") && !content.is(b"x"));
        assert_eq!(example("another", None), None);
        for (name, value) in [
            ("range", "bytes=0-8"),
            ("x-amz-date", "20130524T000001Z"),
            ("host", "other"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=, SignedHeaders=, Signature=",
            ),
            ("authorization", "Basic eA=="),
        ] {
            assert_eq!(
                example(secret, Some((name, value))),
                None,
                "{name}: {value}"
            );
        }
    }
}
