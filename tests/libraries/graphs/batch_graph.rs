//! The training step as a graph: shapes are checked, slices are small, and the printed stages are those that run.

use std::collections::BTreeSet;

use pbg_core::batch_graph::pipeline::{
    EDGES, PLANNING, Pipeline, PipelineDevice, PipelineParameters, STORAGE, SlicePlan, TRAINING,
    Task,
};
use pbg_core::batch_graph::{
    BatchGraph, BufferLife, Dim, Negatives, Operation, ShapeError, SlicedGraph, Stage, StepSpec,
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
    BatchGraph::new(step_spec).expect_err("shapes that do not fit")
}

prop_compose! {
    fn any_step_spec()(
        half_dimension in 1..40_usize,
        (one_type, bias, half) in any::<(bool, bool, bool)>(),
        regularizer in proptest::option::of(prop::sample::select(&Regularizer::ALL[..])),
        featurized in any::<[bool; 2]>(),
        (operator, comparator) in (0..6_usize, 0..4_usize),
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
            comparator: Comparator::ALL[comparator],
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

fn sliced(step_spec: &StepSpec, update: Update) -> SlicedGraph {
    BatchGraph::new(step_spec)
        .expect("shapes that fit")
        .slice(update)
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
    BatchGraph::new(&step_spec).expect("other operators take any dimension");
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
    BatchGraph::new(&step_spec).expect("one coordinate is enough without a bias");
}

#[test]
fn buffers_that_are_free_again_are_used_again() {
    let count = |sliced: &SlicedGraph, name: &str| {
        let named = |b: &&pbg_core::batch_graph::Buffer| b.name.to_string() == name;
        sliced.buffers.iter().filter(named).count()
    };
    let mut step_spec = step_spec();
    let of_static = sliced(&step_spec, Update::Batch);
    assert_eq!(of_static.loops.len(), 1);
    // Both directions write their scores into one buffer, and the loss works in place.
    assert_eq!(count(&of_static, "scores"), 1);
    step_spec.relations = Some(3);
    let of_dynamic = sliced(&step_spec, Update::Batch);
    assert_eq!(of_dynamic.loops.len(), 2);
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
    let clusters = |update| {
        let sliced = sliced(&step_spec(), update);
        let steps: Vec<_> = sliced.loops[0]
            .slice
            .iter()
            .map(|step| step.cluster)
            .collect();
        (
            steps,
            sliced
                .end
                .iter()
                .map(|step| step.cluster)
                .collect::<Vec<_>>(),
        )
    };
    use Stage::{Differentiate, Gather, Loss, Scatter, Score, Update as Apply};
    let mut steps = vec![
        Gather,
        Score,
        Loss,
        Differentiate,
        Score,
        Loss,
        Differentiate,
        Scatter,
    ];
    assert_eq!(clusters(Update::Batch), (steps.clone(), vec![Apply]));
    steps.push(Apply);
    assert_eq!(clusters(Update::Slice), (steps, vec![Apply]));
}

#[test]
fn a_million_edges_take_the_slices_of_a_thousand() {
    let sliced = sliced(&step_spec(), Update::Batch);
    let plan = |edges| {
        let sizes = sliced.step_spec().sizes(edges, [5000; 2], [5000; 2], false);
        let chunks = sliced.chunks_per_slice(&sizes, 100_000);
        SlicePlan::new(&sliced, &sizes, chunks)
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
    let graph = sliced(&step_spec(), Update::Batch);
    let sizes = graph.step_spec().sizes(1000, [5000; 2], [5000; 2], false);
    let slices = SlicePlan::new(&graph, &sizes, 1);
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

proptest! {
    #[test]
    fn the_batch_comes_first_everywhere_but_in_weights_and_tables(step_spec in any_step_spec()) {
        let graph = BatchGraph::new(&step_spec).expect("shapes that fit");
        for tensor in &graph.tensors {
            let inner = tensor.shape.0.iter().skip(1).any(|&dim| dim == Dim::Chunks);
            prop_assert!(!inner, "{} {}", tensor.name, tensor.shape);
            match tensor.life {
                TensorLife::Shared => prop_assert!(!tensor.shape.is_batched()),
                TensorLife::Column => prop_assert!(tensor.shape.is_batched()),
                TensorLife::Made => {}
            }
        }
    }

    /// Every node runs once per slice or once per batch, after its operands. The tests of the kernels show that the
    /// numbers are the same.
    #[test]
    fn the_sliced_form_runs_every_node_once_after_what_it_needs(step_spec in any_step_spec()) {
        let sliced = sliced(&step_spec, Update::Batch);
        let graph = &sliced.graph;
        let loops = sliced.loops.iter();
        let steps = loops.flat_map(|l| l.before.iter().chain(&l.slice).chain(&l.after));
        let order: Vec<usize> = steps
            .chain(&sliced.end)
            .flat_map(|step| step.nodes.iter().copied())
            .collect();
        prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), graph.nodes.len());
        prop_assert_eq!(order.len(), graph.nodes.len());
        let mut made: BTreeSet<usize> = BTreeSet::new();
        for &node in &order {
            for &input in &graph.nodes[node].inputs {
                let given = graph.tensors[input].life != TensorLife::Made;
                prop_assert!(given || made.contains(&input), "{}", graph.nodes[node].name);
            }
            made.extend(&graph.nodes[node].outputs);
        }
        for each in &sliced.loops {
            for &node in each.before.iter().chain(&each.after).flat_map(|step| &step.nodes) {
                let node = &graph.nodes[node];
                let mut tensors = node.inputs.iter().chain(&node.outputs);
                prop_assert!(!tensors.any(|&t| graph.tensors[t].shape.is_batched()));
            }
        }
        let updates = graph.nodes.iter().filter(|n| n.operation == Operation::UpdateRows);
        prop_assert_eq!(updates.count(), 2);
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
        let sliced = sliced(&step_spec, Update::Batch);
        let of = |edges| {
            let sizes = step_spec.sizes(edges, [entities; 2], [entities; 2], false);
            let chunks = sliced.chunks_per_slice(&sizes, slice_bytes);
            let slice = sliced.buffers.iter().filter(|b| b.keep == BufferLife::Slice);
            (slice.map(|b| b.bytes_of(&sizes, chunks)).sum::<usize>(), sizes, chunks)
        };
        // Holds from the first batch that has a whole chunk and a whole slice.
        let enough = edges.max(step_spec.chunk).max(256) * step_spec.chunk.max(slice_bytes / 16);
        let ((small, ..), (large, ..)) = (of(enough), of(enough.saturating_mul(factor)));
        prop_assert_eq!(small, large);
        let (_, sizes, chunks) = of(edges);
        let least = if step_spec.negatives.contains(&Negatives::All) { 256 } else { 1 };
        prop_assert!(chunks <= sizes.chunks());
        prop_assert!(chunks <= least || chunks * sliced.chunk_bytes(&sizes) <= slice_bytes);
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
