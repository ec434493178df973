//! Source of the CUDA kernel of a traced loss: every node of its graph becomes a statement of C.
//!
//! A row of scores is computed by one warp, or by one block if it is long. It stays in registers from the first
//! statement to the last, unless the row or the loss is very long. A value that a node has once per row is a variable.
//! A value per negative is computed again wherever it is needed, so that nothing has to be stored for it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pbg_formula::loss::DerivedLoss;
use pbg_formula::node::{Binary, FormulaNode, NodeId, Reduction, Unary, ValueShape};

/// Division of a row among threads. One kernel serves all rows with the same division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowLayout {
    /// Warps per row: 1, 8 or 32.
    pub(super) warps: u32,
    /// Columns of the row per thread, a power of two; `None` if they are too many for registers.
    in_registers: Option<u32>,
}

/// Largest number of columns that a thread keeps in registers.
const MOST_IN_REGISTERS: u32 = 32;
/// Largest number of values per negative that a kernel computes for columns in registers: the compiler unrolls the code
/// for every column.
const MOST_VALUES: usize = 32;

impl RowLayout {
    /// Returns the division of rows with `columns` negatives.
    pub(super) fn of(columns: i64) -> Self {
        let columns = u32::try_from(columns).unwrap_or(u32::MAX);
        let cut = [1, 8, 32].into_iter().find_map(|warps| {
            let each = columns.div_ceil(32 * warps).max(1).next_power_of_two();
            (each <= MOST_IN_REGISTERS).then_some((warps, each))
        });
        let (warps, in_registers) = cut.map_or((32, None), |(warps, each)| (warps, Some(each)));
        Self {
            warps,
            in_registers,
        }
    }
}

/// Returns whether a loss is short enough to be unrolled for every column of a thread.
fn is_short(derived: &DerivedLoss) -> bool {
    let mut written = LossWriter::new(derived);
    written.all();
    let is_long = |node: &FormulaNode| {
        matches!(
            node,
            FormulaNode::Unary(Unary::Sin | Unary::Cos, _) | FormulaNode::Binary(Binary::Pow, ..)
        )
    };
    written.values <= MOST_VALUES && !derived.nodes.iter().any(is_long)
}

/// Returns the source of a loss's kernel. A long loss does not keep its rows in registers.
pub(super) fn source(derived: &DerivedLoss, cut: RowLayout) -> String {
    let in_registers = cut.in_registers.filter(|_| is_short(derived));
    let [statements, gradients] = LossWriter::new(derived).all();
    let parameters = (0..derived.parameters).fold(String::new(), |mut text, index| {
        let _infallible = write!(text, ", float parameter_{index}");
        text
    });
    include_str!("loss.cu")
        .replace("STATEMENTS", &statements)
        .replace("GRADIENTS", &gradients)
        .replace("NEGATIVE", &value(derived, derived.negative))
        .replace("POSITIVE", &value(derived, derived.positive))
        .replace("LOSS", &value(derived, derived.loss))
        .replace(" PARAMETERS", &parameters)
        .replace("IN_REGISTERS", &in_registers.unwrap_or(0).to_string())
        .replace("WARPS", &cut.warps.to_string())
}

struct LossWriter<'a> {
    derived: &'a DerivedLoss,
    text: String,
    /// Nodes whose maximum over a row has been written.
    extremes: BTreeSet<NodeId>,
    exponentials: BTreeSet<NodeId>,
    /// Computations of values per negative written so far.
    values: usize,
}

/// Returns the name of a node's variable.
fn value(derived: &DerivedLoss, id: NodeId) -> String {
    match derived.shape(id) {
        ValueShape::Matrix => format!("e{id}"),
        ValueShape::Scalar | ValueShape::Row => format!("v{id}"),
    }
}

impl<'a> LossWriter<'a> {
    fn new(derived: &'a DerivedLoss) -> Self {
        Self {
            derived,
            text: String::new(),
            extremes: BTreeSet::new(),
            exponentials: BTreeSet::new(),
            values: 0,
        }
    }

