//! Contents of a run's page that need the model: a map, nearest neighbours and predictions.

use crate::figure::{self, ReliabilityPoint};
use crate::map::MapPoint;
use crate::page::Page;

/// Entity or question with the model's answers, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnsweredQuestion {
    /// Text of the entity or question.
    pub title: String,
    /// The answers.
    pub answers: Vec<RankedAnswer>,
}

/// Entity in an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedAnswer {
    /// Name of the entity.
    pub name: String,
    /// Score of the entity.
    pub score: f32,
    /// Whether the answer is an edge of the dataset in an edge set that was not filtered.
    pub is_known_edge: bool,
}

/// Contents of a page that need the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelContents {
    /// Entities in two dimensions.
    pub map: Vec<MapPoint>,
    /// Entities and their nearest neighbours.
    pub neighbors: Vec<AnsweredQuestion>,
    /// Questions and their answers.
    pub predictions: Vec<AnsweredQuestion>,
    /// Edge sets whose edges were left out of the answers.
    pub filter: Vec<String>,
    /// Reliability of calibrated probabilities.
    pub reliability: Vec<ReliabilityPoint>,
    /// Mixture of edges that these probabilities refer to.
    pub mixture: String,
}

impl ModelContents {
    /// Appends the contents to a page.
    pub(super) fn append_to(&self, page: &mut Page) {
        if !self.map.is_empty() {
            page.figure(figure::map(&self.map));
        }
        if !self.reliability.is_empty() {
            page.figure(figure::reliability(&self.reliability, &self.mixture));
        }
        if !self.neighbors.is_empty() {
            page.heading("Nearest neighbours");
            page.text("The entities with the nearest embeddings, and their scores.");
            page.questions(&self.neighbors);
        }
        if !self.predictions.is_empty() {
            page.heading("Predictions");
            page.text(&self.about_predictions());
            page.questions(&self.predictions);
        }
    }

    fn about_predictions(&self) -> String {
        let mut text =
            "The entities that best complete an edge with one open side, with scores".to_owned();
        if !self.filter.is_empty() {
            text.push_str(&format!(
                ", without the edges of {}",
                self.filter.join(", ")
            ));
        }
        text.push('.');
        let answers = self.predictions.iter().flat_map(|asked| &asked.answers);
        if { answers }.any(|answer| answer.is_known_edge) {
            text.push_str(" A tick marks edges that are in another edge set of the dataset.");
        }
        text
    }
}
