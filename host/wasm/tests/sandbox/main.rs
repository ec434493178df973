//! The sandbox with real components: good ones, hostile ones, and files that are none.

mod hostile;
mod misfits;
mod samplers;
mod standard;
mod support;
