//! Losses as formulas.

use std::ops::{Index, IndexMut};

use super::formula::{Row, Scores, Trace};
use super::{Graph, NamedParameter};
use crate::{Metadata, Parameters, Result};

/// A loss as a formula on the scores of one row.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
/// use pbg_plugin_sdk::{Metadata, Parameter, Parameters, Result, TracedLoss, export_traced_loss};
///
/// /// The hardest negative should stay a margin below the positive.
/// #[derive(Default, serde::Deserialize)]
/// struct Hardest { margin: f32 }
///
/// impl TracedLoss for Hardest {
///     fn metadata() -> Metadata {
///         Metadata::new("hardest", "0.1.0", "Softplus of the hardest negative.")
///             .parameter(Parameter::number("margin", 0.5, 0.0.., "Distance that is wanted."))
///     }
///
///     fn configure(&mut self, parameters: &Parameters) -> Result<()> {
///         *self = parameters.parse()?;
///         Ok(())
///     }
///
///     fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
///         let hardest = scores.negatives().max();
///         Ok(softplus(self.margin - scores.positive() + hardest))
///     }
/// }
///
/// export_traced_loss!(Hardest);
///
/// # fn main() {
/// // The same type runs natively: test and debug it without a sandbox.
/// let graph = pbg_plugin_sdk::loss::trace(&Hardest { margin: 0.0 }).unwrap();
/// let found = graph.evaluate(&[2.0], &[1.0, 2.0, 0.0], 3);
/// assert_eq!(found.positive_gradient, [-0.5]);
/// assert_eq!(found.negative_gradient, [0.0, 0.5, 0.0]);
/// # pbg_plugin_sdk::testing::assert_traced_loss::<Hardest>();
/// # }
/// ```
///
/// The host calls [`build`](TracedLoss::build) once per run and applies the weights of edges and
/// relations. A Rust `if` in it is evaluated at that time and can depend on parameters only, since
/// scores are not known yet.
pub trait TracedLoss: Default + 'static {
    /// Name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`TracedLoss::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If a combination of values makes no sense; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Builds the formula: the loss of each positive.
    ///
    /// # Errors
    /// If the loss cannot be built; the text is shown to the user.
    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>>;

    /// Returns the number of batches between two calls of [`TracedLoss::update`]; 0, the default: never.
    fn update_every(&self) -> u32 {
        0
    }

    /// Changes the values of [`Scores::parameter`]s. The result must depend only on the arguments, the
    /// configuration and the [length of the run](crate::run): a resumed run continues with the values
    /// that it had.
    ///
    /// ```
    /// # use pbg_plugin_sdk::loss::{Progress, Values, formula::{Row, Scores}};
    /// # use pbg_plugin_sdk::{Metadata, Result, TracedLoss, run};
    /// #[derive(Default)]
    /// struct Annealed;
    ///
    /// impl TracedLoss for Annealed {
    ///     fn metadata() -> Metadata { Metadata::new("annealed", "0.1.0", "A margin that grows.") }
    ///     fn build<'t>(&self, s: Scores<'t>) -> Result<Row<'t>> {
    ///         Ok((s.parameter("margin", 0.1) - s.positive() + s.negatives()).relu().sum())
    ///     }
    ///     fn update_every(&self) -> u32 { 100 }
    ///     fn update(&self, progress: &Progress, values: &mut Values) -> Result<()> {
    ///         values["margin"] = 0.1 + 0.9 * run::length().share(progress.step);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[cfg(not(target_family = "wasm"))]
    /// run::provide(run::Length { batches: 10_000, ..run::Length::NONE });
    /// let mut values = Values::of(&pbg_plugin_sdk::loss::trace(&Annealed).unwrap());
    /// let progress = Progress { step: 10_000, edges: 100_000, mean_loss: 0.5 };
    /// Annealed.update(&progress, &mut values).unwrap();
    /// assert_eq!(values["margin"], 1.0);
    /// ```
    ///
    /// # Errors
    /// If training cannot continue; the text is shown to the user.
    fn update(&self, progress: &Progress, values: &mut Values) -> Result<()> {
        let _ = (progress, values);
        Ok(())
    }
}

