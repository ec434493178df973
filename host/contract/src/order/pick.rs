//! Several trainers on one grid.

use std::collections::VecDeque;

use pbg_core::graph::Bucket;
use pbg_core::strategy::{BucketOrder, Pass};

use super::{cases, failed};

const TRAINERS: usize = 3;

/// Plays a pass with three trainers, who always take what `pick` answers. The same question must
/// get the same answer.
pub(crate) fn check(order: &mut dyn BucketOrder) -> Result<String, String> {
    let mut asked = 0;
    for pass in [
        cases::uniform(8, 8, 4, 1),
        cases::uniform(3, 7, 4, 2),
        cases::uniform(1, 5, 2, 3),
    ] {
        asked += play(order, &pass)?;
    }
    Ok(format!(
        "{asked} answers to {TRAINERS} trainers, each in range and the same again"
    ))
}

fn play(order: &mut dyn BucketOrder, pass: &Pass) -> Result<usize, String> {
    let mut left: Vec<Bucket> = (0..pass.lhs_partitions)
        .flat_map(|lhs| (0..pass.rhs_partitions).map(move |rhs| Bucket::new(lhs, rhs)))
        .collect();
    let mut held: VecDeque<Bucket> = VecDeque::new();
    let mut asked = 0;
    while !left.is_empty() {
        let holding: Vec<Bucket> = held.iter().copied().collect();
        let free: Vec<usize> = (0..left.len())
            .filter(|&at| holding.iter().all(|&h| apart(pass, h, left[at])))
            .collect();
        if free.is_empty() || held.len() == TRAINERS {
            held.pop_front(); // the first one is done
            continue;
        }
        let offered: Vec<Bucket> = free.iter().map(|&at| left[at]).collect();
        let mut answer = || {
            order
                .pick(pass, &holding, &offered)
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
        asked += 1;
        held.push_back(left.swap_remove(free[picked]));
    }
    Ok(asked)
}

/// Whether two buckets can be trained at the same time: they share no partition.
fn apart(pass: &Pass, a: Bucket, b: Bucket) -> bool {
    if !pass.shared {
        return a.lhs != b.lhs && a.rhs != b.rhs;
    }
    [a.lhs, a.rhs].iter().all(|p| ![b.lhs, b.rhs].contains(p))
}
