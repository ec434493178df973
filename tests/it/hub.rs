//! `export --format hub`: a folder that commands read without the dataset and the checkpoint that it was made of.

use std::fs;

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::{CONFIG, name};

const EXPORT: [&str; 6] = ["export", "model", "--format", "hub", "--out", "hub"];

/// Formula of an operator that a plugin has built with a path.
const BUILT: &str = r#"{"plugin": "shifts 0.1.0", "params": {"path": "HERE/shifts.json"},
    "name": "shifts", "components": 1, "parameters": [{"name": "shift", "initial": "zero"}],
    "nodes": [{"component": 0}, {"parameter": 0}, {"binary": ["add", 0, 1]}], "outputs": [2]}"#;

/// Trains with absolute paths in the configuration, with keys that only this machine has, with an operator that a plugin
/// has built with a path, and with validation.
fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    let here = place.path("").display().to_string();
    let at = |name: &str| format!("\"{}\"", place.path(name).display());
    let config = CONFIG
        .replace("\"data\"", &at("data"))
        .replace("\"model\"", &at("model"))
        .replace("\"translation\"", "\"shifts\"");
    let built = BUILT.replace("HERE", &here);
    let own = format!(
        "[formulas]\nshifts = '''{built}'''\n[validation]\nedges = \"test\"\n[plugins.params.from_file]\npath = {}\n\
         [[plugins.grants]]\nplugin = \"from_file\"\nread = [\"{here}\"]\n",
        at("plan.json")
    );
    place.write("pbg.toml", format!("{config}\n{own}"));
    place.run(["train", "--progress", "none"]).succeeds();
    place
}

#[test]
fn an_exported_folder_answers_alone_and_names_no_place() {
    let place = trained();
    let head = name(0, 3);
    let asked = |folder: &str, unfiltered: &[&str]| {
        let ask = ["predict", folder, "--head", &*head, "--relation", "next"];
        place.run([&ask[..], unfiltered].concat()).succeeds().stdout
    };
    let before = asked("model", &["--unfiltered"]);
    let export = place.run(EXPORT).succeeds();
    for line in export.stdout.lines() {
        assert!(place.path(line).is_file(), "{line}");
    }
    fs::rename(place.path("model"), place.path("elsewhere")).unwrap();
    fs::rename(place.path("data"), place.path("gone")).unwrap();
    assert_eq!(asked("hub", &[]), before);
    place.run(["neighbors", "hub", &head]).succeeds();
    place
        .run(["export", "hub", "--format", "npy", "--out", "arrays"])
        .succeeds();
    let (manifest, original) = ("hub/manifest.json", "elsewhere/manifest.json");
    let [manifest, original] = [manifest, original].map(|path| place.read(path));
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let here = place.path("").display().to_string();
    let here = here.trim_end_matches('/');
    let told = manifest.to_string();
    for hidden in [here, "plan.json", "shifts.json"] {
        assert!(
            original.contains(hidden) && !told.contains(hidden),
            "{told}"
        );
    }
    assert!(told.contains("shifts 0.1.0"), "{told}");
    assert!(!place.path("hub/metrics.jsonl").exists());
    let card = place.read("hub/README.md");
    for part in [
        "---\nlibrary_name: pbg-host\n",
        "# hub\n",
        "80 entities and 4 relations",
        "| place | 80 | 16 |",
        "Filtered ranks among all entities",
        "| comparator | dot |",
        "| MRR |",
        "      value: 0.",
    ] {
        assert!(card.contains(part), "`{part}` is not in\n{card}");
    }
    assert!(!card.contains(here), "{card}");
    // There are no edges to go on with.
    place
        .run(["train", "hub", "--set", "num_epochs=9"])
        .fails(4, &["train"]);
}

#[test]
fn only_an_earlier_export_is_replaced() {
    let place = trained();
    place.run(EXPORT).succeeds();
    place.write("hub/.gitattributes", "*.safetensors filter=lfs");
    place.run(EXPORT).fails(2, &["already exists"]);
    let mut into = EXPORT;
    into[5] = "mine";
    for name in ["README.md", "dataset/manifest.json"] {
        place.write(&format!("mine/{name}"), "mine");
        let refused = place.run([&into[..], &["--overwrite"]].concat());
        refused.fails(2, &["does not belong to an earlier export"]);
        assert_eq!(place.read(&format!("mine/{name}")), "mine");
        fs::remove_dir_all(place.path("mine")).unwrap();
    }
    place
        .run(["train", "--progress", "none", "--set", "num_epochs=3"])
        .succeeds();
    place
        .run([&EXPORT[..], &["--overwrite"]].concat())
        .succeeds();
    let embeddings = fs::read_dir(place.path("hub")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("embeddings_")
    });
    assert_eq!(embeddings.count(), 3);
    assert!(place.path("hub/.gitattributes").exists());
    for folder in ["model", "data", "model/best"] {
        let mut into = EXPORT;
        into[5] = folder;
        let refused = place.run([&into[..], &["--overwrite"]].concat());
        refused.fails(2, &["belongs to"]);
    }
}

/// An export that was interrupted before its manifest was written is no model, and can be repeated.
#[test]
fn an_interrupted_export_is_repeated() {
    let place = trained();
    place.run(EXPORT).succeeds();
    fs::remove_file(place.path("hub/manifest.json")).unwrap();
    fs::remove_dir_all(place.path("hub/dataset")).unwrap();
    let entity = name(0, 3);
    let ask = ["neighbors", "hub", &*entity];
    place.run(ask).fails(5, &["hub"]);
    place
        .run([&EXPORT[..], &["--overwrite"]].concat())
        .succeeds();
    place.run(ask).succeeds();
}

#[test]
fn a_calibration_goes_with_the_version_that_it_belongs_to() {
    let place = trained();
    let again = [&EXPORT[..], &["--overwrite"]].concat();
    place.run(["calibrate", "--edges", "test"]).succeeds();
    place.run(EXPORT).succeeds();
    let head = name(0, 3);
    let ask = ["predict", "hub", "--head", &*head, "--relation", "next"];
    let ask = [&ask[..], &["--probability", "--unfiltered"]].concat();
    place.run(&ask).succeeds();
    // That of an earlier version is left out, and does not stay from the earlier export either.
    place
        .run(["train", "--progress", "none", "--set", "num_epochs=9"])
        .succeeds();
    place.run(again).succeeds();
    assert!(!place.path("hub/calibration.json").exists());
    place.run(&ask).fails(5, &["there is none"]);
}
