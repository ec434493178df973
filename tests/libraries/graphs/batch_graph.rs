//! The training step as a graph: shapes are checked, slices are small, and the printed stages are those that run.

use std::collections::BTreeSet;

use pbg_core::batch_graph::pipeline::{
    EDGES, PLANNING, Pipeline, PipelineDevice, PipelineParameters, STORAGE, SlicePlan, TRAINING,
    Task,
};
use pbg_core::batch_graph::{
    BufferLife, Dim, Negatives, Operation, RegularizedRows, ShapeError, Stage, StepPlan, StepSpec,
    TensorLife,
};
use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer, Update};
use proptest::prelude::*;

fn step_spec() -> StepSpec {
    StepSpec {
        dimension: [8, 8],
        one_type: false,
        featurized: [false; 2],
        operator: Operator::ComplexDiagonal,
        comparator: Comparator::Dot,
        bias: false,
        global: false,
        relations: None,
        negatives: [Negatives::Sampled {
            in_batch: true,
            uniform: 50,
        }; 2],
        chunk: 50,
        regularizer: None,
        predicts_relations: false,
        half: false,
    }
}

fn refusal(step_spec: &StepSpec) -> ShapeError {
    StepPlan::new(step_spec, Update::Batch).expect_err("shapes that do not fit")
}

prop_compose! {
    fn any_step_spec()(
        half_dimension in 1..40_usize,
        (one_type, bias, half) in any::<(bool, bool, bool)>(),
        regularizer in proptest::option::of(prop::sample::select(&Regularizer::ALL[..])),
        featurized in any::<[bool; 2]>(),
        (operator, comparator) in (0..6_usize, 0..6_usize),
        relations in proptest::option::of(1..30_usize),
        kinds in [0..3_u8, 0..3_u8],
        (in_batch, uniform, chunk) in (any::<bool>(), 0..60_usize, 1..80_usize),
    ) -> StepSpec {
        let all = kinds.contains(&2);
        let negatives = kinds.map(|kind| match (kind, all) {
            (0, _) => Negatives::None,
            (_, true) => Negatives::All,
            (_, false) => Negatives::Sampled { in_batch, uniform },
        });
        let operator = Operator::BUILT_IN[operator];
        let matrix = matches!(operator, Operator::Linear | Operator::Affine);
        StepSpec {
            dimension: [2 * half_dimension; 2],
            one_type,
            featurized: featurized.map(|featurized| featurized && !all),
            operator,
            comparator: Comparator::BUILT_IN[comparator],
            bias,
            global: relations.is_none() && bias,
            relations,
            negatives,
            chunk: if all { 1 } else { chunk },
            regularizer: regularizer.filter(|_| !matrix),
            predicts_relations: false,
            half,
        }
    }
}

fn planned(step_spec: &StepSpec, update: Update) -> StepPlan {
    StepPlan::new(step_spec, update).expect("shapes that fit")
}

/// Returns the stages of the nodes of a pass, or of the end of the batch, in order.
fn stages_of_nodes(step: &StepPlan, pass: Option<usize>) -> Vec<Stage> {
    let nodes = step.graph.nodes.iter().filter(|node| node.pass == pass);
    let mut stages: Vec<_> = nodes.map(|node| node.cluster).collect();
    stages.dedup();
    stages
}

/// Returns the stages of a pass in the order in which executors run them.
fn stages_as_run(step: &StepPlan, pass: usize) -> Vec<Stage> {
    let compare = [Stage::Score, Stage::Loss, Stage::Differentiate];
    let mut stages = vec![Stage::Gather];
    stages.extend(step.passes[pass].compare.iter().flat_map(|_| compare));
    stages.push(Stage::Scatter);
    stages
}

