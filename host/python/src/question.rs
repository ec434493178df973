//! Questions and answers of predictions, in the JSON form of the package.

use std::sync::atomic::AtomicBool;

use pbg_core::graph::Side;
use pbg_model::{ResolvedConfig, RunError};
use pbg_query::{
    AnswerNotes, AskedQuestion, BeamWidth, Calibration, ExactReason, IndexQueryOptions,
    PredictOptions,
};
use pbg_session::{Failure, Result};
use serde::{Deserialize, Serialize};

use crate::errors::{spelled, usage};

/// Questions that are answered together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    questions: Vec<Edge>,
    k: u32,
    /// Edge sets whose edges are excluded from the answers; `None` for all of the dataset.
    filter: Option<Vec<String>>,
    loops: bool,
    threads: Option<usize>,
    /// Whether the index is used.
    index: bool,
    /// Beam width of the index search.
    width: Option<u32>,
    /// Whether the answers have probabilities.
    probability: bool,
}

/// An edge with one unknown part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edge {
    head: Option<String>,
    relation: Option<String>,
    tail: Option<String>,
}

/// Answers in the order of their questions, and warnings.
#[derive(Default, Serialize)]
pub(crate) struct Answers {
    answers: Vec<Answer>,
    warnings: Vec<String>,
}

/// The best answers to a question.
#[derive(Serialize)]
struct Answer {
    left_out: u64,
    names: Vec<String>,
    scores: Vec<f32>,
    /// Probabilities of the calibration, if they are asked for.
    probabilities: Option<Vec<f64>>,
}

impl Edge {
    fn question(self) -> Result<AskedQuestion> {
        AskedQuestion::new(self.head, self.relation, self.tail).map_err(|_| {
            usage("a question names all parts of an edge but one: head, relation or tail")
        })
    }
}

/// Returns the names of all edge sets of the dataset.
pub(crate) fn edge_sets(resolved: &ResolvedConfig) -> Vec<String> {
    let sets = resolved.dataset().manifest().edge_sets.keys();
    sets.cloned().collect()
}

/// Answers all questions in blocks of the predictor's size. If `stop` is set meanwhile, returns an error.
pub(crate) fn answer(
    resolved: &ResolvedConfig,
    asked: Asked,
    stop: &AtomicBool,
) -> Result<Answers> {
    let options = PredictOptions {
        count: asked.k,
        filter: asked.filter.unwrap_or_else(|| edge_sets(resolved)),
        loops: asked.loops,
        threads: asked.threads,
        questions: Some(asked.questions.len()),
        index: asked
            .index
            .then_some(IndexQueryOptions { width: asked.width }),
    };
    let curves = asked.probability.then(|| Calibration::of(resolved));
    let curves = curves.transpose()?;
    let questions = asked.questions.into_iter().map(Edge::question);
    let questions: Vec<AskedQuestion> = questions.collect::<Result<_>>()?;
    let predictor = pbg_query::Predictor::open(resolved, &options)?;
    let Answers {
        mut answers,
        mut warnings,
    } = Answers::default();
    for block in questions.chunks(predictor.at_once().0.max(1)) {
        let first = answers.len();
        let blame = |error: RunError, at: usize| {
            Failure::from(error).context(format!("question {}", first + at + 1))
        };
        let mut note = |approach: &AnswerNotes<'_>| {
            let instead = approach.all_instead.iter().copied().map(Err);
            for how in approach.widths.values().copied().map(Ok).chain(instead) {
                warnings.extend(index_warning(&how).filter(|text| !warnings.contains(text)));
            }
        };
        let found = predictor.answer_all(block, stop, &mut note, &mut |_| ());
        let found = found.map_err(|no| match *no.error {
            error @ (RunError::Unknown(_) | RunError::NotComparable { .. }) => {
                blame(error, no.question)
            }
            error => error.into(),
        })?;
        answers.extend(
            block
                .iter()
                .zip(found.iter())
                .map(|(question, prediction)| {
                    let scores: Vec<f32> =
                        prediction.best.iter().map(|(_, score)| *score).collect();
                    let curves = curves.as_ref();
                    Answer {
                        probabilities: curves.map(|of| probabilities(of, question, &scores)),
                        left_out: prediction.left_out,
                        names: prediction
                            .best
                            .iter()
                            .map(|(name, _)| (*name).to_owned())
                            .collect(),
                        scores,
                    }
                }),
        );
    }
    Ok(Answers { answers, warnings })
}

/// Returns the probabilities of answers with these scores.
fn probabilities(curves: &Calibration, question: &AskedQuestion, scores: &[f32]) -> Vec<f64> {
    let open = match question {
        AskedQuestion::Entity(asked) => asked.open,
        // Relations have the scores of edges, whose left side is open.
        AskedQuestion::Relation(_) => Side::Lhs,
    };
    let scores = scores.iter();
    scores
        .map(|&score| curves.probability(open, score))
        .collect()
}

/// Returns the warning about an index search, if there is one: its recall is poor, or it was not used because its
/// measured recall is too low.
pub(crate) fn index_warning(how: &std::result::Result<BeamWidth, ExactReason>) -> Option<String> {
    match how {
        Ok(width) => width.is_poor().then(|| spelled(&width.to_string())),
        Err(ExactReason::Cheaper) => None,
        Err(unproven @ ExactReason::LowRecall(_)) => Some(spelled(&unproven.to_string())),
    }
}
