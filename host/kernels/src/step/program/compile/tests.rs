//! Graphs are compiled to stages, or rejected.

use pbg_core::batch_graph::{BatchGraph, Negatives, RegularizedRows};
use pbg_core::model::{Comparator, Regularizer, Update};

use super::*;
use crate::step::cores::CoreStep;

const SAMPLED: Negatives = Negatives::Sampled {
    in_batch: true,
    uniform: 5,
};

fn step_spec() -> StepSpec {
    StepSpec {
        dimension: [8; 2],
        one_type: true,
        featurized: [false; 2],
        operator: Operator::Diagonal,
        comparator: Comparator::Dot,
        bias: false,
        global: false,
        relations: None,
        negatives: [SAMPLED; 2],
        chunk: 4,
        regularizer: None,
        predicts_relations: false,
        half: false,
    }
}

fn sliced(step_spec: &StepSpec, update: Update) -> SlicedGraph {
    BatchGraph::new(step_spec)
        .expect("shapes fit")
        .slice(update)
}

fn compiled(step_spec: &StepSpec) -> StepProgram {
    let graph = Arc::new(sliced(step_spec, Update::Batch));
    StepProgram::compile::<CoreStep<'_>>(graph).expect("a step of the cores")
}

#[test]
fn stages_say_what_the_nodes_say() {
    let program = compiled(&step_spec());
    let [pass] = &program.passes[..] else {
        panic!("one pass: {program:?}");
    };
    assert!(pass.reads_parameters && !pass.update_rows && !pass.regularize_parameters);
    let operators = pass.gather.map(|gather| gather.operator);
    assert_eq!(operators, [Operator::None, Operator::Diagonal]);
    assert_eq!(pass.gather.map(|gather| gather.uniform), [5; 2]);
    assert_eq!(
        pass.scatter.map(|scatter| scatter.positives_are_negatives),
        [true; 2]
    );
    let sides: Vec<Side> = pass.compare.iter().map(|stage| stage.side).collect();
    assert_eq!(sides, Side::BOTH);
    assert!(
        pass.compare
            .iter()
            .all(|stage| !stage.pairwise_positives && !stage.rounded)
    );
}

#[test]
fn each_pass_of_dynamic_relations_compares_one_side() {
    let step_spec = StepSpec {
        relations: Some(3),
        regularizer: Some(Regularizer::N3),
        ..step_spec()
    };
    let program = compiled(&step_spec);
    let sides: Vec<_> = program
        .passes
        .iter()
        .map(|pass| (pass.compare[0].side, pass.compare.len()))
        .collect();
    assert_eq!(sides, [(Side::Lhs, 1), (Side::Rhs, 1)]);
    for pass in &program.passes {
        assert!(!pass.reads_parameters && pass.regularize_parameters);
        // Positives of both sides are regularised, including those that occur only as negatives.
        let regularized = pass.scatter.map(|scatter| scatter.regularized);
        assert_eq!(regularized, [Some(RegularizedRows::Compared); 2]);
        let uniform = pass.gather.map(|gather| gather.uniform);
        assert_eq!(uniform[pass.compare[0].side as usize], 5);
        assert_eq!(uniform[pass.compare[0].side.other() as usize], 0);
    }
}

#[test]
fn distances_and_all_negatives_have_positives_of_their_own() {
    let distances = StepSpec {
        comparator: Comparator::L2,
        ..step_spec()
    };
    let all = StepSpec {
        negatives: [Negatives::All; 2],
        chunk: 1,
        ..step_spec()
    };
    for (step_spec, entire) in [(distances, false), (all, true)] {
        let program = compiled(&step_spec);
        let pass = &program.passes[0];
        assert!(pass.compare.iter().all(|stage| stage.pairwise_positives));
        assert!(pass.entities.iter().all(|side| side.is_some() == entire));
    }
}

#[test]
fn relations_are_predicted_in_both_passes() {
    let step_spec = StepSpec {
        relations: Some(3),
        predicts_relations: true,
        ..step_spec()
    };
    let program = compiled(&step_spec);
    assert!(program.passes.iter().all(|pass| pass.predict_relations));
    let without = StepSpec {
        predicts_relations: false,
        ..step_spec
    };
    let program = compiled(&without);
    assert!(!program.passes.iter().any(|pass| pass.predict_relations));
}

#[test]
fn updates_by_slices_are_a_stage() {
    let graph = Arc::new(sliced(&step_spec(), Update::Slice));
    let program = StepProgram::compile::<CoreStep<'_>>(graph).expect("a step");
    assert!(program.passes[0].update_rows);
}

#[test]
fn what_an_executor_lacks_is_refused_before_any_batch() {
    let step_spec = StepSpec {
        comparator: Comparator::L2,
        half: true,
        ..step_spec()
    };
    let graph = Arc::new(sliced(&step_spec, Update::Batch));
    let error = StepProgram::compile::<CoreStep<'_>>(graph).expect_err("no kernel");
    assert!(matches!(error, CompileError::Lacks { .. }), "{error:?}");
}

#[test]
fn a_stage_that_is_missing_or_elsewhere_is_no_step() {
    for step in 0..8 {
        let mut graph = sliced(&step_spec(), Update::Batch);
        graph.loops[0].slice.remove(step);
        let compiled = StepProgram::compile::<CoreStep<'_>>(Arc::new(graph));
        assert!(
            matches!(compiled, Err(CompileError::Misplaced { .. })),
            "without step {step}: {compiled:?}"
        );
    }
    let mut graph = sliced(&step_spec(), Update::Batch);
    graph.loops[0].slice.swap(1, 2);
    let compiled = StepProgram::compile::<CoreStep<'_>>(Arc::new(graph));
    assert!(compiled.is_err(), "{compiled:?}");
}
