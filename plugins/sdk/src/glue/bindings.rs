//! The interfaces of `wit/` in Rust, as wit-bindgen generates them.
//!
//! They are kept beside the code that uses them, so that whoever builds a plugin compiles no generator.
//! `UPDATE_DOCS=1 cargo test --release -p pbg-author` writes them again; without it the same test compares them.

#![allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::allow_attributes_without_reason,
    reason = "generated from the documented WIT files"
)]

#[rustfmt::skip]
pub mod computed;
#[rustfmt::skip]
pub mod metadata;
#[rustfmt::skip]
pub mod operator;
#[rustfmt::skip]
pub mod order;
#[rustfmt::skip]
pub mod sampler;
#[rustfmt::skip]
pub mod traced;
