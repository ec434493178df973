//! Statistics of a dataset beyond its manifest: degrees, repeated edges, connected components, and entities of held-out
//! edges that no trained edge has.
//!
//! Graphs are larger than memory, so edges are streamed, and the memory of all other data is computed before it is
//! allocated: a bit or a number per entity, and edges that are sorted in as many rounds as memory requires.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::{Dataset, EdgeSet};

mod bits;
mod components;
mod degrees;
mod error;
mod numbering;
mod reading;
mod repeats;
mod seen;
mod sets;
mod shared_names;

pub use components::Components;
pub use degrees::Degrees;
pub use error::DescribeError;
use numbering::EntityNumbering;
pub use reading::{BYTES_PER_THREAD, EdgeProgress};
use reading::{ReadingThreads, UNLIMITED, present};
pub use seen::{TrainedVocabulary, UnseenCounts};
pub use shared_names::{SharedName, SharedNames};

/// Options of a description.
#[derive(Clone, Debug, Default)]
pub struct DescribeOptions {
    /// Names of the edge sets that are trained on.
    pub trained: Vec<String>,
    /// Number of threads; one per core if `None`.
    pub threads: Option<usize>,
    /// Memory limit in bytes for everything; none if `None`.
    pub memory: Option<u64>,
}

/// Statistics of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Description {
    /// Folder of the dataset.
    pub dataset: PathBuf,
    /// Names of the existing edge sets that are trained on.
    pub trained: Vec<String>,
    /// Edge sets, the trained ones first.
    pub edge_sets: Vec<SetDescription>,
    /// Entity types.
    pub entity_types: Vec<TypeDescription>,
    /// Relations, sorted by descending number of edges.
    pub relations: Vec<RelationDescription>,
    /// Connected components of the trained edges.
    pub components: Option<Components>,
    /// Names that several entity types have in common.
    pub shared_names: SharedNames,
    /// Statistics that were not computed, with the reasons.
    pub not_counted: Vec<String>,
}

/// Statistics of an edge set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SetDescription {
    /// Name of the set.
    pub name: String,
    /// Number of edges.
    pub edges: u64,
    /// Whether the edges have weights.
    pub weights: bool,
    /// Number of entities with an edge in the set.
    pub entities: u64,
    /// Number of relations with an edge in the set.
    pub relations: u64,
    /// Number of repeated edges: edges with the same entities and relation as an earlier one.
    pub duplicates: u64,
    /// Number of edges from an entity to itself.
    pub loops: u64,
    /// Number of edges that another edge set has too, by the name of that set.
    pub also_in: BTreeMap<String, u64>,
    /// Number of edges whose entities occur in reverse order in an edge of another edge set or the same one, by the
    /// name of that set. The relation may differ.
    pub reversed_in: BTreeMap<String, u64>,
    /// Entities and relations of the set that no trained edge has; absent for trained sets, and if none is trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenCounts>,
}

/// Statistics of an entity type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TypeDescription {
    /// Name of the type.
    pub name: String,
    /// Number of entities.
    pub entities: u64,
    /// Number of partitions.
    pub partitions: u32,
    /// Degrees of its entities in the trained edges; absent if memory did not suffice to count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrees: Option<Degrees>,
}

/// Statistics of a relation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelationDescription {
    /// Name of the relation.
    pub name: String,
    /// Entity type of the left side.
    pub lhs: String,
    /// Entity type of the right side.
    pub rhs: String,
    /// Number of edges by edge set.
    pub edges: BTreeMap<String, u64>,
}

