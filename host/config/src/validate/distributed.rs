//! Rules of runs with several trainers.

use std::path::Path;

use pbg_files::remote;

use super::{Validator, top};
use crate::LedgerChoice;

/// Shortest lease in seconds of trainers that look for heartbeats in an object store.
const MIN_POLLED_LEASE: f64 = 5.0;

impl Validator<'_> {
    /// Checks that several trainers have an address at which to meet, and that timeouts are consistent.
    pub(super) fn distributed(&mut self) {
        let config = self.config;
        if config.num_machines > 1 && !config.is_distributed() {
            let message = format!(
                "is {}, but `distributed_init_method`, by which the trainers find each other, is not set; set it, for \
                 example to `file:///FOLDER/rendezvous` in a folder that all trainers share, or train into an object store",
                config.num_machines
            );
            self.report([top("num_machines")], message);
        }
        self.partition_servers();
        let rules = &config.distributed;
        let key = |name| top("distributed").join(name);
        if rules.lease < 3.0 * rules.heartbeat {
            let message = format!(
                "must be at least three times `heartbeat` ({}), so that one late heartbeat does not expire it; is {}",
                rules.heartbeat, rules.lease
            );
            self.report([key("lease"), key("heartbeat")], message);
        }
        let is_url = remote::as_url(Path::new(&config.checkpoint_path)).is_some();
        if rules.ledger == LedgerChoice::Store && !is_url {
            let message = format!(
                "is `store`, but `checkpoint_path` is not in an object store: {}; set it to a URL such as \
                 `s3://BUCKET/FOLDER`, or `ledger` to `nats`",
                config.checkpoint_path
            );
            self.report([key("ledger"), top("checkpoint_path")], message);
        }
        if rules.ledger == LedgerChoice::Nats && config.distributed_init_method.is_none() {
            let message = "is `nats`, but `distributed_init_method`, which names the NATS server, is not set; set it, or \
                           leave `ledger` out";
            self.report(
                [key("ledger"), top("distributed_init_method")],
                message.to_owned(),
            );
        }
        let is_polled = config.distributed_init_method.is_none() && config.is_distributed();
        if is_polled && rules.lease < MIN_POLLED_LEASE {
            let message = format!(
                "must be at least {MIN_POLLED_LEASE} if trainers look for each other in the object store, which they do \
                 once a second; is {}",
                rules.lease
            );
            self.report([key("lease")], message);
        }
        if rules.replicas == 2 {
            let message = "must be 1 or 3, is 2: two servers tolerate no more failures than one";
            self.report([key("replicas")], message.to_owned());
        }
    }

    /// Checks that partition servers have a run to serve, and enough of them are there.
    fn partition_servers(&mut self) {
        let config = self.config;
        let (servers, replicas) = (
            config.num_partition_servers,
            config.distributed.partition_replicas,
        );
        let replicas_key = top("distributed").join("partition_replicas");
        if servers != 0 && !config.is_distributed() {
            let message = format!(
                "is {servers}, but partition servers are for distributed runs, and `distributed_init_method` is not set; set \
                 it, or leave `num_partition_servers` out"
            );
            self.report([top("num_partition_servers")], message);
        }
        if replicas > 1 && (servers == 0 || servers == 1) {
            let message = format!(
                "is {replicas}, but `num_partition_servers` is {servers}: each replica is on a server of its own; set \
                 `num_partition_servers` to -1 or to at least {replicas}"
            );
            self.report([replicas_key, top("num_partition_servers")], message);
        }
    }
}
