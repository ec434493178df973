//! The figures by which orders are compared: name, unit, meaning, value.

use pbg_lab::analysis::Analysis;

/// One figure of an analysis.
pub struct Column {
    /// Name in CSV.
    pub key: &'static str,
    /// What it is, for the legend under a table.
    pub meaning: &'static str,
    /// Its value; `None` where it does not exist.
    pub value: fn(&Analysis) -> Option<f64>,
}

/// All figures, in the order of the tables.
pub const COLUMNS: &[Column] = &[
    Column {
        key: "swaps",
        meaning: "partition loads into a full buffer",
        value: |a| Some(a.swaps as f64),
    },
    Column {
        key: "lower_bound",
        meaning: "swaps that no order gets below",
        value: |a| Some(a.lower_bound as f64),
    },
    Column {
        key: "ratio",
        meaning: "swaps / lower bound",
        value: Analysis::ratio,
    },
    Column {
        key: "loads",
        meaning: "partition loads, the first fill included",
        value: |a| Some(a.loads as f64),
    },
    Column {
        key: "bytes_read",
        meaning: "bytes that enter the buffer",
        value: |a| Some(a.bytes_read as f64),
    },
    Column {
        key: "bytes_written",
        meaning: "bytes written on eviction and at the end of the pass",
        value: |a| Some(a.bytes_written as f64),
    },
    Column {
        key: "reuse_distance",
        meaning: "other partitions used between two uses of one, mean",
        value: |a| Some(a.reuse_distance),
    },
    Column {
        key: "new_pairs_per_swap",
        meaning: "pairs of partitions that a swap brings together for the first time, mean; buffer - 1 at best",
        value: |a| Some(a.new_pairs_per_swap),
    },
    Column {
        key: "buckets_per_state_mean",
        meaning: "buckets trained between swaps, mean",
        value: |a| Some(a.states.mean),
    },
    Column {
        key: "buckets_per_state_max",
        meaning: "the most buckets trained between swaps",
        value: |a| Some(a.states.max as f64),
    },
    Column {
        key: "bias_mean",
        meaning: "largest minus smallest share of their own buckets that partitions have behind them, mean over the pass",
        value: |a| Some(a.bias.mean),
    },
    Column {
        key: "bias_max",
        meaning: "the same, its largest value",
        value: |a| Some(a.bias.max),
    },
    Column {
        key: "compute_seconds",
        meaning: "seconds of computing at the given rate",
        value: |a| Some(a.compute_seconds),
    },
    Column {
        key: "stall_on_demand",
        meaning: "seconds that training stands still when partitions load on demand",
        value: |a| Some(a.stall_on_demand),
    },
    Column {
        key: "stall_ahead",
        meaning: "the same when the buffer reads ahead, as it does with execution.prefetch",
        value: |a| Some(a.stall_ahead),
    },
];
