//! Attempts of hostile and broken plugins. Each case ends within two seconds with a message that names the plugin and
//! the cause, and leaves the sandbox ready for the next plugin.

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::{DEADLINE_MS, Guest, LOOP, list, load, pass, recorder, sandbox};
use pbg_core::strategy::BucketOrder;
use pbg_wasm::{Limits, Sandbox};

/// Runs a plugin up to a plan of a 2 x 2 grid. Asserts that it fails in time, for these reasons, without harm to a good
/// plugin.
fn assert_fails(bytes: Vec<u8>, reasons: &[&str]) {
    assert_fails_in(&sandbox(), bytes, reasons);
}

fn assert_fails_in(sandbox: &Sandbox, bytes: Vec<u8>, reasons: &[&str]) {
    let message = bounded(|| match load(sandbox, bytes) {
        Err(error) => error.to_string(),
        Ok(mut order) => match order.plan(&pass(2, 2)) {
            Err(error) => error.to_string(),
            Ok(plan) => panic!("it planned {plan:?}"),
        },
    });
    assert!(
        message.contains("plugin evil"),
        "the plugin is not named: {message}"
    );
    for reason in reasons {
        assert!(
            message.contains(reason),
            "\"{reason}\" is not in: {message}"
        );
    }
    let mut good = load(sandbox, Guest::default().component()).expect("a good plugin loads");
    assert_eq!(
        good.plan(&pass(2, 2)).expect("a good plugin plans").len(),
        4
    );
}

#[test]
fn loops_without_end_are_stopped_wherever_they_are() {
    let looping = || LOOP.to_owned();
    let stopped = format!("took longer than {DEADLINE_MS} ms and was stopped");
    let cases = [
        ("plan", Guest { plan: looping(), ..Guest::default() }),
        ("describe", Guest { describe: looping(), ..Guest::default() }),
        ("configure", Guest { configure: looping(), ..Guest::default() }),
        ("configure", Guest { realloc: looping(), ..Guest::default() }),
        (
            "instantiation",
            Guest { extra: format!("(func $spin {LOOP}) (start $spin)"), ..Guest::default() },
        ),
        (
            "plan",
            Guest {
                extra: format!(
                    "(func (export \"cabi_post_pbg:plugin/bucket-order@0.1.0#plan\") (param i32) {LOOP})"
                ),
                ..Guest::default()
            },
        ),
        (
            "plan",
            Guest {
                plan: "(loop $again (call $log (i32.const 1) (i32.const 16) (i32.const 27)) (br $again)) (unreachable)".to_owned(),
                ..Guest::default()
            },
        ),
    ];
    for (function, guest) in cases {
        assert_fails(
            guest.component(),
            &[&format!(": {function}: {stopped}"), "deadline_ms"],
        );
    }
}

