//! Checks of a comparator.

use std::convert::Infallible;
use std::time::Duration;

use pbg_formula::comparator::definition::Candidates;
use pbg_formula::comparator::{ComparatorDefinition, ComparatorFormula, PairExecutor, PairRows};
use pbg_formula::node::{Binary, FormulaNode, NodeId};

use crate::differences::{compare, numbers, one_sided_slopes, wide};
use crate::finding::ContractReport;
use crate::parts::FormulaParts;
use crate::timing::{Timing, time};

#[cfg(test)]
mod tests;

/// Elements of a component in a case.
const WIDTH: usize = 24;
/// Candidates of a case.
const ROWS: usize = 5;
/// A side of which fewer than one element in this many has a gradient is hardly ever trained.
const FLAT: usize = 40;
/// The two sides, with their names.
const SIDES: [(Candidates, &str); 2] = [(Candidates::Left, "left"), (Candidates::Right, "right")];

/// Left and right embeddings, row by row. The first row of a side is the query of the other side's candidates.
struct PairCase {
    name: &'static str,
    embeddings: [Vec<f32>; 2],
}

/// Results of comparing a query with the candidates of a side.
struct PairResults {
    scores: Vec<f32>,
    /// Derivatives of each score by its candidate.
    slopes: Vec<f32>,
    /// Sum of the derivatives of all scores by the query.
    query: Vec<f32>,
}

impl PairCase {
    fn new(name: &'static str, dimension: usize, scale: f32) -> Self {
        let drawn = |seed| -> Vec<f32> {
            let drawn = numbers(ROWS * dimension, seed);
            drawn.iter().map(|x| scale * x).collect()
        };
        Self {
            name,
            embeddings: [drawn(1), drawn(2)],
        }
    }

    /// Returns a query with the candidates of a side.
    fn rows(&self, side: Candidates, dimension: usize) -> PairRows<'_> {
        let [left, right] = &self.embeddings;
        let (query, candidates) = match side {
            Candidates::Left => (right, left),
            Candidates::Right => (left, right),
        };
        PairRows {
            side,
            query: &query[..dimension],
            candidates,
        }
    }
}

/// Checks a formula, and its execution on ordinary and special embeddings.
pub fn check_comparator(
    formula: &ComparatorFormula,
    executed: &mut dyn PairExecutor,
) -> ContractReport {
    let mut report = ContractReport::default();
    let dimension = WIDTH * formula.components();
    let ordinary = PairCase::new("ordinary embeddings", dimension, 1.0);
    let equal = PairCase {
        name: "equal embeddings",
        embeddings: [1, 1].map(|seed| numbers(dimension, seed).repeat(ROWS)),
    };
    let special = [
        equal,
        PairCase::new("zeros", dimension, 0.0),
        PairCase::new("numbers of 1e-30", dimension, 1e-30),
    ];
    let cases = std::iter::once(&ordinary).chain(&special);
    let names: Vec<&str> = cases.clone().map(|case| case.name).collect();
    let found = cases.map(|case| finite(formula, executed, case));
    let found: Result<Vec<()>, String> = found.collect();
    let tried = format!("scores and gradients, tried on {}", names.join(", "));
    report.add_promise("finite", found.map(|_| tried));
    if report.broken() > 0 {
        return report;
    }
    let large = PairCase::new("numbers of 1e4", dimension, 1e4);
    if let Err(text) = finite(formula, executed, &large) {
        report.add_note("large", text);
    }
    report.add_promise("exact", exact(formula, executed, &ordinary));
    if formula.stops_gradient() {
        let note = "not compared: the formula stops gradients on purpose";
        report.add_note("gradient", note);
    } else {
        report.add_promise("gradient", gradient(formula, executed, &ordinary));
    }
    report.add_promise("embeddings", reached(dimension, executed, &ordinary));
    let mut idle = without_gradient(dimension, executed, &ordinary);
    idle.extend(parts(formula, &ordinary));
    if !idle.is_empty() {
        report.add_note("formula", idle.join("\n"));
    }
    let [equal, ..] = &special;
    if equal_score_lowest(dimension, executed, [equal, &ordinary]) {
        let note = "equal embeddings score lower than all others: higher scores are better, so a distance needs a minus sign";
        report.add_note("sign", note);
    }
    report
}

/// Returns whether equal embeddings score lower than ordinary ones, all of which differ.
fn equal_score_lowest(
    dimension: usize,
    executed: &mut dyn PairExecutor,
    cases: [&PairCase; 2],
) -> bool {
    let [equal, ordinary] = cases.map(|case| {
        let sides = SIDES.map(|(side, _)| run(dimension, executed, case, side).scores);
        sides.concat()
    });
    let of_equal = equal.into_iter().fold(f32::NEG_INFINITY, f32::max);
    ordinary.into_iter().all(|score| score > of_equal)
}

