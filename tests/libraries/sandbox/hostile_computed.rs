//! Computed losses that lie, and how their answers are rejected.

use pbg_core::strategy::{Loss as _, LossWorker, ScoreBlock};
use pbg_wasm::{ComputedLossPlugin, LoadError, LoadedLoss, PluginSource};
use serde_json::Value;

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::{DEADLINE_MS, LOOP, encode, own_wit, sandbox};

/// Functions of a computed loss as WebAssembly text. By default, losses and gradients are 0.
struct Guest {
    extra: String,
    realloc: &'static str,
    configure: &'static str,
    evaluate: String,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            extra: String::new(),
            realloc: "(local $at i32)
                (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
                (global.set $free (i32.add (local.get $at) (local.get 3)))
                (local.get $at)",
            configure: "(i32.const 640)",
            evaluate: answer([(8192, 2), (8192, 2), (8192, 6)]),
        }
    }
}

/// Returns the end of a body that answers these lists: losses, gradients of positives, and of negatives.
fn answer(lists: [(u32, u32); 3]) -> String {
    let mut body = "(i32.store (i32.const 512) (i32.const 0))".to_owned();
    for (i, (pointer, length)) in lists.into_iter().enumerate() {
        let at = 516 + 8 * i;
        body += &format!(
            "(i32.store (i32.const {at}) (i32.const {pointer}))
             (i32.store (i32.const {}) (i32.const {length}))",
            at + 4
        );
    }
    body + "(i32.const 512)"
}

impl Guest {
    fn evaluating(evaluate: impl Into<String>) -> Self {
        Self {
            evaluate: evaluate.into(),
            ..Self::default()
        }
    }

    fn load(&self) -> Result<ComputedLossPlugin, LoadError> {
        let Self {
            extra,
            realloc,
            configure,
            evaluate,
        } = self;
        let module = format!(
            r#"(module
  (memory (export "memory") 8)
  (global $free (mut i32) (i32.const 131072))
  (data (i32.const 0) "evil")
  (data (i32.const 8) "0.1.0")
  (data (i32.const 16) "A plugin of the test suite.")
  (data (i32.const 256) "\00\00\00\00\04\00\00\00\08\00\00\00\05\00\00\00\10\00\00\00\1b\00\00\00\00\00\00\00\00\00\00\00")
  {extra}
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
  (func (export "pbg:plugin/metadata@0.1.0#describe") (result i32) (i32.const 256))
  (func (export "pbg:plugin/loss-computed@0.1.0#configure") (param i32 i32) (result i32) {configure})
  (func $evaluate (export "pbg:plugin/loss-computed@0.1.0#evaluate") (param i32 i32 i32 i32 i32) (result i32)
    (global.set $free (i32.const 131072)) {evaluate})
)"#
        );
        let source = PluginSource::Bytes {
            label: "evil.wasm".to_owned(),
            bytes: encode(&module, &own_wit(), "computed-loss"),
        };
        match sandbox().open(source)?.into_loss(&Value::Null)? {
            LoadedLoss::Computed(loss) => Ok(loss),
            LoadedLoss::Traced(_) => panic!("it is a computed loss"),
        }
    }
}

/// Evaluates two rows of three negatives each.
fn evaluate(loss: &mut dyn LossWorker) -> Result<([f32; 6], [f32; 2]), String> {
    let mut negative = [0.5; 6];
    let (mut gradient, mut losses) = ([9.0; 2], [9.0; 2]);
    let evaluated = loss.evaluate(&mut ScoreBlock {
        positive: &[0.25; 2],
        negative: &mut negative,
        columns: 3,
        positive_gradient: &mut gradient,
        loss: &mut losses,
    });
    match evaluated {
        Ok(()) => Ok((negative, losses)),
        Err(error) => {
            assert_eq!(negative, [0.5; 6], "scores of rows that failed");
            Err(error.to_string())
        }
    }
}

/// Asserts that the loss fails within its bounds, for this reason, and that none of its answer is used.
#[track_caller]
fn assert_fails(guest: &Guest, reason: &str) {
    let message = bounded(|| match guest.load() {
        Err(error) => error.to_string(),
        Ok(loss) => evaluate(loss.worker().as_mut()).expect_err("no answer"),
    });
    assert!(message.starts_with("plugin evil"), "{message}");
    assert!(
        message.contains(reason),
        "\"{reason}\" is not in: {message}"
    );
}

#[test]
fn a_good_answer_is_taken() {
    let loss = Guest::default().load().expect("it loads");
    assert_eq!(evaluate(loss.worker().as_mut()), Ok(([0.0; 6], [0.0; 2])));
}

