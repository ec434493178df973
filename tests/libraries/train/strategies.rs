//! Strategies that several suites train with.

use std::sync::Arc;

use pbg_config::Config;
use pbg_core::loss::{ParameterSchedule, TracedLoss};
use pbg_core::strategy::{
    Loss, NegativeChunk, NegativeSelection, NegativeSelector, SelectionRequirements,
    SelectionWorker, StrategyError, StrategyId,
};
use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_train::{Fallbacks, GuardedLoss, NegativeStrategy, Strategies};
use pbg_wasm::{Limits, LoadedLoss, LoadedPlugin, PluginSource, Sandbox};
use serde_json::Value;

/// Loads the standard plugins that `config` names.
pub(crate) fn standard(config: &Config) -> Strategies {
    let sandbox = Sandbox::new(Limits::default()).expect("the sandbox starts");
    let open = |name: &str| -> LoadedPlugin {
        let source = PluginSource::resolve(name).expect("a standard plugin");
        sandbox.open(source).expect("it loads")
    };
    let none = Value::Null;
    let loss = match open(&config.loss_fn).into_loss(&none).expect("a loss") {
        LoadedLoss::Traced(graph) => pbg_train::traced(graph),
        LoadedLoss::Computed(loss) => Box::new(loss),
    };
    let order = open(&config.bucket_order).into_order(&none);
    let sampler = open(&config.relation_sampler).into_sampler(&none);
    let negatives = open(&config.negative_sampler).into_negatives(&none);
    Strategies {
        order: Box::new(order.expect("an order")),
        sampler: Box::new(sampler.expect("a sampler")),
        negatives: Some(NegativeStrategy::Distribution(Box::new(
            negatives.expect("a negative sampler"),
        ))),
        schedule: None,
        loss: GuardedLoss::new(loss, None),
        fallbacks: Fallbacks::default(),
    }
}

/// Returns the id of a strategy of these tests.
pub(crate) fn id(name: &str) -> StrategyId {
    StrategyId {
        name: name.to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
    }
}

/// Negative selector that selects the entity behind each candidate, and may require scores, which it ignores.
struct Neighbors {
    id: StrategyId,
    scores: bool,
}

impl NegativeSelector for Neighbors {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn required(&self) -> SelectionRequirements {
        SelectionRequirements {
            candidates_per_negative: 1,
            scores: self.scores,
        }
    }

    fn worker(&self) -> Box<dyn SelectionWorker> {
        Box::new(Self {
            id: self.id.clone(),
            scores: self.scores,
        })
    }
}

impl SelectionWorker for Neighbors {
    fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection, StrategyError> {
        let behind = chunk
            .candidates
            .iter()
            .map(|entity| (entity + 1) % chunk.entities);
        Ok(NegativeSelection::Entities(behind.collect()))
    }
}

/// Returns a negative selector that requires scores or not.
pub(crate) fn neighbors(scores: bool) -> NegativeStrategy {
    let id = id("neighbors");
    NegativeStrategy::Selection(Arc::new(Neighbors { id, scores }))
}

/// Returns the logistic loss with a weight for negatives, which `schedule` changes after the given number of batches.
pub(crate) fn weighted_logistic(
    weight: f32,
    schedule: Option<(u32, Box<dyn ParameterSchedule>)>,
) -> Box<dyn Loss> {
    let (update_every, schedule) = schedule.unzip();
    let update_every = update_every.unwrap_or(0);
    let definition = LossDefinition {
        nodes: vec![
            FormulaNode::Positive,
            FormulaNode::Negative,
            FormulaNode::Parameter(0),
            FormulaNode::Unary(Unary::Neg, 0),
            FormulaNode::Unary(Unary::Softplus, 3),
            FormulaNode::Unary(Unary::Softplus, 1),
            FormulaNode::Reduce(Reduction::Mean, 5),
            FormulaNode::Binary(Binary::Mul, 6, 2),
            FormulaNode::Binary(Binary::Add, 4, 7),
        ],
        output: 8,
        parameters: vec![LossParameter {
            name: "weight".to_owned(),
            value: weight,
        }],
        update_every,
    };
    pbg_train::traced(TracedLoss {
        id: id("weighted"),
        graph: definition.check(10).expect("a valid graph"),
        schedule,
        keep: None,
    })
}
