//! Metadata of a run's commits, and the checks before a run resumes from one.

use pbg_checkpoint::Checkpoint;
use pbg_checkpoint::manifest::RunInfo;
use pbg_core::event::{DiskIo, Resumed};
use pbg_model::commit;
use pbg_model::compatibility::{self, AcceptedDifferences, AllowedChanges, OpenPurpose};
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::state::{EpochSums, RunState};
use pbg_rows::params::Params;

use crate::disk_tables::CommitContent;
use crate::strategies::Strategies;

/// Commits of one run.
pub(crate) struct CommitMetadata {
    /// Metadata that every commit has in common, without the position of the run.
    run: RunInfo,
    allowed: AllowedChanges,
}

/// Starting point of a run.
#[derive(Default)]
pub(crate) struct StartingPoint {
    pub(crate) state: RunState,
    /// Position where an earlier run stopped.
    pub(crate) resumed: Option<Resumed>,
    /// Allowed differences between this run and its checkpoint.
    pub(crate) admitted: AcceptedDifferences,
}

impl CommitMetadata {
    pub(crate) fn new(
        resolved: &ResolvedConfig,
        strategies: &Strategies,
        allowed: AllowedChanges,
    ) -> Result<Self, RunError> {
        let run = commit::run_info(resolved, strategies.ids())?;
        Ok(Self { run, allowed })
    }

    /// Returns the state to resume from and restores `params`. Before the first commit, returns an initial state.
    pub(crate) fn resume(
        &self,
        resolved: &ResolvedConfig,
        checkpoint: &Checkpoint,
        params: &mut Params,
    ) -> Result<StartingPoint, RunError> {
        let Some(run) = checkpoint.run() else {
            return Ok(StartingPoint::default());
        };
        let purpose = OpenPurpose::Resume {
            strategies: &self.run.strategies,
            allowed: self.allowed,
        };
        let admitted =
            compatibility::check_compatibility(resolved, checkpoint.path(), &run, &purpose)?;
        commit::read_model(checkpoint.model()?, params)?;
        let mut state: RunState = serde_json::from_value(run.state.clone())
            .map_err(|e| CheckpointMismatch::position(checkpoint.path(), e))?;
        let mut resumed = Resumed {
            pass: state.schedule.pass(),
            done: state.schedule.done() as u64,
            edges: 0,
            disk: DiskIo::default(),
            version: checkpoint.version(),
        };
        reset_changed(&mut state, &admitted);
        resumed.disk = state.epoch.disk;
        if let Some(within) = &state.within {
            resumed.edges = within.sums.stats.count;
        }
        Ok(StartingPoint {
            state,
            resumed: Some(resumed),
            admitted,
        })
    }

    /// Returns the content of a commit now: the position of the run and the current `params`.
    pub(crate) fn content(
        &self,
        metrics_length: u64,
        params: &Params,
        state: &RunState,
    ) -> Result<CommitContent, RunError> {
        let within_bucket = state.within.is_some();
        let state = serde_json::to_value(state).map_err(|e| RunError::Unwritable(e.to_string()))?;
        let run = RunInfo {
            state,
            within_bucket,
            ..self.run.clone()
        };
        Ok(CommitContent {
            run,
            metrics_length,
            model: commit::model(params),
        })
    }
}

/// Resets the parts of a run's state that do not apply to changed edges.
pub fn reset_changed(state: &mut RunState, admitted: &AcceptedDifferences) {
    if admitted.other_training && state.schedule.is_within_epoch() {
        // It cannot be determined which of the new edges the interrupted epoch has trained.
        state.schedule.restart_epoch();
        state.epoch = EpochSums::default();
        state.within = None;
    }
    if admitted.other_validation {
        state.plateau.forget_best();
    }
}
