//! Names that several entity types have in common: often a sign of edges whose sides were swapped.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use serde::Serialize;

use super::error::DescribeError;
use crate::Dataset;
use crate::manifest::EntityType;

/// Maximum number of names that are shown.
const EXAMPLES: usize = 3;
/// Bytes per compared name: its hash.
const BYTES_PER_NAME: u64 = 8;

/// Names of entities of more than one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SharedNames {
    /// Number of such names.
    pub count: u64,
    /// The first few of them.
    pub examples: Vec<SharedName>,
}

/// Name with the types that have an entity of that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedName {
    /// The name.
    pub name: String,
    /// The entity types.
    pub types: Vec<String>,
}

impl SharedNames {
    /// Counts the names that several entity types of `dataset` have in common, in rounds that take at most `memory`
    /// bytes each, but at least 1 MiB.
    ///
    /// Names are compared by hashes of 64 bits; only the examples are compared themselves.
    ///
    /// # Errors
    /// When a dictionary is damaged, or `go_on`, which is called before every dictionary, returns false.
    pub fn of(
        dataset: &Dataset,
        memory: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, DescribeError> {
        let mut types: Vec<_> = dataset.manifest().entities.iter().collect();
        // The names of the largest type are only looked up, so they take no memory.
        types.sort_by_key(|(_, info)| info.total());
        let names: Vec<&String> = types.iter().map(|(name, _)| *name).collect();
        let mut shared = Self::default();
        if names.len() < 2 {
            return Ok(shared);
        }
        let rounds = Self::rounds(dataset, memory);
        for round in 0..rounds {
            shared.count_round(dataset, &names, round, rounds, go_on)?;
        }
        shared.name_types(dataset, &names, go_on)?;
        Ok(shared)
    }

    /// Returns how often all dictionaries are read with `memory` bytes.
    #[must_use]
    pub fn rounds(dataset: &Dataset, memory: u64) -> u64 {
        let totals = dataset.manifest().entities.values();
        let totals: Vec<u64> = totals.map(EntityType::total).collect();
        let compared = totals.iter().sum::<u64>() - totals.iter().max().copied().unwrap_or(0);
        // A growing vector doubles its capacity.
        let bytes = 2 * compared * BYTES_PER_NAME;
        bytes.div_ceil(memory.max(1 << 20)).max(1)
    }

    /// Counts the names whose hashes belong to this round.
    fn count_round(
        &mut self,
        dataset: &Dataset,
        types: &[&String],
        round: u64,
        rounds: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), DescribeError> {
        // Hashes of the names of the types so far, and those of them that were counted as shared.
        let mut known: Vec<u64> = Vec::new();
        let mut counted: Vec<u64> = Vec::new();
        for (at, entity_type) in types.iter().enumerate() {
            proceed(go_on)?;
            let is_last = at + 1 == types.len();
            let mut new = Vec::new();
            let (mut found, examples) = (Vec::new(), &mut self.examples);
            dataset.visit_entities(entity_type, &mut |_, name| {
                let hash = hash(name);
                if hash % rounds != round {
                    return;
                }
                if known.binary_search(&hash).is_err() {
                    if !is_last {
                        new.push(hash);
                    }
                } else if counted.binary_search(&hash).is_err() {
                    found.push(hash);
                    if examples.len() < EXAMPLES {
                        examples.push(SharedName {
                            name: name.to_owned(),
                            types: Vec::new(),
                        });
                    }
                }
            })?;
            self.count += found.len() as u64;
            counted.extend(found);
            counted.sort_unstable();
            known.extend(new);
            known.sort_unstable();
        }
        Ok(())
    }

    /// Determines the types of the examples.
    fn name_types(
        &mut self,
        dataset: &Dataset,
        types: &[&String],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), DescribeError> {
        if self.examples.is_empty() {
            return Ok(());
        }
        for entity_type in types {
            proceed(go_on)?;
            dataset.visit_entities(entity_type, &mut |_, name| {
                for example in self.examples.iter_mut().filter(|e| e.name == name) {
                    example.types.push((*entity_type).clone());
                }
            })?;
        }
        for example in &mut self.examples {
            example.types.sort_unstable();
        }
        self.examples.retain(|example| example.types.len() > 1);
        Ok(())
    }
}

fn proceed(go_on: &mut dyn FnMut() -> bool) -> Result<(), DescribeError> {
    match go_on() {
        true => Ok(()),
        false => Err(DescribeError::Cancelled),
    }
}

fn hash(name: &str) -> u64 {
    FixedState::with_seed(0).hash_one(name)
}