/// Returns the graph of a loss, as passed to the host.
///
/// # Errors
/// If [`TracedLoss::build`] fails.
///
/// ```
/// # use pbg_plugin_sdk::loss::formula::{Row, Scores};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedLoss};
/// # #[derive(Default)]
/// # struct Mean;
/// # impl TracedLoss for Mean {
/// #     fn metadata() -> Metadata { Metadata::new("mean", "0.1.0", "") }
/// #     fn build<'t>(&self, s: Scores<'t>) -> Result<Row<'t>> { Ok(s.negatives().mean() - s.positive()) }
/// # }
/// let graph = pbg_plugin_sdk::loss::trace(&Mean).unwrap();
/// assert_eq!(graph.evaluate(&[1.0], &[2.0, 4.0], 2).loss, [2.0]);
/// ```
pub fn trace<L: TracedLoss>(loss: &L) -> Result<Graph> {
    let trace = Trace::default();
    let output = loss.build(trace.scores())?.id();
    let mut graph = trace.finish(output);
    graph.update_every = loss.update_every();
    Ok(graph)
}

/// Progress since the last [`TracedLoss::update`], or since the beginning of the run.
///
/// ```
/// use pbg_plugin_sdk::loss::Progress;
/// let progress = Progress { step: 200, edges: 100_000, mean_loss: 1.5 };
/// assert_eq!(progress.step, 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Batches trained since the beginning of the run, all workers together.
    pub step: u64,
    /// Edges trained since the last call.
    pub edges: u64,
    /// Mean loss of these edges, both sides together, with all weights.
    pub mean_loss: f32,
}

/// Values of a formula's parameters, by name.
///
/// ```
/// use pbg_plugin_sdk::loss::{Values, formula::graph};
/// let mut values = Values::of(&graph(|s| s.parameter("margin", 0.5) - s.positive()));
/// values["margin"] *= 2.0;
/// assert_eq!(values["margin"], 1.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Values(Vec<NamedParameter>);

impl Values {
    /// Returns the initial values of `graph`'s parameters.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::{Values, formula::graph};
    /// let values = Values::of(&graph(|s| s.parameter("margin", 0.5) - s.positive()));
    /// assert_eq!(values.as_vec(), [0.5]);
    /// ```
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        Self(graph.parameters.clone())
    }

    /// Returns the numbers, in the order in which the formula named the parameters.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::{Values, formula::graph};
    /// let graph = graph(|s| s.parameter("a", 1.0) * s.parameter("b", 2.0) * s.positive());
    /// assert_eq!(Values::of(&graph).as_vec(), [1.0, 2.0]);
    /// ```
    #[must_use]
    pub fn as_vec(&self) -> Vec<f32> {
        self.0.iter().map(|parameter| parameter.value).collect()
    }

    /// Replaces the numbers, in the same order; parameters beyond the end of `values` keep theirs.
    #[cfg(target_family = "wasm")]
    pub(crate) fn set_all(&mut self, values: &[f32]) {
        for (parameter, &value) in self.0.iter_mut().zip(values) {
            parameter.value = value;
        }
    }
}

/// # Panics
/// If the formula has no parameter of that name.
impl Index<&str> for Values {
    type Output = f32;
    fn index(&self, name: &str) -> &f32 {
        let found = self.0.iter().find(|parameter| parameter.name == name);
        match found {
            Some(parameter) => &parameter.value,
            None => panic!("the formula has no parameter {name}"),
        }
    }
}

/// # Panics
/// If the formula has no parameter of that name.
impl IndexMut<&str> for Values {
    fn index_mut(&mut self, name: &str) -> &mut f32 {
        let found = self.0.iter_mut().find(|parameter| parameter.name == name);
        match found {
            Some(parameter) => &mut parameter.value,
            None => panic!("the formula has no parameter {name}"),
        }
    }
}

/// Exports a [`TracedLoss`] as the component of this crate; see
/// [`export_order!`](crate::export_order).
///
/// ```
/// # use pbg_plugin_sdk::loss::formula::{Row, Scores};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedLoss};
/// #[derive(Default)]
/// struct Mean;
///
/// impl TracedLoss for Mean {
///     fn metadata() -> Metadata { Metadata::new("mean", "0.1.0", "Mean of the negatives.") }
///     fn build<'t>(&self, s: Scores<'t>) -> Result<Row<'t>> { Ok(s.negatives().mean() - s.positive()) }
/// }
///
/// pbg_plugin_sdk::export_traced_loss!(Mean);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_traced_loss {
    ($loss:ty) => {
        const _: fn() -> $crate::Metadata = <$loss as $crate::TracedLoss>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__traced_loss_component!($loss);
        };
    };
}
