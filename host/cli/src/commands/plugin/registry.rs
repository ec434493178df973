//! What `plugin pull` and `plugin push` share: the client of a registry, and its failures.

use pbg_registry::{
    RegistryClient, RegistryCredentials, RegistryError, RegistryErrorKind, RegistryReference,
};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// Parses a reference.
pub(super) fn reference(text: &str) -> Result<RegistryReference> {
    RegistryReference::parse(text).map_err(failed)
}

/// Creates the client of the registry that a reference names.
pub(super) fn client(reference: RegistryReference) -> Result<RegistryClient> {
    let credentials = RegistryCredentials::of_environment(&reference).map_err(failed)?;
    RegistryClient::new(reference, credentials).map_err(failed)
}

/// Turns the error of a registry into a failure.
pub(super) fn failed(error: RegistryError) -> Failure {
    let kind = match error.kind() {
        RegistryErrorKind::Usage => FailureKind::Usage,
        RegistryErrorKind::Service => FailureKind::Io,
        RegistryErrorKind::Content => FailureKind::Plugin,
    };
    let help = error.help().map(str::to_owned);
    let failure = Failure::new(kind, error);
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}
