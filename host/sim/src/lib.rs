//! Deterministic simulation of distributed runs. Trainers run as in reality, with their threads, the ledger and the
//! checkpoint protocol, but over a register and a network that fail as a seed decides, on a virtual clock: hours take
//! milliseconds, and the same seed gives the same run.
//!
//! In reading order: the `world` (virtual clock, threads, processes), the `register` and the `live` traffic with their
//! faults, a `trainer`, the [`simulation`](simulate) of a run, and the `check` of what must hold at its end.
//!
//! Invariants: nothing but the seed decides what happens; a simulated process only waits through `pbg-clock`.
//!
//! It must not know the terminal or the sandbox: strategies are those of `graph`.

mod check;
mod dice;
mod graph;
mod live;
mod register;
mod simulation;
mod trainer;
mod world;

pub use graph::import_all as import_datasets;
pub use simulation::{SimOutcome, simulate};