#[test]
fn loops_without_end_are_stopped_wherever_they_are() {
    let post_return = format!(
        "(func (export \"cabi_post_pbg:plugin/loss-computed@0.1.0#evaluate\") (param i32) {LOOP})"
    );
    for (function, guest) in [
        (
            "instantiation",
            Guest {
                extra: format!("(func $spin {LOOP}) (start $spin)"),
                ..Guest::default()
            },
        ),
        (
            "configure",
            Guest {
                configure: LOOP,
                ..Guest::default()
            },
        ),
        (
            "configure",
            Guest {
                realloc: LOOP,
                ..Guest::default()
            },
        ),
        ("evaluate", Guest::evaluating(LOOP)),
        (
            "evaluate",
            Guest {
                extra: post_return,
                ..Guest::default()
            },
        ),
    ] {
        assert_fails(
            &guest,
            &format!("{function}: took longer than {DEADLINE_MS} ms"),
        );
    }
}

#[test]
fn answers_have_the_lengths_of_the_rows() {
    for (lists, reason) in [
        (
            [(8192, 1), (8192, 2), (8192, 6)],
            "returned 1 losses for 2 rows of 3 negatives, expected 2",
        ),
        (
            [(8192, 2), (8192, 3), (8192, 6)],
            "returned 3 gradients of positives",
        ),
        (
            [(8192, 2), (8192, 2), (8192, 5)],
            "returned 5 gradients of negatives",
        ),
        ([(8192, 0), (8192, 0), (8192, 0)], "returned 0 losses"),
        // The list is all of its memory.
        (
            [(0, 131_072), (8192, 2), (8192, 6)],
            "more data than any valid answer",
        ),
    ] {
        assert_fails(&Guest::evaluating(answer(lists)), reason);
    }
}

#[test]
fn answers_must_lie_in_memory() {
    for (lists, reason) in [
        (
            [(8192, 0x0fff_ffff), (8192, 2), (8192, 6)],
            "broke the rules",
        ),
        ([(8192, 2), (0xffff_fff0, 2), (8192, 6)], "broke the rules"),
        ([(8192, 2), (8192, 2), (8193, 6)], "not aligned"),
    ] {
        assert_fails(&Guest::evaluating(answer(lists)), reason);
    }
}

#[test]
fn every_number_of_an_answer_is_finite() {
    for number in ["nan", "nan:0x200001", "inf", "-inf"] {
        // The last number of each list: 8192 and 8200 have the pairs, 8208 the six.
        for (at, what) in [
            (8196, "losses"),
            (8204, "gradients of positives"),
            (8228, "gradients of negatives"),
        ] {
            let lists = answer([(8192, 2), (8200, 2), (8208, 6)]);
            let body = format!("(f32.store (i32.const {at}) (f32.const {number})) {lists}");
            assert_fails(&Guest::evaluating(body), &format!("among the {what}, at "));
        }
    }
}

#[test]
fn memory_has_a_limit() {
    assert_fails(
        &Guest::evaluating(
            "(loop $more (drop (memory.grow (i32.const 100))) (br $more)) (unreachable)",
        ),
        "bytes of memory, its limit is 67108864",
    );
}

#[test]
fn traps_are_named() {
    for (body, reason) in [
        ("(unreachable)", "trapped: it executed `unreachable`"),
        (
            "(i32.load (i32.const -8))",
            "trapped: out of bounds memory access",
        ),
        (
            "(i32.div_u (i32.const 1) (i32.const 0))",
            "trapped: integer divide by zero",
        ),
        (
            "(call $evaluate (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4))",
            "overflowed its stack",
        ),
    ] {
        assert_fails(&Guest::evaluating(body), reason);
    }
}

#[test]
fn an_instance_that_failed_is_not_asked_again() {
    // Only the first call of an instance fails, so a second call of the failed instance would answer.
    let guest = Guest {
        extra: "(global $calls (mut i32) (i32.const 0))".to_owned(),
        evaluate: format!(
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
             (if (i32.eq (global.get $calls) (i32.const 1)) (then {} (return))) {}",
            answer([(8192, 0x0fff_ffff), (8192, 2), (8192, 6)]),
            Guest::default().evaluate
        ),
        ..Guest::default()
    };
    let mut worker = guest.load().expect("it loads").worker();
    for _ in 0..3 {
        evaluate(worker.as_mut()).expect_err("a fresh instance each time");
    }
}
