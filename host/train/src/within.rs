//! Where in a bucket a run may be left, and from where it goes on.
//!
//! On a grid of one bucket that is all of a pass, so a run that is to stop does not train it to its end: every share of its
//! edges ends behind the batch that it trains. A checkpoint then has how many batches of each share are trained. The rest
//! follows from the seed: which edges these are, what was drawn for them, and, from the losses that it heard of, the state
//! of the relation sampler.

use std::sync::atomic::{AtomicBool, Ordering};

use pbg_config::Config;
use pbg_core::event::{IoStats, RankStats, TrainStats};
use pbg_core::graph::Bucket;
use pbg_core::model::Storage;
use pbg_core::schedule::Schedule;
use pbg_core::strategy::Draw;
use serde::{Deserialize, Serialize};

/// Most batches of single relations that a checkpoint remembers. A bucket of more is trained to its end.
const MOST_DRAWS: u64 = 1 << 18;

/// What each of them takes at most while it is written: itself, and the text of the manifest and its copies.
const DRAW_BYTES: u64 = Drawn::BYTES as u64 + 4 * 16;

/// Whether a run that is asked to stop ends behind the batch that it trains, even within a bucket: one machine does, where
/// no entity type that has edges is cut into partitions and embeddings are stored as they are in memory. Otherwise
/// the bucket comes to its end.
#[must_use]
pub fn stops_within_buckets(config: &Config) -> bool {
    let is_whole = |name: &String| {
        let found = config.entities.get(name);
        found.is_none_or(|entity| entity.num_partitions <= 1)
    };
    // What is rounded behind its bucket has no state within it that could be stored.
    config.storage == Storage::F32
        && config.distributed_init_method.is_none()
        && config
            .relations
            .iter()
            .all(|relation| is_whole(&relation.lhs) && is_whole(&relation.rhs))
}

/// What a bucket of `edges` edges in batches of single relations takes of memory, so that it can be left.
pub(crate) fn draw_bytes(edges: u64) -> u64 {
    edges.min(MOST_DRAWS) * DRAW_BYTES
}

/// A bucket that was left before its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Within {
    /// Which.
    pub(crate) bucket: Bucket,
    /// Its edges, cut as they were when its training began.
    pub(crate) shares: Vec<Share>,
    /// What training it gave so far.
    pub(crate) sums: BucketSums,
}

/// Sums over a part of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BucketSums {
    pub(crate) stats: TrainStats,
    /// Quality on its held-out edges before any of it was trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) eval_before: Option<RankStats>,
    pub(crate) io: IoStats,
    pub(crate) seconds: f64,
    /// Seconds that a worker spent asking the relation sampler.
    pub(crate) sampler: f64,
}

/// How much of the edges is trained that one worker trains, or several that train every batch together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Batches that are trained, its first ones.
    pub(crate) batches: u64,
    /// Whether they are all there are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) done: bool,
    /// What each was, where they are of single relations. Nobody asks that of a share that is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "draws")]
    pub(crate) draws: Vec<Drawn>,
}

/// A batch of a single relation that is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drawn {
    /// What the sampler drew.
    pub(crate) draw: Draw,
    /// The mean loss that it heard of then.
    pub(crate) loss: f32,
}

impl Drawn {
    const BYTES: usize = 12;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let Draw { relation, edges } = self.draw;
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
            draw: Draw {
                relation: word(0),
                edges: word(1),
            },
            loss: f32::from_bits(word(2)),
        }
    }
}

/// Batches as text: JSON would take a line for each number.
mod draws {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Drawn;

    pub(super) fn serialize<S: Serializer>(draws: &[Drawn], to: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = draws.iter().flat_map(|drawn| drawn.to_bytes()).collect();
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Drawn>, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        match bytes.as_chunks() {
            (draws, []) => Ok(draws.iter().map(Drawn::from_bytes).collect()),
            (_, rest) => Err(D::Error::custom(format!(
                "{} bytes are no batch",
                rest.len()
            ))),
        }
    }
}

impl Within {
    /// Whether a run may go on from there whose schedule is `schedule`; what keeps it from that, otherwise.
    pub(crate) fn check(&self, schedule: &Schedule) -> Result<(), String> {
        if schedule.plan() != [self.bucket] || schedule.done() > 0 {
            return Err(format!("bucket {} is not the one to train", self.bucket));
        }
        match self.shares.is_empty() {
            true => Err(format!("bucket {} has no shares", self.bucket)),
            false => Ok(()),
        }
    }
}

/// From where to where a bucket is trained.
#[derive(Debug, Default)]
pub(crate) struct Span<'a> {
    /// Where it was left before.
    pub(crate) from: Option<Within>,
    /// Once this is set it is left again; without, it is trained to its end.
    pub(crate) stop: Option<&'a AtomicBool>,
}

impl Span<'_> {
    /// Whether the bucket is to be left.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// What is trained of it before.
    pub(crate) fn trained(&self) -> TrainStats {
        let from = self.from.as_ref();
        from.map_or_else(TrainStats::default, |within| within.sums.stats)
    }

    /// Its shares as they are trained so far, one for each of `teams` where nothing is.
    pub(crate) fn shares(&self, teams: usize) -> Vec<Share> {
        let shares = self.from.as_ref().map(|within| &within.shares);
        match shares.filter(|shares| shares.iter().any(|share| share.batches > 0)) {
            Some(shares) => shares.clone(),
            None => vec![Share::default(); teams],
        }
    }

    /// Most batches that each of `shares` shares remembers.
    pub(crate) fn most_draws(&self, shares: usize) -> usize {
        MOST_DRAWS as usize / shares.max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn() -> impl Strategy<Value = Drawn> {
        any::<(u32, u32, f32)>().prop_map(|(relation, edges, loss)| Drawn {
            draw: Draw { relation, edges },
            loss,
        })
    }

    proptest! {
        #[test]
        fn what_is_remembered_of_batches_comes_back_to_the_bit(
            draws in proptest::collection::vec(drawn(), 0..40), done in any::<bool>(),
        ) {
            let share = Share { batches: draws.len() as u64, done, draws };
            let text = serde_json::to_string(&share).unwrap();
            prop_assert_eq!(share.draws.is_empty(), !text.contains("draws"));
            prop_assert_eq!(serde_json::from_str::<Share>(&text).unwrap(), share);
        }
    }

    #[test]
    fn text_that_is_no_batches_is_refused() {
        for draws in ["AAAA", "%", "AAAAAAAAAAAAAAAAAAAA"] {
            let text = format!(r#"{{"batches": 1, "draws": "{draws}"}}"#);
            assert!(serde_json::from_str::<Share>(&text).is_err(), "{draws}");
        }
    }

    #[test]
    fn a_position_that_cannot_be_is_refused() {
        let bucket = Bucket::new(0, 0);
        let within = |shares| Within {
            bucket,
            shares: vec![Share::default(); shares],
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
