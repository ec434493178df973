//! Transitions between passes: the first trainer to get there opens a pass, and one trainer ends it for all.

use std::sync::Arc;

use pbg_core::event::Event;
use pbg_core::graph::Bucket;
use pbg_core::plan::LeastRecentlyUsed;
use pbg_core::schedule::PassId;
use pbg_core::strategy::Pass;
use pbg_ledger::{LedgerAction, LedgerRecord, plan_digest};
use pbg_model::error::RunError;
use pbg_train::bucket_trainer::PassPlan;

use super::ClusterTrainer;

impl ClusterTrainer<'_> {
    /// Asks the order for the plan of a pass that is not open yet, and opens the pass.
    pub(super) fn open_pass(&mut self, id: PassId) -> Result<(), RunError> {
        let pass = Pass {
            resident: Vec::new(),
            ..self.machine.pass(id)
        };
        let mut events = Vec::new();
        let planned = self.machine.plan(&pass, &mut events);
        events
            .into_iter()
            .for_each(|event| self.report(event, None));
        let PassPlan {
            plan,
            order,
            cost,
            seconds,
        } = planned?;
        self.sums.calls.order += seconds;
        let edges = |bucket: &Bucket| {
            let index = bucket.lhs as usize * pass.rhs_partitions as usize + bucket.rhs as usize;
            pass.edges.get(index).copied().unwrap_or(0)
        };
        let empty = plan.iter().filter(|b| edges(b) == 0).copied().collect();
        let opened = self.submit(LedgerAction::Open {
            pass: id,
            plan: plan_digest(&plan),
            empty,
        })?;
        if opened {
            let planned = Event::PassPlanned {
                pass: id,
                order,
                buckets: plan.len() as u64,
                cost,
            };
            self.report(planned, None);
        }
        Ok(())
    }

    /// Begins the pass that the record is in.
    pub(super) fn enter(&mut self, id: PassId) -> Arc<Pass> {
        let pass = Arc::new(self.machine.pass(id));
        let buffer = &mut self.machine.pipeline.buffer;
        let eviction = Box::new(LeastRecentlyUsed::default());
        buffer.begin_pass(Arc::clone(&pass), Vec::new(), eviction);
        self.policy.begin_pass(id, pass.buffer_partitions);
        self.pass = Some((id, Arc::clone(&pass)));
        pass
    }

    /// Advances the run to the next pass. One trainer does this for all.
    pub(super) fn advance(&mut self, record: &LedgerRecord) -> Result<(), RunError> {
        let from = record.work().pass;
        self.submit(LedgerAction::Advance { from })?;
        Ok(())
    }
}
