//! Actions that the engine must not be tricked into: compiling for minutes, running disabled features, panicking on
//! damaged bytes, or entering an instance again that failed.

use pbg_core::strategy::BucketOrder as _;
use pbg_library_tests::bombs;
use pbg_plugin_sdk::Rng;
use pbg_wasm::{Limits, Sandbox};

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::{Guest, answer, list, load, pass, sandbox};

/// Asserts that the text is refused in time as an invalid component.
fn assert_no_component(text: &str, reason: &str) {
    let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text:.200}"));
    let error = bounded(|| load(&sandbox(), bytes).err());
    let error = error.expect("no plugin").to_string();
    assert!(error.contains(reason), "\"{reason}\" is not in: {error}");
}

#[test]
fn features_that_plugins_do_not_need_are_off() {
    for (module, reason) in [
        ("(memory i64 1)", "memory64"),
        ("(memory 1 1 shared)", "threads"),
        ("(tag)", "exceptions"),
        ("(type (struct (field i32)))", "gc"),
        ("(func $f (return_call $f))", "tail calls"),
        (
            "(func (param v128 v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 1)))",
            "relaxed SIMD",
        ),
    ] {
        let text = format!("(component (core module {module}))");
        assert_no_component(&text, reason);
    }
}

/// Support for concurrency would make every call three times as expensive.
#[test]
fn concurrency_is_not_built_in() {
    assert_no_component("(component (core func (canon backpressure.inc)))", "async");
}

