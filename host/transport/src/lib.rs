//! Communication between the trainers of one run over NATS or an object store, behind the traits of
//! [`pbg_ledger::transport`].
//!
//! [`InitMethod`] is the value of `distributed_init_method`. [`connect`] creates a [`Connection`] with it, which
//! implements both [`Register`](pbg_ledger::transport::Register) and [`LiveTraffic`](pbg_ledger::transport::LiveTraffic).
//! If the method names no server, rank 0 starts one as a process that outlives the trainer, and the others find it by a
//! file or an address.
//!
//! In reading order: `init_method` and `connection`; `discovery` (finding the server), `hosting` (starting it),
//! `supervisor` (restarting it) and `server` (its process); `secret` (authentication); `keys` (those
//! of the user's own servers); `client` (a NATS client with its own runtime); `register` and `live`; `object_register` and `polled_traffic`, which need no server. Nothing here knows
//! the content of the register or of a question.
//!
//! The asynchronous runtime is not visible outside: all methods block, each for a bounded time. They must not be called
//! from a task of another runtime.
//!
//! On the user's servers, a run uses the subjects `pbg.RUN.>`, for publishing and subscribing, and the stream
//! `pbg-RUN`, for which it publishes to `$JS.API.STREAM.CREATE.pbg-RUN`, and likewise to `INFO`, `MSG.GET` and
//! `DELETE`. It needs no other permissions.

mod answers;
mod client;
mod connection;
mod discovery;
mod error;
mod heartbeats;
mod hosting;
mod init_method;
mod keys;
mod limits;
mod live;
mod notice;
mod object_ledger;
mod object_register;
mod options;
mod polled_traffic;
#[doc(hidden)]
pub mod received;
mod register;
mod secret;
mod server;
mod server_files;
mod server_transport;
mod signals;
mod supervisor;
mod waiting;

pub use connection::{Connection, connect, connect_by_objects};
pub use error::ConnectError;
pub use init_method::{Address, InitMethod, MethodError, ResolvedMethod};
pub use keys::KeyFiles;
pub use notice::ServerNotice;
pub use options::{AccessToken, ConnectionOptions, RunName};
pub use register::{KEPT_REVISIONS, MAX_VALUE};
pub use secret::Secret;
pub use server_files::outgoing_address;