#[test]
fn sides_of_different_dimensions_are_an_error_of_the_comparison() {
    let mut step_spec = step_spec();
    step_spec.dimension = [8, 6];
    for relations in [None, Some(3)] {
        step_spec.relations = relations;
        let error = refusal(&step_spec);
        assert_eq!(error.node.to_string(), "score.lhs");
        assert_eq!(error.operand, "candidates");
        let text = error.to_string();
        for part in [
            "positives + draws, 8]",
            "positives + draws, 6]",
            "the same dimension",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn complex_numbers_need_an_even_dimension() {
    let mut step_spec = step_spec();
    step_spec.dimension = [7, 7];
    let error = refusal(&step_spec);
    assert_eq!(error.node.to_string(), "operator.rhs");
    assert_eq!(error.operand, "rows");
    assert!(error.to_string().contains("must be even"), "{error}");
    assert!(error.found.ends_with("7]"), "{error}");
    step_spec.operator = Operator::Diagonal;
    StepPlan::new(&step_spec, Update::Batch).expect("other operators take any dimension");
}

#[test]
fn empty_embeddings_and_lone_biases_are_errors() {
    let mut step_spec = step_spec();
    step_spec.operator = Operator::None;
    step_spec.dimension = [0, 0];
    let error = refusal(&step_spec);
    assert_eq!(
        (error.node.to_string().as_str(), error.operand),
        ("gather.lhs", "table")
    );
    (step_spec.dimension, step_spec.bias) = ([1, 1], true);
    assert!(refusal(&step_spec).to_string().contains("bias"));
    step_spec.bias = false;
    StepPlan::new(&step_spec, Update::Batch).expect("one coordinate is enough without a bias");
}

#[test]
fn buffers_that_are_free_again_are_used_again() {
    let count = |step: &StepPlan, name: &str| {
        let named = |b: &&pbg_core::batch_graph::Buffer| b.name.to_string() == name;
        step.buffers.iter().filter(named).count()
    };
    let mut step_spec = step_spec();
    let of_static = planned(&step_spec, Update::Batch);
    assert_eq!(of_static.passes.len(), 1);
    // Both directions write their scores into one buffer, and the loss works in place.
    assert_eq!(count(&of_static, "scores"), 1);
    step_spec.relations = Some(3);
    let of_dynamic = planned(&step_spec, Update::Batch);
    assert_eq!(of_dynamic.passes.len(), 2);
    // The second pass uses the rows of the first.
    for name in [
        "rows.lhs",
        "rows.rhs",
        "gradients of positives.lhs",
        "scores",
    ] {
        assert_eq!(count(&of_dynamic, name), 1, "{name}");
    }
}

#[test]
fn a_default_step_runs_its_clusters_in_the_order_that_is_printed() {
    use Stage::{Differentiate, Gather, Loss, Scatter, Score};
    let stages = [
        Gather,
        Score,
        Loss,
        Differentiate,
        Score,
        Loss,
        Differentiate,
        Scatter,
    ];
    for update in [Update::Batch, Update::Slice] {
        let step = planned(&step_spec(), update);
        assert_eq!(stages_of_nodes(&step, Some(0)), stages);
        assert_eq!(stages_as_run(&step, 0), stages);
        assert_eq!(stages_of_nodes(&step, None), [Stage::Update]);
        // An update of rows after each slice is a stage, too.
        assert_eq!(step.passes[0].update_rows, update == Update::Slice);
    }
}

#[test]
fn a_million_edges_take_the_slices_of_a_thousand() {
    let step = planned(&step_spec(), Update::Batch);
    let plan = |edges| {
        let sizes = step.step_spec.sizes(edges, [5000; 2], [5000; 2], false);
        let chunks = step.chunks_per_slice(&sizes, 100_000);
        SlicePlan::new(&step, &sizes, chunks)
    };
    let (small, large) = (plan(1000), plan(1_000_000));
    assert_eq!(small.clusters, large.clusters);
    assert_eq!(large.edges * large.slices_per_batch, 1_000_000);
    // The columns of a million edges, draws, and at most one gradient per row.
    let columns = (4 * 4 + 4 * 2) * 1_000_000;
    assert!(large.batch_bytes <= columns + 2 * 5000 * (8 * 4 + 8) + 1000);
}

#[test]
fn storage_and_edges_are_groups_of_their_own_if_asked() {
    let machine = PipelineParameters {
        partitions_ahead: 2,
        swapped: 5,
        partition_bytes: 100,
        buckets_ahead: 3,
        edge_bytes: 30,
        batches_ahead: 2,
        planned_bytes: 7,
        threads: 3,
        gpu: None,
    };
    let step = planned(&step_spec(), Update::Batch);
    let sizes = step.step_spec.sizes(1000, [5000; 2], [5000; 2], false);
    let slices = SlicePlan::new(&step, &sizes, 1);
    assert_eq!(slices.slices_per_batch, 20);
    let beside = Pipeline::new(&machine, &slices, Update::Batch);
    let names: Vec<_> = beside.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, [STORAGE, EDGES, TRAINING]);
    let bound = |from| beside.pipe(from).map(|pipe| (pipe.bound, pipe.bytes));
    assert_eq!(bound(STORAGE), Some((2, 100)));
    assert_eq!(bound(EDGES), Some((3, 90)));
    assert_eq!(beside.slices_in_flight, 60);
    assert!(beside.pipe(PLANNING).is_none(), "cores need no plan");
    // With a GPU, planning is also a group.
    let planned = Pipeline::new(
        &PipelineParameters {
            gpu: Some(1),
            ..machine
        },
        &slices,
        Update::Batch,
    );
    let names: Vec<_> = planned.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, [STORAGE, EDGES, PLANNING, TRAINING]);
    let pipe = planned.pipe(PLANNING).expect("a pipe");
    assert_eq!((pipe.bound, pipe.bytes), (2, 35));
    assert_eq!(
        planned.groups[3].devices,
        [PipelineDevice::Cpu, PipelineDevice::Cuda(1)]
    );
    // The same tasks in a single group.
    let alone = Pipeline::new(
        &PipelineParameters {
            partitions_ahead: 0,
            buckets_ahead: 0,
            batches_ahead: 0,
            gpu: Some(1),
            ..machine
        },
        &slices,
        Update::Slice,
    );
    let tasks = planned.groups.iter().flat_map(|g| g.tasks.clone());
    assert_eq!(alone.groups[0].tasks, tasks.collect::<Vec<_>>());
    assert_eq!((alone.groups.len(), alone.pipes.len()), (1, 0));
    let devices = [
        PipelineDevice::Disk,
        PipelineDevice::Cpu,
        PipelineDevice::Cuda(1),
    ];
    assert_eq!(alone.groups[0].devices, devices);
    assert_eq!(alone.slices_in_flight, 3);
    // Without reading partitions ahead, storage has no group of its own.
    let machine = PipelineParameters {
        partitions_ahead: 0,
        ..machine
    };
    let edges = Pipeline::new(&machine, &slices, Update::Batch);
    let names: Vec<_> = edges.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, [EDGES, TRAINING]);
    assert!(edges.pipe(STORAGE).is_none() && edges.pipe(EDGES).is_some());
    let moved = [Task::Load, Task::WriteBack, Task::Commit];
    assert_eq!(edges.groups[1].tasks[..3], moved);
}

