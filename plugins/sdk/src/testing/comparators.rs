//! Assertion of the contract of comparators, for the tests of plugins.

use crate::TracedComparator;
use crate::comparator::{Formula, trace};
use crate::testing::defaults;

/// Numbers of an embedding in the test, divided into components.
const DIMENSION: usize = 16;

/// Asserts the contract of a traced comparator, configured with its defaults: the formula is valid, its score is one
/// number that depends on both embeddings, and scores and gradients of ordinary embeddings are finite.
///
/// # Panics
/// If the contract is violated. The message describes the problem.
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
/// pbg_plugin_sdk::testing::assert_traced_comparator::<Product>();
/// ```
pub fn assert_traced_comparator<C: TracedComparator>() {
    let definition = comparator_with_defaults::<C>();
    let checked = definition.check(usize::MAX);
    let formula = checked.unwrap_or_else(|error| panic!("the formula is not valid: {error}"));
    let wave = |shift: f64| {
        (0..DIMENSION)
            .map(|i| (i as f64 * 0.9 + shift).sin())
            .collect()
    };
    let [left, right]: [Vec<f64>; 2] = [wave(0.3), wave(1.7)];
    let found = formula.compare(&left, &right);
    assert!(
        found.score.is_finite(),
        "the score of {left:?} and {right:?} is not finite: {}",
        found.score
    );
    for (side, slopes) in [("left", &found.left), ("right", &found.right)] {
        assert!(
            slopes.iter().all(|slope| slope.is_finite()),
            "the gradient by the {side} embedding is not finite: {slopes:?}"
        );
        assert!(
            slopes.iter().any(|slope| *slope != 0.0),
            "the score has no gradient by the {side} embedding, so it would never be trained"
        );
    }
}

/// Returns the formula of a comparator with default parameters, as the host gets it if the configuration sets none.
///
/// # Panics
/// If the comparator refuses its own defaults.
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
/// let formula = pbg_plugin_sdk::testing::comparator_with_defaults::<Product>();
/// assert_eq!(formula.compare(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// ```
#[must_use]
pub fn comparator_with_defaults<C: TracedComparator>() -> Formula {
    let mut comparator = C::default();
    let configured = comparator.configure(&defaults(&C::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    trace(&comparator).unwrap_or_else(|refusal| panic!("the plugin refuses to build: {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparator::formula::{ComparedEmbedding, Vector};
    use crate::{Metadata, Result};

    /// Compares nothing with the right embedding.
    #[derive(Default)]
    struct LeftAlone;

    impl TracedComparator for LeftAlone {
        fn metadata() -> Metadata {
            Metadata::new("left_alone", "0.1.0", "The sum of the left embedding.")
        }

        fn build<'t>(
            &self,
            left: ComparedEmbedding<'t>,
            _: ComparedEmbedding<'t>,
        ) -> Result<Vector<'t>> {
            Ok(left.component(0).sum())
        }
    }

    #[test]
    #[should_panic(expected = "does not depend on both embeddings")]
    fn a_side_without_influence_is_found() {
        assert_traced_comparator::<LeftAlone>();
    }

    /// Counts, so that it has no slope anywhere.
    #[derive(Default)]
    struct Step;

    impl TracedComparator for Step {
        fn metadata() -> Metadata {
            Metadata::new("step", "0.1.0", "The number of elements that are larger.")
        }

        fn build<'t>(
            &self,
            left: ComparedEmbedding<'t>,
            right: ComparedEmbedding<'t>,
        ) -> Result<Vector<'t>> {
            Ok(left.component(0).greater(right.component(0)).sum())
        }
    }

    #[test]
    #[should_panic(expected = "would never be trained")]
    fn a_score_without_gradient_is_found() {
        assert_traced_comparator::<Step>();
    }
}
