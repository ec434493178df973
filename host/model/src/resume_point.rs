//! Interruption of a run within a bucket, and the point from which it resumes.
//!
//! On a grid of one bucket, the bucket is the whole pass, so a run that is asked to stop does not finish it: every
//! share of its edges ends after the batch that is being trained. The checkpoint contains the number of trained batches
//! of each share. Everything else follows from the seed: the edges of these batches, the negatives drawn for them, and,
//! together with the losses that it observed, the state of the relation sampler.

use std::sync::atomic::{AtomicBool, Ordering};

use pbg_config::Config;
use pbg_core::event::{PartitionIo, RankStats, TrainStats};
use pbg_core::graph::Bucket;
use pbg_core::model::EmbeddingFormat;
use pbg_core::schedule::Schedule;
use pbg_core::strategy::RelationDraw;
use serde::{Deserialize, Serialize};

/// Largest number of single-relation batches that a checkpoint records. A bucket with more batches is not interrupted.
const MOST_DRAWS: u64 = 1 << 18;

/// Upper bound of the memory for each recorded batch while it is written: the record, the text of the manifest, and its
/// copies.
const DRAW_BYTES: u64 = TrainedBatch::BYTES as u64 + 4 * 16;

/// Whether a run that is asked to stop ends after the current batch, even within a bucket. This holds for a single
/// trainer if no entity type with edges is partitioned and embeddings are stored in the precision that they have in
/// memory. Otherwise the bucket is trained to its end.
#[must_use]
pub fn stops_within_buckets(config: &Config) -> bool {
    let is_whole = |name: &String| {
        let found = config.entities.get(name);
        found.is_none_or(|entity| entity.num_partitions <= 1)
    };
    // Other formats round embeddings when the bucket ends. Within a bucket, a checkpoint could not store their exact
    // values.
    let mut ends = config.relations.iter().flat_map(|r| [&r.lhs, &r.rhs]);
    config.storage == EmbeddingFormat::F32 && !config.is_distributed() && ends.all(is_whole)
}

/// Returns the memory for recording the single-relation batches of a bucket of `edges` edges, so that it can be
/// interrupted.
pub fn draw_bytes(edges: u64) -> u64 {
    edges.min(MOST_DRAWS) * DRAW_BYTES
}

/// Bucket that was interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterruptedBucket {
    /// The bucket.
    pub bucket: Bucket,
    /// Progress in the shares into which its edges were divided when its training began.
    pub shares: Vec<ShareProgress>,
    /// Sums over the trained part of the bucket.
    pub sums: BucketSums,
}

/// Sums over a part of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketSums {
    /// Trained edges and their losses.
    pub stats: TrainStats,
    /// Ranks of its held-out edges before its training began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_before: Option<RankStats>,
    /// Partitions read and written.
    pub io: PartitionIo,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds that a worker spent on calls of the relation sampler.
    pub sampler: f64,
}

/// Progress in the edges of one worker, or of a team of workers that train every batch together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareProgress {
    /// Number of trained batches, from the start of the share.
    pub batches: u64,
    /// Whether all batches are trained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// Record of each trained batch, if batches have a single relation. Empty once the share is done, because no
    /// batches remain to be drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "draws")]
    pub draws: Vec<TrainedBatch>,
}

/// Trained batch of a single relation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainedBatch {
    /// Draw of the sampler.
    pub draw: RelationDraw,
    /// Mean loss, as the sampler observed it.
    pub loss: f32,
}

impl TrainedBatch {
    const BYTES: usize = 12;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let RelationDraw { relation, edges } = self.draw;
        let mut bytes = [0; Self::BYTES];
        let words = [relation, edges, self.loss.to_bits()];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |index: usize| u32::from_le_bytes(bytes.as_chunks().0[index]);
        Self {
            draw: RelationDraw {
                relation: word(0),
                edges: word(1),
            },
            loss: f32::from_bits(word(2)),
        }
    }
}

/// Encoding of batches as one Base64 string. As JSON numbers, each would have a line of its own in the manifest.
mod draws {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::TrainedBatch;