/// Compares the query of a case with the candidates of a side.
fn run(
    dimension: usize,
    executed: &mut dyn PairExecutor,
    case: &PairCase,
    side: Candidates,
) -> PairResults {
    let rows = case.rows(side, dimension);
    let mut results = PairResults {
        scores: vec![0.0; ROWS],
        slopes: vec![0.0; rows.candidates.len()],
        query: vec![0.0; dimension],
    };
    executed.scores(rows, &mut results.scores);
    let PairResults { query, slopes, .. } = &mut results;
    executed.add_gradients(rows, &[1.0; ROWS], query, slopes);
    results
}

fn finite(
    formula: &ComparatorFormula,
    executed: &mut dyn PairExecutor,
    case: &PairCase,
) -> Result<(), String> {
    let dimension = WIDTH * formula.components();
    for (side, name) in SIDES {
        let PairResults { scores, slopes, .. } = run(dimension, executed, case, side);
        let first = |numbers: &[f32]| numbers.iter().position(|number| !number.is_finite());
        if let Some(row) = first(&scores) {
            return Err(format!("{}: a score is {}", case.name, scores[row]));
        }
        if let Some(at) = first(&slopes) {
            return Err(format!(
                "{}: a gradient of a {name} embedding is {}; {}",
                case.name,
                slopes[at],
                shown(case, side, dimension, at)
            ));
        }
    }
    Ok(())
}

/// Describes the components of both embeddings at an element of a candidate, for a message.
fn shown(case: &PairCase, side: Candidates, dimension: usize, at: usize) -> String {
    let rows = case.rows(side, dimension);
    let candidate = &rows.candidates[at / dimension * dimension..][..dimension];
    let of = |embedding: &[f32]| -> Vec<f32> {
        embedding.chunks(WIDTH).map(|v| v[at % WIDTH]).collect()
    };
    let (left, right) = match side {
        Candidates::Left => (candidate, rows.query),
        Candidates::Right => (rows.query, candidate),
    };
    format!(
        "left components {:?}, right components {:?}",
        of(left),
        of(right)
    )
}

/// Returns the left and the right embedding of a candidate with its query, in f64.
fn pair(rows: PairRows<'_>, candidate: &[f32]) -> [Vec<f64>; 2] {
    match rows.side {
        Candidates::Left => [wide(candidate), wide(rows.query)],
        Candidates::Right => [wide(rows.query), wide(candidate)],
    }
}

/// Compares the executed formula with its evaluation in f64.
fn exact(
    formula: &ComparatorFormula,
    executed: &mut dyn PairExecutor,
    case: &PairCase,
) -> Result<String, String> {
    let dimension = WIDTH * formula.components();
    let (mut compared, mut worst) = (0, 0.0_f64);
    for (side, name) in SIDES {
        let rows = case.rows(side, dimension);
        let found = run(dimension, executed, case, side);
        let mut of_query = vec![0.0; dimension];
        let (mut scores, mut slopes) = (Vec::new(), Vec::new());
        for candidate in rows.candidates.chunks(dimension) {
            let [left, right] = pair(rows, candidate);
            let expected = formula.compare(&left, &right);
            let (own, others) = match side {
                Candidates::Left => (expected.left, expected.right),
                Candidates::Right => (expected.right, expected.left),
            };
            scores.push(expected.score);
            slopes.extend(own);
            of_query
                .iter_mut()
                .zip(others)
                .for_each(|(sum, x)| *sum += x);
        }
        for (what, found, expected) in [
            ("score", found.scores, scores),
            ("gradient of a candidate", found.slopes, slopes),
            ("gradient of a query", found.query, of_query),
        ] {
            for (found, expected) in found.into_iter().zip(expected) {
                let off = (f64::from(found) - expected).abs() / (1.0 + expected.abs());
                if off.is_nan() || off > 1e-4 {
                    return Err(format!(
                        "{name} candidates: the host computes {found} as a {what}, but the formula gives {expected}"
                    ));
                }
                (compared, worst) = (compared + 1, worst.max(off));
            }
        }
    }
    Ok(format!(
        "{compared} numbers agree with the formula in f64, to {worst:.1e}"
    ))
}

/// Compares the gradients of candidates with finite differences of their scores.
fn gradient(
    formula: &ComparatorFormula,
    executed: &mut dyn PairExecutor,
    case: &PairCase,
) -> Result<String, String> {
    let dimension = WIDTH * formula.components();
    let (mut compared, mut worst) = (0, 0.0_f64);
    for (side, name) in SIDES {
        let rows = case.rows(side, dimension);
        let query = wide(rows.query);
        let score = |candidate: &[f64]| match side {
            Candidates::Left => formula.compare(candidate, &query).score,
            Candidates::Right => formula.compare(&query, candidate).score,
        };
        let claimed = run(dimension, executed, case, side).slopes;
        for (at, claimed) in claimed.into_iter().enumerate() {
            let candidate = &rows.candidates[at / dimension * dimension..][..dimension];
            let slopes = one_sided_slopes(&wide(candidate), at % dimension, score);
            worst = worst.max(compare(claimed.into(), slopes, || {
                let component = at % dimension / WIDTH;
                let shown = shown(case, side, dimension, at);
                format!("component {component} of a {name} embedding: {shown}")
            })?);
            compared += 1;
        }
    }
    Ok(format!(
        "{compared} derivatives agree with finite differences, to {worst:.1e}"
    ))
}

