//! Calibration: probabilities from scores, by isotonic regression on held-out edges against random negatives.
//!
//! A probability refers to the mixture that it was fitted on: held-out edges, with a fixed number of random missing
//! edges for each. It is stored in the folder of the checkpoint and belongs to one version.

mod isotonic;
mod samples;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pbg_checkpoint::ReadCheckpoint;
use pbg_core::graph::Side;
use pbg_files::FileSummary;
use pbg_files::sealed_json::{self, ManifestFormat};
use pbg_model::error::{RunError, SettingError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::TrainedModel;
use serde::{Deserialize, Serialize};

pub use isotonic::ScoreCurve;
pub use samples::{CalibrationOptions, calibration_needs};
use samples::{LabelledScore, Samples};

/// Format of the file.
const FORMAT: ManifestFormat = ManifestFormat {
    name: "pbg-host calibration",
    version: 1,
    oldest: 1,
};
/// Name of the file in the folder of a checkpoint.
pub const CALIBRATION: &str = "calibration.json";
/// Number of bins of the reliability.
const BINS: usize = 10;

/// Samples whose probabilities are in one tenth of the range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReliabilityBin {
    /// Mean of the probabilities.
    pub predicted: f64,
    /// Share of held-out edges.
    pub observed: f64,
    /// Number of samples.
    pub count: u64,
}

/// Probabilities for the scores of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Version of the checkpoint.
    pub version: u64,
    /// Files of the embeddings, by entity type.
    embeddings: BTreeMap<String, Vec<Option<FileSummary>>>,
    /// Edge set that was held out.
    pub edges: String,
    /// Number of its edges.
    pub positives: u64,
    /// Number of random negatives.
    pub negatives: u64,
    /// Number of negatives that were drawn for each edge.
    pub negatives_per_edge: u32,
    /// Probabilities for scores by which left sides are ranked, and for scores of edges.
    pub head: ScoreCurve,
    /// Probabilities for scores by which right sides are ranked.
    pub tail: ScoreCurve,
    /// Reliability of both, each half of the samples with probabilities that were fitted on the other half.
    pub reliability: Vec<ReliabilityBin>,
    /// Mean squared difference between probability and truth, in the same way.
    pub brier: f64,
    /// Mean difference between probability and share over the bins, weighted by their samples.
    pub calibration_error: f64,
}

impl Calibration {
    /// Returns the probability for a score of the side that is open.
    #[must_use]
    pub fn probability(&self, open: Side, score: f32) -> f64 {
        match open {
            Side::Lhs => self.head.probability(score),
            Side::Rhs => self.tail.probability(score),
        }
    }

    /// Reads the calibration in the folder of a checkpoint; `None` if there is none.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn find(folder: &Path) -> Result<Option<Self>, RunError> {
        let path = folder.join(CALIBRATION);
        if !path.exists() {
            return Ok(None);
        }
        let read = sealed_json::read::<Self>(&path, FORMAT);
        let found = read.map_err(|e| error(path.clone(), &e.to_string()))?.body;
        match found.head.is_valid() && found.tail.is_valid() {
            true => Ok(Some(found)),
            false => Err(error(path, "its curves are not ascending")),
        }
    }

    /// Reads the calibration of a model.
    ///
    /// # Errors
    /// When there is none, it is damaged, or the checkpoint has other embeddings now.
    pub fn of(resolved: &ResolvedConfig) -> Result<Self, RunError> {
        let checkpoint = resolved.version()?;
        let found = Self::find(checkpoint.path())?;
        let found =
            found.ok_or_else(|| error(checkpoint.path().join(CALIBRATION), "there is none"))?;
        let types = &resolved.blueprint().layout.types;
        let partitions = types
            .iter()
            .map(|of| (of.name.as_str(), of.rows.len() as u32));
        if found.embeddings != embeddings(&checkpoint, partitions) {
            let what = format!(
                "it belongs to version {}, since which the model was trained",
                found.version
            );
            return Err(error(checkpoint.path().join(CALIBRATION), &what));
        }
        Ok(found)
    }
}

