//! Lowering of a graph's nodes to steps, fused where that is always correct.

use std::collections::HashMap;

use pbg_formula::loss::DerivedLoss;
use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary, ValueShape};

mod reductions;

use super::{
    FunctionWithSlope, LossProgram, LossStep, NegativeGradient, POSITIVE, SCORES, TileIndex,
    TileOperand, VectorIndex,
};
use reductions::Exponentials;

impl LossProgram {
    /// Lowers a graph to a program.
    pub(in crate::losses) fn new(derived: &DerivedLoss) -> Self {
        let mut lowering = Lowering::new(derived);
        for id in 0..derived.nodes.len() {
            let value = lowering.lower(id);
            lowering.values.push(value);
        }
        lowering.finish()
    }
}

/// Result of lowering a node.
#[derive(Clone, Copy, Debug)]
enum Value {
    Vector(VectorIndex),
    Tile(TileIndex),
    /// A tile with a factor per row, by which it has not been multiplied yet.
    Scaled(TileIndex, VectorIndex),
}

struct Lowering<'a> {
    derived: &'a DerivedLoss,
    values: Vec<Value>,
    program: LossProgram,
    /// The step that writes each tile.
    makers: Vec<Option<usize>>,
    known: Known,
}

/// Values that earlier steps compute, by what they are computed from.
#[derive(Default)]
struct Known {
    exponentials: HashMap<TileIndex, Exponentials>,
    materialized: HashMap<(TileIndex, VectorIndex), TileIndex>,
    broadcasts: HashMap<VectorIndex, TileIndex>,
    sums: HashMap<TileIndex, VectorIndex>,
    numbers: HashMap<u32, VectorIndex>,
    /// Logarithms of sums of exponentials, as (largest, logarithm of the rest). A difference with such a logarithm is
    /// computed with the largest first, where no digits are lost.
    logsums: HashMap<VectorIndex, (VectorIndex, VectorIndex)>,
    pairs: HashMap<(FunctionWithSlope, TileIndex), [TileIndex; 2]>,
}

impl<'a> Lowering<'a> {
    fn new(derived: &'a DerivedLoss) -> Self {
        Self {
            derived,
            values: Vec::with_capacity(derived.nodes.len()),
            program: LossProgram {
                vectors: 1,
                tiles: 1,
                ..LossProgram::default()
            },
            makers: vec![None],
            known: Known::default(),
        }
    }

    fn vector(&mut self) -> VectorIndex {
        self.program.vectors += 1;
        self.program.vectors - 1
    }

    /// Creates a tile that the next step writes.
    fn tile(&mut self) -> TileIndex {
        self.makers.push(Some(self.program.steps.len()));
        self.program.tiles += 1;
        self.program.tiles - 1
    }

    fn number(&mut self, value: f32) -> VectorIndex {
        if let Some(&known) = self.known.numbers.get(&value.to_bits()) {
            return known;
        }
        let out = self.vector();
        self.program.constants.push((out, value));
        self.known.numbers.insert(value.to_bits(), out);
        out
    }

    fn lower(&mut self, id: usize) -> Value {
        let node = self.derived.nodes[id];
        let scalar = self.derived.shapes[id] == ValueShape::Scalar;
        match node {
            FormulaNode::Positive => Value::Vector(POSITIVE),
            FormulaNode::Negative => Value::Tile(SCORES),
            FormulaNode::Columns => {
                let out = self.vector();
                self.program.columns = Some(out);
                Value::Vector(out)
            }
            FormulaNode::Constant(value) => Value::Vector(self.number(value)),
            // A checked loss has no such node.
            FormulaNode::Component(_) | FormulaNode::Gradient(_) | FormulaNode::Sum(_) => {
                Value::Vector(self.number(f32::NAN))
            }
            FormulaNode::Parameter(index) => {
                let out = self.vector();
                self.program.parameters.push((out, index as usize));
                Value::Vector(out)
            }
            FormulaNode::Unary(op, x) => match self.value(x) {
                Value::Vector(x) => Value::Vector(self.vector_unary(op, x, scalar)),
                value => self.unary(op, x, value),
            },
            FormulaNode::Binary(op, a, b) => match (self.value(a), self.value(b)) {
                (Value::Vector(a), Value::Vector(b)) => {
                    Value::Vector(self.vector_binary(op, a, b, scalar))
                }
                (x, z) => self.binary(op, b, x, z),
            },
            FormulaNode::Select(..) | FormulaNode::Clamp(..) => self.select(node, scalar),
            FormulaNode::Reduce(op, x) => {
                let x = self.value(x);
                Value::Vector(self.reduce(op, x))
            }
            FormulaNode::Softmax(x) => {
                let x = self.as_tile(self.value(x));
                self.softmax(x)
            }
        }
    }

