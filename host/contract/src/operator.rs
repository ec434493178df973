//! Checks of an operator.

use std::convert::Infallible;
use std::time::Duration;

use pbg_formula::node::{Binary, FormulaNode, NodeId};
use pbg_formula::operator::interpret::VectorInput;
use pbg_formula::operator::{
    FormulaExecutor, FormulaHandle, InitialValue, OperatorDefinition, OperatorFormula,
};

use crate::differences::{compare, numbers, one_sided_slopes, wide};
use crate::finding::ContractReport;
use crate::parts::FormulaParts;
use crate::timing::{Timing, time};

#[cfg(test)]
mod tests;

/// Elements of a component in a case.
const WIDTH: usize = 24;
/// Embeddings in a case.
const ROWS: usize = 5;

/// Embeddings and the parameters of one relation.
struct Case {
    name: &'static str,
    /// Embeddings, row by row.
    embeddings: Vec<f32>,
    /// Parameters, one vector after the other.
    parameters: Vec<f32>,
}

/// Executors of an operator's formulas.
pub struct OperatorExecutors {
    /// Executor of the formula itself, which transforms right entities.
    pub rhs: Box<dyn FormulaExecutor>,
    /// Executor of the formula of left entities, if there is one.
    pub lhs: Option<Box<dyn FormulaExecutor>>,
}

impl OperatorExecutors {
    /// Creates the executors of a formula's sides with `executable`.
    #[must_use]
    pub fn new(
        formula: FormulaHandle,
        executable: impl Fn(FormulaHandle) -> Box<dyn FormulaExecutor>,
    ) -> Self {
        Self {
            rhs: executable(formula),
            lhs: formula.lhs().map(executable),
        }
    }
}

/// A formula with its executor.
struct ExecutedSide<'a> {
    /// Words before a finding, if there are two sides.
    prefix: &'static str,
    formula: &'a OperatorFormula,
    executed: Box<dyn FormulaExecutor>,
}

/// Returns the dimension of the embeddings in [`check_operator`].
#[must_use]
pub fn checked_dimension(formula: &OperatorFormula) -> usize {
    WIDTH * formula.components()
}

/// Checks a formula, and its execution on embeddings of [`checked_dimension`].
pub fn check_operator(formula: &OperatorFormula, executors: OperatorExecutors) -> ContractReport {
    let mut report = ContractReport::default();
    let cases = cases(formula);
    let OperatorExecutors { rhs, lhs } = executors;
    let [left, right] = match lhs {
        None => ["", ""],
        Some(_) => ["left side: ", "right side: "],
    };
    let mut sides = vec![ExecutedSide {
        prefix: right,
        formula,
        executed: rhs,
    }];
    sides.extend(
        formula
            .lhs()
            .zip(lhs)
            .map(|(formula, executed)| ExecutedSide {
                prefix: left,
                formula,
                executed,
            }),
    );
    let sides = &mut sides[..];
    let found = of_each(sides, |side| {
        finite(side.formula, side.executed.as_mut(), &cases)
    });
    report.add_promise("finite", found);
    if report.broken() > 0 {
        return report;
    }
    let ordinary = &cases[0];
    let found = of_each(sides, |side| {
        exact(side.formula, side.executed.as_mut(), ordinary)
    });
    report.add_promise("exact", found);
    if formula.stops_gradient() {
        let note = "not compared: the formula stops gradients on purpose";
        report.add_note("gradient", note);
    } else {
        let found = of_each(sides, |side| {
            gradient(side.formula, side.executed.as_mut(), ordinary)
        });
        report.add_promise("gradient", found);
    }
    let found = of_each(sides, |side| reached(side.executed.as_mut(), ordinary));
    report.add_promise("embedding", found);
    report.add_promise("parameters", used(formula, sides, ordinary));
    let idle = parts(formula, &cases);
    if !idle.is_empty() {
        report.add_note("formula", idle.join("\n"));
    }
    report
}

