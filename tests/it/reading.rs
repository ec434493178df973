//! Commands that read a checkpoint while a run commits after every bucket.

use std::fs;

use serde_json::Value;

use crate::support::graph::{CONFIG, name};
use crate::support::{Running, Workplace, finish};

/// Runs of each command.
const TIMES: usize = 3;

/// Starts a run that does not end, and waits for its first commit.
fn committing(place: &Workplace) -> Running {
    let endless = "train --progress none --set checkpoint_interval=0 --set num_epochs=1000000";
    let mut run = place.start(endless.split(' '));
    assert!(run.wait_until(|| place.path("model/manifest.json").exists()));
    run
}

fn version(place: &Workplace) -> u64 {
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    manifest["version"].as_u64().unwrap()
}

#[test]
fn every_command_reads_one_version_beside_a_run_that_commits() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("questions.tsv", format!("{}\tnext\t?\n", name(0, 3)));
    place.write("names.txt", format!("{}\n{}\n", name(0, 3), name(1, 4)));
    let other = CONFIG.replace("\"model\"", "\"other\"");
    place.write("other.toml", format!("init_path = \"model\"\n{other}"));
    let run = committing(&place);
    let near = name(0, 3);
    let commands: [&[&str]; 17] = [
        &["eval", "--edges", "test", "--filter", "train,test"],
        &["eval", "model", "--edges", "test", "--candidates", "20"],
        &["eval", "--edges", "test", "--check"],
        &["export", "--out", "OUT", "--format", "npy"],
        &["export", "model", "--out", "OUT", "--format", "parquet"],
        &[
            "predict",
            "--questions",
            "questions.tsv",
            "--out",
            "OUT.parquet",
        ],
        &["predict", "--head", &near, "--relation", "next", "--json"],
        &["neighbors", &near],
        &["neighbors", "model", &near, "--relation", "near"],
        &["map", "--names", "names.txt", "--html", "OUT.html"],
        &["index", "--recall-queries", "20"],
        &[
            "index",
            "model",
            "--comparator",
            "cos",
            "--recall-queries",
            "20",
        ],
        &["combine", "average", "model", "model", "--out", "OUT"],
        &["combine", "concatenate", "model", "model", "--out", "OUT"],
        &["report", "--json"],
        &[
            "report",
            "--html",
            "OUT.html",
            "--map",
            "--neighbors",
            &near,
            "--questions",
            "questions.tsv",
        ],
        &["check"],
    ];
    let (mut at, mut longest) = (version(&place), 0);
    for (number, command) in commands.iter().enumerate() {
        for time in 0..TIMES {
            let out = format!("out{number}_{time}");
            let arguments = command.iter().map(|word| word.replace("OUT", &out));
            place.run(arguments).succeeds();
            let now = version(&place);
            (longest, at) = (longest.max(now - at), now);
        }
    }
    for time in 0..TIMES {
        let edges = fs::File::open(place.path("test.tsv")).unwrap();
        finish(place.command(["score"]).stdin(edges)).succeeds();
        place.run(["check", "other.toml"]).succeeds();
        place
            .run(["train", "other.toml", "--progress", "none"])
            .succeeds();
        assert!(place.path("other/manifest.json").exists(), "{time}");
        fs::remove_dir_all(place.path("other")).unwrap();
    }
    // The run did commit between the commands, and many times during one command.
    assert!(longest > 5, "{longest} commits");
    run.signal("INT");
    run.finish();
}

/// `index` reports that the run has committed newer versions since.
#[test]
fn an_index_is_of_the_version_that_it_began_with() {
    let place = Workplace::with_dataset(CONFIG);
    let run = committing(&place);
    let built = place
        .run(["index", "--recall-queries", "20", "--json"])
        .succeeds();
    let report: Value = serde_json::from_str(&built.stdout).unwrap();
    let (of, newer) = (report["version"].as_u64(), report["newer"].as_u64());
    assert!(newer > of, "{report}");
    let newer = format!("has committed version {}", newer.unwrap());
    assert!(built.stderr.contains(&newer), "{}", built.stderr);
    run.kill();
    // The index is refused as outdated, not as damaged.
    let index = place.run(["neighbors", &name(0, 3), "--index"]);
    let said = &index
        .fails(5, &["other embeddings", "rebuilds the index"])
        .stderr;
    assert!(!said.contains("damaged"), "{said}");
    place.run(["index", "--recall-queries", "20"]).succeeds();
    place.run(["neighbors", &name(0, 3), "--index"]).succeeds();
}

/// The error for a damaged file suggests only remedies that exist, and never to delete anything.
#[test]
fn advice_names_what_was_kept() {
    let place = Workplace::with_dataset(CONFIG);
    let damage = |place: &Workplace| {
        let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
        let file = manifest["files"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap();
        let path = place.path("model").join(file);
        // The kept versions share the file.
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    };
    place.run(["train", "--progress", "none"]).succeeds();
    damage(&place);
    let said = place
        .run(["export", "--format", "npy", "--out", "out"])
        .fails(5, &["is damaged", "no other version was kept"]);
    assert!(!said.stderr.contains("delete"), "{}", said.stderr);
    fs::remove_dir_all(place.path("model")).unwrap();
    let keep = "train --progress none --set checkpoint_preservation_interval=1";
    place.run(keep.split(' ')).succeeds();
    damage(&place);
    place
        .run(["export", "--format", "npy", "--out", "out"])
        .fails(5, &["is damaged", "model/epoch_2 was kept"]);
    // Tries both remedies that the error suggests.
    place
        .run([
            "export",
            "model/epoch_2",
            "--format",
            "npy",
            "--out",
            "kept",
        ])
        .succeeds();
    for entry in fs::read_dir(place.path("model/epoch_2")).unwrap() {
        let entry = entry.unwrap();
        // Replaces the file instead of writing into it: the versions share intact files.
        let (bytes, to) = (
            fs::read(entry.path()).unwrap(),
            place.path("model").join(entry.file_name()),
        );
        let _absent = fs::remove_file(&to);
        fs::write(to, bytes).unwrap();
    }
    place
        .run(["export", "--format", "npy", "--out", "out"])
        .succeeds();
    place
        .run(["train", "--progress", "none", "--set", "num_epochs=3"])
        .succeeds();
}
