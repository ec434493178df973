//! Components within components: each part has its own memory, and code that the engine generates copies the arguments
//! and results between them.

use pbg_core::strategy::BucketOrder as _;

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::composed::behind_a_part;
use crate::sandbox::support::{Guest, answer, load, pass, recorder, sandbox};

const PLAN: [(u32, u32); 4] = [(1, 0), (1, 1), (0, 1), (0, 0)];

/// Returns a plugin that runs `before`, logs its summary, then plans.
fn logging(before: &str) -> Vec<u8> {
    let plan = answer(&PLAN);
    let guest = Guest {
        plan: format!("{before} (call $log (i32.const 1) (i32.const 16) (i32.const 27)) {plan}"),
        ..Guest::default()
    };
    guest.component()
}

const SMALL: &str = r#"(memory (export "memory") 1)"#;

#[test]
fn parts_of_a_component_pass_texts_to_each_other() {
    let (sink, lines) = recorder();
    let composed = behind_a_part(&logging(""), SMALL, "");
    let mut order = load(&sandbox().with_log(sink), composed).expect("it loads");
    let plan = order.plan(&pass(2, 2)).expect("it plans");
    let plan: Vec<_> = plan.iter().map(|bucket| (bucket.lhs, bucket.rhs)).collect();
    assert_eq!(plan, PLAN);
    let lines = lines.lock().expect("no test panics in here");
    assert_eq!(*lines, ["evil: A plugin of the test suite."]);
}

/// Each memory is below the limit of 1024 pages.
#[test]
fn memories_of_several_parts_count_together() {
    let grow = "(drop (memory.grow (i32.const 600)))";
    let fault = |bytes: Vec<u8>| {
        bounded(|| match load(&sandbox(), bytes) {
            Err(error) => error.to_string(),
            Ok(mut order) => match order.plan(&pass(2, 2)) {
                Err(error) => error.to_string(),
                Ok(plan) => panic!("it planned {plan:?}"),
            },
        })
    };
    let large = r#"(memory (export "memory") 600)"#;
    for (part, extra) in [(large, ""), (SMALL, grow)] {
        let message = fault(behind_a_part(&logging(grow), part, extra));
        assert!(
            message.contains("plan: asked for")
                && message.contains("bytes of memory, its limit is 67108864"),
            "{message}"
        );
    }
}

#[test]
fn memories_of_one_module_count_together() {
    let fault = |extra: &str, plan: &str| {
        let guest = Guest {
            extra: extra.to_owned(),
            plan: format!("{plan} (unreachable)"),
            ..Guest::default()
        };
        let component = guest.component();
        bounded(|| match load(&sandbox(), component) {
            Err(error) => error.to_string(),
            Ok(mut order) => order.plan(&pass(2, 2)).expect_err("too much").to_string(),
        })
    };
    let too_much = "bytes of memory, its limit is 67108864";
    let grow = "(drop (memory.grow $other (i32.const 600))) (drop (memory.grow 0 (i32.const 600)))";
    let message = fault("(memory $other 1)", grow);
    assert!(
        message.contains("plan: asked for") && message.contains(too_much),
        "{message}"
    );
    let message = fault("(memory 600) (memory 600)", "");
    assert!(
        message.contains("instantiation: asked for") && message.contains(too_much),
        "{message}"
    );
    // At most eight memories are allowed, however small they are.
    let message = fault(&"(memory 0)".repeat(8), "");
    assert!(message.contains("memory count too high"), "{message}");
}
