//! What a dataset holds beyond what its manifest says: degrees, repeated edges, connected parts, and what the held-out
//! edges have that the trained ones lack.
//!
//! Graphs are larger than memory, so everything here streams by, and what is kept of it is computed before it is taken:
//! a bit or a number per entity, and edges that are sorted in as many rounds as they need.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::dataset::{Dataset, DatasetError, EdgeSet, ReadError};

mod bits;
mod components;
mod degrees;
mod numbering;
mod pairs;
mod reading;
mod seen;
mod sets;
mod shared_names;

pub use components::Components;
pub use degrees::Degrees;
use numbering::Numbering;
pub use reading::Step;
use reading::Threads;
pub use seen::{Seen, Unseen};
pub use shared_names::{SharedName, SharedNames};

/// As much memory as anything may need.
const UNLIMITED: u64 = u64::MAX;

/// What ended a description.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The dataset is damaged, or a file of it cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// So is an edge set.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Even the least takes more than there is.
    #[error(
        "describing {} takes at least {} MiB of memory, and there are {} MiB for it; allow more with `--memory`",
        path.display(), needed.div_ceil(1 << 20), available >> 20
    )]
    Memory {
        /// The dataset.
        path: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// The caller ended it.
    #[error("the description was stopped")]
    Cancelled,
}

/// What is described, and with what.
#[derive(Clone, Debug, Default)]
pub struct DescribeOptions {
    /// The edge sets that are trained.
    pub trained: Vec<String>,
    /// Threads; one per core if `None`.
    pub threads: Option<usize>,
    /// Bytes that everything may take together; as much as it needs if `None`.
    pub memory: Option<u64>,
}

/// What a dataset holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Description {
    /// The dataset.
    pub dataset: PathBuf,
    /// The edge sets that are trained, of those that it has.
    pub trained: Vec<String>,
    /// Its edge sets, the trained ones first.
    pub edge_sets: Vec<SetDescription>,
    /// Its entity types.
    pub entity_types: Vec<TypeDescription>,
    /// Its relations, those of the most edges first.
    pub relations: Vec<RelationDescription>,
    /// The connected parts of the trained edges.
    pub components: Option<Components>,
    /// Names that several entity types have.
    pub shared_names: SharedNames,
    /// What was not counted, and why.
    pub not_counted: Vec<String>,
}

/// An edge set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SetDescription {
    /// Name.
    pub name: String,
    /// Edges.
    pub edges: u64,
    /// Whether the edges have weights.
    pub weights: bool,
    /// Entities that are in one of its edges.
    pub entities: u64,
    /// Relations that one of its edges has.
    pub relations: u64,
    /// Edges that it has already, with the same entities and relation.
    pub duplicates: u64,
    /// Edges from an entity to itself.
    pub loops: u64,
    /// Edges that another edge set has, too, by its name.
    pub also_in: BTreeMap<String, u64>,
    /// Edges whose entities are the other way round in an edge of another edge set, or the same one, by its name; the
    /// relation may be another one.
    pub reversed_in: BTreeMap<String, u64>,
    /// What it has that no trained edge has; absent for trained sets, and where none is trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Unseen>,
}

/// An entity type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TypeDescription {
    /// Name.
    pub name: String,
    /// Entities.
    pub entities: u64,
    /// Partitions.
    pub partitions: u32,
    /// How many trained edges its entities have; absent where there was not the memory to count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrees: Option<Degrees>,
}

/// A relation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelationDescription {
    /// Name.
    pub name: String,
    /// Entity type of the left side.
    pub lhs: String,
    /// Entity type of the right side.
    pub rhs: String,
    /// Edges by edge set.
    pub edges: BTreeMap<String, u64>,
}

/// Those of `names` that are edge sets of `dataset`.
fn present<'n>(dataset: &Dataset, names: &'n [String]) -> impl Iterator<Item = &'n String> {
    let sets = &dataset.manifest().edge_sets;
    names.iter().filter(move |name| sets.contains_key(*name))
}

impl Dataset {
    /// Describes the dataset; `step` hears of edges as they are read, those that are read several times as often.
    ///
    /// # Errors
    /// When a file is damaged, there is less memory than the least takes, or `step` ends it.
    pub fn describe(
        &self,
        options: &DescribeOptions,
        step: &mut Step<'_>,
    ) -> Result<Description, DescribeError> {
        let memory = options.memory.unwrap_or(UNLIMITED);
        let numbering = Numbering::new(self);
        let threads = Threads::new(options.threads, memory);
        let reading = threads.count() as u64 * reading::BYTES_PER_THREAD;
        let sets = sets::bytes(&numbering, self.manifest().edge_sets.len() as u64);
        let needed = reading + Seen::bytes(self).max(sets);
        if needed > memory {
            return Err(DescribeError::Memory {
                path: self.path().to_owned(),
                needed,
                available: memory,
            });
        }
        let describing = Describing {
            dataset: self,
            numbering,
            trained: present(self, &options.trained).cloned().collect(),
            threads,
            memory,
            room: memory - reading,
        };
        describing.all(step)
    }
}

/// A description that is being made.
struct Describing<'d> {
    dataset: &'d Dataset,
    numbering: Numbering,
    trained: Vec<String>,
    threads: Threads,
    /// All bytes that there are, and those that there are besides the edges that are read.
    memory: u64,
    room: u64,
}

