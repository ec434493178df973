//! BETA, the buffer-aware order of Marius: each load pairs with as many new partitions as possible.
//!
//! Source: Mohoney et al., "Marius: Learning Massive Graph Embeddings on a Single Machine" (OSDI
//! 2021), section 4.1 and algorithm 3. With a buffer of `c` of `p` partitions: keep `c - 1`, load each
//! of the others into the last slot, replace the `c - 1`, repeat with the rest. After the first fill
//! it makes
//!
//! `(p - c) + (x + 1) · ((p - c) - x (c - 1) / 2)` swaps, with `x = ⌊(p - c) / (c - 1)⌋`,
//!
//! and no order makes fewer than `⌈(p (p - 1) - c (c - 1)) / (2 (c - 1))⌉`. With a buffer of two
//! it is optimal: `p (p - 1) / 2 - 1`. For grids of two entity types see [`pbg_plugin_sdk::states::elimination`].
//!
//! A bucket may be trained in any state that holds both of its partitions. The parameter `assignment`
//! chooses one: `greedy` the first such state (Marius), `random` a random one, which distributes the
//! work more evenly over the loads (Waleffe et al., "MariusGNN", EuroSys 2023).

use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Beta {
    assignment: Assignment,
}

/// Choice of the state that trains a bucket, among those that hold its partitions.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Assignment {
    #[default]
    Greedy,
    Random,
}

impl Order for Beta {
    fn metadata() -> Metadata {
        Metadata::new(
            "beta",
            env!("CARGO_PKG_VERSION"),
            "Marius' buffer-aware order: keeps all slots but one, and loads all other partitions into that slot.",
        )
        .parameter(Parameter::choice(
            "assignment",
            &["greedy", "random"],
            "State of the buffer in which a bucket is trained: the first possible one, or a random one.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(match self.assignment {
            Assignment::Greedy => pbg_order_plans::beta(pass),
            Assignment::Random => pbg_order_plans::beta_at_random(pass),
        })
    }
}

export_order!(Beta);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::{Value, testing};

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Beta>();
    }

    #[test]
    fn random_assignment_evens_out_the_work_and_costs_no_swap() {
        let mut random = Beta::default();
        let parameters = Parameters::new([("assignment", Value::Text("random".to_owned()))]);
        assert_eq!(random.configure(&parameters), Ok(()));
        let mut excess = [0_i64; 2];
        for seed in 0..10 {
            let mut pass = Pass::uniform(32, 32, seed);
            pass.buffer_partitions = 8;
            let greedy = testing::assert_plan::<Beta>(&pass);
            let spread = random.plan(&pass).expect("it plans");
            assert_eq!(pass.traffic(&greedy).swaps, 78);
            assert!(pass.traffic(&spread).swaps <= 78);
            for (sum, plan) in excess.iter_mut().zip([greedy, spread]) {
                // If the work is even, the mean position of a load is the middle of the plan.
                pass.replay(&plan, |at, _, evicted| {
                    if evicted.is_some() {
                        *sum += at as i64 - plan.len() as i64 / 2;
                    }
                });
            }
        }
        let [greedy, spread] = excess;
        assert!(spread.abs() < greedy.abs(), "{spread} against {greedy}");
    }
}
