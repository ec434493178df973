//! What tests of several packages try: random losses, and components that would keep a compiler busy.

pub mod bombs;
pub mod definitions;
