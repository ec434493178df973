//! Contents of a report that need the model: a map, neighbours and predictions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_model::ResolvedConfig;
use pbg_query::{
    AskedQuestion, Calibration, PredictOptions, Predictor, QueryModel, ReliabilityBin,
};
use pbg_report::figure::ReliabilityPoint;
use pbg_report::pages::model_contents::{AnsweredQuestion, ModelContents, RankedAnswer};
use pbg_session::load;

use crate::commands::calibrate;
use crate::commands::map::{self, COUNT};
use crate::commands::predict::questions::{QuestionBlock, QuestionSource};
use crate::failure::Result;
use crate::model_notes;
use crate::terminal::Terminal;

/// Number of answers to each question.
const ANSWERS: u32 = 5;

/// Options for contents of a report that need the model.
#[derive(Debug, clap::Args)]
pub(super) struct ModelContentArgs {
    /// Add a map of the entities in FILE, as for `map --names`, or of the entities with the most edges.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, requires = "html")]
    map: Option<Option<PathBuf>>,
    /// Add the nearest neighbours of an entity; can be repeated.
    #[arg(long, value_name = "NAME", requires = "html")]
    neighbors: Vec<String>,
    /// Add answers to the questions in a file, as for `predict --questions`.
    #[arg(long, value_name = "FILE", requires = "html")]
    questions: Option<PathBuf>,
    /// Edge sets whose edges are left out of the answers, separated by commas [default: all edge sets of the dataset].
    /// Answers that are edges of other sets are marked.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "questions"
    )]
    filter: Option<Vec<String>>,
    /// Leave out edges from an entity to itself.
    #[arg(long, requires = "questions")]
    no_loops: bool,
    /// Show what the model with the highest validation MRR answers, which `validation.early_stop` keeps in the folder
    /// `best`, instead of the last model.
    #[arg(long, requires = "html")]
    best: bool,
}

impl ModelContentArgs {
    /// Opens the model of the run `run` if an option needs it.
    ///
    /// # Errors
    /// When the model cannot be opened.
    pub(super) fn open(&self, run: &Path, terminal: Terminal) -> Result<Option<load::LoadedModel>> {
        if self.map.is_none() && self.neighbors.is_empty() && self.questions.is_none() {
            return Ok(None);
        }
        load::trained(Some(run), None, self.best, &[], &terminal).map(Some)
    }

    /// Computes the contents that need the model.
    ///
    /// # Errors
    /// When the model cannot be read, or a name is unknown.
    pub(super) fn ask(
        &self,
        resolved: &ResolvedConfig,
        terminal: Terminal,
    ) -> Result<ModelContents> {
        let mut known = ModelContents::default();
        let mut model = pbg_query::QueryModel::open(resolved)?;
        model_notes::warn_about_missing_rows(model.missing(), resolved, terminal);
        if let Some(file) = &self.map {
            let wanted = match file {
                Some(file) => map::named(file, &mut model, None)?,
                None => map::most_connected(COUNT, resolved, &mut model, None)?,
            };
            known.map = map::place(wanted, resolved, &mut model)?;
        }
        let near = self.neighbors.iter().map(|name| near(name, &mut model));
        known.neighbors = near.collect::<Result<_>>()?;
        // Frees the tables that it has read, since predictions read them again.
        drop(model);
        if let Some(file) = &self.questions {
            let all = resolved.dataset().manifest().edge_sets.keys().cloned();
            let all: Vec<String> = all.collect();
            known.filter = self.filter.clone().unwrap_or_else(|| all.clone());
            known.predictions = self.predicted(file, resolved, &known.filter, &all)?;
        }
        Ok(known)
    }

    /// Computes the answers without the edges of `filter`. Answers that are edges of another set are marked as true.
    fn predicted(
        &self,
        file: &Path,
        resolved: &ResolvedConfig,
        filter: &[String],
        all: &[String],
    ) -> Result<Vec<AnsweredQuestion>> {
        let options = |filter: &[String]| PredictOptions {
            count: ANSWERS,
            filter: filter.to_vec(),
            loops: !self.no_loops,
            threads: None,
            questions: None,
            index: None,
        };
        let predictor = pbg_query::Predictor::open(resolved, &options(filter))?;
        let told = match all.iter().all(|set| filter.contains(set)) {
            true => None,
            false => Some(pbg_query::Predictor::open(resolved, &options(all))?),
        };
        let mut questions = QuestionSource::of(file, &Arc::default())?;
        let mut asked = Vec::new();
        loop {
            let (most_questions, most_bytes) = predictor.at_once();
            let block = questions.next(most_questions, most_bytes)?;
            if block.questions.is_empty() {
                return Ok(asked);
            }
            let mut answers = answers(&predictor, &questions, &block)?;
            if let Some(told) = &told {
                let unknown = self::answers(told, &questions, &block)?;
                for (answers, unknown) in answers.iter_mut().zip(&unknown) {
                    let still = |name: &str| unknown.iter().any(|other| other.name == name);
                    answers
                        .iter_mut()
                        .for_each(|a| a.is_known_edge = !still(&a.name));
                }
            }
            let titles = block.questions.iter().map(AskedQuestion::to_string);
            let new = titles.zip(answers);
            asked.extend(new.map(|(title, answers)| AnsweredQuestion { title, answers }));
        }
    }
}

/// Adds the reliability of the probabilities that were calibrated in the folder of a checkpoint, if they were.
pub(super) fn add_reliability(folder: &Path, contents: &mut ModelContents, terminal: Terminal) {
    match Calibration::find(folder) {
        Ok(None) => {}
        Ok(Some(found)) => {
            let point = |bin: &ReliabilityBin| ReliabilityPoint {
                predicted: bin.predicted,
                observed: bin.observed,
                count: bin.count,
            };
            contents.reliability = found.reliability.iter().map(point).collect();
            contents.mixture = format!(
                "For version {}; {}.",
                found.version,
                calibrate::mixture(&found)
            );
        }
        Err(error) => terminal.warn(error),
    }
}

/// Returns the nearest neighbours of an entity.
fn near(name: &str, model: &mut QueryModel<'_>) -> Result<AnsweredQuestion> {
    let found = model.neighbors(name, ANSWERS as usize, None, None)?;
    let found = found.iter().map(|near| answer(&near.name, near.score));
    Ok(AnsweredQuestion {
        title: name.to_owned(),
        answers: found.collect(),
    })
}

fn answer(name: &str, score: f32) -> RankedAnswer {
    RankedAnswer {
        name: name.to_owned(),
        score,
        is_known_edge: false,
    }
}

/// Computes the answers to each question of a block.
fn answers(
    predictor: &Predictor<'_>,
    questions: &QuestionSource,
    block: &QuestionBlock,
) -> Result<Vec<Vec<RankedAnswer>>> {
    let stop = AtomicBool::new(false);
    let found = predictor.answer_all(&block.questions, &stop, &mut |_| (), &mut |_| ());
    let found = found.map_err(|no| questions.with_line(block, no))?;
    let answers = found.iter().map(|found| {
        let best = found.best.iter();
        best.map(|(name, score)| answer(name, *score)).collect()
    });
    Ok(answers.collect())
}
