//! Formulas of operators and comparators that are not finite for finite numbers: found in the batch whose loss was not
//! finite, and kept in a file that repeats it.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_formula::breaks::{FormulaBreak, short};
use pbg_formula::comparator::definition::Candidates;
use pbg_formula::comparator::{ComparatorDefinition, ComparatorFormula};
use pbg_formula::operator::interpret::VectorInput;
use pbg_formula::operator::{Expression, OperatorDefinition, OperatorFormula};
use pbg_kernels::step::BatchJob;
use pbg_rows::params::ParamTensor;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::LookUp;
use serde::{Deserialize, Serialize};

/// Version of the file format.
const FORMAT: u32 = 1;
/// Number of files that a folder keeps per formula.
const FILES: u32 = 20;
/// Size (bytes) of the largest file that is read.
const BYTES: u64 = 64 << 20;
/// Largest number of nodes of a formula in a file.
const NODES: usize = 100_000;
/// Largest number of floats of an embedding in a file.
const DIMENSION: usize = 65_536;
/// Largest number of values that the evaluation of a file computes: nodes times elements.
const VALUES: usize = 50_000_000;
/// Number of negatives that each edge is compared with in the search.
const NEGATIVES: usize = 20;
/// Number of values that a search computes, which takes about a second.
const SEARCHED: usize = 100_000_000;

/// A formula, with finite numbers for which it is not finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaFault {
    format: u32,
    formula: FaultyFormula,
    /// Embedding that an operator transforms, or the two that a comparator compares.
    embeddings: Vec<Vec<f32>>,
    /// Parameters of the relation, one vector after the other.
    parameters: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum FaultyFormula {
    /// Operator, as it transforms right entities.
    Operator(OperatorDefinition),
    /// Operator, as it transforms left entities.
    LeftOperator(OperatorDefinition),
    Comparator(ComparatorDefinition),
}

/// Place at which a formula stops to be finite.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultFound {
    /// Kind and name of the formula.
    pub formula: String,
    /// Whether the derivative is not finite, while the value is.
    pub of_derivative: bool,
    /// The node, of the formula or of its derivative.
    pub node: FormulaBreak,
    /// Largest magnitude of the embeddings and parameters.
    pub largest: f32,
}

impl std::fmt::Display for FaultFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = match self.of_derivative {
            true => "the derivative of ",
            false => "",
        };
        write!(
            f,
            "{of}{} is not finite, although the embeddings and parameters are (at most {}): {}",
            self.formula,
            short(self.largest.into()),
            self.node
        )
    }
}

/// Reason why a file is not one of a formula.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct FaultFileError {
    path: PathBuf,
    reason: String,
}

impl FormulaFault {
    /// Looks for a formula that is not finite among the edges of a batch and some of its negatives, with the numbers as
    /// they are now, for about a second. `None` if it finds none.
    pub(crate) fn find(spec: &ModelSpec, job: &BatchJob<'_>) -> Option<Box<(Self, FaultFound)>> {
        let left = Cell::new(SEARCHED);
        Search { spec, job, left }.run()
    }

    fn new(formula: FaultyFormula, embeddings: &[&[f32]], parameters: &[f32]) -> Self {
        Self {
            format: FORMAT,
            formula,
            embeddings: embeddings.iter().map(|row| row.to_vec()).collect(),
            parameters: parameters.to_vec(),
        }
    }

