//! Hyperbolic distance, which suits trees and hierarchies: the space grows exponentially with the distance from its
//! origin, as a tree does with its depth.
//!
//! An embedding `x` is the point `(sqrt(1/c + x.x), x)` of the hyperboloid of curvature `-c`, so every embedding is a
//! point of the space, and no constraint is needed while it is trained. Sources: Nickel and Kiela, "Learning Continuous
//! Hierarchies in the Lorentz Model of Hyperbolic Geometry" (2018); Balazevic et al., "Multi-relational Poincare Graph
//! Embeddings" (2019), which scores by the squared distance.

use pbg_plugin_sdk::comparator::formula::{ComparedEmbedding, Vector};
use pbg_plugin_sdk::{
    Metadata, Parameter, Parameters, Result, TracedComparator, export_traced_comparator,
};

/// Smallest squared chord, which keeps the derivative of the square root finite.
const SMALLEST_SQUARE: f32 = 1e-12;

/// The comparator with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct Hyperbolic {
    curvature: f32,
    squared: bool,
}

impl TracedComparator for Hyperbolic {
    fn metadata() -> Metadata {
        Metadata::new(
            "hyperbolic",
            env!("CARGO_PKG_VERSION"),
            "Minus the distance in hyperbolic space, or minus its square.",
        )
        .parameter(Parameter::number(
            "curvature",
            1.0,
            1e-6..=1e6,
            "The space has the curvature minus this number.",
        ))
        .parameter(Parameter::boolean(
            "squared",
            true,
            "Score by the squared distance, which is smooth where embeddings are equal.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn build<'t>(
        &self,
        left: ComparedEmbedding<'t>,
        right: ComparedEmbedding<'t>,
    ) -> Result<Vector<'t>> {
        let (x, y) = (left.component(0), right.component(0));
        let [xx, yy] = [self.curvature * x.dot(x), self.curvature * y.dot(y)];
        let difference = x - y;
        // The length of the chord in the surrounding space is written with differences, which stay exact for points
        // that are close together, and not with the inner product of the points.
        let height = (xx - yy) / ((1.0 + xx).sqrt() + (1.0 + yy).sqrt());
        let chord = self.curvature * difference.dot(difference) - height * height;
        let half = 0.5 * chord.maximum(SMALLEST_SQUARE).sqrt();
        let distance = 2.0 / self.curvature.sqrt() * (half + (1.0 + half * half).sqrt()).log();
        Ok(match self.squared {
            true => -(distance * distance),
            false => -distance,
        })
    }
}

export_traced_comparator!(Hyperbolic);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::comparator::trace;
    use pbg_plugin_sdk::testing;

    fn distance(curvature: f32, left: &[f32], right: &[f32]) -> f32 {
        let comparator = Hyperbolic {
            curvature,
            squared: false,
        };
        -trace(&comparator).unwrap().compare(left, right)
    }

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_comparator::<Hyperbolic>();
    }

    #[test]
    fn agrees_with_the_definition() {
        let (x, y) = ([0.3_f32, -0.8, 1.2], [1.5_f32, 0.4, -0.6]);
        let product = |a: &[f32], b: &[f32]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum()
        };
        for curvature in [0.5_f32, 1.0, 3.0] {
            let c = f64::from(curvature);
            let height = |x: &[f32]| (1.0 / c + product(x, x)).sqrt();
            let lorentz = height(&x) * height(&y) - product(&x, &y);
            let expected = (c * lorentz).acosh() / c.sqrt();
            let found = f64::from(distance(curvature, &x, &y));
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        }
    }

    #[test]
    fn is_a_distance() {
        let points = [[0.0_f32, 0.0], [1.0, 0.5], [-2.0, 3.0], [40.0, 0.0]];
        for a in &points {
            assert!(distance(1.0, a, a) < 1e-5);
            for b in &points {
                assert_eq!(distance(1.0, a, b), distance(1.0, b, a));
                for c in &points {
                    let detour = distance(1.0, a, c) + distance(1.0, c, b);
                    assert!(distance(1.0, a, b) <= detour + 1e-5);
                }
            }
        }
    }

    #[test]
    fn is_euclidean_where_the_space_is_flat() {
        let found = distance(1e-6, &[1.0, 2.0], &[4.0, 6.0]);
        assert!((found - 5.0).abs() < 1e-3, "{found}");
    }

    #[test]
    fn the_squared_distance_is_the_default() {
        let squared = testing::comparator_with_defaults::<Hyperbolic>();
        let once = distance(1.0, &[1.0, 0.0], &[0.0, 2.0]);
        let found = squared.compare(&[1.0, 0.0], &[0.0, 2.0]);
        assert!((found + once * once).abs() < 1e-5);
    }
}
