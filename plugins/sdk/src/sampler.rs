//! Interface of relation samplers.

use crate::{Metadata, Parameters, Result, Rng};

/// Relation sampler: chooses the relation of each batch. Only models with static relations have one,
/// since their batches have edges of a single relation.
///
/// The host creates an instance for each worker and bucket with `Default`, configures it, and calls
/// [`begin`](Sampler::begin) with the worker's share of the bucket. No state is kept for the next
/// share, so random choices must be derived from [`Share::seed`].
///
/// ```
/// use pbg_plugin_sdk::{Draw, Draws, Left, Metadata, Result, Sampler, Share, export_sampler};
///
/// /// Draws all edges of a relation before those of the next one.
/// #[derive(Default)]
/// struct InOrder;
///
/// struct Walk(Left);
///
/// impl Sampler for InOrder {
///     type Draws = Walk;
///
///     fn metadata() -> Metadata {
///         Metadata::new("in_order", "0.1.0", "Relation by relation.")
///     }
///
///     fn begin(&self, share: &Share) -> Result<Walk> {
///         Ok(Walk(Left::new(share)))
///     }
/// }
///
/// impl Draws for Walk {
///     fn next(&mut self) -> Result<Option<Draw>> {
///         // The relation of the first remaining edge.
///         Ok(self.0.relation_of(0).map(|relation| self.0.take(relation)))
///     }
/// }
///
/// export_sampler!(InOrder);
/// # fn main() {
///
/// // The same types run natively: test and debug them without a sandbox.
/// let share = Share { counts: vec![5, 0, 2], batch_size: 4, seed: 7 };
/// let mut walk = InOrder.begin(&share).unwrap();
/// assert_eq!(walk.next(), Ok(Some(Draw { relation: 0, edges: 4 })));
/// assert_eq!(walk.next(), Ok(Some(Draw { relation: 0, edges: 1 })));
/// assert_eq!(walk.next(), Ok(Some(Draw { relation: 2, edges: 2 })));
/// assert_eq!(walk.next(), Ok(None));
/// # pbg_plugin_sdk::testing::assert_sampler::<InOrder>();
/// # }
/// ```
pub trait Sampler: Default + 'static {
    /// State while one share is drawn.
    type Draws: Draws;

    /// Returns name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`Sampler::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If the values do not fit together; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Starts to draw batches from `share`.
    ///
    /// # Errors
    /// If the plugin cannot draw from the share; the text is shown to the user.
    fn begin(&self, share: &Share) -> Result<Self::Draws>;
}

/// Batches drawn from one share; see [`Sampler`] for an example.
pub trait Draws: 'static {
    /// Returns the next batch, or `None` after all edges of the share have been drawn. `None` with
    /// remaining edges is an error.
    ///
    /// # Errors
    /// If the plugin cannot continue; the text is shown to the user.
    fn next(&mut self) -> Result<Option<Draw>>;

    /// Receives the mean loss per edge, a finite number, of the batch that [`Draws::next`] returned
    /// last, after the batch was trained. The default implementation ignores it.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Draw, Draws, Result};
    /// #[derive(Default)]
    /// struct Curious { last: Option<f32> }
    ///
    /// impl Draws for Curious {
    ///     fn next(&mut self) -> Result<Option<Draw>> { Ok(None) }
    ///     fn observe(&mut self, _relation: u32, mean_loss: f32) { self.last = Some(mean_loss); }
    /// }
    /// # let mut curious = Curious::default();
    /// # curious.observe(0, 0.5);
    /// # assert_eq!(curious.last, Some(0.5));
    /// ```
    fn observe(&mut self, relation: u32, mean_loss: f32) {
        let _ = (relation, mean_loss);
    }
}

/// Edges of a bucket that one worker trains.
///
/// ```
/// let share = pbg_plugin_sdk::Share { counts: vec![5, 0, 2], batch_size: 4, seed: 7 };
/// assert_eq!(share.rng().next_u64(), share.rng().next_u64());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of edges of each relation; 0 for relations that the share lacks.
    pub counts: Vec<u64>,
    /// Maximum number of edges of a batch; at least 1.
    pub batch_size: u32,
    /// Seed of random choices; differs from share to share.
    pub seed: u64,
}

impl Share {
    /// Returns the random number generator of this share, seeded with [`Share::seed`].
    ///
    /// ```
    /// # use pbg_plugin_sdk::Share;
    /// let share = |seed| Share { counts: vec![1], batch_size: 1, seed };
    /// assert_ne!(share(1).rng().next_u64(), share(2).rng().next_u64());
    /// ```
    #[must_use]
    pub fn rng(&self) -> Rng {
        Rng::new(self.seed)
    }
}

/// The next batch: a number of edges of one relation.
///
/// ```
/// let draw = pbg_plugin_sdk::Draw { relation: 3, edges: 1000 };
/// assert_eq!(draw.relation, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Index of the relation in [`Share::counts`].
    pub relation: u32,
    /// Number of edges: at least 1, at most the batch size and the remaining edges of the relation.
    pub edges: u32,
}

/// Exports a [`Sampler`] as the component of this crate, like [`export_order!`](crate::export_order).
/// See [`Sampler`] for an example.
#[macro_export]
macro_rules! export_sampler {
    ($sampler:ty) => {
        const _: fn() -> $crate::Metadata = <$sampler as $crate::Sampler>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__sampler_component!($sampler);
        };
    };
}
