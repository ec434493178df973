//! Fuzzing of every file of a checkpoint, and of its manifest.

use std::fs;
use std::path::Path;

use pbg_checkpoint::{Checkpoint, PartitionRows, ReadCheckpoint, TargetCommit, TensorRef};
use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::Optimizer;
use pbg_files::sealed_json::ManifestFormat;
use serde_json::json;

use crate::forge::disturb;
use crate::{fuzz, turn};

const FORMAT: ManifestFormat = ManifestFormat {
    name: "pbg-host checkpoint",
    version: 1,
    oldest: 1,
};

/// Reads everything in the checkpoint; returns whether all of it was readable.
fn read(path: &Path) -> bool {
    let Ok(checkpoint) = ReadCheckpoint::open(path) else {
        return false;
    };
    let mut whole = checkpoint.model().is_ok();
    for partition in 0..3 {
        whole &= match checkpoint.read_partition("person", partition) {
            Ok(Some(data)) => {
                assert_eq!(data.embeddings.len(), data.rows * data.dim);
                let sums = data.optimizer.state_width(data.dim);
                assert_eq!(data.state.len(), data.rows * sums);
                true
            }
            Ok(None) => true,
            Err(error) => error.to_string().is_empty(),
        };
    }
    whole
}

fn write(path: &Path) {
    let checkpoint = Checkpoint::open_or_create(path).unwrap();
    for partition in 0..2 {
        let rows = 3 + partition as usize;
        let embeddings = vec![0.25; rows * 4];
        checkpoint
            .write_partition("person", partition, 4, &embeddings, &vec![0.5; rows])
            .unwrap();
    }
    let half = PartitionRows {
        rows: 5,
        dim: 4,
        embeddings: &|_, out| out.fill(0.3),
        optimizer: Optimizer::Adagrad,
        state: &|_, out| out.fill(0.5),
        rounding: Some(StochasticRounding::new(7)),
    };
    checkpoint
        .write_rows("person", 2, &half, TargetCommit::Next)
        .unwrap();
    let parameters = TensorRef {
        name: "relations/0/operator/rhs/diagonal",
        shape: &[2, 4],
        values: &[1.0; 8],
    };
    checkpoint.write_model(&[parameters]).unwrap();
    checkpoint.append_metrics(&json!({"event": "x"})).unwrap();
    let run = json!({
        "config": pbg_config::default_toml(&pbg_config::StrategyNames::default()),
        "config_hash": "0",
        "dataset": "relations 00000000",
        "strategies": [{"name": "beta", "version": "1", "sha256": ""}],
        "state": {"schedule": {}, "index": 3},
    });
    checkpoint
        .commit(serde_json::from_value(run).unwrap())
        .unwrap();
}

#[test]
fn checkpoints() {
    let turn = turn();
    let place = tempfile::tempdir().unwrap();
    let model = place.path().join("model");
    write(&model);
    assert!(read(&model));
    fuzz(turn, "checkpoints", 1500, 64 << 20, |dice, place| {
        let copied = place.join("model");
        fs::create_dir_all(&copied).unwrap();
        for entry in fs::read_dir(&model).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copied.join(path.file_name().unwrap())).unwrap();
        }
        disturb(dice, &copied, FORMAT);
        let taken = read(&copied);
        // A writer also refuses the damaged folder, or continues from what it can read.
        match Checkpoint::open_or_create(&copied) {
            Ok(writer) => drop(writer.model()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        taken
    });
}
