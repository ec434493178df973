//! The rule of the first pass: every bucket but the first must have a partition that was given out before (PBG,
//! `distributed_tree_init_order`). So all partitions are trained into one embedding space instead of several.
//!
//!
//! In PBG, a partition counts as given out from the moment of its lease. Here a lease can end without a settlement, and
//! buckets that were given up or revoked count as never leased. So a lease must be connected to the tree through the
//! buckets that are done and the trainer's own leases alone: then it stays connected whichever other trainers are
//! revoked. Buckets without edges connect their partitions as soon as one of the two is given out, because PBG would
//! train them in no time. Otherwise partitions that only such buckets connect could never be trained.

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::schedule::PassId;

use super::{BucketState, Grid, LedgerRecord, Token};

/// Connected components of the partitions, as a union-find structure. The larger component becomes the parent of the
/// smaller one. So a walk to a root takes at most as many steps as the number of nodes has bits, even in the largest
/// grid, and the last joins can be undone.
#[derive(Clone, Debug)]
struct Forest {
    /// Parent of each node. A root is its own parent.
    parents: Vec<usize>,
    /// Number of nodes of the component of each root. Undefined for other nodes.
    sizes: Vec<usize>,
}

fn node(grid: &Grid, side: Side, partition: u32) -> usize {
    match grid.owner(side) {
        Side::Lhs => partition as usize,
        Side::Rhs => grid.lhs as usize + partition as usize,
    }
}

impl Forest {
    fn new(grid: &Grid) -> Self {
        let nodes = grid.lhs as usize + grid.rhs as usize;
        Self {
            parents: (0..nodes).collect(),
            sizes: vec![1; nodes],
        }
    }

    fn find(&self, mut node: usize) -> usize {
        while self.parents[node] != node {
            node = self.parents[node];
        }
        node
    }

    /// Joins two components. Returns the node that is no longer a root, or `None` if they were one component already.
    fn join(&mut self, grid: &Grid, bucket: Bucket) -> Option<usize> {
        let lhs = self.find(node(grid, Side::Lhs, bucket.lhs));
        let rhs = self.find(node(grid, Side::Rhs, bucket.rhs));
        if lhs == rhs {
            return None;
        }
        let (child, root) = match self.sizes[lhs] < self.sizes[rhs] {
            true => (lhs, rhs),
            false => (rhs, lhs),
        };
        self.parents[child] = root;
        self.sizes[root] += self.sizes[child];
        Some(child)
    }

    /// Undoes joins that returned `children`, which must be the last ones, in their order.
    fn undo(&mut self, children: &[usize]) {
        for &child in children.iter().rev() {
            let root = self.parents[child];
            self.sizes[root] -= self.sizes[child];
            self.parents[child] = child;
        }
    }

    /// Returns the root of the component of `bucket`, which must have been joined.
    fn root(&self, grid: &Grid, bucket: Bucket) -> usize {
        self.find(node(grid, Side::Lhs, bucket.lhs))
    }

    fn touches(&self, grid: &Grid, bucket: Bucket, root: usize) -> bool {
        [(Side::Lhs, bucket.lhs), (Side::Rhs, bucket.rhs)]
            .into_iter()
            .any(|(side, partition)| self.find(node(grid, side, partition)) == root)
    }
}

/// Partitions that a trainer's next lease may be connected to.
#[derive(Debug)]
pub(super) struct InitTree<'a> {
    grid: &'a Grid,
    /// Components with all leases, and components with only the buckets that remain if all other trainers are revoked;
    /// each with the root of the tree, if the tree is not empty.
    forests: [(Forest, Option<usize>); 2],
}

