//! Models without operators: each entity type is compared with itself, by relation `i` for type `i`.

use std::borrow::Cow;

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_kernels::rank::ReplacedSide;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_model::trained::TrainedModel;
use pbg_rows::params::Params;
use pbg_rows::spec::{ModelSpec, RelationSpec};
/// Returns the model `spec` without operators, compared with `comparator` or else with the comparator of `spec`.
pub(crate) fn spec(spec: &ModelSpec, comparator: Option<Comparator>) -> ModelSpec {
    let alike = |entity| RelationSpec {
        lhs: entity,
        rhs: entity,
        operator: Operator::None,
        weight: 1.0,
        all_negs: false,
    };
    ModelSpec {
        relations: (0..spec.entities.len()).map(alike).collect(),
        dynamic_relations: None,
        operator_init_scale: None,
        regularizer: Regularizer::N3,
        regularization_coef: 0.0,
        relation_prediction: 0.0,
        comparator: comparator.unwrap_or(spec.comparator),
        ..spec.with_negatives(1, 0)
    }
}

/// Returns the parameters that remain in the model `spec` without operators: the global embeddings in `of`.
///
/// # Errors
/// When a global embedding has another shape.
pub(crate) fn params(of: &Params, spec: &ModelSpec) -> Result<Params, RunError> {
    let mut params = Params::new(spec, 0);
    let names: Vec<String> = params.tensors().iter().map(|t| t.name.clone()).collect();
    for tensor in names.iter().filter_map(|name| of.tensor(name)) {
        let set = params.set(&tensor.name, &tensor.to_vec(), None);
        set.map_err(CheckpointMismatch::from)?;
    }
    Ok(params)
}

/// Returns the transformation of the candidates of type `type_index` by the parameters of a model without operators,
/// which has one relation for each entity type.
pub(crate) fn replaced(type_index: usize, params: &Params) -> ReplacedSide<'_> {
    ReplacedSide {
        side: Side::Lhs,
        relation: type_index as u32,
        params,
    }
}

/// Returns `model` without operators. Its relations are named after the entity types.
///
/// # Errors
/// When a global embedding has another shape.
pub(crate) fn plain(
    mut model: TrainedModel<'_>,
    comparator: Option<Comparator>,
) -> Result<TrainedModel<'_>, RunError> {
    let spec = spec(&model.blueprint.spec, comparator);
    model.params = params(&model.params, &spec)?;
    let layout = model.blueprint.layout.clone();
    let relation_names = layout.types.iter().map(|of| of.name.clone()).collect();
    model.blueprint = Cow::Owned(Blueprint {
        layout,
        spec,
        relation_names,
    });
    Ok(model)
}
