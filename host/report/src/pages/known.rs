//! What a model knows, for the page of its run: a map, what is near to what, what it expects.

use crate::figure;
use crate::map::Spot;
use crate::page::Page;

/// An entity or a question, and what the model answers, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// What was asked.
    pub title: String,
    /// The answers.
    pub answers: Vec<Answer>,
}

/// An entity that a model answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its name.
    pub name: String,
    /// Its score.
    pub score: f32,
    /// Whether it makes an edge that the dataset has and the model was not told of when it was asked.
    pub holds: bool,
}

/// What a model was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Entities in two dimensions.
    pub map: Vec<Spot>,
    /// Entities and what is near to them.
    pub neighbors: Vec<Asked>,
    /// Questions and what completes them.
    pub predictions: Vec<Asked>,
    /// Edge sets that were left out of the answers to them.
    pub filter: Vec<String>,
}

impl Known {
    /// Adds what there is to a page.
    pub(super) fn put(&self, page: &mut Page) {
        if !self.map.is_empty() {
            page.figure(figure::map(&self.map));
        }
        if !self.neighbors.is_empty() {
            page.heading("Nearest neighbours");
            page.text("The entities with the nearest embeddings, and their scores.");
            page.asked(&self.neighbors);
        }
        if !self.predictions.is_empty() {
            page.heading("Predictions");
            page.text(&self.about_predictions());
            page.asked(&self.predictions);
        }
    }

    fn about_predictions(&self) -> String {
        let mut text =
            "What best completes an edge of which one side is open, and its score".to_owned();
        if !self.filter.is_empty() {
            text.push_str(&format!(
                ", without the edges of {}",
                self.filter.join(", ")
            ));
        }
        text.push('.');
        let answers = self.predictions.iter().flat_map(|asked| &asked.answers);
        if { answers }.any(|answer| answer.holds) {
            text.push_str(" A tick marks edges that the dataset has in another edge set.");
        }
        text
    }
}
