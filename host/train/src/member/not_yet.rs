//! What one machine does and several trainers do not yet: refused before anything is trained.

use pbg_kernels::params::Params;

use super::ClusterError;
use crate::resolved::Resolved;

/// Refuses a run of no epochs: nobody would commit the initial model.
pub(super) fn refuse_no_epochs(resolved: &Resolved) -> Result<(), ClusterError> {
    match resolved.config().num_epochs {
        0 => Err(ClusterError::NotYet {
            what: "leave an initial model (num_epochs = 0)".to_owned(),
        }),
        _ => Ok(()),
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
    if on_device && layout.fixed_tables().next().is_some() {
        return shared("tables of entity types with one partition that are on a GPU".to_owned());
    }
    if on_device && !params.tensors().is_empty() {
        return shared("parameters that are on a GPU".to_owned());
    }
    Ok(())
}