    /// Evaluates the formula and its derivative. Returns where they stop to be finite; `None` if they do not.
    ///
    /// # Errors
    /// When the formula breaks a rule, or the numbers do not fit it.
    pub fn evaluate(&self) -> Result<Option<FaultFound>, String> {
        let widest = self.embeddings.iter().map(Vec::len).max().unwrap_or(0);
        let nodes = match &self.formula {
            FaultyFormula::Operator(of) | FaultyFormula::LeftOperator(of) => of.nodes.len(),
            FaultyFormula::Comparator(of) => of.nodes.len(),
        };
        if widest > DIMENSION || nodes.saturating_mul(widest) > VALUES {
            return Err("has a formula or an embedding that is too large".to_owned());
        }
        let numbers = self.embeddings.iter().flatten().chain(&self.parameters);
        let largest = numbers.clone().fold(0.0, |max: f32, x| max.max(x.abs()));
        if !numbers.clone().all(|x| x.is_finite()) {
            return Ok(None);
        }
        let (formula, found) = match &self.formula {
            FaultyFormula::Comparator(definition) => {
                let formula = checked(definition.clone().check(NODES))?;
                let named = format!("the comparator `{}`", formula.name());
                let [left, right] = &self.embeddings[..] else {
                    return Err("does not have two embeddings".to_owned());
                };
                (named, of_comparator(&formula, left, right)?)
            }
            FaultyFormula::Operator(definition) => {
                let formula = checked(definition.clone().check(NODES))?;
                let named = format!("the operator `{}`", formula.name());
                (
                    named,
                    of_operator(&formula, self.embedding()?, &self.parameters)?,
                )
            }
            FaultyFormula::LeftOperator(definition) => {
                let formula = checked(definition.clone().check(NODES))?;
                let named = format!("the operator `{}` of left entities", formula.name());
                let lhs = formula.lhs().ok_or("has no formula for left entities")?;
                (
                    named,
                    of_operator(lhs, self.embedding()?, &self.parameters)?,
                )
            }
        };
        Ok(found.map(|(of_derivative, node)| FaultFound {
            formula,
            of_derivative,
            node,
            largest,
        }))
    }

    fn embedding(&self) -> Result<&[f32], String> {
        match &self.embeddings[..] {
            [embedding] => Ok(embedding),
            _ => Err("does not have one embedding".to_owned()),
        }
    }

    /// Writes it to a new file in `folder`, which is created if it does not exist.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let name = match &self.formula {
            FaultyFormula::Operator(of) | FaultyFormula::LeftOperator(of) => &of.name,
            FaultyFormula::Comparator(of) => &of.name,
        };
        // Names in a configuration may have characters with a meaning in a path.
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(100)
            .collect();
        fs::create_dir_all(folder)?;
        for number in 1..=FILES {
            let path = folder.join(format!("{name}-formula-{number}.json"));
            // Several workers may fail at once.
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    file?.write_all(&serde_json::to_vec(self)?)?;
                    return Ok(path);
                }
            }
        }
        Err(io::Error::other("there are too many files already"))
    }

    /// Reads a file; `None` if it is JSON, but not that of a formula.
    ///
    /// # Errors
    /// When it cannot be read, or its numbers do not fit its formula.
    pub fn read(path: &Path) -> Result<Option<Self>, FaultFileError> {
        let failed = |reason: String| FaultFileError {
            path: path.to_owned(),
            reason,
        };
        let size = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !size.is_file() || size.len() > BYTES {
            return Ok(None);
        }
        let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let Ok(fault) = serde_json::from_slice::<Self>(&text) else {
            return Ok(None);
        };
        match fault.format == FORMAT {
            true => Ok(Some(fault)),
            false => Err(failed(format!(
                "has format {}, but this program reads format {FORMAT}",
                fault.format
            ))),
        }
    }
}

/// Place at which a formula or its derivative is not finite; whether it is in the derivative.
type Place = Option<(bool, FormulaBreak)>;

fn of_operator(
    formula: &OperatorFormula,
    embedding: &[f32],
    parameters: &[f32],
) -> Result<Place, String> {
    let width = fitting(embedding.len(), formula.components())?;
    if parameters.len() != formula.parameters().len() * width {
        return Err("has another number of parameters than the formula".to_owned());
    }
    let (components, parameters) = (wide(embedding), wide(parameters));
    let ones = vec![1.0; formula.forward().outputs.len() * width];
    let input = VectorInput {
        width,
        components: &components,
        parameters: &parameters,
        gradients: &ones,
    };
    Ok(first_of(formula.forward(), formula.backward(), &input))
}