/// Calibrates the scores of a model, and stores the result in the folder of its checkpoint.
///
/// # Errors
/// When the model or an edge set cannot be read, there is too little memory, no edge is left, or the file cannot be
/// written.
pub fn calibrate(
    resolved: &ResolvedConfig,
    options: &CalibrationOptions,
) -> Result<Calibration, RunError> {
    let trained = samples::open(resolved, options)?;
    let samples = Samples::draw(&trained, options, resolved.config().seed)?;
    if samples.positives() == 0 {
        return Err(SettingError::NoEdges {
            edge_set: options.edges.clone(),
            untrained: 0,
        }
        .into());
    }
    let scores = samples.scores(&trained)?;
    let [head, tail] = [&scores[0], &scores[1]].map(|of| ScoreCurve::fit(of.iter()));
    let tested: Vec<(f64, bool)> = scores.iter().flat_map(|of| cross_fitted(of)).collect();
    let reliability = reliability(&tested);
    let total = tested.len().max(1) as f64;
    let squares = tested
        .iter()
        .map(|&(p, truth)| (p - f64::from(u8::from(truth))).powi(2));
    let differences = reliability
        .iter()
        .map(|bin| (bin.predicted - bin.observed).abs() * bin.count as f64);
    let layout = &trained.blueprint.layout;
    let partitions = layout
        .types
        .iter()
        .map(|of| (of.name.as_str(), of.rows.len() as u32));
    let calibration = Calibration {
        version: trained.checkpoint.version(),
        embeddings: embeddings(&trained.checkpoint, partitions),
        edges: options.edges.clone(),
        positives: samples.positives(),
        negatives: samples.len() - samples.positives(),
        negatives_per_edge: options.negatives,
        head,
        tail,
        brier: squares.sum::<f64>() / total,
        calibration_error: differences.sum::<f64>() / total,
        reliability,
    };
    store(&trained, &calibration)?;
    Ok(calibration)
}

fn store(trained: &TrainedModel<'_>, calibration: &Calibration) -> Result<(), RunError> {
    let path = trained.checkpoint.path().join(CALIBRATION);
    let bytes = sealed_json::seal(FORMAT, calibration);
    let bytes = bytes.map_err(|e| error(path.clone(), &e.to_string()))?;
    pbg_files::replace(&path, &bytes).map_err(|e| error(path, &e.to_string()))
}

fn error(path: PathBuf, what: &str) -> RunError {
    RunError::Calibration {
        path,
        what: what.to_owned(),
    }
}

/// Returns the summaries of the files with embeddings.
fn embeddings<'t>(
    checkpoint: &ReadCheckpoint,
    types: impl Iterator<Item = (&'t str, u32)>,
) -> BTreeMap<String, Vec<Option<FileSummary>>> {
    let of_type = |(name, partitions): (&str, u32)| {
        let summaries = (0..partitions).map(|p| checkpoint.partition_summary(name, p));
        (name.to_owned(), summaries.collect())
    };
    types.map(of_type).collect()
}

/// Returns the probability of each sample by the curve of the half that it does not belong to, and the truth.
fn cross_fitted(scores: &[LabelledScore]) -> Vec<(f64, bool)> {
    let half = |even: bool| {
        scores
            .iter()
            .filter(move |of| of.edge.is_multiple_of(2) == even)
    };
    let curves = [ScoreCurve::fit(half(false)), ScoreCurve::fit(half(true))];
    let of = |sample: &LabelledScore| {
        let other = &curves[usize::from(!sample.edge.is_multiple_of(2))];
        (other.probability(sample.score), sample.is_edge)
    };
    scores.iter().map(of).collect()
}

/// Sorts samples into bins of probability; empty bins are omitted.
fn reliability(tested: &[(f64, bool)]) -> Vec<ReliabilityBin> {
    let mut bins = [(0.0, 0_u64, 0_u64); BINS];
    for &(probability, is_edge) in tested {
        let bin = &mut bins[((probability * BINS as f64) as usize).min(BINS - 1)];
        bin.0 += probability;
        bin.1 += u64::from(is_edge);
        bin.2 += 1;
    }
    let filled = bins.into_iter().filter(|&(_, _, count)| count > 0);
    let bin = |(sum, edges, count): (f64, u64, u64)| ReliabilityBin {
        predicted: sum / count as f64,
        observed: edges as f64 / count as f64,
        count,
    };
    filled.map(bin).collect()
}
