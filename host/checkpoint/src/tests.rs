//! Tests that the folder always holds one complete version.

mod crashes;
mod damage;

use std::fs;
use std::path::Path;

use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::Optimizer;
use pbg_core::strategy::StrategyId;
use proptest::prelude::*;
use safetensors::SafeTensors;
use serde_json::json;

use super::manifest::RunInfo;
use super::*;
use pbg_files::{self as files, FileSummary};

fn run_info(step: u64) -> RunInfo {
    RunInfo {
        config: "dimension = 4\n".to_owned(),
        config_hash: "abc".to_owned(),
        dataset: "def".to_owned(),
        strategies: vec![StrategyId {
            name: "inside_out".to_owned(),
            version: "0.1.0".to_owned(),
            sha256: "00".to_owned(),
        }],
        state: json!({ "step": step, "pass": { "epoch": 1 } }),
        ..RunInfo::default()
    }
}

/// Returns a partition whose values depend on partition and step.
fn numbers(partition: u32, step: u64, rows: usize, dim: usize) -> PartitionData {
    let first = f64::from(partition) * 1e4 + step as f64;
    PartitionData {
        rows,
        dim,
        embeddings: (0..rows * dim)
            .map(|i| (first + i as f64 * 1e-2) as f32)
            .collect(),
        optimizer: Default::default(),
        state: (0..rows).map(|i| (first - i as f64) as f32).collect(),
    }
}

fn write(checkpoint: &Checkpoint, partition: u32, step: u64) -> Result<(), CheckpointError> {
    let data = numbers(partition, step, 7, 4);
    checkpoint.write_partition("e", partition, 4, &data.embeddings, &data.state)
}

fn write_model(checkpoint: &Checkpoint, step: u64) -> Result<(), CheckpointError> {
    let values = [step as f32, 2.0, 3.0, 4.0];
    checkpoint.write_model(&[
        TensorRef {
            name: "relations/r/operator/rhs",
            shape: &[2, 2],
            values: &values,
        },
        TensorRef {
            name: "relations/r/operator/rhs.adagrad",
            shape: &[2, 2],
            values: &[0.0; 4],
        },
    ])
}

#[test]
fn versions_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let checkpoint = Checkpoint::open_or_create(&path).unwrap();
    assert_eq!((checkpoint.version(), checkpoint.run()), (0, None));
    assert_eq!(checkpoint.read_partition("e", 0).unwrap(), None);
    assert!(checkpoint.model().unwrap().is_empty());
    write(&checkpoint, 0, 1).unwrap();
    write(&checkpoint, 1, 1).unwrap();
    // Evicted a second time before the commit.
    write(&checkpoint, 0, 2).unwrap();
    write_model(&checkpoint, 1).unwrap();
    assert_eq!(
        checkpoint.read_partition("e", 0).unwrap(),
        Some(numbers(0, 2, 7, 4))
    );
    assert!(checkpoint.has_partition("e", 1) && !checkpoint.has_partition("e", 2));
    assert_eq!(checkpoint.commit(run_info(1)).unwrap(), 1);
    write(&checkpoint, 1, 3).unwrap();
    assert_eq!(checkpoint.commit(run_info(2)).unwrap(), 2);
    write(&checkpoint, 0, 9).unwrap();
    drop(checkpoint);

    let checkpoint = Checkpoint::open_or_create(&path).unwrap();
    assert_eq!(checkpoint.run(), Some(run_info(2)));
    assert_eq!(
        checkpoint.read_partition("e", 0).unwrap(),
        Some(numbers(0, 2, 7, 4))
    );
    assert_eq!(
        checkpoint.read_partition("e", 1).unwrap(),
        Some(numbers(1, 3, 7, 4))
    );
    assert_eq!(checkpoint.model().unwrap()[0].values[0], 1.0);
    let mut names: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            ".lock",
            "embeddings_e_0.v1.safetensors",
            "embeddings_e_1.v2.safetensors",
            "manifest.json",
            "metrics.jsonl",
            "model.v1.safetensors"
        ]
    );
}

#[test]
fn a_second_run_is_kept_out() {
    let folder = tempfile::tempdir().unwrap();
    let first = Checkpoint::open_or_create(folder.path()).unwrap();
    let error = Checkpoint::open_or_create(folder.path()).unwrap_err();
    assert!(error.is_locked());
    let message = error.to_string();
    assert!(
        message.contains(&format!("process {}", std::process::id())),
        "{message}"
    );
    drop(first);
    Checkpoint::open_or_create(folder.path()).unwrap();
}

