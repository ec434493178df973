//! Length of the run, for strategies that change over a run.
//!
//! It is known in functions that are called during training: [`TracedLoss::update`](crate::TracedLoss::update),
//! [`Order::plan`](crate::Order::plan), [`Sampler::begin`](crate::Sampler::begin) and so on. In other functions, and in
//! tests that [provide] none, it is [`Length::NONE`].
//!
//! ```
//! use pbg_plugin_sdk::run;
//! # #[cfg(not(target_family = "wasm"))]
//! run::provide(run::Length { epochs: 10, edges_per_epoch: 5000, batches: 100 });
//! assert_eq!(run::length().share(25), 0.25);
//! ```

/// Length of a run from its beginning, according to the current configuration. It changes if the run is resumed with
/// another number of epochs or with a grown graph.
///
/// ```
/// use pbg_plugin_sdk::run::Length;
/// let length = Length { epochs: 10, edges_per_epoch: 5000, batches: 100 };
/// assert!(length.batches > Length::NONE.batches);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Number of epochs; at least 1, as are the other numbers.
    pub epochs: u32,
    /// Number of edges trained per epoch, without held-out edges.
    pub edges_per_epoch: u64,
    /// Number of batches of all epochs and workers: the value of [`Progress::step`](crate::loss::Progress::step) at the
    /// end. Exact if batches mix relations or if there is only one relation; otherwise an upper bound for samplers that
    /// fill their batches.
    pub batches: u64,
}

impl Length {
    /// Length outside a run: all numbers are 1.
    ///
    /// ```
    /// use pbg_plugin_sdk::run::Length;
    /// assert_eq!(Length::NONE.epochs, 1);
    /// ```
    pub const NONE: Self = Self {
        epochs: 1,
        edges_per_epoch: 1,
        batches: 1,
    };

    /// Returns the share of the run that is finished after `step` batches, from 0 to 1.
    ///
    /// ```
    /// use pbg_plugin_sdk::run::Length;
    /// let length = Length { batches: 200, ..Length::NONE };
    /// assert_eq!([0, 50, 200, 201].map(|step| length.share(step)), [0.0, 0.25, 1.0, 1.0]);
    /// ```
    #[must_use]
    pub fn share(&self, step: u64) -> f32 {
        (step as f64 / self.batches.max(1) as f64).min(1.0) as f32
    }
}

/// Returns the length of the run, or [`Length::NONE`] outside a run.
///
/// ```
/// use pbg_plugin_sdk::run;
/// assert_eq!(run::length(), run::Length::NONE);
/// ```
#[must_use]
pub fn length() -> Length {
    served::length()
}

#[cfg(target_family = "wasm")]
mod served {
    use super::Length;
    use crate::glue::run;

    pub(super) fn length() -> Length {
        let length = run::length();
        Length {
            epochs: length.epochs,
            edges_per_epoch: length.edges_per_epoch,
            batches: length.batches,
        }
    }
}

#[cfg(not(target_family = "wasm"))]
pub use served::provide;

#[cfg(not(target_family = "wasm"))]
mod served {
    use std::cell::Cell;

    use super::Length;

    thread_local! {
        static LENGTH: Cell<Length> = const { Cell::new(Length::NONE) };
    }

    /// Sets the length of the run for plugins in this thread; only outside the sandbox.
    ///
    /// ```
    /// use pbg_plugin_sdk::run;
    /// run::provide(run::Length { epochs: 3, edges_per_epoch: 70, batches: 9 });
    /// assert_eq!(run::length().epochs, 3);
    /// ```
    pub fn provide(length: Length) {
        LENGTH.set(length);
    }

    pub(super) fn length() -> Length {
        LENGTH.get()
    }
}
