//! Losses as graphs: the component is asked for the graph once, and later only for new parameter values.

use pbg_core::loss::{FailedRows, ParameterSchedule, ScheduleProgress, TracedLoss, check_values};
use pbg_core::strategy::{RunLength, StrategyError};
use pbg_formula::loss::LossParameter;

use super::graph;
use crate::bindings::loss_traced::{self as wit, GuestIndices};
use crate::compiled_plugin::PluginInstance;
use crate::error::LoadError;
use crate::replay::{MAX_RECORDED_SCORES, RecordedCall, RecordedScores};
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// Largest size (bytes) of a graph: more than the largest valid one, so that a graph with too many nodes is reported
/// with their number.
const GRAPH_BYTES: usize = 4 << 20;

/// Gets the graph of a component, and checks it.
pub(crate) fn load(strategy: SlotPlugin<GuestIndices>) -> Result<TracedLoss, LoadError> {
    let mut guest = TracedLossPlugin {
        strategy,
        instantiated: None,
        parameters: Vec::new(),
    };
    let built = guest.build().map_err(|error| match error.function {
        "build" => guest.strategy.record(error, || Some(RecordedCall::Build)),
        _ => error,
    });
    let recorder = guest.strategy.recorder();
    match built {
        Ok(graph) => Ok(TracedLoss {
            keep: Some(Box::new(move |error, rows| {
                recorder.record(error, || kept(rows))
            })),
            id: guest.strategy.id.clone(),
            schedule: graph
                .update_every()
                .map(|_| Box::new(guest) as Box<dyn ParameterSchedule>),
            graph,
        }),
        Err(fault) => Err(guest.strategy.load_error(fault)),
    }
}

/// Returns the call for a replay of failed rows, unless they are too many for a file.
fn kept(rows: FailedRows<'_>) -> Option<RecordedCall> {
    (rows.positive.len() + rows.negative.len() <= MAX_RECORDED_SCORES).then(|| {
        RecordedCall::Evaluate {
            positive: RecordedScores(rows.positive.to_vec()),
            negative: RecordedScores(rows.negative.to_vec()),
            columns: rows.columns,
            parameters: rows.parameters.to_vec(),
        }
    })
}

/// A component whose instance is created when it is needed.
struct TracedLossPlugin {
    strategy: SlotPlugin<GuestIndices>,
    /// A configured instance; `None` before the first call and after a fault.
    instantiated: Option<PluginInstance>,
    /// Parameters of the graph.
    parameters: Vec<LossParameter>,
}

impl TracedLossPlugin {
    fn build(&mut self) -> Result<pbg_formula::loss::LossGraph, StrategyError> {
        let answer = self.strategy.call_ready(
            &mut self.instantiated,
            "build",
            GRAPH_BYTES,
            |exports, store| exports.call_build(store),
        )?;
        let graph = graph::lift(answer)
            .check(self.strategy.program.limits.graph_nodes)
            .map_err(|error| self.strategy.fault("build", error.to_string()))?;
        self.parameters = graph.parameters().to_vec();
        Ok(graph)
    }

    fn update_checked(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        let progress = wit::Progress {
            step: progress.step,
            edges: progress.edges,
            mean_loss: progress.mean_loss,
        };
        let answer = self.strategy.call_ready(
            &mut self.instantiated,
            "update",
            SMALL_ANSWER,
            |exports, store| exports.call_update(store, progress, values),
        )?;
        check_values(&self.parameters, &answer)
            .map_err(|reason| self.strategy.fault("update", reason))?;
        Ok(answer)
    }
}

impl ParameterSchedule for TracedLossPlugin {
    fn begin_run(&mut self, length: RunLength) {
        self.strategy.begin_run(length);
    }

    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        self.update_checked(progress, values).map_err(|error| {
            let call = || RecordedCall::Update {
                progress: *progress,
                values: values.to_vec(),
            };
            self.strategy.record(error, || Some(call()))
        })
    }
}
