//! Parameters that all workers share: operators of relations and global embeddings, each with its
//! Adagrad accumulators.
//!
//! Names and shapes are those of PBG's checkpoints, so that parameters can be carried over:
//! `relations/<index>/operator/<lhs|rhs>/<tensor>` and `entities/<type>/global_embedding`. With
//! static relations only the right side has an operator; with dynamic relations either side has
//! one, tensors have a leading dimension for the relation, and some names are in the plural.

use std::f32::consts::PI;
use std::ops::Range;

use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_core::operator::{Initial, ParameterVector};
use pbg_core::seed::{self, Purpose};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use crate::rows::SharedRows;
use crate::spec::ModelSpec;

/// A named tensor and its accumulated squared gradients.
#[derive(Debug)]
pub struct ParamTensor {
    /// Name in checkpoints.
    pub name: String,
    /// Shape in checkpoints.
    pub shape: Vec<usize>,
    /// Floats of the embeddings that it is for.
    pub dimension: usize,
    /// Values; a row per relation, or a single row.
    pub values: SharedRows,
    /// Adagrad's accumulators, laid out as the values.
    pub adagrad: SharedRows,
}

impl ParamTensor {
    fn new(
        name: String,
        shape: Vec<usize>,
        (rows, dimension): (usize, usize),
        values: Vec<f32>,
    ) -> Self {
        let width = values.len() / rows.max(1);
        let values = SharedRows::from_vec(values, width);
        let adagrad = SharedRows::zeros(rows, width);
        Self {
            name,
            shape,
            dimension,
            values,
            adagrad,
        }
    }

    /// A copy of the values, in the order of the shape.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        copy(&self.values)
    }

    /// A copy of the accumulators.
    #[must_use]
    pub fn adagrad_to_vec(&self) -> Vec<f32> {
        copy(&self.adagrad)
    }
}

fn copy(rows: &SharedRows) -> Vec<f32> {
    let mut values = vec![0.0; rows.rows() * rows.width()];
    rows.read_rows(0, &mut values);
    values
}

/// A value that does not fit the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The model has no such parameter.
    #[error("the model has no parameter {name}")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The wrong number of values.
    #[error("parameter {name} has {expected} values, not {found}")]
    Length {
        /// Its name.
        name: String,
        /// What the model wants.
        expected: usize,
        /// What was given.
        found: usize,
    },
}

/// All shared parameters of a model.
#[derive(Debug)]
pub struct Params {
    tensors: Vec<ParamTensor>,
    /// Per relation and side, where the operator's tensors start.
    operators: Vec<[Option<OperatorSlot>; 2]>,
    /// Per entity type.
    globals: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct OperatorSlot {
    first: usize,
    count: usize,
}

impl Params {
    /// The parameters before any training: operators are the identity or random, global embeddings zero. What is random
    /// is drawn from `seed`, each row from its place alone, so that more relations change none.
    #[must_use]
    pub fn new(spec: &ModelSpec, seed: u64) -> Self {
        let mut params = Self {
            tensors: Vec::new(),
            operators: Vec::new(),
            globals: Vec::new(),
        };
        for (index, relation) in spec.relations.iter().enumerate() {
            let dimension = spec.entities[relation.rhs].dimension;
            let mut sides = [None, None];
            for side in Side::BOTH {
                if side == Side::Rhs || spec.is_dynamic() {
                    let rows = spec.dynamic_relations;
                    sides[side as usize] = params.add_operator(
                        (index, side),
                        relation.operator,
                        dimension,
                        rows,
                        (seed, spec.operator_init_scale),
                    );
                }
            }
            params.operators.push(sides);
        }
        for entity in &spec.entities {
            let global = spec.global_emb.then(|| {
                let name = format!("entities/{}/global_embedding", entity.name);
                let zeros = vec![0.0; entity.dimension];
                let shape = vec![entity.dimension];
                let tensor = ParamTensor::new(name, shape, (1, entity.dimension), zeros);
                params.tensors.push(tensor);
                params.tensors.len() - 1
            });
            params.globals.push(global);
        }
        params
    }

    fn add_operator(
        &mut self,
        (relation, side): (usize, Side),
        operator: Operator,
        dimension: usize,
        rows: Option<usize>,
        (seed, scale): (u64, Option<f32>),
    ) -> Option<OperatorSlot> {
        let first = self.tensors.len();
        let at = [relation as u64, side as u64];
        let side = match side {
            Side::Lhs => "lhs",
            Side::Rhs => "rhs",
        };
        for (index, part) in (0..).zip(parts(operator, dimension)) {
            let tensor = if rows.is_some() {
                part.dynamic_name
            } else {
                part.name
            };
            let name = format!("relations/{relation}/operator/{side}/{tensor}");
            let shape = rows.into_iter().chain(part.shape.iter().copied()).collect();
            let rows = rows.unwrap_or(1);
            let draw = |row| part.row((seed, scale), [at[0], at[1], index, row as u64]);
            let values = (0..rows).flat_map(draw).collect();
            let tensor = ParamTensor::new(name, shape, (rows, dimension), values);
            self.tensors.push(tensor);
        }
        let count = self.tensors.len() - first;
        (count > 0).then_some(OperatorSlot { first, count })
    }

