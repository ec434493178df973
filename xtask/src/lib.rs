//! Set-up, build, demo and tests of pbg-host.
//!
//! This library is the program `cargo xtask`, and what it shares with `xtask/workbench`, the program of the tasks that
//! neither the demo nor the tests need. The steps of all tasks are functions of a [`repo::Repo`], the folders of a
//! checkout: [`setup`] installs, [`build`] compiles, and [`step`] announces and runs other programs.
//!
//! A fresh checkout compiles this package before anything else happens, so it depends on few packages, each with the
//! features that the program of the workspace needs as well. It must not know what the host's crates contain.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a terminal program prints its messages, and waits and measures"
)]

pub mod build;
mod cli;
mod demo;
pub mod guard;
pub mod native;
mod plugins;
pub mod repo;
pub mod setup;
pub mod step;
mod test;
mod threads;
pub mod wheel;

pub use cli::{command, main, print_error};
