//! Promises of all standard bucket orders.

mod optimum;
mod properties;
mod records;
mod table;

use pbg_order_tests::cost;
use pbg_plugin_sdk::{Order, Pass, testing};

/// Returns the swaps of an order with its defaults, by the host's count.
fn swaps<O: Order>(pass: &Pass) -> u64 {
    let mut order: O = testing::with_defaults();
    let plan = order.plan(pass).expect("it plans");
    cost(pass, &plan).swaps
}

/// Returns a complete grid of equal partitions.
fn complete(p: u32, c: u32, seed: u64) -> Pass {
    let mut pass = Pass::uniform(p, p, seed);
    pass.buffer_partitions = c;
    pass
}

/// Returns the swaps of BETA (Marius).
fn beta_formula(p: u32, c: u32) -> u64 {
    let (p, c) = (u64::from(p), u64::from(c));
    if p <= c {
        return 0;
    }
    let x = (p - c) / (c - 1);
    (p - c) + (x + 1) * (p - c) - x * (x + 1) * (c - 1) / 2
}

/// Returns a lower bound on the swaps of any order of a complete grid: a loaded partition meets at most `c - 1` others.
fn lower_bound(p: u32, c: u32) -> u64 {
    let (p, c) = (u64::from(p), u64::from(c.min(p)));
    ((p * (p - 1) - c * (c - 1)) / 2).div_ceil(c - 1)
}
