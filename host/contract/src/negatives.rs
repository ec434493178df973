//! Checks of a negative sampler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pbg_core::draw_table::{CandidateMixture, CountedEntities, DrawTable};
use pbg_core::graph::Side;
use pbg_core::schedule::PassId;
use pbg_core::seed::{StreamPurpose, stream};
use pbg_core::strategy::{
    CandidateWeights, CountedEdges, DistributionPart, NegativeCandidates, NegativeSampler,
    RequiredData, StrategyError, check_distribution, drawn_fraction,
};

use rand::Rng;

use crate::finding::ContractReport;
use crate::timing::{Timing, time};

/// Instance of a sampler under test, or the reason why it could not be created.
pub type NegativesInstance = Result<Box<dyn NegativeSampler>, String>;

/// Number of entities of the simulated partition.
const ENTITIES: u32 = 60;
/// Draws from each distribution.
const DRAWS: u32 = 200_000;
/// Negatives per edge and side, of which a distribution may leave out some.
const WANTED: usize = 10;
/// Standard normal quantile of the error probability of one test, 1 in 10 million.
const QUANTILE: f64 = 5.2;

/// Simulated partition: edges of each entity on a side, and with a relation.
struct SimulatedCounts {
    of_side: Vec<u32>,
    seen: Vec<u32>,
    edges: Vec<u32>,
}

impl SimulatedCounts {
    /// Creates a partition in which every third entity is seen with the relation; `few`: only one is.
    fn new(few: bool) -> Self {
        let of_side = (0..ENTITIES).map(|entity| entity * entity % 37);
        let seen = (0..ENTITIES).filter(|entity| entity % 3 == 1);
        let seen: Vec<u32> = seen.take(if few { 1 } else { usize::MAX }).collect();
        Self {
            of_side: of_side.collect(),
            edges: seen.iter().map(|entity| 1 + entity % 11).collect(),
            seen,
        }
    }

    fn view(&self) -> CountedEntities<'_> {
        CountedEntities {
            entities: ENTITIES,
            of_side: &self.of_side,
            seen: &self.seen,
            edges: &self.edges,
        }
    }
}

/// Returns candidates of several relations, sides, partitions and passes, with the counts that they belong to.
fn cases(required: RequiredData) -> Vec<(NegativeCandidates, SimulatedCounts)> {
    let mut cases = Vec::new();
    for (relation, few) in [(0, false), (3, true)] {
        for side in Side::BOTH {
            for epoch in [0, 5] {
                let counts = SimulatedCounts::new(few);
                let edges = counts.edges.iter().map(|&n| u64::from(n)).sum();
                let (edges, seen) = match required.relation_counts {
                    true => (edges, counts.seen.len() as u32),
                    false => (0, 0),
                };
                let [replaced_entities, kept_entities] = match (required.relation_entities, side) {
                    (true, Side::Lhs) => [ENTITIES / 3, ENTITIES],
                    (true, Side::Rhs) => [ENTITIES, ENTITIES / 3],
                    (false, _) => [0, 0],
                }
                .map(u64::from);
                let candidates = NegativeCandidates {
                    relation,
                    relation_name: format!("relation {relation}"),
                    side,
                    entity_type: "entity".to_owned(),
                    partition: relation,
                    entities: ENTITIES,
                    edges,
                    seen,
                    replaced_entities,
                    kept_entities,
                    pass: PassId {
                        epoch,
                        edge_set: 0,
                        edge_chunk: 0,
                    },
                };
                cases.push((candidates, counts));
            }
        }
    }
    cases
}

/// Checks a negative sampler on relations with few and many candidates.
pub fn check_negatives(create: impl Fn() -> NegativesInstance) -> ContractReport {
    let mut report = ContractReport::default();
    let Some(mut sampler) = report.unless_broken("distributes", create()) else {
        return report;
    };
    let required = sampler.required();
    report.add_note("requires", describe(required));
    if required.is_nothing() {
        report.add_promise(
            "distributes",
            Ok("uniform negatives: it requires nothing, so a run does not ask it".to_owned()),
        );
        return report;
    }
    let cases = cases(required);
    let asked = cases
        .iter()
        .map(|(candidates, _)| ask(sampler.as_mut(), candidates));
    let asked: Result<Vec<_>, String> = asked.collect();
    let Some(answers) = report.unless_broken("distributes", asked) else {
        return report;
    };
    let count = cases.len();
    report.add_promise("distributes", Ok(format!("{count} valid distributions")));
    report.add_promise(
        "deterministic",
        again(&create, sampler.as_mut(), &cases, &answers),
    );
    report.add_promise("frequencies", frequencies(&cases, &answers));
    report
}

