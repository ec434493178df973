//! Householder reflections of the relation, one after the other, and projections of both sides.
//!
//! A reflection in the hyperplane orthogonal to a vector `v` is `x - 2 v (v.x) / (v.v)`. Products of reflections are all
//! rotations and reflections of a space: an even number of them is a rotation. A projection is
//! `x - strength p (p.x) / (p.p)`, which may change lengths. Source: Li et al., "HousE: Knowledge Graph Embedding with
//! Householder Parameterization" (2022), sections 4.1 and 4.2, which reflects groups of a few numbers, projects both
//! sides, and compares by Euclidean distances.

use pbg_plugin_sdk::operator::Initial;
use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
use pbg_plugin_sdk::{
    Metadata, Parameter, Parameters, Result, TracedOperator, export_traced_operator,
};

/// Most parameter vectors of a formula.
const VECTORS: u32 = 128;

/// The operator with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct Householder {
    reflections: u32,
    projections: u32,
    space: Space,
}

/// Numbers that are reflected together.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Space {
    #[default]
    All,
    Pairs,
    Fours,
    Eights,
}

impl Householder {
    /// Returns the number of components: a group has a number of each of them.
    fn components(&self) -> u32 {
        match self.space {
            Space::All => 1,
            Space::Pairs => 2,
            Space::Fours => 4,
            Space::Eights => 8,
        }
    }

    /// Returns the inner product of two vectors of numbers, in every element: over all elements, or over each group.
    fn dot<'t>(&self, a: &[Vector<'t>], b: &[Vector<'t>]) -> Vector<'t> {
        let products = a.iter().zip(b).map(|(&a, &b)| a * b);
        let sum = products.reduce(|sum, product| sum + product);
        let sum = sum.expect("there is a component");
        match self.components() {
            1 => sum.sum(),
            _ => sum,
        }
    }

    /// Returns `values` without `factor` times their part along the vector of the parameters called `name`.
    fn shortened<'t>(
        &self,
        x: Embedding<'t>,
        values: &[Vector<'t>],
        name: &str,
        factor: Vector<'t>,
    ) -> Vec<Vector<'t>> {
        let along = (0..self.components()).map(|component| {
            let name = match self.components() {
                1 => name.to_owned(),
                _ => format!("{name}_{component}"),
            };
            x.parameter(&name, Initial::Normal(1.0))
        });
        let along: Vec<Vector<'t>> = along.collect();
        let share = factor * self.dot(&along, values) / self.dot(&along, &along);
        let parts = values.iter().zip(&along);
        parts.map(|(&x, &v)| x - share * v).collect()
    }

    /// Returns an embedding after the projections of a side.
    fn projected<'t>(&self, x: Embedding<'t>, side: &str) -> Vec<Vector<'t>> {
        let mut values: Vec<_> = (0..self.components()).map(|i| x.component(i)).collect();
        for number in 0..self.projections {
            let strength = x.parameter(&format!("{side}_strength_{number}"), Initial::Zero);
            // One number for a whole embedding, or one for each group.
            let strength = match self.components() {
                1 => strength.sum() / x.constant(1.0).sum(),
                _ => strength,
            };
            let name = format!("{side}_projection_{number}");
            values = self.shortened(x, &values, &name, strength);
        }
        values
    }
}

impl TracedOperator for Householder {
    fn metadata() -> Metadata {
        Metadata::new(
            "householder",
            env!("CARGO_PKG_VERSION"),
            "Householder reflections, and projections of both sides (HousE).",
        )
        .parameter(Parameter::integer(
            "reflections",
            2,
            1..=16,
            "Number of reflections of the right side; an even number is a rotation.",
        ))
        .parameter(Parameter::integer(
            "projections",
            0,
            0..=4,
            "Number of projections of each side. With projections, relations must be static.",
        ))
        .parameter(Parameter::choice(
            "space",
            &["all", "pairs", "fours", "eights"],
            "Numbers that are reflected together: the whole embedding, or groups of 2, 4 or 8 numbers.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        let projections = 2 * self.projections * (self.components() + 1);
        let vectors = self.reflections * self.components() + projections;
        match vectors > VECTORS {
            false => Ok(()),
            true => Err(format!(
                "a relation would have {vectors} vectors, more than {VECTORS}; use fewer reflections, fewer projections \
                 or a smaller space"
            )),
        }
    }

    fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
        let mut values = self.projected(x, "rhs");
        for number in 0..self.reflections {
            let two = x.constant(2.0);
            values = self.shortened(x, &values, &format!("reflection_{number}"), two);
        }
        Ok(values)
    }

    fn build_lhs<'t>(&self, x: Embedding<'t>) -> Result<Option<Vec<Vector<'t>>>> {
        let projects = self.projections > 0;
        Ok(projects.then(|| self.projected(x, "lhs")))
    }
}

