//! Predictions: the entities that best complete an edge with one open side.
//!
//! Scores are those that evaluation ranks by. Candidates are not kept in memory: the partitions of an entity type are
//! read one after the other, each once for a whole block of questions. The dictionaries are read in the same way to
//! look up names.

mod compare;
mod mixed;
mod needs;
mod options;
mod prediction;
mod predictor;
mod question;
mod recall;
mod relations;
mod search_plan;
mod top_k;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use pbg_dataset::EntityId;
use pbg_model::error::RunError;
pub(crate) use top_k::{ScoredCandidate, TopK};

use super::view::{CommittedTables, ModelView};
pub use mixed::{AskedQuestion, MixedPredictions};
pub use needs::predict_needs;
pub use options::PredictOptions;
pub use prediction::{Prediction, Predictions};
pub use predictor::Predictor;
pub use question::{Question, ResolvedQuestion, Unanswerable};
pub(crate) use recall::RecallMeasurement;
pub use relations::RelationQuestion;
pub use search_plan::AnswerNotes;

impl Predictor<'_> {
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
}
