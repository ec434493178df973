//! RotatE: complex numbers, each rotated by an angle of the relation.
//!
//! The first half of an embedding has the real parts, the second half the imaginary parts. Source: Sun et al., "RotatE:
//! Knowledge Graph Embedding by Relational Rotation in Complex Space" (2019), section 3; the paper compares with a
//! distance and draws angles uniformly.

use pbg_plugin_sdk::operator::Initial;
use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
use pbg_plugin_sdk::{Metadata, Result, TracedOperator, export_traced_operator};

/// The operator; it has no configurable parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct RotatE;

impl TracedOperator for RotatE {
    fn metadata() -> Metadata {
        Metadata::new(
            "rotate",
            env!("CARGO_PKG_VERSION"),
            "Complex numbers, each rotated by an angle (RotatE).",
        )
    }

    fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
        let ([re, im], angle) = (x.components(), x.parameter("angle", Initial::Angle));
        let (cos, sin) = (angle.cos(), angle.sin());
        Ok(vec![re * cos - im * sin, re * sin + im * cos])
    }
}

export_traced_operator!(RotatE);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_operator::<RotatE>();
    }

    #[test]
    fn a_quarter_of_a_turn_takes_one_to_i() {
        let formula = testing::operator_with_defaults::<RotatE>();
        let quarter = [std::f32::consts::FRAC_PI_2];
        let turned = formula.apply(&[1.0, 0.0], &[&quarter]);
        assert!(turned[0].abs() < 1e-6 && (turned[1] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn lengths_stay() {
        let formula = testing::operator_with_defaults::<RotatE>();
        let turned = formula.apply(&[3.0, 4.0], &[&[0.7]]);
        assert!((turned[0].hypot(turned[1]) - 5.0).abs() < 1e-6);
    }
}
