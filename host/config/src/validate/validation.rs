//! Rules of validation between epochs.

use super::{Validator, top};

impl Validator<'_> {
    /// Checks that `early_stop` and `lr_decay` have an edge set, and that learning rates decay before training stops
    /// early.
    pub(super) fn validation(&mut self) {
        let rules = &self.config.validation;
        let key = |name: &str| top("validation").join(name);
        let missing = |given: bool| given && rules.edges.is_none();
        for (name, given) in [
            ("early_stop", missing(rules.early_stop.is_some())),
            ("lr_decay", missing(rules.lr_decay.is_some())),
        ] {
            if given {
                let message = "needs `validation.edges`, the edge set whose MRR decides";
                self.report([key(name), key("edges")], message);
            }
        }
        if let (Some(_), Some(patience)) = (rules.lr_decay, rules.early_stop)
            && rules.lr_patience >= patience
        {
            let message = format!(
                "must be less than `validation.early_stop`, which is {patience}: otherwise training would end before \
                 learning rates are lowered"
            );
            self.report([key("lr_patience"), key("early_stop")], message);
        }
    }
}
