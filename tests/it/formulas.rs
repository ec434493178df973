//! Losses and operators that read a score while their formula is built. No score has a value then, so every SDK refuses
//! that, and `plugin check` finds formulas that train another loss than intended.

use std::fs;

use serde_json::Value;

use crate::authoring::{in_project, javascript_tools, new_project};
use crate::sdks::{clang, in_node, in_python};
use crate::support::loss::{ZEROS, computed, margin, positive_alone, traced};
use crate::support::{Workplace, finish};

/// Losses in JavaScript with the error that each throws, and two that are valid formulas.
const IN_JAVASCRIPT: &str = r#"
import { TracedLoss, TracedOperator, trace, traceOperator } from './index.js';
import { evaluate } from './testing.js';
let formula;
class Loss extends TracedLoss { build(scores) { return formula(scores); } }
class Operator extends TracedOperator { build(x) { return formula(x); } }
let kept;
const losses = [
  ({ positive, negatives }) => { const d = negatives.sub(positive); return d > 0 ? d.mean() : positive; },
  ({ positive }) => positive.mul(Math.max(positive, 0)),
  ({ positive, negatives }) => positive == 0 ? positive : negatives.mean(),
  ({ positive }) => positive.add(+positive),
  ({ positive }) => positive.add(`${positive}`),
  (scores) => scores.positive.add(scores.constant(scores.positive)),
  ({ positive, negatives }) => negatives.greater(positive) ? negatives.mean() : positive,
  ({ positive, negatives }) => (positive.less(0) && positive).add(negatives.mean()),
  ({ positive }) => positive.mul(undefined),
  ({ positive }) => positive.mul('2'),
  ({ positive }) => (kept = positive),
  ({ negatives }) => negatives.sub(kept).mean(),
  () => kept,
];
for (formula of losses) {
  try {
    process.stdout.write(`written down: node ${trace(new Loss()).output}\n`);
  } catch (error) {
    process.stdout.write(`${error}\n`);
  }
}
const operators = [
  (x) => [x.component(0) > x.parameter('a', 1) ? x.component(0) : x.parameter('a', 1)],
  (x) => [x.component(0).less(x.parameter('a', 1)) ? x.component(0) : x.parameter('a', 1)],
];
for (formula of operators) {
  try {
    traceOperator(new Operator());
    process.stdout.write('written down\n');
  } catch (error) {
    process.stdout.write(`${error}\n`);
  }
}
formula = ({ positive, negatives }) => negatives.greater(positive).select(negatives, 0).sum().add(negatives.notEqual(2).sum());
process.stdout.write(`${evaluate(new Loss(), 1, [1, 2, 3])}\n`);
"#;

const NO_VALUE: &str = "TypeError: scores and embeddings have no value while the formula is built";
const UNUSED: &str = "TypeError: the formula does not use the result of ";

/// The same losses in Python, where comparisons are values of the formula as well.
const IN_PYTHON: &str = r#"
import math
from pbg_plugin import TracedLoss
from pbg_plugin.loss import trace
from pbg_plugin.testing import evaluate

class Loss(TracedLoss):
    def build(self, scores):
        return formula(scores)

kept = []
losses = [
    lambda s: s.negatives.mean() if s.negatives - s.positive > 0 else s.positive,
    lambda s: s.negatives.mean() if s.positive == 0 else s.positive,
    lambda s: s.negatives.mean() if s.positive != 0 else s.positive,
    lambda s: s.negatives.mean() if s.positive in (0, 1) else s.positive,
    lambda s: s.positive and s.negatives.mean(),
    lambda s: max(s.positive, 0),
    lambda s: s.positive * math.exp(s.positive),
    lambda s: s.positive * int(s.positive),
    lambda s: s.positive * s.constant(s.positive),
    lambda s: s.positive * "2",
    lambda s: s.positive * math.nan,
    lambda s: kept.append(s.positive) or s.positive,
    lambda s: (s.negatives - kept[0]).mean(),
    lambda s: kept[0],
]
for formula in losses:
    try:
        print("written down: node", trace(Loss()).output)
    except (TypeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
formula = lambda s: (s.negatives > s.positive).select(s.negatives, 0).sum() + (s.negatives != 2).sum()
print(evaluate(Loss(), 1, [1, 2, 3]))
"#;

#[track_caller]
fn assert_lines(said: &str, expected: &[&str]) {
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, expected) in said.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line:?}, not {expected:?}");
    }
}

