//! Hilbert curve over the grid of buckets.

use crate::{Bucket, Pass};

impl Pass {
    /// Returns the buckets of the grid along the Hilbert curve of the smallest enclosing square whose
    /// side is a power of two; cells outside the grid are left out. Neighbours on the curve share a
    /// row or a column.
    ///
    /// Source: D. Hilbert, "Über die stetige Abbildung einer Linie auf ein Flächenstück" (1891).
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let curve = Pass::uniform(2, 2, 0).hilbert_curve();
    /// assert_eq!(curve, [(0, 0), (0, 1), (1, 1), (1, 0)].map(|(l, r)| Bucket::new(l, r)));
    /// ```
    #[must_use]
    pub fn hilbert_curve(&self) -> Vec<Bucket> {
        let side = self.lhs_partitions.max(self.rhs_partitions);
        let levels = u64::from(side).next_power_of_two().trailing_zeros();
        let mut curve = Vec::with_capacity(self.edges.len());
        let mut index = 0_u64;
        while index < 1 << (2 * levels) {
            let (x, y) = cell(index, levels);
            let outside = |level: u32| {
                x >> level << level >= u64::from(self.lhs_partitions)
                    || y >> level << level >= u64::from(self.rhs_partitions)
            };
            if outside(0) {
                // Skip the largest square that starts here and lies completely outside.
                let starts = |level: &u32| index.is_multiple_of(1 << (2 * level));
                let level = (0..=levels)
                    .take_while(starts)
                    .take_while(|&l| outside(l))
                    .last();
                index += 1 << (2 * level.unwrap_or(0));
            } else {
                curve.push(Bucket::new(x as u32, y as u32));
                index += 1;
            }
        }
        curve
    }
}

/// Returns cell number `index` of the curve through the square of side `2^levels`.
fn cell(index: u64, levels: u32) -> (u64, u64) {
    let (mut x, mut y) = (0, 0);
    for level in 0..levels {
        let quadrant = index >> (2 * level);
        let right = quadrant >> 1 & 1;
        let up = (quadrant ^ right) & 1;
        let side = 1 << level;
        if up == 0 {
            if right == 1 {
                (x, y) = (side - 1 - x, side - 1 - y);
            }
            (x, y) = (y, x);
        }
        x += right * side;
        y += up * side;
    }
    (x, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_cell_is_visited_once(lhs in 1_u32..40, rhs in 1_u32..40) {
            let pass = Pass::uniform(lhs, rhs, 0);
            let mut curve = pass.hilbert_curve();
            curve.sort_unstable();
            prop_assert_eq!(curve, pass.grid());
        }

        #[test]
        fn steps_in_a_power_of_two_go_to_the_next_cell(levels in 0_u32..6) {
            let curve = Pass::uniform(1 << levels, 1 << levels, 0).hilbert_curve();
            for pair in curve.windows(2) {
                let distance = pair[0].lhs.abs_diff(pair[1].lhs) + pair[0].rhs.abs_diff(pair[1].rhs);
                prop_assert_eq!(distance, 1);
            }
        }
    }

    #[test]
    fn a_long_row_does_not_cost_its_square() {
        let curve = Pass::uniform(1, 1 << 16, 0).hilbert_curve();
        assert_eq!(curve.len(), 1 << 16);
    }
}
