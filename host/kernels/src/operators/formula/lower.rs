//! Lowering of an expression's nodes to steps. A product whose only use is a sum is computed together with it.

use pbg_formula::node::{Binary, FormulaNode, NodeId, ValueShape};
use pbg_formula::operator::Expression;

use super::program::{
    OperatorProgram, OperatorStep, Output, RowOperand, RowOperation, Sign, StepTarget,
};
use super::shortcuts::{Shortcut, Shortcuts};

impl OperatorProgram {
    /// Lowers an expression. Its first `components` outputs belong to components, the others to parameters.
    pub(super) fn new(expression: &Expression, components: usize) -> Self {
        Self::lowered(Lowering::new(expression, components), components)
    }

    /// Lowers an expression of a comparator, all of whose outputs are read in place. It has fewer loops than
    /// [`OperatorProgram::new`] makes: signs, sums of functions and negated outputs take none of their own, and numbers
    /// that further numbers alone follow from are not repeated for each element.
    pub(super) fn of_pairs(expression: &Expression) -> Self {
        let mut lowering = Lowering::new(expression, 0);
        lowering.shortcuts = Shortcuts::of(expression, &lowering.uses, &lowering.uniform);
        Self::lowered(lowering, 0)
    }

    fn lowered(mut lowering: Lowering<'_>, components: usize) -> Self {
        let expression = lowering.expression;
        for id in 0..expression.nodes.len() {
            let value = lowering.lower(id as NodeId);
            lowering.values.push(value);
        }
        let outputs = lowering.outputs();
        let (components, parameters) = outputs.split_at(components);
        let mut program = lowering.program;
        (program.components, program.parameters) = (components.to_vec(), parameters.to_vec());
        program.assign_buffers();
        program
    }
}

/// Result of lowering a node.
#[derive(Clone, Copy)]
enum Value {
    Known(RowOperand),
    /// A product that is computed together with its only use.
    Product([RowOperand; 2]),
    /// The negation of a value, which is an output.
    Negated(RowOperand),
    /// A value that its only user computes.
    Absorbed,
    /// A step has written the value directly to the program's output.
    Written,
}

/// Returns whether each node has the same number in all elements of a row.
fn uniform(expression: &Expression) -> Vec<bool> {
    let mut uniform = Vec::with_capacity(expression.nodes.len());
    for &node in &expression.nodes {
        uniform.push(match node {
            FormulaNode::Constant(_) | FormulaNode::Sum(_) => true,
            FormulaNode::Component(_) | FormulaNode::Gradient(_) | FormulaNode::Parameter(_) => {
                false
            }
            _ => node.operands().all(|operand| uniform[operand as usize]),
        });
    }
    uniform
}

