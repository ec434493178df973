//! Training steps of the configurations that PBG publishes, in small batches.

use anyhow::{Context as _, Result, bail};
use pbg_bench::{StepCase, StepSizes, step_cases};
use pbg_core::model::Precision;
use pbg_kernels::losses::GraphLoss;
use pbg_kernels::step::Execution;
use pbg_reference::losses::{ranking, softmax, traced};

/// Case of training steps.
struct Steps {
    name: &'static str,
    /// Index in [`step_cases`].
    index: usize,
    /// Edges of a batch.
    edges: usize,
    batches: usize,
}

const CASES: [Steps; 3] = [
    Steps {
        name: "step_complex",
        index: 0,
        edges: 50,
        batches: 1,
    },
    Steps {
        name: "step_distmult",
        index: 2,
        edges: 100,
        batches: 2,
    },
    Steps {
        name: "step_cosine",
        index: 3,
        edges: 100,
        batches: 5,
    },
];

const ENTITIES: usize = 1000;

/// Returns the names of the cases.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CASES.into_iter().map(|steps| steps.name)
}

/// Trains the batches of a case.
///
/// # Errors
/// When there is no such case, or it cannot be trained.
pub(crate) fn run(name: &str) -> Result<()> {
    let Some(steps) = CASES.iter().find(|steps| steps.name == name) else {
        bail!("unknown case {name}; `list` prints all");
    };
    let cases = step_cases();
    let case = cases.get(steps.index).context("a step of pbg-bench")?;
    let sizes = StepSizes {
        entities: ENTITIES,
        edges: steps.edges,
    };
    let mut prepared = case.steps_of(sizes, &loss(case)?, execution())?;
    Ok(prepared.train(steps.batches)?)
}

/// Returns the loss of a case, as its plugin would define it.
fn loss(case: &StepCase) -> Result<GraphLoss> {
    Ok(traced(match case.loss {
        "softmax" => softmax(),
        "ranking" => ranking(0.1),
        other => bail!("no graph of the loss {other}"),
    }))
}

fn execution() -> Execution {
    Execution {
        slice_bytes: crate::slices::SLICE_BYTES,
        ..Execution::with_precision(Precision::Fp32)
    }
}
