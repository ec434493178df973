//! Frequencies of the host's draws beside the probabilities of a distribution, which are computed from its definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use pbg_core::draw_table::{CandidateMixture, DrawTable};
use pbg_core::seed::{StreamPurpose, stream};
use pbg_core::strategy::{
    CandidateWeights, CountedEdges, DistributionPart, NegativeCandidates, drawn_fraction,
};
use rand::Rng;

use super::{ENTITIES, SimulatedCounts, shown};
use crate::chi_square::{QUANTILE, chi_square, chi_square_limit};

/// Draws from each distribution.
const DRAWS: u32 = 200_000;
/// Negatives per edge and side, of which a distribution may leave out some.
const WANTED: usize = 10;

/// Compares how often the host draws each entity with its probability, by Pearson's chi-square. The limit is exceeded
/// by chance once in 10 million tests.
pub(super) fn frequencies(
    cases: &[(NegativeCandidates, SimulatedCounts)],
    answers: &[Vec<DistributionPart>],
) -> Result<String, String> {
    let (mut closest, mut compared) = (f64::INFINITY, 0);
    let (mut least, mut means) = (WANTED, Vec::new());
    for (number, ((candidates, counts), parts)) in (0..).zip(cases.iter().zip(answers)) {
        let probabilities = probabilities(parts, counts);
        let mut rng = stream(number, StreamPurpose::Negatives, &[]);
        let mixture = mixture(parts, counts);
        let mut drawn = vec![0_u64; ENTITIES as usize];
        for _ in 0..DRAWS {
            drawn[mixture.draw(&mut rng) as usize] += 1;
        }
        if let Some((chi, degrees)) = chi_square(&drawn, &probabilities)? {
            let limit = chi_square_limit(degrees);
            if chi > limit {
                return Err(format!(
                    "{}: {DRAWS} draws differ from the distribution: chi-square {chi:.1} of {degrees} degrees of \
                     freedom, above {limit:.1}",
                    shown(candidates)
                ));
            }
            (closest, compared) = (closest.min(limit - chi), compared + 1);
        }
        let left_out = count_left_out(&mixture, parts, &mut rng);
        let (fewest, mean) =
            left_out.map_err(|problem| format!("{}: {problem}", shown(candidates)))?;
        least = least.min(fewest);
        means.push(mean);
    }
    let left_out = match means.iter().any(|&mean| mean < WANTED as f64) {
        true => {
            let range = range(&means);
            format!(
                "\nof {WANTED} draws for an edge, {range} are made on average, at least {least}"
            )
        }
        false => String::new(),
    };
    let certain = match cases.len() - compared {
        0 => String::new(),
        all if compared == 0 => {
            return Ok(format!(
                "each of {all} distributions draws nearly always one entity, which leaves no frequencies to compare{left_out}"
            ));
        }
        certain => format!("\n{certain} others draw nearly always one entity"),
    };
    Ok(format!(
        "{DRAWS} draws from each of {compared} distributions have its probabilities: chi-square at least {closest:.1} below \
         its limit,\nwhich a correct sampler exceeds once in 10 million tests{certain}{left_out}"
    ))
}

fn range(means: &[f64]) -> String {
    let (least, most) = means
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), &mean| {
            (least.min(mean), most.max(mean))
        });
    match most - least < 0.05 {
        true => format!("{least:.1}"),
        false => format!("{least:.1} to {most:.1}"),
    }
}

/// Compares how many draws are made for an edge with the fraction that the distribution does not leave out. Returns the
/// smallest number and the mean.
fn count_left_out(
    mixture: &CandidateMixture,
    parts: &[DistributionPart],
    rng: &mut impl Rng,
) -> Result<(usize, f64), String> {
    let expected = WANTED as f64 * fraction_of_entities(parts);
    let (mut fewest, mut sum) = (WANTED, 0);
    for _ in 0..DRAWS {
        let drawn = mixture.drawn(WANTED, rng);
        fewest = fewest.min(drawn);
        sum += drawn;
    }
    let mean = sum as f64 / f64::from(DRAWS);
    // A number is rounded up or down, so its standard deviation is at most one half.
    let limit = QUANTILE * 0.5 / f64::from(DRAWS).sqrt();
    match (mean - expected).abs() <= limit {
        true => Ok((fewest, mean)),
        false => Err(format!(
            "{mean} of {WANTED} draws for an edge are made on average, instead of {expected}"
        )),
    }
}

