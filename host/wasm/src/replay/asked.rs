//! Repetition of failed calls.

use pbg_core::loss::{LossState, ScheduleProgress, TracedLoss};
use pbg_core::strategy::{
    BucketOrder as _, FaultCause, Loss, NegativeSampler as _, NegativeSelection,
    NegativeSelector as _, RateSchedule as _, RelationSampler, RunLength, SamplerFactory as _,
    ScoreBlock, StrategyError,
};

use super::{CallReplay, RecordedCall};
use crate::error::LoadError;
use crate::loss::LoadedLoss;
use crate::order::LoadedOrder;
use crate::plugin::LoadedPlugin;
use crate::slot::PluginSlot;

/// Function that turns a traced loss into one that can be evaluated.
pub type LossExecutor = fn(TracedLoss) -> Box<dyn Loss>;

impl CallReplay {
    /// Repeats the call with `plugin`. A traced loss is evaluated with `executed`.
    ///
    /// # Errors
    /// When the plugin fills another slot, or fails while it is configured.
    pub fn ask(
        &self,
        plugin: LoadedPlugin,
        executed: LossExecutor,
    ) -> Result<Result<String, StrategyError>, LoadError> {
        match &self.call {
            RecordedCall::Plan { pass } => {
                let mut order = self.order(plugin)?;
                Ok(order
                    .plan(pass)
                    .map(|plan| format!("a plan of {} buckets", plan.len())))
            }
            RecordedCall::Pick { pass, held, free } => {
                let mut order = self.order(plugin)?;
                Ok(order
                    .pick(pass, held, free)
                    .map(|index| format!("index {index}")))
            }
            RecordedCall::Draw {
                counts,
                batch_size,
                seed,
                losses,
            } => {
                let sampler = plugin.into_sampler(&self.parameters)?;
                sampler.begin_run(self.run);
                let walk = sampler.create(counts, *batch_size, *seed);
                Ok(walk.and_then(|mut walk| draw(walk.as_mut(), losses)))
            }
            RecordedCall::Distribution { candidates } => {
                let mut sampler = plugin.into_negatives(&self.parameters)?;
                sampler.begin_run(self.run);
                Ok(sampler
                    .distribution(candidates)
                    .map(|parts| match parts.len() {
                        1 => "a distribution of one part".to_owned(),
                        count => format!("a mixture of {count} parts"),
                    }))
            }
            RecordedCall::Select { chunk } => {
                let selector = plugin.into_selector(&self.parameters)?;
                selector.begin_run(self.run);
                Ok(selector
                    .worker()
                    .select(chunk)
                    .map(|selection| match selection {
                        NegativeSelection::Entities(entities) => {
                            format!("{} entities", entities.len())
                        }
                        NegativeSelection::Weights(weights) => format!("{} weights", weights.len()),
                    }))
            }
            RecordedCall::Factor { position } => {
                let mut schedule = plugin.into_schedule(&self.parameters)?;
                let asked = schedule.factor(*position);
                Ok(asked.map(|factor| format!("a factor of {factor}")))
            }
            RecordedCall::Build if plugin.inspection().kind == PluginSlot::TracedOperator => {
                plugin.into_operator(&self.parameters)?;
                Ok(Ok("a formula".to_owned()))
            }
            RecordedCall::Build if plugin.inspection().kind == PluginSlot::Comparator => {
                plugin.into_comparator(&self.parameters)?;
                Ok(Ok("a formula".to_owned()))
            }
            RecordedCall::Build => self.ask_loss(plugin, |_| Ok("a formula".to_owned())),
            RecordedCall::Update { progress, values } => {
                self.ask_loss(plugin, |loss| update(loss, self.run, progress, values))
            }
            RecordedCall::Evaluate {
                positive,
                negative,
                columns,
                parameters,
            } => self.ask_loss(plugin, |loss| {
                let loss = ready(loss, parameters, executed)?;
                loss.begin_run(self.run);
                evaluate(loss.as_ref(), &positive.0, &negative.0, *columns)
            }),
        }
    }

