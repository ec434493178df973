//! What a run of several trainers needs.

use super::{Rules, top};

impl Rules<'_> {
    /// A way for several trainers to find each other, and times that agree.
    pub(super) fn distributed(&mut self) {
        let config = self.config;
        if config.num_machines > 1 && config.distributed_init_method.is_none() {
            let message = format!(
                "is {}, but nothing says how the trainers find each other: set `distributed_init_method`, for example \
                 `file:///FOLDER/rendezvous` in a folder that all of them see",
                config.num_machines
            );
            self.blame([top("num_machines")], message);
        }
        let rules = &config.distributed;
        let key = |name| top("distributed").join(name);
        if rules.lease < 3.0 * rules.heartbeat {
            let message = format!(
                "must be at least three times `heartbeat` ({}), or one late sign of life ends a trainer's part; is {}",
                rules.heartbeat, rules.lease
            );
            self.blame([key("lease"), key("heartbeat")], message);
        }
        if rules.replicas == 2 {
            let message = "must be 1 or 3, is 2: two servers survive no more than one";
            self.blame([key("replicas")], message.to_owned());
        }
    }
}
