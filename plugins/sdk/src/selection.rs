//! Interface of negative selectors.

use crate::{Metadata, Parameters, Result, Side};

/// Negative selector: chooses the negatives of every chunk of a batch, as code. For choices that follow the model while it
/// is trained; a choice that does not is a [`NegativeSampler`](crate::NegativeSampler), which costs nothing while a batch
/// is trained.
///
/// The host draws candidates uniformly, scores them with the current model if the plugin requires it, and asks for each
/// chunk and each side that is replaced.
///
/// ```
/// use pbg_plugin_sdk::{
///     Metadata, NegativeChunk, NegativeSelection, NegativeSelector, Result, SelectionRequirements,
///     export_negative_selector,
/// };
///
/// /// Draws candidates in proportion to the exponential of their mean scores.
/// #[derive(Default)]
/// struct Adversarial;
///
/// impl NegativeSelector for Adversarial {
///     fn metadata() -> Metadata {
///         Metadata::new("adversarial", "0.1.0", "Candidates in proportion to the exponential of their scores.")
///     }
///
///     fn required(&self) -> SelectionRequirements {
///         SelectionRequirements { candidates_per_negative: 4, scores: true }
///     }
///
///     fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection> {
///         let scores = chunk.scores.as_ref().ok_or("scores are required")?;
///         let highest = scores.means.iter().copied().fold(f32::MIN, f32::max);
///         // At least the smallest weight, so that every candidate can be drawn.
///         let weight = |score: &f32| (score - highest).exp().max(f32::MIN_POSITIVE);
///         Ok(NegativeSelection::Weights(scores.means.iter().map(weight).collect()))
///     }
/// }
///
/// export_negative_selector!(Adversarial);
/// # fn main() {
///
/// // The same type runs natively: test and debug it without a sandbox.
/// let chunk = NegativeChunk::example(1);
/// assert!(matches!(Adversarial.select(&chunk), Ok(NegativeSelection::Weights(_))));
/// # pbg_plugin_sdk::testing::assert_negative_selector::<Adversarial>();
/// # }
/// ```
pub trait NegativeSelector: Default + 'static {
    /// Returns name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`NegativeSelector::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If the values do not fit together; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Returns what [`select`](NegativeSelector::select) needs.
    fn required(&self) -> SelectionRequirements;

    /// Returns the negatives of a chunk. It must be the same for the same arguments: each worker has its own instance, and
    /// a resumed run continues with new ones.
    ///
    /// # Errors
    /// If there is no selection; the text is shown to the user.
    fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection>;
}

/// What a selection needs. The host draws and computes only this.
///
/// ```
/// let required = pbg_plugin_sdk::SelectionRequirements { candidates_per_negative: 4, scores: true };
/// assert!(required.scores);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectionRequirements {
    /// Number of candidates for each negative that is selected, from 1 to 64.
    pub candidates_per_negative: u32,
    /// Whether candidates are scored: [`NegativeChunk::scores`]. Needs training on the processor cores.
    pub scores: bool,
}

/// Edges that share negatives, and the entities that may replace one of their sides. Entities are numbered from 0 within
/// their partition.
///
/// ```
/// let chunk = pbg_plugin_sdk::NegativeChunk::example(7);
/// assert!(chunk.candidates.iter().all(|&entity| entity < chunk.entities));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NegativeChunk {
    /// Side of the edges that is replaced.
    pub side: Side,
    /// Entity type of this side.
    pub entity_type: String,
    /// Number of the partition of this side.
    pub partition: u32,
    /// Number of entities in this partition; at least 1.
    pub entities: u32,
    /// Number of the partition of the other side.
    pub kept_partition: u32,
    /// Relation of each edge: its index in the dataset.
    pub relations: Vec<u32>,
    /// Entity of each edge on the other side, which is kept.
    pub kept: Vec<u32>,
    /// Entity of each edge on the side that is replaced.
    pub replaced: Vec<u32>,
    /// Entities drawn uniformly and independently: one may occur several times, and an entity of `replaced` may be among
    /// them.
    pub candidates: Vec<u32>,
    /// Scores, if [`SelectionRequirements::scores`].
    pub scores: Option<CandidateScores>,
    /// Number of negatives to select; at least 1.
    pub negatives: u32,
    /// Epoch, counted from 0.
    pub epoch: u32,
    /// Edge set within the epoch, counted from 0.
    pub edge_set: u32,
    /// Edge chunk within the edge set, counted from 0.
    pub edge_chunk: u32,
    /// Seed for everything random in this selection.
    pub seed: u64,
}

impl NegativeChunk {
    /// Returns a chunk for tests: 5 edges, 10 negatives and 40 scored candidates of 100 entities, all of which follow from
    /// `seed`.
    ///
    /// ```
    /// # use pbg_plugin_sdk::NegativeChunk;
    /// assert_eq!(NegativeChunk::example(1), NegativeChunk::example(1));
    /// assert_ne!(NegativeChunk::example(1), NegativeChunk::example(2));
    /// ```
    #[must_use]
    pub fn example(seed: u64) -> Self {
        let mut rng = crate::Rng::new(seed);
        let mut entities =
            |count: usize| -> Vec<u32> { (0..count).map(|_| rng.below(100) as u32).collect() };
        let [kept, replaced] = [entities(5), entities(5)];
        let candidates = entities(40);
        let mut score = || 4.0 * rng.unit() as f32 - 2.0;
        let means: Vec<f32> = candidates.iter().map(|_| score()).collect();
        let highest = means.iter().map(|mean| mean + 1.0).collect();
        let positives = kept.iter().map(|_| score() + 2.0).collect();
        Self {
            side: Side::Rhs,
            entity_type: "entity".to_owned(),
            partition: 0,
            entities: 100,
            kept_partition: 0,
            relations: vec![0; 5],
            kept,
            replaced,
            candidates,
            scores: Some(CandidateScores {
                positives,
                means,
                highest,
            }),
            negatives: 10,
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
            seed,
        }
    }
}

/// Scores of a chunk's edges and candidates by the model as it is before the batch. All are finite.
///
/// ```
/// let scores = pbg_plugin_sdk::NegativeChunk::example(7).scores.unwrap();
/// assert_eq!(scores.means.len(), scores.highest.len());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateScores {
    /// Score of each edge.
    pub positives: Vec<f32>,
    /// Mean score of each candidate over the edges of the chunk, without those that have the candidate itself on the side
    /// that is replaced; -1e9 if all have it.
    pub means: Vec<f32>,
    /// Highest of these scores; -1e9 if there are none.
    pub highest: Vec<f32>,
}

/// The negatives of a chunk.
///
/// ```
/// # use pbg_plugin_sdk::NegativeSelection;
/// assert_ne!(NegativeSelection::Entities(vec![1]), NegativeSelection::Weights(vec![1.0]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum NegativeSelection {
    /// The entities themselves: as many as [`NegativeChunk::negatives`], each below [`NegativeChunk::entities`].
    Entities(Vec<u32>),
    /// Weight of each candidate, at least 0 and finite, not all 0. The host draws without replacement, in proportion to the
    /// weights. If fewer candidates than negatives have a weight above 0, it begins again with all of them.
    Weights(Vec<f32>),
}

/// Exports a [`NegativeSelector`] as the component of this crate, like [`export_order!`](crate::export_order).
/// See [`NegativeSelector`] for an example.
#[macro_export]
macro_rules! export_negative_selector {
    ($selector:ty) => {
        const _: fn() -> $crate::Metadata = <$selector as $crate::NegativeSelector>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__negative_selector_component!($selector);
        };
    };
}
