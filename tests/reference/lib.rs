//! A model in double precision, with which tests of several crates compare training steps.
//!
//! In reading order: the [`model::Model`] and its loss, edge by edge; the [`twin::Twin`], which has the same numbers as
//! tables and parameters; losses in several forms ([`losses`]); operators that are formulas ([`formulas`]); and
//! [`strategies`] without a plugin.

pub mod comparators;
pub mod formulas;
pub mod losses;
pub mod model;
pub mod strategies;
pub mod twin;
