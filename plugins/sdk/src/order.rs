//! Bucket orders.

use crate::{Bucket, Metadata, Parameters, Pass, Result};

/// Decides in which order the buckets of a pass are trained. See the [crate] for an example.
///
/// A new instance starts from `Default`, is configured once, and then answers. It must be a pure
/// function of its arguments: the same pass, the same plan, or a run that was resumed would
/// differ from one that was not stopped.
pub trait Order: Default + 'static {
    /// Name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Takes the parameters of the configuration, all of them, already checked against
    /// [`Order::metadata`]. The default body takes none.
    ///
    /// # Errors
    /// Where a combination of values makes no sense; the text is shown to the user.
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

    /// The order in which to train: every bucket of [`Pass::grid`] exactly once.
    ///
    /// # Errors
    /// Where the plugin cannot plan this pass; the text is shown to the user.
    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>>;

    /// Several trainers share one grid: which of the `free` buckets (never empty) to train next,
    /// as an index, while other trainers hold `held`. What the asker has in its buffer is resident in `pass`.
    ///
    /// The default body follows [`pick_by_plan`], with the plan of the pass for an empty buffer: the same
    /// for every trainer at any time.
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

/// The free bucket with fewest bytes to load, and of those the first in `plan`; `None` where
/// nothing is free.
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
    free.iter()
        .enumerate()
        .filter(|&(_, &bucket)| pass.contains(bucket))
        .min_by_key(|&(_, &bucket)| (pass.bytes_to_load(bucket), position[pass.index(bucket)]))
        .map(|(index, _)| index)
}

/// Names an [`Order`] as what this crate exports as a component.
///
/// Natively it only checks that the type is an [`Order`]; the glue exists in the wasm build
/// alone, so that several orders can be linked into one test program. One per crate.
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
        // Bytes count, not partitions: two small ones before a large one.
        pass.lhs_bytes = vec![100, 100, 1, 1000];
        pass.rhs_bytes.clone_from(&pass.lhs_bytes);
        pass.resident.clear();
        let free = [Bucket::new(3, 3), Bucket::new(0, 1)];
        assert_eq!(pick_by_plan(&pass, &plan, &free), Some(1));
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
