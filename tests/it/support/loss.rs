//! Losses in the text format of WebAssembly that fail or change on demand.

use super::plugin::{DESCRIBE, NAME, common, encode};

/// Returns a computed loss whose `evaluate` has this body. `$rows` and `$scores` are the numbers of positives and
/// negatives, and `$calls` counts calls; [`ZEROS`] is a valid answer.
pub(crate) fn computed(evaluate: &str) -> Vec<u8> {
    computed_as(DESCRIBE, evaluate)
}

/// Does the same, with `fallback` named as its fallback.
pub(crate) fn computed_with_fallback(fallback: &str, evaluate: &str) -> Vec<u8> {
    let mut stores = String::new();
    for (at, byte) in fallback.bytes().enumerate() {
        stores += &format!("(i32.store8 (i32.const {}) (i32.const {byte}))", 224 + at);
    }
    let length = fallback.len();
    let describe = format!(
        "{stores}
        (i32.store (i32.const 96) (i32.const 1))
        (i32.store (i32.const 100) (i32.const 224)) (i32.store (i32.const 104) (i32.const {length}))
        {DESCRIBE}"
    );
    computed_as(&describe, evaluate)
}

fn computed_as(describe: &str, evaluate: &str) -> Vec<u8> {
    let common = common(NAME, 40, describe);
    encode(
        "softmax_computed",
        &format!(
            r#"(module
            {common}
            (global $calls (mut i32) (i32.const 0))
            (func (export "pbg:plugin/loss-computed@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/loss-computed@0.1.0#evaluate")
                (param $positive i32) (param $rows i32) (param $negative i32) (param $scores i32) (param $columns i32)
                (result i32)
                (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
                (global.set $free (i32.const 16384))
                {evaluate}))"#
        ),
    )
}

/// Ends `evaluate` with losses and gradients that are 0.
pub(crate) const ZEROS: &str = "
    (i32.store (i32.const 160) (i32.const 0))
    (i32.store (i32.const 164) (i32.const 1048576)) (i32.store (i32.const 168) (local.get $rows))
    (i32.store (i32.const 172) (i32.const 1048576)) (i32.store (i32.const 176) (local.get $rows))
    (i32.store (i32.const 180) (i32.const 1048576)) (i32.store (i32.const 184) (local.get $scores))
    (i32.const 160)";

/// Returns a traced loss, the sum of `max(0, m - s + t)` over the negatives, whose margin `m` begins at 0.5. `update`
/// has this body and is called after every five batches; `$step`, `$mean` and `$values` are its arguments.
pub(crate) fn traced(update: &str) -> Vec<u8> {
    traced_as(update, 6)
}

/// Returns a traced loss that is the score of the positive, whatever the negatives' scores are.
pub(crate) fn positive_alone() -> Vec<u8> {
    traced_as(&margin("(f32.const 0.5)"), 0)
}

/// Returns the formula of [`traced`] with node `output` as the loss.
fn traced_as(update: &str, output: u32) -> Vec<u8> {
    // A case and three words per node: scores, the margin, t - s, + m, relu, their sum.
    let nodes: [(u8, [u32; 3]); 7] = [
        (0, [0; 3]),
        (1, [0; 3]),
        (4, [0; 3]),
        (6, [1, 1, 0]),
        (6, [0, 3, 2]),
        (5, [7, 4, 0]),
        (9, [0, 5, 0]),
    ];
    let mut graph = Vec::new();
    for (case, words) in nodes {
        graph.extend([case, 0, 0, 0]);
        graph.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    let common = common(NAME, 2, DESCRIBE);
    let graph: String = graph.iter().map(|byte| format!("\\{byte:02x}")).collect();
    encode(
        "softmax",
        &format!(
            r#"(module
            {common}
            (data (i32.const 1024) "{graph}")
            (data (i32.const 2048) "margin")
            (func (export "pbg:plugin/loss-traced@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/loss-traced@0.1.0#build") (result i32)
                (i32.store (i32.const 2064) (i32.const 2048)) (i32.store (i32.const 2068) (i32.const 6))
                (f32.store (i32.const 2072) (f32.const 0.5))
                (i32.store (i32.const 160) (i32.const 0))
                (i32.store (i32.const 164) (i32.const 1024)) (i32.store (i32.const 168) (i32.const 7))
                (i32.store (i32.const 172) (i32.const {output}))
                (i32.store (i32.const 176) (i32.const 2064)) (i32.store (i32.const 180) (i32.const 1))
                (i32.store (i32.const 184) (i32.const 5))
                (i32.const 160))
            (func (export "pbg:plugin/loss-traced@0.1.0#update")
                (param $step i64) (param $edges i64) (param $mean f32) (param $values i32) (param $count i32)
                (result i32)
                (global.set $free (i32.const 16384))
                {update}))"#
        ),
    )
}

/// Ends `update` with this value of the margin.
pub(crate) fn margin(value: &str) -> String {
    format!(
        "(f32.store (i32.const 256) {value})
         (i32.store (i32.const 160) (i32.const 0))
         (i32.store (i32.const 164) (i32.const 256)) (i32.store (i32.const 168) (i32.const 1))
         (i32.const 160)"
    )
}
