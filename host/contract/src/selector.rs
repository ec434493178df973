//! Checks of a negative selector.

use std::time::Duration;

use pbg_core::graph::Side;
use pbg_core::schedule::PassId;
use pbg_core::seed::{StreamPurpose, stream};
use pbg_core::strategy::{
    CandidateScores, NegativeChunk, NegativeSelection, NegativeSelector, SelectionRequirements,
    SelectionWorker, StrategyError, check_selection,
};
use pbg_core::weighted_draws::draw_by_weights;
use rand::RngExt as _;

use crate::chi_square::{chi_square, chi_square_limit};
use crate::finding::ContractReport;
use crate::negatives::side_name;
use crate::timing::{Timing, time};

/// Instance of a selector under test, or the reason why it could not be created.
pub type SelectorInstance = Result<Box<dyn NegativeSelector>, String>;

/// Selections of each chunk whose first draws are counted.
const DRAWS: u64 = 20_000;

/// Largest number of candidates whose draws are counted.
const MOST_CANDIDATES: usize = 400;

/// Simulated chunk: edges, negatives, and entities of the partition.
#[derive(Clone, Copy)]
struct ChunkShape {
    edges: usize,
    negatives: u32,
    entities: u32,
}

impl ChunkShape {
    /// Creates a chunk, whose numbers follow from `seed`.
    fn chunk(self, side: Side, seed: u64, required: SelectionRequirements) -> NegativeChunk {
        let Self {
            edges,
            negatives,
            entities,
        } = self;
        let mut rng = stream(seed, StreamPurpose::Selection, &[]);
        let mut drawn = |count: usize| -> Vec<u32> {
            (0..count).map(|_| rng.random_range(0..entities)).collect()
        };
        let [kept, replaced] = [drawn(edges), drawn(edges)];
        let candidates = drawn(required.pool(negatives as usize));
        let mut score = || rng.random_range(-4.0_f32..4.0);
        let means: Vec<f32> = candidates.iter().map(|_| score()).collect();
        let scores = CandidateScores {
            positives: (0..edges).map(|_| score() + 3.0).collect(),
            highest: means.iter().map(|mean| mean + score().abs()).collect(),
            means,
        };
        NegativeChunk {
            side,
            entity_type: "entity".to_owned(),
            partition: 1,
            entities,
            kept_partition: 0,
            relations: (0..edges as u32).map(|edge| edge % 3).collect(),
            kept,
            replaced,
            candidates,
            scores: required.scores.then_some(scores),
            negatives,
            pass: PassId::default(),
            seed,
        }
    }
}

/// Returns chunks with few and many edges, negatives and entities.
fn cases(required: SelectionRequirements) -> Vec<NegativeChunk> {
    let mut cases = Vec::new();
    for (edges, negatives, entities) in [
        (1, 1, 1),
        (1, 20, 2),
        (50, 50, 40),
        (50, 50, 10_000),
        (3, 1000, 500),
    ] {
        let shape = ChunkShape {
            edges,
            negatives,
            entities,
        };
        for side in Side::BOTH {
            let seed = cases.len() as u64;
            cases.push(shape.chunk(side, seed, required));
        }
    }
    cases
}

/// Checks a negative selector on small and large chunks.
pub fn check_selector(create: impl Fn() -> SelectorInstance) -> ContractReport {
    let mut report = ContractReport::default();
    let Some(selector) = report.unless_broken("selects", create()) else {
        return report;
    };
    let required = selector.required();
    report.add_note("requires", describe(required));
    let cases = cases(required);
    let mut worker = selector.worker();
    let asked = cases.iter().map(|chunk| ask(worker.as_mut(), chunk));
    let asked: Result<Vec<_>, String> = asked.collect();
    let Some(answers) = report.unless_broken("selects", asked) else {
        return report;
    };
    let by_weights = answers
        .iter()
        .any(|answer| matches!(answer, NegativeSelection::Weights(_)));
    let kind = if by_weights { "weights" } else { "entities" };
    let count = cases.len();
    report.add_promise(
        "selects",
        Ok(format!("{count} valid selections, by {kind}")),
    );
    report.add_promise(
        "deterministic",
        again(&create, worker.as_mut(), &cases, &answers),
    );
    if by_weights {
        report.add_promise("frequencies", frequencies(&cases, &answers));
    }
    report.add_note("choice", choice(&cases, &answers));
    report
}

fn describe(required: SelectionRequirements) -> String {
    let scores = if required.scores {
        ", scored by the current model"
    } else {
        ""
    };
    format!(
        "{} candidates per negative{scores}",
        required.candidates_per_negative
    )
}