impl Describing<'_> {
    fn all(&self, step: &mut Step<'_>) -> Result<Description, DescribeError> {
        let mut description = Description {
            dataset: self.dataset.path().to_owned(),
            trained: self.trained.clone(),
            ..Description::default()
        };
        let names = self.set_names();
        let open = names.iter().map(|name| self.dataset.edge_set(name));
        let sets = open.collect::<Result<Vec<_>, _>>()?;
        self.describe_sets((&names, &sets), &mut description, step)?;
        self.add_repeats((&names, &sets), &mut description, step)?;
        self.add_unseen((&names, &sets), &mut description, step)?;
        self.describe_types(&mut description, step)?;
        self.add_components(&mut description, step)?;
        let memory = self.memory.min(1 << 30);
        let go_on = &mut || step(0).is_continue();
        description.shared_names = SharedNames::of(self.dataset, memory, go_on)?;
        Ok(description)
    }

    /// The names of all edge sets, the trained ones first.
    fn set_names(&self) -> Vec<String> {
        let all = self.dataset.manifest().edge_sets.keys();
        let others = all.filter(|name| !self.trained.contains(name)).cloned();
        self.trained.iter().cloned().chain(others).collect()
    }

    /// Describes edge sets and relations.
    fn describe_sets(
        &self,
        (names, sets): (&[String], &[EdgeSet]),
        description: &mut Description,
        step: &mut Step<'_>,
    ) -> Result<(), DescribeError> {
        let relation = |relation: &crate::dataset::Relation| RelationDescription {
            name: relation.name.clone(),
            lhs: relation.lhs.clone(),
            rhs: relation.rhs.clone(),
            edges: BTreeMap::new(),
        };
        let mut relations: Vec<_> = self.dataset.relations().iter().map(relation).collect();
        for (name, set) in names.iter().zip(sets) {
            let counts = sets::count(set, &self.numbering, self.threads, step)?;
            let used = counts.relations.iter().filter(|&&edges| edges > 0);
            description.edge_sets.push(SetDescription {
                name: name.clone(),
                edges: set.len(),
                weights: set.has_weight(),
                entities: counts.entities,
                relations: used.count() as u64,
                loops: counts.loops,
                ..SetDescription::default()
            });
            for (relation, &edges) in relations.iter_mut().zip(&counts.relations) {
                if edges > 0 {
                    relation.edges.insert(name.clone(), edges);
                }
            }
        }
        let total = |relation: &RelationDescription| relation.edges.values().sum::<u64>();
        relations.sort_by(|a, b| total(b).cmp(&total(a)).then_with(|| a.name.cmp(&b.name)));
        description.relations = relations;
        Ok(())
    }

    /// Adds which edges are repeated.
    fn add_repeats(
        &self,
        (names, sets): (&[String], &[EdgeSet]),
        description: &mut Description,
        step: &mut Step<'_>,
    ) -> Result<(), DescribeError> {
        let repeats = pairs::count(sets, &self.numbering, (self.threads, self.memory), step)?;
        let by_name = |counts: &[u64]| -> BTreeMap<String, u64> {
            let counts = names.iter().cloned().zip(counts.iter().copied());
            counts.filter(|&(_, count)| count > 0).collect()
        };
        for (at, set) in description.edge_sets.iter_mut().enumerate() {
            set.duplicates = repeats.duplicates[at];
            set.also_in = by_name(&repeats.also_in[at]);
            set.reversed_in = by_name(&repeats.reversed_in[at]);
        }
        Ok(())
    }

    /// Adds what sets that are not trained have that no trained edge has.
    fn add_unseen(
        &self,
        (names, sets): (&[String], &[EdgeSet]),
        description: &mut Description,
        step: &mut Step<'_>,
    ) -> Result<(), DescribeError> {
        if self.trained.is_empty() || self.trained.len() == names.len() {
            return Ok(());
        }
        let seen = Seen::with_threads(self.dataset, &self.trained, self.threads, step)?;
        for (set, described) in sets.iter().zip(&mut description.edge_sets) {
            if !self.trained.contains(&described.name) {
                described.unseen = Some(seen.unseen(set, step)?);
            }
        }
        Ok(())
    }

    /// Describes entity types, with the degrees of their entities if there is the memory for that.
    fn describe_types(
        &self,
        description: &mut Description,
        step: &mut Step<'_>,
    ) -> Result<(), DescribeError> {
        let needed = degrees::bytes(&self.numbering);
        let mut degrees = None;
        if needed > self.room {
            description
                .not_counted
                .push(self.too_large("degrees", needed));
        } else {
            let graph = (self.dataset, &self.numbering);
            degrees = Some(degrees::count(graph, &self.trained, self.threads, step)?);
        }
        for (index, (name, info)) in self.dataset.manifest().entities.iter().enumerate() {
            description.entity_types.push(TypeDescription {
                name: name.clone(),
                entities: info.total(),
                partitions: info.num_partitions,
                degrees: degrees.as_ref().map(|degrees| degrees[index]),
            });
        }
        Ok(())
    }

    /// Adds the connected parts if there is the memory for that.
    fn add_components(
        &self,
        description: &mut Description,
        step: &mut Step<'_>,
    ) -> Result<(), DescribeError> {
        let needed = components::bytes(&self.numbering);
        if self.numbering.total() >= components::MOST {
            let most = components::MOST;
            let why = format!("components: there are more than {most} entities");
            description.not_counted.push(why);
        } else if needed > self.room {
            let why = self.too_large("components", needed);
            description.not_counted.push(why);
        } else {
            let graph = (self.dataset, &self.numbering);
            description.components = Some(components::count(graph, &self.trained, step)?);
        }
        Ok(())
    }

    /// Says that counting `what` takes more memory than there is.
    fn too_large(&self, what: &str, needed: u64) -> String {
        format!(
            "{what}: they take {} MiB of memory, and there are {} MiB for them",
            needed.div_ceil(1 << 20),
            self.room >> 20
        )
    }
}

#[cfg(test)]
mod tests;