fn describe(required: RequiredData) -> String {
    let kinds = [
        (required.side_counts, "edges of each entity"),
        (
            required.relation_counts,
            "edges of each entity with each relation",
        ),
        (required.names, "names of entities"),
        (
            required.relation_entities,
            "number of entities on each side of each relation",
        ),
    ];
    let kinds = kinds.iter().filter(|(wanted, _)| *wanted);
    let kinds: Vec<&str> = kinds.map(|(_, kind)| *kind).collect();
    match kinds.is_empty() {
        true => "nothing".to_owned(),
        false => kinds.join(", "),
    }
}

fn ask(
    sampler: &mut dyn NegativeSampler,
    candidates: &NegativeCandidates,
) -> Result<Vec<DistributionPart>, String> {
    let parts = sampler.distribution(candidates);
    let shown = || shown(candidates);
    let parts =
        parts.map_err(|fault| format!("{}: {}: {}", shown(), fault.function, fault.reason))?;
    check_distribution(&parts, sampler.required())
        .map_err(|broken| format!("{}: {broken}", shown()))?;
    Ok(parts)
}

/// Describes candidates, for a message.
fn shown(candidates: &NegativeCandidates) -> String {
    let side = side_name(candidates.side);
    format!(
        "{}, whose {side} side is replaced",
        candidates.relation_name
    )
}

/// Returns the name of a side, for a message.
pub(crate) fn side_name(side: Side) -> &'static str {
    match side {
        Side::Lhs => "left",
        Side::Rhs => "right",
    }
}

/// Checks that the same candidates have the same distribution, whatever was asked before.
fn again(
    create: &impl Fn() -> NegativesInstance,
    sampler: &mut dyn NegativeSampler,
    cases: &[(NegativeCandidates, SimulatedCounts)],
    answers: &[Vec<DistributionPart>],
) -> Result<String, String> {
    for ((candidates, _), before) in cases.iter().zip(answers).rev() {
        let mut fresh = create()?;
        for (which, answer) in [
            ("asked again", ask(sampler, candidates)?),
            (
                "asked of another instance",
                ask(fresh.as_mut(), candidates)?,
            ),
        ] {
            if answer != *before {
                return Err(format!(
                    "{}: the distribution differs when {which}; it may depend on the arguments and the configuration \
                     alone",
                    shown(candidates)
                ));
            }
        }
    }
    Ok(format!(
        "the same distributions again, {} times",
        cases.len()
    ))
}

/// Compares how often the host draws each entity with its probability, by Pearson's chi-square. The limit is exceeded
/// by chance once in 10 million tests.
fn frequencies(
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

/// Returns Pearson's chi-square and its degrees of freedom; `None` if there is only one class, which leaves nothing to
/// compare. Entities that are expected less than five times are pooled.
///
/// # Errors
/// Names an entity that was drawn although its probability is 0.
pub(crate) fn chi_square(
    drawn: &[u64],
    probabilities: &[f64],
) -> Result<Option<(f64, u32)>, String> {
    let draws: u64 = drawn.iter().sum();
    let (mut chi, mut cells) = (0.0, 0);
    let (mut rare, mut rarely) = (0.0, 0);
    let mut add = |seen: u64, expected: f64| {
        chi += (seen as f64 - expected).powi(2) / expected;
        cells += 1;
    };
    for (entity, (&seen, &probability)) in drawn.iter().zip(probabilities).enumerate() {
        let expected = probability * draws as f64;
        if probability == 0.0 && seen > 0 {
            return Err(format!(
                "entity {entity} has probability 0, but was drawn {seen} times"
            ));
        }
        if expected >= 5.0 {
            add(seen, expected);
        } else {
            rare += expected;
            rarely += seen;
        }
    }
    if rare >= 5.0 {
        add(rarely, rare);
    }
    Ok(match cells {
        0 | 1 => None,
        cells => Some((chi, cells - 1)),
    })
}

/// Returns the value that chi-square exceeds with the error probability of [`QUANTILE`] (Wilson, Hilferty 1931).
pub(crate) fn chi_square_limit(degrees: u32) -> f64 {
    let degrees = f64::from(degrees);
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + QUANTILE * spread.sqrt()).powi(3)
}

