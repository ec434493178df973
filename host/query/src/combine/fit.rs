//! Conditions for combining models, and the configuration of the result.

use std::path::Path;

use pbg_checkpoint::manifest::RunInfo;
use pbg_config::Config;
use pbg_core::model::{Comparator, Operator};
use pbg_model::error::{CheckpointMismatch, CombineError, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::state;
use pbg_rows::spec::ModelSpec;
/// Largest number of elements in an embedding.
const MAX_DIMENSION: u32 = 65536;

/// Checks that the ids of the checkpoint in `folder` are those of the dataset, and that none is new.
pub(super) fn same_ids(
    resolved: &ResolvedConfig,
    folder: &Path,
    run: &RunInfo,
) -> Result<(), RunError> {
    if run.dataset == state::dictionaries(resolved.config(), resolved.dataset()) {
        return Ok(());
    }
    Err(CombineError::Dataset {
        checkpoint: folder.to_owned(),
        dataset: resolved.dataset().path().to_owned(),
    }
    .into())
}

/// Checks that a configuration describes the same model as the first one. `with_dimensions` says whether the dimensions
/// have to agree as well.
pub(super) fn same_model(
    first: &Config,
    own: &Config,
    folder: &Path,
    with_dimensions: bool,
) -> Result<(), CheckpointMismatch> {
    let mut compared = own.clone();
    if !with_dimensions {
        take_dimensions(&mut compared, first);
    }
    let differences = first.model_differences(&compared);
    if differences.is_empty() {
        return Ok(());
    }
    Err(CheckpointMismatch::Models {
        checkpoint: folder.to_owned(),
        first: first.checkpoint_path.clone().into(),
        differences,
    })
}

/// Returns the number of components that operators divide an embedding into. Fails if the scores of concatenated
/// embeddings would not be sums.
pub(super) fn additive(spec: &ModelSpec) -> Result<usize, CombineError> {
    let refuse = |what: String| Err(CombineError::NotAdditive(what));
    if !matches!(spec.comparator, Comparator::Dot | Comparator::SquaredL2) {
        return refuse("the comparator is neither `dot` nor `squared_l2`".to_owned());
    }
    if spec.bias {
        return refuse("the first element of an embedding is a bias".to_owned());
    }
    let mut components = 1;
    for relation in &spec.relations {
        let operator = relation.operator;
        if let Operator::Traced(formula) = operator
            && formula.mixes_elements()
        {
            let name = operator.name();
            return refuse(format!(
                "the operator `{name}` has sums over the elements of an embedding"
            ));
        }
        components = least_common_multiple(components, operator.components());
    }
    Ok(components)
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let mut multiple = a;
    while !multiple.is_multiple_of(b) {
        multiple += a;
    }
    multiple
}

/// Checks that every embedding can be divided into components of equal length, and that the embeddings of the result
/// are not too long.
pub(super) fn divisible(models: &[&Config], components: usize) -> Result<(), CombineError> {
    let refuse = |what: String| Err(CombineError::NotAdditive(what));
    for (name, _) in models.iter().flat_map(|config| &config.entities) {
        let dimensions = models.iter().map(|config| config.entity_dimension(name));
        let is_odd = |dimension: &u32| !(*dimension as usize).is_multiple_of(components);
        if let Some(dimension) = dimensions.clone().find(is_odd) {
            return refuse(format!(
                "operators divide embeddings into {components} components, but those of `{name}` have {dimension} \
                 elements"
            ));
        }
        let sum = dimensions.map(u64::from).sum::<u64>();
        if sum > u64::from(MAX_DIMENSION) {
            return refuse(format!(
                "embeddings of `{name}` would have {sum} elements, more than {MAX_DIMENSION}"
            ));
        }
    }
    Ok(())
}

/// Sets the dimensions of `config` to those of another configuration.
pub(super) fn take_dimensions(config: &mut Config, other: &Config) {
    config.dimension = other.dimension;
    for (name, entity) in &mut config.entities {
        entity.dimension = other.entities.get(name).and_then(|other| other.dimension);
    }
}

/// Sets the dimensions of `config` to the sums of the dimensions of `models`.
pub(super) fn add_dimensions(config: &mut Config, models: &[&Config]) {
    config.dimension = models.iter().map(|model| model.dimension).sum();
    let all = config.dimension;
    for (name, entity) in &mut config.entities {
        let dimensions = models.iter().map(|model| model.entity_dimension(name));
        let sum = dimensions.sum();
        entity.dimension = (sum != all).then_some(sum);
    }
}
