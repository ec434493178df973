//! Detection of plateaus in validation: early stopping, and decay of the learning rates.
//!
//! The decay follows Bengio, "Practical recommendations for gradient-based training of deep architectures" (2012),
//! section 3.1.

use serde::{Deserialize, Serialize};

/// Largest relative difference between the MRRs of the same ranks. Several trainers add them up in another order than a
/// single machine, and in yet another order when their number changes. An increase of up to this much is no
/// improvement.
const ROUNDING: f64 = 1e-12;

/// Rules for early stopping and the decay of the learning rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlateauRules {
    /// Number of rankings in a row without a higher MRR after which training ends.
    pub early_stop: Option<u32>,
    /// Factor of the learning rates after `lr_patience` rankings in a row without a higher MRR.
    pub lr_decay: Option<f32>,
    /// Number of rankings; see `lr_decay`.
    pub lr_patience: u32,
}

/// State of validation. It is part of a checkpoint, so that a resumed run makes the same decisions as an uninterrupted
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationState {
    /// Number of epochs trained at the last ranking; 0 before the first.
    pub seen: u32,
    /// Highest MRR.
    pub best_mrr: f64,
    /// Number of epochs trained at the highest MRR; 0 before the first ranking.
    pub best_epoch: u32,
    /// Number of rankings since the highest MRR.
    pub since_best: u32,
    /// Number of rankings since the highest MRR, or since the learning rates were last lowered.
    pub since_change: u32,
    /// Factor of the learning rates of the configuration.
    pub lr_factor: f32,
}

impl Default for ValidationState {
    fn default() -> Self {
        Self {
            seen: 0,
            best_mrr: 0.0,
            best_epoch: 0,
            since_best: 0,
            since_change: 0,
            lr_factor: 1.0,
        }
    }
}

impl ValidationState {
    /// Adds the MRR after `epochs` epochs. The learning rates are lowered after `lr_patience` rankings in a row that
    /// were not the best, and again after every further `lr_patience` of them.
    pub fn observe(&mut self, epochs: u32, mrr: f64, rules: &PlateauRules) {
        self.seen = epochs;
        if self.best_epoch == 0 || mrr > self.best_mrr * (1.0 + ROUNDING) {
            (self.best_mrr, self.best_epoch) = (mrr, epochs);
            (self.since_best, self.since_change) = (0, 0);
            return;
        }
        self.since_best += 1;
        self.since_change += 1;
        if let Some(decay) = rules.lr_decay
            && self.since_change >= rules.lr_patience
        {
            self.lr_factor *= decay;
            self.since_change = 0;
        }
    }

    /// Forgets the best ranking, because earlier ranks are not comparable with later ones. The next ranking becomes the
    /// best so far.
    pub fn forget_best(&mut self) {
        (self.best_mrr, self.best_epoch) = (0.0, 0);
        (self.since_best, self.since_change) = (0, 0);
    }

    /// Whether the last ranking was the best.
    #[must_use]
    pub fn is_best(&self) -> bool {
        self.seen > 0 && self.best_epoch == self.seen
    }

    /// Whether training should end before its last epoch: `early_stop` rankings in a row were not
    /// the best.
    #[must_use]
    pub fn ends(&self, rules: &PlateauRules) -> bool {
        rules
            .early_stop
            .is_some_and(|patience| self.since_best >= patience)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(early_stop: Option<u32>, lr_decay: Option<f32>) -> PlateauRules {
        PlateauRules {
            early_stop,
            lr_decay,
            lr_patience: 2,
        }
    }

    #[test]
    fn a_run_by_hand() {
        let rules = rules(Some(4), Some(0.5));
        let mut plateau = ValidationState::default();
        let mut told = Vec::new();
        for (epoch, mrr) in (1..).zip([0.1, 0.3, 0.2, 0.3, 0.31, 0.1, 0.1, 0.1, 0.1]) {
            plateau.observe(epoch, mrr, &rules);
            told.push((plateau.is_best(), plateau.lr_factor, plateau.ends(&rules)));
        }
        let expected = [
            (true, 1.0, false),
            (true, 1.0, false),
            (false, 1.0, false),
            // An MRR equal to the best is no improvement.
            (false, 0.5, false),
            (true, 0.5, false),
            (false, 0.5, false),
            (false, 0.25, false),
            (false, 0.25, false),
            (false, 0.125, true),
        ];
        assert_eq!(told, expected);
        assert_eq!((plateau.best_epoch, plateau.best_mrr), (5, 0.31));
    }

    #[test]
    fn ranks_that_were_added_in_another_order_are_no_better() {
        let mut plateau = ValidationState::default();
        let mrr = [0.1, 0.2, 0.3];
        plateau.observe(1, mrr[0] + (mrr[1] + mrr[2]), &rules(None, None));
        let other = (mrr[0] + mrr[1]) + mrr[2];
        assert!(other > plateau.best_mrr);
        plateau.observe(2, other, &rules(None, None));
        assert_eq!((plateau.best_epoch, plateau.since_best), (1, 1));
    }

    proptest! {
        #[test]
        fn it_ends_exactly_when_the_best_is_old(
            ranks in prop::collection::vec(0.0_f64..1.0, 1..30),
            patience in 1_u32..6,
        ) {
            let rules = rules(Some(patience), None);
            let mut plateau = ValidationState::default();
            for (index, &mrr) in ranks.iter().enumerate() {
                plateau.observe(index as u32 + 1, mrr, &rules);
                let (best, _) = ranks[..=index].iter().enumerate().fold(
                    (0, f64::MIN),
                    |(at, most), (i, &mrr)| if mrr > most { (i, mrr) } else { (at, most) },
                );
                prop_assert_eq!(plateau.best_epoch as usize, best + 1);
                prop_assert_eq!(plateau.ends(&rules), index - best >= patience as usize);
                prop_assert_eq!(plateau.lr_factor, 1.0);
            }
        }
    }
}
