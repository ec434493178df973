//! Refuses, before training begins, configurations that distributed training does not support yet.

use pbg_core::model::Optimizer;
use pbg_model::error::JoinError;
use pbg_model::resolved::ResolvedConfig;
use pbg_rows::params::Params;

/// Checks that several trainers can train the model of a configuration; a trainer checks the same before it joins.
///
/// # Errors
/// When distributed training does not support it yet.
pub fn check_distributed(resolved: &ResolvedConfig) -> Result<(), JoinError> {
    require_several_buckets(resolved, resolved.config().num_machines)?;
    refuse_no_epochs(resolved)?;
    refuse_shared_moments(resolved)
}

/// Refuses several machines for one bucket.
pub(super) fn require_several_buckets(
    resolved: &ResolvedConfig,
    machines: u32,
) -> Result<(), JoinError> {
    let buckets = resolved.blueprint().layout.buckets();
    match machines > 1 && buckets < 2 {
        true => Err(JoinError::OneBucket),
        false => Ok(()),
    }
}

/// Refuses tables that all trainers train with Adam, whose moments they do not exchange.
fn refuse_shared_moments(resolved: &ResolvedConfig) -> Result<(), JoinError> {
    let layout = &resolved.blueprint().layout;
    let mut trained = layout
        .fixed_tables()
        .filter(|&(entity, _)| !layout.types[entity].frozen);
    if resolved.config().optimizer == Optimizer::Adam && trained.next().is_some() {
        return shared("tables of entity types with one partition if `optimizer` is `adam`");
    }
    Ok(())
}

fn shared(what: &str) -> Result<(), JoinError> {
    let what = format!("share {what}");
    Err(JoinError::NotYet { what })
}

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
    refuse_shared_moments(resolved)?;
    let layout = &resolved.blueprint().layout;
    if on_device && layout.fixed_tables().next().is_some() {
        return shared("tables of entity types with one partition on a GPU");
    }
    if on_device && !params.tensors().is_empty() {
        return shared("parameters on a GPU");
    }
    Ok(())
}
