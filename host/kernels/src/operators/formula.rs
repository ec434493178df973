//! Execution of operators that are formulas, on rows of embeddings.
//!
//! A formula and its gradient are each lowered once to an [`OperatorProgram`](program::OperatorProgram): steps over
//! blocks of a few rows that stay in the first-level cache. Each step is a vectorised loop that uses the same arithmetic
//! as losses do. Subexpressions that depend on parameters alone, such as the sine of an angle, are computed once where
//! rows share their parameters.

mod block;
mod buffers;
mod evaluator;
mod lower;
mod program;
mod run;

use pbg_formula::operator::{FormulaExecutor, FormulaHandle};

pub(crate) use evaluator::{Evaluator, FormulaParameters, ParameterSums};

use pbg_rows::spec::ModelSpec;

/// One worker's evaluators, one for each formula that it has evaluated so far.
#[derive(Debug, Default)]
pub(crate) struct Evaluators(Vec<Evaluator>);

impl Evaluators {
    /// Returns the evaluator of `formula`, which it creates if necessary.
    pub(crate) fn get_or_create(&mut self, formula: FormulaHandle) -> &mut Evaluator {
        let known = self.0.iter().position(|e| e.formula() == formula);
        let index = known.unwrap_or_else(|| {
            self.0.push(Evaluator::new(formula));
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Returns the current size of the buffers in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Evaluator::bytes).sum()
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
    let mut met: Vec<(FormulaHandle, usize)> = Vec::new();
    for relation in &spec.relations {
        let pbg_core::model::Operator::Traced(formula) = relation.operator else {
            continue;
        };
        let dimension = spec.entities[relation.rhs].dimension;
        for formula in [Some(formula), formula.lhs()].into_iter().flatten() {
            match met.iter_mut().find(|(known, _)| *known == formula) {
                Some((_, largest)) => *largest = dimension.max(*largest),
                None => met.push((formula, dimension)),
            }
        }
    }
    let bytes = |&(formula, dimension)| Evaluator::new(formula).bytes_for(dimension);
    met.iter().map(bytes).sum()
}
