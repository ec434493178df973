//! What the SDKs count, each in its own language: the same as the host and the SDK in Rust.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::finish;

/// Swaps and loads of the row-by-row plan of grids with so many partitions and so large a buffer: published figures,
/// and those of two entity types with one partition in the buffer, an empty bucket and a side that stays in memory.
const EXPECTED: &str = "60 252 37 205 136\n2 1 2097152\n0 4\n";

const JAVASCRIPT: &str = "
import { Pass } from './index.js';
const swaps = [[8, 2], [16, 2], [8, 4], [16, 4], [16, 8]].map(([partitions, buffer]) => {
  const pass = Object.assign(Pass.uniform(partitions, partitions), { bufferPartitions: buffer });
  return pass.traffic(pass.grid()).swaps;
});
console.log(swaps.join(' '));
const pass = Object.assign(Pass.uniform(1, 3), { lhsBytes: BigUint64Array.of(0n), residentRhs: [2] });
const { loads, swaps: evicted, bytes } = pass.traffic(pass.grid());
console.log(`${loads} ${evicted} ${bytes}`);
console.log(`${pass.needs({ lhs: 0, rhs: 1 }).length - 1} ${pass.partitions()}`);
";

const PYTHON: &str = "
from pbg_plugin import Bucket, Pass
def swaps(partitions, room):
    grid_pass = Pass.uniform(partitions, partitions)
    grid_pass.buffer_partitions = room
    return grid_pass.traffic(grid_pass.grid()).swaps
print(*(swaps(p, c) for p, c in [(8, 2), (16, 2), (8, 4), (16, 4), (16, 8)]))
grid_pass = Pass.uniform(1, 3)
grid_pass.lhs_bytes, grid_pass.resident = [0], {('rhs', 2)}
print(*grid_pass.traffic(grid_pass.grid()))
print(len(grid_pass.needs(Bucket(0, 1))) - 1, grid_pass.partitions())
";

fn folder(sdk: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins")
        .join(sdk)
}

#[test]
fn traffic_is_the_same_in_javascript() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: there is no node");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for file in [
        "index.js",
        "order.js",
        "traffic.js",
        "rng.js",
        "loss.js",
        "log.js",
        "metadata.js",
        "sampler.js",
        "component.js",
    ] {
        std::fs::copy(
            folder("sdk-javascript/pbg_plugin").join(file),
            place.path().join(file),
        )
        .unwrap();
    }
    std::fs::write(place.path().join("count.mjs"), JAVASCRIPT).unwrap();
    std::fs::write(place.path().join("package.json"), r#"{ "type": "module" }"#).unwrap();
    let mut node = Command::new("node");
    let counted = finish(node.arg("count.mjs").current_dir(place.path())).succeeds();
    assert_eq!(counted.stdout, EXPECTED);
}

#[test]
fn traffic_is_the_same_in_python() {
    let mut python = Command::new("python3");
    python
        .args(["-B", "-c", PYTHON])
        .env("PYTHONPATH", folder("sdk-python"));
    assert_eq!(finish(&mut python).succeeds().stdout, EXPECTED);
}

/// Every name that index.js has is declared for editors.
#[test]
fn the_types_for_javascript_have_every_name() {
    let read = |file: &str| {
        std::fs::read_to_string(folder("sdk-javascript/pbg_plugin").join(file)).unwrap()
    };
    let types = read("index.d.ts");
    let index = read("index.js");
    let exports = index.lines().filter(|line| line.starts_with("export "));
    let names = exports.flat_map(|line| {
        let list = line
            .trim_start_matches("export ")
            .split(" from ")
            .next()
            .unwrap();
        let list = list
            .trim_start_matches("* as ")
            .trim_matches(['{', '}', ' ']);
        list.split(',')
            .map(|name| name.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let kinds = ["class", "function", "const", "namespace"];
        let declared = kinds.iter().any(|kind| {
            [" ", "(", ":", "<"]
                .iter()
                .any(|end| types.contains(&format!("export {kind} {name}{end}")))
        });
        assert!(declared, "index.d.ts lacks {name}");
    }
}