    /// All tensors, in a fixed order.
    #[must_use]
    pub fn tensors(&self) -> &[ParamTensor] {
        &self.tensors
    }

    /// The tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&ParamTensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// Replaces the values of a tensor and, if given, its accumulators.
    ///
    /// # Errors
    /// When the model has no such tensor or the number of values is another.
    pub fn set(
        &mut self,
        name: &str,
        values: &[f32],
        adagrad: Option<&[f32]>,
    ) -> Result<(), ParamError> {
        let Some(tensor) = self.tensors.iter_mut().find(|t| t.name == name) else {
            return Err(ParamError::Unknown {
                name: name.to_owned(),
            });
        };
        for (rows, new) in [
            (&mut tensor.values, Some(values)),
            (&mut tensor.adagrad, adagrad),
        ] {
            let (rows, Some(new)) = (rows.get_mut(), new) else {
                continue;
            };
            if rows.len() != new.len() {
                let (expected, found) = (rows.len(), new.len());
                return Err(ParamError::Length {
                    name: name.to_owned(),
                    expected,
                    found,
                });
            }
            rows.copy_from_slice(new);
        }
        Ok(())
    }

    /// Tensors of the operator on `side` of relation `relation`, none if it has no parameters.
    pub(crate) fn operator(&self, relation: usize, side: Side) -> &[ParamTensor] {
        &self.tensors[self.operator_indices(relation, side)]
    }

    /// Which of all tensors these are.
    #[must_use]
    pub fn operator_indices(&self, relation: usize, side: Side) -> Range<usize> {
        match self.operators[relation][side as usize] {
            Some(slot) => slot.first..slot.first + slot.count,
            None => 0..0,
        }
    }

    /// The global embedding of an entity type.
    pub(crate) fn global(&self, entity: usize) -> Option<&ParamTensor> {
        self.global_index(entity).map(|index| &self.tensors[index])
    }

    /// Which of all tensors this is.
    #[must_use]
    pub fn global_index(&self, entity: usize) -> Option<usize> {
        self.globals[entity]
    }
}

/// One tensor of an operator.
struct Part {
    name: &'static str,
    dynamic_name: &'static str,
    shape: Vec<usize>,
    initial: PartInitial,
}

/// What a row of a tensor is before any training.
enum PartInitial {
    Values(Vec<f32>),
    /// So many numbers of a formula's parameter.
    Drawn(Initial, usize),
}

impl Part {
    /// The row at `place`: relation of the specification, side, tensor, row. With a `scale`, numbers that no formula is
    /// about are normally distributed with this standard deviation.
    fn row(&self, (seed, scale): (u64, Option<f32>), place: [u64; 4]) -> Vec<f32> {
        let (initial, width) = match (&self.initial, scale) {
            (PartInitial::Values(values), None) => return values.clone(),
            (PartInitial::Values(values), Some(scale)) => (Initial::Normal(scale), values.len()),
            (PartInitial::Drawn(initial, width), _) => (*initial, *width),
        };
        let mut rng = seed::stream(seed, Purpose::Operator, &place);
        let mut row = vec![0.0; width];
        match initial {
            Initial::Zero => {}
            Initial::One => row.fill(1.0),
            Initial::Normal(deviation) => row.fill_with(|| {
                let number: f32 = StandardNormal.sample(&mut rng);
                number * deviation
            }),
            Initial::Angle => row.fill_with(|| rng.random_range(-PI..PI)),
        }
        row
    }
}

/// The tensors of an operator, in the order in which the kernels pack them.
fn parts(operator: Operator, dimension: usize) -> Vec<Part> {
    let vector = |name, dynamic_name, value, len| Part {
        name,
        dynamic_name,
        shape: vec![len],
        initial: PartInitial::Values(vec![value; len]),
    };
    let matrix = || Part {
        name: "linear_transformation",
        dynamic_name: "linear_transformations",
        shape: vec![dimension, dimension],
        initial: PartInitial::Values(identity(dimension)),
    };
    let translation = || vector("translation", "translations", 0.0, dimension);
    match operator {
        Operator::None => vec![],
        Operator::Diagonal => vec![vector("diagonal", "diagonals", 1.0, dimension)],
        Operator::Translation => vec![translation()],
        Operator::Linear => vec![matrix()],
        Operator::Affine => vec![matrix(), translation()],
        Operator::ComplexDiagonal => {
            vec![
                vector("real", "real", 1.0, dimension / 2),
                vector("imag", "imag", 0.0, dimension / 2),
            ]
        }
        Operator::Traced(formula) => {
            let width = dimension / formula.components();
            formula_parts(formula.formula().parameters(), width)
        }
    }
}

/// The vectors of a formula.
fn formula_parts(parameters: &'static [ParameterVector], width: usize) -> Vec<Part> {
    let part = |parameter: &'static ParameterVector| Part {
        name: &parameter.name,
        dynamic_name: &parameter.name,
        shape: vec![width],
        initial: PartInitial::Drawn(parameter.initial, width),
    };
    parameters.iter().map(part).collect()
}

fn identity(dimension: usize) -> Vec<f32> {
    let mut matrix = vec![0.0; dimension * dimension];
    matrix
        .iter_mut()
        .step_by(dimension + 1)
        .for_each(|x| *x = 1.0);
    matrix
}
