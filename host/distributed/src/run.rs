//! The run of a trainer that trains together with others: joins, trains, and joins again where the others have removed
//! it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_checkpoint::CheckpointError;
use pbg_core::event::Event;
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::{JoinError, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_train::run::train_passes;
use pbg_train::{RunOutcome, Strategies};

use crate::cluster_options::ClusterOptions;
use crate::cluster_trainer::ClusterTrainer;

/// Trains as one of the trainers of `cluster`, starting where the ledger of the run ends. If the other trainers end
/// this trainer's membership because it was silent for too long, it drops its tables and joins again.
///
/// Once `stop` is set, the current bucket is finished and settled, and the other trainers go on. From then on, a
/// register that does not answer is waited for only a few more seconds.
///
/// # Errors
/// As for [`pbg_train::train`], and when the other trainers cannot be reached or do not admit this one.
pub fn train_distributed(
    resolved: &ResolvedConfig,
    mut strategies: Strategies,
    cluster: &ClusterOptions,
    allowed: AllowedChanges,
    stop: &Arc<AtomicBool>,
    emit: &mut dyn FnMut(Event),
) -> Result<RunOutcome, RunError> {
    let (mut earlier, mut failed_rejoins) = (None, 0);
    loop {
        let before = (allowed, earlier);
        let joined = ClusterTrainer::join(resolved, strategies, cluster, before, stop, emit);
        let mut member = match joined {
            Err(RunError::Cluster(error)) if earlier.is_some() && error.was_stopped() => {
                return stopped_by_others(resolved, emit);
            }
            joined => joined?,
        };
        let ended = train_passes(&mut member, stop).map_err(|error| member.root_cause(error));
        match ended {
            Err(RunError::Cluster(error)) if error.may_rejoin() => {
                member.report_rejoining(&error);
                failed_rejoins = if member.has_trained() {
                    0
                } else {
                    failed_rejoins + 1
                };
                let removed;
                (strategies, earlier, removed) = member.into_strategies(&error);
                removed.into_iter().for_each(&mut *emit);
                cluster.back_off(failed_rejoins, stop);
            }
            Err(RunError::Cluster(JoinError::Stopped)) => {
                let finished = member.finished_by_others()?;
                drop(member);
                return finished.map_or_else(|| stopped_by_others(resolved, emit), Ok);
            }
            Err(RunError::Cluster(error @ JoinError::Unreachable { .. })) => {
                let finished = member.finished_by_others()?;
                return finished.ok_or_else(|| error.into());
            }
            Err(error) => {
                if !matches!(error, RunError::Cluster(_)) {
                    member.leave_after_failure();
                }
                return Err(error);
            }
            ended => return ended,
        }
    }
}

/// Ends a trainer whose run was stopped by others while it was silent.
fn stopped_by_others(
    resolved: &ResolvedConfig,
    emit: &mut dyn FnMut(Event),
) -> Result<RunOutcome, RunError> {
    let version = match resolved.version() {
        Ok(checkpoint) => checkpoint.version(),
        Err(CheckpointError::Missing { .. }) => 0,
        Err(error) => return Err(error.into()),
    };
    emit(Event::StoppedByOthers { version });
    emit(Event::Interrupted { version });
    Ok(RunOutcome::Interrupted { version })
}