/// Canonicalizing every NaN would make numeric guests several times slower.
#[test]
fn bits_of_nan_are_left_alone() {
    // A quiet NaN with a payload, plus one; a canonical NaN has no payload.
    let sum = "(i32.reinterpret_f32 (f32.add (f32.reinterpret_i32 (i32.load (i32.const 1024))) (f32.const 1)))";
    let guest = Guest {
        extra: r#"(data (i32.const 1024) "\01\00\e0\7f")"#.to_owned(),
        plan: format!(
            "(if (i32.ne {sum} (i32.const 0x7fe00001)) (then (unreachable))) {}",
            answer(&[(0, 0), (0, 1), (1, 0), (1, 1)])
        ),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    order.plan(&pass(2, 2)).expect("the payload is still there");
}

/// Lists are copied before the guest may free and reuse them.
#[test]
fn an_answer_is_read_before_its_memory_is_freed() {
    let free = r#"(func (export "cabi_post_pbg:plugin/bucket-order@0.1.0#plan") (param i32)
        (memory.fill (i32.const 512) (i32.const 255) (i32.const 8192)))"#;
    let guest = Guest {
        extra: free.to_owned(),
        ..Guest::planning(&[(1, 1), (0, 1), (1, 0), (0, 0)])
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    let plan = order.plan(&pass(2, 2)).expect("it plans");
    let plan: Vec<_> = plan.iter().map(|b| (b.lhs, b.rhs)).collect();
    assert_eq!(plan, [(1, 1), (0, 1), (1, 0), (0, 0)]);
}

#[test]
fn a_hundred_thousand_functions_are_not_compiled() {
    let functions = "(func (result i32) (i32.const 7))".repeat(100_000);
    assert_no_component(
        &format!("(component (core module {functions}))"),
        "more than 40000 functions",
    );
}

#[test]
fn one_huge_function_is_not_compiled() {
    let terms = "(i32.const 1000000) i32.add ".repeat(200_000);
    assert_no_component(
        &format!("(component (core module (func (result i32) (i32.const 1) {terms})))"),
        "bytes in one function",
    );
}

/// Returns a good plugin with core instances that it does not need.
fn crowded(instances: usize, module: &str) -> Vec<u8> {
    let module = wat::parse_str(format!("(module {module})")).expect("valid text");
    bombs::crowded(&Guest::default().component(), instances, &module)
}

#[test]
fn memories_and_instances_are_counted() {
    for (bytes, reason) in [
        (crowded(10, "(memory 1)"), "memory count too high"),
        (crowded(40, "(table 1 funcref)"), "table count too high"),
        (crowded(200, ""), "instance count too high"),
    ] {
        let error = bounded(|| load(&sandbox(), bytes).err());
        let error = error.expect("too many").to_string();
        assert!(error.contains("instantiation"), "{error}");
        assert!(error.contains(reason), "\"{reason}\" is not in: {error}");
    }
    load(&sandbox(), crowded(3, "(memory 1)")).expect("a few are fine");
}

#[test]
fn an_instance_that_broke_the_interface_is_not_entered_again() {
    // Its first plan lies outside of its memory. That is not a trap, so the engine would enter the instance again, and
    // its second plan would be valid.
    let guest = Guest {
        extra: "(global $calls (mut i32) (i32.const 0))".to_owned(),
        plan: format!(
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
             (if (i32.eq (global.get $calls) (i32.const 1)) (then {} (return))) {}",
            list(4096, 0x0fff_ffff),
            answer(&[(0, 0), (0, 1), (1, 0), (1, 1)])
        ),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    for _ in 0..3 {
        let error = order
            .plan(&pass(2, 2))
            .expect_err("a fresh instance each time");
        assert!(error.reason.contains("out of bounds"), "{error}");
    }
}

#[test]
fn recursion_on_a_stack_in_memory_is_named() {
    // Recursion as compilers translate it: a stack pointer that falls below the beginning of the memory.
    let guest = Guest {
        extra: "(global $stack (mut i32) (i32.const 4096))
            (func $deeper (global.set $stack (i32.sub (global.get $stack) (i32.const 64)))
                (i32.store (global.get $stack) (i32.const 1)) (call $deeper))"
            .to_owned(),
        plan: "(call $deeper) (unreachable)".to_owned(),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    let error = bounded(|| order.plan(&pass(2, 2)))
        .expect_err("no end")
        .reason;
    assert!(error.contains("endless recursion"), "{error}");
    assert!(error.contains("deeper ("), "{error}");
}

#[test]
fn a_flood_of_long_lines_is_not_copied() {
    // 100 lines of 400 KiB each: the limit of one call comes first.
    let guest = Guest {
        plan: "(loop $again (call $log (i32.const 1) (i32.const 4096) (i32.const 400000)) (br $again)) (unreachable)"
            .to_owned(),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    let error = bounded(|| order.plan(&pass(2, 2)))
        .expect_err("too much")
        .reason;
    assert!(error.contains("more data than any valid answer"), "{error}");
}

#[test]
fn every_limit_is_the_configured_one() {
    let with = |limits: Limits| Sandbox::new(limits).expect("the sandbox starts");
    let refusal = |sandbox: &Sandbox, guest: &Guest| match load(sandbox, guest.component()) {
        Err(error) => error.to_string(),
        Ok(mut order) => order.plan(&pass(2, 2)).expect_err("a limit").to_string(),
    };
    let looping = Guest {
        plan: crate::sandbox::support::LOOP.to_owned(),
        ..Guest::default()
    };
    let recursing = Guest {
        plan: "(call $plan (local.get 0))".to_owned(),
        ..Guest::default()
    };
    let tables = Guest {
        extra: "(table 500 funcref)".to_owned(),
        ..Guest::default()
    };
    let default = Limits::default;
    for (limits, guest, reason) in [
        (
            Limits {
                deadline_ms: 30,
                ..default()
            },
            &looping,
            "longer than 30 ms",
        ),
        (
            Limits {
                stack_bytes: 32 << 10,
                ..default()
            },
            &recursing,
            "stack of 32 KiB",
        ),
        (
            Limits {
                table_elements: 400,
                ..default()
            },
            &tables,
            "its limit is 400",
        ),
        (
            Limits {
                memory_bytes: 1 << 16,
                ..default()
            },
            &Guest::default(),
            "its limit is 65536",
        ),
        (
            Limits {
                component_bytes: 100,
                ..default()
            },
            &Guest::default(),
            "more than the 100",
        ),
        (
            Limits {
                result_bytes: 16,
                ..default()
            },
            &Guest::default(),
            "raise plugins.limits.result_mib",
        ),
    ] {
        let refused = refusal(&with(limits), guest);
        assert!(
            refused.contains(reason),
            "\"{reason}\" is not in: {refused}"
        );
    }
}

/// A short fuzz run: damaged components are refused or fail, and nothing panics or hangs.
#[test]
fn damaged_components_do_no_harm() {
    let limits = Limits {
        deadline_ms: 20,
        ..Limits::default()
    };
    let sandbox = Sandbox::new(limits).expect("the sandbox starts");
    let whole = Guest::default().component();
    let mut rng = Rng::new(2026);
    let mut below = move |bound: usize| rng.below(bound as u64) as usize;
    let mut loaded = 0;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = below(256) as u8,
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let end = (at + below(16)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
        }
        if let Ok(mut order) = load(&sandbox, bytes) {
            loaded += 1;
            // The answer is a permutation or an error.
            let _ = order.plan(&pass(2, 2));
        }
    }
    // The validator finds most damage; some damage (in names, in constants) does not affect it.
    assert!(loaded < 300, "no damage was found");
    load(&sandbox, whole).expect("the whole one loads");
}
