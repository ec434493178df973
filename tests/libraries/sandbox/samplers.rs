//! Attempts of hostile and broken relation samplers.

use pbg_core::strategy::SamplerFactory as _;
use pbg_wasm::{LoadError, LoadedSampler, PluginSource};
use serde_json::Value;

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::sampler::{Guest, draw, refuse};
use crate::sandbox::support::{DEADLINE_MS, LOOP, sandbox};

fn load(guest: &Guest) -> Result<LoadedSampler, LoadError> {
    let source = PluginSource::Bytes {
        label: "evil.wasm".to_owned(),
        bytes: guest.component(),
    };
    sandbox().open(source)?.into_sampler(&Value::Null)
}

/// Draws a share of 3 + 2 edges in batches of 2, and asserts that this fails in time, for this reason.
#[track_caller]
fn assert_fails(guest: &Guest, reason: &str) {
    let message = bounded(|| match load(guest) {
        Err(error) => error.to_string(),
        Ok(factory) => match drain(&factory) {
            Err(error) => error,
            Ok(drawn) => panic!("it drew {drawn:?}"),
        },
    });
    assert!(message.contains("plugin evil"), "{message}");
    assert!(
        message.contains(reason),
        "\"{reason}\" is not in: {message}"
    );
}

fn drain(factory: &LoadedSampler) -> Result<Vec<(u32, u32)>, String> {
    let mut walk = factory.create(&[3, 2], 2, 7).map_err(|e| e.to_string())?;
    let mut drawn = Vec::new();
    loop {
        match walk.next() {
            Ok(Some(draw)) => {
                drawn.push((draw.relation, draw.edges));
                walk.observe(draw.relation, 0.5)
                    .map_err(|e| e.to_string())?;
            }
            Ok(None) => return Ok(drawn),
            Err(error) => {
                // The walk is over: the state of the instance is gone.
                walk.next().expect_err("nothing is drawn after a fault");
                return Err(error.to_string());
            }
        }
    }
}

#[test]
fn a_good_sampler_draws_everything() {
    let factory = load(&Guest::default()).expect("it loads");
    let expected = [(0, 2), (0, 1), (1, 2)];
    assert_eq!(drain(&factory).expect("it draws"), expected);
    assert_eq!(drain(&factory).expect("a second walk draws"), expected);
}

#[test]
fn loops_without_end_are_stopped_wherever_they_are() {
    let stopped = |function: &str| format!(": {function}: took longer than {DEADLINE_MS} ms");
    let looping = || LOOP.to_owned();
    let post_return = format!(
        "(func (export \"cabi_post_pbg:plugin/relation-sampler@0.1.0#[method]sampler.next\") (param i32) {LOOP})"
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
            "describe",
            Guest {
                describe: looping(),
                ..Guest::default()
            },
        ),
        (
            "configure",
            Guest {
                realloc: looping(),
                ..Guest::default()
            },
        ),
        (
            "next",
            Guest {
                extra: post_return,
                ..Guest::default()
            },
        ),
        (
            "configure",
            Guest {
                configure: looping(),
                ..Guest::default()
            },
        ),
        (
            "create",
            Guest {
                create: looping(),
                ..Guest::default()
            },
        ),
        (
            "next",
            Guest {
                next: looping(),
                ..Guest::default()
            },
        ),
        (
            "observe",
            Guest {
                observe: looping(),
                ..Guest::default()
            },
        ),
    ] {
        assert_fails(&guest, &stopped(function));
    }
}

/// The host would have to call it at the end of a run, or after a fault.
#[test]
fn no_destructor_is_called() {
    let destructor =
        "(func (export \"pbg:plugin/relation-sampler@0.1.0#[dtor]sampler\") (param i32)";
    let guest = Guest {
        extra: format!("{destructor} {LOOP})"),
        ..Guest::default()
    };
    let drawn = bounded(|| load(&guest).map(|factory| drain(&factory)));
    assert_eq!(drawn.expect("it loads").expect("it draws").len(), 3);
}

