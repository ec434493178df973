//! Predictions of relations: those that best complete an edge between two entities.
//!
//! An edge has the score that [`QueryModel::score`](crate::QueryModel::score) returns.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_kernels::rank::{CANDIDATE_BLOCK, PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use pbg_model::name_lookup;

use super::compare;
use super::needs::{KNOWN_BYTES, known_bytes};
use super::prediction::Prediction;
use super::predictor::Predictor;
use super::question::{Unanswerable, unanswerable};
use super::top_k::{ScoredAnswer, ScoredCandidate, TopK};
use crate::evaluate::block::BlockEmbeddings;
use crate::evaluate::entity_names::{self, EntityNames};
use crate::evaluate::known_answers::{self, EntityKey};
use crate::evaluate::view::{CommittedTables, ModelView};

/// Question for the relations between two entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationQuestion {
    /// Name of the left entity.
    pub head: String,
    /// Name of the right entity.
    pub tail: String,
}

impl std::fmt::Display for RelationQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, ?, {})", self.head, self.tail)
    }
}

/// Entity types of the left and the right side, and the ids there.
type Ends = ((usize, EntityKey), (usize, EntityKey));

/// Relations with the same entity types on both sides, by these types.
type RelationGroups = BTreeMap<(usize, usize), Vec<u32>>;

/// Relations by question: a bit for each.
struct RelationBits {
    words: Vec<u64>,
    /// Number of words of a question.
    width: usize,
}

impl RelationBits {
    fn new(questions: usize, relations: usize) -> Self {
        let width = relations.div_ceil(64);
        Self {
            words: vec![0; questions * width],
            width,
        }
    }

    fn insert(&mut self, question: usize, relation: u32) {
        self.words[question * self.width + relation as usize / 64] |= 1 << (relation % 64);
    }

    fn contains(&self, question: usize, relation: u32) -> bool {
        self.words[question * self.width + relation as usize / 64] >> (relation % 64) & 1 == 1
    }
}

impl Predictor<'_> {
    /// Returns the relations that best complete the edges between the entities of each question, among those whose
    /// entity types fit. Relations of known edges are left out. If `stop` is set meanwhile, no question is answered.
    ///
    /// # Errors
    /// For the first question with an unknown name; when tables or edges cannot be read, a score is not finite, or
    /// `stop` is set.
    pub fn relations(
        &self,
        questions: &[RelationQuestion],
        stop: &AtomicBool,
    ) -> Result<Vec<Prediction<'_>>, Unanswerable> {
        let relations = self.trained.blueprint.relation_names.len() as u64;
        let at_once = (KNOWN_BYTES / known_bytes(relations.max(1))).clamp(1, 1 << 16) as usize;
        let mut found = Vec::with_capacity(questions.len());
        for (at, part) in questions.chunks(at_once).enumerate() {
            let first = at * at_once;
            let answers = self.relations_at_once(part, stop);
            found.extend(answers.map_err(|no| Unanswerable {
                question: first + no.question,
                ..no
            })?);
        }
        Ok(found)
    }

    fn relations_at_once(
        &self,
        questions: &[RelationQuestion],
        stop: &AtomicBool,
    ) -> Result<Vec<Prediction<'_>>, Unanswerable> {
        let groups = self.relation_groups();
        let ends = self.ends(questions, &groups)?;
        let answer = || {
            let view = ModelView::of(&self.trained);
            let known = self.known_relations(&view, &ends)?;
            let mut wanted = vec![Vec::new(); self.trained.blueprint.layout.types.len()];
            for &((left, head), (right, tail)) in ends.iter().flatten() {
                wanted[left].push(head);
                wanted[right].push(tail);
            }
            let tables = &mut CommittedTables::new(&self.trained);
            let rows = compare::gather(self, &view, wanted, tables)?;
            let share = ends.len().div_ceil(self.threads).max(1);
            let scoring = RelationScoring {
                predictor: self,
                view,
                groups: &groups,
                rows: &rows,
                known: &known,
                stop,
            };
            let scoring = &scoring;
            let parts = ends.chunks(share).enumerate();
            let job = |(at, part)| move |crew: &Crew| scoring.best(crew, at * share, part);
            crew::run_jobs(parts.map(job), || ())
        };
        let found = answer().map_err(|error| match error {
            RunError::NotComparable { question } => unanswerable(question, error),
            error => unanswerable(0, error),
        })?;
        let names = &self.trained.blueprint.relation_names;
        let name = |id: &EntityId| names.get(id.offset as usize).map_or("", String::as_str);
        let answers = found.into_iter().flatten().map(|found| Prediction {
            left_out: found.left_out,
            best: found
                .best
                .iter()
                .map(|(id, score)| (name(id), *score))
                .collect(),
        });
        Ok(answers.collect())
    }

    /// Returns the relations by the entity types of their sides.
    fn relation_groups(&self) -> RelationGroups {
        let blueprint = &self.trained.blueprint;
        let mut groups = RelationGroups::new();
        for relation in 0..blueprint.relation_names.len() as u32 {
            let [left, right] = Side::BOTH.map(|side| blueprint.type_of(relation, side));
            groups.entry((left, right)).or_default().push(relation);
        }
        groups
    }

    /// Returns the entities of each question, for each pair of types that some relation has.
    fn ends(
        &self,
        questions: &[RelationQuestion],
        groups: &RelationGroups,
    ) -> Result<Vec<Vec<Ends>>, Unanswerable> {
        let trained = &self.trained;
        let mut names = EntityNames::new(trained);
        for question in questions {
            for &(left, right) in groups.keys() {
                names.add(left, &question.head);
                names.add(right, &question.tail);
            }
        }
        names
            .find(trained)
            .map_err(|error| unanswerable(0, error))?;
        let key = |entity_type: usize, name: &str| {
            let id: EntityId = names.id(entity_type, name)?;
            let has = trained.has(entity_type, id);
            has.then_some((entity_type, (id.partition, id.offset)))
        };
        let find = |question: &RelationQuestion| {
            let sides = [(&question.head, Side::Lhs), (&question.tail, Side::Rhs)];
            for (name, side) in sides {
                let of = |&(left, right): &(usize, usize)| match side {
                    Side::Lhs => left,
                    Side::Rhs => right,
                };
                if groups.keys().any(|types| key(of(types), name).is_some()) {
                    continue;
                }
                let is_known = groups
                    .keys()
                    .any(|types| names.id(of(types), name).is_some());
                return Err(match is_known {
                    true => entity_names::is_new(trained, name),
                    false => name_lookup::unknown_entity(trained, name, None)?.into(),
                });
            }
            let pairs = groups.keys().filter_map(|&(left, right)| {
                Some((key(left, &question.head)?, key(right, &question.tail)?))
            });
            Ok(pairs.collect())
        };
        let place = |(at, question): (usize, &RelationQuestion)| {
            find(question).map_err(|error| unanswerable(at, error))
        };
        questions.iter().enumerate().map(place).collect()
    }

    /// Returns the relations of known edges between the entities of each question.
    fn known_relations(
        &self,
        view: &ModelView<'_>,
        ends: &[Vec<Ends>],
    ) -> Result<RelationBits, RunError> {
        let relations = self.trained.blueprint.relation_names.len();
        let mut known = RelationBits::new(ends.len(), relations);
        let mut asked: HashMap<Ends, Vec<usize>> = HashMap::new();
        for (question, ends) in ends.iter().enumerate() {
            for &pair in ends {
                asked.entry(pair).or_default().push(question);
            }
        }
        self.filter.visit(view, &|_| true, &mut |edge| {
            let end = |side| {
                let entity_type = view.blueprint.type_of(edge.rel, side);
                (entity_type, known_answers::entity(view, edge, side))
            };
            for &question in asked
                .get(&(end(Side::Lhs), end(Side::Rhs)))
                .into_iter()
                .flatten()
            {
                known.insert(question, edge.rel);
            }
        })?;
        Ok(known)
    }
}

