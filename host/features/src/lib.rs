//! Empty: only the manifest of this crate matters.
