//! Formula of an operator as a graph of nodes.

use crate::loss::Binary;

/// Functions of one value.
///
/// ```
/// use pbg_plugin_sdk::operator::Unary;
/// assert_ne!(Unary::Sin, Unary::Cos);
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
    Sin,
    Cos,
}

/// Node of a formula; operands are indices of earlier nodes.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, Node, formula::formula};
/// let shift = formula(|x| vec![x.component(0) + x.parameter("shift", Initial::Zero)]);
/// assert_eq!(shift.nodes[0], Node::Component(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// Index of a component of the embedding.
    Component(u32),
    /// Index of a parameter.
    Parameter(u32),
    /// A number.
    Constant(f32),
    /// A function of one value.
    Unary(Unary, u32),
    /// A function of two values.
    Binary(Binary, u32, u32),
    /// Condition, value where the condition is not 0, value elsewhere.
    Select(u32, u32, u32),
    /// Value, lower bound, upper bound.
    Clamp(u32, u32, u32),
}

/// Initial values of the elements of a parameter.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let turn = formula(|x| vec![x.component(0) * x.parameter("angle", Initial::Angle).cos()]);
/// assert_eq!(turn.parameters[0].initial, Initial::Angle);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// 0.
    Zero,
    /// 1.
    One,
    /// Normally distributed around 0, with this standard deviation.
    Normal(f32),
    /// An angle in radians, uniformly distributed from -pi to pi. If a formula has one, the regulariser does not
    /// penalise its parameters, since an angle has no magnitude.
    Angle,
}

/// Parameter of a relation: a vector as long as a component.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let scale = formula(|x| vec![x.component(0) * x.parameter("scale", Initial::One)]);
/// assert_eq!(scale.parameters[0].name, "scale");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VectorParameter {
    /// Name in checkpoints: lower-case letters, digits and underscores.
    pub name: String,
    /// Initial values of its elements.
    pub initial: Initial,
}

/// Formula of an operator, as passed to the host.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let scale = formula(|x| vec![x.component(0) * x.parameter("scale", Initial::One)]);
/// assert_eq!((scale.components, scale.nodes.len(), &scale.outputs[..]), (1, 3, &[2][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Formula {
    /// Number of components of equal length into which an embedding is split.
    pub components: u32,
    /// Parameters, to which [`Node::Parameter`] refers by index.
    pub parameters: Vec<VectorParameter>,
    /// Nodes; operands precede the nodes that use them.
    pub nodes: Vec<Node>,
    /// Index of the node with the result of each component.
    pub outputs: Vec<u32>,
}