#[test]
fn draws_of_what_is_not_there_are_refused() {
    for (relation, edges, reason) in [
        (
            0,
            4,
            "next: it drew 4 edges of relation 0, which has 3 left",
        ),
        (
            0,
            3,
            "next: it drew 3 edges at once, but a batch has at most 2",
        ),
        (0, 0, "next: it drew 0 edges of relation 0"),
        (2, 1, "next: it drew relation 2, but there are 2"),
        (-1, 1, "next: it drew relation 4294967295, but there are 2"),
        (
            1,
            1,
            "next: it drew 1 edges of relation 1, which has 0 left",
        ),
    ] {
        let guest = Guest {
            next: draw(relation, edges),
            ..Guest::default()
        };
        assert_fails(&guest, reason);
    }
}

#[test]
fn an_early_end_is_refused() {
    let guest = Guest {
        next: "(i64.store (i32.const 512) (i64.const 0)) (i32.const 512)".to_owned(),
        ..Guest::default()
    };
    assert_fails(&guest, "next: it ended with 5 edges left to draw");
}

#[test]
fn refusals_are_shown_as_they_stand() {
    let guest = Guest {
        create: refuse(),
        ..Guest::default()
    };
    assert_fails(
        &guest,
        "plugin evil 0.1.0: create: refuses: not on tuesdays",
    );
    let guest = Guest {
        next: refuse(),
        ..Guest::default()
    };
    assert_fails(&guest, "plugin evil 0.1.0: next: refuses: not on tuesdays");
}

#[test]
fn handles_have_a_limit() {
    let guest = Guest {
        create: "(loop $more (drop (call $new (i32.const 1))) (br $more)) (unreachable)".to_owned(),
        ..Guest::default()
    };
    assert_fails(&guest, "create: holds more than 1000 resource handles");
}

#[test]
fn a_handle_must_be_one() {
    let guest = Guest {
        create: "(i32.store8 (i32.const 512) (i32.const 0)) (i32.store (i32.const 516) (i32.const 77)) (i32.const 512)"
            .to_owned(),
        ..Guest::default()
    };
    assert_fails(&guest, "create: broke the rules of the component interface");
}

#[test]
fn memory_and_tables_have_a_limit() {
    let next = |body: &str| Guest {
        extra: "(table $t 1 funcref)".to_owned(),
        next: format!("{body} (unreachable)"),
        ..Guest::default()
    };
    for (guest, reason) in [
        (
            next("(loop $more (drop (memory.grow (i32.const 100))) (br $more))"),
            "bytes of memory, its limit is 67108864",
        ),
        (
            next("(drop (table.grow $t (ref.null func) (i32.const 100000000)))"),
            "table entries, its limit is 100000",
        ),
    ] {
        assert_fails(&guest, reason);
    }
}

#[test]
fn traps_are_named() {
    for (body, reason) in [
        ("(unreachable)", "next: trapped: it executed `unreachable`"),
        ("(call $next (local.get 0))", "next: overflowed its stack"),
        (
            "(i32.load (i32.const -8))",
            "next: trapped: out of bounds memory access",
        ),
        (
            "(i32.div_u (i32.const 1) (i32.const 0))",
            "next: trapped: integer divide by zero",
        ),
    ] {
        let guest = Guest {
            next: body.to_owned(),
            ..Guest::default()
        };
        assert_fails(&guest, reason);
    }
    let guest = Guest {
        observe: "(unreachable)".to_owned(),
        ..Guest::default()
    };
    assert_fails(&guest, "observe: trapped");
}

#[test]
fn answers_that_are_none_are_refused() {
    for body in [
        // A record that is neither a draw nor a refusal, one beyond the memory, a refusal of half a gigabyte.
        "(i32.store8 (i32.const 512) (i32.const 9)) (i32.const 512)",
        "(i32.const 0x7fffff00)",
        "(i32.store8 (i32.const 512) (i32.const 1)) (i32.store (i32.const 516) (i32.const 0))
         (i32.store (i32.const 520) (i32.const 0x1fffffff)) (i32.const 512)",
    ] {
        let guest = Guest {
            next: body.to_owned(),
            ..Guest::default()
        };
        assert_fails(&guest, "next: broke the rules of the component interface");
    }
}