    fn value(&self, id: NodeId) -> Value {
        self.values[id as usize]
    }

    fn vector_unary(&mut self, op: Unary, x: VectorIndex, scalar: bool) -> VectorIndex {
        let out = self.vector();
        self.push(LossStep::VectorUnary { op, out, x }, scalar);
        out
    }

    fn vector_binary(
        &mut self,
        op: Binary,
        a: VectorIndex,
        b: VectorIndex,
        scalar: bool,
    ) -> VectorIndex {
        if op == Binary::Sub {
            if let Some(&(largest, rest)) = self.known.logsums.get(&a) {
                let difference = self.vector_binary(Binary::Sub, largest, b, scalar);
                return self.vector_binary(Binary::Add, difference, rest, scalar);
            }
            if let Some(&(largest, rest)) = self.known.logsums.get(&b) {
                let difference = self.vector_binary(Binary::Sub, a, largest, scalar);
                return self.vector_binary(Binary::Sub, difference, rest, scalar);
            }
        }
        let out = self.vector();
        self.push(LossStep::VectorBinary { op, out, a, b }, scalar);
        out
    }

    fn push(&mut self, step: LossStep, scalar: bool) {
        match scalar {
            true => self.program.prologue.push(step),
            false => self.program.steps.push(step),
        }
    }

    fn unary(&mut self, op: Unary, id: NodeId, value: Value) -> Value {
        if op == Unary::Neg {
            return match value {
                Value::Scaled(tile, factor) => {
                    let factor = self.vector_unary(Unary::Neg, factor, false);
                    Value::Scaled(tile, factor)
                }
                value => {
                    let (tile, factor) = (self.as_tile(value), self.number(-1.0));
                    Value::Scaled(tile, factor)
                }
            };
        }
        let x = self.as_tile(value);
        let pair = match op {
            Unary::Softplus | Unary::Sigmoid => self.pair(FunctionWithSlope::Softplus, id, x),
            Unary::Relu => self.pair(FunctionWithSlope::Relu, id, x),
            _ => None,
        };
        if let Some([function, slope]) = pair {
            return Value::Tile(if op == Unary::Sigmoid {
                slope
            } else {
                function
            });
        }
        let out = self.tile();
        self.program.steps.push(LossStep::Unary {
            op,
            out,
            x,
            sum: None,
        });
        Value::Tile(out)
    }

    /// Returns the tiles of a function and its derivative, computed by one step, if the graph uses both.
    fn pair(&mut self, op: FunctionWithSlope, id: NodeId, x: TileIndex) -> Option<[TileIndex; 2]> {
        if let Some(&pair) = self.known.pairs.get(&(op, x)) {
            return Some(pair);
        }
        let slope = |node: &FormulaNode| match (op, *node) {
            (FunctionWithSlope::Softplus, FormulaNode::Unary(Unary::Sigmoid, of)) => of == id,
            (FunctionWithSlope::Relu, FormulaNode::Binary(Binary::GreaterEqual, of, zero)) => {
                of == id && self.is_zero(zero)
            }
            _ => false,
        };
        let function = match op {
            FunctionWithSlope::Softplus => Unary::Softplus,
            FunctionWithSlope::Relu => Unary::Relu,
        };
        let nodes = &self.derived.nodes;
        let both = nodes.contains(&FormulaNode::Unary(function, id)) && nodes.iter().any(slope);
        both.then(|| {
            let out = [self.tile(), self.tile()];
            self.program.steps.push(LossStep::Pair {
                op,
                out,
                x,
                sums: [None; 2],
            });
            self.known.pairs.insert((op, x), out);
            out
        })
    }

    fn is_zero(&self, id: NodeId) -> bool {
        self.derived.nodes[id as usize] == FormulaNode::Constant(0.0)
    }

