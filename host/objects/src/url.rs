//! URL of a folder in an object store.

use std::fmt;
use std::io;

use pbg_files::remote::SCHEMES;

/// Service that an object store belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Google,
    Azure,
}

/// URL of a folder: `s3://BUCKET/FOLDER`, `gs://BUCKET/FOLDER` or `az://CONTAINER/FOLDER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectUrl {
    pub(crate) provider: Provider,
    pub(crate) bucket: String,
    /// Folder within the bucket, without slashes at its ends; empty for the bucket itself.
    pub(crate) folder: String,
    /// Whether it is the memory of a partition server, which speaks the protocol of S3.
    pub(crate) is_partition_server: bool,
}

impl ObjectUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// When the scheme is unknown, there is no bucket, or a part of the path is empty, `.` or `..`.
    pub fn parse(text: &str) -> io::Result<Self> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let [s3, google, azure] = SCHEMES;
        let schemes = [
            (s3, Provider::S3),
            (google, Provider::Google),
            (azure, Provider::Azure),
        ];
        let found = schemes
            .iter()
            .find_map(|(scheme, provider)| Some((*provider, text.strip_prefix(scheme)?)));
        let Some((provider, rest)) = found else {
            return wrong("a URL begins with s3://, gs:// or az://");
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return wrong("it names no bucket; write s3://BUCKET/FOLDER");
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        if !bucket.chars().all(is_plain) {
            return wrong("the name of a bucket has letters, digits, `-`, `_` and `.` only");
        }
        if folder.chars().any(char::is_control) {
            return wrong("it contains a control character");
        }
        let is_bad = |part: &str| part.is_empty() || part == "." || part == "..";
        if !folder.is_empty() && folder.split('/').any(is_bad) {
            return wrong("a part of its path is empty, `.` or `..`");
        }
        Ok(Self {
            provider,
            bucket: bucket.to_owned(),
            folder: folder.to_owned(),
            is_partition_server: false,
        })
    }

    /// Returns the name that the object `name` of this folder has in the bucket.
    pub(crate) fn key(&self, name: &str) -> String {
        match self.folder.is_empty() {
            true => name.to_owned(),
            false => format!("{}/{name}", self.folder),
        }
    }

    /// Returns the last part of the path, or the bucket.
    pub(crate) fn last_part(&self) -> &str {
        match self.folder.rsplit('/').next() {
            Some(part) if !part.is_empty() => part,
            _ => &self.bucket,
        }
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [s3, google, azure] = SCHEMES;
        let scheme = match self.provider {
            Provider::S3 => s3,
            Provider::Google => google,
            Provider::Azure => azure,
        };
        write!(f, "{scheme}{}", self.bucket)?;
        match self.folder.is_empty() {
            true => Ok(()),
            false => write!(f, "/{}", self.folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown() {
        for (text, shown, last) in [
            ("s3://data/graphs/fb", "s3://data/graphs/fb", "fb"),
            ("s3://data/graphs/fb/", "s3://data/graphs/fb", "fb"),
            ("gs://data", "gs://data", "data"),
            ("az://data/", "az://data", "data"),
            ("s3://data/a b ü", "s3://data/a b ü", "a b ü"),
        ] {
            let url = ObjectUrl::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.last_part()), (shown, last));
        }
    }

    #[test]
    fn unusable_urls_are_refused() {
        for text in [
            "s3://",
            "s3:///a",
            "http://a/b",
            "s3://a//b",
            "s3://a/../b",
            "s3://a/./b",
            "s3://a/b//",
            "s3://a\n/b",
            "s3://a/b\nc",
            "s3://user@a/b",
        ] {
            assert!(ObjectUrl::parse(text).is_err(), "{text:?}");
        }
    }
}
