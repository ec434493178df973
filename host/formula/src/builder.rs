//! Builder of node lists that contain no node twice: it shares common subexpressions, folds constants, and drops
//! operations without effect.

use std::collections::HashMap;

use super::node::{Binary, FormulaNode, NodeId, Reduction, Unary, ValueShape};

/// Returns the value of a node whose operands are all constants, computed in f64 and rounded once.
pub(crate) fn fold(node: FormulaNode, constant: impl Fn(NodeId) -> Option<f32>) -> Option<f32> {
    let wide = |id| constant(id).map(f64::from);
    let value = match node {
        FormulaNode::Constant(value) => return Some(value),
        FormulaNode::Unary(op, x) => op.apply(wide(x)?),
        FormulaNode::Binary(op, a, b) => op.apply(wide(a)?, wide(b)?),
        FormulaNode::Select(condition, then, otherwise) => {
            let (condition, then, otherwise) = (wide(condition)?, wide(then)?, wide(otherwise)?);
            if condition == 0.0 { otherwise } else { then }
        }
        FormulaNode::Clamp(x, low, high) => {
            Binary::Min.apply(Binary::Max.apply(wide(x)?, wide(low)?), wide(high)?)
        }
        _ => return None,
    };
    Some(value as f32)
}

/// Growing list of distinct nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeBuilder {
    pub(crate) nodes: Vec<FormulaNode>,
    pub(crate) shapes: Vec<ValueShape>,
    known: HashMap<[u32; 5], NodeId>,
}

impl NodeBuilder {
    pub(crate) fn shape(&self, id: NodeId) -> ValueShape {
        self.shapes[id as usize]
    }

    pub(crate) fn constant(&mut self, value: f32) -> NodeId {
        self.push(FormulaNode::Constant(value))
    }

    pub(crate) fn unary(&mut self, op: Unary, x: NodeId) -> NodeId {
        self.push(FormulaNode::Unary(op, x))
    }

    pub(crate) fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.push(FormulaNode::Binary(op, a, b))
    }

    pub(crate) fn sum(&mut self, x: NodeId) -> NodeId {
        self.push(FormulaNode::Reduce(Reduction::Sum, x))
    }

    /// Returns the number of columns, or 1 if there are none: the divisor of a mean.
    pub(crate) fn columns(&mut self) -> NodeId {
        let (columns, one) = (self.push(FormulaNode::Columns), self.constant(1.0));
        self.binary(Binary::Max, columns, one)
    }

    fn value(&self, id: NodeId) -> Option<f32> {
        match self.nodes[id as usize] {
            FormulaNode::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the operand of a negation.
    fn negated(&self, id: NodeId) -> Option<NodeId> {
        match self.nodes[id as usize] {
            FormulaNode::Unary(Unary::Neg, x) => Some(x),
            _ => None,
        }
    }

    /// Returns the node with the value of `node`, which is appended if it is new.
    pub(crate) fn push(&mut self, node: FormulaNode) -> NodeId {
        if let Some(value) = fold(node, |id| self.value(id)) {
            return self.intern(FormulaNode::Constant(value));
        }
        match node {
            FormulaNode::Unary(Unary::Neg, x) => match self.negated(x) {
                Some(x) => x,
                None => self.intern(node),
            },
            FormulaNode::Unary(Unary::StopGradient, x) => x,
            FormulaNode::Binary(op, a, b) => self.simplify(op, a, b),
            FormulaNode::Clamp(x, low, high) => {
                let above = self.binary(Binary::Max, x, low);
                self.binary(Binary::Min, above, high)
            }
            FormulaNode::Reduce(Reduction::Mean, x) => {
                let columns = self.columns();
                let sum = self.sum(x);
                self.binary(Binary::Div, sum, columns)
            }
            _ => self.intern(node),
        }
    }

    /// Applies simplifications that preserve the values of finite numbers, bit for bit, and the shape.
    fn simplify(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        let is = |id: NodeId, value: f32| self.value(id) == Some(value);
        match op {
            Binary::Add | Binary::Sub if is(b, 0.0) => return a,
            Binary::Add if is(a, 0.0) => return b,
            Binary::Sub if is(a, 0.0) => return self.unary(Unary::Neg, b),
            Binary::Mul | Binary::Div | Binary::Pow if is(b, 1.0) => return a,
            Binary::Mul if is(a, 1.0) => return b,
            Binary::Mul if is(b, -1.0) => return self.unary(Unary::Neg, a),
            Binary::Mul if is(a, -1.0) => return self.unary(Unary::Neg, b),
            Binary::Pow if is(b, 2.0) => return self.binary(Binary::Mul, a, a),
            Binary::Pow if is(b, 0.5) => return self.unary(Unary::Sqrt, a),
            _ => {}
        }
        match (op, self.negated(a), self.negated(b)) {
            (Binary::Add, None, Some(b)) => return self.binary(Binary::Sub, a, b),
            (Binary::Add, Some(a), None) => return self.binary(Binary::Sub, b, a),
            (Binary::Sub, _, Some(b)) => return self.binary(Binary::Add, a, b),
            (Binary::Mul | Binary::Div, Some(a), Some(b)) => return self.binary(op, a, b),
            _ => {}
        }
        let swapped = matches!(op, Binary::Add | Binary::Mul) && a > b;
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        self.intern(FormulaNode::Binary(op, a, b))
    }

    fn intern(&mut self, node: FormulaNode) -> NodeId {
        let key = key(node);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = self.nodes.len() as NodeId;
        let shape = node.shape(|operand| self.shape(operand));
        self.nodes.push(node);
        self.shapes.push(shape);
        self.known.insert(key, id);
        id
    }
}

/// Returns a key that is equal for equal nodes, where constants are compared by their bits.
fn key(node: FormulaNode) -> [u32; 5] {
    match node {
        FormulaNode::Positive => [0; 5],
        FormulaNode::Negative => [1, 0, 0, 0, 0],
        FormulaNode::Columns => [2, 0, 0, 0, 0],
        FormulaNode::Constant(value) => [3, 0, value.to_bits(), 0, 0],
        FormulaNode::Parameter(index) => [4, 0, index, 0, 0],
        FormulaNode::Unary(op, x) => [5, op as u32, x, 0, 0],
        FormulaNode::Binary(op, a, b) => [6, op as u32, a, b, 0],
        FormulaNode::Select(a, b, c) => [7, 0, a, b, c],
        FormulaNode::Clamp(a, b, c) => [8, 0, a, b, c],
        FormulaNode::Reduce(op, x) => [9, op as u32, x, 0, 0],
        FormulaNode::Softmax(x) => [10, 0, x, 0, 0],
        FormulaNode::Component(index) => [11, 0, index, 0, 0],
        FormulaNode::Gradient(index) => [12, 0, index, 0, 0],
        FormulaNode::Sum(x) => [13, 0, x, 0, 0],
    }
}
