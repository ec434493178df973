//! Inputs of PyTorch-BigGraph, and its results.

use std::collections::BTreeMap;

use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_core::strategy::Loss;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_wasm::{Limits, LoadedLoss, LoadedPlugin, PluginSource, Sandbox};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) cases: Vec<Case>,
}

/// Deserializes an operator from its name in configurations.
fn built_in<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Operator, D::Error> {
    let name = String::deserialize(from)?;
    Operator::built_in(&name).ok_or_else(|| serde::de::Error::custom(name))
}

/// Deserializes a comparator from its name in configurations.
fn built_in_comparator<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Comparator, D::Error> {
    let name = String::deserialize(from)?;
    Comparator::built_in(&name).ok_or_else(|| serde::de::Error::custom(name))
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) config: Config,
    #[serde(deserialize_with = "built_in")]
    pub(crate) operator: Operator,
    pub(crate) all_negs: bool,
    pub(crate) relation_weight: f32,
    pub(crate) num_entities: usize,
    pub(crate) num_relations: usize,
    pub(crate) initial: State,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) dimension: usize,
    #[serde(deserialize_with = "built_in_comparator")]
    pub(crate) comparator: Comparator,
    pub(crate) bias: bool,
    pub(crate) loss_fn: String,
    pub(crate) margin: f32,
    pub(crate) num_batch_negs: usize,
    pub(crate) num_uniform_negs: usize,
    pub(crate) disable_lhs_negs: bool,
    pub(crate) disable_rhs_negs: bool,
    pub(crate) lr: f32,
    pub(crate) relation_lr: Option<f32>,
    pub(crate) max_norm: Option<f32>,
    pub(crate) global_emb: bool,
    pub(crate) regularization_coef: f32,
    pub(crate) dynamic_relations: bool,
}

#[derive(Deserialize)]
pub(crate) struct State {
    pub(crate) embeddings: Vec<Vec<f32>>,
    pub(crate) parameters: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct Step {
    pub(crate) lhs: Vec<u32>,
    pub(crate) rhs: Vec<u32>,
    pub(crate) rel: Value,
    pub(crate) weight: Option<Vec<f32>>,
    pub(crate) uniform_draws: Vec<Vec<Vec<u32>>>,
    pub(crate) lhs_pos: Vec<f32>,
    pub(crate) rhs_pos: Vec<f32>,
    pub(crate) lhs_neg: Vec<Vec<f32>>,
    pub(crate) rhs_neg: Vec<Vec<f32>>,
    pub(crate) loss: f64,
    pub(crate) reg: f64,
    pub(crate) violators_lhs: f64,
    pub(crate) violators_rhs: f64,
    pub(crate) after: State,
}

impl Case {
    pub(crate) fn spec(&self) -> ModelSpec {
        let config = &self.config;
        let relation = RelationSpec {
            lhs: 0,
            rhs: 0,
            operator: self.operator,
            weight: self.relation_weight,
            all_negs: self.all_negs,
        };
        let copies = if config.dynamic_relations {
            1
        } else {
            self.num_relations
        };
        ModelSpec {
            entities: vec![EntitySpec {
                name: "e".to_owned(),
                dimension: config.dimension,
                featurized: false,
                frozen: false,
            }],
            relations: vec![relation; copies],
            dynamic_relations: config.dynamic_relations.then_some(self.num_relations),
            comparator: config.comparator,
            bias: config.bias,
            global_emb: config.global_emb,
            max_norm: config.max_norm,
            operator_init_scale: None,
            regularizer: Regularizer::N3,
            regularization_coef: config.regularization_coef,
            relation_prediction: 0.0,
            lr: config.lr,
            relation_lr: config.relation_lr.unwrap_or(config.lr),
            num_batch_negs: config.num_batch_negs,
            num_uniform_negs: config.num_uniform_negs,
            chunk_size: None,
            disable_lhs_negs: config.disable_lhs_negs,
            disable_rhs_negs: config.disable_rhs_negs,
        }
    }

    pub(crate) fn loss(&self, losses: &Losses) -> Box<dyn Loss> {
        let parameters = match self.config.loss_fn.as_str() {
            "ranking" => json!({"margin": self.config.margin}),
            _ => Value::Null,
        };
        let plugin = losses[self.config.loss_fn.as_str()].clone();
        match plugin.into_loss(&parameters).expect("it has a formula") {
            LoadedLoss::Traced(graph) => pbg_train::traced(graph),
            LoadedLoss::Computed(_) => panic!("the standard losses are formulas"),
        }
    }
}

/// PBG's losses, compiled once.
pub(crate) type Losses = BTreeMap<&'static str, LoadedPlugin>;

pub(crate) fn losses() -> Losses {
    let sandbox = Sandbox::new(Limits::default()).expect("the sandbox starts");
    let open = |name| {
        let source = PluginSource::resolve(name).expect("a standard loss");
        (name, sandbox.open(source).expect("it loads"))
    };
    ["ranking", "logistic", "softmax"].map(open).into()
}

/// Converts PBG's internal name to the name in checkpoints.
pub(crate) fn public_name(internal: &str) -> String {
    if let Some(entity) = internal.strip_prefix("global_embs.emb_") {
        return format!("entities/{entity}/global_embedding");
    }
    let parts: Vec<&str> = internal.split('.').collect();
    let side = parts[0].strip_suffix("_operators").expect("an operator");
    format!("relations/{}/operator/{side}/{}", parts[1], parts[2])
}

pub(crate) fn flatten(value: &Value, out: &mut Vec<f32>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| flatten(item, out)),
        number => out.push(number.as_f64().expect("a number") as f32),
    }
}

pub(crate) fn numbers(value: &Value) -> Vec<f32> {
    let mut out = Vec::new();
    flatten(value, &mut out);
    out
}
