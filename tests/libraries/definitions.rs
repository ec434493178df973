//! Random losses as graphs that are valid and have moderate values.

use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Reduction, Unary, ValueShape};
use proptest::prelude::*;

/// Step of a random graph: operation, operands among the nodes so far, and a constant.
type Step = (u8, u16, u16, u16, f32);

/// Generates definitions that pass the check.
pub fn definitions() -> impl Strategy<Value = LossDefinition> {
    let step = (
        any::<u8>(),
        any::<u16>(),
        any::<u16>(),
        any::<u16>(),
        -2.0_f32..2.0,
    );
    (prop::collection::vec(step, 1..24), -1.0_f32..1.0).prop_map(|(steps, value)| {
        let mut writer = Writer::new(value);
        for step in steps {
            writer.step(step);
        }
        writer.finish()
    })
}

/// Generates the rows of one graph: positives, negatives row by row, number of columns; some negatives are masked.
pub fn rows() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, usize)> {
    let score = || prop_oneof![9 => -3.0_f32..3.0, 1 => Just(pbg_core::strategy::MASKED)];
    (1_usize..6, 0_usize..40).prop_flat_map(move |(rows, columns)| {
        (
            prop::collection::vec(-3.0_f32..3.0, rows),
            prop::collection::vec(score(), rows * columns),
            Just(columns),
        )
    })
}

struct Writer {
    nodes: Vec<FormulaNode>,
    shapes: Vec<ValueShape>,
    parameter: f32,
    /// Values that are infinite without negatives; no other node may use them.
    raw: Vec<NodeId>,
}

impl Writer {
    fn new(parameter: f32) -> Self {
        let mut writer = Self {
            nodes: Vec::new(),
            shapes: Vec::new(),
            parameter,
            raw: Vec::new(),
        };
        for node in [
            FormulaNode::Positive,
            FormulaNode::Negative,
            FormulaNode::Parameter(0),
        ] {
            writer.push(node);
        }
        writer
    }

    fn push(&mut self, node: FormulaNode) -> NodeId {
        self.shapes.push(node.shape(|id| self.shapes[id as usize]));
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    fn unary(&mut self, op: Unary, x: NodeId) -> NodeId {
        self.push(FormulaNode::Unary(op, x))
    }

    fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.push(FormulaNode::Binary(op, a, b))
    }

    fn any(&self, choice: u16) -> NodeId {
        let chosen = NodeId::from(choice) % self.nodes.len() as NodeId;
        if self.raw.contains(&chosen) {
            0
        } else {
            chosen
        }
    }

    fn matrix(&self, choice: u16) -> NodeId {
        let all: Vec<NodeId> = (0..self.nodes.len() as NodeId)
            .filter(|&id| self.shapes[id as usize] == ValueShape::Matrix)
            .collect();
        all[usize::from(choice) % all.len()]
    }

    /// Maps `x` to between 0.5 and 1.5, where logarithms, roots and quotients are harmless.
    fn positive(&mut self, x: NodeId) -> NodeId {
        let sigmoid = self.unary(Unary::Sigmoid, x);
        let half = self.push(FormulaNode::Constant(0.5));
        self.binary(Binary::Add, sigmoid, half)
    }

    /// Maps `x` to between -1 and 1, with about the same slope over the relevant range.
    fn bounded(&mut self, x: NodeId) -> NodeId {
        let absolute = self.unary(Unary::Abs, x);
        let one = self.push(FormulaNode::Constant(1.0));
        let below = self.binary(Binary::Add, absolute, one);
        self.binary(Binary::Div, x, below)
    }

    fn step(&mut self, (op, a, b, c, number): Step) {
        let (x, y, z) = (self.any(a), self.any(b), self.any(c));
        match op % 24 {
            0 => self.binary(Binary::Add, x, y),
            1 => self.binary(Binary::Sub, x, y),
            2 | 3 => {
                let (x, y) = (self.bounded(x), self.bounded(y));
                self.binary(Binary::Mul, x, y)
            }
            4 => {
                let below = self.positive(y);
                self.binary(Binary::Div, x, below)
            }
            5 => {
                let base = self.positive(x);
                let exponent = self.push(FormulaNode::Constant((number * 2.0).round() / 2.0));
                self.binary(Binary::Pow, base, exponent)
            }
            6 => {
                let (base, exponent) = (self.positive(x), self.bounded(y));
                self.binary(Binary::Pow, base, exponent)
            }
            7 => self.binary(Binary::Min, x, y),
            8 => self.binary(Binary::Max, x, y),
            9 => {
                // With the same value on both sides, computed in two ways, the last place would decide.
                let apart = self.push(FormulaNode::Constant(0.013_7));
                let bound = self.binary(Binary::Add, y, apart);
                let condition = self.binary(Binary::Greater, x, bound);
                self.push(FormulaNode::Select(condition, z, x))
            }
            10 => {
                let low = self.push(FormulaNode::Constant(-number.abs()));
                let high = self.push(FormulaNode::Constant(number.abs()));
                self.push(FormulaNode::Clamp(x, low, high))
            }
            11 => self.unary(Unary::Neg, x),
            12 => self.unary(Unary::Abs, x),
            13 => {
                let x = self.bounded(x);
                self.unary(Unary::Exp, x)
            }
            14 => {
                let x = self.positive(x);
                self.unary(Unary::Log, x)
            }
            15 => {
                let x = self.positive(x);
                self.unary(Unary::Sqrt, x)
            }
            16 => self.unary(Unary::Sigmoid, x),
            17 => self.unary(Unary::Softplus, x),
            18 => self.unary(Unary::Relu, x),
            19 => {
                let x = self.matrix(a);
                self.push(FormulaNode::Reduce(Reduction::Mean, x))
            }
            20 => {
                // The operand is bounded, because a sum of many large values would dominate all others.
                let x = self.matrix(a);
                let x = self.bounded(x);
                self.push(FormulaNode::Reduce(Reduction::Sum, x))
            }
            21 => {
                // Without negatives the maximum is infinite; the floor keeps it finite.
                let x = self.matrix(a);
                let largest = self.push(FormulaNode::Reduce(Reduction::Max, x));
                self.raw.push(largest);
                let floor = self.push(FormulaNode::Constant(number - 2.0));
                self.binary(Binary::Max, largest, floor)
            }
            22 => {
                let x = self.matrix(a);
                let total = self.push(FormulaNode::Reduce(Reduction::LogSumExp, x));
                self.raw.push(total);
                self.unary(Unary::Softplus, total)
            }
            _ => {
                let x = self.matrix(a);
                self.push(FormulaNode::Softmax(x))
            }
        };
    }

    /// Combines the last value of each shape into the loss.
    fn finish(mut self) -> LossDefinition {
        let last = |writer: &Self, shape| writer.shapes.iter().rposition(|&s| s == shape);
        let matrix = last(&self, ValueShape::Matrix).unwrap_or(1) as NodeId;
        let row = last(&self, ValueShape::Row).unwrap_or(0) as NodeId;
        let scalar = last(&self, ValueShape::Scalar).unwrap_or(2) as NodeId;
        let scaled = self.binary(Binary::Mul, matrix, scalar);
        let each = self.binary(Binary::Add, matrix, scaled);
        let mean = self.push(FormulaNode::Reduce(Reduction::Mean, each));
        let output = self.binary(Binary::Add, mean, row);
        LossDefinition {
            nodes: self.nodes,
            output,
            parameters: vec![LossParameter {
                name: "p".to_owned(),
                value: self.parameter,
            }],
            update_every: 0,
        }
    }
}
