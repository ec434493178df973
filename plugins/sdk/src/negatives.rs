//! Interface of negative samplers.

use crate::{Metadata, Parameters, Result, Side};

/// Negative sampler: decides from which entities negatives are drawn. It returns a distribution; the host draws from it.
///
/// The host asks for a distribution once per pass, for every relation and side and every partition that it trains.
///
/// ```
/// use pbg_plugin_sdk::{
///     CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler, RequiredData, Result,
///     export_negatives,
/// };
///
/// /// Draws each entity as often as the edges have it on the replaced side.
/// #[derive(Default)]
/// struct ByDegree;
///
/// impl NegativeSampler for ByDegree {
///     fn metadata() -> Metadata {
///         Metadata::new("by_degree", "0.1.0", "Entities in proportion to their edges.")
///     }
///
///     fn required(&self) -> RequiredData {
///         RequiredData { side_counts: true, ..RequiredData::default() }
///     }
///
///     fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
///         Ok(vec![DistributionPart::new(1.0, CandidateWeights::of_side(1.0))])
///     }
/// }
///
/// export_negatives!(ByDegree);
/// # fn main() {
///
/// // The same type runs natively: test and debug it without a sandbox.
/// let candidates = NegativeCandidates::example();
/// assert_eq!(ByDegree.distribution(&candidates).unwrap().len(), 1);
/// # pbg_plugin_sdk::testing::assert_negatives::<ByDegree>();
/// # }
/// ```
pub trait NegativeSampler: Default + 'static {
    /// Returns name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`NegativeSampler::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If the values do not fit together; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Returns what the distributions use. If nothing is required, draws are uniform, and
    /// [`distribution`](NegativeSampler::distribution) is not called.
    fn required(&self) -> RequiredData;

    /// Returns the distribution of the negatives among `candidates`: at least one part, and at most one of each kind of
    /// weights. It must be the same for the same arguments.
    ///
    /// # Errors
    /// If there is no distribution; the text is shown to the user.
    fn distribution(&mut self, candidates: &NegativeCandidates) -> Result<Vec<DistributionPart>>;
}

/// What the distributions of a plugin use besides the uniform one. The host reads and stores only this.
///
/// ```
/// let nothing = pbg_plugin_sdk::RequiredData::default();
/// assert!(!nothing.names);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredData {
    /// Number of edges of each entity: [`CountedEdges::OfSide`].
    pub side_counts: bool,
    /// Number of edges of each entity with each relation: [`CountedEdges::OfRelation`].
    pub relation_counts: bool,
    /// Entities by name: [`CandidateWeights::Listed`].
    pub names: bool,
    /// Number of entities on each side of all edges of each relation: [`NegativeCandidates::replaced_entities`] and
    /// [`NegativeCandidates::kept_entities`]. All edges are read once for it when a run starts.
    pub relation_entities: bool,
}

/// The entities of a partition that may replace one side of a relation's edges. Edges are those of all edge sets that the
/// run trains, held-out ones included.
///
/// ```
/// let candidates = pbg_plugin_sdk::NegativeCandidates::example();
/// assert!(candidates.seen <= candidates.entities);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegativeCandidates {
    /// Index of the relation in the dataset.
    pub relation: u32,
    /// Name of the relation.
    pub relation_name: String,
    /// Side of the edges that is replaced.
    pub side: Side,
    /// Entity type of this side.
    pub entity_type: String,
    /// Number of the partition.
    pub partition: u32,
    /// Number of entities in the partition; at least 1.
    pub entities: u32,
    /// Number of the relation's edges whose replaced side is in the partition; 0 unless
    /// [`RequiredData::relation_counts`].
    pub edges: u64,
    /// Number of different entities on this side of these edges; 0 unless [`RequiredData::relation_counts`].
    pub seen: u32,
    /// Number of different entities on the replaced side of all edges of the relation, in all partitions; 0 unless
    /// [`RequiredData::relation_entities`].
    pub replaced_entities: u64,
    /// Number of different entities on the other side of these edges; 0 unless [`RequiredData::relation_entities`].
    pub kept_entities: u64,
    /// Epoch, counted from 0.
    pub epoch: u32,
    /// Edge set within the epoch, counted from 0.
    pub edge_set: u32,
    /// Edge chunk within the edge set, counted from 0.
    pub edge_chunk: u32,
}

impl NegativeCandidates {
    /// Returns candidates for tests: 100 entities, of which 20 are the tails of 50 edges. In all partitions, edges of the
    /// relation have 40 heads and 30 tails.
    ///
    /// ```
    /// assert_eq!(pbg_plugin_sdk::NegativeCandidates::example().entities, 100);
    /// ```
    #[must_use]
    pub fn example() -> Self {
        Self {
            relation: 0,
            relation_name: "likes".to_owned(),
            side: Side::Rhs,
            entity_type: "entity".to_owned(),
            partition: 0,
            entities: 100,
            edges: 50,
            seen: 20,
            replaced_entities: 30,
            kept_entities: 40,
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
        }
    }
}

