//! Orders side by side, without training.

use std::time::Instant;

use crate::analysis::Analysis;
use crate::bound;
use crate::misses::MissCurve;
use crate::reuse::Reuse;
use crate::rounds::{Rounds, rounds};
use crate::stall::Rates;
use pbg_core::graph::Bucket;
use pbg_core::strategy::{BucketOrder, Pass};
use serde::Serialize;

/// An order that takes part: its name as asked for, and the order or why there is none.
pub type NamedOrder = (String, Result<Box<dyn BucketOrder>, String>);

/// What was compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Rates that the stalls are predicted for.
    pub rates: Rates,
    /// One case per grid and buffer.
    pub cases: Vec<Case>,
}

/// One grid with one size of buffer.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Left partitions.
    pub lhs_partitions: u32,
    /// Right partitions.
    pub rhs_partitions: u32,
    /// Whether the sides share their partitions.
    pub shared: bool,
    /// Partitions that fit the buffer.
    pub buffer: u32,
    /// Swaps that no order gets below.
    pub lower_bound: u64,
    /// Orders that planned it, the fewest swaps first.
    pub orders: Vec<Entry>,
    /// Orders that did not.
    pub refused: Vec<Refused>,
    /// The pass that was planned, with the first seed.
    #[serde(skip)]
    pub pass: Pass,
}

/// An order in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Name as asked for.
    pub order: String,
    /// One result per seed.
    pub seeds: Vec<SeedResult>,
    /// What the first seed's plan would swap with other buffers.
    pub miss_curve: MissCurve,
    /// The first seed's plan.
    #[serde(skip)]
    pub plan: Vec<Bucket>,
    /// What several trainers would do with the first seed's pass, for each number of trainers that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Rounds>,
    /// Why there is no more of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together_fault: Option<String>,
}

/// An order with one seed.
#[derive(Clone, Debug, Serialize)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// Seconds that planning took.
    pub planning_seconds: f64,
    /// What is known of the plan.
    #[serde(flatten)]
    pub analysis: Analysis,
}

/// An order without a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Name as asked for.
    pub order: String,
    /// Why.
    pub reason: String,
}

/// Asks every contestant for plans of `passes`, which are one case with several seeds.
///
/// One that fails is listed with its reason and harms no other. `progress` hears each name before
/// it plans. `machines` are numbers of trainers that train the pass together. `None` without passes.
pub fn compare(
    orders: &mut [NamedOrder],
    passes: &[(u64, Pass)],
    rates: &Rates,
    machines: &[u32],
    progress: &mut dyn FnMut(&str),
) -> Option<Case> {
    let (_, first) = passes.first()?;
    let mut case = Case {
        lhs_partitions: first.lhs_partitions,
        rhs_partitions: first.rhs_partitions,
        shared: first.shared,
        buffer: first.buffer_partitions,
        lower_bound: bound::swaps(first, first.buffer_partitions),
        orders: Vec::new(),
        refused: Vec::new(),
        pass: first.clone(),
    };
    for (name, order) in orders {
        progress(name);
        let entry = match order {
            Ok(order) => enter(name, order.as_mut(), passes, rates).map(|mut entry| {
                entry.train_together(order.as_mut(), first, machines);
                entry
            }),
            Err(reason) => Err(reason.clone()),
        };
        match entry {
            Ok(entry) => case.orders.push(entry),
            Err(reason) => case.refused.push(Refused {
                order: name.clone(),
                reason,
            }),
        }
    }
    let swaps = |entry: &Entry| entry.mean(|analysis| analysis.swaps as f64);
    case.orders.sort_by(|a, b| swaps(a).total_cmp(&swaps(b)));
    Some(case)
}

fn enter(
    name: &str,
    order: &mut dyn BucketOrder,
    passes: &[(u64, Pass)],
    rates: &Rates,
) -> Result<Entry, String> {
    let mut entry = Entry {
        order: name.to_owned(),
        seeds: Vec::new(),
        miss_curve: MissCurve::default(),
        plan: Vec::new(),
        together: Vec::new(),
        together_fault: None,
    };
    for (seed, pass) in passes {
        let started = Instant::now();
        let plan = order.plan(pass).map_err(|error| error.to_string())?;
        let planning_seconds = started.elapsed().as_secs_f64();
        entry.seeds.push(SeedResult {
            seed: *seed,
            planning_seconds,
            analysis: Analysis::new(pass, &plan, rates),
        });
        if entry.plan.is_empty() {
            entry.miss_curve = MissCurve::new(pass, &plan, &Reuse::new(pass, &plan));
            entry.plan = plan;
        }
    }
    Ok(entry)
}

impl Entry {
    fn train_together(&mut self, order: &mut dyn BucketOrder, pass: &Pass, machines: &[u32]) {
        for &trainers in machines {
            match rounds(order, pass, trainers, false) {
                Ok(rounds) => self.together.push(rounds),
                Err(fault) => self.together_fault = Some(fault),
            }
        }
    }

    /// Mean of a figure over the seeds.
    #[must_use]
    pub fn mean(&self, figure: impl Fn(&Analysis) -> f64) -> f64 {
        let sum: f64 = self.seeds.iter().map(|seed| figure(&seed.analysis)).sum();
        sum / self.seeds.len().max(1) as f64
    }

    /// Smallest and largest of a figure over the seeds.
    #[must_use]
    pub fn range(&self, figure: impl Fn(&Analysis) -> f64) -> (f64, f64) {
        let figures = self.seeds.iter().map(|seed| figure(&seed.analysis));
        figures.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        })
    }
}

impl Case {
    /// `16 x 16 partitions, buffer 4`.
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
    use pbg_core::strategy::{Cause, StrategyError, StrategyId};

    use super::*;
    use crate::grid::Sizes;

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
                    cause: Cause::Strategy,
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
        let passes = [1, 2].map(|seed| (seed, Sizes::default().pass(8, None, 4, seed)));
        let rates = Rates {
            edges: 1e5,
            read: 1e8,
            write: 1e8,
        };
        let mut heard = Vec::new();
        let case = compare(&mut orders, &passes, &rates, &[1, 2], &mut |name| {
            heard.push(name.to_owned())
        });
        let case = case.unwrap();
        assert_eq!(heard, ["bad", "absent", "rows"]);
        assert_eq!((case.lower_bound, case.orders.len()), (8, 1));
        assert_eq!(case.orders[0].range(|a| a.swaps as f64), (37.0, 37.0));
        assert_eq!(case.refused.len(), 2);
        assert!(case.refused[0].reason.contains("not this grid"));
    }
}
