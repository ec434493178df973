//! Comparators that are formulas.

use pbg_core::model::Comparator;
use pbg_formula::comparator::{ComparatorDefinition, ComparatorHandle};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Returns the comparators that are built in, followed by [`formulas`].
pub fn comparators() -> impl Iterator<Item = Comparator> {
    Comparator::BUILT_IN.into_iter().chain(formulas())
}

/// Returns comparators that are written as formulas.
pub fn formulas() -> [Comparator; 2] {
    [boxes(), hyperbolic()]
}

/// Builder of a formula, node by node.
#[derive(Default)]
struct PairNotes(Vec<FormulaNode>);

impl PairNotes {
    fn push(&mut self, node: FormulaNode) -> NodeId {
        self.0.push(node);
        self.0.len() as NodeId - 1
    }

    fn unary(&mut self, op: Unary, x: NodeId) -> NodeId {
        self.push(FormulaNode::Unary(op, x))
    }

    fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.push(FormulaNode::Binary(op, a, b))
    }

    fn number(&mut self, value: f32) -> NodeId {
        self.push(FormulaNode::Constant(value))
    }

    fn comparator(self, name: &str, components: u32, score: NodeId) -> Comparator {
        let definition = ComparatorDefinition {
            name: name.to_owned(),
            components,
            nodes: self.0,
            score,
        };
        let formula = definition.check(1024).expect("a valid formula");
        Comparator::Traced(ComparatorHandle::new(formula))
    }
}

/// Minus the distance of a point, on the left, from a box of centre and logarithmic half width (Query2Box): the L1
/// distance outside of the box, and a fifth of the distance within it.
pub fn boxes() -> Comparator {
    let mut f = PairNotes::default();
    let [point, _, centre, width] = [0, 1, 2, 3].map(|i| f.push(FormulaNode::Component(i)));
    let half = f.unary(Unary::Exp, width);
    let apart = f.binary(Binary::Sub, point, centre);
    let apart = f.unary(Unary::Abs, apart);
    let beyond = f.binary(Binary::Sub, apart, half);
    let outside = f.unary(Unary::Relu, beyond);
    let inside = f.binary(Binary::Min, apart, half);
    let weight = f.number(0.2);
    let inside = f.binary(Binary::Mul, weight, inside);
    let distance = f.binary(Binary::Add, outside, inside);
    let sum = f.push(FormulaNode::Sum(distance));
    let score = f.unary(Unary::Neg, sum);
    f.comparator("boxes", 2, score)
}

/// Minus the distance in a hyperbolic space: `ln(z + sqrt(z^2 - 1))` with
/// `z = 1 + 2 |x - y|^2 / (1 + |x|^2) / (1 + |y|^2)`. Sums are used by further operations, and one of them elementwise.
pub fn hyperbolic() -> Comparator {
    let mut f = PairNotes::default();
    let [x, y] = [0, 1].map(|i| f.push(FormulaNode::Component(i)));
    let one = f.number(1.0);
    let square = |f: &mut PairNotes, x| {
        let square = f.binary(Binary::Mul, x, x);
        f.push(FormulaNode::Sum(square))
    };
    let [of_x, of_y] = [x, y].map(|x| {
        let square = square(&mut f, x);
        f.binary(Binary::Add, square, one)
    });
    let apart = f.binary(Binary::Sub, x, y);
    // Elementwise, although it could follow the sum.
    let scaled = f.binary(Binary::Div, apart, of_x);
    let product = f.binary(Binary::Mul, scaled, apart);
    let sum = f.push(FormulaNode::Sum(product));
    let sum = f.binary(Binary::Div, sum, of_y);
    let two = f.number(2.0);
    let sum = f.binary(Binary::Mul, two, sum);
    let least = f.number(1e-4);
    let sum = f.binary(Binary::Max, sum, least);
    let z = f.binary(Binary::Add, sum, one);
    let square = f.binary(Binary::Mul, z, z);
    let square = f.binary(Binary::Sub, square, one);
    let root = f.unary(Unary::Sqrt, square);
    let sum = f.binary(Binary::Add, z, root);
    let distance = f.unary(Unary::Log, sum);
    let score = f.unary(Unary::Neg, distance);
    f.comparator("hyperbolic", 1, score)
}

/// Returns a comparator of one or two components whose formula is drawn at random: smooth functions, kinks and sums, which
/// further nodes use elementwise.
pub fn random(seed: u64) -> Comparator {
    const UNARY: [Unary; 6] = [
        Unary::Sigmoid,
        Unary::Sin,
        Unary::Neg,
        Unary::Abs,
        Unary::Softplus,
        Unary::Cos,
    ];
    const BINARY: [Binary; 5] = [
        Binary::Sub,
        Binary::Mul,
        Binary::Add,
        Binary::Max,
        Binary::Less,
    ];
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut f = PairNotes::default();
    let components = draws.random_range(1..=2_u32);
    let sides = (0..2 * components).map(|i| f.push(FormulaNode::Component(i)));
    let mut known: Vec<NodeId> = sides.collect();
    let both = f.binary(Binary::Mul, 0, components);
    known.push(f.number(0.5));
    for _ in 0..draws.random_range(3..10_usize) {
        let mut any = || known[draws.random_range(0..known.len())];
        let [a, b, c] = [any(), any(), any()];
        let made = match draws.random_range(0..6) {
            0 => f.push(FormulaNode::Select(a, b, c)),
            1 => f.push(FormulaNode::Sum(a)),
            2 | 3 => f.binary(BINARY[draws.random_range(0..BINARY.len())], a, b),
            _ => f.unary(UNARY[draws.random_range(0..UNARY.len())], a),
        };
        // Bounded, so that scores are.
        known.push(match draws.random_range(0..3) {
            0 => f.unary(Unary::Sigmoid, made),
            1 => f.unary(Unary::Sin, made),
            _ => made,
        });
    }
    let last = known[known.len() - 1];
    let bounded = f.unary(Unary::Sin, last);
    let value = f.binary(Binary::Add, both, bounded);
    let score = f.push(FormulaNode::Sum(value));
    f.comparator(&format!("random_{seed}"), components, score)
}