#[test]
fn readers_see_one_version() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        ReadCheckpoint::open(folder.path()),
        Err(CheckpointError::Missing { .. })
    ));
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    write(&checkpoint, 0, 1).unwrap();
    write_model(&checkpoint, 1).unwrap();
    checkpoint.commit(run_info(1)).unwrap();
    let reader = ReadCheckpoint::open(folder.path()).unwrap();
    write(&checkpoint, 0, 2).unwrap();
    checkpoint.commit(run_info(2)).unwrap();
    // The file is no longer in the folder.
    assert_eq!(
        reader.read_partition("e", 0).unwrap(),
        Some(numbers(0, 1, 7, 4))
    );
    assert_eq!(reader.read_partition("e", 1).unwrap(), None);
    assert_eq!((reader.version(), reader.run()), (1, &run_info(1)));
    assert_eq!(reader.manifest().partitions(), [("e".to_owned(), 0)]);
    assert_eq!(reader.model().unwrap()[0].shape, [2, 2]);
    let reader = ReadCheckpoint::open(folder.path()).unwrap();
    assert_eq!(
        reader.read_partition("e", 0).unwrap(),
        Some(numbers(0, 2, 7, 4))
    );
}

/// A version that is being read stays, also for programs that received the names of its files.
#[test]
fn commits_leave_what_is_being_read() {
    let folder = tempfile::tempdir().unwrap();
    let commit = |checkpoint: &Checkpoint, step| {
        write(checkpoint, 0, step).unwrap();
        write(checkpoint, 1, step).unwrap();
        write_model(checkpoint, step).unwrap();
        checkpoint.commit(run_info(step)).unwrap();
    };
    let files = || {
        let names = names::entries(folder.path()).unwrap();
        let versions = names
            .iter()
            .filter_map(|name| Some(names::parse(name)?.version));
        versions.collect::<Vec<_>>()
    };
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    commit(&checkpoint, 1);
    let reader = ReadCheckpoint::open(folder.path()).unwrap();
    for step in 2..5 {
        commit(&checkpoint, step);
        assert_eq!(files(), [1, step, 1, step, 1, step]);
        let place = reader.embedding_location("e", 1).unwrap().unwrap();
        assert!(place.path.exists());
        assert_eq!(
            reader.read_partition("e", 1).unwrap(),
            Some(numbers(1, 1, 7, 4))
        );
    }
    // A cleanup after a crashed run keeps them as well.
    drop(checkpoint);
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    assert_eq!(files(), [1, 4, 1, 4, 1, 4]);
    drop(reader);
    let later = ReadCheckpoint::open(folder.path()).unwrap();
    commit(&checkpoint, 5);
    commit(&checkpoint, 6);
    assert_eq!(files(), [1, 4, 6, 1, 4, 6, 1, 4, 6]);
    drop(later);
    commit(&checkpoint, 7);
    assert_eq!(files(), [1, 7, 1, 7, 1, 7]);
    checkpoint.sweep().unwrap();
    assert_eq!(files(), [7, 7, 7]);
}

/// Opening a checkpoint while commits follow each other without a pause yields one of the versions, complete.
#[test]
fn a_version_is_opened_while_others_are_committed() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    let commit = |step| {
        for partition in 0..20 {
            write(&checkpoint, partition, step).unwrap();
        }
        checkpoint.commit(run_info(step)).unwrap();
    };
    commit(1);
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 2.. {
                if ends.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                commit(step);
            }
        });
        let mut versions = std::collections::BTreeSet::new();
        while versions.len() < 30 {
            let reader = ReadCheckpoint::open(folder.path()).unwrap();
            let step = reader.version();
            assert_eq!(reader.run(), &run_info(step));
            for partition in 0..20 {
                let read = reader.read_partition("e", partition).unwrap();
                assert_eq!(read, Some(numbers(partition, step, 7, 4)));
            }
            versions.insert(step);
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn preserved_epochs_are_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    checkpoint.preserve(0).unwrap();
    write(&checkpoint, 0, 1).unwrap();
    checkpoint.append_metrics(&json!({ "epoch": 1 })).unwrap();
    checkpoint.commit(run_info(1)).unwrap();
    checkpoint.preserve(3).unwrap();
    checkpoint.preserve(3).unwrap();
    write(&checkpoint, 0, 2).unwrap();
    checkpoint.commit(run_info(2)).unwrap();
    drop(checkpoint);
    let preserved = folder.path().join("epoch_3");
    let reader = ReadCheckpoint::open(&preserved).unwrap();
    assert_eq!(
        reader.read_partition("e", 0).unwrap(),
        Some(numbers(0, 1, 7, 4))
    );
    assert!(!folder.path().join("epoch_0").exists());
    // Restored as the documentation says: its files over those of the folder.
    for entry in fs::read_dir(&preserved).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    assert_eq!(checkpoint.version(), 1);
    assert_eq!(
        checkpoint.read_partition("e", 0).unwrap(),
        Some(numbers(0, 1, 7, 4))
    );
}

