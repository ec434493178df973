//! Known edges in memory, by question.

use pbg_core::graph::Side;
use pbg_model::error::RunError;
use pbg_model::trained::TrainedModel;

use crate::evaluate::ModelView;
use crate::evaluate::calibration_parts::{EntityKey, Filter, entity};

/// Question and answer: relation, known entity, open entity.
type KnownAnswer = (u32, EntityKey, EntityKey);

/// Edges of edge sets, sorted by the questions that they answer.
pub(super) struct KnownEdges {
    /// Answers by open side.
    answers: [Vec<KnownAnswer>; 2],
}

impl KnownEdges {
    /// Bytes of an edge, while it is read and afterwards.
    pub(super) const BYTES_PER_EDGE: u64 = 2 * 2 * 20;

    /// Reads the edges of the sets `filter`.
    pub(super) fn read(trained: &TrainedModel<'_>, filter: &[String]) -> Result<Self, RunError> {
        let view = ModelView::of(trained);
        let mut answers = [Vec::new(), Vec::new()];
        let filter = Filter::open(&view, filter, 1)?;
        filter.visit(&view, &|_| true, &mut |edge| {
            let [head, tail] = Side::BOTH.map(|side| entity(&view, edge, side));
            answers[Side::Lhs as usize].push((edge.rel, tail, head));
            answers[Side::Rhs as usize].push((edge.rel, head, tail));
        })?;
        for side in &mut answers {
            side.sort_unstable();
            side.dedup();
            side.shrink_to_fit();
        }
        Ok(Self { answers })
    }

    /// Returns the known answers to a question in ascending order.
    pub(super) fn answers(&self, open: Side, relation: u32, known: EntityKey) -> &[KnownAnswer] {
        let all = &self.answers[open as usize];
        let question = |of: &KnownAnswer| (of.0, of.1);
        let from = all.partition_point(|of| question(of) < (relation, known));
        let to = all.partition_point(|of| question(of) <= (relation, known));
        &all[from..to]
    }

    /// Whether an edge is known.
    pub(super) fn contains(&self, head: EntityKey, relation: u32, tail: EntityKey) -> bool {
        self.answers[Side::Rhs as usize]
            .binary_search(&(relation, head, tail))
            .is_ok()
    }
}
