//! Interface of operators that are formulas.

use super::Formula;
use super::formula::{Embedding, Trace, Vector};
use crate::{Metadata, Parameters, Result};

/// Operator given as a formula of the components of an embedding and the parameters of a relation.
///
/// ```
/// use pbg_plugin_sdk::operator::Initial;
/// use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
/// use pbg_plugin_sdk::{Metadata, Result, TracedOperator, export_traced_operator};
///
/// /// Scales and shifts every number of an embedding.
/// #[derive(Default)]
/// struct Scaled;
///
/// impl TracedOperator for Scaled {
///     fn metadata() -> Metadata {
///         Metadata::new("scaled", "0.1.0", "A factor and a summand per number.")
///     }
///
///     fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
///         let (scale, shift) = (x.parameter("scale", Initial::One), x.parameter("shift", Initial::Zero));
///         Ok(vec![x.component(0) * scale + shift])
///     }
/// }
///
/// export_traced_operator!(Scaled);
///
/// # fn main() {
/// // The same type runs natively: test and debug it without a sandbox.
/// let formula = pbg_plugin_sdk::operator::trace(&Scaled).unwrap();
/// assert_eq!(formula.apply(&[1.0, 2.0], &[&[3.0, 0.5], &[0.0, 1.0]]), [3.0, 2.0]);
/// # pbg_plugin_sdk::testing::assert_traced_operator::<Scaled>();
/// # }
/// ```
///
/// The host calls [`build`](TracedOperator::build) once per run, before there are embeddings. A Rust `if` in it is
/// evaluated at that time, so it can depend only on the parameters of the configuration.
pub trait TracedOperator: Default + 'static {
    /// Returns name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`TracedOperator::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If the values do not fit together; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Builds the formula and returns the result for each component of an embedding. The number of results, 1, 2, 4
    /// or 8, is the number of components into which an embedding is split. The embedding is that of an edge's right
    /// entity; with dynamic relations, of the entity that is not replaced.
    ///
    /// # Errors
    /// If the operator cannot be built; the text is shown to the user.
    fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>>;

    /// Builds the formula of left entities, as [`TracedOperator::build`] does that of right ones; a parameter of the
    /// same name is the same one. The default implementation returns `None`, which leaves left entities as they are; an
    /// empty list is an error. An operator of both sides cannot be used with dynamic relations.
    ///
    /// # Errors
    /// If the operator cannot be built; the text is shown to the user.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
    /// use pbg_plugin_sdk::operator::{Initial, trace};
    /// # use pbg_plugin_sdk::{Metadata, Result, TracedOperator};
    ///
    /// /// Each side is multiplied by a vector (PairRE).
    /// #[derive(Default)]
    /// struct PairRE;
    ///
    /// impl TracedOperator for PairRE {
    /// #     fn metadata() -> Metadata { Metadata::new("pairre", "0.1.0", "") }
    ///     fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
    ///         Ok(vec![x.component(0) * x.parameter("tail", Initial::One)])
    ///     }
    ///
    ///     fn build_lhs<'t>(&self, x: Embedding<'t>) -> Result<Option<Vec<Vector<'t>>>> {
    ///         Ok(Some(vec![x.component(0) * x.parameter("head", Initial::One)]))
    ///     }
    /// }
    ///
    /// let formula = trace(&PairRE).unwrap();
    /// assert_eq!(formula.apply(&[2.0], &[&[3.0], &[5.0]]), [6.0]);
    /// assert_eq!(formula.apply_lhs(&[2.0], &[&[3.0], &[5.0]]), [10.0]);
    /// ```
    fn build_lhs<'t>(&self, x: Embedding<'t>) -> Result<Option<Vec<Vector<'t>>>> {
        let _ = x;
        Ok(None)
    }
}

/// Returns the formula of an operator, as passed to the host.
///
/// # Errors
/// If [`TracedOperator::build`] or [`TracedOperator::build_lhs`] fails, or the latter returns an empty list.
///
/// ```
/// # use pbg_plugin_sdk::operator::{Initial, formula::{Embedding, Vector}};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedOperator};
/// # #[derive(Default)]
/// # struct Shift;
/// # impl TracedOperator for Shift {
/// #     fn metadata() -> Metadata { Metadata::new("shift", "0.1.0", "") }
/// #     fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
/// #         Ok(vec![x.component(0) + x.parameter("shift", Initial::Zero)])
/// #     }
/// # }
/// let formula = pbg_plugin_sdk::operator::trace(&Shift).unwrap();
/// assert_eq!(formula.components, 1);
/// ```
pub fn trace<O: TracedOperator>(operator: &O) -> Result<Formula> {
    let trace = Trace::default();
    let ids = |outputs: Vec<Vector<'_>>| outputs.into_iter().map(Vector::id).collect();
    let outputs: Vec<u32> = ids(operator.build(trace.embedding())?);
    let lhs = operator.build_lhs(trace.embedding())?;
    // To the host, no outputs mean that left entities stay as they are.
    if lhs.as_ref().is_some_and(Vec::is_empty) {
        return Err(
            "build_lhs returned no outputs; return None to leave left entities as they are".into(),
        );
    }
    let lhs_outputs: Vec<u32> = lhs.map_or_else(Vec::new, ids);
    Ok(Formula {
        name: O::metadata().name,
        ..trace.finish(outputs, lhs_outputs)
    })
}

/// Exports a [`TracedOperator`] as the component of this crate; see
/// [`export_order!`](crate::export_order).
///
/// ```
/// # use pbg_plugin_sdk::operator::{Initial, formula::{Embedding, Vector}};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedOperator};
/// #[derive(Default)]
/// struct Shift;
///
/// impl TracedOperator for Shift {
///     fn metadata() -> Metadata { Metadata::new("shift", "0.1.0", "A summand per number.") }
///     fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
///         Ok(vec![x.component(0) + x.parameter("shift", Initial::Zero)])
///     }
/// }
///
/// pbg_plugin_sdk::export_traced_operator!(Shift);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_traced_operator {
    ($operator:ty) => {
        const _: fn() -> $crate::Metadata = <$operator as $crate::TracedOperator>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__traced_operator_component!($operator);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Initial;

    #[derive(Default)]
    struct Lopsided;

    impl TracedOperator for Lopsided {
        fn metadata() -> Metadata {
            Metadata::new("lopsided", "0.1.0", "An empty left side.")
        }

        fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
            Ok(vec![x.component(0) * x.parameter("a", Initial::One)])
        }

        fn build_lhs<'t>(&self, _: Embedding<'t>) -> Result<Option<Vec<Vector<'t>>>> {
            Ok(Some(Vec::new()))
        }
    }

    #[test]
    fn an_empty_left_side_is_not_taken_for_none() {
        let error = trace(&Lopsided).unwrap_err();
        assert!(error.contains("build_lhs returned no outputs"), "{error}");
    }
}
