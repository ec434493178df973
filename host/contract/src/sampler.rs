//! Checks of a relation sampler.

use std::time::Duration;

use pbg_core::draws::UndrawnEdges;
use pbg_core::strategy::{RelationDraw, SamplerFactory, StrategyError};

use crate::finding::ContractReport;
use crate::timing::{Timing, time};

/// Share of edges from which a sampler draws batches.
struct EdgeShare {
    /// Number of edges of each relation.
    counts: Vec<u64>,
    batch_size: u32,
}

/// Returns shares with no relations, and with empty, single, many, uneven and large ones.
fn shares() -> Vec<EdgeShare> {
    let uneven: Vec<u64> = (0..50).map(|r| (r * r * 37) % 1000).collect();
    let counts = [
        vec![],
        vec![0, 0, 0],
        vec![1],
        vec![0, 7, 0],
        vec![5000],
        vec![10, 1, 0, 1000, 3],
        vec![20; 40],
        uneven,
    ];
    let sizes = [1, 7, 1000];
    let mut shares: Vec<EdgeShare> = Vec::new();
    for counts in counts {
        let edges: u64 = counts.iter().sum();
        // With batches of one edge, a share takes as many calls as it has edges.
        let fitting = sizes
            .iter()
            .filter(|&&size| edges / u64::from(size) <= 5000);
        shares.extend(fitting.map(|&size| EdgeShare {
            counts: counts.clone(),
            batch_size: size,
        }));
    }
    shares
}

/// Checks a sampler on shares of many shapes.
pub fn check_sampler(sampler: &dyn SamplerFactory) -> ContractReport {
    let mut report = ContractReport::default();
    let shares = shares();
    let start = pbg_clock::now();
    let drawn = shares.iter();
    let drawn = drawn.map(|share| drain(sampler, share, 1, &mut |_| 0.5));
    let drawn: Result<Vec<Vec<RelationDraw>>, String> = drawn.collect();
    let Some(drawn) = report.unless_broken("drains", drawn) else {
        return report;
    };
    let draws: usize = drawn.iter().map(Vec::len).sum();
    let each = start.elapsed().as_secs_f64() * 1e6 / draws.max(1) as f64;
    let count = shares.len();
    let tried = format!("every edge of {count} shares exactly once, in {draws} draws");
    report.add_promise("drains", Ok(tried));
    report.add_promise("deterministic", again(sampler, &shares, &drawn));
    report.add_promise("observes", observes(sampler));
    report.add_note("seed", seeds(sampler));
    report.add_note("frequencies", frequencies(sampler));
    report.add_note(
        "time",
        format_args!("{each:.1} us for a draw and its observation, mean"),
    );
    report
}

/// Draws a share to its end, checking each draw against the remaining edges.
fn drain(
    sampler: &dyn SamplerFactory,
    EdgeShare { counts, batch_size }: &EdgeShare,
    seed: u64,
    loss: &mut dyn FnMut(u32) -> f32,
) -> Result<Vec<RelationDraw>, String> {
    let relations = counts.len();
    let shown = format!("{relations} relations, batches of {batch_size}, seed {seed}");
    let failed = |fault: StrategyError| format!("{shown}: {}: {}", fault.function, fault.reason);
    let mut walk = sampler.create(counts, *batch_size, seed).map_err(failed)?;
    let mut ledger = UndrawnEdges::new(counts, *batch_size);
    let mut draws = Vec::new();
    loop {
        let draw = walk.next().map_err(failed)?;
        ledger
            .take(draw)
            .map_err(|broken| format!("{shown}: {broken}"))?;
        let Some(draw) = draw else {
            return Ok(draws);
        };
        walk.observe(draw.relation, loss(draw.relation))
            .map_err(failed)?;
        draws.push(draw);
    }
}

fn again(
    sampler: &dyn SamplerFactory,
    shares: &[EdgeShare],
    drawn: &[Vec<RelationDraw>],
) -> Result<String, String> {
    for (share, before) in shares.iter().zip(drawn).rev() {
        if drain(sampler, share, 1, &mut |_| 0.5)? != *before {
            return Err(format!(
                "{} relations, batches of {}: the same share was drawn differently the second \
                 time; draws may depend on counts, batch size, seed and losses alone",
                share.counts.len(),
                share.batch_size
            ));
        }
    }
    Ok(format!("the same draws again for {} shares", shares.len()))
}

/// Checks that every edge is drawn once for any observed losses.
fn observes(sampler: &dyn SamplerFactory) -> Result<String, String> {
    let share = EdgeShare {
        counts: vec![500, 20, 0, 300, 1],
        batch_size: 10,
    };
    let losses = [0.0, 1e-30, 1e30, f32::MAX, -1.0];
    for loss in losses {
        drain(sampler, &share, 3, &mut |_| loss)?;
    }
    let uneven = |relation: u32| if relation == 1 { 100.0 } else { 0.01 };
    let first = drain(sampler, &share, 3, &mut |r| uneven(r))?;
    let even = drain(sampler, &share, 3, &mut |_| 1.0)?;
    Ok(format!(
        "drains for all losses, tried from 0 to {:e}; losses {} the draws",
        f32::MAX,
        if first == even {
            "do not change"
        } else {
            "change"
        }
    ))
}

