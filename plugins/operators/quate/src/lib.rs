//! QuatE: quaternions, each multiplied by a quaternion of length 1 of the relation.
//!
//! The four quarters of an embedding are the real parts and the coefficients of i, j and k. Source: Zhang et al., "Quaternion
//! Knowledge Graph Embeddings" (2019), section 3.2; the paper compares by inner products.

use pbg_plugin_sdk::operator::Initial;
use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
use pbg_plugin_sdk::{Metadata, Result, TracedOperator, export_traced_operator};

/// The operator; it has no configurable parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuatE;

impl TracedOperator for QuatE {
    fn metadata() -> Metadata {
        Metadata::new(
            "quate",
            env!("CARGO_PKG_VERSION"),
            "Quaternions, each multiplied by a quaternion of length 1 (QuatE).",
        )
    }

    fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
        let [a, b, c, d] = x.components();
        // The real part dominates initially, so that a relation is close to the identity and far from length 0.
        let real = x.parameter("real", Initial::One);
        let [i, j, k] = ["i", "j", "k"].map(|name| x.parameter(name, Initial::Normal(0.1)));
        let length = (real * real + i * i + j * j + k * k).sqrt();
        let [p, q, u, v] = [real, i, j, k].map(|part| part / length);
        Ok(vec![
            a * p - b * q - c * u - d * v,
            a * q + b * p + c * v - d * u,
            a * u - b * v + c * p + d * q,
            a * v + b * u - c * q + d * p,
        ])
    }
}

export_traced_operator!(QuatE);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_operator::<QuatE>();
    }

    #[test]
    fn i_times_j_is_k() {
        let formula = testing::operator_with_defaults::<QuatE>();
        let (zero, two) = ([0.0], [2.0]);
        let made = formula.apply(&[0.0, 1.0, 0.0, 0.0], &[&zero, &zero, &two, &zero]);
        assert_eq!(made, [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn lengths_stay() {
        let formula = testing::operator_with_defaults::<QuatE>();
        let made = formula.apply(&[1.0, 2.0, 3.0, 4.0], &[&[1.0], &[0.5], &[-0.3], &[2.0]]);
        let length = |x: &[f32]| x.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((length(&made) - length(&[1.0, 2.0, 3.0, 4.0])).abs() < 1e-5);
    }
}