/// Returns the findings of a check of each side, or the first error.
fn of_each(
    sides: &mut [ExecutedSide<'_>],
    mut check: impl FnMut(&mut ExecutedSide<'_>) -> Result<String, String>,
) -> Result<String, String> {
    let found = sides.iter_mut().map(|side| {
        let prefix = side.prefix;
        let named = |text: String| format!("{prefix}{text}");
        check(side).map(named).map_err(named)
    });
    Ok(found.collect::<Result<Vec<_>, _>>()?.join("; "))
}

fn cases(formula: &OperatorFormula) -> Vec<Case> {
    let floats = ROWS * checked_dimension(formula);
    let case = |name, scale: f32, spread: f32| Case {
        name,
        embeddings: numbers(floats, 1).iter().map(|x| scale * x).collect(),
        parameters: parameters(formula, spread),
    };
    vec![
        case("ordinary embeddings", 1.0, 0.3),
        case("initial parameters", 1.0, 0.0),
        case("zeros", 0.0, 0.3),
        case("numbers of 1e-30", 1e-30, 0.3),
        case("numbers of 1e4", 1e4, 0.3),
    ]
}

/// Returns initial parameters of a run, moved by up to `spread` as if by training.
fn parameters(formula: &OperatorFormula, spread: f32) -> Vec<f32> {
    let mut packed = Vec::new();
    for (index, parameter) in (2..).zip(formula.parameters()) {
        let drawn = numbers(WIDTH, index);
        let moved = numbers(WIDTH, index + 100);
        packed.extend(drawn.iter().zip(moved).map(|(drawn, moved)| {
            let beginning = match parameter.initial {
                InitialValue::Zero => 0.0,
                InitialValue::One => 1.0,
                InitialValue::Normal(deviation) => 1.7 * deviation * drawn,
                InitialValue::Angle => std::f32::consts::PI * drawn,
            };
            beginning + spread * moved
        }));
    }
    packed
}

/// Runs the operator forward and backward. Returns its results, the gradients of the embeddings, and those of the
/// parameters, where the results have the gradients `weights`.
fn run(executed: &mut dyn FormulaExecutor, case: &Case, weights: &[f32]) -> [Vec<f32>; 3] {
    let mut made = vec![0.0; case.embeddings.len()];
    executed.forward(&case.parameters, &case.embeddings, &mut made);
    let (mut gradients, mut sums) = (weights.to_vec(), vec![0.0; case.parameters.len()]);
    let (parameters, embeddings) = (&case.parameters, &case.embeddings);
    executed.backward(parameters, embeddings, &mut gradients, &mut sums);
    [made, gradients, sums]
}

fn finite(
    formula: &OperatorFormula,
    executed: &mut dyn FormulaExecutor,
    cases: &[Case],
) -> Result<String, String> {
    for case in cases {
        let weights = numbers(case.embeddings.len(), 9);
        let found = run(executed, case, &weights);
        let kinds = [
            "number",
            "gradient of an embedding",
            "gradient of a parameter",
        ];
        for (what, numbers) in kinds.into_iter().zip(found) {
            if let Some(at) = numbers.iter().position(|number| !number.is_finite()) {
                let element = at % WIDTH;
                return Err(format!(
                    "{}: a {what} is {}; {}",
                    case.name,
                    numbers[at],
                    shown(formula, case, at, element)
                ));
            }
        }
    }
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let names = names.join(", ");
    Ok(format!("numbers and gradients, tried on {names}"))
}

/// Describes the components and parameters of an element, for a message.
fn shown(formula: &OperatorFormula, case: &Case, at: usize, element: usize) -> String {
    let dimension = checked_dimension(formula);
    let row = (at / dimension).min(ROWS - 1);
    let embedding = &case.embeddings[row * dimension..][..dimension];
    let of = |vectors: &[f32]| -> Vec<f32> { vectors.chunks(WIDTH).map(|v| v[element]).collect() };
    format!(
        "components {:?}, parameters {:?}",
        of(embedding),
        of(&case.parameters)
    )
}

/// Compares the executed formula with its evaluation in f64.
fn exact(
    formula: &OperatorFormula,
    executed: &mut dyn FormulaExecutor,
    case: &Case,
) -> Result<String, String> {
    let weights = numbers(case.embeddings.len(), 9);
    let [made, gradients, _] = run(executed, case, &weights);
    let dimension = checked_dimension(formula);
    let parameters = wide(&case.parameters);
    let (mut compared, mut worst) = (0, 0.0_f64);
    for row in 0..ROWS {
        let range = row * dimension..(row + 1) * dimension;
        let embedding = wide(&case.embeddings[range.clone()]);
        let expected = formula.apply(&embedding, &parameters);
        let back = formula.backward().evaluate(&VectorInput {
            width: WIDTH,
            components: &embedding,
            parameters: &parameters,
            gradients: &wide(&weights[range.clone()]),
        });
        let found = made[range.clone()].iter().chain(&gradients[range.clone()]);
        let expected = expected.into_iter().chain(back);
        for (at, (&found, expected)) in found.zip(expected).enumerate() {
            let off = (f64::from(found) - expected).abs() / (1.0 + expected.abs());
            if off.is_nan() || off > 1e-4 {
                return Err(format!(
                    "the host computes {found}, but the formula gives {expected}: {}",
                    shown(formula, case, range.start + at % dimension, at % WIDTH)
                ));
            }
            (compared, worst) = (compared + 1, worst.max(off));
        }
    }
    Ok(format!(
        "{compared} numbers agree with the formula in f64, to {worst:.1e}"
    ))
}

/// Compares the gradients with finite differences of the weighted sum of all results.
fn gradient(
    formula: &OperatorFormula,
    executed: &mut dyn FormulaExecutor,
    case: &Case,
) -> Result<String, String> {
    let weights = numbers(case.embeddings.len(), 9);
    let [_, gradients, sums] = run(executed, case, &weights);
    let dimension = checked_dimension(formula);
    let parameters = wide(&case.parameters);
    let mut of_parameters = vec![(0.0, 0.0); parameters.len()];
    let (mut compared, mut worst) = (0, 0.0_f64);
    for row in 0..ROWS {
        let range = row * dimension..(row + 1) * dimension;
        let embedding = wide(&case.embeddings[range.clone()]);
        let weights = wide(&weights[range.clone()]);
        let value = |x: &[f64], p: &[f64]| -> f64 {
            let made = formula.apply(x, p);
            made.iter()
                .zip(&weights)
                .map(|(made, weight)| made * weight)
                .sum()
        };
        for (i, &claimed) in gradients[range.clone()].iter().enumerate() {
            let slopes = one_sided_slopes(&embedding, i, |moved| value(moved, &parameters));
            worst = worst.max(compare(claimed.into(), slopes, || {
                let (component, shown) = (i / WIDTH, shown(formula, case, range.start, i % WIDTH));
                format!("component {component}: {shown}")
            })?);
            compared += 1;
        }
        for (i, (least, most)) in of_parameters.iter_mut().enumerate() {
            let (a, b) = one_sided_slopes(&parameters, i, |moved| value(&embedding, moved));
            (*least, *most) = (*least + a, *most + b);
        }
    }
    for (i, (&claimed, slopes)) in sums.iter().zip(of_parameters).enumerate() {
        worst = worst.max(compare(claimed.into(), slopes, || {
            let name = &formula.parameters()[i / WIDTH].name;
            let vectors = case.parameters.chunks(WIDTH);
            let parameters: Vec<f32> = vectors.map(|vector| vector[i % WIDTH]).collect();
            format!("parameter {name}: parameters {parameters:?}, summed over {ROWS} embeddings")
        })?);
        compared += 1;
    }
    Ok(format!(
        "{compared} derivatives agree with finite differences, to {worst:.1e}"
    ))
}

/// Checks that the result depends on the embedding. Otherwise no gradient reaches it, and a relation's edges never
/// train it.
fn reached(executed: &mut dyn FormulaExecutor, case: &Case) -> Result<String, String> {
    let weights = numbers(case.embeddings.len(), 9);
    let [_, gradients, _] = run(executed, case, &weights);
    let (reached, all) = (
        gradients.iter().filter(|x| **x != 0.0).count(),
        gradients.len(),
    );
    match reached {
        0 => Err("no gradient reaches the embedding, so edges would never train it".to_owned()),
        _ => Ok(format!("{reached} of {all} elements have a gradient")),
    }
}

/// Checks that some side's result depends on every parameter: one without a gradient is never trained.
fn used(
    formula: &OperatorFormula,
    sides: &mut [ExecutedSide<'_>],
    case: &Case,
) -> Result<String, String> {
    let weights = numbers(case.embeddings.len(), 9);
    let sums = sides.iter_mut().map(|side| {
        let [_, _, sums] = run(side.executed.as_mut(), case, &weights);
        sums
    });
    let sums: Vec<Vec<f32>> = sums.collect();
    for (index, parameter) in formula.parameters().iter().enumerate() {
        let vector = index * WIDTH..(index + 1) * WIDTH;
        let is_still = |sums: &Vec<f32>| sums[vector.clone()].iter().all(|sum| *sum == 0.0);
        if sums.iter().all(is_still) {
            return Err(format!(
                "{} has no gradient, so it would never be trained; use it, or remove it",
                parameter.name
            ));
        }
    }
    let names = formula.parameters().iter().map(|p| p.name.as_str());
    let names: Vec<&str> = names.collect();
    Ok(format!("{}: each has a gradient", names.join(", ")))
}

/// Returns a sentence for every part of the formula that does nothing for either side.
fn parts(formula: &OperatorFormula, cases: &[Case]) -> Vec<String> {
    let definition = formula.definition();
    let name = |node| match node {
        FormulaNode::Parameter(index) => {
            let parameter = definition.parameters.get(index as usize);
            parameter.map(|parameter| parameter.name.clone())
        }
        FormulaNode::Component(_) if definition.components == 1 => Some("embedding".to_owned()),
        FormulaNode::Component(index) => Some(format!("embedding.{index}")),
        _ => None,
    };
    let outputs = [&definition.outputs[..], &definition.lhs_outputs].concat();
    let parts = FormulaParts::new(&definition.nodes, &outputs, &name);
    parts.idle("the result", "embeddings", |condition| {
        Some(outcomes(definition, condition, cases))
    })
}

/// Returns whether a condition holds for some elements of the embeddings of all cases, and whether it fails for some.
fn outcomes(definition: &OperatorDefinition, condition: NodeId, cases: &[Case]) -> [bool; 2] {
    let mut nodes = definition.nodes.clone();
    let zero = nodes.len() as NodeId;
    nodes.extend([
        FormulaNode::Constant(0.0),
        FormulaNode::Binary(Binary::NotEqual, condition, zero),
    ]);
    let holding = OperatorDefinition {
        nodes,
        outputs: vec![zero + 1],
        ..definition.clone()
    };
    let dimension = WIDTH * definition.components as usize;
    let [mut holds, mut fails] = [false; 2];
    for case in cases {
        let parameters: Vec<&[f32]> = case.parameters.chunks(WIDTH).collect();
        for embedding in case.embeddings.chunks(dimension) {
            for element in holding.apply(embedding, &parameters) {
                holds |= element != 0.0;
                fails |= element == 0.0;
            }
        }
    }
    [holds, fails]
}

/// Times the forward pass of `rows` embeddings of `dimension` floats, and the forward and backward pass.
#[must_use]
pub fn bench_operator(
    formula: &OperatorFormula,
    executed: &mut dyn FormulaExecutor,
    rows: usize,
    dimension: usize,
    budget: Duration,
) -> [Timing; 2] {
    let embeddings = numbers(rows * dimension, 1);
    let width = dimension / formula.components();
    let parameters: Vec<f32> = parameters(formula, 0.3)
        .chunks(WIDTH)
        .flat_map(|vector| vector.iter().copied().cycle().take(width))
        .collect();
    let mut made = vec![0.0; embeddings.len()];
    let (mut gradients, mut sums) = (embeddings.clone(), vec![0.0; parameters.len()]);
    let timed = |call: &mut dyn FnMut()| {
        let timing = time(budget, || {
            call();
            Ok::<(), Infallible>(())
        });
        timing.unwrap_or_else(|never| match never {})
    };
    let there = timed(&mut || executed.forward(&parameters, &embeddings, &mut made));
    let back = timed(&mut || {
        executed.forward(&parameters, &embeddings, &mut made);
        gradients.copy_from_slice(&made);
        executed.backward(&parameters, &embeddings, &mut gradients, &mut sums);
    });
    [there, back]
}
