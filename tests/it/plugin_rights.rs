//! Grants, pins, faults and their replay, and cached compiled code, as a user meets them.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::plugin::{GRID, greedy_sampler, with_plan, zeros};
use crate::support::{Workplace, finish, graph::CONFIG};

const EPOCH: [&str; 5] = ["train", "--set", "num_epochs=1", "--progress", "none"];

/// Returns the small graph's configuration with batches of one relation, which samplers draw.
fn static_relations() -> String {
    CONFIG
        .replace("dynamic_relations = true", "")
        .replace("name = \"any\"", "name = \"*\"")
}

/// Returns the lines of one kind in `metrics.jsonl`.
fn events(place: &Workplace, kind: &str) -> Vec<Value> {
    let lines = place.read("model/metrics.jsonl");
    lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event"] == kind)
        .collect()
}

/// Trains with the component `evil.wasm`, which fails, and the standard plugin as its fallback; returns the messages.
fn fall_back(place: &Workplace, evil: &[u8]) -> String {
    place.write("evil.wasm", evil);
    let fallback = [
        "--plugin",
        "evil.wasm",
        "--set",
        "plugins.on_fault=fallback",
    ];
    place.run(EPOCH.iter().chain(&fallback)).succeeds().stderr
}

#[test]
fn the_standard_order_takes_the_place_of_one_that_fails() {
    let (place, standard) = (
        Workplace::with_dataset(CONFIG),
        Workplace::with_dataset(CONFIG),
    );
    let said = fall_back(&place, &with_plan("unreachable"));
    assert!(said.contains("inside_out 0.1.0 replaces it"), "{said}");
    let faults = events(&place, "plugin_fault");
    assert_eq!(faults.len(), 1);
    assert_eq!(
        (&faults[0]["plugin"], &faults[0]["function"]),
        (&"evil 6.6.6".into(), &"plan".into())
    );
    standard
        .run(EPOCH.iter().chain(&["--set", "bucket_order=inside_out"]))
        .succeeds();
    assert_eq!(place.committed("model"), standard.committed("model"));
}

#[test]
fn the_standard_sampler_goes_on_with_the_edges_that_are_left() {
    let (place, standard) = (
        Workplace::with_dataset(&static_relations()),
        Workplace::with_dataset(&static_relations()),
    );
    let said = fall_back(&place, &greedy_sampler());
    assert!(said.contains("proportional 0.1.0 replaces it"), "{said}");
    let faults = events(&place, "plugin_fault");
    assert_eq!(faults.len(), 1, "one fault, not one per bucket: {faults:?}");
    let reason = faults[0]["reason"].as_str().unwrap();
    assert!(reason.contains("relation 0, which has 0 left"), "{reason}");
    standard.run(EPOCH).succeeds();
    let trained = |place: &Workplace| events(place, "epoch_finished")[0]["stats"]["count"].clone();
    assert_eq!(trained(&place), trained(&standard));
}

#[test]
fn a_sampler_that_overdraws_ends_the_run_and_keeps_the_checkpoint() {
    let place = Workplace::with_dataset(&static_relations());
    place.run(EPOCH).succeeds();
    let before = place.committed("model");
    place.write("evil.wasm", greedy_sampler());
    place
        .run(["train", "--plugin", "evil.wasm", "--allow-plugin-change"])
        .fails(6, &["evil 6.6.6: next", "which has 0 left"]);
    assert_eq!(place.committed("model"), before);
    place
        .run(["plugin", "replay", "model/faults/evil-next-1.json"])
        .fails(6, &["which has 0 left"]);
    place.run(["train", "--progress", "none"]).succeeds();
}

#[test]
fn a_fault_can_be_replayed() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", with_plan(&zeros(GRID)));
    let said = place
        .run(["train", "--plugin", "evil.wasm"])
        .fails(6, &["twice"]);
    let file = "model/faults/evil-plan-1.json";
    assert!(said.stderr.contains(file), "{}", said.stderr);
    place
        .run(["plugin", "replay", file])
        .fails(6, &["evil 6.6.6: plan", "twice"]);
    let mended = place
        .run(["plugin", "replay", file, "--plugin", "snake"])
        .succeeds();
    assert!(
        mended.stdout.contains("a plan of 9 buckets"),
        "{}",
        mended.stdout
    );
    place.write("evil.wasm", with_plan("unreachable"));
    place
        .run(["plugin", "replay", file])
        .fails(6, &["no longer the evil that failed", "--plugin"]);
    place
        .run(["plugin", "replay", "pbg.toml"])
        .fails(2, &["pbg.toml", "not a replay file"]);
}

#[test]
fn other_plugins_than_the_checkpoints_need_consent() {
    let place = Workplace::with_dataset(&static_relations());
    place.run(EPOCH).succeeds();
    let before = place.committed("model");
    let other = ["train", "--progress", "none", "--set", "num_epochs=2"];
    for change in [
        &["--plugin", "snake"][..],
        &["--plugin", "uniform"],
        &["--set", "bucket_order=snake"],
        &["--set", "relation_sampler=round_robin"],
    ] {
        place.run(other.iter().chain(change)).fails(5, &["other"]);
        assert_eq!(place.committed("model"), before);
    }
    let refused = place.run(other.iter().chain(&["--plugin", "snake"]));
    let refused = refused.fails(5, &["snake 0.1.0 (sha256 ", "--allow-plugin-change"]);
    assert!(
        !refused.stderr.contains("sampler was"),
        "{}",
        refused.stderr
    );
    let consent = ["--set", "bucket_order=snake", "--allow-plugin-change"];
    place.run(other.iter().chain(&consent)).succeeds();
    // Consent concerns plugins and nothing else.
    place
        .run([
            "train",
            "--allow-plugin-change",
            "--set",
            "lr=0.5",
            "--set",
            "bucket_order=snake",
        ])
        .fails(5, &["lr"]);
}

