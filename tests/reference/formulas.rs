//! Operators that are formulas.

use pbg_core::model::Operator;
use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary};
use pbg_formula::operator::{FormulaHandle, InitialValue, OperatorDefinition, ParameterVector};

/// Builder of a formula, node by node.
#[derive(Default)]
struct Notes(Vec<FormulaNode>);

impl Notes {
    fn push(&mut self, node: FormulaNode) -> NodeId {
        self.0.push(node);
        self.0.len() as NodeId - 1
    }

    fn components<const N: usize>(&mut self) -> [NodeId; N] {
        std::array::from_fn(|i| self.push(FormulaNode::Component(i as u32)))
    }

    fn parameters<const N: usize>(&mut self) -> [NodeId; N] {
        std::array::from_fn(|i| self.push(FormulaNode::Parameter(i as u32)))
    }

    fn unary(&mut self, op: Unary, x: NodeId) -> NodeId {
        self.push(FormulaNode::Unary(op, x))
    }

    fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.push(FormulaNode::Binary(op, a, b))
    }

    /// Returns the sum of `sign[i] a[i] b[i]`.
    fn products<const N: usize>(&mut self, terms: [(bool, NodeId, NodeId); N]) -> NodeId {
        let mut sum = None;
        for (plus, a, b) in terms {
            let product = self.binary(Binary::Mul, a, b);
            sum = Some(match (sum, plus) {
                (None, _) => product,
                (Some(sum), true) => self.binary(Binary::Add, sum, product),
                (Some(sum), false) => self.binary(Binary::Sub, sum, product),
            });
        }
        sum.expect("a term")
    }

    fn formula(self, outputs: &[NodeId], parameters: &[(&str, InitialValue)]) -> Operator {
        let parameters = parameters.iter().map(|&(name, initial)| ParameterVector {
            name: name.to_owned(),
            initial,
        });
        let definition = OperatorDefinition {
            name: "test".to_owned(),
            components: outputs.len() as u32,
            parameters: parameters.collect(),
            nodes: self.0,
            outputs: outputs.to_vec(),
        };
        let formula = definition.check(256).expect("a formula");
        Operator::Traced(FormulaHandle::new(formula))
    }
}

/// Returns the operator `diagonal` as a formula.
pub fn distmult() -> Operator {
    let mut notes = Notes::default();
    let ([x], [p]) = (notes.components(), notes.parameters());
    let y = notes.binary(Binary::Mul, x, p);
    notes.formula(&[y], &[("diagonal", InitialValue::One)])
}

/// Returns the operator `translation` as a formula.
pub fn transe() -> Operator {
    let mut notes = Notes::default();
    let ([x], [p]) = (notes.components(), notes.parameters());
    let y = notes.binary(Binary::Add, x, p);
    notes.formula(&[y], &[("translation", InitialValue::Zero)])
}

/// Returns the operator `complex_diagonal` as a formula.
pub fn complex() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [c, d]) = (notes.components(), notes.parameters());
    let re = notes.products([(true, a, c), (false, b, d)]);
    let im = notes.products([(true, a, d), (true, b, c)]);
    notes.formula(
        &[re, im],
        &[("real", InitialValue::One), ("imag", InitialValue::Zero)],
    )
}

/// Returns rotations of complex numbers by angles.
pub fn rotate() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [angle]) = (notes.components(), notes.parameters());
    let (cos, sin) = (
        notes.unary(Unary::Cos, angle),
        notes.unary(Unary::Sin, angle),
    );
    let re = notes.products([(true, a, cos), (false, b, sin)]);
    let im = notes.products([(true, a, sin), (true, b, cos)]);
    notes.formula(&[re, im], &[("angle", InitialValue::Angle)])
}

/// Returns the product with a quaternion of length 1.
pub fn quate() -> Operator {
    let mut notes = Notes::default();
    let ([a, b, c, d], p): (_, [NodeId; 4]) = (notes.components(), notes.parameters());
    let square = notes.products(p.map(|p| (true, p, p)));
    let norm = notes.unary(Unary::Sqrt, square);
    let [p, q, u, v] = p.map(|p| notes.binary(Binary::Div, p, norm));
    let outputs = [
        notes.products([(true, a, p), (false, b, q), (false, c, u), (false, d, v)]),
        notes.products([(true, a, q), (true, b, p), (true, c, v), (false, d, u)]),
        notes.products([(true, a, u), (false, b, v), (true, c, p), (true, d, q)]),
        notes.products([(true, a, v), (true, b, u), (false, c, q), (true, d, p)]),
    ];
    let normal = InitialValue::Normal(0.5);
    let parameters = [("r", normal), ("i", normal), ("j", normal), ("k", normal)];
    notes.formula(&outputs, &parameters)
}

/// Returns an operator with functions that known operators lack, a value with several uses, and outputs that are
/// untransformed components.
pub fn odd() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [p, q]) = (notes.components(), notes.parameters());
    let two = notes.push(FormulaNode::Constant(2.0));
    let gate = notes.unary(Unary::Sigmoid, a);
    let scaled = notes.binary(Binary::Mul, gate, p);
    let shifted = notes.binary(Binary::Sub, scaled, q);
    let squared = notes.binary(Binary::Mul, shifted, shifted);
    let soft = notes.unary(Unary::Softplus, squared);
    let wave = notes.unary(Unary::Sin, shifted);
    let tail = notes.binary(Binary::Div, wave, two);
    let y = notes.binary(Binary::Sub, tail, soft);
    let above = notes.binary(Binary::Greater, b, q);
    let chosen = notes.push(FormulaNode::Select(above, y, b));
    notes.formula(
        &[chosen, a],
        &[("p", InitialValue::One), ("q", InitialValue::Zero)],
    )
}

/// Returns formulas that accept embeddings of any even dimension.
pub fn formulas() -> [Operator; 4] {
    [distmult(), complex(), rotate(), odd()]
}
