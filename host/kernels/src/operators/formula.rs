//! Execution of operators and comparators that are formulas, on rows of embeddings.
//!
//! A formula and its gradient are each lowered once to an [`OperatorProgram`](program::OperatorProgram): steps over
//! blocks of a few rows that stay in the first-level cache. Each step is a vectorised loop that uses the same arithmetic
//! as losses do. Subexpressions that depend on parameters alone, such as the sine of an angle, are computed once where
//! rows share their parameters.

mod block;
mod buffers;
mod compiled;
mod evaluator;
mod lower;
pub(crate) mod pairs;
mod program;
mod run;
mod shortcuts;

use pbg_core::graph::Side;
use pbg_formula::comparator::definition::Candidates;
use pbg_formula::comparator::{ComparatorHandle, PairExecutor, PairRows};
use pbg_formula::operator::{FormulaExecutor, FormulaHandle};

pub(crate) use compiled::ParameterSums;
pub(crate) use evaluator::{Evaluator, FormulaParameters};

use pbg_rows::spec::ModelSpec;

use self::pairs::{PairEvaluator, PairGradients, QueryPairs};

/// One worker's evaluators: one for each formula of an operator that it has evaluated so far, and one for the
/// comparator.
#[derive(Debug, Default)]
pub(crate) struct Evaluators {
    operators: Vec<Evaluator>,
    comparator: Option<PairEvaluator>,
}

impl Evaluators {
    /// Returns the evaluator of `formula`, which it creates if necessary.
    pub(crate) fn get_or_create(&mut self, formula: FormulaHandle) -> &mut Evaluator {
        let known = self.operators.iter().position(|e| e.formula() == formula);
        let index = known.unwrap_or_else(|| {
            self.operators.push(Evaluator::new(formula));
            self.operators.len() - 1
        });
        &mut self.operators[index]
    }

    /// Returns the evaluator of the comparator, which it creates if necessary.
    pub(crate) fn pairs(&mut self, formula: ComparatorHandle) -> &mut PairEvaluator {
        let known = self.comparator.take();
        let known = known.filter(|evaluator| evaluator.formula() == formula);
        self.comparator
            .insert(known.unwrap_or_else(|| PairEvaluator::new(formula)))
    }

    /// Returns the current size of the buffers in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let operators: usize = self.operators.iter().map(Evaluator::bytes).sum();
        operators + self.comparator.as_ref().map_or(0, PairEvaluator::bytes)
    }
}

/// Returns an executable form of `formula` for embeddings of `dimension` floats, for tests and trials outside training.
#[must_use]
pub fn executable(formula: FormulaHandle, dimension: usize) -> Box<dyn FormulaExecutor> {
    Box::new(FormulaTrial {
        evaluator: Evaluator::new(formula),
        dimension,
    })
}

/// Returns an executable form of the comparator `formula`, for tests and trials outside training.
#[must_use]
pub fn executable_pairs(formula: ComparatorHandle) -> Box<dyn PairExecutor> {
    Box::new(PairTrial(PairEvaluator::new(formula)))
}

struct PairTrial(PairEvaluator);

impl PairExecutor for PairTrial {
    fn scores(&mut self, rows: PairRows<'_>, scores: &mut [f32]) {
        self.0.scores(query_pairs(rows), scores);
    }

    fn add_gradients(
        &mut self,
        rows: PairRows<'_>,
        of_scores: &[f32],
        query: &mut [f32],
        candidates: &mut [f32],
    ) {
        let mut sums = PairGradients { query, candidates };
        self.0
            .add_gradients(query_pairs(rows), of_scores, &mut sums);
    }
}

fn query_pairs(rows: PairRows<'_>) -> QueryPairs<'_> {
    QueryPairs {
        side: match rows.side {
            Candidates::Left => Side::Lhs,
            Candidates::Right => Side::Rhs,
        },
        query: rows.query,
        candidates: rows.candidates,
    }
}

struct FormulaTrial {
    evaluator: Evaluator,
    dimension: usize,
}

impl FormulaExecutor for FormulaTrial {
    fn forward(&mut self, parameters: &[f32], x: &[f32], y: &mut [f32]) {
        let given = FormulaParameters::Shared(parameters);
        self.evaluator.forward(given, x, y, self.dimension);
    }

    fn backward(&mut self, parameters: &[f32], x: &[f32], gradients: &mut [f32], sums: &mut [f32]) {
        let (given, sums) = (
            FormulaParameters::Shared(parameters),
            ParameterSums::Shared(sums),
        );
        self.evaluator
            .backward(given, sums, x, gradients, self.dimension);
    }
}

/// Returns the bytes that a worker's [`Evaluators`] need for a model.
pub(crate) fn worker_bytes(spec: &ModelSpec) -> usize {
    let mut met: Vec<(FormulaHandle, Vec<usize>)> = Vec::new();
    for relation in &spec.relations {
        let pbg_core::model::Operator::Traced(formula) = relation.operator else {
            continue;
        };
        let dimension = spec.entities[relation.rhs].dimension;
        for formula in [Some(formula), formula.lhs()].into_iter().flatten() {
            match met.iter_mut().find(|(known, _)| *known == formula) {
                Some((_, dimensions)) => dimensions.push(dimension),
                None => met.push((formula, vec![dimension])),
            }
        }
    }
    let bytes =
        |(formula, dimensions): &(_, Vec<usize>)| Evaluator::new(*formula).bytes_for(dimensions);
    let operators: usize = met.iter().map(bytes).sum();
    let dimensions: Vec<usize> = spec
        .entities
        .iter()
        .map(|entity| entity.dimension)
        .collect();
    let comparator = spec.comparator.formula();
    let comparator = comparator.map(|formula| PairEvaluator::new(formula).bytes_for(&dimensions));
    operators + comparator.unwrap_or(0)
}
