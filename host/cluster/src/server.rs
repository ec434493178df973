//! The `nats-server` that rank 0 starts where no server is named.
//!
//! It is a process of a group of its own: Ctrl-C in the trainer's terminal does not reach it, and it outlives the trainer,
//! so that all others go on when rank 0 ends. Its store has one server at most: a lock on a file of the store is open as the
//! server's standard input, and goes when that process ends, however it ends.

mod process;
mod program;
mod record;

pub(crate) use process::{
    Health, Lock, Running, Start, health, is_alive, is_wanted, listening, stop, was_ended,
};
pub(crate) use program::{OLDEST, find, is_old};
pub(crate) use record::{Record, machine};