fn seeds(sampler: &dyn SamplerFactory) -> &'static str {
    let share = EdgeShare {
        counts: vec![20; 40],
        batch_size: 1,
    };
    let of = |seed| drain(sampler, &share, seed, &mut |_| 0.5);
    match of(1) == of(2) {
        true => "draws do not depend on the seed",
        false => "draws depend on the seed",
    }
}

/// Largest number of rounds of the frequency test: an interpreter takes milliseconds to start a share.
const ROUNDS: u64 = 2000;
/// Time limit of the frequency test.
const PATIENCE: Duration = Duration::from_secs(3);

/// Compares how often each relation is drawn first with its share of the edges, by Pearson's chi-square with three
/// degrees of freedom. For a proportional sampler it exceeds 16.3 once in a thousand times.
fn frequencies(sampler: &dyn SamplerFactory) -> String {
    const COUNTS: [u64; 4] = [100, 200, 300, 400];
    let mut seen = [0_u64; 4];
    let begin = pbg_clock::now();
    let mut rounds = 0;
    while rounds < ROUNDS && (rounds < 200 || begin.elapsed() < PATIENCE) {
        let seed = rounds;
        rounds += 1;
        let walk = sampler.create(&COUNTS, 10, seed);
        let first = walk.and_then(|mut walk| walk.next());
        let Ok(Some(draw)) = first else {
            return "none: the sampler could not draw".to_owned();
        };
        if let Some(count) = seen.get_mut(draw.relation as usize) {
            *count += 1;
        }
    }
    let total: u64 = COUNTS.iter().sum();
    let chi: f64 = seen
        .iter()
        .zip(COUNTS)
        .map(|(&seen, count)| {
            let expected = rounds as f64 * count as f64 / total as f64;
            (seen as f64 - expected).powi(2) / expected
        })
        .sum();
    let verdict = match chi < 16.3 {
        true => "as likely as their edges (proportional)",
        false => "not as likely as their edges (not proportional)",
    };
    format!(
        "first draws of relations with 100, 200, 300, 400 edges: {} of {rounds}\n\
         chi-square {chi:.1} of 3 degrees of freedom: {verdict}",
        seen.map(|n| n.to_string()).join(", ")
    )
}

/// Times one draw with its observation, on shares of `relations` relations.
///
/// # Errors
/// The first error of the sampler.
pub fn bench_sampler(
    sampler: &dyn SamplerFactory,
    relations: u32,
    batch_size: u32,
    budget: Duration,
) -> Result<Timing, StrategyError> {
    let counts: Vec<u64> = (0..u64::from(relations))
        .map(|r| 20 * u64::from(batch_size) / (r + 1) + 1)
        .collect();
    let mut seed = 0;
    let mut walk = sampler.create(&counts, batch_size, seed)?;
    time(budget, || {
        let Some(draw) = walk.next()? else {
            // A new share starts with a new sampler, as in a worker.
            seed += 1;
            walk = sampler.create(&counts, batch_size, seed)?;
            return Ok(());
        };
        walk.observe(draw.relation, 0.5)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_core::strategy::{RelationSampler, StrategyId};

    /// Sampler that draws relation by relation, and leaves `forgotten` edges of each.
    struct InOrder {
        id: StrategyId,
        forgotten: u64,
    }

    struct Drawn {
        left: Vec<u64>,
        batch_size: u64,
    }

    impl SamplerFactory for InOrder {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn create(
            &self,
            counts: &[u64],
            batch_size: u32,
            _: u64,
        ) -> Result<Box<dyn RelationSampler>, StrategyError> {
            let left = counts
                .iter()
                .map(|&c| c.saturating_sub(self.forgotten))
                .collect();
            let batch_size = batch_size.into();
            Ok(Box::new(Drawn { left, batch_size }))
        }
    }

    impl RelationSampler for Drawn {
        fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
            let Some(relation) = self.left.iter().position(|&left| left > 0) else {
                return Ok(None);
            };
            let edges = self.left[relation].min(self.batch_size);
            self.left[relation] -= edges;
            Ok(Some(RelationDraw {
                relation: relation as u32,
                edges: edges as u32,
            }))
        }

        fn observe(&mut self, _: u32, _: f32) -> Result<(), StrategyError> {
            Ok(())
        }
    }

    fn sampler(forgotten: u64) -> InOrder {
        InOrder {
            id: StrategyId {
                name: "in_order".to_owned(),
                version: "1".to_owned(),
                sha256: String::new(),
            },
            forgotten,
        }
    }

    #[test]
    fn a_good_sampler_keeps_every_promise_and_its_frequencies_are_told() {
        let report = check_sampler(&sampler(0));
        assert_eq!(report.broken(), 0, "{report:?}");
        let found = report
            .findings()
            .iter()
            .find(|f| f.promise == "frequencies");
        assert!(found.is_some_and(|f| f.detail.contains("not proportional")));
    }

    #[test]
    fn a_sampler_that_ends_early_is_found() {
        let report = check_sampler(&sampler(1));
        assert_eq!(report.broken(), 1, "{report:?}");
        assert!(
            report.findings()[0].detail.contains("left to draw"),
            "{report:?}"
        );
    }
}
