//! Errors in plugins in Python: the author learns what failed, and where.

use std::fs;
use std::path::Path;

use crate::authoring::{in_project, new_project, python_tools};
use crate::support::graph::CONFIG;
use crate::support::{Workplace, finish, is_long};
use crate::tools::without;

/// Order that fails in the way that its parameter names.
const RAISER: &str = r#"
import datetime
import glob
import logging
import os
import pathlib
import random
import sys
import time
import traceback
import warnings
from datetime import datetime as moment
from os import listdir
from time import perf_counter

from pbg_plugin import Metadata, Order, Parameter, Refused, files

# Made while the component is built, when standard error is another stream.
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
logging.getLogger("early").addHandler(handler)

ASKS = {
    "open": lambda: open("weights.txt"),
    "path": lambda: pathlib.Path("weights.txt").read_text(),
    "listdir": lambda: listdir("."),
    "exists": lambda: os.path.exists("weights.txt"),
    "glob": lambda: glob.glob("*.txt"),
    "stdin": lambda: sys.stdin.readline(),
    "input": lambda: input("how many? "),
    "time": lambda: time.time(),
    "perf_counter": lambda: perf_counter(),
    "localtime": lambda: time.localtime(),
    "now": lambda: moment.now(),
    "today": lambda: datetime.date.today(),
    "urandom": lambda: os.urandom(8),
    "seed": lambda: random.seed(),
    "generator": lambda: random.Random(),
}


def told():
    """What needs none of that works."""
    try:
        raise ValueError("no such thing")
    except ValueError:
        print("formatted", traceback.format_exc().splitlines()[-1])
        traceback.print_exc()
        logging.exception("logged")
    warnings.warn("odd")
    logging.getLogger("early").warning("then")
    sys.__stderr__.write("beside it\n")
    assert random.Random(x=3).random() == random.Random(3).random()
    assert time.strftime("%Y", time.gmtime(0)) == "1970"
    day = moment(2020, 2, 28) + datetime.timedelta(days=2)
    assert isinstance(day, datetime.date) and repr(day) == "datetime.datetime(2020, 3, 1, 0, 0)"
    assert not isinstance(datetime.date(2020, 1, 1), moment) and issubclass(moment, datetime.date)


class Raiser(Order):
    @classmethod
    def metadata(cls):
        return Metadata("raiser", "0.1.0", "Fails.", [Parameter.text("fault", "none", "How.")])

    def configure(self, parameters):
        self.fault = parameters["fault"]
        print("begun", end="")
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
        if self.fault in ASKS:
            ASKS[self.fault]()
        if self.fault == "all":
            for name, ask in ASKS.items():
                try:
                    ask()
                except PermissionError as error:
                    line = traceback.extract_tb(error.__traceback__)[1].lineno
                    print(name, line, error)
        if self.fault == "tell":
            told()
        if self.fault == "print":
            print("hello", "there")
        if self.fault == "file":
            print([entry.name for entry in files.entries()], files.read_text("names.txt"))
        return plan
"#;

fn build(project: &Path) -> crate::support::Finished {
    finish(&mut in_project(project, &["plugin", "build"]))
}

#[test]
fn authors_in_python_read_what_went_wrong_and_where() {
    if python_tools().is_none() {
        without(
            "python",
            "PBG_TEST_PYTHON names no environment with componentize-py",
        );
        return;
    }
    let place = Workplace::with_dataset(CONFIG);
    let project = new_project(&place, "raiser", "order", "python");
    let module = project.join("raiser.py");
    // A build takes half a minute. The unit tests of the builder read what the tool printed for this module.
    if is_long() {
        let with_numpy = format!("{RAISER}\nimport numpy\n");
        let line = with_numpy.lines().count();
        fs::write(&module, with_numpy).unwrap();
        let refused =
            build(&project).fails(6, &["`import numpy`", &format!("raiser.py, line {line}")]);
        assert!(refused.stderr.lines().count() < 5, "{}", refused.stderr);
    }
    fs::write(&module, RAISER).unwrap();
    build(&project).succeeds();

    place.write("granted/names.txt", "größer");
    let train = |fault: &str| {
        let model = format!("checkpoint_path=model_{fault}");
        let fault = format!("plugins.params.raiser.fault={fault}");
        let granted = "plugins.grants=[{ plugin = \"raiser\", read = [\"granted\"] }]";
        let run = ["train", "--plugin", "raiser/raiser.wasm", "--set", &fault];
        let rest = ["--set", granted, "--set", &model, "--verbose"];
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
    // A forbidden call is refused where it is made, and ends the run unless the plugin handles the error.
    train("open").fails(
        6,
        &[
            "PermissionError: open(): a plugin has no files except those of granted",
            "(raiser.py, line",
            ", in <lambda>)",
        ],
    );
    let said = train("all").succeeds().stderr;
    for (fault, words) in [
        (
            "open",
            "open(): a plugin has no files except those of granted",
        ),
        ("path", "open(): a plugin has no files"),
        ("listdir", "os.listdir(): a plugin has no files"),
        ("exists", "os.path.exists(): a plugin has no files"),
        ("glob", "glob.glob(): a plugin has no files"),
        ("stdin", "sys.stdin: a plugin has no standard input"),
        ("input", "input(): a plugin has no standard input"),
        ("time", "time.time(): a plugin has no clock"),
        ("perf_counter", "time.perf_counter(): a plugin has no clock"),
        (
            "localtime",
            "time.localtime() without a time: a plugin has no",
        ),
        ("now", "datetime.datetime.now(): a plugin has no clock"),
        ("today", "datetime.date.today(): a plugin has no clock"),
        ("urandom", "os.urandom(): a plugin has no randomness"),
        ("seed", "random without a seed: a plugin has no randomness"),
        (
            "generator",
            "random without a seed: a plugin has no randomness",
        ),
    ] {
        let asked = format!("    \"{fault}\": lambda");
        let line = 1 + RAISER
            .lines()
            .position(|line| line.starts_with(&asked))
            .unwrap();
        let told = format!("[raiser] info: {fault} {line} {words}");
        assert!(said.contains(&told), "{told} is not in\n{said}");
    }
    let logs = |fault: &str, lines: &[&str]| {
        let log = train(fault).succeeds().stderr;
        for line in lines {
            let has = |said: &str| said.starts_with("[raiser] ") && said.ends_with(line);
            assert!(log.lines().any(has), "{line} in {log}");
        }
    };
    // A line that `configure` did not end does not become part of another one.
    logs("print", &["info: begun", "info: hello there"]);
    logs("file", &["info: ['names.txt'] größer"]);
    logs(
        "tell",
        &[
            "info: formatted ValueError: no such thing",
            "warn: Traceback (most recent call last):",
            "warn: ValueError: no such thing",
            "error: ERROR:root:logged",
            "error: ValueError: no such thing",
            "UserWarning: odd",
            "warn: 1970-01-01 00:00:00,000 early: then",
            "warn: beside it",
        ],
    );
}
