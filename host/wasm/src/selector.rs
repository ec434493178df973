//! Negative selectors in the sandbox.

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::strategy::{
    NegativeChunk, NegativeSelection, NegativeSelector, RunLength, SelectionRequirements,
    SelectionWorker, StrategyError, StrategyId, check_selection,
};
use serde_json::Value;

use crate::bindings::negative_selection::{self as wit, GuestIndices};
use crate::bindings::types;
use crate::compiled_plugin::{CompiledPlugin, PluginInstance};
use crate::error::LoadError;
use crate::parameters::PluginParameter;
use crate::replay::RecordedCall;
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// A negative selector that is a component. Every selection is checked before it is returned.
///
/// Each worker has its own instance, which is created at its first call. A fault drops it; the next call creates a fresh
/// one.
pub struct LoadedSelector {
    strategy: Arc<SlotPlugin<GuestIndices>>,
    required: SelectionRequirements,
}

impl LoadedSelector {
    pub(crate) fn new(
        program: CompiledPlugin,
        id: StrategyId,
        declared: &[PluginParameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let strategy: SlotPlugin<GuestIndices> = SlotPlugin::new(program, id, declared, given)?;
        let required = required(&strategy).map_err(|fault| strategy.load_error(fault))?;
        Ok(Self {
            strategy: Arc::new(strategy),
            required,
        })
    }
}

/// Asks a fresh instance what it requires.
fn required(strategy: &SlotPlugin<GuestIndices>) -> Result<SelectionRequirements, StrategyError> {
    let mut instantiated = strategy.open()?;
    let answer = strategy.call(
        &mut instantiated,
        REQUIRE,
        SMALL_ANSWER,
        |exports, store| exports.call_require(store),
    )?;
    let required = SelectionRequirements {
        candidates_per_negative: answer.candidates_per_negative,
        scores: answer.scores,
    };
    let checked = required.check();
    checked.map_err(|broken| strategy.fault(REQUIRE, broken.to_string()))
}

/// Names of the functions that a selector exports.
const REQUIRE: &str = "require";
const SELECT: &str = "select";

impl NegativeSelector for LoadedSelector {
    fn id(&self) -> &StrategyId {
        &self.strategy.id
    }

    fn begin_run(&self, length: RunLength) {
        self.strategy.begin_run(length);
    }

    fn required(&self) -> SelectionRequirements {
        self.required
    }

    fn worker(&self) -> Box<dyn SelectionWorker> {
        Box::new(SelectorInstance {
            strategy: Arc::clone(&self.strategy),
            instantiated: None,
        })
    }
}

/// Selector of one worker.
struct SelectorInstance {
    strategy: Arc<SlotPlugin<GuestIndices>>,
    /// A configured instance; `None` before the first call and after a fault.
    instantiated: Option<PluginInstance>,
}

impl SelectorInstance {
    fn select_checked(
        &mut self,
        chunk: &NegativeChunk,
    ) -> Result<NegativeSelection, StrategyError> {
        // A number of 4 bytes for each candidate or negative; a longer list is wrong anyway.
        let numbers = chunk.candidates.len().max(chunk.negatives as usize);
        let answer = self.strategy.call_ready(
            &mut self.instantiated,
            SELECT,
            numbers.saturating_mul(8).saturating_add(SMALL_ANSWER),
            |exports, store| exports.call_select(store, lower(chunk)),
        )?;
        let selection = match answer {
            wit::Selection::Entities(entities) => NegativeSelection::Entities(entities),
            wit::Selection::Weights(weights) => NegativeSelection::Weights(weights),
        };
        check_selection(&selection, chunk)
            .map_err(|broken| self.strategy.fault(SELECT, broken.to_string()))?;
        Ok(selection)
    }
}

impl SelectionWorker for SelectorInstance {
    fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection, StrategyError> {
        self.select_checked(chunk).map_err(|error| {
            let call = || RecordedCall::Select {
                chunk: chunk.clone(),
            };
            self.strategy.record(error, || Some(call()))
        })
    }
}

fn lower(chunk: &NegativeChunk) -> wit::Chunk<'_> {
    wit::Chunk {
        side: match chunk.side {
            Side::Lhs => wit::Side::Lhs,
            Side::Rhs => wit::Side::Rhs,
        },
        entity_type: &chunk.entity_type,
        partition: chunk.partition,
        entities: chunk.entities,
        kept_partition: chunk.kept_partition,
        relations: &chunk.relations,
        kept: &chunk.kept,
        replaced: &chunk.replaced,
        candidates: &chunk.candidates,
        scores: chunk.scores.as_ref().map(|scores| wit::Scores {
            positives: &scores.positives,
            means: &scores.means,
            highest: &scores.highest,
        }),
        negatives: chunk.negatives,
        position: types::Position {
            epoch: chunk.pass.epoch,
            edge_set: chunk.pass.edge_set,
            edge_chunk: chunk.pass.edge_chunk,
        },
        seed: chunk.seed,
    }
}
