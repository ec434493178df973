//! Who says which bucket is trained next, and when what was trained is committed.

use pbg_core::graph::Bucket;
use pbg_core::schedule::{Acquired, Extent, NotHeld, Schedule};
use pbg_core::strategy::Pass;

use crate::pace::Pace;

/// What the training loop asks of one that may know of other machines.
pub(crate) trait Coordinator {
    /// Where the run is.
    fn schedule(&self) -> &Schedule;

    /// Gives the current pass its plan, already checked to be a permutation of the grid.
    fn set_plan(&mut self, plan: Vec<Bucket>);

    /// The bucket to train now; `None` when the pass has none left for this machine.
    fn next(&mut self, pass: &Pass) -> Option<Acquired>;

    /// The bucket is trained.
    ///
    /// # Errors
    /// When another machine holds it.
    fn settle(&mut self, acquired: Acquired) -> Result<(), NotHeld>;

    /// Whether what was trained so far is to be committed; `under_way`: whether a commit is not at its end.
    fn commit_due(&self, under_way: bool) -> bool;

    /// How long commits make training wait, for [`Coordinator::commit_due`].
    fn pace(&mut self) -> &mut Pace;

    /// Moves on to the next pass if every bucket of this one is done; says whether it did.
    fn finish_pass(&mut self, extent: Extent) -> bool;
}

/// A machine alone: the next bucket is the plan's next.
#[derive(Debug)]
pub(crate) struct Alone {
    schedule: Schedule,
    pace: Pace,
}

impl Alone {
    /// The only machine's number.
    const ME: u32 = 0;

    /// Goes on from `schedule`; what it held when it was stopped is to do again.
    pub(crate) fn new(mut schedule: Schedule, pace: Pace) -> Self {
        schedule.release_all();
        Self { schedule, pace }
    }
}

impl Coordinator for Alone {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn set_plan(&mut self, plan: Vec<Bucket>) {
        self.schedule.set_plan(plan);
    }

    fn next(&mut self, pass: &Pass) -> Option<Acquired> {
        self.schedule.acquire(Self::ME, pass)
    }

    fn settle(&mut self, acquired: Acquired) -> Result<(), NotHeld> {
        self.schedule.complete(Self::ME, acquired.position)
    }

    fn commit_due(&self, under_way: bool) -> bool {
        self.pace.due(under_way)
    }

    fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    fn finish_pass(&mut self, extent: Extent) -> bool {
        self.schedule.advance(extent)
    }
}
