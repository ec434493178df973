//! Studies of bucket orders: which runs they refuse to mix, and what they say about differences.

use std::fs;

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::CONFIG;

const STUDY: &str = "orders train pbg.toml --order random";

fn json(place: &Workplace, path: &str) -> Value {
    serde_json::from_str(&place.read(path)).unwrap()
}

fn component(name: &str) -> &'static [u8] {
    let mut all = pbg_wasm::standard_plugins().iter();
    all.find(|plugin| plugin.name == name).unwrap().bytes
}

/// Whatever may change results or times is refused, with the name of what differs.
#[test]
fn a_study_refuses_runs_of_other_settings() {
    let place = Workplace::with_dataset(CONFIG);
    fs::write(place.path("own.wasm"), component("softmax")).unwrap();
    let with_loss = CONFIG.replace("\"softmax\"", "\"own.wasm\"");
    assert!(with_loss.contains("own.wasm"), "{with_loss}");
    place.write("pbg.toml", &with_loss);
    let run = |more: &str| {
        let arguments = format!("{STUDY} {more}");
        place.run(arguments.split_whitespace())
    };
    run("--set num_epochs=1").succeeds();
    for (setting, message) in [
        ("buffer_partitions=3", "buffer_partitions: 3, not 2"),
        (
            "execution.buckets_ahead=3",
            "execution.buckets_ahead: 3, not 1",
        ),
        ("init_path='vectors'", "init_path"),
        (
            "plugins.limits.memory_mib=99",
            "plugins.limits.memory_mib: 99, not",
        ),
    ] {
        run(&format!("--set {setting}")).fails(5, &[message, "--study"]);
    }
    // What is the default already, and more epochs, change nothing about the runs that are there.
    run("--set execution.buckets_ahead=1 --set num_epochs=1").succeeds();

    // The name of the loss is the same, but not its component.
    fs::write(place.path("own.wasm"), component("logistic")).unwrap();
    run("--set num_epochs=1").fails(5, &["loss: logistic", "not softmax", "SHA-256"]);
    fs::write(place.path("own.wasm"), component("softmax")).unwrap();
    run("--set num_epochs=1").succeeds();

    let path = "model-study/random/seed-7/result.json";
    let recorded = json(&place, path);
    let store = |changed: &Value| place.write(path, changed.to_string());
    let mut other = recorded.clone();
    other["settings"]["program"] = "pbg-host 0.0.9, SHA-256 00".into();
    store(&other);
    run("--set num_epochs=1").fails(5, &["program: pbg-host", "not pbg-host 0.0.9, SHA-256 00"]);
    // A run that does not say what its settings were may have had any.
    let mut unknown = recorded;
    unknown["settings"] = serde_json::json!({});
    store(&unknown);
    run("--set num_epochs=1").fails(5, &["other settings", "not recorded"]);
}