fn of_comparator(
    formula: &ComparatorFormula,
    left: &[f32],
    right: &[f32],
) -> Result<Place, String> {
    let width = fitting(left.len(), formula.components())?;
    if left.len() != right.len() {
        return Err("has embeddings of different lengths".to_owned());
    }
    let (left, right) = (wide(left), wide(right));
    let input = VectorInput {
        width,
        components: &right,
        parameters: &left,
        gradients: &[],
    };
    let pairs = formula.pairs(Candidates::Right);
    Ok(first_of(&pairs.score, &pairs.slopes, &input))
}

fn first_of(value: &Expression, derivative: &Expression, input: &VectorInput<'_>) -> Place {
    let in_derivative = || derivative.first_break(input).map(|node| (true, node));
    let in_value = value.first_break(input).map(|node| (false, node));
    in_value.or_else(in_derivative)
}

fn checked<T>(formula: Result<T, impl std::fmt::Display>) -> Result<T, String> {
    formula.map_err(|error| format!("has a formula that breaks a rule: {error}"))
}

/// Returns the length of a component.
fn fitting(dimension: usize, components: usize) -> Result<usize, String> {
    match dimension > 0 && dimension.is_multiple_of(components) {
        true => Ok(dimension / components),
        false => Err("has an embedding that cannot be split into components".to_owned()),
    }
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| x.into()).collect()
}

/// Search for a formula that is not finite in a batch.
struct Search<'a> {
    spec: &'a ModelSpec,
    job: &'a BatchJob<'a>,
    /// Number of values that may still be computed.
    left: Cell<usize>,
}

type Found = Option<Box<(FormulaFault, FaultFound)>>;

