//! Interface of comparators that are formulas.

use super::Formula;
use super::formula::{ComparedEmbedding, PairTrace, Vector};
use crate::{Metadata, Parameters, Result};

/// Comparator given as a formula of the components of two embeddings.
///
/// ```
/// use pbg_plugin_sdk::comparator::formula::{ComparedEmbedding, Vector};
/// use pbg_plugin_sdk::{Metadata, Result, TracedComparator, export_traced_comparator};
///
/// /// Minus the sum of absolute differences.
/// #[derive(Default)]
/// struct Manhattan;
///
/// impl TracedComparator for Manhattan {
///     fn metadata() -> Metadata {
///         Metadata::new("manhattan", "0.1.0", "Minus the sum of absolute differences.")
///     }
///
///     fn build<'t>(&self, left: ComparedEmbedding<'t>, right: ComparedEmbedding<'t>) -> Result<Vector<'t>> {
///         Ok(-(left.component(0) - right.component(0)).abs().sum())
///     }
/// }
///
/// export_traced_comparator!(Manhattan);
///
/// # fn main() {
/// // The same type runs natively: test and debug it without a sandbox.
/// let formula = pbg_plugin_sdk::comparator::trace(&Manhattan).unwrap();
/// assert_eq!(formula.compare(&[1.0, 2.0], &[0.0, 4.0]), -3.0);
/// # pbg_plugin_sdk::testing::assert_traced_comparator::<Manhattan>();
/// # }
/// ```
///
/// The host calls [`build`](TracedComparator::build) once per run, before there are embeddings. A Rust `if` in it is
/// evaluated at that time, so it can depend only on the parameters of the configuration.
pub trait TracedComparator: Default + 'static {
    /// Returns name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`TracedComparator::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If the values do not fit together; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Returns the number of components into which each embedding is split: 1, 2, 4 or 8. The default is 1.
    fn components(&self) -> u32 {
        1
    }

    /// Builds the formula and returns the score of a left and a right embedding, which is higher for embeddings that fit
    /// better. It is one number, such as a [`sum`](Vector::sum), and depends on both embeddings. The right one, with
    /// dynamic relations that which is not replaced, was transformed by the operator.
    ///
    /// # Errors
    /// If the comparator cannot be built; the text is shown to the user.
    fn build<'t>(
        &self,
        left: ComparedEmbedding<'t>,
        right: ComparedEmbedding<'t>,
    ) -> Result<Vector<'t>>;
}

/// Returns the formula of a comparator, as passed to the host.
///
/// # Errors
/// If [`TracedComparator::build`] fails.
///
/// ```
/// # use pbg_plugin_sdk::comparator::formula::{ComparedEmbedding, Vector};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedComparator};
/// # #[derive(Default)]
/// # struct Product;
/// # impl TracedComparator for Product {
/// #     fn metadata() -> Metadata { Metadata::new("product", "0.1.0", "") }
/// #     fn build<'t>(&self, left: ComparedEmbedding<'t>, right: ComparedEmbedding<'t>) -> Result<Vector<'t>> {
/// #         Ok(left.component(0).dot(right.component(0)))
/// #     }
/// # }
/// let formula = pbg_plugin_sdk::comparator::trace(&Product).unwrap();
/// assert_eq!(formula.components, 1);
/// ```
pub fn trace<C: TracedComparator>(comparator: &C) -> Result<Formula> {
    let trace = PairTrace::new(comparator.components());
    let [left, right] = trace.embeddings();
    let score = comparator.build(left, right)?.id();
    Ok(Formula {
        name: C::metadata().name,
        ..trace.finish(score)
    })
}

/// Exports a [`TracedComparator`] as the component of this crate; see [`export_order!`](crate::export_order).
///
/// ```
/// # use pbg_plugin_sdk::comparator::formula::{ComparedEmbedding, Vector};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedComparator};
/// #[derive(Default)]
/// struct Product;
///
/// impl TracedComparator for Product {
///     fn metadata() -> Metadata { Metadata::new("product", "0.1.0", "The inner product.") }
///     fn build<'t>(&self, left: ComparedEmbedding<'t>, right: ComparedEmbedding<'t>) -> Result<Vector<'t>> {
///         Ok(left.component(0).dot(right.component(0)))
///     }
/// }
///
/// pbg_plugin_sdk::export_traced_comparator!(Product);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_traced_comparator {
    ($comparator:ty) => {
        const _: fn() -> $crate::Metadata = <$comparator as $crate::TracedComparator>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__traced_comparator_component!($comparator);
        };
    };
}
