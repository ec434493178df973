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

    /// Returns the sum of `a b` over all elements of both vectors.
    fn dot(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let product = self.binary(Binary::Mul, a, b);
        self.push(FormulaNode::Sum(product))
    }

    fn formula(self, outputs: &[NodeId], parameters: &[(&str, InitialValue)]) -> Operator {
        self.both(outputs, &[], parameters)
    }

    /// Returns a formula that also transforms left entities, unless `lhs` is empty.
    fn both(
        self,
        outputs: &[NodeId],
        lhs: &[NodeId],
        parameters: &[(&str, InitialValue)],
    ) -> Operator {
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
            lhs_outputs: lhs.to_vec(),
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

/// Returns the product with an octonion.
pub fn octonions() -> Operator {
    let mut notes = Notes::default();
    let (x, p): ([NodeId; 8], [NodeId; 8]) = (notes.components(), notes.parameters());
    // `PRODUCT[i][j]` is the index k and the sign of e_i e_j = +-e_k, by the triples (i, i + 1, i + 3) modulo 7.
    let product = |i: usize, j: usize| {
        let cycle = (1..8).map(|a| [a, a % 7 + 1, (a + 2) % 7 + 1]);
        match (i, j) {
            (0, other) | (other, 0) => (other, true),
            _ if i == j => (0, false),
            _ => cycle
                .flat_map(|[a, b, c]| [[a, b, c], [b, c, a], [c, a, b]])
                .find_map(|[a, b, c]| match [i, j] {
                    ij if ij == [a, b] => Some((c, true)),
                    ij if ij == [b, a] => Some((c, false)),
                    _ => None,
                })
                .expect("every pair is in a triple"),
        }
    };
    let mut terms = [[(true, 0, 0); 8]; 8];
    for (i, &x) in x.iter().enumerate() {
        for (j, &p) in p.iter().enumerate() {
            let (k, plus) = product(i, j);
            terms[k][i] = (plus, x, p);
        }
    }
    // The first term of a sum is positive.
    let outputs = terms.map(|mut terms| {
        terms.sort_by_key(|(plus, ..)| !plus);
        notes.products(terms)
    });
    let names = ["r", "a", "b", "c", "d", "e", "f", "g"];
    let normal = InitialValue::Normal(0.5);
    notes.formula(&outputs, &names.map(|name| (name, normal)))
}

/// Returns a reflection in the hyperplane orthogonal to a vector, of the whole embedding.
pub fn householder() -> Operator {
    let mut notes = Notes::default();
    let ([x], [v]) = (notes.components(), notes.parameters());
    let (along, square) = (notes.dot(v, x), notes.dot(v, v));
    let two = notes.push(FormulaNode::Constant(2.0));
    let share = notes.binary(Binary::Div, along, square);
    let twice = notes.binary(Binary::Mul, two, share);
    let part = notes.binary(Binary::Mul, twice, v);
    let y = notes.binary(Binary::Sub, x, part);
    notes.formula(&[y], &[("v", InitialValue::Normal(1.0))])
}

/// Returns the operator of PairRE: each side times a vector.
pub fn paired() -> Operator {
    let mut notes = Notes::default();
    let ([x], [head, tail]) = (notes.components(), notes.parameters());
    let (left, right) = (
        notes.binary(Binary::Mul, x, head),
        notes.binary(Binary::Mul, x, tail),
    );
    let parameters = [("head", InitialValue::One), ("tail", InitialValue::One)];
    notes.both(&[right], &[left], &parameters)
}

/// Returns an operator of both sides with sums of computed values, of parameters and of a constant, and with values
/// that are the same for all elements as an output.
pub fn normed() -> Operator {
    let mut notes = Notes::default();
    let ([a, b], [p, q]) = (notes.components(), notes.parameters());
    let wave = notes.unary(Unary::Sin, a);
    let mean = notes.push(FormulaNode::Sum(wave));
    let one = notes.push(FormulaNode::Constant(1.0));
    let count = notes.push(FormulaNode::Sum(one));
    let mean = notes.binary(Binary::Div, mean, count);
    let scaled = notes.binary(Binary::Mul, mean, p);
    let square = notes.products([(true, a, a), (true, b, b)]);
    let square = notes.push(FormulaNode::Sum(square));
    let square = notes.binary(Binary::Add, square, one);
    let length = notes.unary(Unary::Sqrt, square);
    let total = notes.push(FormulaNode::Sum(q));
    let shift = notes.unary(Unary::Sigmoid, total);
    let left = notes.binary(Binary::Div, a, length);
    let left = notes.binary(Binary::Add, left, shift);
    let turned = notes.binary(Binary::Mul, b, q);
    notes.both(
        &[scaled, length],
        &[left, turned],
        &[("p", InitialValue::One), ("q", InitialValue::Normal(0.5))],
    )
}

/// Returns formulas that accept embeddings of any even dimension.
pub fn formulas() -> [Operator; 5] {
    [distmult(), complex(), rotate(), odd(), householder()]
}

/// Returns formulas of both sides that accept embeddings of any even dimension.
pub fn formulas_of_both_sides() -> [Operator; 2] {
    [paired(), normed()]
}
