//! A formula as data.

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

/// One value of a formula; operands are indices of nodes before it.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, Node, formula::formula};
/// let shift = formula(|x| vec![x.component(0) + x.parameter("shift", Initial::Zero)]);
/// assert_eq!(shift.nodes[0], Node::Component(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// A component of the embedding.
    Component(u32),
    /// Index of a parameter.
    Parameter(u32),
    /// A number.
    Constant(f32),
    /// A function of one value.
    Unary(Unary, u32),
    /// A function of two values.
    Binary(Binary, u32, u32),
    /// Condition, value where it is not 0, value elsewhere.
    Select(u32, u32, u32),
    /// Value, lower bound, upper bound.
    Clamp(u32, u32, u32),
}

/// What the elements of a parameter are before any training.
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
    /// An angle in radians, uniformly distributed from -pi to pi. Where a formula has one, the regulariser leaves
    /// its parameters alone: an angle has no size.
    Angle,
}

/// A vector of the relation's own, as long as a component.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let scale = formula(|x| vec![x.component(0) * x.parameter("scale", Initial::One)]);
/// assert_eq!(scale.parameters[0].name, "scale");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VectorParameter {
    /// Lower-case letters, digits and underscores: what checkpoints call it.
    pub name: String,
    /// Its elements at the beginning of a run.
    pub initial: Initial,
}

/// A formula: what the host gets.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let scale = formula(|x| vec![x.component(0) * x.parameter("scale", Initial::One)]);
/// assert_eq!((scale.components, scale.nodes.len(), &scale.outputs[..]), (1, 3, &[2][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Formula {
    /// Into how many components of equal length an embedding is cut.
    pub components: u32,
    /// What [`Node::Parameter`] refers to.
    pub parameters: Vec<VectorParameter>,
    /// Operands before users.
    pub nodes: Vec<Node>,
    /// What each component becomes.
    pub outputs: Vec<u32>,
}
