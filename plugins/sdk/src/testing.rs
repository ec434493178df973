//! Assertions for a plugin's tests: the contracts that the host enforces, checked natively.

mod comparators;
mod losses;
mod negatives;
mod operators;
mod samplers;
mod schedules;
mod selection;

pub use comparators::{assert_traced_comparator, comparator_with_defaults};
pub use losses::{
    assert_computed_loss, assert_gradient, assert_traced_loss, computed_with_defaults,
    traced_with_defaults,
};
pub use negatives::{assert_distribution, assert_negatives};
pub use operators::{assert_traced_operator, operator_with_defaults};
pub use samplers::{assert_draws, assert_sampler};
pub use schedules::{assert_factor, assert_schedule};
pub use selection::{assert_negative_selector, assert_selection};

use crate::{Bucket, Metadata, Order, ParameterKind, Parameters, Pass, Value};

/// Asserts the contract of an order, configured with its defaults: for grids of many shapes, buffers
/// and seeds, every plan is a permutation of the grid, equal passes give equal plans, and `pick`
/// returns a valid index.
///
/// # Panics
/// If the contract is violated. The message has the pass.
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
/// pbg_plugin_sdk::testing::assert_order::<Rows>();
/// ```
pub fn assert_order<O: Order>() {
    for (lhs, rhs) in [
        (1, 1),
        (1, 5),
        (5, 1),
        (2, 2),
        (3, 5),
        (5, 3),
        (4, 4),
        (16, 16),
    ] {
        for seed in [0, 1, 2, u64::MAX] {
            for (shared, buffer_partitions) in [(lhs == rhs, 2), (lhs == rhs, 6), (false, 3)] {
                let mut pass = Pass::uniform(lhs, rhs, seed);
                pass.shared = shared;
                pass.buffer_partitions = buffer_partitions;
                assert_plan::<O>(&pass);
            }
        }
    }
}

/// Asserts the contract of [`assert_order`] for one pass, and returns the plan.
///
/// # Panics
/// If the contract is violated. The message has the pass.
///
/// ```
/// # use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, testing};
/// # #[derive(Default)]
/// # struct Rows;
/// # impl Order for Rows {
/// #     fn metadata() -> Metadata { Metadata::new("rows", "0.1.0", "Row by row.") }
/// #     fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> { Ok(pass.grid()) }
/// # }
/// let plan = testing::assert_plan::<Rows>(&Pass::uniform(1, 2, 0));
/// assert_eq!(plan, [Bucket::new(0, 0), Bucket::new(0, 1)]);
/// ```
pub fn assert_plan<O: Order>(pass: &Pass) -> Vec<Bucket> {
    let mut order = with_defaults::<O>();
    let plan = answered(order.plan(pass), pass);
    let mut sorted = plan.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        pass.grid(),
        "the plan is not a permutation of the grid of {pass:?}"
    );
    assert_eq!(
        answered(order.plan(pass), pass),
        plan,
        "a second plan differs for {pass:?}"
    );
    let fresh = answered(with_defaults::<O>().plan(pass), pass);
    assert_eq!(
        fresh, plan,
        "the plan of another instance differs for {pass:?}"
    );
    let (held, free) = plan.split_at(plan.len() / 2);
    let picked = answered(order.pick(pass, held, free), pass);
    assert!(
        picked < free.len(),
        "pick returned index {picked} of {} free buckets for {pass:?}",
        free.len()
    );
    plan
}

/// Creates an order with default parameters, as the host does if the configuration sets none.
///
/// # Panics
/// If the order refuses its own defaults.
///
/// ```
/// # use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, testing};
/// #[derive(Default, serde::Deserialize)]
/// struct Rows { skip: u32 }
///
/// impl Order for Rows {
///     fn metadata() -> Metadata {
///         Metadata::new("rows", "0.1.0", "Row by row.")
///             .parameter(Parameter::integer("skip", 2, 0.., "Rows to put off."))
///     }
///     fn configure(&mut self, parameters: &Parameters) -> Result<()> {
///         *self = parameters.parse()?;
///         Ok(())
///     }
///     fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> { Ok(pass.grid()) }
/// }
///
/// assert_eq!(testing::with_defaults::<Rows>().skip, 2);
/// ```
#[must_use]
pub fn with_defaults<O: Order>() -> O {
    let mut order = O::default();
    let configured = order.configure(&defaults(&O::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    order
}

/// Returns the parameters that a plugin gets if the configuration sets none.
///
/// ```
/// use pbg_plugin_sdk::{Metadata, Parameter, Value, testing};
/// let metadata = Metadata::new("a", "1.0.0", "")
///     .parameter(Parameter::choice("by", &["edges", "bytes"], ""));
/// let by = testing::defaults(&metadata).get("by").cloned();
/// assert_eq!(by, Some(Value::Text("edges".to_owned())));
/// ```
#[must_use]
pub fn defaults(metadata: &Metadata) -> Parameters {
    let value = |kind: &ParameterKind| match kind {
        ParameterKind::Boolean { default } => Value::Boolean(*default),
        ParameterKind::Integer { default, .. } => Value::Integer(*default),
        ParameterKind::Number { default, .. } => Value::Number(*default),
        ParameterKind::Text { default } => Value::Text(default.clone()),
        ParameterKind::Choice { options, default } => {
            Value::Text(options[*default as usize].clone())
        }
    };
    let members = metadata.parameters.iter();
    Parameters::new(members.map(|p| (p.name.as_str(), value(&p.kind))))
}

fn answered<T>(answer: crate::Result<T>, pass: &Pass) -> T {
    answer.unwrap_or_else(|refusal| panic!("the plugin refuses {pass:?}: {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;

    /// Repeats the first bucket, as often as the grid has buckets.
    #[derive(Default)]
    struct Stuck;

    impl Order for Stuck {
        fn metadata() -> Metadata {
            Metadata::new("stuck", "0.1.0", "Repeats itself.")
        }

        fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
            Ok(vec![Bucket::new(0, 0); pass.grid().len()])
        }
    }

    #[test]
    #[should_panic(expected = "not a permutation")]
    fn a_repeated_bucket_is_found() {
        assert_order::<Stuck>();
    }

    /// Remembers how often it was called.
    #[derive(Default)]
    struct Moody(usize);

    impl Order for Moody {
        fn metadata() -> Metadata {
            Metadata::new("moody", "0.1.0", "Differs from call to call.")
        }

        fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
            let mut plan = pass.grid();
            let buckets = plan.len();
            plan.rotate_left(self.0 % buckets);
            self.0 += 1;
            Ok(plan)
        }
    }

    #[test]
    #[should_panic(expected = "second plan differs")]
    fn hidden_state_is_found() {
        assert_order::<Moody>();
    }
}