/// Edges that are counted for each entity.
///
/// ```
/// # use pbg_plugin_sdk::CountedEdges;
/// assert_ne!(CountedEdges::OfSide, CountedEdges::OfRelation);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountedEdges {
    /// The edges of all relations that have the entity on the replaced side.
    OfSide,
    /// The edges of the relation in question that have the entity on the replaced side.
    OfRelation,
}

/// Relative probabilities of the entities of a partition.
///
/// ```
/// # use pbg_plugin_sdk::{CandidateWeights, CountedEdges};
/// let seen = CandidateWeights::Counted { edges: CountedEdges::OfRelation, power: 0.0 };
/// assert_eq!(CandidateWeights::of_relation(0.0), seen);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum CandidateWeights {
    /// All entities are equally likely.
    Uniform,
    /// The weight of an entity is its number of edges to a power; an entity without such edges has weight 0.
    Counted {
        /// Edges that count.
        edges: CountedEdges,
        /// From -16 to 16. 0: all entities that have such an edge are equally likely.
        power: f64,
    },
    /// Entities by name. Those in other partitions are left out.
    Listed {
        /// Names, each once.
        names: Vec<String>,
        /// Weight of each name, at least 0 and finite; empty: all are equally likely.
        weights: Vec<f32>,
    },
    /// No entity: this fraction of the draws is left out, so each edge has so many fewer negatives on this side.
    Nothing,
}

impl CandidateWeights {
    /// Returns the weights by the edges that have an entity on the replaced side, to a power.
    ///
    /// ```
    /// # use pbg_plugin_sdk::CandidateWeights;
    /// assert_ne!(CandidateWeights::of_side(0.75), CandidateWeights::of_side(1.0));
    /// ```
    #[must_use]
    pub fn of_side(power: f64) -> Self {
        let edges = CountedEdges::OfSide;
        Self::Counted { edges, power }
    }

    /// Returns the weights by the edges of the relation that have an entity on the replaced side, to a power.
    ///
    /// ```
    /// # use pbg_plugin_sdk::CandidateWeights;
    /// assert_ne!(CandidateWeights::of_relation(0.0), CandidateWeights::of_side(0.0));
    /// ```
    #[must_use]
    pub fn of_relation(power: f64) -> Self {
        let edges = CountedEdges::OfRelation;
        Self::Counted { edges, power }
    }
}

/// Part of a distribution, which is a mixture.
///
/// ```
/// # use pbg_plugin_sdk::{CandidateWeights, DistributionPart};
/// let parts = DistributionPart::mixed(0.25, CandidateWeights::of_side(1.0));
/// assert_eq!(parts[0].fraction, 0.25);
/// assert_eq!(parts[1], DistributionPart::new(0.75, CandidateWeights::Uniform));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DistributionPart {
    /// Fraction of the draws that come from this part, relative to the other parts: greater than 0 and finite.
    pub fraction: f64,
    /// Weights of the entities.
    pub weights: CandidateWeights,
}

impl DistributionPart {
    /// Creates a part.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{CandidateWeights, DistributionPart};
    /// assert_eq!(DistributionPart::new(1.0, CandidateWeights::Uniform).fraction, 1.0);
    /// ```
    #[must_use]
    pub fn new(fraction: f64, weights: CandidateWeights) -> Self {
        Self { fraction, weights }
    }

    /// Returns the mixture that draws `fraction` of the negatives, from 0 to 1, by `weights` and the others uniformly.
    ///
    /// # Panics
    /// If `fraction` is not from 0 to 1.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{CandidateWeights, DistributionPart};
    /// assert_eq!(DistributionPart::mixed(1.0, CandidateWeights::of_side(1.0)).len(), 1);
    /// assert_eq!(DistributionPart::mixed(0.0, CandidateWeights::of_side(1.0))[0].weights, CandidateWeights::Uniform);
    /// ```
    #[must_use]
    pub fn mixed(fraction: f64, weights: CandidateWeights) -> Vec<Self> {
        assert!(
            (0.0..=1.0).contains(&fraction),
            "the fraction of a mixture is {fraction}, not from 0 to 1"
        );
        let parts = [
            Self::new(fraction, weights),
            Self::new(1.0 - fraction, CandidateWeights::Uniform),
        ];
        let parts = parts.into_iter();
        parts.filter(|part| part.fraction > 0.0).collect()
    }
}

/// Exports a [`NegativeSampler`] as the component of this crate, like [`export_order!`](crate::export_order).
/// See [`NegativeSampler`] for an example.
#[macro_export]
macro_rules! export_negatives {
    ($sampler:ty) => {
        const _: fn() -> $crate::Metadata = <$sampler as $crate::NegativeSampler>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__negatives_component!($sampler);
        };
    };
}
