//! The specification of a model as the kernels need it, and the rules that must hold before training starts.

use pbg_core::batch_graph::{Negatives, StepPlan, StepSpec};
use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer, Update};
mod error;

pub use error::SpecError;

/// An entity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntitySpec {
    /// Name, which occurs in the names of the type's parameters.
    pub name: String,
    /// Floats per embedding.
    pub dimension: usize,
    /// Whether an entity's embedding is the mean of its features' rows.
    pub featurized: bool,
    /// Whether training leaves the embeddings as they are, and so the global embedding, which is added to all of them.
    pub frozen: bool,
}

/// A relation type; with dynamic relations, the template of all relation types.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationSpec {
    /// Entity type of the left side, as an index into [`ModelSpec::entities`].
    pub lhs: usize,
    /// Entity type of the right side, as an index into [`ModelSpec::entities`].
    pub rhs: usize,
    /// Operator that transforms the right side (with dynamic relations, one operator for each side).
    pub operator: Operator,
    /// Factor of the loss of the relation's edges.
    pub weight: f32,
    /// Whether every entity of the partition is a negative.
    pub all_negs: bool,
}

impl RelationSpec {
    /// Returns the entity type of `side`.
    #[must_use]
    pub fn entity(&self, side: Side) -> usize {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }
}

/// Everything that determines what a training step computes and which parameters training starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Entity types.
    pub entities: Vec<EntitySpec>,
    /// Relations; exactly one if they are dynamic.
    pub relations: Vec<RelationSpec>,
    /// With dynamic relations: number of relation types that share the template.
    pub dynamic_relations: Option<usize>,
    /// Function that compares two embeddings and returns their score.
    pub comparator: Comparator,
    /// Whether the first coordinate of an embedding is a bias.
    pub bias: bool,
    /// Whether a learned vector per entity type is added to its embeddings.
    pub global_emb: bool,
    /// Greatest length of a row: longer rows are scaled down, in place, when they are looked up.
    pub max_norm: Option<f32>,
    /// Standard deviation of the initial parameters of operators; `None`: operators start as the identity.
    pub operator_init_scale: Option<f32>,
    /// Penalty on embeddings and operator parameters.
    pub regularizer: Regularizer,
    /// Coefficient of the penalty; 0 turns it off.
    pub regularization_coef: f32,
    /// Weight of the relation prediction loss (dynamic relations only); 0 turns relation prediction off.
    pub relation_prediction: f32,
    /// Learning rate of embeddings.
    pub lr: f32,
    /// Learning rate of operators and global embeddings.
    pub relation_lr: f32,
    /// In-batch negatives: positives per chunk, each of which is a negative of the others; 0 for none.
    pub num_batch_negs: usize,
    /// Uniformly drawn negatives per chunk and side; 0 for none.
    pub num_uniform_negs: usize,
    /// Positives per chunk, which share negatives; by default `num_batch_negs` (or, without in-batch negatives,
    /// `num_uniform_negs`).
    pub chunk_size: Option<usize>,
    /// Whether no negatives replace the left side.
    pub disable_lhs_negs: bool,
    /// Whether no negatives replace the right side.
    pub disable_rhs_negs: bool,
}

impl ModelSpec {
    /// Returns the specification with both learning rates multiplied by `factor`.
    #[must_use]
    pub fn with_scaled_rates(&self, factor: f32) -> Self {
        Self {
            lr: self.lr * factor,
            relation_lr: self.relation_lr * factor,
            ..self.clone()
        }
    }

