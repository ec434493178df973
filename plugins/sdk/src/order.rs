//! Bucket orders.

use std::cmp::Reverse;

use crate::{Bucket, Metadata, Parameters, Pass, Result};

/// Order in which the buckets of a pass are trained. See the [crate] for an example.
///
/// A new instance is created by `Default`, configured once, and then called. It must be a pure
/// function of its arguments: the same pass must give the same plan, otherwise a resumed run would
/// differ from an uninterrupted one.
pub trait Order: Default + 'static {
    /// Name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against [`Order::metadata`]. The
    /// default implementation ignores them.
    ///
    /// # Errors
    /// If a combination of values makes no sense; the text is shown to the user.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, Value};
    /// #[derive(Default, serde::Deserialize)]
    /// struct Rows { descending: bool }
    ///
    /// impl Order for Rows {
    ///     fn metadata() -> Metadata {
    ///         Metadata::new("rows", "0.1.0", "Row by row.")
    ///             .parameter(Parameter::boolean("descending", false, "Start with the last row."))
    ///     }
    ///     fn configure(&mut self, parameters: &Parameters) -> Result<()> {
    ///         *self = parameters.parse()?;
    ///         Ok(())
    ///     }
    ///     fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
    ///         let mut plan = pass.grid();
    ///         if self.descending { plan.reverse(); }
    ///         Ok(plan)
    ///     }
    /// }
    /// # pbg_plugin_sdk::testing::assert_order::<Rows>();
    /// # let mut rows = Rows::default();
    /// # rows.configure(&Parameters::new([("descending", Value::Boolean(true))])).unwrap();
    /// # assert!(rows.descending);
    /// ```
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Returns the order in which to train: every bucket of [`Pass::grid`] exactly once.
    ///
    /// # Errors
    /// If the plugin cannot plan this pass; the text is shown to the user.
    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>>;

    /// Chooses the next bucket if several trainers share one grid. Returns an index into `free` (never empty), the
    /// buckets that may be leased; other trainers hold the buckets `held`. The resident partitions of `pass` are those
    /// in the buffer of the trainer.
    ///
    /// The default implementation calls [`pick_by_plan`] with the plan of the pass for an empty buffer, which is the
    /// same for all trainers at any time.
    ///
    /// # Errors
    /// As [`Order::plan`].
    fn pick(&mut self, pass: &Pass, held: &[Bucket], free: &[Bucket]) -> Result<usize> {
        let _ = held;
        let empty = Pass {
            resident: Vec::new(),
            ..pass.clone()
        };
        let plan = self.plan(&empty)?;
        pick_by_plan(pass, &plan, free).ok_or_else(|| "no bucket is free".to_owned())
    }
}

/// Returns the index in `free` of the bucket with the fewest bytes to load, in eighths of the largest
/// partition. Ties are broken by: buckets that need the same partitions as the last one, then the
/// partition with the most free buckets, then the position in `plan`. Returns `None` if no bucket is
/// free.
///
/// Two mirrored buckets and the diagonal buckets of their partitions need the same partitions, which
/// are written only once if these buckets follow each other. The partition with the most free buckets
/// comes first because only one trainer can use a partition at a time: at the end of a pass, all
/// other trainers would have to wait for it.
///
/// ```
/// use pbg_plugin_sdk::{Bucket, Pass, Side, pick_by_plan};
/// let mut pass = Pass::uniform(3, 3, 0);
/// let plan = pass.grid();
/// let free = [Bucket::new(2, 0), Bucket::new(0, 2), Bucket::new(1, 2)];
/// assert_eq!(pick_by_plan(&pass, &plan, &free), Some(1));
/// pass.resident = vec![(Side::Lhs, 1), (Side::Lhs, 2)];
/// assert_eq!(pick_by_plan(&pass, &plan, &free), Some(2));
/// ```
#[must_use]
pub fn pick_by_plan(pass: &Pass, plan: &[Bucket], free: &[Bucket]) -> Option<usize> {
    let mut position = vec![usize::MAX; pass.grid().len()];
    for (at, &bucket) in plan.iter().enumerate().filter(|&(_, &b)| pass.contains(b)) {
        position[pass.index(bucket)] = at;
    }
    let left = Free::of(pass, free);
    free.iter()
        .enumerate()
        .filter(|&(_, &bucket)| pass.contains(bucket))
        .min_by_key(|&(_, &bucket)| {
            let most = Reverse(left.most(pass, bucket));
            let apart = !left.goes_with_last(pass, bucket);
            (
                eighths(pass, bucket),
                apart,
                most,
                position[pass.index(bucket)],
            )
        })
        .map(|(index, _)| index)
}

