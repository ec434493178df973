//! What two configurations say differently.

use std::fmt;

/// A key with two values, as one would write them in TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key with all tables that it is in.
    pub key: String,
    /// Its value here.
    pub here: String,
    /// Its value in the other configuration.
    pub other: String,
}

impl Difference {
    /// Whether it is about `key`: the key itself, or one in the table of this name.
    #[must_use]
    pub fn is_about(&self, key: &str) -> bool {
        let rest = self.key.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, not {}", self.key, self.here, self.other)
    }
}

/// As it is shown, for tests.
#[cfg(test)]
impl PartialEq<&str> for Difference {
    fn eq(&self, shown: &&str) -> bool {
        let text = self.to_string();
        text == *shown
    }
}
