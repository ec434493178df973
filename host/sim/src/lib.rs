//! Deterministic simulation of distributed runs. Trainers run as in reality, with their threads, the ledger and the
//! checkpoint protocol, but over a register and a network that fail as a seed decides, on a virtual clock: hours take
//! milliseconds, and the same seed gives the same run.
//!
//! In reading order: the `world` (virtual clock, threads, processes) and its `coroutines`, the `register`, the `live`
//! traffic and the `disk`, or the `store` that has all of them, with their [faults](SimFault), a `trainer`, the `scenario` that a seed draws, the `director`
//! who carries it out, the [`simulation`](simulate) of a run, and what must hold: `invariants` of every record, and the
//! `check` at the end.
//!
//! Invariants: nothing but the seed decides what happens; a simulated process only waits through `pbg-clock`.
//!
//! It must not know the terminal or the sandbox: strategies are those of `graph`.

mod check;
mod coroutines;
mod dice;
mod director;
mod disk;
mod fault;
mod graph;
mod invariants;
mod live;
mod outcome;
mod partition_memory;
mod register;
mod scenario;
mod simulation;
mod store;
mod store_connection;
mod trainer;
mod world;

pub use fault::{FaultCounts, SimFault};
pub use graph::import_all as import_datasets;
pub use outcome::{SimOutcome, SimTotals};
pub use simulation::{SimOptions, simulate};
pub use trainer::Narrator;
