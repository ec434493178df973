//! Limits that errors name.

/// Largest message in bytes: the default limit of servers.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// Hexadecimal digits of a secret: 256 bits. Every client is shown a certificate signed with a key derived from the
/// secret, and could test guesses against it offline. Fewer bits, or words, would be found.
pub(crate) const SECRET_DIGITS: usize = 64;

/// Greatest length of a token. A longer text comes from the wrong file.
pub(crate) const LONGEST_TOKEN: usize = 1024;

/// Oldest supported version of nats-server.
pub(crate) const OLDEST_SERVER: &str = "2.12";
