//! Tests of the configuration: parsing, messages, and agreement with the documentation.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is a failed test"
)]

mod docs;
mod parse;
mod properties;
