//! Questions with any open part, answered together.

use std::fmt;
use std::sync::atomic::AtomicBool;

use pbg_core::graph::Side;
use pbg_model::error::RunError;

use super::prediction::{Prediction, Predictions};
use super::predictor::Predictor;
use super::question::{Question, Unanswerable, unanswerable};
use super::relations::RelationQuestion;
use super::search_plan::AnswerNotes;

/// Edge with one open part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedQuestion {
    /// Question for the entities on one side.
    Entity(Question),
    /// Question for the relations between two entities.
    Relation(RelationQuestion),
}

impl AskedQuestion {
    /// Creates a question from the parts of an edge, of which one is missing.
    ///
    /// # Errors
    /// When not exactly one part is missing; says why there is no question.
    pub fn new(
        head: Option<String>,
        relation: Option<String>,
        tail: Option<String>,
    ) -> Result<Self, &'static str> {
        let (open, entity, relation) = match (head, relation, tail) {
            (Some(head), Some(relation), None) => (Side::Rhs, head, relation),
            (None, Some(relation), Some(tail)) => (Side::Lhs, tail, relation),
            (Some(head), None, Some(tail)) => {
                return Ok(Self::Relation(RelationQuestion { head, tail }));
            }
            (Some(_), Some(_), Some(_)) => {
                return Err("head and tail are both given with a relation, so nothing is open");
            }
            (None, Some(_), None) => return Err("neither head nor tail is given"),
            _ => return Err("the question has no relation"),
        };
        Ok(Self::Entity(Question {
            open,
            entity,
            relation,
        }))
    }
}

impl fmt::Display for AskedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entity(question) => question.fmt(f),
            Self::Relation(question) => question.fmt(f),
        }
    }
}

/// Answers to questions with any open part.
pub struct MixedPredictions<'p> {
    entities: Predictions,
    relations: Vec<Prediction<'p>>,
    /// Whether each question asks for entities.
    for_entities: Vec<bool>,
}

impl MixedPredictions<'_> {
    /// Returns the answers in the order of the questions.
    pub fn iter(&self) -> impl Iterator<Item = Prediction<'_>> {
        let (mut entities, mut relations) = (self.entities.iter(), self.relations.iter());
        let order = self.for_entities.iter();
        order.filter_map(move |for_entities| match for_entities {
            true => entities.next(),
            false => relations.next().cloned(),
        })
    }
}

impl Predictor<'_> {
    /// Answers questions. `notes` receives the notes about the answers before they are computed, and `progress` the
    /// finished fraction. If `stop` is set meanwhile, no question is answered.
    ///
    /// # Errors
    /// For a question with an unknown name or a score that is not finite; when tables or edges cannot be read, or `stop`
    /// is set.
    pub fn answer_all(
        &self,
        questions: &[AskedQuestion],
        stop: &AtomicBool,
        notes: &mut dyn FnMut(&AnswerNotes<'_>),
        progress: &mut dyn FnMut(f64),
    ) -> Result<MixedPredictions<'_>, Unanswerable> {
        let (mut entities, mut relations) = (Vec::new(), Vec::new());
        // The positions of both kinds among the questions.
        let mut places = [Vec::new(), Vec::new()];
        for (at, asked) in questions.iter().enumerate() {
            match asked {
                AskedQuestion::Entity(question) => {
                    entities.push(question.clone());
                    places[0].push(at);
                }
                AskedQuestion::Relation(question) => {
                    relations.push(question.clone());
                    places[1].push(at);
                }
            }
        }
        let place = |kind: usize, no: Unanswerable| Unanswerable {
            question: places[kind].get(no.question).copied().unwrap_or(0),
            ..no
        };
        let asked = self.resolve(&entities).map_err(|no| place(0, no))?;
        if !asked.is_empty() {
            notes(
                &self
                    .approach(&asked)
                    .map_err(|error| unanswerable(0, error))?,
            );
        }
        let of_relations = match relations.is_empty() {
            true => Vec::new(),
            false => self
                .relations(&relations, stop)
                .map_err(|no| place(1, no))?,
        };
        let found = self.answer(&asked, stop, progress);
        let found = found.map_err(|error| match error {
            RunError::NotComparable { question } => place(0, unanswerable(question, error)),
            error => unanswerable(0, error),
        })?;
        let of_entities = |asked: &AskedQuestion| matches!(asked, AskedQuestion::Entity(_));
        Ok(MixedPredictions {
            entities: found,
            relations: of_relations,
            for_entities: questions.iter().map(of_entities).collect(),
        })
    }
}
