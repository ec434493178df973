//! Comparison of orders by their plans, without training.

use std::collections::BTreeSet;

use crate::analysis::Analysis;
use crate::bound;
use crate::cluster_simulation::{PassCost, simulate};
use crate::misses::MissCurve;
use crate::published::{self, PublishedSwaps};
use crate::reuse::ReuseDistances;
use crate::stall::DeviceRates;
use pbg_core::graph::Bucket;
use pbg_core::strategy::{BucketOrder, Pass};
use serde::Serialize;

/// An order to compare: its name as given by the user, and the order or the reason why it could not be loaded.
pub type NamedOrder = (String, Result<Box<dyn BucketOrder>, String>);

/// Result of comparing orders.
#[derive(Clone, Debug, Serialize)]
pub struct OrderComparison {
    /// Rates for which the stalls are predicted.
    pub rates: DeviceRates,
    /// One case for each grid and buffer size.
    pub cases: Vec<ComparisonCase>,
}

/// Results for one grid and one buffer size.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonCase {
    /// Number of left partitions.
    pub lhs_partitions: u32,
    /// Number of right partitions.
    pub rhs_partitions: u32,
    /// Whether the sides share their partitions.
    pub shared: bool,
    /// Number of partitions that fit into the buffer.
    pub buffer: u32,
    /// Lower bound on the swaps of any order.
    pub lower_bound: u64,
    /// Results of the orders that returned a plan, fewest swaps first.
    pub orders: Vec<OrderResult>,
    /// Orders that failed.
    pub refused: Vec<FailedOrder>,
    /// The pass of the first seed.
    #[serde(skip)]
    pub pass: Pass,
}

/// Results of one order in a case.
#[derive(Clone, Debug, Serialize)]
pub struct OrderResult {
    /// Name of the order as given by the user.
    pub order: String,
    /// Swaps that the source of the order states for this case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedSwaps>,
    /// One result for each seed.
    pub seeds: Vec<SeedResult>,
    /// Swaps of the first seed's plan with other buffer sizes.
    pub miss_curve: MissCurve,
    /// The first seed's plan.
    #[serde(skip)]
    pub plan: Vec<Bucket>,
    /// Reason why simulations are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together_fault: Option<String>,
}

/// Results of an order with one seed.
#[derive(Clone, Debug, Serialize)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// Planning time in seconds.
    pub planning_seconds: f64,
    /// Figures of the plan.
    #[serde(flatten)]
    pub analysis: Analysis,
    /// Simulations of the pass with several trainers, one for each requested number of trainers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<PassCost>,
}

/// An order that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedOrder {
    /// Name of the order as given by the user.
    pub order: String,
    /// Error message.
    pub reason: String,
}

/// What a comparison is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparisonStep<'a> {
    /// Name of the order as given by the user.
    pub order: &'a str,
    /// Number of orders before this one.
    pub place: usize,
    /// Number of orders.
    pub orders: usize,
    /// Seed of the plan.
    pub seed: u64,
    /// Number of trainers to simulate; `None` while the order plans.
    pub trainers: Option<u32>,
}

