//! Sums over ranks, from which the means in [`RankStats`] are computed.

use serde::{Deserialize, Serialize};

use super::RankStats;

/// Greatest ranks that count as hits.
const HITS: [f64; 4] = [1.0, 3.0, 10.0, 50.0];
/// Most edges that can be ranked, so that sums of counts do not overflow.
const MOST_EDGES: u64 = 1 << 48;

/// Sums over the ranks of some edges on one side. The serialized field names are short, because the ledger contains
/// many of these sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankTotals {
    /// Number of edges.
    #[serde(rename = "n")]
    pub count: u64,
    /// Sum of the ranks.
    #[serde(rename = "r")]
    pub rank: f64,
    /// Sum of the reciprocal ranks.
    #[serde(rename = "m")]
    pub mrr: f64,
    /// Numbers of ranks that are at most 1, 3, 10 and 50.
    #[serde(rename = "h")]
    pub hits: [u64; 4],
    /// Sum of the fractions of candidates ranked below the true entity.
    #[serde(rename = "a")]
    pub auc: f64,
}

impl RankTotals {
    /// Adds the rank of an edge's true entity among `candidates` other entities.
    pub fn add_rank(&mut self, rank: f64, candidates: u64) {
        self.count += 1;
        self.rank += rank;
        self.mrr += 1.0 / rank;
        for (hits, most) in self.hits.iter_mut().zip(HITS) {
            *hits += u64::from(rank <= most);
        }
        self.auc += match candidates {
            0 => 1.0,
            _ => 1.0 - (rank - 1.0) / candidates as f64,
        };
    }

    /// Adds the ranks of other edges. The last digits of the sums depend on the order.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.rank += other.rank;
        self.mrr += other.mrr;
        for (hits, more) in self.hits.iter_mut().zip(other.hits) {
            *hits += more;
        }
        self.auc += other.auc;
    }

    /// Whether ranks with these sums can exist; used to check sums that were read.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let count = self.count as f64;
        // Comparisons with NaN are false.
        self.count <= MOST_EDGES
            && self.rank >= count
            && self.rank.is_finite()
            && (0.0..=count).contains(&self.mrr)
            && (0.0..=count).contains(&self.auc)
            && self.hits.is_sorted()
            && self.hits[3] <= self.count
    }

    /// Returns the means, without a loss.
    #[must_use]
    pub fn means(&self) -> RankStats {
        let mean = |sum: f64| sum / self.count.max(1) as f64;
        let [at_1, at_3, at_10, at_50] = self.hits.map(|hits| mean(hits as f64));
        RankStats {
            count: self.count,
            loss: None,
            mean_rank: mean(self.rank),
            mrr: mean(self.mrr),
            hits_at_1: at_1,
            hits_at_3: at_3,
            hits_at_10: at_10,
            hits_at_50: at_50,
            auc: mean(self.auc),
        }
    }

    /// Returns the means over both sides of the same edges.
    #[must_use]
    pub fn of_both(lhs: &Self, rhs: &Self) -> RankStats {
        RankStats {
            count: lhs.count,
            ..lhs.means().merge(&rhs.means())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn totals(ranks: &[u64]) -> RankTotals {
        let mut totals = RankTotals::default();
        for rank in ranks {
            // In halves, because ties count as the average rank.
            totals.add_rank(1.0 + *rank as f64 / 2.0, 50);
        }
        totals
    }

    proptest! {
        #[test]
        fn sums_of_parts_are_those_of_the_whole(
            ranks in prop::collection::vec(0..100_u64, 1..60),
            cut in 0..60_usize,
        ) {
            let (first, second) = ranks.split_at(cut.min(ranks.len()));
            let whole = totals(&ranks);
            let mut parts = totals(first);
            parts.add(&totals(second));
            prop_assert!(parts.is_possible() && whole.is_possible());
            prop_assert_eq!((parts.count, parts.rank, parts.hits), (whole.count, whole.rank, whole.hits));
            prop_assert!((parts.mrr - whole.mrr).abs() < 1e-12 && (parts.auc - whole.auc).abs() < 1e-12);
            let means = whole.means();
            prop_assert!(means.mean_rank >= 1.0 && means.hits_at_1 <= means.hits_at_50);
            let text = serde_json::to_string(&whole).unwrap();
            prop_assert_eq!(serde_json::from_str::<RankTotals>(&text).unwrap(), whole);
        }
    }

    #[test]
    fn impossible_sums_are_recognised() {
        let good = totals(&[0, 4, 9]);
        for wrong in [
            RankTotals { rank: 2.0, ..good },
            RankTotals {
                mrr: f64::NAN,
                ..good
            },
            RankTotals { mrr: 3.5, ..good },
            RankTotals { auc: -0.1, ..good },
            RankTotals {
                hits: [1, 0, 3, 3],
                ..good
            },
            RankTotals {
                hits: [0, 0, 0, 4],
                ..good
            },
        ] {
            assert!(!wrong.is_possible(), "{wrong:?}");
        }
        assert!(RankTotals::default().is_possible());
    }
}
