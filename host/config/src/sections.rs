//! Sections of the reference and of the commented default file, with their keys in order.

/// Related keys of one table, in the order in which they are documented.
pub(super) struct Section {
    pub(super) heading: &'static str,
    /// Header of the TOML table; `None` at the top level.
    pub(super) table: Option<&'static str>,
    /// Path of the table; `*` stands for any name or index.
    pub(super) path: &'static [&'static str],
    pub(super) keys: &'static [&'static str],
}

/// All keys of the configuration, each once. Tables come last, as TOML requires.
pub(super) const SECTIONS: &[Section] = &[
    top_level(
        "Data and checkpoint",
        &[
            "dataset",
            "edge_sets",
            "checkpoint_path",
            "checkpoint_interval",
            "checkpoint_preservation_interval",
            "init_path",
            "storage",
        ],
    ),
    top_level(
        "Model",
        &[
            "dimension",
            "comparator",
            "bias",
            "dynamic_relations",
            "global_emb",
            "init_scale",
            "operator_init_scale",
            "max_norm",
        ],
    ),
    top_level(
        "Loss",
        &[
            "loss_fn",
            "margin",
            "regularizer",
            "regularization_coef",
            "relation_prediction",
        ],
    ),
    top_level(
        "Batches and negatives",
        &[
            "batch_size",
            "num_batch_negs",
            "num_uniform_negs",
            "negative_sampler",
            "negatives_from",
            "chunk_size",
            "disable_lhs_negs",
            "disable_rhs_negs",
        ],
    ),
    top_level(
        "Training",
        &[
            "num_epochs",
            "optimizer",
            "lr",
            "relation_lr",
            "num_edge_chunks",
            "max_edges_per_chunk",
            "bucket_order",
            "relation_sampler",
            "buffer_partitions",
            "workers",
            "seed",
        ],
    ),
    top_level(
        "Evaluation while training",
        &[
            "eval_fraction",
            "eval_num_batch_negs",
            "eval_num_uniform_negs",
        ],
    ),
    top_level(
        "Several machines",
        &[
            "num_machines",
            "num_partition_servers",
            "distributed_init_method",
            "distributed_tree_init_order",
        ],
    ),
    Section {
        heading: "Entity types",
        table: Some("[entities.NAME]"),
        path: &["entities", "*"],
        keys: &[
            "num_partitions",
            "dimension",
            "featurized",
            "init",
            "init_names",
            "frozen",
        ],
    },
    Section {
        heading: "Relations",
        table: Some("[[relations]]"),
        path: &["relations", "*"],
        keys: &["name", "lhs", "rhs", "operator", "weight", "all_negs"],
    },
    Section {
        heading: "Formulas of operators and of the comparator",
        table: Some("[formulas]"),
        path: &["formulas"],
        keys: &[],
    },
    Section {
        heading: "Learning rates over the run",
        table: Some("[lr_schedule]"),
        path: &["lr_schedule"],
        keys: &["warmup_epochs", "decay", "decay_epochs", "final_fraction"],
    },
    Section {
        heading: "Validation between epochs",
        table: Some("[validation]"),
        path: &["validation"],
        keys: &[
            "edges",
            "filter",
            "interval",
            "limit",
            "candidates",
            "early_stop",
            "lr_decay",
            "lr_patience",
        ],
    },
    Section {
        heading: "Execution",
        table: Some("[execution]"),
        path: &["execution"],
        keys: &[
            "device",
            "prefetch",
            "partitions_ahead",
            "buckets_ahead",
            "batches_ahead",
            "read_mbps",
            "write_mbps",
            "slice_bytes",
            "precision",
            "update",
        ],
    },
    Section {
        heading: "Trainers of one run",
        table: Some("[distributed]"),
        path: &["distributed"],
        keys: &[
            "lease",
            "heartbeat",
            "patience",
            "ahead",
            "sync_rounds",
            "sync_bytes",
            "nats_server",
            "credentials",
            "authority",
            "certificate",
            "key",
            "replicas",
            "partition_replicas",
            "ledger",
            "insecure",
        ],
    },
    Section {
        heading: "Plugins",
        table: Some("[plugins]"),
        path: &["plugins"],
        keys: &["on_fault"],
    },
    Section {
        heading: "Parameters of plugins",
        table: Some("[plugins.params.NAME]"),
        path: &["plugins", "params", "*"],
        keys: &[],
    },
    Section {
        heading: "Limits of plugins",
        table: Some("[plugins.limits]"),
        path: &["plugins", "limits"],
        keys: &[
            "deadline_ms",
            "memory_mib",
            "table_elements",
            "stack_kib",
            "result_mib",
            "handles",
            "graph_nodes",
            "log_lines",
            "run_log_lines",
            "compile_seconds",
        ],
    },
    Section {
        heading: "Folders that plugins may read",
        table: Some("[[plugins.grants]]"),
        path: &["plugins", "grants", "*"],
        keys: &["plugin", "read"],
    },
    Section {
        heading: "Pinned plugins",
        table: Some("[[plugins.pins]]"),
        path: &["plugins", "pins", "*"],
        keys: &["plugin", "sha256"],
    },
];

const fn top_level(heading: &'static str, keys: &'static [&'static str]) -> Section {
    Section {
        heading,
        table: None,
        path: &[],
        keys,
    }
}
