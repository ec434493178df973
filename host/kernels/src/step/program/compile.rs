//! Compilation of a batch graph's nodes to stages.
//!
//! Every node is read once. Compilation fails, before any batch is trained, if no stage includes a node or the executor
//! has no kernel for it.

use std::slice::Iter;
use std::sync::Arc;

use pbg_core::batch_graph::{GraphNode, Operation, SlicedGraph, Stage, StageRun, StepSpec};
use pbg_core::graph::Side;
use pbg_core::model::Operator;

use super::{CompareStage, GatherStage, PassStages, ScatterStage, StepProgram};
use crate::error::CompileError;
use crate::step::executor::StepExecutor;

impl StepProgram {
    /// Compiles a graph for an executor.
    ///
    /// # Errors
    /// When the executor lacks a kernel, or a node is out of place.
    pub fn compile<E: StepExecutor>(graph: Arc<SlicedGraph>) -> Result<Self, CompileError> {
        for node in &graph.graph.nodes {
            if let Some(reason) = E::unsupported(node.operation, node.name.side, graph.step_spec())
            {
                let node = node.name.to_string();
                return Err(CompileError::Lacks { node, reason });
            }
        }
        let compiler = Compiler { graph: &graph };
        let passes = (0..graph.loops.len()).map(|pass| compiler.pass(pass));
        let passes = passes.collect::<Result<_, _>>()?;
        compiler.end()?;
        Ok(Self { graph, passes })
    }
}

struct Compiler<'g> {
    graph: &'g SlicedGraph,
}

impl<'g> Compiler<'g> {
    fn step_spec(&self) -> &'g StepSpec {
        self.graph.step_spec()
    }

    fn nodes(&self, step: &'g StageRun) -> impl Iterator<Item = &'g GraphNode> + use<'g> {
        let nodes = &self.graph.graph.nodes;
        step.nodes.iter().map(move |&index| &nodes[index])
    }

    fn pass(&self, pass: usize) -> Result<PassStages, CompileError> {
        let stages = &self.graph.loops[pass];
        let (read, prepared) = match at_most_one(&stages.before)? {
            Some(step) => self.gather(step, true)?,
            None => (false, [None; 2]),
        };
        let mut steps = Steps(stages.slice.iter());
        let (_, gather) = self.gather(steps.take(Stage::Gather, None)?, false)?;
        let mut compare = Vec::new();
        while let Some(side) = steps.direction() {
            compare.push(self.compare(side, &mut steps)?);
        }
        let predicts = steps.is_next(Stage::Differentiate);
        if predicts {
            let step = steps.take(Stage::Differentiate, None)?;
            self.only(step, |o| o == Operation::PredictRelations)?;
        }
        let scatter = self.scatter(steps.take(Stage::Scatter, None)?)?.0;
        let updates = at_most_one(steps.0.as_slice())?;
        if let Some(step) = updates {
            self.only(step, |o| o == Operation::UpdateRows)?;
        }
        let (returned, regularize_parameters) = match at_most_one(&stages.after)? {
            Some(step) => self.scatter(step)?,
            None => ([None; 2], false),
        };
        let [lhs, rhs] = Side::BOTH.map(|side| {
            let i = side as usize;
            both(prepared[i], returned[i]).map_err(|()| misplaced("gather all", side))
        });
        Ok(PassStages {
            pass: stages.pass,
            reads_parameters: read,
            entities: [lhs?, rhs?],
            gather: of_each_side(gather, "gather")?,
            compare,
            predict_relations: predicts,
            scatter: of_each_side(scatter, "scatter")?,
            update_rows: updates.is_some(),
            regularize_parameters,
        })
    }

    /// Returns whether parameters are read, and how the rows of each side are gathered: those of a slice, or `all`.
    fn gather(
        &self,
        step: &'g StageRun,
        all: bool,
    ) -> Result<(bool, [Option<GatherStage>; 2]), CompileError> {
        let (mut read, mut sides) = (false, [None; 2]);
        for node in self.nodes(step) {
            let side = node.name.side.ok_or_else(|| unknown(node))?;
            let gather: &mut Option<GatherStage> = &mut sides[side as usize];
            match (node.operation, gather.as_mut()) {
                (Operation::Read, _) => read = true,
                (Operation::GatherAll | Operation::Gather, None)
                    if all == (node.operation == Operation::GatherAll) =>
                {
                    let drawn = !all && node.inputs.len() > 2;
                    *gather = Some(GatherStage {
                        global: false,
                        operator: Operator::None,
                        uniform: if drawn {
                            self.step_spec().uniform(side)
                        } else {
                            0
                        },
                        rounded: false,
                    });
                }
                (Operation::Global, Some(gather)) => gather.global = true,
                (Operation::Operator(operator), Some(gather)) => gather.operator = operator,
                (Operation::Prepare { bias }, Some(_)) if bias == self.step_spec().bias => {}
                (Operation::Round, Some(gather)) => gather.rounded = true,
                _ => return Err(unknown(node)),
            }
        }
        Ok((read, sides))
    }

    /// Compiles the stages score, loss and differentiate of one side, which follow each other.
    fn compare(&self, side: Side, steps: &mut Steps<'g>) -> Result<CompareStage, CompileError> {
        let score = steps.take(Stage::Score, Some(side))?;
        self.only(score, |o| matches!(o, Operation::Score { .. }))?;
        let loss = steps.take(Stage::Loss, Some(side))?;
        self.only(loss, |o| o == Operation::Loss)?;
        let mut compare = CompareStage {
            side,
            pairwise_positives: false,
            rounded: false,
        };
        for node in self.nodes(steps.take(Stage::Differentiate, Some(side))?) {
            match node.operation {
                Operation::QueryGradients | Operation::CandidateGradients => {}
                Operation::PositiveGradients => compare.pairwise_positives = true,
                Operation::Round => compare.rounded = true,
                _ => return Err(unknown(node)),
            }
        }
        Ok(compare)
    }

    /// Returns how the gradients of each side are propagated back, and whether parameters are regularized.
    fn scatter(
        &self,
        step: &'g StageRun,
    ) -> Result<([Option<ScatterStage>; 2], bool), CompileError> {
        let (mut sides, mut parameters) = ([None; 2], false);
        for node in self.nodes(step) {
            let side = node.name.side.ok_or_else(|| unknown(node))?;
            if node.operation == Operation::RegularizeParameters {
                parameters = true;
                continue;
            }
            let scatter = sides[side as usize].get_or_insert(ScatterStage {
                operator: Operator::None,
                regularized: None,
                positives_are_negatives: false,
            });
            match node.operation {
                Operation::Regularize(rows) => scatter.regularized = Some(rows),
                Operation::Join => scatter.positives_are_negatives = true,
                Operation::Back(operator) => scatter.operator = operator,
                Operation::Sum => {}
                _ => return Err(unknown(node)),
            }
        }
        Ok((sides, parameters))
    }

    /// Checks that the end of the batch consists of updates only.
    fn end(&self) -> Result<(), CompileError> {
        for step in &self.graph.end {
            self.only(step, |o| {
                matches!(o, Operation::UpdateRows | Operation::UpdateParameters)
            })?;
        }
        Ok(())
    }

    fn only(
        &self,
        step: &'g StageRun,
        wanted: impl Fn(Operation) -> bool,
    ) -> Result<(), CompileError> {
        match self.nodes(step).find(|node| !wanted(node.operation)) {
            Some(node) => Err(unknown(node)),
            None => Ok(()),
        }
    }
}

