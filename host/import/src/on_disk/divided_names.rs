//! Names of a block, divided by shard.

/// Names of a block, divided by shard.
#[derive(Debug, Default)]
pub(in super::super) struct DividedNames {
    /// Entries of all names, sorted by shard, in the format of the files.
    pub(super) names: Vec<u8>,
    /// End of the entries of each shard.
    pub(super) ends: Vec<u32>,
}
