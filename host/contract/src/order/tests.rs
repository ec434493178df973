//! Orders that keep their promises, and orders that break one of them.

use super::*;
use crate::finding::FindingOutcome;
use pbg_core::strategy::StrategyId;

/// An order with a given planning function.
struct Toy<P> {
    id: StrategyId,
    calls: u64,
    plan: P,
}

impl<P: FnMut(&Pass, u64) -> Vec<Bucket> + Send> BucketOrder for Toy<P> {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        self.calls += 1;
        Ok((self.plan)(pass, self.calls))
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}

fn grid(pass: &Pass) -> Vec<Bucket> {
    (0..pass.lhs_partitions)
        .flat_map(|lhs| (0..pass.rhs_partitions).map(move |rhs| Bucket::new(lhs, rhs)))
        .collect()
}

fn check(plan: impl FnMut(&Pass, u64) -> Vec<Bucket> + Send + Clone + 'static) -> ContractReport {
    check_order(|| {
        let id = StrategyId {
            name: "toy".to_owned(),
            version: "1".to_owned(),
            sha256: String::new(),
        };
        let plan = plan.clone();
        Ok(Box::new(Toy { id, calls: 0, plan }))
    })
}

/// Returns the only broken promise.
fn broken(report: &ContractReport) -> (&str, &str) {
    assert_eq!(report.broken(), 1, "{report:?}");
    let is_broken = |finding: &&crate::ContractFinding| finding.outcome == FindingOutcome::Broken;
    let finding = report.findings().iter().find(is_broken);
    finding.map_or(("", ""), |f| (f.promise, f.detail.as_str()))
}

#[test]
fn a_good_order_keeps_every_promise() {
    let report = check(|pass, _| grid(pass));
    assert_eq!(report.broken(), 0, "{report:?}");
    let swaps = report.findings().iter().find(|f| f.promise == "swaps");
    // The published swaps of the lexicographic order (Marius, table of orderings).
    let detail = swaps.map_or("", |f| f.detail.as_str());
    assert!(detail.contains(" 8 x 2:   60.0"), "{detail}");
    // This order always picks the first free bucket, which has the fewest bytes to load only by chance.
    let affinity = report.findings().iter().find(|f| f.promise == "affinity");
    let detail = affinity.map_or("", |f| f.detail.as_str());
    assert!(
        detail.contains(" of 90 picks") && !detail.starts_with("90 "),
        "{detail}"
    );
    // Next to the swaps is their lower bound.
    let detail = swaps.map_or("", |f| f.detail.as_str());
    assert!(detail.contains("16 x 4:  205.0     38"), "{detail}");
}

#[test]
fn a_missing_bucket_is_found() {
    let report = check(|pass, _| grid(pass)[1..].to_vec());
    assert_eq!(broken(&report).0, "permutation");
}

#[test]
fn an_order_that_fails_only_where_sides_are_not_shared_is_found() {
    let report = check(|pass, _| {
        let mut plan = grid(pass);
        if !pass.shared && plan.len() > 1 {
            plan[1] = plan[0];
        }
        plan
    });
    let (promise, detail) = broken(&report);
    assert_eq!(promise, "permutation");
    assert!(detail.contains("twice"), "{detail}");
}

#[test]
fn a_plan_that_depends_on_earlier_calls_is_found() {
    let report = check(|pass, calls| {
        let mut plan = grid(pass);
        if calls % 100 == 0 {
            plan.reverse();
        }
        plan
    });
    assert_eq!(broken(&report).0, "deterministic");
}

#[test]
fn an_order_that_does_not_start_says_why() {
    let report = check_order(|| Err("no configuration".to_owned()));
    assert_eq!(broken(&report), ("starts", "no configuration"));
}
