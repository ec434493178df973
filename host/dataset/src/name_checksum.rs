//! Checksum of a list of names.

/// Checksum of a sequence of names. It includes their lengths, so that moving characters between names changes it.
#[derive(Clone, Debug, Default)]
pub struct NameChecksum(crc32fast::Hasher);

impl NameChecksum {
    /// Adds the next name.
    pub fn add(&mut self, name: &str) {
        self.0.update(&(name.len() as u32).to_le_bytes());
        self.0.update(name.as_bytes());
    }

    /// Returns the checksum of the names so far.
    #[must_use]
    pub fn finish(&self) -> u32 {
        self.0.clone().finalize()
    }
}
