//! Check of `pick`: several trainers on one grid.

use std::collections::VecDeque;

use pbg_core::graph::Bucket;
use pbg_core::plan;
use pbg_core::schedule::Schedule;
use pbg_core::strategy::{BucketOrder, Pass};
use pbg_lab::replay::bytes;

use super::{cases, failed};

const TRAINERS: usize = 3;

/// Statistics of the picks of three trainers.
#[derive(Default)]
pub(crate) struct PickStats {
    /// Number of picks, each repeated once.
    asked: usize,
    /// Number of picks that chose a bucket with the fewest bytes to load of all free ones.
    fewest: usize,
}

impl PickStats {
    /// Describes what was tried.
    pub(crate) fn tried(&self) -> String {
        let asked = self.asked;
        format!("{asked} picks for {TRAINERS} trainers, each in range and the same again")
    }

    /// Describes how often `pick` chose a bucket with the fewest bytes to load.
    pub(crate) fn affinity(&self) -> String {
        let (fewest, asked) = (self.fewest, self.asked);
        format!("{fewest} of {asked} picks took a bucket with the fewest bytes to load")
    }
}

/// Simulates passes with three trainers, which always train the bucket that `pick` returns, and keep the partitions of
/// their last bucket in their buffers. The same arguments must give the same answer.
pub(crate) fn check(order: &mut dyn BucketOrder) -> Result<PickStats, String> {
    let mut played = PickStats::default();
    let mut still = cases::uniform(1, 5, 2, 3);
    still.lhs_bytes = vec![0];
    for pass in [
        cases::uniform(8, 8, 4, 1),
        cases::uniform(3, 7, 4, 2),
        still,
    ] {
        play(order, &pass, &mut played)?;
    }
    Ok(played)
}

fn play(order: &mut dyn BucketOrder, pass: &Pass, played: &mut PickStats) -> Result<(), String> {
    let mut left: Vec<Bucket> = (0..pass.lhs_partitions)
        .flat_map(|lhs| (0..pass.rhs_partitions).map(move |rhs| Bucket::new(lhs, rhs)))
        .collect();
    // Bucket of each busy trainer, and buffer content of each trainer, left by its last bucket.
    let mut held: VecDeque<(usize, Bucket)> = VecDeque::new();
    let mut idle: VecDeque<usize> = (0..TRAINERS).collect();
    let mut buffers = vec![Vec::new(); TRAINERS];
    while !left.is_empty() {
        let holding: Vec<Bucket> = held.iter().map(|&(_, bucket)| bucket).collect();
        let is_free = |bucket| {
            holding
                .iter()
                .all(|&h| !Schedule::conflict(pass, h, bucket))
        };
        let free: Vec<usize> = (0..left.len()).filter(|&at| is_free(left[at])).collect();
        let Some(&trainer) = idle.front().filter(|_| !free.is_empty()) else {
            // The trainer that started first is done.
            idle.extend(held.pop_front().map(|(trainer, _)| trainer));
            continue;
        };
        let offered: Vec<Bucket> = free.iter().map(|&at| left[at]).collect();
        let asks = Pass {
            resident: buffers[trainer].clone(),
            ..pass.clone()
        };
        let mut answer = || {
            let picked = order.pick(&asks, &holding, &offered);
            picked.map_err(|fault| failed(&fault, pass))
        };
        let picked = answer()?;
        if picked >= offered.len() {
            let count = offered.len();
            return Err(format!("returned {picked}, with {count} free buckets"));
        }
        if answer()? != picked {
            let pass = cases::named(pass);
            return Err(format!("{pass}: the same arguments gave another answer"));
        }
        let bytes = |&bucket: &Bucket| lacking(&asks, bucket);
        let fewest = offered.iter().map(bytes).min();
        played.asked += 1;
        played.fewest += usize::from(Some(bytes(&offered[picked])) == fewest);
        buffers[trainer] = plan::needed_partitions(pass, offered[picked]).collect();
        idle.pop_front();
        held.push_back((trainer, left.swap_remove(free[picked])));
    }
    Ok(())
}

/// Returns the total bytes of the partitions of `bucket` that are not resident.
fn lacking(pass: &Pass, bucket: Bucket) -> u64 {
    let needed = plan::needed_partitions(pass, bucket);
    let lacking = needed.filter(|group| !pass.resident.contains(group));
    lacking.map(|group| bytes(pass, group)).sum()
}
