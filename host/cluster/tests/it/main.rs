//! Connections over a real nats-server on this machine.
//!
//! The server is the program that `PBG_TEST_NATS` names, or the one that the set-up of the tests installs. Without either,
//! these tests say so and check nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod live;
mod meeting;
mod programs;
mod register;
mod users;
mod world;