    /// Writes the statements of a row and those of the gradient of a negative.
    fn all(&mut self) -> [String; 2] {
        for id in 0..self.derived.nodes.len() as NodeId {
            self.statement(id);
        }
        let statements = std::mem::take(&mut self.text);
        self.elements(self.derived.negative);
        [statements, std::mem::take(&mut self.text)]
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn value(&self, id: NodeId) -> String {
        value(self.derived, id)
    }

    /// Writes the statement for a node with one value per row.
    fn statement(&mut self, id: NodeId) {
        let node = self.derived.nodes[id as usize];
        match node {
            FormulaNode::Softmax(x) => self.exponentials(x),
            FormulaNode::Reduce(op, x) => self.reduction(op, x, &format!("v{id}")),
            _ if self.derived.shape(id) == ValueShape::Matrix => {}
            _ => {
                let line = format!("float v{id} = {};", self.expression(node));
                self.line(&line);
            }
        }
    }

    fn reduction(&mut self, op: Reduction, x: NodeId, name: &str) {
        let of = self.value(x);
        match op {
            Reduction::Sum => self.sum(x, &of, name),
            Reduction::Mean => {
                self.sum(x, &of, &format!("{name}_sum"));
                self.line(&format!(
                    "float {name} = {name}_sum / (columns > 0 ? (float)columns : 1.0f);"
                ));
            }
            Reduction::Max => {
                self.extreme(x);
                self.line(&format!("float {name} = most{x};"));
            }
            Reduction::LogSumExp => {
                self.exponentials(x);
                self.line(&format!("float {name} = base{x} + logf(sum{x});"));
            }
        }
    }

    /// Writes the maximum of the unmasked values of `x`.
    fn extreme(&mut self, x: NodeId) {
        if self.extremes.insert(x) {
            self.line(&format!("float most{x} = -INFINITE;"));
            self.line("EACH {");
            self.elements(x);
            let of = self.value(x);
            self.line(&format!(
                "if (present) most{x} = larger(most{x}, {of});\n}}"
            ));
            self.line(&format!("most{x} = max_of_row(most{x});"));
        }
    }

    /// Writes the sum of `e^x` over the unmasked values of `x`, relative to the maximum.
    fn exponentials(&mut self, x: NodeId) {
        if self.exponentials.insert(x) {
            self.extreme(x);
            // If all are masked, or one is infinite.
            self.line(&format!(
                "float base{x} = fabsf(most{x}) == INFINITE ? 0.0f : most{x};"
            ));
            let of = format!("expf({} - base{x})", self.value(x));
            self.sum(x, &of, &format!("sum{x}"));
        }
    }

    /// Writes the sum of the expression `of` over the unmasked values of `x`.
    fn sum(&mut self, x: NodeId, of: &str, name: &str) {
        self.line(&format!("float {name} = 0.0f;"));
        self.line("EACH {");
        self.elements(x);
        self.line(&format!("if (present) {name} += {of};\n}}"));
        self.line(&format!("{name} = sum_of_row({name});"));
    }

    /// Writes the statements that compute the value of `x` for one negative.
    fn elements(&mut self, x: NodeId) {
        let mut needed = vec![false; self.derived.nodes.len()];
        let mut open = vec![x];
        while let Some(id) = open.pop() {
            if self.derived.shape(id) == ValueShape::Matrix && !needed[id as usize] {
                needed[id as usize] = true;
                open.extend(self.derived.nodes[id as usize].operands());
            }
        }
        for id in (0..needed.len() as NodeId).filter(|id| needed[*id as usize]) {
            let node = self.derived.nodes[id as usize];
            let line = match node {
                FormulaNode::Negative => format!("float e{id} = score;"),
                FormulaNode::Softmax(x) => {
                    let of = self.value(x);
                    format!("float e{id} = present ? expf({of} - base{x}) / sum{x} : 0.0f;")
                }
                _ => format!("float e{id} = {};", self.expression(node)),
            };
            self.values += 1;
            self.line(&line);
        }
    }

    fn expression(&self, node: FormulaNode) -> String {
        let of = |id: NodeId| self.value(id);
        match node {
            FormulaNode::Positive => "positive".to_owned(),
            FormulaNode::Columns => "(float)columns".to_owned(),
            FormulaNode::Constant(number) => number_of(number),
            FormulaNode::Parameter(index) => format!("parameter_{index}"),
            FormulaNode::Unary(op, x) => unary(op, &of(x)),
            FormulaNode::Binary(op, a, b) => binary(op, &of(a), &of(b)),
            FormulaNode::Select(condition, then, otherwise) => {
                format!(
                    "{} != 0.0f ? {} : {}",
                    of(condition),
                    of(then),
                    of(otherwise)
                )
            }
            FormulaNode::Clamp(x, low, high) => {
                format!("smaller(larger({}, {}), {})", of(x), of(low), of(high))
            }
            // These have their own statements; a checked loss has no other nodes.
            FormulaNode::Negative
            | FormulaNode::Reduce(..)
            | FormulaNode::Softmax(_)
            | FormulaNode::Component(_)
            | FormulaNode::Sum(_)
            | FormulaNode::Gradient(_) => "NOT_A_NUMBER".to_owned(),
        }
    }
}

/// Writes a number by its bits, so that none are lost.
fn number_of(number: f32) -> String {
    format!("__int_as_float({})", number.to_bits().cast_signed())
}

fn unary(op: Unary, x: &str) -> String {
    match op {
        Unary::Neg => format!("-{x}"),
        Unary::Abs => format!("fabsf({x})"),
        Unary::Exp => format!("expf({x})"),
        Unary::Log => format!("logf({x})"),
        Unary::Sqrt => format!("sqrtf({x})"),
        Unary::Sigmoid => format!("sigmoid({x})"),
        Unary::Softplus => format!("softplus({x})"),
        Unary::Relu => format!("relu({x})"),
        Unary::StopGradient => x.to_owned(),
        Unary::Sin => format!("sinf({x})"),
        Unary::Cos => format!("cosf({x})"),
    }
}

fn binary(op: Binary, a: &str, b: &str) -> String {
    let sign = match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::Pow => return format!("powf({a}, {b})"),
        Binary::Min => return format!("smaller({a}, {b})"),
        Binary::Max => return format!("larger({a}, {b})"),
        Binary::Less => "<",
        Binary::LessEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterEqual => ">=",
        Binary::Equal => "==",
        Binary::NotEqual => "!=",
    };
    format!("(float)({a} {sign} {b})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_formula::loss::LossDefinition;

    fn derived(nodes: &[FormulaNode]) -> DerivedLoss {
        let definition = LossDefinition {
            nodes: nodes.to_vec(),
            output: nodes.len() as u32 - 1,
            ..LossDefinition::default()
        };
        DerivedLoss::of(&definition.check(1000).expect("a valid graph"))
    }

    fn softmax() -> DerivedLoss {
        derived(&crate::fused::tests::softmax())
    }

    #[test]
    fn a_row_is_a_warps_or_a_blocks_and_in_registers_where_it_fits() {
        let cut = |columns| {
            let RowLayout {
                warps,
                in_registers,
            } = RowLayout::of(columns);
            (warps, in_registers)
        };
        assert_eq!(cut(0), (1, Some(1)));
        assert_eq!(cut(1000), (1, Some(32)));
        assert_eq!(cut(1025), (8, Some(8)));
        assert_eq!(cut(14_541), (32, Some(16)));
        assert_eq!(cut(1 << 20), (32, None));
        // The compiler would take minutes to unroll it.
        let long = derived(&[
            FormulaNode::Positive,
            FormulaNode::Negative,
            FormulaNode::Binary(Binary::Pow, 1, 0),
            FormulaNode::Reduce(Reduction::Sum, 2),
        ]);
        let cut = RowLayout::of(1000);
        assert!(source(&long, cut).contains("#if 0 > 0"));
        assert!(source(&softmax(), cut).contains("#if 32 > 0"));
    }

    #[test]
    fn the_sum_of_exponentials_is_computed_once() {
        let derived = softmax();
        let source = source(&derived, RowLayout::of(1000));
        let count = |part: &str| source.matches(part).count();
        // Once for the loss, and once more for the gradient of each negative.
        assert_eq!(count("expf(e1 - base1)"), 2, "{source}");
        assert_eq!(count("max_of_row(most1)"), 1, "{source}");
        for placeholder in [
            "STATEMENTS",
            "GRADIENTS",
            "PARAMETERS",
            "POSITIVE",
            "NEGATIVE",
        ] {
            assert!(!source.contains(placeholder), "{placeholder}: {source}");
        }
    }
}
