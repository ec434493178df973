//! Hilbert order with mirrored buckets together.
//!
//! Source: `HilbertSymmetric` of Marius (Mohoney et al., OSDI 2021, section 4.1, and branch
//! `osdi2021`). Follow the Hilbert curve; for each bucket `(i, j)` that is not yet planned, train
//! those of `(i, j)`, `(j, i)`, `(i, i)`, `(j, j)` that are not yet planned. This folds the curve at
//! the diagonal and makes about half of `hilbert`'s swaps. If the sides are not shared, mirrored
//! buckets share no partition, and the order is that of `hilbert`.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct HilbertSymmetric;

impl Order for HilbertSymmetric {
    fn metadata() -> Metadata {
        Metadata::new(
            "hilbert_symmetric",
            env!("CARGO_PKG_VERSION"),
            "The grid along the Hilbert curve, each bucket with its mirror.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::hilbert_symmetric(pass))
    }
}

export_order!(HilbertSymmetric);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<HilbertSymmetric>();
    }

    #[test]
    fn it_swaps_about_half_as_much_as_the_whole_curve() {
        for (p, swaps) in [(8, 28), (16, 122), (32, 502)] {
            let pass = Pass::uniform(p, p, 3);
            let plan = testing::assert_plan::<HilbertSymmetric>(&pass);
            assert_eq!(pass.traffic(&plan).swaps, swaps, "{p} partitions");
        }
    }
}
