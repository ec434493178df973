//! The choice between walks and a comparison of all entities, where there is an index. A walk visits few entities, one
//! by one. Comparing all entities costs so much less for each of them that it may take less time for many questions.

use std::collections::{BTreeMap, BTreeSet};

use pbg_core::graph::Side;
use pbg_model::error::RunError;

use super::predictor::{PredictionIndex, Predictor};
use super::question::ResolvedQuestion;
use crate::evaluate::block::relation_alone;
use crate::evaluate::view::ModelView;
use crate::index::{BeamWidth, ExactReason};

/// Strategy for finding the candidates of a question block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchPlan {
    /// Compare all entities, partition by partition.
    All,
    /// Walk over the index, reading single rows from disk.
    Walks,
    /// Walk over the index, after reading all rows of a partition into memory.
    WalksInMemory,
}

/// Notes about a block's answers, to print before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerNotes<'p> {
    /// Width of the walks, by the name of the entity type of the answers; empty without walks.
    pub widths: BTreeMap<&'p str, BeamWidth>,
    /// Reason why all candidates are compared although an index was requested.
    pub all_instead: Option<ExactReason>,
}

/// Work that questions cause among the entities of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SearchLoad {
    /// Number of entities, in all partitions.
    entities: f64,
    questions: f64,
    /// Number of question groups for which candidates are prepared anew.
    groups: f64,
    /// Number of entities that a question's walks visit, in all partitions.
    visited: f64,
}

/// Costs of the strategies, as multiples of the processor time that a walk needs for an entity whose row it reads from
/// disk (some microseconds). These are ratios of measurements with `predict` among a hundred thousand entities of 64
/// elements.
mod costs {
    /// A walk visits an entity whose row is in memory.
    pub(super) const IN_MEMORY: f64 = 0.3;
    /// A row is read and verified with its whole partition.
    pub(super) const READ: f64 = 0.2;
    /// A candidate is prepared for a group of questions.
    pub(super) const PREPARED: f64 = 0.05;
    /// A prepared candidate is compared with one of many questions.
    pub(super) const COMPARED: f64 = 0.004;
}

/// Returns the strategy with the least cost. Rows are read into memory only if there is `room`. With `only_walks`,
/// because a width was chosen, the result is always a walk.
fn cheapest(loads: &[SearchLoad], room: bool, only_walks: bool) -> SearchPlan {
    let sum = |of: fn(&SearchLoad) -> f64| loads.iter().map(of).sum::<f64>();
    let reading = sum(|of| of.entities * costs::READ);
    let looks = sum(|of| of.questions * of.visited);
    let compared =
        sum(|of| of.entities * (of.groups * costs::PREPARED + of.questions * costs::COMPARED));
    let in_memory = reading + looks * costs::IN_MEMORY;
    match room {
        true if !only_walks && reading + compared < looks.min(in_memory) => SearchPlan::All,
        true if in_memory < looks => SearchPlan::WalksInMemory,
        _ => SearchPlan::Walks,
    }
}

impl Predictor<'_> {
    /// Returns the notes about the answers to `questions`, before they are computed.
    ///
    /// # Errors
    /// When the index lacks a type.
    pub fn approach(&self, questions: &[ResolvedQuestion]) -> Result<AnswerNotes<'_>, RunError> {
        if self.index.is_none() {
            return Ok(AnswerNotes::default());
        }
        if self.way(questions)? == SearchPlan::All {
            let unproven = self.unproven(questions)?.map(ExactReason::LowRecall);
            return Ok(AnswerNotes {
                all_instead: Some(unproven.unwrap_or(ExactReason::Cheaper)),
                ..AnswerNotes::default()
            });
        }
        let types = self.open_types(questions);
        let width = |of: usize| {
            let name = self.trained.blueprint.layout.types[of].name.as_str();
            Ok::<_, RunError>((name, self.width(of)?))
        };
        Ok(AnswerNotes {
            widths: types.into_iter().map(width).collect::<Result<_, _>>()?,
            all_instead: None,
        })
    }

    /// Returns the width for a type whose walks have too little recall, if no width was chosen.
    fn unproven(&self, questions: &[ResolvedQuestion]) -> Result<Option<BeamWidth>, RunError> {
        let Some(PredictionIndex { with, .. }) = &self.index else {
            return Ok(None);
        };
        for of in self.open_types(questions) {
            let width = self.width(of)?;
            if !width.is_used(*with) {
                return Ok(Some(width));
            }
        }
        Ok(None)
    }

    /// Returns the entity types that are asked for.
    fn open_types(&self, questions: &[ResolvedQuestion]) -> BTreeSet<usize> {
        let blueprint = &self.trained.blueprint;
        let types = questions.iter();
        let types = types.map(|asked| blueprint.type_of(asked.relation, asked.open));
        types.collect()
    }

    /// Returns the strategy for answering a block of questions.
    ///
    /// # Errors
    /// When the index lacks a type.
    pub(super) fn way(&self, questions: &[ResolvedQuestion]) -> Result<SearchPlan, RunError> {
        let Some(PredictionIndex { index, with, .. }) = &self.index else {
            return Ok(SearchPlan::All);
        };
        if self.unproven(questions)?.is_some() {
            return Ok(SearchPlan::All);
        }
        let (view, blueprint) = (ModelView::of(&self.trained), &self.trained.blueprint);
        let mut loads = Vec::new();
        for of in self.open_types(questions) {
            let name = &blueprint.layout.types[of].name;
            let links = f64::from(index.degree(name)?);
            let width = f64::from(self.width(of)?.width);
            let mut load = SearchLoad::default();
            for partition in 0..self.trained.partitions(of) {
                let entities = view.entities((of, partition)) as f64;
                load.entities += entities;
                // About half of the links of the candidates lead to entities that were not visited before.
                load.visited += entities.min(width * links / 2.0);
            }
            let mut groups = BTreeSet::new();
            for asked in questions {
                if blueprint.type_of(asked.relation, asked.open) == of {
                    let alone = relation_alone(&blueprint.spec, asked.relation, asked.open);
                    groups.insert((asked.open == Side::Lhs, alone.then_some(asked.relation)));
                    load.questions += 1.0;
                }
            }
            load.groups = groups.len() as f64;
            loads.push(load);
        }
        Ok(cheapest(&loads, self.room, with.width.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(entities: f64, questions: f64, room: bool, only_walks: bool) -> SearchPlan {
        let load = SearchLoad {
            entities,
            questions,
            groups: 1.0,
            visited: entities.min(2000.0),
        };
        cheapest(&[load], room, only_walks)
    }

    #[test]
    fn many_questions_among_few_are_compared_with_all() {
        assert_eq!(way(1e5, 500.0, true, false), SearchPlan::All);
        assert_eq!(way(1e5, 500.0, true, true), SearchPlan::WalksInMemory);
        assert_eq!(way(1e5, 500.0, false, false), SearchPlan::Walks);
    }

    #[test]
    fn few_questions_among_many_are_walked() {
        assert_eq!(way(1e7, 10.0, true, false), SearchPlan::Walks);
        assert_eq!(way(1e7, 5000.0, true, false), SearchPlan::WalksInMemory);
    }
}
