//! From the nodes of a batch graph to stages.
//!
//! Every node is read once: one that no stage takes, or that the executor has no kernel for, fails here, before a
//! batch is touched.

use std::slice::Iter;
use std::sync::Arc;

use pbg_core::batch_graph::{Cluster, Node, Operation, Sliced, Step, StepSpec};
use pbg_core::graph::Side;
use pbg_core::model::Operator;

use super::{Compare, Gather, PassStages, Program, Scatter};
use crate::error::CompileError;
use crate::step::executor::StepExecutor;

impl Program {
    /// Compiles a graph for an executor.
    ///
    /// # Errors
    /// When the executor lacks a kernel, or a node stands where none can run.
    pub fn compile<E: StepExecutor>(graph: Arc<Sliced>) -> Result<Self, CompileError> {
        for node in &graph.graph.nodes {
            if let Some(reason) = E::lacks(node.operation, node.name.side, graph.step_spec()) {
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
    graph: &'g Sliced,
}

impl<'g> Compiler<'g> {
    fn step_spec(&self) -> &'g StepSpec {
        self.graph.step_spec()
    }

    fn nodes(&self, step: &'g Step) -> impl Iterator<Item = &'g Node> + use<'g> {
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
        let (_, gather) = self.gather(steps.take(Cluster::Gather, None)?, false)?;
        let mut compare = Vec::new();
        while let Some(side) = steps.direction() {
            compare.push(self.compare(side, &mut steps)?);
        }
        let predicts = steps.is_next(Cluster::Differentiate);
        if predicts {
            let step = steps.take(Cluster::Differentiate, None)?;
            self.only(step, |o| o == Operation::PredictRelations)?;
        }
        let scatter = self.scatter(steps.take(Cluster::Scatter, None)?)?.0;
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
            read,
            entities: [lhs?, rhs?],
            gather: of_each_side(gather, "gather")?,
            compare,
            predict_relations: predicts,
            scatter: of_each_side(scatter, "scatter")?,
            update_rows: updates.is_some(),
            regularize_parameters,
        })
    }

    /// Whether parameters are read, and how each side's rows are gathered: those of a slice, or `all`.
    fn gather(
        &self,
        step: &'g Step,
        all: bool,
    ) -> Result<(bool, [Option<Gather>; 2]), CompileError> {
        let (mut read, mut sides) = (false, [None; 2]);
        for node in self.nodes(step) {
            let side = node.name.side.ok_or_else(|| unknown(node))?;
            let gather: &mut Option<Gather> = &mut sides[side as usize];
            match (node.operation, gather.as_mut()) {
                (Operation::Read, _) => read = true,
                (Operation::GatherAll | Operation::Gather, None)
                    if all == (node.operation == Operation::GatherAll) =>
                {
                    let drawn = !all && node.inputs.len() > 2;
                    *gather = Some(Gather {
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

    /// Score, loss and differentiate of one side, which follow each other.
    fn compare(&self, side: Side, steps: &mut Steps<'g>) -> Result<Compare, CompileError> {
        let score = steps.take(Cluster::Score, Some(side))?;
        self.only(score, |o| matches!(o, Operation::Score { .. }))?;
        let loss = steps.take(Cluster::Loss, Some(side))?;
        self.only(loss, |o| o == Operation::Loss)?;
        let mut compare = Compare {
            side,
            pairs: false,
            rounded: false,
        };
        for node in self.nodes(steps.take(Cluster::Differentiate, Some(side))?) {
            match node.operation {
                Operation::QueryGradients | Operation::CandidateGradients => {}
                Operation::PositiveGradients => compare.pairs = true,
                Operation::Round => compare.rounded = true,
                _ => return Err(unknown(node)),
            }
        }
        Ok(compare)
    }

    /// How gradients of each side go back, and whether parameters are regularised.
    fn scatter(&self, step: &'g Step) -> Result<([Option<Scatter>; 2], bool), CompileError> {
        let (mut sides, mut parameters) = ([None; 2], false);
        for node in self.nodes(step) {
            let side = node.name.side.ok_or_else(|| unknown(node))?;
            if node.operation == Operation::RegularizeParameters {
                parameters = true;
                continue;
            }
            let scatter = sides[side as usize].get_or_insert(Scatter {
                operator: Operator::None,
                regularized: None,
                joined: false,
            });
            match node.operation {
                Operation::Regularize(rows) => scatter.regularized = Some(rows),
                Operation::Join => scatter.joined = true,
                Operation::Back(operator) => scatter.operator = operator,
                Operation::Sum => {}
                _ => return Err(unknown(node)),
            }
        }
        Ok((sides, parameters))
    }

    /// The end of the batch is nothing but updates.
    fn end(&self) -> Result<(), CompileError> {
        for step in &self.graph.end {
            self.only(step, |o| {
                matches!(o, Operation::UpdateRows | Operation::UpdateParameters)
            })?;
        }
        Ok(())
    }

    fn only(&self, step: &'g Step, wanted: impl Fn(Operation) -> bool) -> Result<(), CompileError> {
        match self.nodes(step).find(|node| !wanted(node.operation)) {
            Some(node) => Err(unknown(node)),
            None => Ok(()),
        }
    }
}

/// The steps of a slice, one after the other.
struct Steps<'g>(Iter<'g, Step>);

impl<'g> Steps<'g> {
    /// The next step, which has to be of this cluster.
    fn take(
        &mut self,
        cluster: Cluster,
        direction: Option<Side>,
    ) -> Result<&'g Step, CompileError> {
        let step = self.0.next();
        step.filter(|step| (step.cluster, step.direction) == (cluster, direction))
            .ok_or_else(|| CompileError::Misplaced {
                node: cluster.name().to_owned(),
            })
    }

    /// Whether the next step is of this cluster and of no comparison.
    fn is_next(&self, cluster: Cluster) -> bool {
        let next = self.0.as_slice().first();
        next.is_some_and(|step| (step.cluster, step.direction) == (cluster, None))
    }

    /// The side that the next step compares, if it does.
    fn direction(&self) -> Option<Side> {
        self.0.as_slice().first().and_then(|step| step.direction)
    }
}

/// The only step, if there is one.
fn at_most_one(steps: &[Step]) -> Result<Option<&Step>, CompileError> {
    match steps {
        [] => Ok(None),
        [step] => Ok(Some(step)),
        [_, second, ..] => Err(CompileError::Misplaced {
            node: second.cluster.name().to_owned(),
        }),
    }
}

fn unknown(node: &Node) -> CompileError {
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

/// What is prepared goes back, and nothing else.
fn both<A, B>(a: Option<A>, b: Option<B>) -> Result<Option<(A, B)>, ()> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests;
