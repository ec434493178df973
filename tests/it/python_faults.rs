//! What becomes of what goes wrong in a plugin in Python: its author reads what, and where.

use std::fs;
use std::path::Path;

use crate::authoring::{in_project, new_project, python_tools};
use crate::support::graph::CONFIG;
use crate::support::{Workplace, finish};

/// An order that fails as its parameter says.
const RAISER: &str = r#"
import sys
from pbg_plugin import Metadata, Order, Parameter, Refused


class Raiser(Order):
    @classmethod
    def metadata(cls):
        return Metadata("raiser", "0.1.0", "Fails.", [Parameter.text("fault", "none", "How.")])

    def configure(self, parameters):
        self.fault = parameters["fault"]
        if self.fault == "configure":
            raise ValueError("no such thing")

    def plan(self, grid_pass):
        plan = grid_pass.grid()
        if self.fault == "raise":
            raise ValueError("no such thing")
        if self.fault == "refuse":
            raise Refused("not today")
        if self.fault == "nothing":
            return None
        if self.fault == "float":
            plan[1] = (1.0, 0)
        if self.fault == "number":
            plan[1] = 7
        if self.fault == "negative":
            plan[1] = (0, -1)
        if self.fault == "exit":
            sys.exit(3)
        if self.fault == "import":
            import numpy
        if self.fault == "print":
            print("hello", "there")
        return plan
"#;

fn build(project: &Path) -> crate::support::Finished {
    finish(&mut in_project(project, &["plugin", "build"]))
}

#[test]
fn authors_in_python_read_what_went_wrong_and_where() {
    if python_tools().is_none() {
        eprintln!("skipped: PBG_TEST_PYTHON names no environment with componentize-py");
        return;
    }
    let place = Workplace::with_dataset(CONFIG);
    let project = new_project(&place, "raiser", "order", "python");
    let module = project.join("raiser.py");
    let with_numpy = format!("{RAISER}\nimport numpy\n");
    let line = with_numpy.lines().count();
    fs::write(&module, with_numpy).unwrap();
    let refused = build(&project).fails(6, &["`import numpy`", &format!("raiser.py, line {line}")]);
    assert!(refused.stderr.lines().count() < 5, "{}", refused.stderr);
    fs::write(&module, RAISER).unwrap();
    build(&project).succeeds();

    let train = |fault: &str| {
        let fault = format!("plugins.params.raiser.fault={fault}");
        let run = ["train", "--plugin", "raiser/raiser.wasm", "--set", &fault];
        let rest = ["--set", "num_epochs=1", "--verbose"];
        finish(&mut in_project(
            &place.path(""),
            &[&run[..], &rest].concat(),
        ))
    };
    let raised = "ValueError: no such thing (raiser.py, line";
    for (fault, words) in [
        ("configure", &["configure", raised][..]),
        ("raise", &["plan", raised, "in plan"]),
        ("refuse", &["refuses: not today"]),
        ("nothing", &["plan returned None"]),
        ("float", &["lhs of bucket 1 of the plan is 1.0"]),
        ("number", &["bucket 1 of the plan is 7, not (lhs, rhs)"]),
        ("negative", &["rhs of bucket 1 of the plan is -1"]),
        ("exit", &["it called sys.exit(3)", "raiser.py, line"]),
        ("import", &["numpy is not in the component"]),
    ] {
        train(fault).fails(6, words);
    }
    let printed = train("print").succeeds();
    assert!(printed.stderr.contains("hello there"), "{}", printed.stderr);
}