#[test]
fn a_loop_in_pick_is_stopped() {
    let guest = Guest {
        pick: LOOP.to_owned(),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    let grid = pass(2, 2);
    let free = order.plan(&grid).expect("it plans");
    let error = bounded(|| order.pick(&grid, &[], &free))
        .expect_err("it loops")
        .to_string();
    assert!(
        error.contains("plugin evil 0.1.0: pick: took longer than"),
        "{error}"
    );
    // The instance that faulted is gone; a fresh one answers.
    assert_eq!(order.plan(&grid).expect("a fresh instance plans"), free);
}

#[test]
fn memory_has_a_limit() {
    let grow = "(drop (memory.grow (i32.const 100)))";
    let bomb = Guest {
        plan: format!("(loop $again {grow} (br $again)) (unreachable)"),
        ..Guest::default()
    };
    assert_fails(
        bomb.component(),
        &[
            "plan: asked for",
            "bytes of memory, its limit is 67108864",
            "memory_mib",
        ],
    );
    let born_large = Guest {
        memory: "(memory (export \"memory\") 60000)",
        ..Guest::default()
    };
    assert_fails(
        born_large.component(),
        &["instantiation: asked for 3932160000 bytes of memory"],
    );
}

#[test]
fn tables_have_a_limit() {
    let bomb = Guest {
        extra: "(table $t 1 funcref)".to_owned(),
        plan: "(drop (table.grow $t (ref.null func) (i32.const 100000000))) (unreachable)"
            .to_owned(),
        ..Guest::default()
    };
    assert_fails(
        bomb.component(),
        &[
            "plan: asked for 100000",
            "table entries, its limit is 100000",
        ],
    );
    let born_large = Guest {
        extra: "(table $t 5000000 funcref)".to_owned(),
        ..Guest::default()
    };
    assert_fails(
        born_large.component(),
        &["instantiation: asked for 5000001 table entries"],
    );
}

#[test]
fn lists_must_lie_in_memory_and_be_of_a_sensible_length() {
    let answers = [
        (
            list(4096, 0x0fff_ffff),
            "broke the rules of the component interface",
        ),
        (
            list(0xffff_fff0, 4),
            "broke the rules of the component interface",
        ),
        (list(4097, 4), "not aligned"),
        // The list overlaps the record of its own address.
        (list(512, 4), "outside the 2 x 2 grid"),
        (
            list(4096, 20_000),
            "the limit for this call; it was not copied",
        ),
        // The list is all of its memory.
        (list(0, 65_536), "more data than any valid answer"),
        (
            "(i32.const 0x7fffff00)".to_owned(),
            "broke the rules of the component interface",
        ),
        (
            "(i32.store8 (i32.const 512) (i32.const 9)) (i32.const 512)".to_owned(),
            "broke the rules",
        ),
    ];
    for (plan, reason) in answers {
        let guest = Guest {
            plan,
            ..Guest::default()
        };
        assert_fails(guest.component(), &["plugin evil 0.1.0: plan: ", reason]);
    }
}

#[test]
fn memory_that_a_plugin_hands_out_must_be_its_own() {
    let guest = Guest {
        realloc: "(i32.const 0x7ffffff0)".to_owned(),
        ..Guest::default()
    };
    assert_fails(
        guest.component(),
        &["broke the rules of the component interface"],
    );
}

#[test]
fn a_plan_that_is_no_permutation_is_refused() {
    let promise = "a plan names every bucket of the grid exactly once";
    let plans: [(&[(u32, u32)], &str); 5] = [
        (
            &[(0, 0), (0, 1), (1, 0), (0, 1)],
            "bucket (0, 1) occurs twice",
        ),
        (
            &[(0, 0), (0, 1), (1, 0)],
            "the plan has 3 buckets, but the 2 x 2 grid has 4",
        ),
        (
            &[(0, 0), (0, 1), (1, 0), (1, 1), (1, 1)],
            "the plan has 5 buckets",
        ),
        (
            &[(0, 0), (0, 1), (1, 0), (2, 1)],
            "bucket (2, 1), outside the 2 x 2 grid",
        ),
        (&[], "the plan has 0 buckets"),
    ];
    for (plan, reason) in plans {
        assert_fails(
            Guest::planning(plan).component(),
            &["plugin evil 0.1.0: plan: ", reason, promise],
        );
    }
}

#[test]
fn a_pick_outside_its_list_is_refused() {
    let pick = "(i32.store8 (i32.const 640) (i32.const 0)) (i32.store (i32.const 644) (i32.const 4)) (i32.const 640)";
    let guest = Guest {
        pick: pick.to_owned(),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    let grid = pass(2, 2);
    let free = order.plan(&grid).expect("it plans");
    let error = order
        .pick(&grid, &[], &free)
        .expect_err("out of range")
        .to_string();
    assert!(
        error.contains("pick: returned 4, which is not an index into the 4 free buckets"),
        "{error}"
    );
}

#[test]
fn traps_are_named() {
    let cases = [
        ("(unreachable)", "trapped: it executed `unreachable`"),
        (
            "(i32.div_u (i32.const 1) (i32.const 0))",
            "trapped: integer divide by zero",
        ),
        (
            "(i32.load (i32.const -8))",
            "trapped: out of bounds memory access",
        ),
        (
            "(i32.store (i32.const 0x7ffffff0) (i32.const 1)) (unreachable)",
            "trapped: out of bounds memory access",
        ),
        (
            "(memory.fill (i32.const 0) (i32.const 1) (i32.const -1)) (unreachable)",
            "trapped: out of bounds memory access",
        ),
        (
            "(call $plan (local.get 0))",
            "overflowed its stack of 512 KiB",
        ),
    ];
    for (plan, reason) in cases {
        let guest = Guest {
            plan: plan.to_owned(),
            ..Guest::default()
        };
        assert_fails(
            guest.component(),
            &["plugin evil 0.1.0: plan: ", reason, "\n  in plan"],
        );
    }
}

#[test]
fn the_last_log_lines_come_with_the_fault_and_cannot_reach_the_terminal() {
    let guest = Guest {
        extra: r#"(data (i32.const 1024) "panicked at evil.rs:1:2:\0a\1b[2Jno such layer")
            (data (i32.const 1100) "\1b[2Jbefore")"#
            .to_owned(),
        plan: "(call $log (i32.const 3) (i32.const 1100) (i32.const 10))
            (call $log (i32.const 3) (i32.const 1024) (i32.const 42)) (unreachable)"
            .to_owned(),
        ..Guest::default()
    };
    let (sink, lines) = recorder();
    let sandbox = sandbox().with_log(sink);
    let told = "plan: panicked: \\u{1b}[2Jno such layer (evil.rs, line 1)";
    let tail = "its last log lines:\n    \\u{1b}[2Jbefore";
    assert_fails_in(&sandbox, guest.component(), &[told, tail]);
    let lines = lines.lock().expect("no test panics in here");
    assert_eq!(
        *lines,
        [
            "evil: \\u{1b}[2Jbefore",
            "evil: panicked at evil.rs:1:2:",
            "evil: \\u{1b}[2Jno such layer"
        ]
    );
}

#[test]
fn a_log_flood_is_dropped_and_counted() {
    let flood = "(loop $again (call $log (i32.const 1) (i32.const 16) (i32.const 27))
        (br_if $again (i64.lt_u (local.tee $n (i64.add (local.get $n) (i64.const 1))) (i64.const 5000))))";
    let guest = Guest {
        plan: format!(
            "{flood} {}",
            crate::sandbox::support::answer(&[(0, 0), (0, 1), (1, 0), (1, 1)])
        ),
        ..Guest::default()
    };
    let (sink, lines) = recorder();
    let mut order = load(&sandbox().with_log(sink), guest.component()).expect("it loads");
    bounded(|| order.plan(&pass(2, 2))).expect("logging is no fault");
    let lines = lines.lock().expect("no test panics in here");
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[100], "evil: 4900 more log messages dropped");
}

