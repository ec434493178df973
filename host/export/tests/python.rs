//! Python's pyarrow, NumPy and safetensors can read the written files, as docs/formats.md describes.
//!
//! Runs with the interpreter in `PBG_TEST_PYTHON`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, ReadCheckpoint, TensorRef};
use pbg_config::Config;
use pbg_dataset::Dataset;
use pbg_export::{self as export, ExportFormat, ExportOptions};
use pbg_import::{self as import, ImportOptions};

#[path = "../../../tests/tools.rs"]
mod tools;

const CHECK: &str = r#"
import json, sys
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import load_file

root = sys.argv[1]
manifest = json.load(open(f"{root}/data/manifest.json"))
names = pa.ipc.open_file(f"{root}/data/entities_e.arrow").read_all()
place = {(p, o): n for n, p, o in zip(*(names[c].to_pylist() for c in ("name", "partition", "offset")))}
relations = pa.ipc.open_file(f"{root}/data/relations.arrow").read_all()
assert relations.column_names == ["name", "lhs", "rhs"], relations.schema
relation = relations["name"].to_pylist()

edges = pa.ipc.open_file(pa.memory_map(f"{root}/data/edges_train.arrow"))
batches = manifest["edge_sets"]["train"]["batches"]
assert edges.num_record_batches == len(batches)
assert [f.name for f in edges.schema] == ["lhs", "rel", "rhs", "weight"], edges.schema
found = set()
for i, batch in enumerate(batches):
    table = edges.get_batch(i)
    assert table.num_rows == batch["rows"]
    for l, r, h, w in zip(*(c.to_pylist() for c in table.columns)):
        found.add((place[batch["lhs"], l], relation[r], place[batch["rhs"], h], w))
assert found == {("a", "r", "b", 0.5), ("b", "s", "c", 1.0), ("c", "r", "a", 2.0)}, found

lists = pa.ipc.open_file(f"{root}/data/features_f.arrow").read_all()["features"].to_pylist()
words = pa.ipc.open_file(f"{root}/data/feature_names_f.arrow").read_all()["name"].to_pylist()
assert sorted(words[i] for i in lists[0]) == ["x", "y"], (lists, words)

with safe_open(f"{root}/model/embeddings_e_1.v1.safetensors", "np") as f:
    assert f.metadata() == {"entity_type": "e", "partition": "1"}, f.metadata()
    assert f.get_tensor("embeddings").shape == (1, 2)
    assert f.get_tensor("row_adagrad").tolist() == [0.25]
model = load_file(f"{root}/model/model.v1.safetensors")
assert model["relations/0/operator/rhs/diagonal"].tolist() == [[1.0, 2.0], [3.0, 4.0]]

rows = np.load(f"{root}/npy/entities_e.npy")
assert rows.shape == (3, 2) and rows.dtype == np.float32 and rows[2].tolist() == [1.0, -1.0], rows
assert json.load(open(f"{root}/npy/entities_e.names.json")) == names["name"].to_pylist()
assert np.load(f"{root}/npy/relations.0.operator.rhs.diagonal.npy").shape == (2, 2)
table = pq.read_table(f"{root}/parquet/entities_e.parquet")
assert np.array(table["embedding"].to_pylist(), np.float32).tolist() == rows.tolist()
assert pq.read_table(f"{root}/parquet/parameters.parquet")["shape"].to_pylist() == [[2, 2]]
assert load_file(f"{root}/safetensors/entities_e.safetensors")["embeddings"].tolist() == rows.tolist()
print("checked")
"#;

#[test]
fn python_opens_everything() {
    let Some(python) = std::env::var_os("PBG_TEST_PYTHON") else {
        let why = "PBG_TEST_PYTHON names no interpreter with pyarrow, safetensors and numpy";
        tools::without("python", why);
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let dataset = import(folder.path());
    let checkpoint = train(folder.path(), &dataset);
    for (name, format) in [
        ("npy", ExportFormat::Npy),
        ("parquet", ExportFormat::Parquet),
        ("safetensors", ExportFormat::Safetensors),
    ] {
        let options = ExportOptions {
            format,
            overwrite: false,
        };
        let out = folder.path().join(name);
        export::run(&dataset, &checkpoint, None, &out, &options, &mut |_, _| {}).unwrap();
    }
    let output = Command::new(python)
        .arg("-c")
        .arg(CHECK)
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("checked"),
        "{text}"
    );
}

fn import(folder: &Path) -> Dataset {
    let text = "dataset = 'd'\ncheckpoint_path = 'c'\ndimension = 2\nentities.e.num_partitions = 2\n\
                entities.f = { num_partitions = 1, featurized = true }\n\
                relations = [{ name = 'of', lhs = 'f', rhs = 'e' }, { name = '*', lhs = 'e', rhs = 'e' }]";
    let config = Config::parse(text, "pbg.toml", &[]).unwrap();
    let files = [
        (
            "edges.csv",
            "lhs,rel,rhs,weight\na,r,b,0.5\nb,s,c,1\nc,r,a,2\n",
        ),
        ("of.csv", "lhs,rel,rhs\nn,of,a\n"),
        ("words.tsv", "n\tx y\n"),
    ]
    .map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let [edges, of, words] = files;
    let options = ImportOptions {
        target: folder.join("data"),
        features: vec![("f".to_owned(), words)],
        ..ImportOptions::default()
    };
    let sets = [
        ("train".to_owned(), vec![edges]),
        ("more".to_owned(), vec![of]),
    ];
    import::run(&config.graph_schema(), &sets, &options, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    Dataset::open(&folder.join("data")).unwrap()
}

fn train(folder: &Path, dataset: &Dataset) -> ReadCheckpoint {
    let path = folder.join("model");
    let checkpoint = Checkpoint::open_or_create(&path).unwrap();
    assert_eq!(dataset.manifest().entities["e"].counts, [2, 1]);
    checkpoint
        .write_partition("e", 0, 2, &[5.0, 6.0, 7.0, 8.0], &[0.0, 0.5])
        .unwrap();
    checkpoint
        .write_partition("e", 1, 2, &[1.0, -1.0], &[0.25])
        .unwrap();
    checkpoint
        .write_partition("f", 0, 2, &[0.0; 4], &[0.0; 2])
        .unwrap();
    let name = "relations/0/operator/rhs/diagonal";
    let values = [1.0, 2.0, 3.0, 4.0];
    checkpoint
        .write_model(&[TensorRef {
            name,
            shape: &[2, 2],
            values: &values,
        }])
        .unwrap();
    checkpoint
        .commit(RunInfo {
            config: "dimension = 2\n".to_owned(),
            config_hash: String::new(),
            dataset: dataset.identity().to_owned(),
            strategies: Vec::new(),
            state: serde_json::Value::Null,
            ..RunInfo::default()
        })
        .unwrap();
    drop(checkpoint);
    ReadCheckpoint::open(&path).unwrap()
}
