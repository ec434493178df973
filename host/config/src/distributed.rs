//! `[distributed]`: how the trainers of one run keep in touch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default;

/// How the trainers of one run keep in touch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DistributedConfig {
    /// Seconds of silence after which others take a trainer for dead, and train its buckets again.
    #[serde(default = "default::lease")]
    #[schemars(range(min = 1, max = 86_400), extend("x-rule" = "at least three times `heartbeat`"))]
    pub lease: f64,
    /// Seconds between two signs of life.
    #[serde(default = "default::heartbeat")]
    #[schemars(range(min = 0.05, max = 3600))]
    pub heartbeat: f64,
    /// Seconds that a trainer waits for a ledger that does not answer, and for others to appear, before it gives up.
    #[serde(default = "default::patience")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub patience: f64,
    /// Take the next bucket when the current one starts, so that its partitions load meanwhile.
    #[serde(default)]
    #[schemars(extend("x-unset" = "where there are at least four partitions for each trainer"))]
    pub ahead: Option<bool>,
    /// Most exchanges of shared parameters per second.
    #[serde(default = "default::sync_rounds")]
    #[schemars(range(min = 0.01, max = 10_000))]
    pub sync_rounds: f64,
    /// Most bytes of shared parameters that a trainer sends and gets per second, on average.
    #[serde(default = "default::sync_bytes")]
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub sync_bytes: f64,
    /// The program `nats-server`, which rank 0 starts with `file://`, `tcp://` and `env://`.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "looked for beside the program, in `.deps/nats` and in `PATH`"))]
    pub nats_server: Option<String>,
    /// File of credentials for `nats://` and `tls://`.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "none; the environment variable `PBG_HOST_SECRET` is sent as token"))]
    pub credentials: Option<String>,
    /// On how many NATS servers the ledger lies, with `nats://` and `tls://`.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 1, max = 3), extend("x-rule" = "1 or 3"))]
    pub replicas: u32,
    /// Allow traffic to other machines without encryption and secret: where nobody else is on that network.
    #[serde(default)]
    pub insecure: bool,
}

impl Default for DistributedConfig {
    fn default() -> Self {
        Self {
            lease: default::lease(),
            heartbeat: default::heartbeat(),
            patience: default::patience(),
            ahead: None,
            sync_rounds: default::sync_rounds(),
            sync_bytes: default::sync_bytes(),
            nats_server: None,
            credentials: None,
            replicas: default::replicas(),
            insecure: false,
        }
    }
}
