//! The figures by which orders are compared, with names, meanings and values.

use pbg_lab::analysis::Analysis;

/// Figure of an analysis.
pub struct FigureColumn {
    /// Name in CSV.
    pub key: &'static str,
    /// Meaning, for the legend below a table.
    pub meaning: &'static str,
    /// Function that returns the value; `None` if it is undefined.
    pub value: fn(&Analysis) -> Option<f64>,
}

/// All figures, in the order of the tables.
pub const COLUMNS: &[FigureColumn] = &[
    FigureColumn {
        key: "swaps",
        meaning: "partition loads into a full buffer",
        value: |a| Some(a.swaps as f64),
    },
    FigureColumn {
        key: "lower_bound",
        meaning: "lower bound of the swaps of all orders",
        value: |a| Some(a.lower_bound as f64),
    },
    FigureColumn {
        key: "ratio",
        meaning: "swaps / lower bound",
        value: Analysis::ratio,
    },
    FigureColumn {
        key: "loads",
        meaning: "partition loads, including the first fill of the buffer",
        value: |a| Some(a.loads as f64),
    },
    FigureColumn {
        key: "bytes_read",
        meaning: "bytes of partitions that enter the buffer, its first fill included",
        value: |a| Some(a.bytes_read as f64),
    },
    FigureColumn {
        key: "bytes_written",
        meaning: "bytes of trained partitions that leave the buffer",
        value: |a| Some(a.bytes_written as f64),
    },
    FigureColumn {
        key: "bytes_final",
        meaning: "bytes of trained partitions in the buffer at the end of the pass, which the checkpoint writes",
        value: |a| Some(a.bytes_final as f64),
    },
    FigureColumn {
        key: "reuse_distance",
        meaning: "number of other partitions used between two uses of a partition, mean",
        value: |a| Some(a.reuse_distance),
    },
    FigureColumn {
        key: "new_pairs_per_swap",
        meaning: "pairs of partitions that are in the buffer together for the first time, per swap, mean; at most buffer - 1",
        value: |a| Some(a.new_pairs_per_swap),
    },
    FigureColumn {
        key: "buckets_per_state_mean",
        meaning: "buckets trained between swaps, mean",
        value: |a| Some(a.states.mean),
    },
    FigureColumn {
        key: "buckets_per_state_max",
        meaning: "buckets trained between swaps, maximum",
        value: |a| Some(a.states.max as f64),
    },
    FigureColumn {
        key: "bias_mean",
        meaning: "largest minus smallest fraction of its own buckets that a partition has finished, mean over the pass",
        value: |a| Some(a.bias.mean),
    },
    FigureColumn {
        key: "bias_max",
        meaning: "maximum of the bias over the pass",
        value: |a| Some(a.bias.max),
    },
    FigureColumn {
        key: "compute_seconds",
        meaning: "seconds of computing at the given rate",
        value: |a| Some(a.compute_seconds),
    },
    FigureColumn {
        key: "stall_on_demand",
        meaning: "seconds that training waits when partitions are loaded on demand",
        value: |a| Some(a.stall_on_demand),
    },
    FigureColumn {
        key: "stall_ahead",
        meaning: "seconds that training waits when the buffer reads ahead, as with execution.prefetch",
        value: |a| Some(a.stall_ahead),
    },
];
