//! The sandbox with real components: good ones, hostile ones, and files that are not components.

mod cache;
mod comparators;
mod compiler;
mod composed;
mod docs;
mod engine;
mod hostile;
mod hostile_computed;
mod hostile_losses;
mod losses;
mod memory;
mod misfits;
mod operators;
mod reverse_mode;
mod rights;
mod samplers;
mod standard;
mod support;
mod versions;