impl Dataset {
    /// Computes the statistics of the dataset. `step` receives the number of edges whenever edges are read; edges that
    /// are read several times count each time.
    ///
    /// # Errors
    /// When a file is damaged, the memory limit is below the minimum, or `step` stops the computation.
    pub fn describe(
        &self,
        options: &DescribeOptions,
        step: &mut EdgeProgress<'_>,
    ) -> Result<Description, DescribeError> {
        let memory = options.memory.unwrap_or(UNLIMITED);
        let numbering = EntityNumbering::new(self);
        let threads = ReadingThreads::new(options.threads, memory);
        let reading = threads.count() as u64 * reading::BYTES_PER_THREAD;
        let sets = sets::bytes(&numbering, self.manifest().edge_sets.len() as u64);
        let needed = reading + TrainedVocabulary::bytes(self).max(sets);
        if needed > memory {
            return Err(DescribeError::Memory {
                path: self.path().to_owned(),
                needed,
                available: memory,
            });
        }
        let describing = DescribeJob {
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

/// Computation of a description.
struct DescribeJob<'d> {
    dataset: &'d Dataset,
    numbering: EntityNumbering,
    trained: Vec<String>,
    threads: ReadingThreads,
    /// Memory limit in bytes, in total and without the buffers for reading edges.
    memory: u64,
    room: u64,
}

impl DescribeJob<'_> {
    fn all(&self, step: &mut EdgeProgress<'_>) -> Result<Description, DescribeError> {
        let mut description = Description {
            dataset: self.dataset.path().to_owned(),
            trained: self.trained.clone(),
            ..Description::default()
        };
        let names = self.set_names();
        let open = names.iter().map(|name| self.dataset.edge_set(name));
        let sets = open.collect::<Result<Vec<_>, _>>()?;
        self.describe_sets(&names, &sets, &mut description, step)?;
        self.add_repeats(&names, &sets, &mut description, step)?;
        self.add_unseen(&names, &sets, &mut description, step)?;
        self.describe_types(&mut description, step)?;
        self.add_components(&mut description, step)?;
        let memory = self.memory.min(1 << 30);
        let go_on = &mut || step(0).is_continue();
        description.shared_names = SharedNames::of(self.dataset, memory, go_on)?;
        Ok(description)
    }

    /// Returns the names of all edge sets, the trained ones first.
    fn set_names(&self) -> Vec<String> {
        let all = self.dataset.manifest().edge_sets.keys();
        let others = all.filter(|name| !self.trained.contains(name)).cloned();
        self.trained.iter().cloned().chain(others).collect()
    }

    /// Adds the edge sets and relations.
    fn describe_sets(
        &self,
        names: &[String],
        sets: &[EdgeSet],
        description: &mut Description,
        step: &mut EdgeProgress<'_>,
    ) -> Result<(), DescribeError> {
        let relation = |relation: &crate::Relation| RelationDescription {
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

    /// Adds the counts of repeated edges.
    fn add_repeats(
        &self,
        names: &[String],
        sets: &[EdgeSet],
        description: &mut Description,
        step: &mut EdgeProgress<'_>,
    ) -> Result<(), DescribeError> {
        let repeats = repeats::count(sets, &self.numbering, self.threads, self.memory, step)?;
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

    /// Adds the entities and relations that no trained edge has, to each set that is not trained.
    fn add_unseen(
        &self,
        names: &[String],
        sets: &[EdgeSet],
        description: &mut Description,
        step: &mut EdgeProgress<'_>,
    ) -> Result<(), DescribeError> {
        if self.trained.is_empty() || self.trained.len() == names.len() {
            return Ok(());
        }
        let seen =
            TrainedVocabulary::with_threads(self.dataset, &self.trained, self.threads, step)?;
        for (set, described) in sets.iter().zip(&mut description.edge_sets) {
            if !self.trained.contains(&described.name) {
                described.unseen = Some(seen.unseen(set, step)?);
            }
        }
        Ok(())
    }

    /// Adds the entity types, with the degrees of their entities if memory suffices.
    fn describe_types(
        &self,
        description: &mut Description,
        step: &mut EdgeProgress<'_>,
    ) -> Result<(), DescribeError> {
        let needed = degrees::bytes(&self.numbering);
        let mut degrees = None;
        if needed > self.room {
            let why = self.too_large("degrees", needed);
            description.not_counted.push(why);
        } else {
            let (numbering, trained) = (&self.numbering, &self.trained);
            let counted = degrees::count(self.dataset, numbering, trained, self.threads, step)?;
            degrees = Some(counted);
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

    /// Adds the connected components if memory suffices.
    fn add_components(
        &self,
        description: &mut Description,
        step: &mut EdgeProgress<'_>,
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
            let (numbering, trained) = (&self.numbering, &self.trained);
            let counted = components::count(self.dataset, numbering, trained, step)?;
            description.components = Some(counted);
        }
        Ok(())
    }

    /// Returns the message that counting `what` exceeds the memory limit.
    fn too_large(&self, what: &str, needed: u64) -> String {
        format!(
            "{what}: counting takes {} MiB of memory, but {} MiB are available",
            needed.div_ceil(1 << 20),
            self.room >> 20
        )
    }
}