    fn order(&self, plugin: LoadedPlugin) -> Result<LoadedOrder, LoadError> {
        let mut order = plugin.into_order(&self.parameters)?;
        order.begin_run(self.run);
        Ok(order)
    }

    /// Loads a loss and calls `ask` with it. Loading already calls `build`, so a fault of `build` is returned as a
    /// failed call.
    fn ask_loss(
        &self,
        plugin: LoadedPlugin,
        ask: impl FnOnce(LoadedLoss) -> Result<String, StrategyError>,
    ) -> Result<Result<String, StrategyError>, LoadError> {
        let strategy = plugin.id();
        match plugin.into_loss(&self.parameters) {
            Ok(loss) => Ok(ask(loss)),
            Err(LoadError::Fault {
                function: function @ "build",
                reason,
                ..
            }) => Ok(Err(StrategyError {
                strategy,
                function,
                reason: reason.into(),
                cause: FaultCause::Strategy,
            })),
            Err(other) => Err(other),
        }
    }
}

/// Draws and observes as often as before the fault, and once more.
fn draw(walk: &mut dyn RelationSampler, losses: &[f32]) -> Result<String, StrategyError> {
    for (drawn, &loss) in losses.iter().enumerate() {
        match walk.next()? {
            Some(draw) => walk.observe(draw.relation, loss)?,
            None => return Ok(format!("the end, after {drawn} draws")),
        }
    }
    Ok(match walk.next()? {
        Some(draw) => format!("{} edges of relation {}", draw.edges, draw.relation),
        None => format!("the end, after {} draws", losses.len()),
    })
}

fn update(
    loss: LoadedLoss,
    run: RunLength,
    progress: &ScheduleProgress,
    values: &[f32],
) -> Result<String, StrategyError> {
    let LoadedLoss::Traced(traced) = loss else {
        return Ok("nothing: it is code, which has no parameters to update".to_owned());
    };
    let Some(mut schedule) = traced.schedule else {
        return Ok("nothing: its formula has no parameters that change".to_owned());
    };
    schedule.begin_run(run);
    let values = schedule.update(progress, values)?;
    Ok(format!("{values:?}"))
}

/// Returns a loss that can be evaluated, with the parameter values of the failed call.
fn ready(
    loss: LoadedLoss,
    parameters: &[f32],
    executed: LossExecutor,
) -> Result<Box<dyn Loss>, StrategyError> {
    let traced = match loss {
        LoadedLoss::Computed(code) => return Ok(Box::new(code)),
        LoadedLoss::Traced(traced) => executed(traced),
    };
    let state = traced.state().map(|state| LossState {
        parameters: parameters.to_vec(),
        ..state
    });
    if let Some(state) = state {
        traced.restore(&state).map_err(|reason| {
            let other = format!("has other parameters than the one that failed: {reason}");
            not_asked(traced.as_ref(), &other)
        })?;
    }
    Ok(traced)
}

/// Returns the error for a loss that cannot be evaluated.
fn not_asked(loss: &dyn Loss, reason: &str) -> StrategyError {
    StrategyError {
        strategy: loss.id().clone(),
        function: "evaluate",
        reason: reason.into(),
        cause: FaultCause::Strategy,
    }
}

fn evaluate(
    loss: &dyn Loss,
    positive: &[f32],
    negative: &[f32],
    columns: usize,
) -> Result<String, StrategyError> {
    let mut losses = vec![0.0; positive.len()];
    let scores = ScoreBlock {
        positive,
        negative: &mut negative.to_vec(),
        columns,
        positive_gradient: &mut vec![0.0; positive.len()],
        loss: &mut losses,
    };
    let checked = scores.checked();
    let mut scores = checked.map_err(|uneven| not_asked(loss, &uneven.to_string()))?;
    loss.worker().evaluate(&mut scores)?;
    let mean = losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64;
    Ok(format!(
        "losses of {} rows, {mean} on average",
        losses.len()
    ))
}
