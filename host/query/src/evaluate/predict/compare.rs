//! Compares questions with all candidates, partition by partition, or with those that an index finds.

mod partition;
mod question_group;
mod walk;

use std::sync::atomic::AtomicBool;

use pbg_kernels::rank::Ranker;
use pbg_model::error::RunError;

use crate::evaluate::block::{BlockEmbeddings, from_tables};
use crate::evaluate::known_answers::{EntityKey, Granule, QuestionNumbers};
use crate::evaluate::view::{ModelView, TableSource};

use super::predictor::Predictor;
use super::question::ResolvedQuestion;
use super::search_plan::SearchPlan;
use super::top_k::ScoredAnswer;
use partition::QuestionsAgainstRows;
use question_group::{QuestionGroup, group_questions, read_known};

/// Copies the embeddings of the entities `wanted` of each type: single rows if there is an index, since the memory for
/// tables may be missing then.
pub(super) fn gather(
    predictor: &Predictor<'_>,
    view: &ModelView<'_>,
    wanted: Vec<Vec<EntityKey>>,
    tables: &mut dyn TableSource,
) -> Result<BlockEmbeddings, RunError> {
    match predictor.index {
        Some(_) => BlockEmbeddings::gather(view, wanted, &mut walk::row_reader(predictor)),
        None => BlockEmbeddings::gather(view, wanted, &mut from_tables(view, tables)),
    }
}

/// Answers `questions`, in their order.
pub(super) fn run(
    predictor: &Predictor<'_>,
    view: &ModelView<'_>,
    tables: &mut dyn TableSource,
    questions: &[ResolvedQuestion],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<ScoredAnswer>, RunError> {
    let mut numbers = QuestionNumbers::default();
    let mut groups = group_questions(predictor, view, questions, &mut numbers);
    let granules = groups
        .iter()
        .flat_map(|group| Granule::divide(&group.numbers));
    let granules: Vec<Granule> = granules.collect();
    let way = predictor.way(questions)?;
    let rows = match way {
        SearchPlan::All => {
            let rows = read_known(view, questions, &mut from_tables(view, tables))?;
            let mut ranker = Ranker::new(predictor.spec.clone())?;
            for group in &mut groups {
                group.prepare(view, &rows, questions, &mut ranker);
            }
            None
        }
        // Walks compute the query of each question themselves.
        SearchPlan::Walks | SearchPlan::WalksInMemory => {
            Some(walk::read(predictor, view, questions)?)
        }
    };
    let types = &view.blueprint.layout.types;
    let partitions = types.iter().map(|t| t.rows.len() as u32).max().unwrap_or(0);
    // The partition that was read last comes first.
    for partition in (0..partitions).rev() {
        let mut first = 0;
        while first < granules.len() {
            let filter = &predictor.filter;
            let answers = filter.answers(view, &numbers, &granules, first, partition)?;
            for entity in 0..types.len() {
                let comparison = QuestionsAgainstRows {
                    predictor,
                    view,
                    groups: &groups,
                    key: (entity, partition),
                    answers: &answers,
                    stop,
                };
                match &rows {
                    None => comparison.run(tables)?,
                    Some(rows) => {
                        let tables = (way == SearchPlan::WalksInMemory).then_some(&mut *tables);
                        comparison.walk(rows, questions, tables)?;
                    }
                }
            }
            first = answers.granules.end;
        }
        progress(f64::from(partitions - partition) / f64::from(partitions));
    }
    let mut found: Vec<(usize, ScoredAnswer)> =
        groups.into_iter().flat_map(QuestionGroup::finish).collect();
    found.sort_unstable_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, found)| found).collect())
}
