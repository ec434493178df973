//! Lexicographic bucket order: the grid row by row.
//!
//! This is the simplest order, and the baseline in Marius' comparison of orders (Mohoney et al.,
//! "Marius: Learning Massive Graph Embeddings on a Single Machine", OSDI 2021): row `i` keeps
//! partition `i` and loads all others one by one. On a `P x P` grid with a buffer of two it makes
//! `P² - 4` swaps. A larger buffer saves little, since a row does not begin with the partitions at
//! which the previous row ended. The plan does not depend on the seed.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lexicographic;

impl Order for Lexicographic {
    fn metadata() -> Metadata {
        Metadata::new(
            "lexicographic",
            env!("CARGO_PKG_VERSION"),
            "The grid row by row, each row from its start.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::lexicographic(pass))
    }
}

export_order!(Lexicographic);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Lexicographic>();
    }

    #[test]
    fn rows_come_one_after_another() {
        let plan = testing::assert_plan::<Lexicographic>(&Pass::uniform(3, 5, 1));
        assert!(plan.is_sorted());
    }

    #[test]
    fn swaps_with_a_buffer_of_two_are_the_formula_s() {
        for p in 3..40 {
            let pass = Pass::uniform(p, p, 0);
            let plan = testing::assert_plan::<Lexicographic>(&pass);
            assert_eq!(
                pass.traffic(&plan).swaps,
                u64::from(p * p - 4),
                "{p} partitions"
            );
        }
    }
}
