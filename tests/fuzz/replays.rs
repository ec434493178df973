//! Fuzzing of the files of calls in which a plugin failed.

use std::fs;

use pbg_fuzz::{bytes, json};
use pbg_wasm::{CallReplay, Limits, PluginSource, Sandbox};
use serde_json::{Value, json};

use crate::{fuzz, turn};

/// Returns the contents of a file as the program writes it, for the plugin `name`.
fn replay(name: &str, kind: &str, call: Value) -> Value {
    json!({
        "format": 1,
        "plugin": {"name": name, "version": "0.1.0", "sha256": ""},
        "kind": kind,
        "source": name,
        "function": "plan",
        "reason": "it trapped",
        "limits": serde_json::to_value(Limits::default()).unwrap(),
        "parameters": {},
        "call": call,
    })
}

fn replays() -> Vec<(&'static str, Value)> {
    let pass = json!({
        "lhs_partitions": 2, "rhs_partitions": 2, "shared": true, "edges": [1, 2, 3, 4],
        "lhs_bytes": [8, 8], "rhs_bytes": [8, 8], "buffer_partitions": 2, "resident": [],
        "epoch": 0, "edge_set": 0, "edge_chunk": 0, "seed": 7,
    });
    let draw =
        json!({"call": "draw", "counts": [5, 3], "batch_size": 2, "seed": 1, "losses": [0.5]});
    let order = |call| replay("snake", "bucket_order", call);
    let plan = order(json!({"call": "plan", "pass": pass}));
    let bucket = json!({"lhs": 0, "rhs": 1});
    let pick = order(json!({"call": "pick", "pass": pass, "held": [], "free": [bucket]}));
    let build = replay("softmax", "traced_loss", json!({"call": "build"}));
    vec![
        ("snake", plan),
        ("snake", pick),
        (
            "proportional",
            replay("proportional", "relation_sampler", draw),
        ),
        ("softmax", build),
    ]
}

#[test]
fn replay_files() {
    let turn = turn();
    let replays = replays();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let asked = |name: &str, path: &std::path::Path| {
        let replay = CallReplay::read(path).map_err(|error| error.to_string())?;
        let plugin = PluginSource::resolve(name).and_then(|source| sandbox.open(source));
        let answer = replay.ask(plugin.expect("a standard plugin"), pbg_train::traced);
        answer
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())
    };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("replay.json");
    for (name, valid) in &replays {
        fs::write(&path, valid.to_string()).unwrap();
        asked(name, &path).expect("a replay that is as it was written");
    }
    fuzz(turn, "replay_files", 250, 1 << 30, |dice, place| {
        let (name, valid) = dice.pick(&replays);
        let path = place.join("replay.json");
        let mut changed = valid.clone();
        if dice.below(3) > 0 {
            json(dice, &mut changed);
            fs::write(&path, changed.to_string()).unwrap();
        } else {
            let text = changed.to_string();
            fs::write(&path, bytes(dice, text.as_bytes(), text.as_bytes())).unwrap();
        }
        asked(name, &path).is_ok()
    });
}
