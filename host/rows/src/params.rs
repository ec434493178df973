//! Parameters that all workers share: operators of relations and global embeddings, with their Adagrad accumulators.
//!
//! Names and shapes are those of PBG's checkpoints, so that parameters can be converted:
//! `relations/<index>/operator/<lhs|rhs>/<tensor>` and `entities/<type>/global_embedding`. With static relations only
//! the right side has an operator. With dynamic relations each side has one, tensors have a leading dimension for the
//! relation type, and some names are in the plural.

use std::f32::consts::PI;
use std::ops::Range;

use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_core::seed::{self, StreamPurpose};
use pbg_formula::operator::{InitialValue, ParameterVector};
use pbg_gemm::pages;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use crate::shared_rows::SharedRows;
use crate::spec::{ModelSpec, RelationSpec};

/// A named tensor of parameters and its accumulated squared gradients.
#[derive(Debug)]
pub struct ParamTensor {
    /// Name in checkpoints.
    pub name: String,
    /// Shape in checkpoints.
    pub shape: Vec<usize>,
    /// Dimension of the embeddings that the parameters act on.
    pub dimension: usize,
    /// Values, with one row per relation type or a single row.
    pub values: SharedRows,
    /// Adagrad's accumulators, in the layout of the values.
    pub adagrad: SharedRows,
}

impl ParamTensor {
    fn new(name: String, shape: Vec<usize>, dimension: usize, values: SharedRows) -> Self {
        let adagrad = SharedRows::zeros(values.rows(), values.width());
        Self {
            name,
            shape,
            dimension,
            values,
            adagrad,
        }
    }

    /// Returns the number of values.
    fn numbers(&self) -> usize {
        self.values.rows() * self.values.width()
    }

    /// Whether each row is a square matrix.
    #[must_use]
    pub fn is_matrix(&self) -> bool {
        self.values.width() == self.dimension * self.dimension
    }

    /// Returns a copy of the values, in the order of the shape.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        copy(&self.values)
    }

    /// Returns a copy of the accumulators.
    #[must_use]
    pub fn adagrad_to_vec(&self) -> Vec<f32> {
        copy(&self.adagrad)
    }
}

/// Size of a tensor, known before it is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSize {
    /// Rows: one per relation type, or a single one.
    pub rows: u64,
    /// Floats per row.
    pub width: u64,
}

impl TensorSize {
    /// Returns the bytes of the values and their accumulators, saturating at the largest number.
    #[must_use]
    pub fn bytes(self) -> u64 {
        let floats = self.rows.saturating_mul(self.width);
        floats.saturating_mul(2 * size_of::<f32>() as u64)
    }
}

fn copy(rows: &SharedRows) -> Vec<f32> {
    let mut values = vec![0.0; rows.rows() * rows.width()];
    rows.read_rows(0, &mut values);
    values
}

/// Reason why values cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The model has no such parameter.
    #[error("the model has no parameter {name}")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The number of values differs from that of the model.
    #[error("parameter {name} has {expected} values, not {found}")]
    Length {
        /// Its name.
        name: String,
        /// Number of values in the model.
        expected: usize,
        /// Number of values that were given.
        found: usize,
    },
}

/// All shared parameters of a model.
#[derive(Debug)]
pub struct Params {
    tensors: Vec<ParamTensor>,
    /// Position of the operator's tensors, per relation and side.
    operators: Vec<[Option<OperatorSlot>; 2]>,
    /// Index of the global embedding's tensor, per entity type.
    globals: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct OperatorSlot {
    first: usize,
    count: usize,
}

impl Params {
    /// Creates the initial parameters: operators are the identity or random, global embeddings are zero. Random values
    /// are drawn from `seed`, each row by its position alone, so that adding relations does not change the other rows.
    #[must_use]
    pub fn new(spec: &ModelSpec, seed: u64) -> Self {
        let mut params = Self {
            tensors: Vec::new(),
            operators: Vec::new(),
            globals: Vec::new(),
        };
        for (index, relation) in spec.relations.iter().enumerate() {
            let sides = Side::BOTH.map(|side| {
                has_operator(spec, side)
                    .then(|| params.add_operator(index, side, relation, spec, seed))
            });
            params.operators.push(sides.map(Option::flatten));
        }
        for entity in &spec.entities {
            let global = spec.global_emb.then(|| {
                let name = format!("entities/{}/global_embedding", entity.name);
                let zeros = SharedRows::zeros(1, entity.dimension);
                let shape = vec![entity.dimension];
                let tensor = ParamTensor::new(name, shape, entity.dimension, zeros);
                params.tensors.push(tensor);
                params.tensors.len() - 1
            });
            params.globals.push(global);
        }
        params
    }

