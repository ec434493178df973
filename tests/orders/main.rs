//! What all standard bucket orders promise.

mod optimum;
mod properties;
mod records;
mod table;

use pbg_order_tests::cost;
use pbg_plugin_sdk::{Order, Pass, testing};

/// Swaps of an order with its defaults, by the host's count.
fn swaps<O: Order>(pass: &Pass) -> u64 {
    let mut order: O = testing::with_defaults();
    let plan = order.plan(pass).expect("it plans");
    cost(pass, &plan).swaps
}

/// A complete grid of equal partitions.
fn complete(p: u32, c: u32, seed: u64) -> Pass {
    let mut pass = Pass::uniform(p, p, seed);
    pass.buffer_partitions = c;
    pass
}

/// Swaps of BETA (Marius).
fn beta_formula(p: u32, c: u32) -> u64 {
    let (p, c) = (u64::from(p), u64::from(c));
    if p <= c {
        return 0;
    }
    let x = (p - c) / (c - 1);
    (p - c) + (x + 1) * (p - c) - x * (x + 1) * (c - 1) / 2
}

/// Swaps below which no order of a complete grid is: a load meets at most `c - 1` partitions.
fn lower_bound(p: u32, c: u32) -> u64 {
    let (p, c) = (u64::from(p), u64::from(c.min(p)));
    ((p * (p - 1) - c * (c - 1)) / 2).div_ceil(c - 1)
}
