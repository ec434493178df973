//! A model in double precision, with which tests of several crates compare training steps.
//!
//! In reading order: the [`model::Model`] and its loss, edge by edge; the [`twin::Twin`], which has the same numbers as
//! tables and parameters; losses in several forms ([`losses`]); and operators that are formulas ([`formulas`]).

pub mod formulas;
pub mod losses;
pub mod model;
pub mod twin;