fn counted(number: usize, [one, more]: [&str; 2]) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn shown(chunk: &NegativeChunk) -> String {
    format!(
        "a chunk of {}, whose {} side is replaced by {} of {}",
        counted(chunk.replaced.len(), ["edge", "edges"]),
        side_name(chunk.side),
        counted(chunk.negatives as usize, ["negative", "negatives"]),
        counted(chunk.entities as usize, ["entity", "entities"])
    )
}

fn ask(
    worker: &mut dyn SelectionWorker,
    chunk: &NegativeChunk,
) -> Result<NegativeSelection, String> {
    let selection = worker.select(chunk);
    let selection = selection
        .map_err(|fault| format!("{}: {}: {}", shown(chunk), fault.function, fault.reason))?;
    check_selection(&selection, chunk).map_err(|broken| format!("{}: {broken}", shown(chunk)))?;
    Ok(selection)
}

/// Checks that the same chunk has the same selection, whatever was asked before.
fn again(
    create: &impl Fn() -> SelectorInstance,
    worker: &mut dyn SelectionWorker,
    cases: &[NegativeChunk],
    answers: &[NegativeSelection],
) -> Result<String, String> {
    for (chunk, before) in cases.iter().zip(answers).rev() {
        let mut fresh = create()?.worker();
        for (which, answer) in [
            ("asked again", ask(worker, chunk)?),
            ("asked of another instance", ask(fresh.as_mut(), chunk)?),
        ] {
            if answer != *before {
                return Err(format!(
                    "{}: the selection differs when {which}; it may depend on the arguments and the configuration alone",
                    shown(chunk)
                ));
            }
        }
    }
    Ok(format!("the same selections again, {} times", cases.len()))
}

/// Compares how often the host draws each candidate first with its weight, by Pearson's chi-square. The limit is exceeded
/// by chance once in 10 million tests.
fn frequencies(cases: &[NegativeChunk], answers: &[NegativeSelection]) -> Result<String, String> {
    let (mut closest, mut tested) = (f64::INFINITY, 0);
    for (chunk, answer) in cases.iter().zip(answers) {
        let NegativeSelection::Weights(weights) = answer else {
            continue;
        };
        // More draws of more candidates would take long and test the same.
        let drawn = weights.iter().filter(|&&weight| weight > 0.0).count();
        if drawn < 2 || weights.len() > MOST_CANDIDATES {
            continue;
        }
        let indices: Vec<u32> = (0..weights.len() as u32).collect();
        let (mut drawn, mut first) = (vec![0_u64; weights.len()], Vec::new());
        for number in 0..DRAWS {
            let mut rng = stream(number, StreamPurpose::Selection, &[chunk.seed]);
            first.clear();
            draw_by_weights(&indices, weights, 1, &mut rng, &mut first);
            for &index in &first {
                drawn[index as usize] += 1;
            }
        }
        let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        let probabilities: Vec<f64> = weights
            .iter()
            .map(|&weight| f64::from(weight) / sum)
            .collect();
        let Some((chi, degrees)) = chi_square(&drawn, &probabilities)? else {
            continue;
        };
        let limit = chi_square_limit(degrees);
        if chi > limit {
            return Err(format!(
                "{}: {DRAWS} first draws differ from the weights: chi-square {chi:.1} of {degrees} degrees of freedom, \
                 above {limit:.1}",
                shown(chunk)
            ));
        }
        closest = closest.min(limit - chi);
        tested += 1;
    }
    if tested == 0 {
        return Ok(format!(
            "no selection among at most {MOST_CANDIDATES} candidates leaves a choice whose frequencies can be compared"
        ));
    }
    Ok(format!(
        "{DRAWS} first draws from each of {tested} chunks follow the weights: chi-square at least {closest:.1} below its \
         limit,\nwhich a correct draw exceeds once in 10 million tests"
    ))
}