/// Returns the cost of loading `bucket`: whether anything is loaded, and the bytes in eighths of the
/// largest partition. Rounding ignores small differences, since few partitions are exactly equal.
fn eighths(pass: &Pass, bucket: Bucket) -> (bool, u64) {
    let bytes = pass.bytes_to_load(bucket);
    let all = pass.lhs_bytes.iter().chain(&pass.rhs_bytes);
    let largest = all.copied().max().unwrap_or(0).max(1);
    let rounded = (u128::from(bytes) * 8 + u128::from(largest / 2)) / u128::from(largest);
    (bytes > 0, u64::try_from(rounded).unwrap_or(u64::MAX))
}

/// Free buckets. Partitions that other trainers hold have none.
struct Free {
    /// Whether each bucket is free, by its index in the grid.
    buckets: Vec<bool>,
    /// Number of free buckets of each partition, by side.
    left: [Vec<usize>; 2],
}

impl Free {
    fn of(pass: &Pass, free: &[Bucket]) -> Self {
        let sides = [pass.lhs_partitions, pass.rhs_partitions];
        let mut all = Self {
            buckets: vec![false; pass.grid().len()],
            left: sides.map(|partitions| vec![0; partitions as usize]),
        };
        for &bucket in free.iter().filter(|&&bucket| pass.contains(bucket)) {
            all.buckets[pass.index(bucket)] = true;
            for (side, partition) in Self::needs(pass, bucket) {
                all.left[side][partition] += 1;
            }
        }
        all
    }

    /// Returns whether `bucket` loads nothing and probably needs the same partitions as the last bucket: its mirror
    /// image is no longer free, or it is on the diagonal.
    fn goes_with_last(&self, pass: &Pass, bucket: Bucket) -> bool {
        if !pass.shared || pass.bytes_to_load(bucket) > 0 {
            return false;
        }
        let mirror = bucket.transposed();
        bucket == mirror || !self.buckets[pass.index(mirror)]
    }

    /// Returns the partitions that are loaded for `bucket`, each once, without those that always stay in memory.
    fn needs(pass: &Pass, bucket: Bucket) -> impl Iterator<Item = (usize, usize)> {
        let (lhs, rhs) = (bucket.lhs as usize, bucket.rhs as usize);
        let is_new = !pass.shared || lhs != rhs;
        let first = (pass.lhs_bytes[lhs] > 0).then_some((0, lhs));
        let second = is_new && pass.rhs_bytes[rhs] > 0;
        let second = second.then_some((usize::from(!pass.shared), rhs));
        first.into_iter().chain(second)
    }

    /// Returns the larger of the numbers of free buckets of the partitions of `bucket`.
    fn most(&self, pass: &Pass, bucket: Bucket) -> usize {
        let numbers = Self::needs(pass, bucket).map(|(side, partition)| self.left[side][partition]);
        numbers.max().unwrap_or(0)
    }
}