/// Returns the fraction of the draws that have an entity, from the definition.
fn fraction_of_entities(parts: &[DistributionPart]) -> f64 {
    let fraction = |of_nothing: bool| -> f64 {
        let parts = parts
            .iter()
            .filter(|part| (part.weights == CandidateWeights::Nothing) == of_nothing);
        parts.map(|part| part.fraction).sum()
    };
    1.0 - fraction(true) / (fraction(true) + fraction(false))
}

/// Returns the offset of a listed name: the simulated partition has the listed entities, in their order.
fn offsets(parts: &[DistributionPart]) -> BTreeMap<&str, u32> {
    let lists = parts.iter().filter_map(|part| match &part.weights {
        CandidateWeights::Listed { names, .. } => Some(names),
        _ => None,
    });
    let names = lists.flatten().map(String::as_str);
    names.zip(0..ENTITIES).collect()
}

fn mixture(parts: &[DistributionPart], counts: &SimulatedCounts) -> CandidateMixture {
    let (offsets, drawn) = (offsets(parts), drawn_fraction(parts));
    let parts = parts.iter().filter_map(|part| {
        let offset = |name: &str| offsets.get(name).copied();
        let table = DrawTable::of_weights(&part.weights, counts.view(), offset)?;
        Some((part.fraction, Arc::new(table)))
    });
    CandidateMixture::new(parts.collect(), ENTITIES).with_drawn_fraction(drawn)
}

/// Returns the probability of each entity, computed from the definition and not from the host's tables.
fn probabilities(parts: &[DistributionPart], counts: &SimulatedCounts) -> Vec<f64> {
    let offsets = offsets(parts);
    let mut mixed = Vec::new();
    for part in parts {
        let mut weights = vec![0.0; ENTITIES as usize];
        match &part.weights {
            CandidateWeights::Uniform => weights.fill(1.0),
            CandidateWeights::Nothing => {}
            CandidateWeights::Counted { edges, power } => {
                let pairs: Vec<(u32, u32)> = match edges {
                    CountedEdges::OfSide => (0..).zip(counts.of_side.iter().copied()).collect(),
                    CountedEdges::OfRelation => {
                        let seen = counts.seen.iter().copied();
                        seen.zip(counts.edges.iter().copied()).collect()
                    }
                };
                for (entity, edges) in pairs.into_iter().filter(|(_, edges)| *edges > 0) {
                    weights[entity as usize] = f64::from(edges).powf(*power);
                }
            }
            CandidateWeights::Listed {
                names,
                weights: given,
            } => {
                for (at, name) in names.iter().enumerate() {
                    if let Some(&offset) = offsets.get(name.as_str()) {
                        weights[offset as usize] = given.get(at).map_or(1.0, |&w| f64::from(w));
                    }
                }
            }
        }
        let total: f64 = weights.iter().sum();
        if total > 0.0 {
            mixed.push((part.fraction, total, weights));
        }
    }
    if mixed.is_empty() {
        return vec![1.0 / f64::from(ENTITIES); ENTITIES as usize];
    }
    let fractions: f64 = mixed.iter().map(|(fraction, ..)| fraction).sum();
    let entity = |entity: usize| {
        let parts = mixed.iter();
        let parts =
            parts.map(|(fraction, total, weights)| fraction / fractions * weights[entity] / total);
        parts.sum()
    };
    (0..ENTITIES as usize).map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mixture that leaves out a little more than its distribution says is found, and one that does as it says is not.
    #[test]
    fn other_numbers_of_draws_are_found() {
        let part = |fraction, weights| DistributionPart { fraction, weights };
        let parts = [
            part(1.0, CandidateWeights::Uniform),
            part(3.0, CandidateWeights::Nothing),
        ];
        let mixture = mixture(&parts, &SimulatedCounts::new(false));
        let count = |mixture: &CandidateMixture| {
            let mut rng = stream(1, StreamPurpose::Negatives, &[]);
            count_left_out(mixture, &parts, &mut rng)
        };
        assert_eq!(count(&mixture).map(|(fewest, _)| fewest), Ok(2));
        let other = mixture.with_drawn_fraction(0.248);
        let problem = count(&other).unwrap_err();
        assert!(problem.contains("instead of 2.5"), "{problem}");
    }
}