#[test]
fn stages_follow_from_the_specification() {
    let step = planned(&step_spec(), Update::Batch);
    let [pass] = &step.passes[..] else {
        panic!("one pass: {step:?}");
    };
    assert!(pass.reads_parameters && !pass.update_rows && !pass.regularize_parameters);
    let operators = pass.gather.map(|gather| gather.operator);
    assert_eq!(operators, [Operator::None, Operator::ComplexDiagonal]);
    assert_eq!(pass.gather.map(|gather| gather.uniform), [50; 2]);
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
    let step = planned(&step_spec, Update::Batch);
    let sides: Vec<_> = step
        .passes
        .iter()
        .map(|pass| (pass.compare[0].side, pass.compare.len()))
        .collect();
    assert_eq!(sides, [(Side::Lhs, 1), (Side::Rhs, 1)]);
    for pass in &step.passes {
        assert!(!pass.reads_parameters && pass.regularize_parameters);
        // Positives of both sides are regularised, including those that occur only as negatives.
        let regularized = pass.scatter.map(|scatter| scatter.regularized);
        assert_eq!(regularized, [Some(RegularizedRows::Compared); 2]);
        let uniform = pass.gather.map(|gather| gather.uniform);
        assert_eq!(uniform[pass.compare[0].side as usize], 50);
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
        let step = planned(&step_spec, Update::Batch);
        let pass = &step.passes[0];
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
    let step = planned(&step_spec, Update::Batch);
    assert!(step.passes.iter().all(|pass| pass.predict_relations));
    let without = StepSpec {
        predicts_relations: false,
        ..step_spec
    };
    let step = planned(&without, Update::Batch);
    assert!(!step.passes.iter().any(|pass| pass.predict_relations));
}

proptest! {
    #[test]
    fn the_batch_comes_first_everywhere_but_in_weights_and_tables(step_spec in any_step_spec()) {
        for tensor in &planned(&step_spec, Update::Batch).graph.tensors {
            let inner = tensor.shape.0.iter().skip(1).any(|&dim| dim == Dim::Chunks);
            prop_assert!(!inner, "{} {}", tensor.name, tensor.shape);
            match tensor.life {
                TensorLife::Shared => prop_assert!(!tensor.shape.is_batched()),
                TensorLife::Column => prop_assert!(tensor.shape.is_batched()),
                TensorLife::Made => {}
            }
        }
    }

    /// Every node runs after its operands, and the nodes of a pass that touch the batch follow each other, so that a loop
    /// over slices can run them. The tests of the kernels show that the numbers are the same.
    #[test]
    fn the_nodes_of_a_slice_follow_each_other_after_what_they_need(step_spec in any_step_spec()) {
        let step = planned(&step_spec, Update::Batch);
        let graph = &step.graph;
        let mut made: BTreeSet<usize> = BTreeSet::new();
        for node in &graph.nodes {
            for &input in &node.inputs {
                let given = graph.tensors[input].life != TensorLife::Made;
                prop_assert!(given || made.contains(&input), "{}", node.name);
            }
            made.extend(&node.outputs);
        }
        let passes = graph.nodes.iter().map(|node| node.pass.unwrap_or(step.passes.len()));
        prop_assert!(passes.is_sorted());
        for pass in 0..step.passes.len() {
            let nodes = graph.nodes.iter().filter(|node| node.pass == Some(pass));
            let mut batched: Vec<bool> = nodes
                .map(|node| {
                    let mut tensors = node.inputs.iter().chain(&node.outputs);
                    tensors.any(|&tensor| graph.tensors[tensor].shape.is_batched())
                })
                .collect();
            batched.dedup();
            prop_assert_eq!(batched.iter().filter(|&&batched| batched).count(), 1);
        }
        let updates = graph.nodes.iter().filter(|n| n.operation == Operation::UpdateRows);
        prop_assert_eq!(updates.count(), 2);
    }

    /// The graph, whose buffers are announced, has the operations of the stages that executors run, in their order.
    #[test]
    fn the_graph_has_the_operations_of_the_stages(step_spec in any_step_spec()) {
        let step = planned(&step_spec, Update::Batch);
        for (pass, stages) in step.passes.iter().enumerate() {
            prop_assert_eq!(stages_of_nodes(&step, Some(pass)), stages_as_run(&step, pass));
            let nodes = step.graph.nodes.iter().filter(|node| node.pass == Some(pass));
            let has = |side: Side, wanted: &dyn Fn(Operation) -> bool| {
                let mut nodes = nodes.clone();
                nodes.any(|node| node.name.side == Some(side) && wanted(node.operation))
            };
            for side in Side::BOTH {
                let (gather, scatter) = (stages.gather[side as usize], stages.scatter[side as usize]);
                let operators = [Operation::Operator(gather.operator), Operation::Back(scatter.operator)];
                let transforms = gather.operator != Operator::None;
                prop_assert_eq!(has(side, &|found| found == operators[0]), transforms);
                prop_assert!(has(side, &|found| found == operators[1]));
                prop_assert_eq!(has(side, &|found| found == Operation::Global), gather.global);
                let entire = stages.entities[side as usize].is_some();
                prop_assert_eq!(has(side, &|found| found == Operation::GatherAll), entire);
                let joined = has(side, &|found| found == Operation::Join);
                prop_assert_eq!(joined, scatter.positives_are_negatives);
                for rows in [RegularizedRows::Compared, RegularizedRows::LookedUp] {
                    let regularizes = has(side, &|found| found == Operation::Regularize(rows));
                    prop_assert_eq!(regularizes, scatter.regularized == Some(rows));
                }
                let parameters = has(side, &|found| found == Operation::RegularizeParameters);
                let own = stages.pass.operator_side == side;
                prop_assert_eq!(parameters, own && stages.regularize_parameters);
            }
            for stage in &stages.compare {
                let pairwise = has(stage.side, &|found| found == Operation::PositiveGradients);
                prop_assert_eq!(pairwise, stage.pairwise_positives);
                prop_assert_eq!(has(stage.side, &|found| found == Operation::Round), stage.rounded);
            }
            let reads = Side::BOTH.map(|side| has(side, &|found| found == Operation::Read));
            prop_assert_eq!(reads.contains(&true), stages.reads_parameters);
        }
    }

    /// Slices fit their memory if a chunk does, and do not grow with the batch.
    #[test]
    fn memory_for_slices_does_not_depend_on_the_batch(
        step_spec in any_step_spec(),
        edges in 1..5000_usize,
        factor in 2..200_usize,
        entities in 1..3000_usize,
        slice_bytes in 1..4_000_000_usize,
    ) {
        let step = planned(&step_spec, Update::Batch);
        let of = |edges| {
            let sizes = step_spec.sizes(edges, [entities; 2], [entities; 2], false);
            let chunks = step.chunks_per_slice(&sizes, slice_bytes);
            let slice = step.buffers.iter().filter(|b| b.keep == BufferLife::Slice);
            (slice.map(|b| b.bytes_of(&sizes, chunks)).sum::<usize>(), sizes, chunks)
        };
        // Holds from the first batch that has a whole chunk and a whole slice.
        let enough = edges.max(step_spec.chunk).max(256) * step_spec.chunk.max(slice_bytes / 16);
        let ((small, ..), (large, ..)) = (of(enough), of(enough.saturating_mul(factor)));
        prop_assert_eq!(small, large);
        let (_, sizes, chunks) = of(edges);
        let least = if step_spec.negatives.contains(&Negatives::All) { 256 } else { 1 };
        prop_assert!(chunks <= sizes.chunks());
        prop_assert!(chunks <= least || chunks * step.chunk_bytes(&sizes) <= slice_bytes);
    }

    /// A batch has at most one gradient row per row of a table.
    #[test]
    fn gradients_of_a_batch_are_bounded_by_the_tables(
        step_spec in any_step_spec(),
        edges in 1..5_000_000_usize,
        rows in 1..3000_usize,
        shared in any::<bool>(),
    ) {
        let sizes = step_spec.sizes(edges, [rows; 2], [rows; 2], shared);
        prop_assert!(sizes.touched.iter().all(|&touched| touched <= rows));
        prop_assert!(!shared || sizes.touched[Side::Rhs as usize] == 0);
    }
}
