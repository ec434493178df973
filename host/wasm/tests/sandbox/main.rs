//! The sandbox with real components: good ones, hostile ones, and files that are none.

mod hostile;
mod losses;
mod misfits;
mod samplers;
mod standard;
mod support;