struct Lowering<'a> {
    expression: &'a Expression,
    components: usize,
    /// Number of nodes and outputs that use each node.
    uses: Vec<u32>,
    /// Whether each node has the same number in all elements of a row: constants, sums, and values computed from them.
    uniform: Vec<bool>,
    values: Vec<Value>,
    program: OperatorProgram,
    shortcuts: Shortcuts,
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
            uniform: uniform(expression),
            values: Vec::with_capacity(expression.nodes.len()),
            program: OperatorProgram::default(),
            shortcuts: Shortcuts::default(),
        }
    }

    fn node(&self, id: NodeId) -> FormulaNode {
        self.expression.nodes[id as usize]
    }

    /// Returns whether a node depends on parameters alone.
    fn is_shared(&self, id: NodeId) -> bool {
        self.expression.shapes[id as usize] == ValueShape::Scalar
    }

    fn lower(&mut self, id: NodeId) -> Value {
        if let Some(value) = self.shortcut(id) {
            return value;
        }
        let known = match self.node(id) {
            FormulaNode::Component(index) => RowOperand::Component(index as usize),
            FormulaNode::Gradient(index) => RowOperand::Gradient(index as usize),
            FormulaNode::Parameter(index) => RowOperand::Parameter(index as usize),
            FormulaNode::Constant(value) => self.constant(value),
            FormulaNode::Unary(op, x) => {
                let x = self.operand(x);
                return self.step(id, RowOperation::Unary(op, x));
            }
            FormulaNode::Binary(Binary::Mul, a, b) if self.is_fused(id) => {
                return Value::Product([self.operand(a), self.operand(b)]);
            }
            FormulaNode::Binary(op, a, b) => {
                let work = self.binary(op, a, b);
                return self.step(id, work);
            }
            FormulaNode::Select(c, a, b) => {
                let operands = [c, a, b].map(|id| self.operand(id));
                return self.step(id, RowOperation::Select(operands));
            }
            FormulaNode::Sum(x) => {
                let work = match self.values[x as usize] {
                    Value::Product(factors) => RowOperation::Dot(factors),
                    _ => RowOperation::Sum(self.operand(x)),
                };
                return self.step(id, work);
            }
            // The derivation expresses limits as maxima and minima; a checked operator has none of the other nodes.
            FormulaNode::Clamp(..)
            | FormulaNode::Positive
            | FormulaNode::Negative
            | FormulaNode::Columns
            | FormulaNode::Reduce(..)
            | FormulaNode::Softmax(_) => self.constant(f32::NAN),
        };
        Value::Known(known)
    }

    /// Lowers a node that has a shortcut.
    fn shortcut(&mut self, id: NodeId) -> Option<Value> {
        match self.shortcuts.of_node(id)? {
            // Another node computes it.
            Shortcut::Absorbed => Some(Value::Absorbed),
            Shortcut::Sign(x) => {
                let x = self.operand(x);
                Some(self.step(id, RowOperation::Sign(x)))
            }
            Shortcut::SumOf(op, x) => {
                let x = self.operand(x);
                Some(self.step(id, RowOperation::SumOf(op, x)))
            }
            Shortcut::Negated(x) => Some(Value::Negated(self.operand(x))),
        }
    }

    fn constant(&mut self, value: f32) -> RowOperand {
        self.program.constants.push(value);
        RowOperand::Constant(self.program.constants.len() - 1)
    }

    /// Returns whether a product is computed together with its only use: an addition, a sum over the row, or the
    /// accumulation of a parameter's gradient.
    fn is_fused(&self, id: NodeId) -> bool {
        if self.uses[id as usize] != 1 || self.is_shared(id) {
            return false;
        }
        let sums = |node: &FormulaNode| match *node {
            FormulaNode::Binary(Binary::Add | Binary::Sub, a, b) => a == id || b == id,
            FormulaNode::Sum(x) => x == id,
            _ => false,
        };
        let parameters = &self.expression.outputs[self.components..];
        self.expression.nodes.iter().any(sums) || parameters.contains(&Some(id))
    }

    fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> RowOperation {
        let (x, z) = (self.values[a as usize], self.values[b as usize]);
        let subtract = op == Binary::Sub;
        match (x, z) {
            (Value::Product(first), Value::Product(second)) => RowOperation::Products {
                subtract,
                first,
                second,
            },
            (Value::Product(factors), _) => {
                let sign = if subtract { Sign::Reversed } else { Sign::Plus };
                RowOperation::MultiplyAdd(sign, factors, self.operand(b))
            }
            (_, Value::Product(factors)) => {
                let sign = if subtract { Sign::Minus } else { Sign::Plus };
                RowOperation::MultiplyAdd(sign, factors, self.operand(a))
            }
            _ => RowOperation::Binary(op, [self.operand(a), self.operand(b)]),
        }
    }

    /// Returns the operand through which another step reads a node that was lowered before.
    fn operand(&self, id: NodeId) -> RowOperand {
        match self.values[id as usize] {
            Value::Known(operand) => operand,
            // The others have a single use, which never reads them through this function.
            Value::Product([a, _]) => a,
            Value::Negated(x) => x,
            Value::Absorbed | Value::Written => RowOperand::Component(0),
        }
    }

    fn step(&mut self, id: NodeId, work: RowOperation) -> Value {
        let uniform = self.uniform[id as usize] && !matches!(self.node(id), FormulaNode::Sum(_));
        let narrow = self.shortcuts.is_narrow(id);
        let program = &mut self.program;
        if self.expression.shapes[id as usize] == ValueShape::Scalar {
            let place = program.shared;
            program.shared += 1;
            let out = StepTarget::Shared(place);
            program.prologue.push(OperatorStep {
                out,
                work,
                uniform,
                narrow: false,
            });
            return Value::Known(RowOperand::Shared(place));
        }
        let outputs = &self.expression.outputs[..self.components];
        let output = outputs.iter().position(|output| *output == Some(id));
        if let Some(index) = output.filter(|_| self.uses[id as usize] == 1) {
            let out = StepTarget::Output(index);
            program.steps.push(OperatorStep {
                out,
                work,
                uniform,
                narrow,
            });
            return Value::Written;
        }
        let place = program.places;
        program.places += 1;
        let out = StepTarget::Place(place);
        program.steps.push(OperatorStep {
            out,
            work,
            uniform,
            narrow,
        });
        Value::Known(RowOperand::Buffer(place))
    }

    fn outputs(&self) -> Vec<Output> {
        let output = |output: &Option<NodeId>| match output.map(|id| self.values[id as usize]) {
            None => Output::Zero,
            Some(Value::Written) => Output::Written,
            // A value that another node computes is no output.
            Some(Value::Absorbed) => Output::Zero,
            Some(Value::Negated(operand)) => Output::Negated(operand),
            Some(Value::Known(operand)) => Output::Value(operand),
            Some(Value::Product(factors)) => Output::Product(factors),
        };
        self.expression.outputs.iter().map(output).collect()
    }
}
