//! Shapes of values, as types.
//!
//! ```
//! use pbg_plugin_sdk::loss::formula::shape::{PerNegative, PerPositive};
//! assert_eq!(std::mem::size_of::<(PerPositive, PerNegative)>(), 0);
//! ```

/// One number for all rows.
///
/// ```
/// let all = pbg_plugin_sdk::loss::formula::shape::ForAll;
/// assert_eq!(format!("{all:?}"), "ForAll");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ForAll;
/// One number per positive.
///
/// ```
/// let row = pbg_plugin_sdk::loss::formula::shape::PerPositive;
/// assert_eq!(format!("{row:?}"), "PerPositive");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerPositive;
/// One number per negative.
///
/// ```
/// let matrix = pbg_plugin_sdk::loss::formula::shape::PerNegative;
/// assert_eq!(format!("{matrix:?}"), "PerNegative");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerNegative;
/// One number per element of a vector, in [operators](crate::operator::formula) and [comparators](crate::comparator::formula).
///
/// ```
/// let vector = pbg_plugin_sdk::loss::formula::shape::PerElement;
/// assert_eq!(format!("{vector:?}"), "PerElement");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerElement;

/// Shape of the result of an operation on two shapes.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::shape::{ForAll, PerPositive, With};
/// fn joined<A: With<B>, B>(_: A, _: B) -> &'static str {
///     std::any::type_name::<A::Joint>()
/// }
/// assert!(joined(ForAll, PerPositive).ends_with("PerPositive"));
/// ```
pub trait With<Other> {
    /// The larger of the two shapes.
    type Joint;
}

macro_rules! with {
    ($($a:ty, $b:ty => $joint:ty;)*) => {
        $(impl With<$b> for $a { type Joint = $joint; })*
    };
}
with! {
    ForAll, ForAll => ForAll;
    ForAll, PerPositive => PerPositive;
    ForAll, PerNegative => PerNegative;
    PerPositive, ForAll => PerPositive;
    PerPositive, PerPositive => PerPositive;
    PerPositive, PerNegative => PerNegative;
    PerNegative, ForAll => PerNegative;
    PerNegative, PerPositive => PerNegative;
    PerNegative, PerNegative => PerNegative;
    PerElement, PerElement => PerElement;
}
