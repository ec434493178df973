//! Rules of runs with several trainers.

use super::{Validator, top};

impl Validator<'_> {
    /// Checks that several trainers have an address at which to meet, and that timeouts are consistent.
    pub(super) fn distributed(&mut self) {
        let config = self.config;
        if config.num_machines > 1 && config.distributed_init_method.is_none() {
            let message = format!(
                "is {}, but `distributed_init_method`, by which the trainers find each other, is not set; set it, for \
                 example to `file:///FOLDER/rendezvous` in a folder that all trainers share",
                config.num_machines
            );
            self.report([top("num_machines")], message);
        }
        let rules = &config.distributed;
        let key = |name| top("distributed").join(name);
        if rules.lease < 3.0 * rules.heartbeat {
            let message = format!(
                "must be at least three times `heartbeat` ({}), so that one late heartbeat does not expire it; is {}",
                rules.heartbeat, rules.lease
            );
            self.report([key("lease"), key("heartbeat")], message);
        }
        if rules.replicas == 2 {
            let message = "must be 1 or 3, is 2: two servers tolerate no more failures than one";
            self.report([key("replicas")], message.to_owned());
        }
    }
}