/// Times one call of `distribution`.
///
/// # Errors
/// The first error of the sampler.
pub fn bench_negatives(
    sampler: &mut dyn NegativeSampler,
    budget: Duration,
) -> Result<Timing, StrategyError> {
    let cases = cases(sampler.required());
    let mut next = 0;
    time(budget, || {
        let (candidates, _) = &cases[next % cases.len()];
        next += 1;
        sampler.distribution(candidates).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingOutcome;
    use pbg_core::strategy::StrategyId;

    /// Sampler with fixed answers; `moody`: the fraction changes from call to call.
    struct Fixed {
        id: StrategyId,
        required: RequiredData,
        parts: Vec<DistributionPart>,
        moody: bool,
    }

    impl NegativeSampler for Fixed {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn required(&self) -> RequiredData {
            self.required
        }

        fn distribution(
            &mut self,
            _: &NegativeCandidates,
        ) -> Result<Vec<DistributionPart>, StrategyError> {
            if self.moody {
                self.parts[0].fraction += 1.0;
            }
            Ok(self.parts.clone())
        }
    }

    fn checked(parts: &[(f64, CandidateWeights)], moody: bool) -> ContractReport {
        let parts = parts.iter().cloned();
        let parts: Vec<_> = parts
            .map(|(fraction, weights)| DistributionPart { fraction, weights })
            .collect();
        check_negatives(|| {
            Ok(Box::new(Fixed {
                id: StrategyId {
                    name: "fixed".to_owned(),
                    version: "1".to_owned(),
                    sha256: String::new(),
                },
                required: RequiredData {
                    side_counts: true,
                    relation_counts: true,
                    names: true,
                    relation_entities: true,
                },
                parts: parts.clone(),
                moody,
            }))
        })
    }

    fn outcome(report: &ContractReport, promise: &str) -> FindingOutcome {
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| finding.promise == promise);
        found.unwrap_or_else(|| panic!("{report:?}")).outcome
    }

    #[test]
    fn every_kind_of_weights_is_drawn_as_it_says() {
        let counted = |edges, power| CandidateWeights::Counted { edges, power };
        let report = checked(
            &[
                (1.0, CandidateWeights::Uniform),
                (3.0, counted(CountedEdges::OfSide, 0.75)),
                (2.0, counted(CountedEdges::OfRelation, 2.0)),
                (
                    0.5,
                    CandidateWeights::Listed {
                        names: vec!["a".to_owned(), "b".to_owned()],
                        weights: vec![1.0, 9.0],
                    },
                ),
            ],
            false,
        );
        assert_eq!(report.broken(), 0, "{report:?}");
        assert_eq!(outcome(&report, "frequencies"), FindingOutcome::Kept);
    }

    #[test]
    fn an_answer_that_changes_is_found() {
        let parts = [
            (1.0, CandidateWeights::Uniform),
            (
                1.0,
                CandidateWeights::Counted {
                    edges: CountedEdges::OfSide,
                    power: 1.0,
                },
            ),
        ];
        let report = checked(&parts, true);
        assert_eq!(outcome(&report, "deterministic"), FindingOutcome::Broken);
        let report = checked(&[(f64::NAN, CandidateWeights::Uniform)], false);
        assert_eq!(outcome(&report, "distributes"), FindingOutcome::Broken);
    }

    #[test]
    fn other_frequencies_are_found() {
        let probabilities = vec![0.25; 4];
        let drawn = |first: u64| {
            let rest = (u64::from(DRAWS) - first) / 3;
            [first, rest, rest, rest]
        };
        let compared = |first| chi_square(&drawn(first), &probabilities).unwrap().unwrap();
        let (chi, degrees) = compared(50_000);
        assert!(chi < chi_square_limit(degrees), "{chi}");
        let (chi, degrees) = compared(52_000);
        assert!(chi > chi_square_limit(degrees), "{chi}");
        assert!(chi_square(&[1, 2], &[1.0, 0.0]).is_err());
        // Four draws of the second are expected, and none happened.
        let rare = [1.0 - 4.0 / f64::from(DRAWS), 4.0 / f64::from(DRAWS)];
        assert_eq!(chi_square(&[DRAWS.into(), 0], &rare), Ok(None));
    }

    fn detail(parts: &[(f64, CandidateWeights)], promise: &str) -> String {
        let report = checked(parts, false);
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| finding.promise == promise);
        found.unwrap_or_else(|| panic!("{report:?}")).detail.clone()
    }

    #[test]
    fn a_distribution_of_one_entity_has_no_frequencies() {
        let one = CandidateWeights::Listed {
            names: vec!["a".to_owned()],
            weights: vec![1.0],
        };
        let text = detail(&[(1.0, one)], "frequencies");
        assert!(text.contains("no frequencies to compare"), "{text}");
        assert!(!text.contains("chi-square"), "{text}");
    }

    #[test]
    fn sides_have_names() {
        let text = detail(&[(f64::NAN, CandidateWeights::Uniform)], "distributes");
        let expected = "relation 0, whose left side is replaced: ";
        assert!(text.starts_with(expected), "{text}");
    }

    /// The approximation is close for many degrees of freedom and too large for few.
    #[test]
    fn the_limit_is_near_the_quantile() {
        // Quantiles of the chi-square distribution at 1 - 1e-7.
        for (degrees, quantile, tolerance) in
            [(1, 28.37, 0.2), (20, 71.59, 0.02), (59, 133.72, 0.01)]
        {
            let ratio = chi_square_limit(degrees) / quantile;
            assert!(
                (1.0..1.0 + tolerance).contains(&ratio),
                "{degrees}: {ratio}"
            );
        }
    }
}