#[test]
fn javascript_refuses_to_look_at_a_score() {
    if let Some(said) = in_node(IN_JAVASCRIPT) {
        let number = "TypeError: a formula takes finite numbers and its own values, not ";
        let expected = [
            NO_VALUE,
            NO_VALUE,
            NO_VALUE,
            NO_VALUE,
            NO_VALUE,
            "TypeError: a constant is a number",
            &format!("{UNUSED}greater (node 2)"),
            &format!("{UNUSED}less (node 3)"),
            &format!("{number}undefined"),
            &format!("{number}the text '2'"),
            "written down: node 0",
            "TypeError: a value of another formula",
            "TypeError: build() returned a value of another formula",
            NO_VALUE,
            &format!("{UNUSED}less (node 2)"),
            "7",
        ];
        assert_lines(&said, &expected);
    }
}

#[test]
fn python_refuses_to_look_at_a_score() {
    let looked = "TypeError: scores are not known while the formula is built";
    let expected = [
        &[looked; 8][..],
        &[
            "TypeError: a constant is a number",
            "TypeError: a formula takes numbers and its own values, not the text '2'",
            "ValueError: a formula takes finite numbers, not nan",
            "written down: node 0",
            "TypeError: a value of another formula",
            "TypeError: build returned a value of another formula",
            "7.0",
        ],
    ];
    assert_lines(&in_python(IN_PYTHON), &expected.concat());
}

/// In C, a value of a formula is a struct, which has no truth value and does not convert to a number.
#[test]
fn c_does_not_compile_what_looks_at_a_score() {
    if !clang() {
        return;
    }
    for (kind, looks) in [
        ("loss", "if (excess) return false;"),
        (
            "loss",
            "if (excess.node > 0 && excess > positive) return false;",
        ),
        ("loss", "excess = excess + negatives;"),
        ("operator", "if (re > im) return false;"),
    ] {
        let place = Workplace::empty();
        let project = new_project(&place, "mine", kind, "c");
        let path = project.join("mine.c");
        let source = fs::read_to_string(&path).unwrap();
        let before = match kind {
            "loss" => "    expr soft = ",
            _ => "    expr angle = ",
        };
        assert!(source.contains(before), "{source}");
        fs::write(
            &path,
            source.replace(before, &format!("    {looks}\n{before}")),
        )
        .unwrap();
        let built = finish(&mut in_project(&project, &["plugin", "build"]));
        built.fails(6, &["mine.c", "error:"]);
    }
}

/// The program reports the error that a loss in a JavaScript component throws.
#[test]
fn a_loss_in_javascript_that_looks_at_a_score_trains_nothing() {
    if javascript_tools().is_none() {
        crate::tools::without(
            "node",
            "PBG_TEST_JAVASCRIPT names no folder with componentize-qjs",
        );
        return;
    }
    let place = Workplace::empty();
    let project = new_project(&place, "mine", "loss", "js");
    let path = project.join("mine.js");
    let source = fs::read_to_string(&path).unwrap();
    let (before, _) = source.split_once("  build(").unwrap();
    let looks = "  build({ positive, negatives }) {
    const d = negatives.sub(positive);
    return d > 0 ? d.mean() : positive;
  }
}
";
    fs::write(&path, format!("{before}{looks}")).unwrap();
    finish(&mut in_project(&project, &["plugin", "build"])).succeeds();
    let checked = place.run(["plugin", "check", "mine/mine.wasm"]);
    checked.fails(6, &["build", "have no value while the formula is built"]);
}

fn checked(component: &[u8]) -> (Vec<Value>, Workplace) {
    let place = Workplace::empty();
    place.write("mine.wasm", component);
    let found = place.run(["plugin", "check", "mine.wasm", "--json"]).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    let found = found["findings"].as_array().unwrap().clone();
    (found, place)
}

#[test]
fn the_check_of_a_loss_says_what_it_trains_the_wrong_way_round() {
    for (component, words) in [
        (
            positive_alone(),
            &[
                "the loss rises with the score of the positive in ",
                " rows and falls in none",
                "no gradient reaches the negatives",
            ][..],
        ),
        (
            computed(ZEROS),
            &[
                "no gradient reaches the positives",
                "no gradient reaches the negatives",
            ],
        ),
    ] {
        let (findings, place) = checked(&component);
        let broken: Vec<&Value> = findings
            .iter()
            .filter(|finding| finding["outcome"] == "broken")
            .collect();
        assert_eq!(broken.len(), 1, "{findings:?}");
        assert_eq!(broken[0]["promise"], "direction");
        let detail = broken[0]["detail"].as_str().unwrap();
        assert!(words.iter().all(|words| detail.contains(words)), "{detail}");
        let shown = place.run(["plugin", "check", "mine.wasm"]);
        assert!(
            shown.stdout.contains("BROKEN  direction"),
            "{}",
            shown.stdout
        );
        shown.fails(6, &["evil", "breaks 1 promise"]);
    }
    let (findings, _) = checked(&traced(&margin("(f32.const 0.5)")));
    let direction = findings
        .iter()
        .find(|found| found["promise"] == "direction");
    assert_eq!(direction.unwrap()["outcome"], "kept", "{findings:?}");
}
