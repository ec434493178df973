//! Tests of connections over a real nats-server, and a real object store, on this machine.
//!
//! They are the programs that `PBG_TEST_NATS` and `PBG_TEST_OBJECT_STORE` name, or those that the set-up of the tests has
//! installed. Without one of them, its tests print that and check nothing; with `PBG_REQUIRE=nats,seaweedfs` they fail.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod live;
mod meeting;
#[path = "../../../../tests/object_store.rs"]
mod object_store;
mod objects;
mod programs;
mod register;
#[path = "../../../../tests/tools.rs"]
mod tools;
#[path = "../../../../tests/unreliable_store.rs"]
mod unreliable_store;
mod users;
mod world;
