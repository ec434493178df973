//! What a configuration may say, what is written about it, and what a wrong one is told.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is a failed test"
)]

mod docs;
mod parse;
mod properties;