/// Compares plans of all `orders` for `passes`, which are one grid with several seeds. Returns `None` if there are no
/// passes.
///
/// An order that fails is listed with its error, and does not affect the others. `progress` is called before each step.
/// `machines` are the numbers of trainers to simulate for the same pass.
pub fn compare(
    orders: &mut [NamedOrder],
    passes: &[(u64, Pass)],
    rates: &DeviceRates,
    machines: &[u32],
    progress: &mut dyn FnMut(ComparisonStep<'_>),
) -> Option<ComparisonCase> {
    let (_, first) = passes.first()?;
    let mut case = ComparisonCase {
        lhs_partitions: first.lhs_partitions,
        rhs_partitions: first.rhs_partitions,
        shared: first.shared,
        buffer: first.buffer_partitions,
        lower_bound: bound::swaps(first, first.buffer_partitions),
        orders: Vec::new(),
        refused: Vec::new(),
        pass: first.clone(),
    };
    let count = orders.len();
    for (place, (name, order)) in orders.iter_mut().enumerate() {
        let mut progress = |seed: u64, trainers: Option<u32>| {
            progress(ComparisonStep {
                order: name,
                place,
                orders: count,
                seed,
                trainers,
            });
        };
        let entry = match order {
            Ok(order) => {
                let entry = enter(name, order.as_mut(), passes, rates, &mut progress);
                entry.map(|mut entry| {
                    entry.train_together(order.as_mut(), passes, machines, &mut progress);
                    entry
                })
            }
            Err(reason) => Err(reason.clone()),
        };
        match entry {
            Ok(entry) => case.orders.push(entry),
            Err(reason) => case.refused.push(FailedOrder {
                order: name.clone(),
                reason,
            }),
        }
    }
    let swaps = |entry: &OrderResult| entry.mean(|analysis| analysis.swaps as f64);
    case.orders.sort_by(|a, b| swaps(a).total_cmp(&swaps(b)));
    Some(case)
}

fn enter(
    name: &str,
    order: &mut dyn BucketOrder,
    passes: &[(u64, Pass)],
    rates: &DeviceRates,
    progress: &mut dyn FnMut(u64, Option<u32>),
) -> Result<OrderResult, String> {
    let mut entry = OrderResult {
        order: name.to_owned(),
        published: passes
            .first()
            .and_then(|(_, pass)| published::for_pass(name, pass)),
        seeds: Vec::new(),
        miss_curve: MissCurve::default(),
        plan: Vec::new(),
        together_fault: None,
    };
    for (seed, pass) in passes {
        progress(*seed, None);
        let started = pbg_clock::now();
        let plan = order.plan(pass).map_err(|error| error.to_string())?;
        let planning_seconds = started.elapsed().as_secs_f64();
        entry.seeds.push(SeedResult {
            seed: *seed,
            planning_seconds,
            analysis: Analysis::new(pass, &plan, rates),
            together: Vec::new(),
        });
        if entry.plan.is_empty() {
            entry.miss_curve = MissCurve::new(pass, &plan, &ReuseDistances::new(pass, &plan));
            entry.plan = plan;
        }
    }
    Ok(entry)
}

impl OrderResult {
    fn train_together(
        &mut self,
        order: &mut dyn BucketOrder,
        passes: &[(u64, Pass)],
        machines: &[u32],
        progress: &mut dyn FnMut(u64, Option<u32>),
    ) {
        for (seed, (_, pass)) in self.seeds.iter_mut().zip(passes) {
            for &trainers in machines {
                progress(seed.seed, Some(trainers));
                match simulate(order, pass, trainers, false) {
                    Ok(rounds) => seed.together.push(rounds),
                    Err(fault) => {
                        self.together_fault = Some(fault);
                        return;
                    }
                }
            }
        }
    }

    /// Returns the mean of a figure of the simulations with this many trainers over the seeds; `None` if there are none.
    #[must_use]
    pub fn mean_together(&self, trainers: u32, figure: impl Fn(&PassCost) -> f64) -> Option<f64> {
        let costs = self.seeds.iter().flat_map(|seed| &seed.together);
        let figures = costs.filter(|cost| cost.trainers == trainers).map(figure);
        let (sum, count) = figures.fold((0.0, 0_u32), |(sum, count), x| (sum + x, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Returns the numbers of trainers of the simulations, ascending.
    #[must_use]
    pub fn trainers(&self) -> BTreeSet<u32> {
        let costs = self.seeds.iter().flat_map(|seed| &seed.together);
        costs.map(|cost| cost.trainers).collect()
    }

    /// Returns the mean of a figure over the seeds.
    #[must_use]
    pub fn mean(&self, figure: impl Fn(&Analysis) -> f64) -> f64 {
        let sum: f64 = self.seeds.iter().map(|seed| figure(&seed.analysis)).sum();
        sum / self.seeds.len().max(1) as f64
    }

    /// Returns the smallest and the largest value of a figure over the seeds if they differ.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Analysis) -> f64) -> Option<(f64, f64)> {
        let (low, high) = self.range(figure);
        (low < high).then_some((low, high))
    }

    /// Returns the smallest and the largest value of a figure over the seeds.
    #[must_use]
    pub fn range(&self, figure: impl Fn(&Analysis) -> f64) -> (f64, f64) {
        let figures = self.seeds.iter().map(|seed| figure(&seed.analysis));
        figures.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        })
    }
}

impl OrderComparison {
    /// Returns the seeds with which the orders planned.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        let mut orders = self.cases.iter().flat_map(|case| &case.orders);
        let seeds = |order: &OrderResult| order.seeds.iter().map(|seed| seed.seed).collect();
        orders.next().map(seeds).unwrap_or_default()
    }
}

