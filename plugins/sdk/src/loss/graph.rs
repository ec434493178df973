//! Formula of a loss as a graph of nodes.

/// Functions of one value.
///
/// ```
/// use pbg_plugin_sdk::loss::Unary;
/// assert_ne!(Unary::Softplus, Unary::Sigmoid);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "described where formulas use them")]
pub enum Unary {
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Sigmoid,
    Softplus,
    Relu,
    StopGradient,
}

/// Functions of two values; comparisons return 1 or 0.
///
/// ```
/// use pbg_plugin_sdk::loss::Binary;
/// assert_ne!(Binary::Less, Binary::LessEqual);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "described where formulas use them")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

/// Reduction over the negatives of a row.
///
/// ```
/// use pbg_plugin_sdk::loss::Reduction;
/// assert_ne!(Reduction::Sum, Reduction::Mean);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "described where formulas use them")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    LogSumExp,
}

/// Node of a formula; operands are indices of earlier nodes.
///
/// ```
/// use pbg_plugin_sdk::loss::{Node, formula::graph};
/// let graph = graph(|s| s.positive() * 2.0);
/// assert_eq!(graph.nodes[0], Node::Positive);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// Scores of the positives.
    Positive,
    /// Scores of the negatives.
    Negative,
    /// Number of negatives per positive, including masked ones.
    Columns,
    /// A number.
    Constant(f32),
    /// Index of a parameter.
    Parameter(u32),
    /// A function of one value.
    Unary(Unary, u32),
    /// A function of two values.
    Binary(Binary, u32, u32),
    /// Condition, value where the condition is not 0, value elsewhere.
    Select(u32, u32, u32),
    /// Value, lower bound, upper bound.
    Clamp(u32, u32, u32),
    /// Reduction over the negatives.
    Reduce(Reduction, u32),
    /// `e^x` divided by the row's sum of `e^x`.
    Softmax(u32),
}

impl Node {
    /// Returns the operands of this node.
    pub(super) fn operands(self) -> impl Iterator<Item = usize> {
        let of = match self {
            Self::Unary(_, x) | Self::Reduce(_, x) | Self::Softmax(x) => [Some(x), None, None],
            Self::Binary(_, a, b) => [Some(a), Some(b), None],
            Self::Select(a, b, c) | Self::Clamp(a, b, c) => [Some(a), Some(b), Some(c)],
            _ => [None; 3],
        };
        of.into_iter().flatten().map(|id| id as usize)
    }
}

/// Parameter of a formula that [`TracedLoss::update`](super::TracedLoss::update) may change.
///
/// ```
/// let graph = pbg_plugin_sdk::loss::formula::graph(|s| s.parameter("margin", 0.5) - s.positive());
/// assert_eq!((graph.parameters[0].name.as_str(), graph.parameters[0].value), ("margin", 0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NamedParameter {
    /// Name: lower-case letters, digits and underscores.
    pub name: String,
    /// Value at the beginning of a run.
    pub value: f32,
}

/// Graph of a loss formula, as passed to the host.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::graph;
/// let graph = graph(|s| s.negatives().logsumexp() - s.positive());
/// assert_eq!(graph.nodes.len(), 4);
/// assert_eq!(graph.output, 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Nodes; operands precede the nodes that use them.
    pub nodes: Vec<Node>,
    /// Index of the node with the loss of each positive.
    pub output: u32,
    /// Parameters, to which [`Node::Parameter`] refers by index.
    pub parameters: Vec<NamedParameter>,
    /// Number of batches between two updates of the parameters; 0: never.
    pub update_every: u32,
}
