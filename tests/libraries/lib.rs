//! Inputs for tests of several packages: random losses, and components that would keep a compiler busy.

pub mod bombs;
pub mod definitions;
