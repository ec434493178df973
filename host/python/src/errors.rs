//! Conversion of failures to exceptions: one class per kind, with the program's exit code.

use pbg_config::ConfigErrors;
use pbg_session::failure::LineLabel;
use pbg_session::{Failure, FailureKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Module of the exception classes.
const MODULE: &str = "pbg_host.errors";

/// Converts a failure to an exception.
pub(crate) fn raised(py: Python<'_>, failure: Failure) -> PyErr {
    exception(py, failure.for_library_users()).unwrap_or_else(|error| error)
}

/// Phrases of the program's messages, and how Python's messages put them.
const SPELLINGS: [(&str, &str); 22] = [
    ("`--allow-plugin-change`", "`allow_plugin_change=True`"),
    ("`--allow-data-change`", "`allow_data_change=True`"),
    (
        "`--columns lhs=NAME,rel=NAME,rhs=NAME`",
        "`columns={\"lhs\": NAME, \"rel\": NAME, \"rhs\": NAME}`",
    ),
    (
        "`--columns lhs,rel,rhs,weight`",
        "`columns=\"lhs,rel,rhs,weight\"`",
    ),
    ("`--dictionary`", "`dictionary=`"),
    ("`--fresh`", "`fresh=True`"),
    ("`--best`", "`best=True`"),
    ("`--links`", "`links=`"),
    ("`--build-width`", "`build_width=`"),
    ("`--width`", "`width=`"),
    ("`--memory`", "`memory=`"),
    ("`--prefix`", "`prefixes=`"),
    ("`--file-prefixes`", "`file_prefixes=True`"),
    ("`--blank-nodes`", "`blank_nodes=`"),
    ("`--header-file`", "`header_file=`"),
    ("`--set dataset=FOLDER`", "`dataset=FOLDER`"),
    ("`--checkpoint` is for", "`checkpoint=` is for"),
    ("`pbg-host train CONFIG`", "`pbg_host.train(CONFIG)`"),
    (
        "`pbg-host check` and `eval --check` list",
        "`pbg_host.check` lists",
    ),
    ("`pbg-host calibrate` makes", "`model.calibrate(...)` makes"),
    ("use the option to overwrite", "pass `overwrite=True`"),
    ("--plugin ", "plugins: "),
];

/// Rewrites a message of the program for Python.
pub(crate) fn spelled(text: &str) -> String {
    let features = text.split_once("`--features ").and_then(|(before, rest)| {
        let (named, after) = rest.split_once("=FILE`")?;
        Some(format!("{before}`features={{\"{named}\": FILE}}`{after}"))
    });
    let text = features.unwrap_or_else(|| text.to_owned());
    // An option with its value, as in `--width 128`.
    let text = text.replace("`--width ", "`width=");
    let text = text
        .replace("`--header yes`", "`header=True`")
        .replace("`--header no`", "`header=False`");
    let text = WITH_A_TEXT
        .iter()
        .fold(text, |text, option| with_a_text(&text, option));
    SPELLINGS.iter().fold(text, |text, (program, python)| {
        text.replace(program, python)
    })
}

/// Import options with a text value, which are keyword arguments of the same names.
const WITH_A_TEXT: [&str; 4] = ["separator", "comment", "columns", "literals"];

/// Replaces `--option VALUE` in a text by a keyword argument.
fn with_a_text(text: &str, option: &str) -> String {
    let begun = format!("`--{option}");
    let mut parts = text.split(&begun);
    let mut spelled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('`') {
            // Columns given by name are a dictionary, which `SPELLINGS` handles.
            Some((value, rest)) if !value.contains("NAME") => {
                // Quotes that a shell needs are removed.
                let value = match value.trim().trim_matches('\'') {
                    "" => String::new(),
                    value => format!("\"{value}\""),
                };
                spelled.push_str(&format!("`{option}={value}`{rest}"));
            }
            _ => spelled.push_str(&format!("{begun}{part}")),
        }
    }
    spelled
}

fn exception(py: Python<'_>, failure: Failure) -> PyResult<PyErr> {
    let (mut message, mut help) = (String::new(), None);
    let mut causes = Vec::new();
    for (label, text) in failure.lines() {
        let text = spelled(&text);
        match label {
            LineLabel::Error => message = text,
            LineLabel::Cause => causes.push(text),
            LineLabel::Help => help = Some(text),
        }
    }
    let errors = failure.error().downcast_ref::<ConfigErrors>();
    let problems = errors.map_or(&[][..], ConfigErrors::problems).iter();
    let problems = problems.map(|problem| (problem.path(), problem.line(), problem.message()));
    let named = PyDict::new(py);
    named.set_item("causes", causes)?;
    named.set_item("help", help)?;
    named.set_item("problems", problems.collect::<Vec<_>>())?;
    let classes = py.import(MODULE)?.getattr("BY_EXIT_CODE")?;
    let class = classes.get_item(failure.kind().code())?;
    Ok(PyErr::from_value(class.call((message,), Some(&named))?))
}

/// Returns the failure for input that is not in the package's JSON form.
pub(crate) fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::message(FailureKind::Usage, error)
}