impl ComparisonCase {
    /// Returns a title such as `16 x 16 partitions, buffer 4`.
    #[must_use]
    pub fn title(&self) -> String {
        format!(
            "{} x {} partitions{}, buffer {}",
            self.lhs_partitions,
            self.rhs_partitions,
            if self.shared || self.lhs_partitions * self.rhs_partitions == 1 {
                ""
            } else {
                " of two types"
            },
            self.buffer
        )
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::strategy::{FaultCause, StrategyError, StrategyId};

    use super::*;
    use crate::grid::GraphSizes;

    struct TestOrder {
        id: StrategyId,
        fails: bool,
    }

    impl BucketOrder for TestOrder {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
            if self.fails {
                return Err(StrategyError {
                    strategy: self.id.clone(),
                    function: "plan",
                    reason: "not this grid".into(),
                    cause: FaultCause::Strategy,
                });
            }
            let (lhs, rhs) = (pass.lhs_partitions, pass.rhs_partitions);
            Ok((0..lhs)
                .flat_map(|l| (0..rhs).map(move |r| Bucket::new(l, r)))
                .collect())
        }

        fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
            Ok(0)
        }
    }

    fn rows(fails: bool) -> Result<Box<dyn BucketOrder>, String> {
        let id = StrategyId {
            name: "rows".to_owned(),
            version: "1".to_owned(),
            sha256: String::new(),
        };
        Ok(Box::new(TestOrder { id, fails }))
    }

    #[test]
    fn one_that_fails_harms_no_other() {
        let mut orders = [
            ("bad".to_owned(), rows(true)),
            ("absent".to_owned(), Err("no such file".to_owned())),
            ("rows".to_owned(), rows(false)),
        ];
        let passes = [1, 2].map(|seed| (seed, GraphSizes::default().pass(8, None, 4, seed)));
        let rates = DeviceRates {
            edges: 1e5,
            read: 1e8,
            write: 1e8,
        };
        let mut heard = Vec::new();
        let case = compare(&mut orders, &passes, &rates, &[1, 2], &mut |step| {
            assert_eq!(step.orders, 3);
            heard.push((step.place, step.order.to_owned(), step.seed, step.trainers));
        });
        let case = case.unwrap();
        let rows = |seed, trainers| (2, "rows".to_owned(), seed, trainers);
        let steps = [
            (0, "bad".to_owned(), 1, None),
            rows(1, None),
            rows(2, None),
            rows(1, Some(1)),
            rows(1, Some(2)),
            rows(2, Some(1)),
            rows(2, Some(2)),
        ];
        assert_eq!(heard, steps);
        assert_eq!((case.lower_bound, case.orders.len()), (8, 1));
        assert_eq!(case.orders[0].range(|a| a.swaps as f64), (37.0, 37.0));
        assert_eq!(case.orders[0].spread(|a| a.swaps as f64), None);
        assert_eq!(case.orders[0].trainers(), BTreeSet::from([1, 2]));
        let rounds = |trainers| case.orders[0].mean_together(trainers, |cost| cost.rounds as f64);
        assert_eq!(rounds(1), Some(64.0));
        assert_eq!(rounds(3), None);
        assert_eq!(case.refused.len(), 2);
        assert!(case.refused[0].reason.contains("not this grid"));
    }
}
