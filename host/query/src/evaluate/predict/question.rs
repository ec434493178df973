//! Questions, and the ids of the names in them.

use std::collections::HashMap;

use pbg_core::graph::Side;
use pbg_model::error::RunError;
use pbg_model::name_lookup;

use super::predictor::Predictor;
use crate::evaluate::entity_names::EntityNames;
use crate::evaluate::known_answers::EntityKey;

/// Edge with one open side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Side that is asked for.
    pub open: Side,
    /// Name of the entity on the other side.
    pub entity: String,
    /// Name of the relation.
    pub relation: String,
}

impl std::fmt::Display for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (entity, relation) = (&self.entity, &self.relation);
        match self.open {
            Side::Rhs => write!(f, "({entity}, {relation}, ?)"),
            Side::Lhs => write!(f, "(?, {relation}, {entity})"),
        }
    }
}

/// Question whose names were resolved to ids.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedQuestion {
    pub(super) open: Side,
    pub(super) relation: u32,
    pub(super) known: EntityKey,
}

impl ResolvedQuestion {
    /// Creates the question for the neighbours of `entity` of type `type_index`, in a model without operators.
    pub(crate) const fn neighbors(type_index: u32, entity: EntityKey) -> Self {
        Self {
            open: Side::Lhs,
            relation: type_index,
            known: entity,
        }
    }
}

/// Question that cannot be answered, for instance because a name is unknown.
#[derive(Debug)]
pub struct Unanswerable {
    /// Index of the question among those asked together.
    pub question: usize,
    /// Reason.
    pub error: Box<RunError>,
}

impl Predictor<'_> {
    /// Resolves the names of `questions`.
    ///
    /// # Errors
    /// For the first question with an unknown name; when a dictionary is damaged.
    pub fn resolve(&self, questions: &[Question]) -> Result<Vec<ResolvedQuestion>, Unanswerable> {
        let trained = &self.trained;
        let (blueprint, mut names) = (&trained.blueprint, EntityNames::new(trained));
        let relations = self.relation_ids(questions);
        for question in questions {
            if let Some(&relation) = relations.get(question.relation.as_str()) {
                let known = blueprint.type_of(relation, question.open.other());
                names.add(known, &question.entity);
            }
        }
        names
            .find(trained)
            .map_err(|error| unanswerable(0, error))?;
        let find = |question: &Question| {
            let Some(&relation) = relations.get(question.relation.as_str()) else {
                return Err(name_lookup::unknown_relation(trained, &question.relation).into());
            };
            let known = blueprint.type_of(relation, question.open.other());
            let id = names.trained(trained, known, &question.entity)?;
            Ok(ResolvedQuestion {
                open: question.open,
                relation,
                known: (id.partition, id.offset),
            })
        };
        let place = |(question, asked): (usize, &Question)| {
            find(asked).map_err(|error| unanswerable(question, error))
        };
        questions.iter().enumerate().map(place).collect()
    }

    /// Returns the ids of the named relations, as far as they exist.
    fn relation_ids<'q>(&self, questions: &'q [Question]) -> HashMap<&'q str, u32> {
        let named = questions.iter().map(|question| question.relation.as_str());
        let mut relations: HashMap<&str, Option<u32>> = named.map(|name| (name, None)).collect();
        for (id, name) in (0..).zip(&self.trained.blueprint.relation_names) {
            if let Some(slot) = relations.get_mut(name.as_str()) {
                slot.get_or_insert(id);
            }
        }
        let found = relations.into_iter();
        found.filter_map(|(name, id)| Some((name, id?))).collect()
    }
}

pub(super) fn unanswerable(question: usize, error: RunError) -> Unanswerable {
    let error = Box::new(error);
    Unanswerable { question, error }
}
