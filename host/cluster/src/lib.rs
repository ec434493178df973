//! By what the trainers of one run reach each other: NATS, behind [`pbg_core::cluster`]'s traits.
//!
//! [`Method`] is what a user writes as `distributed_init_method`. [`connect`] makes a [`Connection`] of it, which is both
//! a [`Register`](pbg_core::cluster::Register) and [`Live`](pbg_core::cluster::Live). Where no server is named, rank 0
//! starts one, a process that outlives the trainer, and the others find it by a file or an address.
//!
//! In reading order: `method` (what was asked for), `connection` and `meeting` (who starts what, who waits for whom),
//! `hosting`, `keeper` and `server` (the process), `secret` (who is let in), `wire` (one client on a runtime of its own), `register`, `live`.
//! Nothing here knows what is in the register or in a question.
//!
//! Nobody outside needs to know that there is a runtime: all methods block, each for a bounded time. They must not be
//! called from a task of another runtime.
//!
//! On servers of the user, a run takes the subjects `pbg.RUN.>`, to publish and to subscribe, and the stream `pbg-RUN`,
//! for which it publishes to `$JS.API.STREAM.CREATE.pbg-RUN`, and likewise to `INFO`, `MSG.GET` and `DELETE`. It needs no
//! other rights.

mod answers;
mod connection;
mod error;
mod heard;
mod hosting;
mod keeper;
mod live;
mod meeting;
mod method;
mod options;
mod place;
mod register;
mod secret;
mod server;
mod signals;
mod waiting;
mod wire;

pub use connection::{Connection, connect};
pub use error::ClusterError;
pub use keeper::Listener;
pub use method::{Address, Found, Method, MethodError};
pub use options::{AccessToken, Options, RunName};
pub use register::{KEPT_REVISIONS, MAX_VALUE};
pub use secret::Secret;