impl Search<'_> {
    fn run(&self) -> Found {
        let rules = &self.spec.relations[self.job.batch.spec_index()];
        let has_operator = matches!(rules.operator, Operator::Traced(_));
        if !has_operator && self.spec.comparator.formula().is_none() {
            return None;
        }
        for edge in 0..self.job.batch.len() {
            if self.left.get() == 0 {
                return None;
            }
            let found = match self.spec.is_dynamic() {
                true => self.of_dynamic(edge),
                false => self.of_static(edge),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Checks an edge whose right entity, and possibly left entity, is transformed, as all negatives are.
    fn of_static(&self, edge: usize) -> Found {
        let transformed = |side, entity| self.transformed(side, edge, self.row(side, entity));
        let (lhs, rhs) = (self.job.batch.lhs[edge], self.job.batch.rhs[edge]);
        let (lhs, rhs) = match (transformed(Side::Lhs, lhs), transformed(Side::Rhs, rhs)) {
            (Ok(lhs), Ok(rhs)) => (lhs, rhs),
            (Err(found), _) | (_, Err(found)) => return Some(found),
        };
        let found = self.compared(&lhs, &rhs);
        for side in Side::BOTH {
            for &offset in self.negatives(side, edge) {
                let row = match transformed(side, offset) {
                    Ok(row) => row,
                    Err(found) => return Some(found),
                };
                let found = match side {
                    Side::Lhs => self.compared(&row, &rhs),
                    Side::Rhs => self.compared(&lhs, &row),
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        found
    }

    /// Checks an edge of which one entity is transformed, and compared with the other one and with negatives as they
    /// are.
    fn of_dynamic(&self, edge: usize) -> Found {
        let rows = [
            self.row(Side::Lhs, self.job.batch.lhs[edge]),
            self.row(Side::Rhs, self.job.batch.rhs[edge]),
        ];
        for side in Side::BOTH {
            let [this, other] = [side, side.other()].map(|side| &rows[side as usize]);
            let query = match self.transformed(side, edge, this.clone()) {
                Ok(query) => query,
                Err(found) => return Some(found),
            };
            let negatives = self.negatives(side.other(), edge);
            let negatives = negatives.map(|&offset| self.row(side.other(), offset));
            for candidate in std::iter::once(other.clone()).chain(negatives) {
                let found = match side {
                    Side::Lhs => self.compared(&query, &candidate),
                    Side::Rhs => self.compared(&candidate, &query),
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Returns some negatives that replace `side`, of the partition on that side; other ones for each edge.
    fn negatives(&self, side: Side, edge: usize) -> impl Iterator<Item = &u32> {
        let entities = self.job.tables.side(side).entities();
        let draws = self.job.draws.side(side);
        let first = (edge * NEGATIVES) % draws.len().max(1);
        let some = draws[first..].iter().take(NEGATIVES);
        some.filter(move |&&offset| (offset as usize) < entities)
    }

    /// Returns the embedding of an entity.
    fn row(&self, side: Side, entity: u32) -> Vec<f32> {
        let rules = &self.spec.relations[self.job.batch.spec_index()];
        let mut row = vec![0.0; self.spec.entities[rules.entity(side)].dimension];
        let look_up = LookUp {
            max_norm: self.spec.max_norm,
            in_place: false,
        };
        look_up.row(
            self.job.tables.side(side),
            entity,
            &mut row,
            &mut Vec::new(),
        );
        if let Some(global) = self.job.params.global(rules.entity(side)) {
            let mut added = vec![0.0; row.len()];
            global.values.read_row(0, &mut added);
            row.iter_mut()
                .zip(added)
                .for_each(|(x, global)| *x += global);
        }
        row
    }

    /// Transforms the embedding of an entity on `side` as that of an edge is; the fault if the operator is not finite.
    fn transformed(
        &self,
        side: Side,
        edge: usize,
        row: Vec<f32>,
    ) -> Result<Vec<f32>, Box<(FormulaFault, FaultFound)>> {
        let relation = self.job.batch.spec_index();
        let Operator::Traced(handle) = self.spec.relations[relation].operator else {
            return Ok(row);
        };
        let formula = handle.formula();
        let on_left = side == Side::Lhs && !self.spec.is_dynamic();
        let (own, number) = match self.job.relations() {
            Some(relations) => (side, relations[edge] as usize),
            None => (Side::Rhs, 0),
        };
        let used = match (on_left, formula.lhs()) {
            (false, _) => formula,
            (true, Some(lhs)) => lhs,
            (true, None) => return Ok(row),
        };
        let parameters = packed(self.job.params.operator(relation, own), number);
        self.spend(
            used.forward().nodes.len() + used.backward().nodes.len(),
            row.len(),
        );
        if let Ok(Some(_)) = of_operator(used, &row, &parameters) {
            let definition = formula.definition().clone();
            let faulty = match on_left {
                true => FaultyFormula::LeftOperator(definition),
                false => FaultyFormula::Operator(definition),
            };
            let fault = located(FormulaFault::new(faulty, &[&row], &parameters));
            return fault.map_or(Ok(row), Err);
        }
        let output = used.apply(&wide(&row), &wide(&parameters));
        Ok(output.into_iter().map(|x| x as f32).collect())
    }

    /// Counts the values of an evaluation.
    fn spend(&self, nodes: usize, elements: usize) {
        let left = self.left.get();
        self.left
            .set(left.saturating_sub(nodes.saturating_mul(elements)));
    }

    fn compared(&self, left: &[f32], right: &[f32]) -> Found {
        let formula = self.spec.comparator.formula()?.formula();
        let pairs = formula.pairs(Candidates::Right);
        self.spend(
            pairs.score.nodes.len() + pairs.slopes.nodes.len(),
            left.len(),
        );
        of_comparator(formula, left, right).ok()??;
        let faulty = FaultyFormula::Comparator(formula.definition().clone());
        located(FormulaFault::new(faulty, &[left, right], &[]))
    }
}

/// Returns a fault with the place where its formula is not finite; `None` if its numbers are not finite either.
fn located(fault: FormulaFault) -> Found {
    let found = fault.evaluate().ok()??;
    Some(Box::new((fault, found)))
}

/// Returns row `row` of all tensors of an operator, one after the other.
fn packed(tensors: &[ParamTensor], row: usize) -> Vec<f32> {
    let mut all = Vec::new();
    for tensor in tensors {
        let first = all.len();
        all.resize(first + tensor.values.width(), 0.0);
        tensor.values.read_row(row, &mut all[first..]);
    }
    all
}