/// Checks that gradients reach both embeddings, and more than a few of their elements.
fn reached(
    dimension: usize,
    executed: &mut dyn PairExecutor,
    case: &PairCase,
) -> Result<String, String> {
    let mut found = Vec::new();
    for (side, name) in SIDES {
        let slopes = run(dimension, executed, case, side).slopes;
        let (reached, all) = (slopes.iter().filter(|x| **x != 0.0).count(), slopes.len());
        match reached {
            0 => {
                return Err(format!(
                    "no gradient reaches {name} embeddings, so edges would never train them"
                ));
            }
            few if few * FLAT < all => {
                return Err(format!(
                    "a gradient reaches {few} of {all} elements of {name} embeddings only: training hardly ever moves \
                     the others"
                ));
            }
            _ => found.push(format!(
                "{reached} of {all} elements of {name} embeddings have a gradient"
            )),
        }
    }
    Ok(found.join("; "))
}

/// Returns a sentence for every component of a side that has no gradient.
fn without_gradient(
    dimension: usize,
    executed: &mut dyn PairExecutor,
    case: &PairCase,
) -> Vec<String> {
    let mut found = Vec::new();
    for (side, name) in SIDES {
        let slopes = run(dimension, executed, case, side).slopes;
        for component in 0..dimension / WIDTH {
            let of_component = |row: &[f32]| {
                let elements = &row[component * WIDTH..][..WIDTH];
                elements.iter().all(|x| *x == 0.0)
            };
            if slopes.chunks(dimension).all(of_component) {
                found.push(format!(
                    "component {component} of {name} embeddings has no gradient: their scores never train it"
                ));
            }
        }
    }
    found
}

/// Returns a sentence for every part of the formula that does nothing.
fn parts(formula: &ComparatorFormula, case: &PairCase) -> Vec<String> {
    let definition = formula.definition();
    let components = formula.components();
    let name = |node| {
        let FormulaNode::Component(index) = node else {
            return None;
        };
        let index = index as usize;
        let side = ["left", "right"].get(index / components)?;
        Some(match components {
            1 => (*side).to_owned(),
            _ => format!("{side}.{}", index % components),
        })
    };
    let outputs = [definition.score];
    let parts = FormulaParts::new(&definition.nodes, &outputs, &name);
    parts.idle("the score", "pairs", |condition| {
        Some(outcomes(definition, condition, case))
    })
}

/// Returns whether a condition holds for some elements of the pairs of a case, and whether it fails for some.
fn outcomes(definition: &ComparatorDefinition, condition: NodeId, case: &PairCase) -> [bool; 2] {
    let mut nodes = definition.nodes.clone();
    let zero = nodes.len() as NodeId;
    nodes.extend([
        FormulaNode::Constant(0.0),
        FormulaNode::Binary(Binary::NotEqual, condition, zero),
        FormulaNode::Sum(zero + 1),
    ]);
    let holding = ComparatorDefinition {
        nodes,
        score: zero + 2,
        ..definition.clone()
    };
    let dimension = WIDTH * definition.components as usize;
    let [left, right] = &case.embeddings;
    let counts = left
        .chunks(dimension)
        .zip(right.chunks(dimension))
        .map(|(left, right)| holding.compare(left, right));
    let counts: Vec<f32> = counts.collect();
    let any = |found: fn(f32) -> bool| counts.iter().any(|&count| found(count));
    [any(|count| count > 0.0), any(|count| count < WIDTH as f32)]
}

/// Times the scores of a query with `rows` candidates of `dimension` floats, and the scores with all gradients.
#[must_use]
pub fn bench_comparator(
    executed: &mut dyn PairExecutor,
    rows: usize,
    dimension: usize,
    budget: Duration,
) -> [Timing; 2] {
    let (query, candidates) = (numbers(dimension, 1), numbers(rows * dimension, 2));
    let pairs = PairRows {
        side: Candidates::Right,
        query: &query,
        candidates: &candidates,
    };
    let (mut scores, ones) = (vec![0.0; rows], vec![1.0; rows]);
    let mut sums = [vec![0.0; dimension], vec![0.0; candidates.len()]];
    let timed = |call: &mut dyn FnMut()| {
        let timing = time(budget, || {
            call();
            Ok::<(), Infallible>(())
        });
        timing.unwrap_or_else(|never| match never {})
    };
    let there = timed(&mut || executed.scores(pairs, &mut scores));
    let back = timed(&mut || {
        executed.scores(pairs, &mut scores);
        let [of_query, of_candidates] = &mut sums;
        executed.add_gradients(pairs, &ones, of_query, of_candidates);
    });
    [there, back]
}