/// Exports an [`Order`] as the component of this crate. A crate can export only one.
///
/// In a native build it only checks that the type is an [`Order`]; the glue code exists only in the
/// wasm build, so that several orders can be linked into one test program.
///
/// ```
/// # use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result};
/// #[derive(Default)]
/// struct Rows;
///
/// impl Order for Rows {
///     fn metadata() -> Metadata { Metadata::new("rows", "0.1.0", "Row by row.") }
///     fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> { Ok(pass.grid()) }
/// }
///
/// pbg_plugin_sdk::export_order!(Rows);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_order {
    ($order:ty) => {
        const _: fn() -> $crate::Metadata = <$order as $crate::Order>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__order_component!($order);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;

    #[test]
    fn pick_prefers_what_is_in_the_buffer() {
        let mut pass = Pass::uniform(4, 4, 0);
        pass.resident = vec![(Side::Lhs, 2), (Side::Lhs, 3)];
        let plan = pass.grid();
        let free = [Bucket::new(0, 0), Bucket::new(3, 1), Bucket::new(3, 2)];
        assert_eq!(pick_by_plan(&pass, &plan, &free), Some(2));
        // Bytes count, not partitions: two small partitions are preferred to a large one.
        pass.lhs_bytes = vec![100, 100, 1, 1000];
        pass.rhs_bytes.clone_from(&pass.lhs_bytes);
        pass.resident.clear();
        let free = [Bucket::new(3, 3), Bucket::new(0, 1)];
        assert_eq!(pick_by_plan(&pass, &plan, &free), Some(1));
    }

    #[test]
    fn pick_leaves_no_partition_behind() {
        let pass = Pass::uniform(4, 4, 0);
        let free = [
            Bucket::new(0, 1),
            Bucket::new(3, 2),
            Bucket::new(2, 2),
            Bucket::new(2, 1),
        ];
        // Partition 2 has three free buckets, and the diagonal one loads only it.
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &free), Some(2));
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &free[..2]), Some(0));
        let off = [free[0], free[1], free[3], Bucket::new(2, 3)];
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &off), Some(2));
        // Small differences in the size of partitions do not matter.
        let mut uneven = pass;
        uneven.lhs_bytes[2] += 400;
        uneven.rhs_bytes[2] += 400;
        assert_eq!(pick_by_plan(&uneven, &uneven.grid(), &off), Some(2));
        // If the sides are not shared, each has its own partitions.
        let mut apart = Pass::uniform(4, 4, 0);
        apart.shared = false;
        let free = [Bucket::new(0, 1), Bucket::new(1, 0), Bucket::new(2, 0)];
        assert_eq!(pick_by_plan(&apart, &apart.grid(), &free), Some(1));
    }

    #[test]
    fn pick_keeps_together_what_is_written_together() {
        let mut pass = Pass::uniform(4, 4, 0);
        pass.resident = vec![(Side::Lhs, 0), (Side::Lhs, 1), (Side::Lhs, 3)];
        // (1, 3) is trained, (0, 1) and its mirror image are not.
        let free = [
            Bucket::new(0, 1),
            Bucket::new(1, 0),
            Bucket::new(0, 2),
            Bucket::new(3, 1),
        ];
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &free), Some(3));
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &free[..3]), Some(0));
        let diagonal = [Bucket::new(0, 1), Bucket::new(1, 0), Bucket::new(3, 3)];
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &diagonal), Some(2));
    }

    #[test]
    fn pick_ignores_what_lies_outside_the_grid() {
        let pass = Pass::uniform(2, 2, 0);
        let outside = [Bucket::new(9, 9)];
        let free = [Bucket::new(9, 0), Bucket::new(1, 1)];
        assert_eq!(pick_by_plan(&pass, &outside, &free), Some(1));
        assert_eq!(pick_by_plan(&pass, &pass.grid(), &[]), None);
    }

    #[test]
    fn the_default_pick_does_not_depend_on_what_the_plan_makes_of_the_buffer() {
        #[derive(Default)]
        struct Backwards;

        impl Order for Backwards {
            fn metadata() -> Metadata {
                Metadata::new(
                    "backwards",
                    "0.1.0",
                    "Backwards where something is resident.",
                )
            }

            fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
                let mut plan = pass.grid();
                if !pass.resident.is_empty() {
                    plan.reverse();
                }
                Ok(plan)
            }
        }

        let mut pass = Pass::uniform(4, 4, 0);
        pass.resident = vec![(Side::Lhs, 3)];
        let free = [Bucket::new(1, 0), Bucket::new(0, 1)];
        assert_eq!(Backwards.pick(&pass, &[], &free), Ok(1));
    }
}
