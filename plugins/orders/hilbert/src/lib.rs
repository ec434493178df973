//! Hilbert order: the grid along the Hilbert curve.
//!
//! Source: the order of that name in Marius (Mohoney et al., OSDI 2021, section 4.1), after D.
//! Hilbert (1891). Every step goes to a neighbouring cell, so it changes one partition, and every
//! section of the curve stays in a small square. The partitions are renumbered at random in each
//! pass. Cells of the enclosing square of a power of two that are outside the grid are left out.
//!
//! With a buffer of two and `P = 2^k` partitions on both sides it makes `P² - Θ(P)` swaps: half of
//! the steps change the row and half the column, and the mirror of a bucket is far away.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hilbert;

impl Order for Hilbert {
    fn metadata() -> Metadata {
        Metadata::new(
            "hilbert",
            env!("CARGO_PKG_VERSION"),
            "The grid along the Hilbert curve, with partitions renumbered at random.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::hilbert(pass))
    }
}

export_order!(Hilbert);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Hilbert>();
    }

    #[test]
    fn each_step_changes_one_side_and_seeds_differ() {
        let plans: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| testing::assert_plan::<Hilbert>(&Pass::uniform(8, 8, seed)))
            .collect();
        assert_eq!(plans.len(), 50);
        for pair in plans.iter().flat_map(|plan| plan.windows(2)) {
            assert!((pair[0].lhs == pair[1].lhs) != (pair[0].rhs == pair[1].rhs));
        }
    }
}
