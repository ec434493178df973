//! Sums of losses and metrics over the edges of a batch.

use pbg_core::graph::Side;

/// Sums over the edges of one batch, from training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchStats {
    /// Number of edges.
    pub count: usize,
    /// Weighted loss of the negatives that replace the left side.
    pub loss_lhs: f64,
    /// Weighted loss of the negatives that replace the right side.
    pub loss_rhs: f64,
    /// Weighted loss of relation prediction.
    pub loss_relations: f64,
    /// Value of the regularizer.
    pub reg: f64,
    /// Number of negatives that replace the left side and score above their positive.
    pub violators_lhs: u64,
    /// Number of negatives that replace the right side and score above their positive.
    pub violators_rhs: u64,
}

impl BatchStats {
    /// Returns the loss of both sides, without relation prediction and the regularizer.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.loss_lhs + self.loss_rhs
    }

    /// Adds the loss and the violators of a slice, compared with negatives that replace `side`.
    pub(crate) fn add(&mut self, side: Side, loss: f64, violators: u64) {
        match side {
            Side::Lhs => {
                (self.loss_lhs, self.violators_lhs) =
                    (self.loss_lhs + loss, self.violators_lhs + violators)
            }
            Side::Rhs => {
                (self.loss_rhs, self.violators_rhs) =
                    (self.loss_rhs + loss, self.violators_rhs + violators)
            }
        }
    }
}

impl std::ops::Add for BatchStats {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::ops::AddAssign for BatchStats {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.loss_lhs += other.loss_lhs;
        self.loss_rhs += other.loss_rhs;
        self.loss_relations += other.loss_relations;
        self.reg += other.reg;
        self.violators_lhs += other.violators_lhs;
        self.violators_rhs += other.violators_rhs;
    }
}

/// Metrics of one batch, summed over its edges; for each, the mean of the two sides.
///
/// A side without negatives does not enter the mean. Division by `count` gives means per edge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvalStats {
    /// Number of edges.
    pub count: usize,
    /// Weighted loss: the sum, not the mean, of the two sides, as in training.
    pub loss: f64,
    /// Rank of the positive among itself and its negatives: 1 plus the negatives above it plus half of those with the
    /// same score (which PBG counts in full).
    pub pos_rank: f64,
    /// Reciprocal ranks.
    pub mrr: f64,
    /// Positives with a rank of at most 1.
    pub r1: f64,
    /// Positives with a rank of at most 3.
    pub r3: f64,
    /// Positives with a rank of at most 10.
    pub r10: f64,
    /// Positives with a rank of at most 50.
    pub r50: f64,
    /// Probability that a positive of the batch scores above a negative of the batch, times the number of edges;
    /// estimated from one negative per positive.
    pub auc: f64,
}

impl std::ops::AddAssign for EvalStats {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.loss += other.loss;
        self.pos_rank += other.pos_rank;
        self.mrr += other.mrr;
        self.r1 += other.r1;
        self.r3 += other.r3;
        self.r10 += other.r10;
        self.r50 += other.r50;
        self.auc += other.auc;
    }
}

impl EvalStats {
    /// Adds the metrics of an edge whose positive has `above` negatives above it and `equal` negatives with its score.
    pub(super) fn rank(&mut self, above: u32, equal: u32) {
        let rank = 1.0 + f64::from(above) + f64::from(equal) / 2.0;
        self.pos_rank += rank;
        self.mrr += 1.0 / rank;
        self.r1 += f64::from(u8::from(rank <= 1.0));
        self.r3 += f64::from(u8::from(rank <= 3.0));
        self.r10 += f64::from(u8::from(rank <= 10.0));
        self.r50 += f64::from(u8::from(rank <= 50.0));
    }

    /// Halves each metric except the count and the loss, which turns the sum of two sides into their mean.
    pub(super) fn halve(&mut self) {
        for metric in [
            &mut self.pos_rank,
            &mut self.mrr,
            &mut self.r1,
            &mut self.r3,
            &mut self.r10,
            &mut self.r50,
            &mut self.auc,
        ] {
            *metric /= 2.0;
        }
    }
}
