//! Several trainers on one grid.

use std::collections::VecDeque;

use pbg_core::graph::{Bucket, Side};
use pbg_core::plan;
use pbg_core::schedule::Schedule;
use pbg_core::strategy::{BucketOrder, Pass};

use super::{cases, failed};

const TRAINERS: usize = 3;

/// What picks of three trainers were like.
#[derive(Default)]
pub(crate) struct Played {
    /// Answers, each asked for twice.
    asked: usize,
    /// Those that took a bucket with as few bytes to load as any free one.
    fewest: usize,
}

impl Played {
    /// What was tried.
    pub(crate) fn tried(&self) -> String {
        let asked = self.asked;
        format!("{asked} answers to {TRAINERS} trainers, each in range and the same again")
    }

    /// How well they spare the disks.
    pub(crate) fn affinity(&self) -> String {
        let (fewest, asked) = (self.fewest, self.asked);
        format!("{fewest} of {asked} picks took a bucket with fewest bytes to load")
    }
}

/// Plays passes with three trainers, who always take what `pick` answers and keep in their buffers what
/// they trained last. The same question must get the same answer.
pub(crate) fn check(order: &mut dyn BucketOrder) -> Result<Played, String> {
    let mut played = Played::default();
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

fn play(order: &mut dyn BucketOrder, pass: &Pass, played: &mut Played) -> Result<(), String> {
    let mut left: Vec<Bucket> = (0..pass.lhs_partitions)
        .flat_map(|lhs| (0..pass.rhs_partitions).map(move |rhs| Bucket::new(lhs, rhs)))
        .collect();
    // Who trains what, and what is in whose buffer: of the bucket before.
    let mut held: VecDeque<(usize, Bucket)> = VecDeque::new();
    let mut idle: VecDeque<usize> = (0..TRAINERS).collect();
    let mut buffers = vec![Vec::new(); TRAINERS];
    while !left.is_empty() {
        let holding: Vec<Bucket> = held.iter().map(|&(_, bucket)| bucket).collect();
        let free: Vec<usize> = (0..left.len())
            .filter(|&at| {
                holding
                    .iter()
                    .all(|&h| !Schedule::conflict(pass, h, left[at]))
            })
            .collect();
        let Some(&trainer) = idle.front().filter(|_| !free.is_empty()) else {
            // The first one is done.
            idle.extend(held.pop_front().map(|(trainer, _)| trainer));
            continue;
        };
        let offered: Vec<Bucket> = free.iter().map(|&at| left[at]).collect();
        let asks = Pass {
            resident: buffers[trainer].clone(),
            ..pass.clone()
        };
        let mut answer = || {
            order
                .pick(&asks, &holding, &offered)
                .map_err(|fault| failed(&fault, pass))
        };
        let picked = answer()?;
        if picked >= offered.len() {
            return Err(format!("answered {picked} of {}", offered.len()));
        }
        if answer()? != picked {
            return Err(format!(
                "{}: the same question got another answer",
                cases::named(pass)
            ));
        }
        let bytes = |&bucket: &Bucket| lacking(&asks, bucket);
        let fewest = offered.iter().map(bytes).min();
        played.asked += 1;
        played.fewest += usize::from(Some(bytes(&offered[picked])) == fewest);
        buffers[trainer] = plan::needs(pass, offered[picked]).collect();
        idle.pop_front();
        held.push_back((trainer, left.swap_remove(free[picked])));
    }
    Ok(())
}

/// Bytes of the partitions of `bucket` that are not resident.
fn lacking(pass: &Pass, bucket: Bucket) -> u64 {
    plan::needs(pass, bucket)
        .filter(|group| !pass.resident.contains(group))
        .map(|(side, p)| match side {
            Side::Lhs => pass.lhs_bytes[p as usize],
            Side::Rhs => pass.rhs_bytes[p as usize],
        })
        .sum()
}
