//! Questions, and the ids of the names in them.

use std::collections::HashMap;

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_model::error::{RunError, UnknownName};
use pbg_model::name_lookup;

use super::predictor::Predictor;
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
        let found = self.look_up(questions);
        let (relations, entities) = found.map_err(|error| unanswerable(0, error))?;
        let find = |question: &Question| {
            let Some(&relation) = relations.get(question.relation.as_str()) else {
                return Err(name_lookup::unknown_relation(trained, &question.relation).into());
            };
            let known = trained.blueprint.type_of(relation, question.open.other());
            let layout = &trained.blueprint.layout.types[known];
            let entity = &question.entity;
            match entities[known].get(entity.as_str()) {
                Some(&id) if trained.has(known, id) => Ok(ResolvedQuestion {
                    open: question.open,
                    relation,
                    known: (id.partition, id.offset),
                }),
                Some(_) => Err(UnknownName::EntityIsNew {
                    entity: entity.clone(),
                    checkpoint: trained.checkpoint.path().to_owned(),
                }
                .into()),
                None => Err(RunError::from(name_lookup::unknown_entity(
                    trained,
                    entity,
                    Some(&layout.name),
                )?)),
            }
        };
        let place = |(question, asked): (usize, &Question)| {
            find(asked).map_err(|error| unanswerable(question, error))
        };
        questions.iter().enumerate().map(place).collect()
    }

    /// Returns the ids of the named relations and, by type, of the named entities, as far as they exist.
    #[expect(clippy::type_complexity, reason = "two tables that only `find` reads")]
    fn look_up<'q>(
        &self,
        questions: &'q [Question],
    ) -> Result<(HashMap<&'q str, u32>, Vec<HashMap<&'q str, EntityId>>), RunError> {
        let blueprint = &self.trained.blueprint;
        let named = questions.iter().map(|question| question.relation.as_str());
        let mut relations: HashMap<&str, Option<u32>> = named.map(|name| (name, None)).collect();
        for (id, name) in (0..).zip(&blueprint.relation_names) {
            if let Some(slot) = relations.get_mut(name.as_str()) {
                slot.get_or_insert(id);
            }
        }
        let found = relations.into_iter();
        let relations: HashMap<&str, u32> =
            found.filter_map(|(name, id)| Some((name, id?))).collect();
        let mut entities: Vec<HashMap<&str, Option<EntityId>>> =
            vec![HashMap::new(); blueprint.layout.types.len()];
        for question in questions {
            if let Some(&relation) = relations.get(question.relation.as_str()) {
                let known = blueprint.type_of(relation, question.open.other());
                entities[known].insert(&question.entity, None);
            }
        }
        for (entities, layout) in entities.iter_mut().zip(&blueprint.layout.types) {
            if !entities.is_empty() {
                let visit = &mut |id, name: &str| {
                    if let Some(slot) = entities.get_mut(name) {
                        *slot = Some(id);
                    }
                };
                self.trained.dataset.visit_entities(&layout.name, visit)?;
            }
        }
        let found = entities.into_iter().map(|entities| {
            let found = entities.into_iter();
            found.filter_map(|(name, id)| Some((name, id?))).collect()
        });
        Ok((relations, found.collect()))
    }
}

fn unanswerable(question: usize, error: RunError) -> Unanswerable {
    let error = Box::new(error);
    Unanswerable { question, error }
}
