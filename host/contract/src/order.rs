//! Checks of a bucket order.

mod cases;
mod pick;

use std::collections::BTreeSet;
use std::time::Duration;

use pbg_core::graph::Bucket;
use pbg_core::plan;
use pbg_core::strategy::{BucketOrder, Pass, StrategyError};
use pbg_lab::bound;

use crate::finding::ContractReport;
use crate::timing::{Timing, time};

/// A bucket order in a fresh instance, or the reason why there is none.
pub type OrderInstance = Result<Box<dyn BucketOrder>, String>;

/// Seeds with which every grid is planned.
const SEEDS: [u64; 3] = [0, 1, u64::MAX];

/// Checks an order on grids of many shapes, buffers and seeds. `open` returns a fresh instance.
pub fn check_order(mut open: impl FnMut() -> OrderInstance) -> ContractReport {
    let mut report = ContractReport::default();
    let Some(mut order) = report.unless_broken("starts", open()) else {
        return report;
    };
    let passes = cases::passes(&SEEDS);
    let planned = plans(order.as_mut(), &passes);
    let Some(planned) = report.unless_broken("permutation", planned) else {
        return report;
    };
    let PlannedPasses { plans, slowest } = planned;
    report.add_promise("permutation", Ok(tried(&passes)));
    report.add_promise(
        "deterministic",
        again(order.as_mut(), &mut open, &passes, &plans),
    );
    let played = pick::check(order.as_mut());
    if let Some(played) = report.unless_broken("pick", played) {
        report.add_promise("pick", Ok(played.tried()));
        report.add_note("affinity", played.affinity());
    }
    report.add_note("seed", seeds(&passes, &plans));
    report.add_note("swaps", swaps(order.as_mut()));
    report.add_note("time", slowest);
    report
}

struct PlannedPasses {
    plans: Vec<Vec<Bucket>>,
    slowest: String,
}

fn plans(order: &mut dyn BucketOrder, passes: &[Pass]) -> Result<PlannedPasses, String> {
    let mut plans = Vec::with_capacity(passes.len());
    let mut worst = (Duration::ZERO, String::new());
    for pass in passes {
        let start = pbg_clock::now();
        let plan = plan_of(order, pass)?;
        if start.elapsed() >= worst.0 {
            worst = (start.elapsed(), cases::named(pass));
        }
        plans.push(plan);
    }
    let millis = worst.0.as_secs_f64() * 1e3;
    let slowest = format!("at most {millis:.3} ms for a plan ({})", worst.1);
    Ok(PlannedPasses { plans, slowest })
}

/// Returns a plan, checked to be a permutation of the grid.
fn plan_of(order: &mut dyn BucketOrder, pass: &Pass) -> Result<Vec<Bucket>, String> {
    let plan = order.plan(pass).map_err(|fault| failed(&fault, pass))?;
    plan::check(pass, &plan).map_err(|broken| format!("{}: {broken}", cases::named(pass)))?;
    Ok(plan)
}

fn failed(fault: &StrategyError, pass: &Pass) -> String {
    let pass = cases::named(pass);
    format!("{pass}: {}: {}", fault.function, fault.reason)
}

fn tried(passes: &[Pass]) -> String {
    let grids = passes.iter().map(|p| (p.lhs_partitions, p.rhs_partitions));
    let grids = BTreeSet::from_iter(grids).into_iter();
    let shapes: Vec<String> = grids.map(|(l, r)| format!("{l}x{r}")).collect();
    format!(
        "every bucket exactly once in {} plans of grids\n{}\nwith several buffers, {} seeds, shared \
         and bipartite sides, empty buckets, resident partitions",
        passes.len(),
        shapes.join(" "),
        SEEDS.len()
    )
}

/// Checks that the same pass gives the same plan: from the same instance after other calls, and from a fresh instance.
fn again(
    order: &mut dyn BucketOrder,
    open: &mut impl FnMut() -> OrderInstance,
    passes: &[Pass],
    plans: &[Vec<Bucket>],
) -> Result<String, String> {
    for (pass, plan) in passes.iter().zip(plans).rev() {
        if plan_of(order, pass)? != *plan {
            return Err(format!(
                "{}: the same instance planned differently the second time; a plan may depend on \
                 the pass alone, not on earlier calls",
                cases::named(pass)
            ));
        }
    }
    let step = (passes.len() / 12).max(1);
    let chosen: Vec<usize> = (0..passes.len()).step_by(step).collect();
    for &at in &chosen {
        if plan_of(open()?.as_mut(), &passes[at])? != plans[at] {
            return Err(format!(
                "{}: a fresh instance planned differently, and so would a resumed run",
                cases::named(&passes[at])
            ));
        }
    }
    Ok(format!(
        "the same plan again for {} passes in reverse order, and from {} fresh instances",
        passes.len(),
        chosen.len()
    ))
}

fn seeds(passes: &[Pass], plans: &[Vec<Bucket>]) -> &'static str {
    let per_seed = passes.len() / SEEDS.len();
    match plans[..per_seed] == plans[per_seed..2 * per_seed] {
        true => "plans do not depend on the seed: every epoch trains in the same order",
        false => "plans depend on the seed: epochs train in different orders",
    }
}

/// Returns one row per grid and buffer: the number of swaps, averaged over the seeds, and the lower bound for any
/// order.
fn swaps(order: &mut dyn BucketOrder) -> String {
    let mut lines =
        vec!["partitions x buffer: swaps per pass (mean of the seeds), lower bound".to_owned()];
    for (partitions, buffer) in [(4, 2), (8, 2), (8, 4), (16, 2), (16, 4), (16, 8)] {
        let passes = SEEDS.map(|seed| cases::uniform(partitions, partitions, buffer, seed));
        let total: Option<u64> = passes
            .iter()
            .map(|pass| Some(plan::cost(pass, &plan_of(order, pass).ok()?).swaps))
            .sum();
        if let Some(total) = total {
            let mean = total as f64 / SEEDS.len() as f64;
            let least = bound::swaps(&passes[0], buffer);
            lines.push(format!(
                "{partitions:>2} x {buffer}: {mean:>6.1} {least:>6}"
            ));
        }
    }
    lines.join("\n")
}

/// Times the planning of a grid of `partitions` x `partitions` buckets.
///
/// # Errors
/// The first error of the order.
pub fn bench_order(
    order: &mut dyn BucketOrder,
    partitions: u32,
    budget: Duration,
) -> Result<Timing, StrategyError> {
    let pass = cases::uniform(partitions, partitions, 4, 7);
    time(budget, || order.plan(&pass).map(drop))
}

#[cfg(test)]
mod tests;