/// Describes how the selections differ from uniform draws: how many entities are different, how many are right answers of
/// the chunk, and how they score.
fn choice(cases: &[NegativeChunk], answers: &[NegativeSelection]) -> String {
    let Some((chunk, answer)) = cases
        .iter()
        .zip(answers)
        .find(|(chunk, _)| chunk.entities >= 10_000)
    else {
        return "no chunk".to_owned();
    };
    let mut selected = Vec::new();
    match answer {
        NegativeSelection::Entities(entities) => selected.extend(entities),
        NegativeSelection::Weights(weights) => {
            let mut rng = stream(chunk.seed, StreamPurpose::Selection, &[1]);
            let count = chunk.negatives as usize;
            draw_by_weights(&chunk.candidates, weights, count, &mut rng, &mut selected);
        }
    }
    let right = |entities: &[u32]| {
        let is_right = |entity: &&u32| chunk.replaced.contains(entity);
        entities.iter().filter(is_right).count()
    };
    let different = |entities: &[u32]| {
        let all: std::collections::BTreeSet<u32> = entities.iter().copied().collect();
        all.len()
    };
    let uniform = &chunk.candidates[..chunk.negatives as usize];
    let mut text = format!(
        "{} negatives of 10,000 entities: {} different ({} if uniform), {} right answers of the chunk ({} if uniform)",
        selected.len(),
        different(&selected),
        different(uniform),
        right(&selected),
        right(uniform)
    );
    if let Some(scores) = &chunk.scores {
        let scored = selected.iter().filter_map(|entity| {
            let index = chunk
                .candidates
                .iter()
                .position(|candidate| candidate == entity)?;
            Some(f64::from(scores.means[index]))
        });
        let (sum, count) = scored.fold((0.0, 0), |(sum, count), score| (sum + score, count + 1));
        if count > 0 {
            let uniform = scores
                .means
                .iter()
                .map(|&mean| f64::from(mean))
                .sum::<f64>();
            text += &format!(
                ",\nmean score {:.2} ({:.2} if uniform)",
                sum / f64::from(count),
                uniform / scores.means.len() as f64
            );
        }
    }
    text
}

/// Times one call of `select` for a chunk of `edges` edges.
///
/// # Errors
/// The first error of the selector.
pub fn bench_selector(
    selector: &dyn NegativeSelector,
    edges: usize,
    negatives: u32,
    budget: Duration,
) -> Result<Timing, StrategyError> {
    let shape = ChunkShape {
        edges,
        negatives,
        entities: 100_000,
    };
    let chunks: Vec<_> = (0..8)
        .map(|seed| shape.chunk(Side::Rhs, seed, selector.required()))
        .collect();
    let (mut worker, mut next) = (selector.worker(), 0);
    time(budget, || {
        let chunk = &chunks[next % chunks.len()];
        next += 1;
        worker.select(chunk).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::FindingOutcome;
    use pbg_core::strategy::StrategyId;

    /// Ways of selecting.
    #[derive(Clone, Copy)]
    enum Way {
        First,
        ByScore,
        Moody,
        TooFew,
    }

    struct Fixed {
        id: StrategyId,
        way: Way,
        calls: Arc<AtomicU32>,
    }

    struct FixedWorker(Way, Arc<AtomicU32>);

    impl NegativeSelector for Fixed {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn required(&self) -> SelectionRequirements {
            SelectionRequirements {
                candidates_per_negative: 2,
                scores: true,
            }
        }

        fn worker(&self) -> Box<dyn SelectionWorker> {
            Box::new(FixedWorker(self.way, Arc::clone(&self.calls)))
        }
    }

    impl SelectionWorker for FixedWorker {
        fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection, StrategyError> {
            let first = &chunk.candidates[..chunk.negatives as usize];
            let calls = self.1.fetch_add(1, Ordering::Relaxed);
            Ok(match self.0 {
                Way::First => NegativeSelection::Entities(first.to_vec()),
                Way::TooFew => NegativeSelection::Entities(first[1..].to_vec()),
                Way::Moody => {
                    NegativeSelection::Weights(vec![1.0 + calls as f32; chunk.candidates.len()])
                }
                Way::ByScore => {
                    let means = &chunk.scores.as_ref().expect("scores are required").means;
                    NegativeSelection::Weights(means.iter().map(|mean| mean.exp()).collect())
                }
            })
        }
    }

    fn checked(way: Way) -> ContractReport {
        let calls = Arc::default();
        check_selector(|| {
            Ok(Box::new(Fixed {
                id: StrategyId {
                    name: "fixed".to_owned(),
                    version: "1".to_owned(),
                    sha256: String::new(),
                },
                way,
                calls: Arc::clone(&calls),
            }))
        })
    }

    fn outcome(report: &ContractReport, promise: &str) -> Option<FindingOutcome> {
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| finding.promise == promise);
        found.map(|finding| finding.outcome)
    }

    #[test]
    fn weights_are_drawn_as_they_say() {
        let report = checked(Way::ByScore);
        assert_eq!(report.broken(), 0, "{report:?}");
        assert_eq!(outcome(&report, "frequencies"), Some(FindingOutcome::Kept));
        let report = checked(Way::First);
        assert_eq!(report.broken(), 0, "{report:?}");
        assert_eq!(outcome(&report, "frequencies"), None);
    }

    #[test]
    fn broken_promises_are_found() {
        let report = checked(Way::Moody);
        assert_eq!(
            outcome(&report, "deterministic"),
            Some(FindingOutcome::Broken)
        );
        let report = checked(Way::TooFew);
        assert_eq!(outcome(&report, "selects"), Some(FindingOutcome::Broken));
    }
}
