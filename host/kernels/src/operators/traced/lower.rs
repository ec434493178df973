//! From the nodes of an expression to steps. A product that is used once, by a sum, is computed with it.

use pbg_core::loss::node::{Binary, Node, NodeId, Shape};
use pbg_core::operator::Expression;

use super::program::{Operand, Output, Program, Sign, Step, Target, Work};

impl Program {
    /// Lowers an expression whose first outputs are of so many `components`, the others of parameters.
    pub(super) fn new(expression: &Expression, components: usize) -> Self {
        let mut lowering = Lowering::new(expression, components);
        for id in 0..expression.nodes.len() {
            let value = lowering.lower(id as NodeId);
            lowering.values.push(value);
        }
        let outputs = lowering.outputs();
        let (components, parameters) = outputs.split_at(components);
        let mut program = lowering.program;
        (program.components, program.parameters) = (components.to_vec(), parameters.to_vec());
        program.share_places();
        program
    }
}

/// What a node became.
#[derive(Clone, Copy)]
enum Value {
    Known(Operand),
    /// A product that waits for its only user.
    Product([Operand; 2]),
    /// It is where the program's output is.
    Written,
}

struct Lowering<'a> {
    expression: &'a Expression,
    components: usize,
    /// How many nodes and outputs use each node.
    uses: Vec<u32>,
    values: Vec<Value>,
    program: Program,
}

impl<'a> Lowering<'a> {
    fn new(expression: &'a Expression, components: usize) -> Self {
        let mut uses = vec![0; expression.nodes.len()];
        let operands = expression.nodes.iter().flat_map(|node| node.operands());
        let outputs = expression.outputs.iter().copied().flatten();
        operands
            .chain(outputs)
            .for_each(|id| uses[id as usize] += 1);
        Self {
            expression,
            components,
            uses,
            values: Vec::with_capacity(expression.nodes.len()),
            program: Program {
                constants: Vec::new(),
                prologue: Vec::new(),
                steps: Vec::new(),
                components: Vec::new(),
                parameters: Vec::new(),
                shared: 0,
                places: 0,
            },
        }
    }

    fn node(&self, id: NodeId) -> Node {
        self.expression.nodes[id as usize]
    }

    /// Whether a node depends on parameters alone.
    fn is_shared(&self, id: NodeId) -> bool {
        self.expression.shapes[id as usize] == Shape::Scalar
    }

    fn lower(&mut self, id: NodeId) -> Value {
        let known = match self.node(id) {
            Node::Component(index) => Operand::Component(index as usize),
            Node::Gradient(index) => Operand::Gradient(index as usize),
            Node::Parameter(index) => Operand::Parameter(index as usize),
            Node::Constant(value) => self.constant(value),
            Node::Unary(op, x) => {
                let x = self.operand(x);
                return self.step(id, Work::Unary(op, x));
            }
            Node::Binary(Binary::Mul, a, b) if self.waits(id) => {
                return Value::Product([self.operand(a), self.operand(b)]);
            }
            Node::Binary(op, a, b) => {
                let work = self.binary(op, a, b);
                return self.step(id, work);
            }
            Node::Select(c, a, b) => {
                let operands = [c, a, b].map(|id| self.operand(id));
                return self.step(id, Work::Select(operands));
            }
            // Derivation writes limits as maxima and minima; a checked operator has none of the others.
            Node::Clamp(..)
            | Node::Positive
            | Node::Negative
            | Node::Columns
            | Node::Reduce(..)
            | Node::Softmax(_) => self.constant(f32::NAN),
        };
        Value::Known(known)
    }

    fn constant(&mut self, value: f32) -> Operand {
        self.program.constants.push(value);
        Operand::Constant(self.program.constants.len() - 1)
    }

    /// Whether a product is left to its only user: a sum, or what adds up the gradient of a parameter.
    fn waits(&self, id: NodeId) -> bool {
        if self.uses[id as usize] != 1 || self.is_shared(id) {
            return false;
        }
        let sums = |node: &Node| matches!(node, Node::Binary(Binary::Add | Binary::Sub, a, b) if *a == id || *b == id);
        let parameters = &self.expression.outputs[self.components..];
        self.expression.nodes.iter().any(sums) || parameters.contains(&Some(id))
    }

    fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> Work {
        let (x, z) = (self.values[a as usize], self.values[b as usize]);
        let subtract = op == Binary::Sub;
        match (x, z) {
            (Value::Product(first), Value::Product(second)) => Work::Products {
                subtract,
                first,
                second,
            },
            (Value::Product(factors), _) => {
                let sign = if subtract { Sign::Reversed } else { Sign::Plus };
                Work::MultiplyAdd(sign, factors, self.operand(b))
            }
            (_, Value::Product(factors)) => {
                let sign = if subtract { Sign::Minus } else { Sign::Plus };
                Work::MultiplyAdd(sign, factors, self.operand(a))
            }
            _ => Work::Binary(op, [self.operand(a), self.operand(b)]),
        }
    }

    /// What another step reads of a node, which has been computed.
    fn operand(&self, id: NodeId) -> Operand {
        match self.values[id as usize] {
            Value::Known(operand) => operand,
            // Those are read by nobody but those who look for them.
            Value::Product([a, _]) => a,
            Value::Written => Operand::Component(0),
        }
    }

    fn step(&mut self, id: NodeId, work: Work) -> Value {
        let program = &mut self.program;
        if self.expression.shapes[id as usize] == Shape::Scalar {
            let place = program.shared;
            program.shared += 1;
            let out = Target::Shared(place);
            program.prologue.push(Step { out, work });
            return Value::Known(Operand::Shared(place));
        }
        let outputs = &self.expression.outputs[..self.components];
        let output = outputs.iter().position(|output| *output == Some(id));
        if let Some(index) = output.filter(|_| self.uses[id as usize] == 1) {
            let out = Target::Output(index);
            program.steps.push(Step { out, work });
            return Value::Written;
        }
        let place = program.places;
        program.places += 1;
        let out = Target::Place(place);
        program.steps.push(Step { out, work });
        Value::Known(Operand::Place(place))
    }

    fn outputs(&self) -> Vec<Output> {
        let output = |output: &Option<NodeId>| match output.map(|id| self.values[id as usize]) {
            None => Output::Zero,
            Some(Value::Written) => Output::Written,
            Some(Value::Known(operand)) => Output::Value(operand),
            Some(Value::Product(factors)) => Output::Product(factors),
        };
        self.expression.outputs.iter().map(output).collect()
    }
}