#[test]
fn metrics_end_with_the_last_commit() {
    let folder = tempfile::tempdir().unwrap();
    let read = || fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    checkpoint.append_metrics(&json!({ "bucket": 1 })).unwrap();
    checkpoint.commit(run_info(1)).unwrap();
    checkpoint.append_metrics(&json!({ "bucket": 2 })).unwrap();
    assert_eq!(read().lines().count(), 2);
    drop(checkpoint);
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    assert_eq!(read(), "{\"bucket\":1}\n");
    checkpoint.append_metrics(&json!({ "bucket": 3 })).unwrap();
    assert_eq!(read(), "{\"bucket\":1}\n{\"bucket\":3}\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_partition_comes_back(rows in 0_usize..400, dim in 1_usize..900, step in 0_u64..9) {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
        let mut data = numbers(3, step, rows, dim);
        if let Some(first) = data.embeddings.first_mut() {
            *first = f32::from_bits(0x7fc0_1234);
        }
        checkpoint.write_partition("my type", 3, dim, &data.embeddings, &data.state).unwrap();
        let mut read = numbers(0, 0, 5, 5);
        prop_assert!(checkpoint.read_partition_into("my type", 3, &mut read).unwrap());
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&read.embeddings), bits(&data.embeddings));
        prop_assert_eq!(bits(&read.state), bits(&data.state));
        prop_assert_eq!((read.rows, read.dim), (rows, dim));

        // The reference implementation of the format agrees.
        let bytes = fs::read(folder.path().join("embeddings_my type_3.v1.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let embeddings = tensors.tensor("embeddings").unwrap();
        prop_assert_eq!(embeddings.shape(), &[rows, dim]);
        let expected: Vec<u8> = data.embeddings.iter().flat_map(|v| v.to_le_bytes()).collect();
        prop_assert_eq!(embeddings.data(), &expected[..]);
    }
    #[test]
    fn any_partition_comes_back_rounded(
        rows in 0_usize..300,
        dim in 1_usize..700,
        optimizer in prop::sample::select(&Optimizer::ALL[..]),
        seed: u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
        let mut data = numbers(3, 2, rows, dim);
        data.convert(optimizer);
        // Adam's state begins with zeros.
        data.state.iter_mut().zip(1_u16..).for_each(|(number, at)| *number += f32::from(at));
        let rounding = StochasticRounding::new(seed);
        let width = data.optimizer.state_width(dim);
        let written = PartitionRows {
            rows,
            dim,
            embeddings: &|row, out| out.copy_from_slice(&data.embeddings[row * dim..][..out.len()]),
            optimizer: data.optimizer,
            state: &|row, out| out.copy_from_slice(&data.state[row * width..][..out.len()]),
            rounding: Some(rounding),
        };
        checkpoint.write_rows("e", 3, &written, TargetCommit::Next).unwrap();
        let read = checkpoint.read_partition("e", 3).unwrap().unwrap();
        let mut expected = data.clone();
        rounding.round_all(dim, &mut expected.embeddings);
        prop_assert_eq!(&read, &expected);
        // Rounding rounded values changes nothing.
        rounding.round_all(dim, &mut expected.embeddings);
        prop_assert_eq!(&read, &expected);

        // The reference implementation of the format agrees.
        let bytes = fs::read(folder.path().join("embeddings_e_3.v1.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let embeddings = tensors.tensor("embeddings").unwrap();
        prop_assert_eq!(embeddings.dtype(), safetensors::Dtype::BF16);
        prop_assert_eq!(embeddings.shape(), &[rows, dim]);
        let halves = embeddings.data().as_chunks().0.iter();
        let upper = halves.map(|half| f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16));
        prop_assert_eq!(upper.collect::<Vec<f32>>(), expected.embeddings);
        let (name, shape) = match optimizer {
            Optimizer::RowAdagrad => ("row_adagrad", vec![rows]),
            Optimizer::Adagrad => ("adagrad", vec![rows, dim]),
            Optimizer::Adam => ("adam", vec![rows, 2 * dim + 1]),
        };
        let sums = tensors.tensor(name).unwrap();
        prop_assert_eq!((sums.dtype(), sums.shape()), (safetensors::Dtype::F32, &shape[..]));
        let data = read.state.iter().flat_map(|sum| sum.to_le_bytes());
        prop_assert_eq!(sums.data(), &data.collect::<Vec<u8>>()[..]);
    }
}

#[test]
fn accumulators_of_one_optimizer_are_those_of_the_other() {
    let mut data = numbers(1, 2, 3, 2);
    data.optimizer = Optimizer::Adagrad;
    data.state = vec![1.0, 3.0, 0.0, 0.0, 4.0, 8.0];
    data.convert(Optimizer::RowAdagrad);
    assert_eq!(data.state, [2.0, 0.0, 6.0]);
    data.convert(Optimizer::Adagrad);
    assert_eq!(data.state, [2.0, 2.0, 0.0, 0.0, 6.0, 6.0]);
    data.convert(Optimizer::Adam);
    assert_eq!(data.state, [0.0; 15]);
    // After one update with the gradient (2, 4), the averages of its squares are 4 / 1000 and 16 / 1000.
    let [_, beta] = Optimizer::ADAM_BETAS;
    let squares = [4.0, 16.0].map(|square: f32| square * (1.0 - beta));
    data.state[..5].copy_from_slice(&[0.2, 0.4, squares[0], squares[1], 1.0]);
    let mut by_row = data.clone();
    data.convert(Optimizer::Adagrad);
    for (found, expected) in data.state.iter().zip([4.0, 16.0, 0.0, 0.0, 0.0, 0.0]) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
    by_row.convert(Optimizer::RowAdagrad);
    assert!((by_row.state[0] - 10.0).abs() < 1e-4 && by_row.state[1..] == [0.0; 2]);
}