/// State for scoring relations, which all threads share.
struct RelationScoring<'s> {
    predictor: &'s Predictor<'s>,
    view: ModelView<'s>,
    groups: &'s RelationGroups,
    rows: &'s BlockEmbeddings,
    known: &'s RelationBits,
    stop: &'s AtomicBool,
}

impl RelationScoring<'_> {
    /// Returns the answers to consecutive questions, the first of which is question `first`.
    fn best(
        &self,
        crew: &Crew,
        first: usize,
        questions: &[Vec<Ends>],
    ) -> Result<Vec<ScoredAnswer>, RunError> {
        let mut ranker = Ranker::new(Arc::clone(&self.predictor.spec))?;
        let mut found = Vec::with_capacity(questions.len());
        for (question, ends) in (first..).zip(questions) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            if crew.has_failed() {
                return Ok(found);
            }
            found.push(self.answer(&mut ranker, question, ends)?);
        }
        Ok(found)
    }

    fn answer(
        &self,
        ranker: &mut Ranker,
        question: usize,
        ends: &[Ends],
    ) -> Result<ScoredAnswer, RunError> {
        let mut best = TopK::new(self.predictor.relation_count.max(1));
        let mut queries = PreparedQueries::default();
        for &((left, head), (right, tail)) in ends {
            let (heads, tails) = (&self.rows.types[left], &self.rows.types[right]);
            let (head, tail) = (heads.row_of(head), tails.row_of(tail));
            let all = self
                .groups
                .get(&(left, right))
                .map_or(&[][..], Vec::as_slice);
            let spec = &self.predictor.spec;
            let depends = |relation: &u32| spec.candidates_depend_on_relation(Side::Lhs, *relation);
            // Heads are prepared once for the relations of a block, unless a relation transforms them.
            let blocks = all.chunk_by(|a, b| !depends(a) && !depends(b));
            for relations in blocks.flat_map(|block| block.chunks(CANDIDATE_BLOCK)) {
                let count = relations.len();
                let each = BatchRelations::PerEdge(relations);
                let (known, params) = (vec![tail; count], self.view.params);
                // As for scores: the left side is replaced.
                ranker.queries(Side::Lhs, &known, each, &tails.table, params, &mut queries);
                let replacement = self.view.replaced(Side::Lhs, relations[0]);
                let heads = (vec![head; count], &heads.table);
                let scores = ranker.pair_scores(replacement, &queries, &heads.0, heads.1);
                if !scores.iter().all(|score| score.is_finite()) {
                    return Err(RunError::NotComparable { question });
                }
                for (&relation, score) in relations.iter().zip(scores) {
                    match self.known.contains(question, relation) {
                        true => best.leave_out(),
                        false => best.add(ScoredCandidate {
                            score,
                            id: EntityId {
                                partition: 0,
                                offset: relation,
                            },
                        }),
                    }
                }
            }
        }
        Ok(best.finish(0))
    }
}
