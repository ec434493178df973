//! `[distributed]`: communication between the trainers of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Value of `distributed.ledger`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerChoice {
    /// In the object store if `checkpoint_path` is in one, otherwise on the NATS server.
    #[default]
    Auto,
    /// On the NATS server.
    Nats,
    /// In the object store.
    Store,
}

/// Where the trainers of a run keep their ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerPlace<'a> {
    /// On the NATS server that `distributed_init_method` names.
    Server,
    /// In the folder in an object store that `checkpoint_path` names. Heartbeats are there as well if
    /// `distributed_init_method` is unset.
    Store(&'a str),
}

/// Communication between the trainers of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DistributedConfig {
    /// Seconds without a heartbeat after which the other trainers consider a trainer dead and train its buckets again.
    #[schemars(range(min = 1, max = 86_400), extend("x-rule" = "at least three times `heartbeat`"))]
    pub lease: f64,
    /// Seconds between two heartbeats of a trainer.
    #[schemars(range(min = 0.05, max = 3600))]
    pub heartbeat: f64,
    /// Timeout in seconds of a trainer that waits for the ledger to answer or for other trainers to join.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub patience: f64,
    /// Whether a trainer leases its next bucket when the current one starts, so that its partitions load meanwhile.
    #[schemars(extend("x-unset" = "`true` with at least four partitions per trainer"))]
    pub ahead: Option<bool>,
    /// Maximum number of exchanges of shared parameters per second.
    #[schemars(range(min = 0.01, max = 10_000))]
    pub sync_rounds: f64,
    /// Maximum number of bytes of shared parameters that a trainer sends and receives per second, on average.
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub sync_bytes: f64,
    /// Where the ledger of the run is: `nats` (on the NATS server), `store` (in the object store, beside the
    /// checkpoint; the server, if there is one, carries only heartbeats and shared parameters), or `auto` (`store` if
    /// `checkpoint_path` is in an object store, otherwise `nats`).
    #[schemars(extend("x-rule" = "`store` needs a `checkpoint_path` in an object store, `nats` needs `distributed_init_method`"))]
    pub ledger: LedgerChoice,
    /// Path of the program `nats-server`, which rank 0 starts with `file://`, `tcp://` and `env://`.
    #[schemars(length(min = 1), extend("x-unset" = "searched for next to the program, in `.deps/nats` and in `PATH`"))]
    pub nats_server: Option<String>,
    /// Path of a NATS credentials file for `nats://` and `tls://`.
    #[schemars(length(min = 1), extend("x-unset" = "none; the environment variable `PBG_HOST_SECRET` is sent as a token"))]
    pub credentials: Option<String>,
    /// Path of the certificate (PEM) of the authority that has signed those of the servers of `tls://`.
    #[schemars(length(min = 1), extend("x-unset" = "the authorities that this machine trusts", "x-rule" = "needs `tls://`"))]
    pub authority: Option<String>,
    /// Path of the certificate (PEM) that a trainer presents to the servers of `tls://`.
    #[schemars(length(min = 1), extend("x-unset" = "none", "x-rule" = "needs `key` and `tls://`"))]
    pub certificate: Option<String>,
    /// Path of the private key (PEM) of `certificate`.
    #[schemars(length(min = 1), extend("x-unset" = "none", "x-rule" = "needs `certificate` and `tls://`"))]
    pub key: Option<String>,
    /// Number of NATS servers that store the ledger, with `nats://` and `tls://`.
    #[schemars(range(min = 1, max = 3), extend("x-rule" = "1 or 3"))]
    pub replicas: u32,
    /// Number of partition servers that each partition is sent to. With 2, nothing is lost with one server.
    #[schemars(range(min = 1, max = 2), extend("x-rule" = "2 needs `num_partition_servers`"))]
    pub partition_replicas: u32,
    /// Whether to allow traffic to other machines without encryption and secret; only for networks that nobody else
    /// uses.
    pub insecure: bool,
}

impl Default for DistributedConfig {
    fn default() -> Self {
        Self {
            lease: 30.0,
            heartbeat: 2.0,
            patience: 600.0,
            ahead: None,
            sync_rounds: 100.0,
            sync_bytes: 1e9,
            ledger: LedgerChoice::Auto,
            nats_server: None,
            credentials: None,
            authority: None,
            certificate: None,
            key: None,
            replicas: 1,
            partition_replicas: 1,
            insecure: false,
        }
    }
}
