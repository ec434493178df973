//! Failures of registries: what kind, what and where, and advice.

use std::fmt;

/// Kind of a [`RegistryError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryErrorKind {
    /// The reference or the settings of the user are wrong.
    Usage,
    /// The registry cannot be reached, denies access or does not work.
    Service,
    /// The registry has no such component, or what it delivers is not the component.
    Content,
}

/// Failure of a pull or a push. Its text contains nothing that a server has sent except numbers, digests and names that
/// were checked.
#[derive(Debug)]
pub struct RegistryError {
    kind: RegistryErrorKind,
    text: String,
    help: Option<String>,
}

impl RegistryError {
    /// Creates an error of the user's input.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(RegistryErrorKind::Usage, text)
    }

    /// Creates an error of the connection or of the registry's service.
    pub(crate) fn service(text: impl Into<String>) -> Self {
        Self::new(RegistryErrorKind::Service, text)
    }

    /// Creates an error of what the registry delivers.
    pub(crate) fn content(text: impl Into<String>) -> Self {
        Self::new(RegistryErrorKind::Content, text)
    }

    fn new(kind: RegistryErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            help: None,
        }
    }

    /// Adds advice.
    pub(crate) fn advised(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says where the error is, unless it is in what the user gave.
    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        if self.kind != RegistryErrorKind::Usage {
            self.text = format!("{place}: {}", self.text);
        }
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> RegistryErrorKind {
        self.kind
    }

    /// Returns advice.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RegistryError {}
