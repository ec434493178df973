//! Tests of checkpoints of several trainers over a real object store on this machine.
//!
//! The store is the program that `PBG_TEST_OBJECT_STORE` names, or the one that the set-up of the tests has installed.
//! Without either, these tests print that and check nothing; with `PBG_REQUIRE=seaweedfs` they fail.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folder;
#[path = "../../../../tests/object_store.rs"]
mod object_store;
mod partition_servers;
#[path = "../../../../tests/tools.rs"]
mod tools;
#[path = "../../../../tests/unreliable_store.rs"]
mod unreliable_store;
