//! Errors of object stores as errors of files: their kind, and one sentence that says what to do.

use std::io;

use object_store::Error;

use crate::url::{ObjectUrl, Provider};

/// Turns the error of a store into that of a file.
pub(crate) fn io_error(error: Error, url: &ObjectUrl) -> io::Error {
    let text = match &error {
        Error::NotFound { .. } => return io::ErrorKind::NotFound.into(),
        Error::AlreadyExists { .. } => return io::ErrorKind::AlreadyExists.into(),
        Error::Precondition { .. } => return replaced(),
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            return io::Error::new(io::ErrorKind::Unsupported, root_cause(&error));
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => denied(url),
        other => {
            let cause = root_cause(other);
            match element(&cause, "Code") {
                Some("NoSuchBucket") => format!("there is no bucket `{}`", url.bucket),
                Some("AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch") => {
                    denied(url)
                }
                Some("NotImplemented") => {
                    return io::Error::new(io::ErrorKind::Unsupported, "not implemented");
                }
                Some(code) => match element(&cause, "Message") {
                    Some(message) => format!("the store answers {code}: {message}"),
                    None => format!("the store answers {code}"),
                },
                // Requests were repeated for a while.
                None if cause.contains("timed out") => {
                    let text = format!(
                        "the store does not answer ({cause}); check {} and the network",
                        address(url)
                    );
                    return io::Error::new(io::ErrorKind::TimedOut, text);
                }
                None if is_unreachable(&cause) => format!(
                    "the store cannot be reached ({cause}); check {} and the network",
                    address(url)
                ),
                None => cause,
            }
        }
    };
    io::Error::other(text)
}

/// Returns whether the connection failed, and not the request.
pub(crate) fn is_passing(error: &Error) -> bool {
    let has_answer = || element(&root_cause(error), "Code").is_some();
    matches!(error, Error::Generic { .. }) && !has_answer()
}

/// Returns the error for an object that was replaced after it was listed.
pub(crate) fn replaced() -> io::Error {
    let kind = io::ErrorKind::StaleNetworkFileHandle;
    io::Error::new(kind, "it was replaced in the meantime")
}

fn denied(url: &ObjectUrl) -> String {
    if url.is_partition_server {
        return "the partition server denies access: all trainers and servers of a run need the same secret; check \
                PBG_HOST_SECRET and PBG_HOST_SERVER_SECRET"
            .to_owned();
    }
    let variables = credentials(url.provider);
    format!("the store denies access; check {variables} and the rights of this account")
}

/// Returns the text of the first element `name` of an answer in XML.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}

/// Returns the message of the innermost error; those around it repeat it and name internal counters.
fn root_cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    let mut text = cause.to_string();
    while let Some(source) = cause.source() {
        cause = source;
        let inner = cause.to_string();
        if !inner.is_empty() {
            text = inner;
        }
    }
    text
}

/// Returns whether a message is of a connection that could not be made.
fn is_unreachable(cause: &str) -> bool {
    let cause = cause.to_ascii_lowercase();
    let causes = [
        "connection refused",
        "unreachable",
        "dns error",
        "failed to lookup",
    ];
    causes.iter().any(|text| cause.contains(text))
}

/// Returns what decides which address a provider's requests go to.
fn address(url: &ObjectUrl) -> &'static str {
    match url.provider {
        _ if url.is_partition_server => "that the partition server runs",
        Provider::S3 => "AWS_ENDPOINT_URL, AWS_REGION",
        Provider::Google | Provider::Azure => "the URL",
    }
}

/// Returns the environment variables in which a provider's credentials are.
fn credentials(provider: Provider) -> &'static str {
    match provider {
        Provider::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        Provider::Google => "GOOGLE_APPLICATION_CREDENTIALS",
        Provider::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    }
}
