//! Interpreter of an operator's formula, for tests.

use super::graph::{Formula, Node, Unary};
use crate::loss::Binary;

impl Formula {
    /// Transforms an embedding. `parameters` are the vectors of the relation, in the order of
    /// [`Formula::parameters`].
    ///
    /// # Panics
    /// If the embedding cannot be split into components, or if a vector is missing or shorter than a component.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let shift = formula(|x| vec![x.component(0) + x.parameter("shift", Initial::Zero)]);
    /// assert_eq!(shift.apply(&[1.0, 2.0], &[&[0.5, -0.5]]), [1.5, 1.5]);
    /// ```
    #[must_use]
    pub fn apply(&self, embedding: &[f32], parameters: &[&[f32]]) -> Vec<f32> {
        let width = embedding.len() / self.components as usize;
        assert_eq!(
            embedding.len(),
            width * self.components as usize,
            "the embedding cannot be split into components of equal length"
        );
        let mut made = vec![0.0; embedding.len()];
        for i in 0..width {
            let values = self.element(i, width, embedding, parameters);
            for (component, &output) in self.outputs.iter().enumerate() {
                made[component * width + i] = values[output as usize] as f32;
            }
        }
        made
    }

    fn element(&self, i: usize, width: usize, x: &[f32], parameters: &[&[f32]]) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let of = |id: u32| values[id as usize];
            values.push(match node {
                Node::Component(index) => x[index as usize * width + i].into(),
                Node::Parameter(index) => parameters[index as usize][i].into(),
                Node::Constant(value) => value.into(),
                Node::Unary(op, x) => unary(op, of(x)),
                Node::Binary(op, a, b) => binary(op, of(a), of(b)),
                Node::Select(c, a, b) if of(c) == 0.0 => {
                    let _ = a;
                    of(b)
                }
                Node::Select(_, a, _) => of(a),
                Node::Clamp(x, low, high) => of(x).max(of(low)).min(of(high)),
            });
        }
        values
    }
}

fn unary(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::Relu => x.max(0.0),
        Unary::StopGradient => x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
    }
}

fn binary(op: Binary, a: f64, b: f64) -> f64 {
    let number = |holds: bool| f64::from(u8::from(holds));
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Pow => a.powf(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Less => number(a < b),
        Binary::LessEqual => number(a <= b),
        Binary::Greater => number(a > b),
        Binary::GreaterEqual => number(a >= b),
        Binary::Equal => number(a == b),
        Binary::NotEqual => number(a != b),
    }
}