    pub(super) fn serialize<S: Serializer>(
        draws: &[TrainedBatch],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = draws.iter().flat_map(|drawn| drawn.to_bytes()).collect();
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<TrainedBatch>, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        match bytes.as_chunks() {
            (draws, []) => Ok(draws.iter().map(TrainedBatch::from_bytes).collect()),
            (_, rest) => Err(D::Error::custom(format!(
                "{} trailing bytes are not a complete batch",
                rest.len()
            ))),
        }
    }
}

impl InterruptedBucket {
    /// Checks that a run with this `schedule` can resume here.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&self, schedule: &Schedule) -> Result<(), String> {
        let bucket = self.bucket;
        if schedule.plan() != [bucket] || schedule.done() > 0 {
            return Err(format!(
                "bucket {bucket} was interrupted, but it is not the only bucket to train"
            ));
        }
        match self.shares.is_empty() {
            true => Err(format!("bucket {bucket} has no shares")),
            false => Ok(()),
        }
    }
}

/// Range of a bucket's batches to train.
#[derive(Debug, Default)]
pub struct BatchRange<'a> {
    /// Point at which the bucket was interrupted by an earlier run; `None` to train it from the beginning.
    pub from: Option<InterruptedBucket>,
    /// Flag that interrupts the bucket when it is true. If `None`, the bucket is trained to its end.
    pub stop: Option<&'a AtomicBool>,
}

impl BatchRange<'_> {
    /// Returns whether the bucket must be interrupted now.
    pub fn is_interrupted(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Returns the sums over the part that was trained before.
    pub fn trained(&self) -> TrainStats {
        let from = self.from.as_ref();
        from.map_or_else(TrainStats::default, |within| within.sums.stats)
    }

    /// Returns the shares with their progress: one new share for each of `teams` if nothing is trained yet.
    pub fn shares(&self, teams: usize) -> Vec<ShareProgress> {
        let shares = self.from.as_ref().map(|within| &within.shares);
        match shares.filter(|shares| shares.iter().any(|share| share.batches > 0)) {
            Some(shares) => shares.clone(),
            None => vec![ShareProgress::default(); teams],
        }
    }

    /// Returns the largest number of batches that each of `shares` shares records.
    pub fn most_draws(&self, shares: usize) -> usize {
        MOST_DRAWS as usize / shares.max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn() -> impl Strategy<Value = TrainedBatch> {
        any::<(u32, u32, f32)>().prop_map(|(relation, edges, loss)| TrainedBatch {
            draw: RelationDraw { relation, edges },
            loss,
        })
    }

    proptest! {
        #[test]
        fn what_is_remembered_of_batches_comes_back_to_the_bit(
            draws in proptest::collection::vec(drawn(), 0..40), done in any::<bool>(),
        ) {
            let share = ShareProgress { batches: draws.len() as u64, done, draws };
            let text = serde_json::to_string(&share).unwrap();
            prop_assert_eq!(share.draws.is_empty(), !text.contains("draws"));
            prop_assert_eq!(serde_json::from_str::<ShareProgress>(&text).unwrap(), share);
        }
    }

    #[test]
    fn text_that_is_no_batches_is_refused() {
        for draws in ["AAAA", "%", "AAAAAAAAAAAAAAAAAAAA"] {
            let text = format!(r#"{{"batches": 1, "draws": "{draws}"}}"#);
            assert!(
                serde_json::from_str::<ShareProgress>(&text).is_err(),
                "{draws}"
            );
        }
    }

    #[test]
    fn a_position_that_cannot_be_is_refused() {
        let bucket = Bucket::new(0, 0);
        let within = |shares| InterruptedBucket {
            bucket,
            shares: vec![ShareProgress::default(); shares],
            sums: BucketSums::default(),
        };
        let mut schedule = Schedule::new();
        assert!(within(3).check(&schedule).is_err(), "nothing is planned");
        schedule.set_plan(vec![bucket]);
        assert_eq!(within(3).check(&schedule), Ok(()));
        assert!(within(0).check(&schedule).is_err());
        schedule.set_plan(vec![bucket, Bucket::new(0, 1)]);
        assert!(within(3).check(&schedule).is_err());
    }
}
