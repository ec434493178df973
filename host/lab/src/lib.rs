//! What researchers compare bucket orders by; training uses none of it.
//!
//! Everything here is computed from plans: nothing reads or writes files, or prints. In reading
//! order: the grids that orders are compared on ([`grid`]), what the buffer does while a plan is
//! trained ([`replay`]), figures of one plan ([`bound`], [`misses`], [`reuse`], [`stall`],
//! [`structure`]) and all of them ([`analysis`]), comparisons of orders ([`comparison`]) and of what
//! was trained with them ([`study`]).

pub mod analysis;
pub mod bound;
pub mod comparison;
pub mod grid;
pub mod misses;
pub mod replay;
pub mod reuse;
pub mod rounds;
pub mod stall;
pub mod structure;
pub mod study;
#[cfg(test)]
mod testing;