    /// Returns the sizes of a model's tensors in the order of [`Params::tensors`], without allocating them.
    pub fn sizes(spec: &ModelSpec) -> impl Iterator<Item = TensorSize> + '_ {
        let rows = spec.dynamic_relations.unwrap_or(1) as u64;
        let of_operators = spec.relations.iter().flat_map(move |relation| {
            let dimension = spec.entities[relation.rhs].dimension;
            let sides = Side::BOTH
                .into_iter()
                .filter(move |&side| has_operator(spec, side));
            sides
                .flat_map(move |_| parts(relation.operator, dimension))
                .map(move |part| TensorSize {
                    rows,
                    width: part.width() as u64,
                })
        });
        let entities = spec.entities.iter().filter(|_| spec.global_emb);
        of_operators.chain(entities.map(|entity| TensorSize {
            rows: 1,
            width: entity.dimension as u64,
        }))
    }

    fn add_operator(
        &mut self,
        index: usize,
        side: Side,
        relation: &RelationSpec,
        spec: &ModelSpec,
        seed: u64,
    ) -> Option<OperatorSlot> {
        let dimension = spec.entities[relation.rhs].dimension;
        let first = self.tensors.len();
        let named = match side {
            Side::Lhs => "lhs",
            Side::Rhs => "rhs",
        };
        for (number, part) in (0..).zip(parts(relation.operator, dimension)) {
            let tensor = match spec.is_dynamic() {
                true => part.dynamic_name,
                false => part.name,
            };
            let name = format!("relations/{index}/operator/{named}/{tensor}");
            let rows = spec.dynamic_relations;
            let shape = rows.into_iter().chain(part.shape.iter().copied()).collect();
            let width = part.width();
            let mut values = pages::zeroed(rows.unwrap_or(1) * width);
            for (row, numbers) in (0..).zip(values.chunks_exact_mut(width)) {
                let place = [index as u64, side as u64, number, row];
                part.fill(numbers, seed, spec.operator_init_scale, place);
            }
            let values = SharedRows::from_vec(values, width);
            let tensor = ParamTensor::new(name, shape, dimension, values);
            self.tensors.push(tensor);
        }
        let count = self.tensors.len() - first;
        (count > 0).then_some(OperatorSlot { first, count })
    }

    /// Returns all tensors, in a fixed order.
    #[inline]
    #[must_use]
    pub fn tensors(&self) -> &[ParamTensor] {
        &self.tensors
    }

    /// Returns the tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&ParamTensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// Replaces the values of a tensor and, if given, its accumulators.
    ///
    /// # Errors
    /// When the tensor does not exist, or the number of values differs from its own.
    pub fn set(
        &mut self,
        name: &str,
        values: &[f32],
        adagrad: Option<&[f32]>,
    ) -> Result<(), ParamError> {
        let expected = self.tensor(name).map_or(0, ParamTensor::numbers);
        self.set_prefix(name, values, adagrad)?;
        if values.len() == expected {
            return Ok(());
        }
        Err(ParamError::Length {
            name: name.to_owned(),
            expected,
            found: values.len(),
        })
    }

    /// Replaces the first values of a tensor and, if given, of its accumulators; the remaining ones keep their values.
    ///
    /// # Errors
    /// When the tensor does not exist or has fewer values, or the numbers of values and accumulators differ.
    pub fn set_prefix(
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
        let fits = values.len() <= tensor.numbers();
        let expected = if fits { values.len() } else { tensor.numbers() };
        for new in [Some(values), adagrad].into_iter().flatten() {
            if new.len() != expected {
                let found = new.len();
                return Err(ParamError::Length {
                    name: name.to_owned(),
                    expected,
                    found,
                });
            }
        }
        tensor.values.get_mut()[..expected].copy_from_slice(values);
        if let Some(adagrad) = adagrad {
            tensor.adagrad.get_mut()[..expected].copy_from_slice(adagrad);
        }
        Ok(())
    }