#[test]
fn an_order_is_read_from_a_granted_folder_alone() {
    let grant = "[[plugins.grants]]\nplugin = 'from_file'\nread = ['orders']\n";
    let place = Workplace::with_dataset(&format!("{CONFIG}\n{grant}"));
    let order = [
        "train",
        "--progress",
        "none",
        "--set",
        "bucket_order=from_file",
    ];
    place.run(order).fails(6, &["from_file", "orders"]);
    place.write("orders/order.csv", "0,0\n0,1\n");
    place
        .run(order)
        .fails(6, &["order.csv: does not name bucket"]);
    let grid: String = (0..9)
        .map(|i| format!("{},{}\n", 2 - i / 3, i % 3))
        .collect();
    place.write("orders/order.csv", &grid);
    place.run(order).succeeds();
    place.write("secret.csv", &grid);
    let out = [
        "--set",
        "plugins.params.from_file.path=\"../secret.csv\"",
        "--set",
        "checkpoint_path=m2",
    ];
    place
        .run(order.iter().chain(&out))
        .fails(6, &["../secret.csv"]);
    let shown = place
        .run(["plugin", "inspect", "from_file"])
        .succeeds()
        .stdout;
    assert!(shown.contains("asks for  files"), "{shown}");
}

#[test]
fn pins_are_for_the_plugins_that_run() {
    let pin = |plugin: &str, sha256: &str| {
        format!("plugins.pins=[{{ plugin = \"{plugin}\", sha256 = \"{sha256}\" }}]")
    };
    let place = Workplace::with_dataset(CONFIG);
    let shown = place
        .run(["plugin", "inspect", "inside_out", "--json"])
        .succeeds();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let sha256 = shown["sha256"].as_str().unwrap();
    let wrong = "0".repeat(64);
    let check = |pin: &str| place.run(["check", "--set", "bucket_order=inside_out", "--set", pin]);
    check(&pin("inside_out", sha256)).succeeds();
    check(&pin("inside_out", &wrong)).fails(6, &["its pin requires", sha256]);
    check(&pin("snake", sha256)).fails(3, &["snake is pinned"]);
    check(&pin("inside_out", "abc")).fails(3, &["64 hexadecimal digits"]);
}

#[test]
fn what_is_said_of_plugins_that_take_no_part_is_doubted() {
    let place = Workplace::with_dataset(CONFIG);
    let said = |set: &[&str]| {
        let pairs = set.iter().flat_map(|set| ["--set", set]);
        place
            .run(["check"].into_iter().chain(pairs))
            .succeeds()
            .stderr
    };
    let ranking = "plugins.params.ranking.margin=0.5";
    let softmax = "loss_fn=softmax";
    assert!(!said(&["loss_fn=ranking", ranking]).contains("ranking"));
    let unknown = said(&[softmax, ranking]);
    assert!(
        unknown.contains("plugins.params: ranking is not a plugin of this run"),
        "{unknown}"
    );
    place
        .run(["check", "--set", "plugins.params.rankin.margin=0.5"])
        .fails(3, &["plugins.params: rankin", "did you mean `ranking`?"]);
    place
        .run(["train", "--plugin", "round_robin"])
        .fails(2, &["round_robin", "`dynamic_relations`"]);
    let fallback = "plugins.on_fault=fallback";
    let standby = said(&["loss_fn=logistic", fallback, ranking]);
    assert!(
        standby.contains("plugins.params: ranking is used only if another plugin fails"),
        "{standby}"
    );
}

#[test]
fn compiled_code_that_was_damaged_is_made_again() {
    let place = Workplace::empty();
    let inspect = || {
        let mut command = place.command(["plugin", "inspect", "snake"]);
        finish(command.env("PBG_HOST_CACHE", place.path("cache"))).succeeds()
    };
    inspect();
    let files = || {
        fs::read_dir(place.path("cache"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let code = files().find(|path| !path.ends_with("key")).unwrap();
    let sound = fs::read(&code).unwrap();
    let mut broken = sound.clone();
    broken[sound.len() / 2] ^= 0xff;
    fs::write(&code, broken).unwrap();
    inspect();
    assert_eq!(fs::read(&code).unwrap().len(), sound.len());
    assert_eq!(files().count(), 2);
}

#[test]
fn a_low_limit_of_file_sizes_is_no_reason_to_die() {
    let place = Workplace::empty();
    let program = place.command(["plugin", "inspect", "snake"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -f 1; exec \"$0\" plugin inspect snake"])
        .arg(program.get_program())
        .env("PBG_HOST_CACHE", place.path("cache"));
    let shown = finish(&mut shell).succeeds();
    assert!(shown.stdout.contains("snake"), "{}", shown.stdout);
}