#[test]
fn invalid_text_is_refused() {
    let guest = Guest {
        extra: r#"(data (i32.const 1024) "\ff\fe")"#.to_owned(),
        plan: "(call $log (i32.const 1) (i32.const 1024) (i32.const 2)) (unreachable)".to_owned(),
        ..Guest::default()
    };
    assert_fails(guest.component(), &["plan: broke the rules", "utf-8"]);
}

#[test]
fn metadata_must_be_fit_for_messages_and_files() {
    let named = |name: &str| Guest {
        extra: format!("(data (i32.const 0) \"{name}\")"),
        ..Guest::default()
    };
    assert_fails(
        named("a\\1b[b").component(),
        &["its metadata is invalid: name \"a\\u{1b}[b\""],
    );
    assert_fails(
        named("../x").component(),
        &["its metadata is invalid: name"],
    );
}

#[test]
fn refusals_are_shown_as_they_stand() {
    let refuse = |at: u32| {
        format!(
            "(i32.store8 (i32.const {at}) (i32.const 1)) (i32.store (i32.const {}) (i32.const 1024))
             (i32.store (i32.const {}) (i32.const 15)) (i32.const {at})",
            at + 4,
            at + 8
        )
    };
    let extra = r#"(data (i32.const 1024) "not on tuesdays")"#.to_owned();
    let guest = Guest {
        plan: refuse(512),
        extra: extra.clone(),
        ..Guest::default()
    };
    assert_fails(
        guest.component(),
        &["plugin evil 0.1.0: plan: refuses: not on tuesdays"],
    );
    let guest = Guest {
        configure: refuse(640),
        extra,
        ..Guest::default()
    };
    assert_fails(
        guest.component(),
        &["plugin evil: configure: refuses: not on tuesdays"],
    );
}

#[test]
fn limits_can_be_raised() {
    let busy = "(loop $again (br_if $again (i64.lt_u (local.tee $n (i64.add (local.get $n) (i64.const 1))) (i64.const 20000000))))
        (drop (memory.grow (i32.const 1500)))";
    let guest = Guest {
        plan: format!(
            "{busy} {}",
            crate::sandbox::support::answer(&[(0, 0), (0, 1), (1, 0), (1, 1)])
        ),
        ..Guest::default()
    };
    let sandbox = Sandbox::new(Limits {
        memory_bytes: 200 << 20,
        deadline_ms: 60_000,
        ..Limits::default()
    });
    let mut order = load(&sandbox.expect("it starts"), guest.component()).expect("it loads");
    order.plan(&pass(2, 2)).expect("within the raised limits");
    assert_fails(guest.component(), &["bytes of memory, its limit is"]);
}
