//! Symmetry of partitions: worlds that differ only in a permutation of their partitions are equivalent.
//!
//! Partitions are sorted by signatures of their surroundings. Where that leaves ties, several states represent one
//! world, which costs time but hides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use pbg_core::graph::{Bucket, Side, SidePartition};

use super::super::*;
use super::canonical::hash;
use super::world::{Content, Member, Model, World};

/// New numbers of the left and the right partitions.
struct Places<'a> {
    grid: &'a Grid,
    passes: usize,
    lhs: Vec<u32>,
    rhs: Vec<u32>,
}

/// Returns the same world with its partitions in a fixed order.
pub(super) fn sorted(model: &Model, mut world: World) -> World {
    let grid = &model.grid;
    let Some(record) = &world.register else {
        return world;
    };
    let (mut lhs, mut rhs) = (vec![0; grid.lhs as usize], vec![0; grid.rhs as usize]);
    for _ in 0..3 {
        (lhs, rhs) = (
            signatures(grid, record, &world, Side::Lhs, &rhs),
            signatures(grid, record, &world, Side::Rhs, &lhs),
        );
        if grid.shared {
            lhs = lhs.iter().zip(&rhs).map(|(l, r)| hash(&(l, r))).collect();
            rhs.clone_from(&lhs);
        }
    }
    let places = Places {
        grid,
        passes: model.passes as usize,
        lhs: places(&lhs),
        rhs: places(&rhs),
    };
    let is_sorted = places.lhs.is_sorted() && places.rhs.is_sorted();
    if !is_sorted {
        places.world(&mut world);
    }
    world
}

/// Returns a signature of the surroundings of each partition of `side`, given the signatures of the other side.
fn signatures(
    grid: &Grid,
    record: &LedgerRecord,
    world: &World,
    side: Side,
    others: &[u64],
) -> Vec<u64> {
    (0..grid.partitions(side))
        .map(|partition| {
            let bucket = |other| match side {
                Side::Lhs => Bucket::new(partition, other),
                Side::Rhs => Bucket::new(other, partition),
            };
            let around = |other: u32| {
                let state = record.state(bucket(other)).map(|state| state as u8);
                let leases = |m: &Member| m.leases.contains(&bucket(other));
                let members = world.members.iter().filter(|m| leases(m)).count();
                (
                    state,
                    members,
                    others[other as usize],
                    grid.shared && other == partition,
                )
            };
            let mut around: Vec<_> = (0..grid.partitions(side.other())).map(around).collect();
            around.sort_unstable();
            let index = grid.group_index((grid.owner(side), partition));
            let contents = |(name, content): (&(usize, FileId), &Content)| {
                (Some(name.0) == index).then_some(content.count_ones())
            };
            let mut contents: Vec<u32> = world.disk.iter().filter_map(contents).collect();
            contents.sort_unstable();
            hash(&(around, contents))
        })
        .collect()
}

/// Returns the rank of each signature.
fn places(signatures: &[u64]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..signatures.len()).collect();
    order.sort_by_key(|index| signatures[*index]);
    let mut places = vec![0; order.len()];
    for (place, index) in (0..).zip(order) {
        places[index] = place;
    }
    places
}

impl Places<'_> {
    fn bucket(&self, bucket: &mut Bucket) {
        bucket.lhs = self.lhs[bucket.lhs as usize];
        bucket.rhs = self.rhs[bucket.rhs as usize];
    }

    fn group(&self, (side, partition): &mut SidePartition) {
        let places = if *side == Side::Lhs {
            &self.lhs
        } else {
            &self.rhs
        };
        *partition = places[*partition as usize];
    }

    fn index(&self, index: usize) -> usize {
        let mut group = self.grid.groups().nth(index).unwrap();
        self.group(&mut group);
        self.grid.group_index(group).unwrap()
    }

    fn content(&self, content: Content) -> Content {
        let mut moved = 0;
        let buckets = self.grid.buckets();
        for bit in (0..buckets * self.passes).filter(|bit| content >> bit & 1 == 1) {
            let mut bucket = self.grid.bucket(bit % buckets);
            self.bucket(&mut bucket);
            moved |= 1 << (bit / buckets * buckets + self.grid.index(bucket).unwrap());
        }
        moved
    }

    fn world(&self, world: &mut World) {
        let flight = world
            .flight
            .iter_mut()
            .flat_map(|f| [&mut f.from, &mut f.to]);
        for record in world
            .register
            .iter_mut()
            .chain(&mut world.old)
            .chain(flight)
        {
            self.record(Arc::make_mut(record));
        }
        for manifest in &mut world.manifests {
            self.work(&mut manifest.work);
            self.work(&mut manifest.truth);
        }
        for member in &mut world.members {
            self.member(member);
        }
        let disk = std::mem::take(&mut world.disk).into_iter();
        world.disk = disk
            .map(|((i, id), c)| ((self.index(i), id), self.content(c)))
            .collect();
    }

    fn record(&self, record: &mut LedgerRecord) {
        self.work(&mut record.work);
        let leases = record
            .trainers
            .values_mut()
            .flat_map(|trainer| &mut trainer.leases);
        leases.for_each(|bucket| self.bucket(bucket));
    }

    fn work(&self, work: &mut TrainedState) {
        let before = work.clone();
        for (index, state) in before.buckets.iter().enumerate() {
            let mut bucket = self.grid.bucket(index);
            self.bucket(&mut bucket);
            work.buckets.set(self.grid.index(bucket).unwrap(), state);
        }
        for (index, partition) in before.partitions.into_iter().enumerate() {
            work.partitions[self.index(index)] = partition;
        }
    }

    fn member(&self, member: &mut Member) {
        member
            .leases
            .iter_mut()
            .for_each(|bucket| self.bucket(bucket));
        let tables: BTreeMap<_, _> = std::mem::take(&mut member.tables);
        member.tables = tables
            .into_iter()
            .map(|(index, mut table)| {
                table.content = self.content(table.content);
                (self.index(index), table)
            })
            .collect();
        member
            .trained
            .iter_mut()
            .for_each(|trained| self.settlement(trained));
        let asked = member.waiting.iter_mut().chain(&mut member.missed);
        let decided = member.decided.iter_mut();
        for action in asked
            .map(|(_, action)| action)
            .chain(decided.map(|decision| &mut decision.action))
        {
            match action {
                LedgerAction::Lease { bucket, .. } => self.bucket(bucket),
                LedgerAction::GiveUp { buckets, .. } => {
                    buckets.iter_mut().for_each(|b| self.bucket(b));
                }
                LedgerAction::Settle(settlement) => self.settlement(settlement),
                _ => {}
            }
        }
        for name in member.decided.iter_mut().flat_map(|d| &mut d.listed) {
            name.0 = self.index(name.0);
        }
        let writings = [&mut member.cutting, &mut member.writing];
        for writing in writings.into_iter().flatten() {
            writing
                .listed
                .iter_mut()
                .for_each(|name| name.0 = self.index(name.0));
            self.record(Arc::make_mut(&mut writing.record));
        }
    }

    fn settlement(&self, settlement: &mut Settlement) {
        let buckets = settlement.buckets.iter_mut().chain(&mut settlement.next);
        buckets.for_each(|bucket| self.bucket(bucket));
        settlement
            .partitions
            .iter_mut()
            .for_each(|p| self.group(&mut p.group));
        settlement.partitions.sort_by_key(|p| p.group);
    }
}
