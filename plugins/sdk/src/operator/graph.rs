//! Formula of an operator as a graph of nodes.

use crate::loss::Binary;

/// Function of one value.
///
/// ```
/// use pbg_plugin_sdk::operator::Unary;
/// assert_ne!(Unary::Sin, Unary::Cos);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the methods of formulas describe the functions"
)]
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
    /// Component of the embedding, by index.
    Component(u32),
    /// Parameter, by its index in [`Formula::parameters`].
    Parameter(u32),
    /// A number.
    Constant(f32),
    /// A function of one value.
    Unary(Unary, u32),
    /// A function of two values.
    Binary(Binary, u32, u32),
    /// Condition, value where the condition is not 0, and value where it is 0.
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
    /// Normally distributed with mean 0 and this standard deviation.
    Normal(f32),
    /// An angle in radians, uniformly distributed from -pi to pi. The regulariser penalises none of the parameters of a
    /// formula with an angle, since an angle has no magnitude.
    Angle,
}

/// Parameter of an operator: a vector for each relation, of the length of a component.
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
    /// Initial value of its elements.
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
    /// Number of components into which an embedding is split, all of equal length.
    pub components: u32,
    /// Parameters, to which [`Node::Parameter`] refers by index.
    pub parameters: Vec<VectorParameter>,
    /// Nodes; operands precede the nodes that use them.
    pub nodes: Vec<Node>,
    /// Node that computes each output component, by index.
    pub outputs: Vec<u32>,
}
