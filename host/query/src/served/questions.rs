//! Answers of a served model.

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_kernels::rank::{CANDIDATE_BLOCK, CandidateBlock, PreparedQueries, ReplacedSide};
use pbg_kernels::step::BatchRelations;
use pbg_model::error::RunError;
use pbg_rows::table::Table;

use super::{ServedPartitions, ServedSearch, ServedWorker};
use crate::evaluate::calibration_parts::{EntityKey, ScoredCandidate, TopK};
use crate::evaluate::predict::{Question, RelationQuestion};
use crate::index::IndexWalker;
use crate::without_operators;

/// Name with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Named<'s> {
    /// Name of an entity or a relation.
    pub name: &'s str,
    /// Score.
    pub score: f32,
}

/// Answer to a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedAnswer<'s> {
    /// Number of entities or relations that were left out because they make a known edge.
    pub left_out: u64,
    /// Best of the others, best first.
    pub best: Vec<Named<'s>>,
    /// Whether a search over the index found them, which may miss some.
    pub is_approximate: bool,
}

/// Question without an answer.
#[derive(Debug)]
pub enum RefusedQuestion {
    /// A name is unknown or ambiguous; says which.
    Name(String),
    /// The model cannot be read.
    Run(RunError),
}

impl<E: Into<RunError>> From<E> for RefusedQuestion {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

type Answered<T> = Result<T, RefusedQuestion>;

/// Candidates of a question.
struct Candidates<'c> {
    /// Entity type.
    of: usize,
    replacement: ReplacedSide<'c>,
    query: &'c PreparedQueries,
    /// Partition and offset of entities that are no answers, in ascending order.
    left_out: &'c [EntityKey],
    /// Beam width; `None` to compare all.
    width: Option<u32>,
    count: usize,
}

impl<'s> ServedPartitions<'s> {
    /// Creates the buffers of a thread.
    ///
    /// # Errors
    /// When the model breaks a rule.
    pub fn worker(&self) -> Result<ServedWorker, RunError> {
        self.model.worker()
    }

