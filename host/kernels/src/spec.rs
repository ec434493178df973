//! What the kernels need to know of a model, and the rules that must hold before they start.

use pbg_core::batch_graph::{Graph, Negatives, StepSpec};
use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer};

mod error;

pub use error::SpecError;

/// An entity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntitySpec {
    /// Its name, for the names of its parameters.
    pub name: String,
    /// Floats per embedding.
    pub dimension: usize,
    /// Whether an entity is the mean of feature rows.
    pub featurized: bool,
}

/// A relation, or with dynamic relations the template of all.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationSpec {
    /// Entity type of the left side, an index into [`ModelSpec::entities`].
    pub lhs: usize,
    /// Entity type of the right side.
    pub rhs: usize,
    /// Transformation of the right side (dynamic: one for either side).
    pub operator: Operator,
    /// Factor of the loss of its edges.
    pub weight: f32,
    /// Every entity of the partition is a negative.
    pub all_negs: bool,
}

impl RelationSpec {
    /// Entity type of `side`.
    #[must_use]
    pub fn entity(&self, side: Side) -> usize {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }
}

/// Everything that decides what a training step computes, and with which parameters the first one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Entity types.
    pub entities: Vec<EntitySpec>,
    /// Relations; exactly one with dynamic relations.
    pub relations: Vec<RelationSpec>,
    /// With dynamic relations: how many relation types share the one template.
    pub dynamic_relations: Option<usize>,
    /// How two embeddings become a score.
    pub comparator: Comparator,
    /// The first coordinate is a bias.
    pub bias: bool,
    /// Adds a learned vector per entity type.
    pub global_emb: bool,
    /// Looked-up rows are scaled down, in place, to this length at most.
    pub max_norm: Option<f32>,
    /// Standard deviation of the initial parameters of operators; none: operators begin as the identity.
    pub operator_init_scale: Option<f32>,
    /// Penalty on embeddings and parameters.
    pub regularizer: Regularizer,
    /// Its strength; 0 turns it off.
    pub regularization_coef: f32,
    /// Weight of the loss of relations that are predicted (dynamic relations); 0: they are not.
    pub relation_prediction: f32,
    /// Learning rate of embeddings.
    pub lr: f32,
    /// Learning rate of operators and global embeddings.
    pub relation_lr: f32,
    /// Positives per chunk, each the negative of the others. 0: none.
    pub num_batch_negs: usize,
    /// Uniform draws per chunk and side. 0: none.
    pub num_uniform_negs: usize,
    /// Positives that share a chunk's negatives, if not `num_batch_negs` (or, without batch
    /// negatives, `num_uniform_negs`).
    pub chunk_size: Option<usize>,
    /// No negatives that replace the left side.
    pub disable_lhs_negs: bool,
    /// No negatives that replace the right side.
    pub disable_rhs_negs: bool,
}

impl ModelSpec {
    /// Whether relations are dynamic: reciprocal operators for both sides, mixed batches.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.dynamic_relations.is_some()
    }

    /// Whether what replaces `side` in ranking passes through the relation's operator: with static
    /// relations on the right side.
    ///
    /// # Panics
    /// If the relation does not exist.
    #[must_use]
    pub fn candidates_depend_on_relation(&self, side: Side, relation: u32) -> bool {
        let operator = self.relation(relation).operator;
        side == Side::Rhs && !self.is_dynamic() && operator != Operator::None
    }

    /// The relation of edges whose column says `relation`.
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

    /// Number of values that the relation column may have.
    #[must_use]
    pub fn relation_count(&self) -> usize {
        self.dynamic_relations.unwrap_or(self.relations.len())
    }

    /// Whether no negatives replace `side`.
    #[must_use]
    pub fn disabled(&self, side: Side) -> bool {
        match side {
            Side::Lhs => self.disable_lhs_negs,
            Side::Rhs => self.disable_rhs_negs,
        }
    }

    /// Whether a batch is better shared out to all workers than trained by one of them while others train theirs:
    /// every entity is a negative on either side, so each batch changes every row. Not with `max_norm`, which
    /// changes rows as they are looked up.
    #[must_use]
    pub fn shares_batches(&self) -> bool {
        self.relations.iter().all(|relation| relation.all_negs)
            && !Side::BOTH.iter().any(|&side| self.disabled(side))
            && self.max_norm.is_none()
    }

    /// The same model with other numbers of negatives, as evaluation while training uses.
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

    /// Positives per chunk for a batch of `edges` edges of `relation`.
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

    /// Uniform draws per chunk that replace `side`.
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

    /// What the step of relation `index` depends on; `half`: products have bf16 factors.
    pub(crate) fn step_spec(&self, index: usize, half: bool) -> StepSpec {
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

    /// Checks every rule the kernels rely on.
    ///
    /// # Errors
    /// The first rule that does not hold.
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
        self.validate_numbers()?;
        let regularizes_embeddings =
            self.regularizer == Regularizer::N3Embeddings && self.regularization_coef > 0.0;
        if regularizes_embeddings && self.comparator == Comparator::Cos {
            return Err(SpecError::Conflict(
                "the regularizer N3_embeddings is not there for the comparator cos, which knows no lengths",
            ));
        }
        if self.relation_prediction > 0.0 {
            self.validate_relation_prediction()?;
        }
        // Thousands of relations may have the same step.
        let mut fitting: Vec<StepSpec> = Vec::new();
        for index in 0..self.relations.len() {
            self.validate_relation(index)?;
            let step_spec = self.step_spec(index, false);
            if !fitting.contains(&step_spec) {
                graph(index, &step_spec)?;
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
        let not_negative = |x: f32| x.is_finite() && x >= 0.0;
        let number = |key, ok: bool, rule| {
            if ok {
                Ok(())
            } else {
                Err(SpecError::Number { key, rule })
            }
        };
        number("lr", not_negative(self.lr), "a number that is not negative")?;
        number(
            "relation_lr",
            not_negative(self.relation_lr),
            "a number that is not negative",
        )?;
        number(
            "regularization_coef",
            not_negative(self.regularization_coef),
            "a number that is not negative",
        )?;
        number(
            "relation_prediction",
            not_negative(self.relation_prediction),
            "a number that is not negative",
        )?;
        let scale = self.operator_init_scale;
        number(
            "operator_init_scale",
            scale.is_none_or(|x| x.is_finite() && x > 0.0),
            "a positive number",
        )?;
        let max_norm = self.max_norm.is_none_or(|x| x.is_finite() && x > 0.0);
        number("max_norm", max_norm, "a positive number")?;
        number("chunk_size", self.chunk_size != Some(0), "at least 1")?;
        let weights = self
            .relations
            .iter()
            .all(|r| r.weight.is_finite() && r.weight > 0.0);
        number("weight", weights, "a positive number")?;
        let negatives = self.num_batch_negs + self.num_uniform_negs > 0
            || self.relations.iter().all(|r| r.all_negs);
        number(
            "num_batch_negs + num_uniform_negs",
            negatives,
            "at least 1 unless all_negs is set",
        )
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
        if self.regularization_coef > 0.0 && relation.operator.is_matrix() {
            return Err(SpecError::Regularizer { relation: index });
        }
        Ok(())
    }
}

/// The step of relation `index`, which `step_spec` specifies.
///
/// # Errors
/// When embeddings, operator and comparator do not fit each other.
pub(crate) fn graph(index: usize, step_spec: &StepSpec) -> Result<Graph, SpecError> {
    Graph::new(step_spec).map_err(|source| SpecError::Shape {
        relation: index,
        source,
    })
}
