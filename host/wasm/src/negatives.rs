//! Negative samplers in the sandbox.

use pbg_core::graph::Side;
use pbg_core::strategy::{
    CandidateWeights, CountedEdges, DistributionPart, NegativeCandidates, NegativeSampler,
    RequiredData, RunLength, StrategyError, StrategyId, check_distribution,
};
use serde_json::Value;

use crate::bindings::negative_distribution::{self as wit, GuestIndices};
use crate::bindings::types;
use crate::compiled_plugin::{CompiledPlugin, PluginInstance};
use crate::error::LoadError;
use crate::parameters::PluginParameter;
use crate::replay::RecordedCall;
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// A negative sampler that is a component. Every distribution is checked before it is returned.
///
/// A fault drops the instance; the next call creates a fresh one.
pub struct LoadedNegatives {
    strategy: SlotPlugin<GuestIndices>,
    required: RequiredData,
    /// A configured instance; `None` after a fault, or if nothing is required.
    instantiated: Option<PluginInstance>,
}

impl LoadedNegatives {
    pub(crate) fn new(
        program: CompiledPlugin,
        id: StrategyId,
        declared: &[PluginParameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let strategy: SlotPlugin<GuestIndices> = SlotPlugin::new(program, id, declared, given)?;
        let opened = strategy.open().and_then(|mut instantiated| {
            let answer = strategy.call(
                &mut instantiated,
                "require",
                SMALL_ANSWER,
                |exports, store| exports.call_require(store),
            )?;
            Ok((instantiated, answer))
        });
        let (instantiated, answer) = opened.map_err(|fault| strategy.load_error(fault))?;
        let required = RequiredData {
            side_counts: answer.side_counts,
            relation_counts: answer.relation_counts,
            names: answer.names,
            relation_entities: answer.relation_entities,
        };
        Ok(Self {
            strategy,
            required,
            instantiated: instantiated.filter(|_| !required.is_nothing()),
        })
    }

    fn distribution_checked(
        &mut self,
        candidates: &NegativeCandidates,
    ) -> Result<Vec<DistributionPart>, StrategyError> {
        // Without names, an answer is a few numbers.
        let result_bytes = match self.required.names {
            true => self.strategy.program.limits.result_bytes,
            false => SMALL_ANSWER,
        };
        let answer = self.strategy.call_ready(
            &mut self.instantiated,
            "distribution",
            result_bytes,
            |exports, store| exports.call_distribution(store, lower(candidates)),
        )?;
        let parts: Vec<DistributionPart> = answer.into_iter().map(lift).collect();
        check_distribution(&parts, self.required)
            .map_err(|broken| self.strategy.fault("distribution", broken.to_string()))?;
        Ok(parts)
    }
}

impl NegativeSampler for LoadedNegatives {
    fn id(&self) -> &StrategyId {
        &self.strategy.id
    }

    fn begin_run(&mut self, length: RunLength) {
        self.strategy.begin_run(length);
    }

    fn required(&self) -> RequiredData {
        self.required
    }

    fn distribution(
        &mut self,
        candidates: &NegativeCandidates,
    ) -> Result<Vec<DistributionPart>, StrategyError> {
        self.distribution_checked(candidates).map_err(|error| {
            let call = || RecordedCall::Distribution {
                candidates: candidates.clone(),
            };
            self.strategy.record(error, || Some(call()))
        })
    }
}

fn lower(candidates: &NegativeCandidates) -> wit::Candidates<'_> {
    wit::Candidates {
        relation: candidates.relation,
        relation_name: &candidates.relation_name,
        side: match candidates.side {
            Side::Lhs => wit::Side::Lhs,
            Side::Rhs => wit::Side::Rhs,
        },
        entity_type: &candidates.entity_type,
        partition: candidates.partition,
        entities: candidates.entities,
        edges: candidates.edges,
        seen: candidates.seen,
        replaced_entities: candidates.replaced_entities,
        kept_entities: candidates.kept_entities,
        position: types::Position {
            epoch: candidates.pass.epoch,
            edge_set: candidates.pass.edge_set,
            edge_chunk: candidates.pass.edge_chunk,
        },
    }
}

fn lift(part: wit::DistributionPart) -> DistributionPart {
    DistributionPart {
        fraction: part.fraction,
        weights: match part.weights {
            wit::CandidateWeights::Uniform => CandidateWeights::Uniform,
            wit::CandidateWeights::Counted(wit::Counted { edges, power }) => {
                let edges = match edges {
                    wit::CountedEdges::OfSide => CountedEdges::OfSide,
                    wit::CountedEdges::OfRelation => CountedEdges::OfRelation,
                };
                CandidateWeights::Counted { edges, power }
            }
            wit::CandidateWeights::Listed(wit::Listed { names, weights }) => {
                CandidateWeights::Listed { names, weights }
            }
            wit::CandidateWeights::Nothing => CandidateWeights::Nothing,
        },
    }
}