    fn binary(&mut self, op: Binary, b: NodeId, x: Value, z: Value) -> Value {
        match (op, x, z) {
            (Binary::Mul, Value::Vector(factor), value)
            | (Binary::Mul, value, Value::Vector(factor)) => return self.scaled(value, factor),
            (Binary::Div, value, Value::Vector(divisor)) => {
                let scalar = self.derived.shapes[b as usize] == ValueShape::Scalar;
                let one = self.number(1.0);
                let factor = self.vector_binary(Binary::Div, one, divisor, scalar);
                return self.scaled(value, factor);
            }
            (Binary::Mul, x, z) => return self.product(x, z),
            (Binary::GreaterEqual, Value::Tile(_) | Value::Scaled(..), _) if self.is_zero(b) => {
                let x = self.as_tile(x);
                if let Some(&[_, ones]) = self.known.pairs.get(&(FunctionWithSlope::Relu, x)) {
                    return Value::Tile(ones);
                }
            }
            _ => {}
        }
        let (a, b) = (self.as_operand(x), self.as_operand(z));
        let out = self.tile();
        self.program.steps.push(LossStep::Binary { op, out, a, b });
        Value::Tile(out)
    }

    /// Records a factor per row, which is multiplied only when its product is needed.
    fn scaled(&mut self, value: Value, factor: VectorIndex) -> Value {
        match value {
            Value::Scaled(tile, first) => {
                let both = self.vector_binary(Binary::Mul, first, factor, false);
                Value::Scaled(tile, both)
            }
            value => Value::Scaled(self.as_tile(value), factor),
        }
    }

    fn product(&mut self, x: Value, z: Value) -> Value {
        let split = |value| match value {
            Value::Scaled(tile, factor) => (tile, Some(factor)),
            Value::Tile(tile) | Value::Vector(tile) => (tile, None),
        };
        let ((a, first), (b, second)) = (split(x), split(z));
        let out = self.tile();
        self.program.steps.push(LossStep::Product {
            out,
            a,
            b,
            sum: None,
        });
        match (first, second) {
            (Some(first), Some(second)) => {
                let both = self.vector_binary(Binary::Mul, first, second, false);
                Value::Scaled(out, both)
            }
            (Some(factor), None) | (None, Some(factor)) => Value::Scaled(out, factor),
            (None, None) => Value::Tile(out),
        }
    }

    fn select(&mut self, node: FormulaNode, scalar: bool) -> Value {
        let operands: Vec<Value> = node.operands().map(|id| self.value(id)).collect();
        let [c, a, b] = [operands[0], operands[1], operands[2]];
        if let (Value::Vector(c), Value::Vector(a), Value::Vector(b)) = (c, a, b) {
            let out = self.vector();
            let operands = [c, a, b];
            self.push(LossStep::VectorSelect { out, operands }, scalar);
            return Value::Vector(out);
        }
        let operands = [c, a, b].map(|value| self.as_tile(value));
        let out = self.tile();
        self.program.steps.push(LossStep::Select { out, operands });
        Value::Tile(out)
    }

    fn as_operand(&mut self, value: Value) -> TileOperand {
        match value {
            Value::Vector(vector) => TileOperand::Vector(vector),
            value => TileOperand::Tile(self.as_tile(value)),
        }
    }

    /// Returns `value` as a tile: multiplies by a recorded factor, and broadcasts a vector.
    fn as_tile(&mut self, value: Value) -> TileIndex {
        let (tile, factor) = match value {
            Value::Tile(tile) => return tile,
            Value::Scaled(tile, factor) => (tile, factor),
            Value::Vector(x) => {
                if let Some(&known) = self.known.broadcasts.get(&x) {
                    return known;
                }
                let out = self.tile();
                self.program.steps.push(LossStep::Broadcast { out, x });
                self.known.broadcasts.insert(x, out);
                return out;
            }
        };
        if let Some(&known) = self.known.materialized.get(&(tile, factor)) {
            return known;
        }
        let out = self.tile();
        self.program.steps.push(LossStep::Binary {
            op: Binary::Mul,
            out,
            a: TileOperand::Tile(tile),
            b: TileOperand::Vector(factor),
        });
        self.known.materialized.insert((tile, factor), out);
        out
    }

    fn finish(mut self) -> LossProgram {
        let row = |value| match value {
            Value::Vector(vector) => vector,
            // The derivation reduces values per negative before it combines them with values per row.
            Value::Tile(_) | Value::Scaled(..) => POSITIVE,
        };
        let of = |id: NodeId| self.values[id as usize];
        let derived = self.derived;
        self.program.loss = row(of(derived.loss));
        self.program.positive = row(of(derived.positive));
        self.program.negative = match of(derived.negative) {
            Value::Vector(vector) => NegativeGradient::Vector(vector),
            Value::Tile(tile) => NegativeGradient::Tile(tile),
            Value::Scaled(tile, factor) => NegativeGradient::Scaled(tile, factor),
        };
        self.program.drop_unused();
        self.program.assign_buffers();
        self.program
    }
}
