//! Predictions: the entities that best complete an edge with one open side.
//!
//! Scores are those that evaluation ranks by. Candidates are not kept in memory: the partitions of an entity type are
//! read one after the other, each once for a whole block of questions. The dictionaries are read in the same way to
//! look up names.

mod compare;
mod needs;
mod recall;
mod search_plan;
mod top_k;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_model::error::{RunError, SettingError, UnknownName};
use pbg_model::layout::TableKey;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use pbg_model::{memory, name_lookup};
use pbg_rows::spec::ModelSpec;
use top_k::ScoredAnswer;

use crate::index::{BeamWidth, IndexPartition, IndexQueryOptions, OpenIndex, WalkKind};

use super::known_answers::{EntityKey, Filter};
use super::view::{CommittedTables, ModelView};
pub use needs::predict_needs;
pub(crate) use recall::RecallMeasurement;
pub use search_plan::AnswerNotes;
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

/// Options of predictions.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// Largest number of entities in an answer.
    pub count: u32,
    /// Edge sets whose edges are left out of answers.
    pub filter: Vec<String>,
    /// Whether the known entity itself may be an answer, which makes a loop.
    pub loops: bool,
    /// Number of threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Largest number of questions, if it is known.
    pub questions: Option<usize>,
    /// Options of the index that finds candidates. Without an index, all entities are candidates; with one, they are
    /// compared nevertheless if that takes less time and no width is given.
    pub index: Option<IndexQueryOptions>,
}

/// Question whose names were resolved to ids.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedQuestion {
    open: Side,
    relation: u32,
    known: EntityKey,
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

/// Model that is open for predictions.
pub struct Predictor<'a> {
    trained: TrainedModel<'a>,
    spec: Arc<ModelSpec>,
    filter: Filter,
    /// Number of entities per answer, at most the number of entities.
    count: usize,
    loops: bool,
    threads: usize,
    block_size: usize,
    index: Option<PredictionIndex>,
    /// Whether there is memory to read tables in addition to the index.
    room: bool,
}

/// Index that answers are found by.
struct PredictionIndex {
    index: OpenIndex,
    with: IndexQueryOptions,
    kind: WalkKind,
}

/// Answers to a block of questions, in their order.
pub struct Predictions {
    found: Vec<ScoredAnswer>,
    /// Names of the answers, by entity type.
    names: Vec<HashMap<EntityId, String>>,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction<'p> {
    /// Number of entities that were left out because they make a known edge.
    pub left_out: u64,
    /// Best of the other entities with their scores, best first; equal scores are in the order of the dictionary.
    pub best: Vec<(&'p str, f32)>,
}

impl Predictions {
    /// Returns the answers one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Prediction<'_>> {
        self.found.iter().map(|found| {
            let names = &self.names[found.entity_type];
            let name = |id| names.get(id).map_or("", String::as_str);
            let best = found.best.iter();
            Prediction {
                left_out: found.left_out,
                best: best.map(|(id, score)| (name(id), *score)).collect(),
            }
        })
    }
}

impl<'a> Predictor<'a> {
    /// Opens the trained model for predictions.
    ///
    /// # Errors
    /// As for [`TrainedModel::open`], and when an edge set cannot be read or there is too little memory.
    pub fn open(resolved: &'a ResolvedConfig, options: &PredictOptions) -> Result<Self, RunError> {
        if options.count == 0 {
            return Err(SettingError::NoCandidates.into());
        }
        let (needs, room) = needs::needs_and_room(resolved, options)?;
        let threads = options.threads.unwrap_or_else(cores).max(1);
        memory::require("prediction", memory::total(&needs), threads)?;
        let trained = TrainedModel::open(resolved)?;
        let filter = Filter::open(&ModelView::of(&trained), &options.filter, threads)?;
        let comparator = trained.blueprint.spec.comparator;
        let index = options.index.map(|with| {
            Ok::<_, RunError>(PredictionIndex {
                index: OpenIndex::open(&trained, comparator)?,
                with,
                kind: WalkKind::Predictions,
            })
        });
        Ok(Self {
            index: index.transpose()?,
            room,
            spec: Arc::new(trained.blueprint.spec.clone()),
            count: needs::count(resolved, options),
            block_size: needs::block(resolved, options),
            filter,
            loops: options.loops,
            threads,
            trained,
        })
    }
}

impl Predictor<'_> {
    /// Returns the names of the dataset that the model has no embedding for; they are not candidates.
    #[must_use]
    pub fn missing(&self) -> &UntrainedNames {
        &self.trained.missing
    }

    /// Returns the best number of questions to ask together, and the largest number of bytes of their text.
    #[must_use]
    pub fn at_once(&self) -> (usize, usize) {
        (self.block_size, needs::TEXT)
    }

    /// Returns the width of walks among the entities of a type.
    fn width(&self, type_index: usize) -> Result<BeamWidth, RunError> {
        let name = &self.trained.blueprint.layout.types[type_index].name;
        let PredictionIndex { index, with, kind } = self.indexed()?;
        Ok(index.width(name, *kind, *with)?)
    }

    /// Opens a partition of the index.
    fn part(&self, key: TableKey) -> Result<IndexPartition<'_>, RunError> {
        self.indexed()?.index.part(&self.trained, key)
    }

    fn indexed(&self) -> Result<&PredictionIndex, RunError> {
        self.index.as_ref().ok_or(RunError::NoIndex)
    }

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

    /// Answers questions. `progress` receives the finished fraction. If `stop` is set meanwhile, no question is
    /// answered.
    ///
    /// # Errors
    /// When tables or edges cannot be read, a score is not finite, or `stop` is set.
    pub fn answer(
        &self,
        questions: &[ResolvedQuestion],
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Predictions, RunError> {
        let tables = &mut CommittedTables::new(&self.trained);
        let view = ModelView::of(&self.trained);
        let found = compare::run(self, &view, tables, questions, stop, progress)?;
        let layout = &self.trained.blueprint.layout;
        let mut names: Vec<HashMap<EntityId, String>> = vec![HashMap::new(); layout.types.len()];
        for found in &found {
            let wanted = found.best.iter().map(|(id, _)| (*id, String::new()));
            names[found.entity_type].extend(wanted);
        }
        for (names, layout) in names.iter_mut().zip(&layout.types) {
            if !names.is_empty() {
                let visit = &mut |id, name: &str| {
                    if let Some(slot) = names.get_mut(&id) {
                        name.clone_into(slot);
                    }
                };
                self.trained.dataset.visit_entities(&layout.name, visit)?;
            }
        }
        Ok(Predictions { found, names })
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
