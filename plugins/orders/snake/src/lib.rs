//! Snake order: the grid row by row, every second row backwards.
//!
//! Also called boustrophedon, "as the ox ploughs". It is `lexicographic`, except that a row begins
//! with the partitions at which the previous row ended. On a `P x P` grid with a buffer of `C >= 3` it
//! makes `P (P - C)` swaps; with a buffer of two `P² - P - 2` if `P` is even and one more if it is
//! odd. The plan does not depend on the seed.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snake;

impl Order for Snake {
    fn metadata() -> Metadata {
        Metadata::new(
            "snake",
            env!("CARGO_PKG_VERSION"),
            "The grid row by row, every second row backwards.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::snake(pass))
    }
}

export_order!(Snake);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Snake>();
    }

    #[test]
    fn rows_go_to_and_fro() {
        let plan = testing::assert_plan::<Snake>(&Pass::uniform(3, 4, 1));
        let columns: Vec<u32> = plan.iter().map(|bucket| bucket.rhs).collect();
        assert_eq!(columns, [0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn swaps_are_the_formula_s() {
        for p in 3..33 {
            for c in 2..p {
                let mut pass = Pass::uniform(p, p, 0);
                pass.buffer_partitions = c;
                let plan = testing::assert_plan::<Snake>(&pass);
                let swaps = if c == 2 {
                    p * p - p - 2 + p % 2
                } else {
                    p * (p - c)
                };
                assert_eq!(pass.traffic(&plan).swaps, u64::from(swaps), "p={p} c={c}");
            }
        }
    }
}
