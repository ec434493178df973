//! The `nats-server` that rank 0 starts if the init method names no server.
//!
//! It runs in its own process group: Ctrl-C in the trainer's terminal does not reach it, and it outlives the trainer,
//! so that all others continue when rank 0 ends. At most one server runs on a store: a locked file of the store is open
//! as the server's standard input, and the lock is released when that process ends, however it ends.

mod process;
mod program;
mod record;

pub(crate) use process::{
    Health, RunningServer, ServerStart, StoreLock, clear_stopped_mark, health, is_alive, listening,
    stop, was_ended,
};
pub(crate) use program::{find, is_old};
pub(crate) use record::{ServerRecord, machine};
