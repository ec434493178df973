//! Tests of connections over a real nats-server on this machine.
//!
//! The server is the program that `PBG_TEST_NATS` names, or the one that the set-up of the tests has installed. Without
//! either, these tests print that and check nothing; with `PBG_REQUIRE=nats` they fail.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod live;
mod meeting;
mod programs;
mod register;
#[path = "../../../../tests/tools.rs"]
mod tools;
mod users;
mod world;
