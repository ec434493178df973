//! Checks of a negative sampler.

mod frequencies;

use std::time::Duration;

use pbg_core::draw_table::CountedEntities;
use pbg_core::graph::Side;
use pbg_core::schedule::PassId;
use pbg_core::strategy::{
    DistributionPart, NegativeCandidates, NegativeSampler, RequiredData, StrategyError,
    check_distribution,
};

use self::frequencies::frequencies;
use crate::finding::ContractReport;
use crate::timing::{Timing, time};

/// Instance of a sampler under test, or the reason why it could not be created.
pub type NegativesInstance = Result<Box<dyn NegativeSampler>, String>;

/// Number of entities of the simulated partition.
const ENTITIES: u32 = 60;

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
    use pbg_core::strategy::{CandidateWeights, CountedEdges, StrategyId};

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
                (1.5, CandidateWeights::Nothing),
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
}
