//! What one machine does and several trainers do not yet: refused before anything is trained.

use pbg_core::strategy::Loss as _;
use pbg_kernels::params::Params;

use super::ClusterError;
use super::parameters::widest_row;
use crate::resolved::Resolved;
use crate::run::Strategies;

/// Bytes of a parameter's row that one message has room for.
const WIDEST_ROW: usize = 900 << 10;

/// What one machine does and several do not yet.
pub(super) fn refuse_rest(
    resolved: &Resolved,
    strategies: &Strategies,
) -> Result<(), ClusterError> {
    let config = resolved.config();
    let not_yet = |what: &str| {
        let what = what.to_owned();
        Err(ClusterError::NotYet { what })
    };
    if config.validation.edges.is_some() {
        return not_yet("validate between epochs (`[validation]`)");
    }
    if config.checkpoint_preservation_interval.is_some() {
        return not_yet("keep checkpoints (`checkpoint_preservation_interval`)");
    }
    match strategies.loss.state() {
        Some(_) => not_yet("train with a loss that learns parameters of its own"),
        None => Ok(()),
    }
}

/// What trainers cannot exchange yet.
pub(super) fn refuse_shared(
    resolved: &Resolved,
    params: &Params,
    on_device: bool,
) -> Result<(), ClusterError> {
    let layout = &resolved.blueprint().layout;
    let shared = |what: String| {
        let what = format!("share {what}");
        Err(ClusterError::NotYet { what })
    };
    if let Some((entity, _)) = layout.fixed_tables().next() {
        let name = &layout.types[entity].name;
        return shared(format!(
            "the table of the entity type `{name}`, which has one partition"
        ));
    }
    if on_device && !params.tensors().is_empty() {
        return shared("parameters that are on a GPU".to_owned());
    }
    match widest_row(params) > WIDEST_ROW {
        true => shared("an operator of so many numbers (`linear` of a large dimension)".to_owned()),
        false => Ok(()),
    }
}