    /// Returns the tensors of the operator on `side` of relation `relation`; empty if it has no parameters.
    #[inline]
    pub fn operator(&self, relation: usize, side: Side) -> &[ParamTensor] {
        &self.tensors[self.operator_indices(relation, side)]
    }

    /// Returns the indices, among all tensors, of the tensors of the operator on `side` of relation `relation`.
    #[inline]
    #[must_use]
    pub fn operator_indices(&self, relation: usize, side: Side) -> Range<usize> {
        match self.operators[relation][side as usize] {
            Some(slot) => slot.first..slot.first + slot.count,
            None => 0..0,
        }
    }

    /// Returns the global embedding of an entity type.
    #[inline]
    pub fn global(&self, entity: usize) -> Option<&ParamTensor> {
        self.global_index(entity).map(|index| &self.tensors[index])
    }

    /// Returns the index, among all tensors, of the global embedding of an entity type.
    #[inline]
    #[must_use]
    pub fn global_index(&self, entity: usize) -> Option<usize> {
        self.globals[entity]
    }
}

/// One tensor of an operator.
struct OperatorTensor {
    name: &'static str,
    dynamic_name: &'static str,
    shape: Vec<usize>,
    initial: InitialValues,
}

/// Initial values of a row of a tensor.
enum InitialValues {
    /// The same number everywhere.
    Filled(f32),
    /// The identity matrix of a dimension.
    Identity(usize),
    /// The distribution that a formula declares for the parameter.
    Drawn(InitialValue),
}

impl OperatorTensor {
    /// Returns the floats per row.
    fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// Writes the initial values of the row at `place`: relation of the specification, side, tensor, row. With a
    /// `scale`, they are normally distributed with this standard deviation, except where a formula declares the
    /// distribution.
    fn fill(&self, row: &mut [f32], seed: u64, scale: Option<f32>, place: [u64; 4]) {
        let initial = match (&self.initial, scale) {
            (InitialValues::Drawn(initial), _) => *initial,
            (_, Some(scale)) => InitialValue::Normal(scale),
            (InitialValues::Filled(number), None) => return row.fill(*number),
            (InitialValues::Identity(dimension), None) => {
                row.fill(0.0);
                let diagonal = row.iter_mut().step_by(dimension + 1);
                return diagonal.for_each(|x| *x = 1.0);
            }
        };
        let mut rng = seed::stream(seed, StreamPurpose::Operator, &place);
        match initial {
            InitialValue::Zero => row.fill(0.0),
            InitialValue::One => row.fill(1.0),
            InitialValue::Normal(deviation) => row.fill_with(|| {
                let number: f32 = StandardNormal.sample(&mut rng);
                number * deviation
            }),
            InitialValue::Angle => row.fill_with(|| rng.random_range(-PI..PI)),
        }
    }
}

/// Returns whether relations have an operator on `side`: with static relations only the right side has one.
fn has_operator(spec: &ModelSpec, side: Side) -> bool {
    side == Side::Rhs || spec.is_dynamic()
}

/// Returns the tensors of an operator, in the order in which the kernels pack them.
fn parts(operator: Operator, dimension: usize) -> Vec<OperatorTensor> {
    let vector = |name, dynamic_name, value, len| OperatorTensor {
        name,
        dynamic_name,
        shape: vec![len],
        initial: InitialValues::Filled(value),
    };
    let matrix = || OperatorTensor {
        name: "linear_transformation",
        dynamic_name: "linear_transformations",
        shape: vec![dimension, dimension],
        initial: InitialValues::Identity(dimension),
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

/// Returns the parameter vectors of a formula as tensors of `width` floats.
fn formula_parts(parameters: &'static [ParameterVector], width: usize) -> Vec<OperatorTensor> {
    let part = |parameter: &'static ParameterVector| OperatorTensor {
        name: &parameter.name,
        dynamic_name: &parameter.name,
        shape: vec![width],
        initial: InitialValues::Drawn(parameter.initial),
    };
    parameters.iter().map(part).collect()
}