    /// Returns whether relations are dynamic: each side has an operator, and a batch mixes relation types.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.dynamic_relations.is_some()
    }

    /// Returns whether the candidates that replace `side` in ranking pass through the relation's operator. With static
    /// relations those of the right side do, and those of the left side if it is an operator of both; with dynamic
    /// relations none do.
    ///
    /// # Panics
    /// If the relation does not exist.
    #[must_use]
    pub fn candidates_depend_on_relation(&self, side: Side, relation: u32) -> bool {
        self.ranking_operator(side, relation, true) != Operator::None
    }

    /// Returns the operator that transforms the entities of `side` in ranking; `replaced`: they replace that side,
    /// instead of being known.
    ///
    /// # Panics
    /// If the relation does not exist.
    #[must_use]
    pub fn ranking_operator(&self, side: Side, relation: u32, replaced: bool) -> Operator {
        let operator = self.relation(relation).operator;
        match (self.is_dynamic(), side) {
            (true, _) if replaced => Operator::None,
            (true, _) | (false, Side::Rhs) => operator,
            (false, Side::Lhs) => operator.on_lhs(),
        }
    }

    /// Returns the specification of the relation type `relation`, a value of the edges' relation column.
    ///
    /// # Panics
    /// If the relation does not exist.
    #[must_use]
    pub fn relation(&self, relation: u32) -> &RelationSpec {
        if self.is_dynamic() {
            &self.relations[0]
        } else {
            &self.relations[relation as usize]
        }
    }

    /// Returns the number of different values of the edges' relation column.
    #[must_use]
    pub fn relation_count(&self) -> usize {
        self.dynamic_relations.unwrap_or(self.relations.len())
    }

    /// Returns whether negatives that replace `side` are disabled.
    #[must_use]
    pub fn disabled(&self, side: Side) -> bool {
        match side {
            Side::Lhs => self.disable_lhs_negs,
            Side::Rhs => self.disable_rhs_negs,
        }
    }

    /// Returns whether all workers should train each batch together instead of one batch each.
    ///
    /// This is so where every entity is a negative on both sides, since each batch then changes every row. `max_norm`
    /// excludes it, because it changes rows when they are looked up.
    #[must_use]
    pub fn shares_batches(&self) -> bool {
        self.relations.iter().all(|relation| relation.all_negs)
            && !Side::BOTH.iter().any(|&side| self.disabled(side))
            && self.max_norm.is_none()
    }

    /// Returns the same model with other numbers of negatives, for evaluation during training.
    #[must_use]
    pub fn with_negatives(&self, num_batch_negs: usize, num_uniform_negs: usize) -> Self {
        Self {
            num_batch_negs,
            num_uniform_negs,
            chunk_size: None,
            relation_prediction: 0.0,
            ..self.clone()
        }
    }

    /// Returns the number of positives per chunk of a batch of `edges` edges of `relation`.
    #[must_use]
    pub fn chunk_size(&self, relation: &RelationSpec, edges: usize) -> usize {
        let wanted = if relation.all_negs {
            edges
        } else if let Some(size) = self.chunk_size {
            size
        } else if self.num_batch_negs > 0 {
            self.num_batch_negs
        } else {
            self.num_uniform_negs
        };
        wanted.clamp(1, edges.max(1))
    }

    /// Returns the number of uniform draws per chunk that replace `side`.
    #[must_use]
    pub fn uniform_negatives(&self, relation: &RelationSpec, side: Side) -> usize {
        let sampled = !relation.all_negs && !self.disabled(side);
        let featurized = self.entities[relation.entity(side)].featurized;
        if sampled && !featurized {
            self.num_uniform_negs
        } else {
            0
        }
    }

    /// Returns the specification of the step of relation `index`; `half`: the factors of matrix products are bf16.
    pub fn step_spec(&self, index: usize, half: bool) -> StepSpec {
        let relation = &self.relations[index];
        let entities = Side::BOTH.map(|side| &self.entities[relation.entity(side)]);
        let negatives = |side| match (self.disabled(side), relation.all_negs) {
            (true, _) => Negatives::None,
            (false, true) => Negatives::All,
            (false, false) => Negatives::Sampled {
                in_batch: self.num_batch_negs > 0,
                uniform: self.uniform_negatives(relation, side),
            },
        };
        StepSpec {
            dimension: entities.map(|entity| entity.dimension),
            one_type: relation.lhs == relation.rhs,
            featurized: entities.map(|entity| entity.featurized),
            operator: relation.operator,
            comparator: self.comparator,
            bias: self.bias,
            global: self.global_emb,
            relations: self.dynamic_relations,
            negatives: Side::BOTH.map(negatives),
            chunk: match relation.all_negs {
                true => 1,
                false => self.chunk_size(relation, usize::MAX),
            },
            regularizer: (self.regularization_coef > 0.0).then_some(self.regularizer),
            predicts_relations: self.relation_prediction > 0.0,
            half,
        }
    }

    /// Checks all rules that the kernels rely on.
    ///
    /// # Errors
    /// Returns the first rule that is violated.
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.relations.is_empty() || self.entities.is_empty() {
            return Err(SpecError::Empty);
        }
        if self.is_dynamic() && self.relations.len() != 1 {
            return Err(SpecError::Conflict(
                "dynamic relations need exactly one relation",
            ));
        }
        if self.is_dynamic() && self.global_emb {
            return Err(SpecError::Conflict(
                "global_emb cannot be combined with dynamic_relations",
            ));
        }
        if self.disable_lhs_negs && self.disable_rhs_negs {
            return Err(SpecError::Conflict(
                "negatives cannot be disabled on both sides",
            ));
        }
        if self.is_dynamic() && self.relations[0].operator.on_lhs() != Operator::None {
            return Err(SpecError::Conflict(
                "an operator of both sides cannot be combined with dynamic_relations: the entities that replace a side \
                 would have to be transformed again for every edge; use static relations",
            ));
        }
        self.validate_numbers()?;
        let regularizes_lengths =
            self.regularizer != Regularizer::N3 && self.regularization_coef > 0.0;
        if regularizes_lengths && self.comparator == Comparator::Cos {
            return Err(SpecError::Conflict(
                "the regularizers N3_embeddings and DURA cannot be combined with the comparator cos, which ignores \
                 lengths",
            ));
        }
        if self.relation_prediction > 0.0 {
            self.validate_relation_prediction()?;
        }
        // Thousands of relations may share one step specification; each is checked once.
        let mut fitting: Vec<StepSpec> = Vec::new();
        for index in 0..self.relations.len() {
            self.validate_relation(index)?;
            let step_spec = self.step_spec(index, false);
            if !fitting.contains(&step_spec) {
                step_plan(index, &step_spec, Update::Batch)?;
                fitting.push(step_spec);
            }
        }
        Ok(())
    }

    fn validate_relation_prediction(&self) -> Result<(), SpecError> {
        let is_linear = matches!(
            self.relations[0].operator,
            Operator::Diagonal | Operator::Translation | Operator::ComplexDiagonal
        );
        let is_product = self.comparator == Comparator::Dot && !self.bias;
        match self.is_dynamic() && is_linear && is_product {
            true => Ok(()),
            false => Err(SpecError::Conflict(
                "relation_prediction needs dynamic_relations with one of the operators diagonal, translation and \
                 complex_diagonal, and the comparator dot without bias",
            )),
        }
    }

    fn validate_numbers(&self) -> Result<(), SpecError> {
        let not_negative = |x: f32| (x.is_finite() && x >= 0.0, "a non-negative number");
        let above_zero = |x: f32| x.is_finite() && x > 0.0;
        let positive = |ok| (ok, "a positive number");
        let weights = self.relations.iter().all(|r| above_zero(r.weight));
        let negatives = self.num_batch_negs + self.num_uniform_negs > 0
            || self.relations.iter().all(|r| r.all_negs);
        let rules = [
            ("lr", not_negative(self.lr)),
            ("relation_lr", not_negative(self.relation_lr)),
            (
                "regularization_coef",
                not_negative(self.regularization_coef),
            ),
            (
                "relation_prediction",
                not_negative(self.relation_prediction),
            ),
            (
                "operator_init_scale",
                positive(self.operator_init_scale.is_none_or(above_zero)),
            ),
            ("max_norm", positive(self.max_norm.is_none_or(above_zero))),
            ("chunk_size", (self.chunk_size != Some(0), "at least 1")),
            ("weight", positive(weights)),
            (
                "num_batch_negs + num_uniform_negs",
                (negatives, "at least 1 unless all_negs is set"),
            ),
        ];
        match rules.into_iter().find(|(_, (ok, _))| !ok) {
            Some((key, (_, rule))) => Err(SpecError::Number { key, rule }),
            None => Ok(()),
        }
    }

    fn validate_relation(&self, index: usize) -> Result<(), SpecError> {
        let relation = &self.relations[index];
        let entity = |side| {
            self.entities
                .get(relation.entity(side))
                .ok_or(SpecError::Entity {
                    relation: index,
                    side,
                })
        };
        for side in Side::BOTH {
            entity(side)?;
        }
        for side in Side::BOTH {
            if entity(side)?.featurized && !self.disabled(side) {
                let negatives = if relation.all_negs {
                    "all"
                } else if self.num_batch_negs == 0 {
                    "uniform"
                } else {
                    continue;
                };
                return Err(SpecError::Featurized {
                    relation: index,
                    negatives,
                });
            }
        }
        let components = self.comparator.components();
        let mut compared = Side::BOTH
            .map(|side| &self.entities[relation.entity(side)])
            .into_iter();
        if let Some(entity) = compared.find(|entity| !entity.dimension.is_multiple_of(components)) {
            return Err(SpecError::Components {
                comparator: self.comparator.name().to_owned(),
                components,
                entity: entity.name.clone(),
                dimension: entity.dimension,
            });
        }
        if self.regularization_coef > 0.0
            && self.regularizer != Regularizer::Dura
            && relation.operator.is_matrix()
        {
            return Err(SpecError::Regularizer { relation: index });
        }
        Ok(())
    }
}

/// Plans the step of relation `index` from its specification.
///
/// # Errors
/// When embeddings, operator and comparator do not fit each other.
pub fn step_plan(
    index: usize,
    step_spec: &StepSpec,
    update: Update,
) -> Result<StepPlan, SpecError> {
    StepPlan::new(step_spec, update).map_err(|source| SpecError::Shape {
        relation: index,
        source,
    })
}
