//! Hard negatives: candidates that the current model scores high.
//!
//! A fraction of the weight is in proportion to the exponential of the scores, divided by a temperature, as in
//! self-adversarial sampling; with temperature 0 it belongs to the candidates with the highest scores. The rest of the weight
//! is the same for all candidates. An entity that an edge of the chunk has on the replaced side is left out, since it is a
//! right answer for that edge.
//!
//! Sources: Sun et al., "RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space" (2019), for the weights;
//! Zhang et al., "NSCaching: Simple and Efficient Negative Sampling for Knowledge Graph Embedding" (2019), for the choice
//! from a pool.

use std::collections::BTreeSet;

use pbg_plugin_sdk::{
    CandidateScores, Metadata, NegativeChunk, NegativeSelection, NegativeSelector, Parameter,
    Parameters, Result, SelectionRequirements, export_negative_selector,
};

/// The selector with its parameters.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct HardNegatives {
    candidates: u32,
    temperature: f64,
    fraction: f64,
    score: String,
}

impl NegativeSelector for HardNegatives {
    fn metadata() -> Metadata {
        Metadata::new(
            "hard_negatives",
            env!("CARGO_PKG_VERSION"),
            "Candidates that the current model scores high, by the exponential of their scores.",
        )
        .parameter(Parameter::integer(
            "candidates",
            4,
            1..=64,
            "Candidates for each negative. More of them give harder negatives, and cost the time of scoring them.",
        ))
        .parameter(Parameter::number(
            "temperature",
            1.0,
            0.0..=1e6,
            "Divisor of the scores. Lower values prefer high scores more; 0, with `fraction = 1`: the highest scores.",
        ))
        .parameter(Parameter::number(
            "fraction",
            0.5,
            0.0..=1.0,
            "Fraction of the weight that follows the scores. The rest is the same for all candidates.",
        ))
        .parameter(Parameter::choice(
            "score",
            &["mean", "highest"],
            "Score of a candidate: the mean over the edges of the chunk, or the highest.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn required(&self) -> SelectionRequirements {
        SelectionRequirements {
            candidates_per_negative: self.candidates,
            scores: true,
        }
    }

    fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection> {
        let scores = chunk.scores.as_ref().ok_or("there are no scores")?;
        let eligible = eligible(chunk);
        if eligible.is_empty() {
            // Every candidate is a right answer for some edge.
            return Ok(NegativeSelection::Weights(vec![
                1.0;
                chunk.candidates.len()
            ]));
        }
        Ok(NegativeSelection::Weights(
            self.weights(chunk, scores, &eligible),
        ))
    }
}

/// Returns the indices of the candidates that may be selected: each entity once, and none that an edge of the chunk has.
fn eligible(chunk: &NegativeChunk) -> Vec<usize> {
    let mut known: BTreeSet<u32> = chunk.replaced.iter().copied().collect();
    let candidates = chunk.candidates.iter().enumerate();
    candidates
        .filter_map(|(index, &entity)| known.insert(entity).then_some(index))
        .collect()
}

impl HardNegatives {
    /// Returns the weight of each candidate; 0 for those that are not `eligible`.
    fn weights(
        &self,
        chunk: &NegativeChunk,
        scores: &CandidateScores,
        eligible: &[usize],
    ) -> Vec<f32> {
        let scores = match self.score.as_str() {
            "highest" => &scores.highest,
            _ => &scores.means,
        };
        let mut weights = vec![0.0; chunk.candidates.len()];
        let followed = match self.temperature {
            0.0 => first(scores, eligible, chunk.negatives as usize),
            _ => exponentials(scores, eligible, self.temperature),
        };
        let sum: f64 = followed.iter().sum();
        let even = (1.0 - self.fraction) / eligible.len() as f64;
        for (&index, weight) in eligible.iter().zip(followed) {
            let mixed = self.fraction * weight / sum + even;
            // A weight that is too small for its type still is a weight.
            weights[index] = (mixed as f32).max(f32::MIN_POSITIVE);
        }
        weights
    }
}

/// Returns the exponential of each eligible candidate's score, relative to the highest score.
fn exponentials(scores: &[f32], eligible: &[usize], temperature: f64) -> Vec<f64> {
    let score = |&index: &usize| f64::from(scores[index]);
    let highest = eligible.iter().map(score).fold(f64::MIN, f64::max);
    let weight = |index| ((score(index) - highest) / temperature).exp();
    eligible.iter().map(weight).collect()
}

/// Returns 1 for the `count` eligible candidates with the highest scores, and 0 for the others.
fn first(scores: &[f32], eligible: &[usize], count: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..eligible.len()).collect();
    order.sort_by(|&a, &b| scores[eligible[b]].total_cmp(&scores[eligible[a]]));
    let mut weights = vec![0.0; eligible.len()];
    order
        .iter()
        .take(count)
        .for_each(|&place| weights[place] = 1.0);
    weights
}

export_negative_selector!(HardNegatives);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    fn selector(temperature: f64, fraction: f64) -> HardNegatives {
        HardNegatives {
            candidates: 4,
            temperature,
            fraction,
            score: "mean".to_owned(),
        }
    }

    fn weights(selector: &mut HardNegatives, chunk: &NegativeChunk) -> Vec<f32> {
        match selector.select(chunk) {
            Ok(NegativeSelection::Weights(weights)) => weights,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keeps_the_contract() {
        testing::assert_negative_selector::<HardNegatives>();
    }

    #[test]
    fn higher_scores_weigh_more_and_right_answers_nothing() {
        let chunk = NegativeChunk {
            replaced: vec![3],
            candidates: vec![1, 2, 3, 2],
            negatives: 1,
            scores: Some(CandidateScores {
                positives: vec![5.0],
                means: vec![0.0, 1.0, 9.0, 1.0],
                highest: vec![0.0; 4],
            }),
            ..NegativeChunk::example(0)
        };
        let found = weights(&mut selector(1.0, 1.0), &chunk);
        assert_eq!([found[2], found[3]], [0.0, 0.0]);
        let ratio = f64::from(found[1]) / f64::from(found[0]);
        assert!((ratio - 1.0_f64.exp()).abs() < 1e-5, "{found:?}");
        let hardest = weights(&mut selector(0.0, 1.0), &chunk);
        assert_eq!(hardest, [f32::MIN_POSITIVE, 1.0, 0.0, 0.0]);
        let even = weights(&mut selector(0.0, 0.0), &chunk);
        assert_eq!(even, [0.5, 0.5, 0.0, 0.0]);
        // Far below the others, a candidate can still be drawn.
        let cold = weights(&mut selector(1e-6, 1.0), &chunk);
        assert_eq!(cold, [f32::MIN_POSITIVE, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn if_all_candidates_are_right_answers_they_are_drawn_alike() {
        let chunk = NegativeChunk {
            replaced: (0..100).collect(),
            ..NegativeChunk::example(0)
        };
        let found = weights(&mut selector(1.0, 1.0), &chunk);
        assert_eq!(found, vec![1.0; chunk.candidates.len()]);
    }
}
