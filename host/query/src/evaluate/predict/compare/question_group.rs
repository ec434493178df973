//! Groups of questions that are compared with the same candidates.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pbg_core::graph::Side;
use pbg_kernels::rank::{PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;

use crate::evaluate::block::{BlockEmbeddings, PART, ReadRows, group_of};
use crate::evaluate::known_answers::{EntityKey, GRANULE, QuestionNumbers};
use crate::evaluate::predict::predictor::Predictor;
use crate::evaluate::predict::question::ResolvedQuestion;
use crate::evaluate::predict::top_k::{ScoredAnswer, TopK};
use crate::evaluate::view::ModelView;

/// Questions about one side that have the same candidate rows, prepared in the same way.
pub(super) struct QuestionGroup {
    pub(super) side: Side,
    /// Entity type of the candidates.
    pub(super) entity: usize,
    /// Relation of the group; the only one if the candidates depend on the relation.
    pub(super) relation: u32,
    /// Positions of the questions in their block, sorted by question.
    pub(super) places: Vec<usize>,
    /// Question numbers. Equal questions have the same number.
    pub(super) numbers: Vec<u32>,
    /// The known entity of each question, if it must not be its own answer.
    pub(super) excluded: Vec<Option<EntityKey>>,
    pub(super) queries: PreparedQueries,
    pub(super) best: Vec<Mutex<TopK>>,
    /// Number of the first granule of its queries in the block.
    pub(super) first_granule: usize,
}

/// Groups questions and numbers them in the order of the groups' queries.
pub(super) fn group_questions(
    predictor: &Predictor<'_>,
    view: &ModelView<'_>,
    questions: &[ResolvedQuestion],
    numbers: &mut QuestionNumbers,
) -> Vec<QuestionGroup> {
    let mut members = BTreeMap::<_, Vec<usize>>::new();
    for (place, asked) in questions.iter().enumerate() {
        let (entity, relation) = group_of(view, asked.relation, asked.open);
        let key = (entity, relation, asked.open as usize);
        members.entry(key).or_default().push(place);
    }
    let mut first_granule = 0;
    let group = |((entity, _, side), mut places): ((usize, Option<u32>, usize), Vec<usize>)| {
        let side = Side::BOTH[side];
        let question = |&place: &usize| (questions[place].relation, questions[place].known);
        places.sort_by_key(question);
        let numbers = places.iter().map(|at| numbers.number(side, question(at)));
        let relation = questions[places[0]].relation;
        let known = view.blueprint.type_of(relation, side.other());
        let itself = |&place: &usize| {
            let is_candidate = known == entity && !predictor.loops;
            is_candidate.then_some(questions[place].known)
        };
        let none = || Mutex::new(TopK::new(predictor.count));
        let group = QuestionGroup {
            side,
            entity,
            relation,
            numbers: numbers.collect(),
            excluded: places.iter().map(itself).collect(),
            queries: PreparedQueries::default(),
            best: places.iter().map(|_| none()).collect(),
            first_granule,
            places,
        };
        first_granule += group.places.len().div_ceil(GRANULE);
        group
    };
    members.into_iter().map(group).collect()
}

/// Copies the embeddings of the questions' known entities.
pub(super) fn read_known(
    view: &ModelView<'_>,
    questions: &[ResolvedQuestion],
    read: &mut dyn FnMut(TableKey, &[u32]) -> ReadRows,
) -> Result<BlockEmbeddings, RunError> {
    let blueprint = view.blueprint;
    let mut wanted: Vec<Vec<EntityKey>> = vec![Vec::new(); blueprint.layout.types.len()];
    for asked in questions {
        let known = blueprint.type_of(asked.relation, asked.open.other());
        wanted[known].push(asked.known);
    }
    BlockEmbeddings::gather(view, wanted, read)
}

impl QuestionGroup {
    /// Computes the queries.
    pub(super) fn prepare(
        &mut self,
        view: &ModelView<'_>,
        rows: &BlockEmbeddings,
        questions: &[ResolvedQuestion],
        ranker: &mut Ranker,
    ) {
        let known = view.blueprint.type_of(self.relation, self.side.other());
        let rows = &rows.types[known];
        let width = rows.table.embeddings.width();
        self.queries = PreparedQueries::with_capacity(self.places.len(), width);
        let mut part = PreparedQueries::default();
        for places in self.places.chunks(PART) {
            let asked = places.iter().map(|&place| &questions[place]);
            let relations: Vec<u32> = asked.clone().map(|asked| asked.relation).collect();
            let known: Vec<u32> = asked.map(|asked| rows.row_of(asked.known)).collect();
            let relations = BatchRelations::PerEdge(&relations);
            let params = view.params;
            ranker.queries(self.side, &known, relations, &rows.table, params, &mut part);
            self.queries.append(&part);
        }
    }

    /// Returns the answers, each with the position of its question.
    pub(super) fn finish(self) -> impl Iterator<Item = (usize, ScoredAnswer)> {
        let entity = self.entity;
        let answers = self.places.into_iter().zip(self.best);
        answers.map(move |(place, best)| {
            let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
            (place, best.finish(entity))
        })
    }
}
