//! The input of one batch, and the compiled steps of a model's relations.

use std::sync::Arc;

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use pbg_core::model::Precision;
use pbg_rows::params::Params;
use pbg_rows::spec::{self, ModelSpec};

use crate::batch::{Batch, BatchRelations, BatchTables, check_below};
use crate::error::{StepError, WorkerError};
use crate::negatives::NegativeDraws;
use crate::step::Execution;
use crate::step::executor::StepExecutor;
use crate::step::plan::BatchPlan;
use crate::step::program::StepProgram;

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

/// Compiled steps of a model's relations. A step is compiled at the first batch of its relation, and relations with
/// equal steps share one program.
#[derive(Debug, Default)]
pub struct StepPrograms(Vec<Option<Arc<StepProgram>>>);

impl StepPrograms {
    /// Checks a batch, compiles its step if necessary, and plans the batch.
    pub fn plan<E: StepExecutor>(
        &mut self,
        spec: &ModelSpec,
        execution: &Execution,
        job: &BatchJob<'_>,
    ) -> Result<(Arc<StepProgram>, BatchPlan), StepError> {
        job.batch.check(spec, job.tables)?;
        let relation = job.batch.spec_index();
        let entities = Side::BOTH.map(|side| job.tables.side(side).entities());
        let rows = Side::BOTH.map(|side| job.tables.side(side).embeddings.rows());
        let program = self.get_or_compile::<E>(spec, execution, relation)?;
        let graph = &program.graph;
        let shared = job.tables.shared();
        let sizes = graph
            .step_spec()
            .sizes(job.batch.len(), entities, rows, shared);
        let plan = BatchPlan::new(Arc::clone(graph), sizes, execution.slice_bytes.max(1));
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
            let other = job.tables.other(spec, relation, side);
            let limit = entities[side as usize] + other.map_or(0, |table| table.entities());
            check_below("drawn negative", draws, limit)?;
        }
        Ok((program, plan))
    }

    /// Returns the compiled step of `relation`.
    pub fn get_or_compile<E: StepExecutor>(
        &mut self,
        spec: &ModelSpec,
        execution: &Execution,
        relation: usize,
    ) -> Result<Arc<StepProgram>, WorkerError> {
        self.0.resize(spec.relations.len(), None);
        if let Some(program) = &self.0[relation] {
            return Ok(Arc::clone(program));
        }
        let step_spec = spec.step_spec(relation, execution.precision == Precision::Bf16);
        let same = |other: &&Arc<StepProgram>| other.graph.step_spec() == &step_spec;
        let program = match self.0.iter().flatten().find(same) {
            Some(known) => Arc::clone(known),
            None => {
                let sliced = spec::graph(relation, &step_spec)?.slice(execution.update);
                Arc::new(StepProgram::compile::<E>(Arc::new(sliced))?)
            }
        };
        self.0[relation] = Some(Arc::clone(&program));
        Ok(program)
    }
}
