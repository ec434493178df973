//! The edges of a batch and the tables that they refer to.

use pbg_core::graph::Side;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

use crate::error::StepError;

/// Edges of one batch, in columns.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Offset of each left entity within its partition; for a featurized type, the index of its bag of features.
    pub lhs: &'a [u32],
    /// Offset of each right entity within its partition.
    pub rhs: &'a [u32],
    /// Relation types of the edges.
    pub relation: BatchRelations<'a>,
    /// Weight of each edge; `None` if every weight is 1.
    pub weight: Option<&'a [f32]>,
}

/// Relation types of the edges of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchRelations<'a> {
    /// Static relations: all edges have this relation type.
    One(u32),
    /// Dynamic relations: one relation type per edge.
    PerEdge(&'a [u32]),
}

/// The tables of the two partitions of a batch.
///
/// If both sides are the same partition of the same entity type, both fields must be the same reference: the gradients
/// of a row that occurs on both sides are then summed.
#[derive(Clone, Copy, Debug)]
pub struct BatchTables<'a> {
    /// Table of the left side's partition.
    pub lhs: &'a Table,
    /// Table of the right side's partition.
    pub rhs: &'a Table,
}

impl<'a> BatchTables<'a> {
    /// Returns the table of `side`.
    #[must_use]
    pub fn side(&self, side: Side) -> &'a Table {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }

    /// Returns the table of the other side if it holds other entities of the same type, from which negatives may be
    /// drawn.
    #[must_use]
    pub fn other(&self, spec: &ModelSpec, relation: usize, side: Side) -> Option<&'a Table> {
        let relation = &spec.relations[relation];
        (relation.lhs == relation.rhs && !self.shared()).then(|| self.side(side.other()))
    }

    /// Returns whether both sides are the same table.
    #[must_use]
    pub fn shared(&self) -> bool {
        std::ptr::eq(self.lhs, self.rhs)
    }
}

impl<'a> Batch<'a> {
    /// Returns the number of edges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lhs.len()
    }

    /// Returns whether the batch has no edges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lhs.is_empty()
    }

    /// Returns the entity offsets of `side`.
    #[must_use]
    pub fn side(&self, side: Side) -> &'a [u32] {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }

    /// Returns the index into [`ModelSpec::relations`]; with dynamic relations it is always 0.
    #[must_use]
    pub fn spec_index(&self) -> usize {
        match self.relation {
            BatchRelations::One(relation) => relation as usize,
            BatchRelations::PerEdge(_) => 0,
        }
    }

    /// Checks column lengths, offsets and relation types against the model and the tables.
    pub(crate) fn check(
        &self,
        spec: &ModelSpec,
        tables: &BatchTables<'_>,
    ) -> Result<(), StepError> {
        let edges = self.len();
        let weights = self.weight.is_none_or(|w| w.len() == edges);
        if self.rhs.len() != edges || !weights {
            return Err(StepError::Batch("columns of different lengths".to_owned()));
        }
        match self.relation {
            BatchRelations::One(_) if spec.is_dynamic() => {
                return Err(StepError::Batch(
                    "dynamic relations need a relation per edge".to_owned(),
                ));
            }
            BatchRelations::PerEdge(_) if !spec.is_dynamic() => {
                return Err(StepError::Batch(
                    "static relations need one relation per batch".to_owned(),
                ));
            }
            BatchRelations::One(relation) => {
                check_below("relation", &[relation], spec.relation_count())?
            }
            BatchRelations::PerEdge(relations) if relations.len() != edges => {
                return Err(StepError::Batch("columns of different lengths".to_owned()));
            }
            BatchRelations::PerEdge(relations) => {
                check_below("relation", relations, spec.relation_count())?
            }
        }
        let relation = &spec.relations[self.spec_index()];
        for side in Side::BOTH {
            let (table, entity) = (tables.side(side), &spec.entities[relation.entity(side)]);
            if table.embeddings.width() != entity.dimension
                || table.features.is_some() != entity.featurized
            {
                return Err(StepError::Batch(format!(
                    "the {side:?} table does not fit entity type {}",
                    entity.name
                )));
            }
            check_below("offset", self.side(side), table.entities())?;
        }
        Ok(())
    }
}

/// Checks that all of `values` are below `limit`.
pub(crate) fn check_below(what: &str, values: &[u32], limit: usize) -> Result<(), StepError> {
    match values.iter().max() {
        Some(&max) if max as usize >= limit => Err(StepError::Batch(format!(
            "{what} {max} is out of range: there are {limit}"
        ))),
        _ => Ok(()),
    }
}