impl<'a> InitTree<'a> {
    /// Returns the tree for the leases of `token`, or `None` if the rule does not apply.
    pub(super) fn of(record: &'a LedgerRecord, token: Option<Token>) -> Option<Self> {
        if !rule_holds(record) {
            return None;
        }
        let grid = record.grid();
        let (mut all, mut own) = (forest(record), forest(record));
        let first = record.in_state(BucketState::Done).next();
        let (mut all_root, mut own_root) = (first, first);
        for (other, trainer) in &record.trainers {
            for &bucket in &trainer.leases {
                all.join(grid, bucket);
                all_root = all_root.or(Some(bucket));
                if Some(*other) == token {
                    own.join(grid, bucket);
                    own_root = own_root.or(Some(bucket));
                }
            }
        }
        let rooted = |forest: Forest, bucket: Option<Bucket>| {
            let root = bucket.map(|bucket| forest.root(grid, bucket));
            (forest, root)
        };
        let forests = [rooted(all, all_root), rooted(own, own_root)];
        Some(Self { grid, forests })
    }

    /// Returns the number of swapped partitions in the tree.
    pub(super) fn groups(&self) -> usize {
        let (forest, root) = &self.forests[0];
        let is_in =
            |(side, p): &SidePartition| Some(forest.find(node(self.grid, *side, *p))) == *root;
        self.grid.groups().filter(is_in).count()
    }

    /// Whether exactly one partition of `bucket` is in the tree, so that the other one is added; if the tree is empty,
    /// whether the bucket has two different partitions.
    pub(super) fn grows_by(&self, bucket: Bucket) -> bool {
        let (forest, root) = &self.forests[0];
        let find = |side, partition| forest.find(node(self.grid, side, partition));
        let (lhs, rhs) = (find(Side::Lhs, bucket.lhs), find(Side::Rhs, bucket.rhs));
        match *root {
            Some(root) => (lhs == root) != (rhs == root),
            None => lhs != rhs,
        }
    }

    /// Whether a partition of `bucket` was given out before, or the bucket is the first.
    pub(super) fn is_connected(&self, bucket: Bucket) -> bool {
        self.forests
            .iter()
            .all(|(forest, root)| root.is_none_or(|r| forest.touches(self.grid, bucket, r)))
    }
}

/// Whether the rule applies and is kept: by the buckets that are done, by these together with the leases of each
/// trainer, and by these together with all leases. The rule does not apply if a single trainer has begun the pass in
/// another order.
pub(super) fn rule_holds(record: &LedgerRecord) -> bool {
    if !record.terms.tree_init || record.work.pass != PassId::default() {
        return false;
    }
    let grid = record.grid();
    let mut forest = forest(record);
    let done = record.in_state(BucketState::Done);
    // There is one set of leases for each trainer, so only one bucket of each component is looked at again.
    let mut done: Vec<usize> = done.map(|bucket| forest.root(grid, bucket)).collect();
    done.sort_unstable();
    done.dedup();
    let mut is_one = |leases: &[Bucket]| {
        let joined = leases.iter().filter_map(|b| forest.join(grid, *b));
        let joined: Vec<usize> = joined.collect();
        let of_done = done.iter().map(|node| forest.find(*node));
        let mut roots = of_done.chain(leases.iter().map(|b| forest.root(grid, *b)));
        let is_one = roots
            .next()
            .is_none_or(|first| roots.all(|root| root == first));
        forest.undo(&joined);
        is_one
    };
    let leases = |trainer: &super::Trainer| trainer.leases.clone();
    let all: Vec<Bucket> = record.trainers.values().flat_map(leases).collect();
    is_one(&all)
        && record
            .trainers
            .values()
            .all(|trainer| is_one(&trainer.leases))
}

/// Returns the components of the buckets that are done or without edges.
fn forest(record: &LedgerRecord) -> Forest {
    let grid = record.grid();
    let mut forest = Forest::new(grid);
    for (index, state) in record.work.buckets.iter().enumerate() {
        if matches!(state, BucketState::Done | BucketState::Empty) {
            forest.join(grid, grid.bucket(index));
        }
    }
    forest
}
