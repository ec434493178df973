//! Connected components of the trained edges, ignoring the direction of edges.

use pbg_core::graph::EdgeColumns;
use serde::Serialize;

use super::error::DescribeError;
use super::numbering::{EntityNumbering, NumberedEdge};
use super::reading::{self, EdgeProgress};
use crate::Dataset;

/// Connected components of the trained edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Components {
    /// Number of components with at least one edge.
    pub count: u64,
    /// Number of entities in the largest component.
    pub largest: u64,
    /// Number of entities in all components.
    pub entities: u64,
}

/// Maximum number of entities that a forest can represent.
pub(super) const MOST: u64 = 1 << 31;

/// Returns the memory in bytes that counting takes, besides the buffers for reading edges.
pub(super) fn bytes(numbering: &EntityNumbering) -> u64 {
    numbering.total() * size_of::<u32>() as u64
}

/// Counts the connected components of the edges of `trained`.
pub(super) fn count(
    dataset: &Dataset,
    numbering: &EntityNumbering,
    trained: &[String],
    step: &mut EdgeProgress<'_>,
) -> Result<Components, DescribeError> {
    let mut forest = Forest::new(numbering.total());
    let mut edges = EdgeColumns::default();
    for name in reading::present(dataset, trained) {
        let set = dataset.edge_set(name)?;
        let buckets = reading::all_buckets(set.grid());
        reading::for_each_part_in_order(&set, buckets, &mut edges, |bucket, edges| {
            for NumberedEdge { lhs, rhs, .. } in numbering.of_bucket(bucket).all(edges) {
                forest.join(lhs as u32, rhs as u32);
            }
            reading::report(step, edges.len() as u64)
        })?;
    }
    Ok(forest.components())
}

/// Union-find forest: each entity has its parent; a root has the size of its tree.
struct Forest {
    /// Parent of each entity or, with the highest bit set, the number of entities of the tree whose root it is; 0 for
    /// an entity without edges.
    parents: Vec<u32>,
}

/// Bit that marks a root.
const ROOT: u32 = 1 << 31;

impl Forest {
    fn new(entities: u64) -> Self {
        Self {
            parents: vec![ROOT; entities as usize],
        }
    }

    /// Returns the root of the tree of `at`; halves the path to it (path halving).
    fn root(&mut self, mut at: u32) -> u32 {
        loop {
            let parent = self.parents[at as usize];
            if parent & ROOT != 0 {
                return at;
            }
            let above = self.parents[parent as usize];
            if above & ROOT != 0 {
                return parent;
            }
            self.parents[at as usize] = above;
            at = above;
        }
    }

    /// Returns the number of entities in the tree with this root; an entity without edges counts as one.
    fn size(&self, root: u32) -> u32 {
        (self.parents[root as usize] & !ROOT).max(1)
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        let (small, large) = match self.size(a) <= self.size(b) {
            true => (a, b),
            false => (b, a),
        };
        let size = match a == b {
            true => self.size(a),
            false => self.size(a) + self.size(b),
        };
        self.parents[small as usize] = large;
        self.parents[large as usize] = ROOT | size;
    }

    fn components(&self) -> Components {
        let roots = self.parents.iter().filter(|&&parent| parent & ROOT != 0);
        let sizes = roots.map(|&root| u64::from(root & !ROOT));
        let sizes = sizes.filter(|&size| size > 0);
        sizes.fold(Components::default(), |sum, size| Components {
            count: sum.count + 1,
            largest: sum.largest.max(size),
            entities: sum.entities + size,
        })
    }
}
