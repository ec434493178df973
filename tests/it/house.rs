//! The map in docs/architecture.md is true: it has every crate, and the invariants that the compiler cannot enforce are
//! tested here.

mod circles;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn map() -> String {
    fs::read_to_string(root().join("docs/architecture.md")).unwrap()
}

/// Returns the program's Rust files below `folder`, relative to the repository, with their text. Tests and benches are
/// left out.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "benches", "target", "templates"].contains(&&*name) {
                open.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let short = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((short, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// Returns the files below `folders` in which a line of code has one of `words`.
fn files_with(folders: &[&str], words: &[&str]) -> BTreeSet<String> {
    let says = |text: &str| {
        let code = text.lines().map(str::trim_start);
        code.filter(|line| !line.starts_with("//"))
            .any(|line| words.iter().any(|word| names(line, word)))
    };
    let all = folders.iter().flat_map(|folder| sources(folder));
    all.filter(|(_, text)| says(text))
        .map(|(name, _)| name)
        .collect()
}

/// Returns whether `word` is in `line`, and not as the end of a longer word.
fn names(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(joins))
}

#[track_caller]
fn only_in(words: &[&str], allowed: &[&str]) {
    let found = files_with(&["host", "plugins", "xtask"], words);
    assert!(!found.is_empty(), "no file has any of {words:?}");
    for file in found {
        let is_allowed = allowed.iter().any(|folder| file.starts_with(folder));
        assert!(
            is_allowed,
            "{file} names {words:?}, which only {allowed:?} may"
        );
    }
}

#[test]
fn libraries_stay_behind_their_walls() {
    only_in(&["tch::"], &["host/torch/"]);
    only_in(&["wasmtime::"], &["host/wasm/"]);
    only_in(&["async_nats::"], &["host/transport/"]);
    only_in(&["object_store::"], &["host/objects/"]);
    only_in(&["hyper::"], &["host/partition_server/"]);
    only_in(
        &["tokio::"],
        &["host/transport/", "host/objects/", "host/partition_server/"],
    );
    only_in(&["diskann::", "diskann_vector::"], &["host/index/"]);
    only_in(&["httparse::"], &["host/serve/"]);
    only_in(&["reqwest::"], &["host/objects/", "host/registry/"]);
    only_in(&["pyo3::"], &["host/python/"]);
}

#[test]
fn only_terminal_programs_print_and_exit() {
    let printing = [
        "println!(",
        "eprintln!(",
        "print!(",
        "eprint!(",
        "process::exit(",
    ];
    // The messages that a plugin logs are part of the output of its own tests.
    only_in(
        &printing,
        &["host/cli/", "xtask/", "plugins/sdk/src/log.rs"],
    );
}

/// Beginnings of `unsafe` code.
const UNSAFE: [&str; 4] = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"];

/// Returns the paths at the beginnings of the lines of the list behind `heading`.
fn listed(heading: &str) -> Vec<String> {
    let text = map();
    let (_, section) = text.split_once(heading).expect("the list is in the map");
    let lines = section
        .lines()
        .skip(1)
        .skip_while(|line| !line.starts_with("* `"));
    lines
        .take_while(|line| line.starts_with("* `"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| name.starts_with("host/") || name.starts_with("plugins/"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_file_with_unsafe_code_is_listed_with_its_reason() {
    let listed = listed("## Where `unsafe` is");
    let found = files_with(&["host", "plugins", "xtask"], &UNSAFE);
    for file in &found {
        let is_listed = listed.iter().any(|place| file.starts_with(place.as_str()));
        assert!(
            is_listed,
            "{file} has unsafe code, but docs/architecture.md does not list it"
        );
    }
    for place in &listed {
        let is_used = found.iter().any(|file| file.starts_with(place.as_str()));
        assert!(
            is_used,
            "docs/architecture.md lists {place}, which has no unsafe code"
        );
    }
}

#[test]
fn every_crate_has_its_line_in_the_map() {
    let map = map();
    for crates in ["host", "plugins"] {
        for entry in fs::read_dir(root().join(crates)).unwrap() {
            let path = entry.unwrap().path();
            if path.join("Cargo.toml").exists() {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                assert!(
                    map.contains(&format!("`{name}`")),
                    "{name} is not in the map"
                );
            }
        }
    }
}

/// Returns the crates that a crate's manifest depends on, by folder, without its dev-dependencies.
fn dependencies(folder: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let (_, section) = manifest.split_once("\n[dependencies]\n").unwrap();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.strip_prefix("pbg-")?.split_once(" = "))
        .map(|(name, _)| format!("host/{}", name.replace('-', "_")))
        .collect()
}

#[test]
fn crates_use_only_those_above_them_in_the_map() {
    let text = map();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `host/"));
    let order: Vec<String> = rows
        .map(|row| format!("host/{}", row.split('`').next().unwrap()))
        .collect();
    assert!(order.len() > 8, "{order:?}");
    for (position, name) in order.iter().enumerate() {
        for dependency in dependencies(name) {
            let above = order[..position].contains(&dependency);
            assert!(
                above,
                "{name} uses {dependency}, which is not above it in the map"
            );
        }
    }
}

/// Returns the units of a build by package, profile and kind, each with the sets of features that it is compiled with.
fn units(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args([
            "--release",
            "--offline",
            "-Zunstable-options",
            "--unit-graph",
        ])
        // The unit graph is an unstable option; it prints what would be built and builds nothing.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let units = graph["units"].as_array().unwrap().iter();
    units
        .filter(|unit| unit["mode"] == "build" && unit["target"]["kind"][0] != "bin")
        .map(|unit| {
            let (package, features) = (&unit["pkg_id"], &unit["features"]);
            let (level, kind) = (&unit["profile"]["opt_level"], &unit["target"]["kind"]);
            format!("{package} {kind} {level} {features}")
        })
        .collect()
}

#[test]
fn whatever_is_built_shares_what_is_compiled() {
    let all = units(&["test", "--workspace", "--tests"]);
    let one = |package| ["test", "--package", package, "--tests"];
    let others = [
        ["build", "--workspace", "--bin", "pbg-host"],
        ["build", "--package", "xtask", "--bins"],
        ["build", "--package", "xtask-workbench", "--bins"],
        ["build", "--package", "xtask-encoder", "--bins"],
        one("pbg-core"),
        one("pbg-files"),
        one("pbg-import"),
        one("pbg-model"),
        one("pbg-train"),
        one("pbg-distributed"),
        one("pbg-wasm"),
        one("pbg-transport"),
    ];
    for arguments in others {
        let again: Vec<String> = units(&arguments).difference(&all).cloned().collect();
        assert!(
            again.is_empty(),
            "{arguments:?} compiles again, with other features than `test --workspace`; \
             host/features/Cargo.toml should ask for them:\n{}",
            again.join("\n")
        );
    }
}

/// Through `tools::without`, `PBG_REQUIRE` turns a skipped test into a failure.
#[test]
fn tests_are_skipped_in_one_way() {
    let mut open = vec![root().join("tests"), root().join("host")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if name.ends_with(".rs") && !["tools.rs", "house.rs"].contains(&&*name) {
                let text = fs::read_to_string(&path).unwrap();
                // A GPU is not a tool that can be installed; `PBG_TEST_CUDA=1` requires one.
                let says = text.contains("\"skipped: ") && !text.contains("PBG_TEST_CUDA");
                assert!(!says, "{} skips without `tools::without`", path.display());
            }
        }
    }
}

/// Phrases that readers have to decode; plain words replaced them everywhere.
const RIDDLES: [&str; 16] = [
    "whoever",
    "had better",
    " in vain",
    "come by ",
    "comes by ",
    "comes of ",
    "who watches",
    "what became of",
    "what becomes of",
    "has not the ",
    "is no method",
    "which is nowhere",
    "knows this client not",
    "the like",
    "sees to it that",
    "mistake in pbg-host",
];

#[test]
fn comments_and_messages_have_plain_words() {
    let all = ["host", "plugins", "xtask"].into_iter().flat_map(sources);
    for (file, text) in all {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.to_lowercase();
            // Test names are sentences and are exempt.
            if line.trim_start().starts_with("fn ") {
                continue;
            }
            for riddle in RIDDLES {
                assert!(!line.contains(riddle), "{file}, line {number}: {riddle:?}");
            }
        }
    }
}

/// Types that several files may name alike: arguments and subcommands of the program, and what Python calls as Rust does.
const SHARED_NAMES: [&str; 3] = ["Args", "Command", "Config"];

/// One name has one meaning in all crates. The SDK names its types as the host names what they correspond to.
#[test]
fn no_two_types_have_one_name() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in ["host", "xtask"].into_iter().flat_map(sources) {
        let (code, _) = text
            .split_once("#[cfg(test)]\nmod tests {")
            .unwrap_or((&text, ""));
        for name in code.lines().filter_map(visible_type) {
            found.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(found.len() > 500, "{} types", found.len());
    for (name, files) in found {
        assert!(
            files.len() == 1 || SHARED_NAMES.contains(&&*name),
            "{name} is a type in each of {files:?}: give all but one a name of their own"
        );
    }
}

/// Returns the name of the type that a line of code defines, unless it is private to its module.
fn visible_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(") ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let (keyword, rest) = rest.trim_start_matches("unsafe ").split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type"].contains(&keyword);
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    is_type.then(|| &rest[..end.unwrap_or(rest.len())])
}

/// Macros and build scripts use the same builds of packages as the program.
#[test]
fn each_package_is_compiled_once() {
    // Small packages that the build scripts of wasmtime's compiler use with fewer features.
    let known = [
        "cranelift-bitset",
        "pulley-interpreter",
        "wasmtime-internal-core",
    ];
    let mut seen = BTreeSet::new();
    for unit in units(&["test", "--workspace", "--tests"]) {
        let (package, rest) = unit.split_once(' ').unwrap();
        let kind = rest.split(']').next().unwrap();
        let is_known = known.iter().any(|name| package.contains(name));
        assert!(
            is_known || kind.contains("custom-build") || seen.insert(format!("{package} {kind}")),
            "{package} is compiled with two sets of features; host/features/Cargo.toml should ask for them"
        );
    }
}