export_traced_operator!(Householder);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::operator::{Formula, trace};
    use pbg_plugin_sdk::{Value, testing};

    fn formula(reflections: u32, projections: u32, space: Space) -> Formula {
        trace(&Householder {
            reflections,
            projections,
            space,
        })
        .unwrap()
    }

    /// Numbers between -1 and 1 without a pattern.
    fn numbers(count: usize, seed: f32) -> Vec<f32> {
        (0..count).map(|i| (seed + 1.7 * i as f32).sin()).collect()
    }

    fn apply(formula: &Formula, x: &[f32], vectors: &[f32]) -> Vec<f32> {
        let width = x.len() / formula.components as usize;
        formula.apply(x, &vectors.chunks(width).collect::<Vec<_>>())
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_operator::<Householder>();
    }

    #[test]
    fn a_reflection_turns_its_own_vector_round() {
        let made = apply(
            &formula(1, 0, Space::All),
            &[1.0, 2.0, 2.0],
            &[1.0, 2.0, 2.0],
        );
        assert_eq!(made, [-1.0, -2.0, -2.0]);
    }

    #[test]
    fn lengths_and_angles_stay() {
        for (reflections, space) in [
            (1, Space::All),
            (5, Space::All),
            (3, Space::Pairs),
            (4, Space::Fours),
            (8, Space::Eights),
        ] {
            let formula = formula(reflections, 0, space);
            let vectors = numbers(
                16 / formula.components as usize * formula.parameters.len(),
                1.0,
            );
            let (a, b) = (numbers(16, 2.0), numbers(16, 3.0));
            let made = [&a, &b].map(|x| apply(&formula, x, &vectors));
            assert!(
                (dot(&made[0], &made[1]) - dot(&a, &b)).abs() < 1e-4,
                "{space:?}"
            );
            assert!(
                (dot(&made[0], &made[0]) - dot(&a, &a)).abs() < 1e-4,
                "{space:?}"
            );
        }
    }

    #[test]
    fn groups_do_not_mix() {
        let formula = formula(2, 0, Space::Fours);
        let (vectors, x) = (numbers(16, 1.0), numbers(8, 2.0));
        let mut other = x.clone();
        other[1] = 9.0; // A number of the second group.
        let made = [x, other].map(|x| apply(&formula, &x, &vectors));
        for at in [0, 2, 4, 6] {
            assert_eq!(made[0][at], made[1][at]);
            assert_ne!(made[0][at + 1], made[1][at + 1]);
        }
    }

    #[test]
    fn projections_begin_as_the_identity_and_can_take_a_part_out() {
        let formula = formula(1, 1, Space::All);
        let names: Vec<&str> = formula.parameters.iter().map(|p| p.name.as_str()).collect();
        let expected = [
            "rhs_strength_0",
            "rhs_projection_0",
            "reflection_0",
            "lhs_strength_0",
            "lhs_projection_0",
        ];
        assert_eq!(names, expected);
        let (zeros, ones, along, x) = ([0.0; 2], [1.0; 2], [3.0, 4.0], [4.0, -3.0]);
        let applied =
            |strength, x: &[f32]| formula.apply_lhs(x, &[&zeros, &along, &along, strength, &along]);
        assert_eq!(applied(&zeros, &along), along);
        assert_eq!(applied(&ones, &along), [0.0, 0.0]);
        assert_eq!(applied(&ones, &x), x);
    }

    #[test]
    fn too_many_vectors_are_refused() {
        let given = |reflections, space: &str| {
            Parameters::new([
                ("reflections", Value::Integer(reflections)),
                ("projections", Value::Integer(1)),
                ("space", Value::Text(space.to_owned())),
            ])
        };
        assert_eq!(
            Householder::default().configure(&given(8, "eights")),
            Ok(())
        );
        let refused = Householder::default().configure(&given(16, "eights"));
        assert!(refused.unwrap_err().contains("146 vectors"));
    }
}