/// The remaining steps of a slice.
struct Steps<'g>(Iter<'g, StageRun>);

impl<'g> Steps<'g> {
    /// Takes the next step, which must belong to the cluster and the direction.
    fn take(
        &mut self,
        cluster: Stage,
        direction: Option<Side>,
    ) -> Result<&'g StageRun, CompileError> {
        let step = self.0.next();
        step.filter(|step| (step.cluster, step.direction) == (cluster, direction))
            .ok_or_else(|| CompileError::Misplaced {
                node: cluster.name().to_owned(),
            })
    }

    /// Returns whether the next step belongs to the cluster and to no direction.
    fn is_next(&self, cluster: Stage) -> bool {
        let next = self.0.as_slice().first();
        next.is_some_and(|step| (step.cluster, step.direction) == (cluster, None))
    }

    /// Returns the side of the next step's direction, if it has one.
    fn direction(&self) -> Option<Side> {
        self.0.as_slice().first().and_then(|step| step.direction)
    }
}

/// Returns the only step, if there is one.
fn at_most_one(steps: &[StageRun]) -> Result<Option<&StageRun>, CompileError> {
    match steps {
        [] => Ok(None),
        [step] => Ok(Some(step)),
        [_, second, ..] => Err(CompileError::Misplaced {
            node: second.cluster.name().to_owned(),
        }),
    }
}

fn unknown(node: &GraphNode) -> CompileError {
    CompileError::Misplaced {
        node: node.name.to_string(),
    }
}

fn misplaced(what: &str, side: Side) -> CompileError {
    CompileError::Misplaced {
        node: format!("{what} on the {side:?} side"),
    }
}

fn of_each_side<T: Copy>(sides: [Option<T>; 2], what: &str) -> Result<[T; 2], CompileError> {
    let [lhs, rhs] = sides;
    Ok([
        lhs.ok_or_else(|| misplaced(what, Side::Lhs))?,
        rhs.ok_or_else(|| misplaced(what, Side::Rhs))?,
    ])
}

/// Returns both values if both exist: entities that are prepared must be scattered, and no others.
fn both<A, B>(a: Option<A>, b: Option<B>) -> Result<Option<(A, B)>, ()> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests;
