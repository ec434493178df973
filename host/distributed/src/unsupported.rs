//! Refuses, before training begins, configurations that distributed training does not support yet.

use pbg_core::model::Optimizer;
use pbg_model::error::JoinError;
use pbg_model::resolved::ResolvedConfig;
use pbg_rows::params::Params;

/// Refuses a run of no epochs, in which no trainer would commit the initial model.
pub(super) fn refuse_no_epochs(resolved: &ResolvedConfig) -> Result<(), JoinError> {
    match resolved.config().num_epochs {
        0 => Err(JoinError::NotYet {
            what: "write an initial model (num_epochs = 0)".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses shared tables and parameters that trainers cannot exchange yet.
pub(super) fn refuse_shared(
    resolved: &ResolvedConfig,
    params: &Params,
    on_device: bool,
) -> Result<(), JoinError> {
    let layout = &resolved.blueprint().layout;
    let shared = |what: String| {
        let what = format!("share {what}");
        Err(JoinError::NotYet { what })
    };
    let mut trained = layout
        .fixed_tables()
        .filter(|&(entity, _)| !layout.types[entity].frozen);
    if resolved.config().optimizer == Optimizer::Adam && trained.next().is_some() {
        return shared(
            "tables of entity types with one partition if `optimizer` is `adam`".to_owned(),
        );
    }
    if on_device && layout.fixed_tables().next().is_some() {
        return shared("tables of entity types with one partition on a GPU".to_owned());
    }
    if on_device && !params.tensors().is_empty() {
        return shared("parameters on a GPU".to_owned());
    }
    Ok(())
}
