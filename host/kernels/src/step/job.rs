//! The input of one batch, and the planned steps of a model's relations.

use std::sync::Arc;

use pbg_core::batch_graph::{Negatives, StepPlan};
use pbg_core::graph::Side;
use pbg_core::model::Precision;
use pbg_rows::params::Params;
use pbg_rows::spec::{self, ModelSpec};

use crate::batch::{Batch, BatchRelations, BatchTables, check_below};
use crate::error::{StepError, UnsupportedStep, WorkerError};
use crate::negatives::NegativeDraws;
use crate::step::Execution;
use crate::step::executor::StepExecutor;
use crate::step::plan::BatchPlan;

/// Input of the work on one batch.
#[derive(Clone, Copy)]
pub struct BatchJob<'a> {
    /// Edges.
    pub batch: &'a Batch<'a>,
    /// Tables of both sides' partitions.
    pub tables: &'a BatchTables<'a>,
    /// Parameters of operators, and global embeddings.
    pub params: &'a Params,
    /// Uniform negatives.
    pub draws: &'a NegativeDraws,
}

impl<'a> BatchJob<'a> {
    /// Returns the relation type of each edge, if relations are dynamic.
    #[must_use]
    pub fn relations(&self) -> Option<&'a [u32]> {
        match self.batch.relation {
            BatchRelations::One(_) => None,
            BatchRelations::PerEdge(relations) => Some(relations),
        }
    }
}

/// Planned steps of a model's relations. A step is planned at the first batch of its relation, and relations with equal
/// steps share one plan.
#[derive(Debug, Default)]
pub struct StepPlans(Vec<Option<Arc<StepPlan>>>);

impl StepPlans {
    /// Checks a batch, plans its step if necessary, and plans the batch.
    pub fn plan<E: StepExecutor>(
        &mut self,
        spec: &ModelSpec,
        execution: &Execution,
        job: &BatchJob<'_>,
    ) -> Result<BatchPlan, StepError> {
        job.batch.check(spec, job.tables)?;
        let relation = job.batch.spec_index();
        let entities = Side::BOTH.map(|side| job.tables.side(side).entities());
        let rows = Side::BOTH.map(|side| job.tables.side(side).embeddings.rows());
        let step = self.of_relation::<E>(spec, execution, relation)?;
        let shared = job.tables.shared();
        let sizes = step
            .step_spec
            .sizes(job.batch.len(), entities, rows, shared);
        let plan = BatchPlan::new(step, sizes, execution.slice_bytes.max(1));
        for side in Side::BOTH {
            let draws = job.draws.side(side);
            let wanted = match plan.negatives[side as usize] {
                Negatives::Sampled { uniform, .. } => plan.chunks() * uniform,
                Negatives::None | Negatives::All => 0,
            };
            if draws.len() != wanted {
                let found = draws.len();
                return Err(StepError::Batch(format!(
                    "{found} negatives are drawn for the {side:?} side, but the model needs {wanted}"
                )));
            }
            if let Some(counts) = job.draws.counts(side)
                && counts.len() != job.batch.len()
            {
                return Err(StepError::Batch(format!(
                    "there are {} counts of drawn negatives for the {side:?} side of {} edges",
                    counts.len(),
                    job.batch.len()
                )));
            }
            let other = job.tables.other(spec, relation, side);
            let limit = entities[side as usize] + other.map_or(0, |table| table.entities());
            check_below("drawn negative", draws, limit)?;
        }
        Ok(plan)
    }

    /// Returns the planned step of `relation`.
    pub fn of_relation<E: StepExecutor>(
        &mut self,
        spec: &ModelSpec,
        execution: &Execution,
        relation: usize,
    ) -> Result<Arc<StepPlan>, WorkerError> {
        self.0.resize(spec.relations.len(), None);
        if let Some(step) = &self.0[relation] {
            return Ok(Arc::clone(step));
        }
        let step_spec = spec.step_spec(relation, execution.precision == Precision::Bf16);
        let same = |other: &&Arc<StepPlan>| other.step_spec == step_spec;
        let step = match self.0.iter().flatten().find(same) {
            Some(known) => Arc::clone(known),
            None => {
                let step = spec::step_plan(relation, &step_spec, execution.update)?;
                match E::unsupported(&step) {
                    Some(reason) => return Err(UnsupportedStep(reason).into()),
                    None => Arc::new(step),
                }
            }
        };
        self.0[relation] = Some(Arc::clone(&step));
        Ok(step)
    }
}