    /// Returns how predictions of each entity type are found.
    #[must_use]
    pub fn searches(&self) -> Vec<ServedSearch<'s>> {
        let types = self.model.trained.blueprint.layout.types.iter();
        let found = self.widths.iter().zip(&self.reasons);
        types
            .zip(found)
            .map(|(of, (&[_, width], &reason))| ServedSearch {
                entity_type: &of.name,
                width,
                reason,
            })
            .collect()
    }

    /// Returns the score of an edge, as `QueryModel::score` does.
    ///
    /// # Errors
    /// When a name is unknown or the model cannot be read.
    pub fn score(&self, worker: &mut ServedWorker, edge: [&str; 3]) -> Answered<f32> {
        let [head, relation, tail] = edge;
        let relation = self.relation(relation)?;
        let [left, right] = self.types(relation);
        let (head, tail) = (self.entity(left, head)?, self.entity(right, tail)?);
        let heads = self.row(left, head)?;
        let tails = self.row(right, tail)?;
        let replacement = self.replaced(Side::Lhs, relation);
        let ranker = worker.predictions.ranker();
        let (mut query, one) = (PreparedQueries::default(), BatchRelations::One(relation));
        ranker.queries(Side::Lhs, &[0], one, &tails, replacement.params, &mut query);
        let score = ranker.pair_scores(replacement, &query, &[0], &heads)[0];
        finite(score)
    }

    /// Returns the entities that best complete an edge.
    ///
    /// # Errors
    /// When a name is unknown or the model cannot be read.
    pub fn predict(
        &self,
        worker: &mut ServedWorker,
        question: &Question,
        count: usize,
        loops: bool,
    ) -> Answered<ServedAnswer<'s>> {
        let (open, relation) = (question.open, self.relation(&question.relation)?);
        let types = self.types(relation);
        let (known_type, of) = (types[open.other() as usize], types[open as usize]);
        let id = self.entity(known_type, &question.entity)?;
        let known = (id.partition, id.offset);
        let rows = self.row(known_type, id)?;
        let replacement = self.replaced(open, relation);
        let (mut query, one) = (PreparedQueries::default(), BatchRelations::One(relation));
        let ranker = worker.predictions.ranker();
        ranker.queries(open, &[0], one, &rows, replacement.params, &mut query);
        let answers = self.model.known.answers(open, relation, known);
        let mut left_out: Vec<EntityKey> = answers.iter().map(|&(_, _, entity)| entity).collect();
        let known_answers = left_out.len() as u64;
        if known_type == of && !loops {
            left_out.push(known);
            left_out.sort_unstable();
            left_out.dedup();
        }
        let candidates = Candidates {
            of,
            replacement,
            query: &query,
            left_out: &left_out,
            width: self.widths[of][1],
            count,
        };
        Ok(ServedAnswer {
            left_out: known_answers,
            ..self.best(&mut worker.predictions, &candidates)?
        })
    }

    /// Returns the relations that best complete an edge, with the scores of edges.
    ///
    /// # Errors
    /// When a name is unknown or the model cannot be read.
    pub fn relations(
        &self,
        worker: &mut ServedWorker,
        question: &RelationQuestion,
        count: usize,
    ) -> Answered<ServedAnswer<'s>> {
        let names = &self.model.trained.blueprint.relation_names;
        let (mut best, mut left_out) = (TopK::new(count.clamp(1, names.len().max(1))), 0);
        let (mut heads_known, mut tails_known) = (false, false);
        let ranker = worker.predictions.ranker();
        let mut query = PreparedQueries::default();
        let mut last: Option<((usize, usize), Table, Table)> = None;
        for relation in 0..names.len() as u32 {
            let [left, right] = self.types(relation);
            let head = self.find(left, &question.head);
            let tail = self.find(right, &question.tail);
            heads_known |= head.is_some();
            tails_known |= tail.is_some();
            let (Some(head), Some(tail)) = (head, tail) else {
                continue;
            };
            let key = |id: EntityId| (id.partition, id.offset);
            if self.model.known.contains(key(head), relation, key(tail)) {
                left_out += 1;
                continue;
            }
            if last
                .as_ref()
                .is_none_or(|&(types, ..)| types != (left, right))
            {
                last = Some(((left, right), self.row(left, head)?, self.row(right, tail)?));
            }
            let Some((_, heads, tails)) = &last else {
                continue;
            };
            let replacement = self.replaced(Side::Lhs, relation);
            let one = BatchRelations::One(relation);
            ranker.queries(Side::Lhs, &[0], one, tails, replacement.params, &mut query);
            let score = finite(ranker.pair_scores(replacement, &query, &[0], heads)[0])?;
            best.add(ScoredCandidate {
                score,
                id: relation,
            });
        }
        for (name, is_known) in [(&question.head, heads_known), (&question.tail, tails_known)] {
            if !is_known {
                return Err(RefusedQuestion::Name(format!(
                    "there is no entity `{name}` on this side of a relation"
                )));
            }
        }
        let named = |(relation, score): (u32, f32)| Named {
            name: names[relation as usize].as_str(),
            score,
        };
        Ok(ServedAnswer {
            left_out,
            best: best.into_sorted().into_iter().map(named).collect(),
            is_approximate: false,
        })
    }

    /// Returns the entities of the same type with the nearest embeddings, without the entity itself.
    ///
    /// # Errors
    /// When the name is unknown or ambiguous, or the model cannot be read.
    pub fn neighbors(
        &self,
        worker: &mut ServedWorker,
        name: &str,
        entity_type: Option<&str>,
        count: usize,
    ) -> Answered<ServedAnswer<'s>> {
        let types = &self.model.trained.blueprint.layout.types;
        let wanted = entity_type
            .map(|wanted| self.entity_type(wanted))
            .transpose()?;
        let all = (0..types.len()).filter(|of| wanted.is_none_or(|wanted| wanted == *of));
        let mut found = all.filter_map(|of| Some((of, self.find(of, name)?)));
        let Some((of, id)) = found.next() else {
            return Err(RefusedQuestion::Name(format!(
                "there is no entity `{name}`"
            )));
        };
        if found.next().is_some() {
            let text = format!(
                "several entity types have an entity `{name}`; choose one with `entity_type`"
            );
            return Err(RefusedQuestion::Name(text));
        }
        let rows = self.row(of, id)?;
        let replacement = without_operators::replaced(of, &self.model.plain_params);
        let (mut query, one) = (PreparedQueries::default(), BatchRelations::One(of as u32));
        let ranker = worker.neighbors.ranker();
        ranker.queries(Side::Lhs, &[0], one, &rows, replacement.params, &mut query);
        let candidates = Candidates {
            of,
            replacement,
            query: &query,
            left_out: &[(id.partition, id.offset)],
            width: self.widths[of][0],
            count,
        };
        self.best(&mut worker.neighbors, &candidates)
    }

    /// Returns names of entities that begin with `prefix`, in the order of the dictionary.
    ///
    /// # Errors
    /// When the entity type is unknown.
    pub fn names(&self, entity_type: &str, prefix: &str, count: usize) -> Answered<Vec<&'s str>> {
        let of = self.entity_type(entity_type)?;
        let names = self.model.dictionaries[of].names();
        Ok(names
            .filter(|name| name.starts_with(prefix))
            .take(count)
            .collect())
    }

    /// Returns the best candidates of a question.
    fn best(&self, walker: &mut IndexWalker, asked: &Candidates<'_>) -> Answered<ServedAnswer<'s>> {
        let trained = &self.model.trained;
        let entities = self.model.dictionaries[asked.of].len() as usize;
        let mut best = TopK::new(asked.count.clamp(1, entities.max(1)));
        let mut keep = |partition: u32, offset: u32, score: f32| {
            let id = EntityId { partition, offset };
            let is_left_out = asked.left_out.binary_search(&(partition, offset)).is_ok();
            if !is_left_out && (trained.missing.is_empty() || trained.has(asked.of, id)) {
                best.add(ScoredCandidate { score, id });
            }
        };
        match (asked.width, self.parts.get(asked.of), &self.model.tables) {
            (Some(width), Some(parts), _) => {
                let wanted = (asked.count + asked.left_out.len()).min(u32::MAX as usize) as u32;
                for (partition, part) in (0..).zip(parts) {
                    let width = width.max(wanted).min(part.points().max(1));
                    let found = walker.best(part, asked.replacement, asked.query, 0, width)?;
                    found
                        .into_iter()
                        .for_each(|(offset, score)| keep(partition, offset, score));
                }
            }
            (_, _, Some(tables)) => {
                let mut block = CandidateBlock::default();
                for (partition, table) in (0..).zip(&tables[asked.of]) {
                    compare_all(walker, asked, table, &mut block, &mut |offset, score| {
                        keep(partition, offset, score);
                    })?;
                }
            }
            _ => return Err(RunError::NoIndex.into()),
        }
        let named = |(id, score): (EntityId, f32)| Named {
            name: self.model.name(asked.of, id),
            score,
        };
        Ok(ServedAnswer {
            left_out: 0,
            best: best.into_sorted().into_iter().map(named).collect(),
            is_approximate: asked.width.is_some(),
        })
    }

    /// Returns the embedding of an entity as a table of one row.
    fn row(&self, of: usize, id: EntityId) -> Result<Table, RunError> {
        let max_norm = self.model.spec.max_norm;
        let (partition, offset) = (id.partition as usize, [id.offset]);
        let width = self.model.trained.blueprint.layout.types[of].dimension;
        let row = match (&self.model.tables, self.parts.get(of)) {
            (Some(tables), _) => tables[of][partition].gather(&offset, max_norm),
            (None, Some(parts)) => parts[partition].gather(&offset, max_norm, &mut Vec::new())?,
            (None, None) => return Err(RunError::NoIndex),
        };
        Ok(Table::new(row, width))
    }

    fn replaced(&self, side: Side, relation: u32) -> ReplacedSide<'_> {
        let params = &self.model.trained.params;
        ReplacedSide {
            side,
            relation,
            params,
        }
    }

    /// Returns the entity types of the left and the right side.
    fn types(&self, relation: u32) -> [usize; 2] {
        Side::BOTH.map(|side| self.model.trained.blueprint.type_of(relation, side))
    }

    fn relation(&self, name: &str) -> Answered<u32> {
        let found = self.model.relations.get(name).copied();
        found.ok_or_else(|| RefusedQuestion::Name(format!("there is no relation `{name}`")))
    }

    fn entity_type(&self, name: &str) -> Answered<usize> {
        let found = self.model.trained.blueprint.entity_type(name);
        found.ok_or_else(|| RefusedQuestion::Name(format!("there is no entity type `{name}`")))
    }

    /// Returns the entity of a name, if it exists and has an embedding.
    fn find(&self, of: usize, name: &str) -> Option<EntityId> {
        let id = self.model.dictionaries[of].find(name)?;
        self.model.trained.has(of, id).then_some(id)
    }

    fn entity(&self, of: usize, name: &str) -> Answered<EntityId> {
        self.find(of, name).ok_or_else(|| {
            let of = &self.model.trained.blueprint.layout.types[of].name;
            RefusedQuestion::Name(format!("there is no entity `{name}` of type `{of}`"))
        })
    }
}

/// Compares all entities of a table with a question.
fn compare_all(
    walker: &mut IndexWalker,
    asked: &Candidates<'_>,
    table: &Table,
    block: &mut CandidateBlock,
    keep: &mut dyn FnMut(u32, f32),
) -> Answered<()> {
    let max_norm = walker.max_norm();
    let ranker = walker.ranker();
    for first in (0..table.entities()).step_by(CANDIDATE_BLOCK) {
        let last = (first + CANDIDATE_BLOCK).min(table.entities());
        let offsets: Vec<u32> = (first as u32..last as u32).collect();
        let rows = Table::new(table.gather(&offsets, max_norm), table.embeddings.width());
        ranker.candidates(asked.replacement, 0..offsets.len(), &rows, block);
        for (offset, &score) in offsets.iter().zip(ranker.scores(asked.query, 0..1, block)) {
            keep(*offset, finite(score)?);
        }
    }
    Ok(())
}

/// Returns a score that can be compared.
fn finite(score: f32) -> Answered<f32> {
    match score.is_finite() {
        true => Ok(score),
        false => Err(RunError::NotComparable { question: 0 }.into()),
    }
}
