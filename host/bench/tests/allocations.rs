//! Training steps allocate nothing once their buffers have grown. This test has an allocator that counts; the program
//! uses the system's.

use std::alloc::System;
use std::time::Duration;

use pbg_core::model::Precision;
use pbg_kernels::step::Execution;
use pbg_wasm::{Limits, LoadedLoss, PluginSource, Sandbox};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the number of allocations and reallocations by Rust code so far. libtorch's are not counted.
fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

#[test]
fn training_steps_allocate_nothing() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(0_u8)));
    assert!(allocations() > before, "nothing is counted");
    let sandbox = Sandbox::new(Limits::default()).expect("the sandbox starts");
    let mut measured = 0;
    for case in pbg_bench::step_cases() {
        let source = PluginSource::resolve(case.loss).expect("a standard loss");
        let plugin = sandbox.open(source).expect("it loads");
        let Ok(LoadedLoss::Traced(graph)) = plugin.into_loss(&Value::Null) else {
            panic!("{} is not a formula", case.loss);
        };
        let loss = pbg_train::traced(graph);
        let execution = Execution::with_precision(Precision::Fp32);
        let mut steps = case.steps(loss.as_ref(), execution).expect("steps");
        let before = allocations();
        let (batches, _) = steps.run(Duration::from_millis(300)).expect("they train");
        let made = allocations() - before;
        // A buffer may still grow once in hundreds of batches.
        let name = case.name;
        assert!(
            made * 10 <= batches,
            "{name}: {made} allocations in {batches} batches"
        );
        measured += 1;
    }
    assert_eq!(measured, 5);
}
