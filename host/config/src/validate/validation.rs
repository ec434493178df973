//! What validation between epochs needs.

use super::{Rules, top};

impl Rules<'_> {
    /// Nothing follows from ranks that nobody takes, and learning rates are lowered before the end.
    pub(super) fn validation(&mut self) {
        let rules = &self.config.validation;
        let key = |name: &str| top("validation").join(name);
        let missing = |given: bool| given && rules.edges.is_none();
        for (name, given) in [
            ("early_stop", missing(rules.early_stop.is_some())),
            ("lr_decay", missing(rules.lr_decay.is_some())),
        ] {
            if given {
                let message = "needs `validation.edges`, the edge set whose MRR it watches";
                self.blame([key(name), key("edges")], message);
            }
        }
        if let (Some(_), Some(patience)) = (rules.lr_decay, rules.early_stop)
            && rules.lr_patience >= patience
        {
            let message = format!(
                "must be less than `validation.early_stop`, {patience}: training would end before learning rates \
                 are lowered"
            );
            self.blame([key("lr_patience"), key("early_stop")], message);
        }
    }
}
