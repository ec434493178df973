//! Files that other tools open: pyarrow and safetensors, as a user has them.

use std::process::Command;

use crate::support::{Workplace, finish, graph::CONFIG};

/// Python with pyarrow, safetensors and numpy; where the variable is not set, there is none.
const PYTHON: &str = "PBG_TEST_PYTHON";

const SCRIPT: &str = r#"
import glob, json
import numpy as np, pyarrow as pa, pyarrow.ipc, pyarrow.parquet as pq
from safetensors.numpy import load_file

tables = {}
for path in sorted(glob.glob("data/**/*.arrow", recursive=True)):
    with pa.OSFile(path) as file:
        reader = pa.ipc.open_file(file)
        tables[path] = reader.read_all()
        print("arrow", path, reader.num_record_batches, tables[path].num_rows, tables[path].schema.names)
assert any(t.num_rows == 80 for t in tables.values()), "the dictionary has all places"

rows = 0
for path in sorted(glob.glob("model/**/*.safetensors", recursive=True)):
    tensors = load_file(path)
    for name, tensor in tensors.items():
        print("safetensors", path, name, tensor.dtype, tensor.shape)
        assert np.isfinite(tensor).all()
    if "embeddings" in tensors:
        assert tensors["embeddings"].shape[1] == 16 and tensors["embeddings"].dtype == np.float32
        assert tensors["row_adagrad"].shape == tensors["embeddings"].shape[:1]
        rows += len(tensors["embeddings"])
assert rows == 80, rows

for line in open("model/metrics.jsonl"):
    json.loads(line)

for path in glob.glob("out/**/*.npy", recursive=True):
    print("npy", path, np.load(path).shape)
for path in glob.glob("out/**/*.parquet", recursive=True):
    print("parquet", path, pq.read_table(path).schema.names)
print("all read")
"#;

#[test]
fn python_opens_every_file() {
    // The variable is the only way to tell the tests which interpreter has the packages.
    let Some(python) = std::env::var_os(PYTHON) else {
        eprintln!("skipped: {PYTHON} names no Python with numpy, pyarrow and safetensors");
        return;
    };
    let place = Workplace::with_dataset(CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    for format in ["npy", "safetensors", "parquet", "tsv"] {
        place
            .run([
                "export",
                "--format",
                format,
                "--out",
                &format!("out/{format}"),
            ])
            .succeeds();
    }
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).current_dir(place.path(""));
    let read = finish(&mut command).succeeds();
    for kind in ["arrow", "safetensors", "npy", "parquet", "all read"] {
        assert!(
            read.stdout.lines().any(|line| line.starts_with(kind)),
            "no {kind}:\n{}",
            read.stdout
        );
    }
}
