//! A crash at any operation leaves either the old or the new version, complete.

use super::*;
use pbg_files::faults;

/// Makes three commits of a small run. Returns the last version that was confirmed as the run's and as the best.
fn train(path: &Path) -> (u64, u64, Result<(), CheckpointError>) {
    let (mut confirmed, mut best) = (0, 0);
    let mut run = || {
        let checkpoint = Checkpoint::open_or_create(path)?;
        confirmed = checkpoint.version();
        while checkpoint.version() < 3 {
            let step = checkpoint.version() + 1;
            for partition in 0..3 {
                // In every second pass, one partition is not modified.
                if partition < 2 || step % 2 == 1 {
                    write(&checkpoint, partition, step)?;
                    write(&checkpoint, partition, step)?;
                }
            }
            write_model(&checkpoint, step)?;
            checkpoint.append_metrics(&json!({ "step": step }))?;
            checkpoint.begin(run_info(step), checkpoint.metrics_length())?;
            // Training continues while the version is synced to disk.
            write(&checkpoint, 0, step + 1)?;
            checkpoint.append_metrics(&json!({ "step": step + 1 }))?;
            confirmed = loop {
                if let Some(version) = checkpoint.commit_step()? {
                    break version;
                }
                write(&checkpoint, 1, step + 1)?;
            };
            checkpoint.preserve(step as u32)?;
            checkpoint.preserve_best()?;
            best = step;
        }
        Ok(())
    };
    let result = run();
    (confirmed, best, result)
}

fn check_version(reader: &ReadCheckpoint) {
    let step = reader.version();
    assert_eq!(reader.run(), &run_info(step));
    for partition in 0..3 {
        let expected = if partition == 2 && step == 2 { 1 } else { step };
        let read = reader.read_partition("e", partition).unwrap();
        assert_eq!(read, Some(numbers(partition, expected, 7, 4)));
    }
    assert_eq!(reader.model().unwrap()[0].values[0], step as f32);
}

/// Returns the files in a checkpoint's folder that no manifest names.
fn left_over(folder: &Path) -> Vec<String> {
    let manifest = read::manifest_if_any(folder).unwrap();
    let is_named = |name: &str| {
        manifest
            .as_ref()
            .is_some_and(|m| m.files.contains_key(name))
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            name.ends_with(files::STAGED_SUFFIX)
                || (names::parse(name).is_some() && !is_named(name))
        })
        .collect()
}

#[test]
fn at_every_operation() {
    let mut crashes = 0;
    for operations in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        faults::fail_after(operations);
        let (confirmed, confirmed_best, result) = train(&path);
        if !faults::recover() {
            result.unwrap();
            assert_eq!(confirmed, 3);
            break;
        }
        crashes += 1;
        match ReadCheckpoint::open(&path) {
            Ok(reader) => {
                check_version(&reader);
                // An unconfirmed commit may have succeeded; a confirmed one has.
                assert!((confirmed..=confirmed + 1).contains(&reader.version()));
            }
            Err(CheckpointError::Missing { .. }) => assert_eq!(confirmed, 0),
            Err(error) => panic!("after {operations} operations: {error}"),
        }
        // Once there was a best version, there always is one.
        match ReadCheckpoint::open(&path.join("best")) {
            Ok(reader) => {
                check_version(&reader);
                assert!((confirmed_best..=confirmed).contains(&reader.version()));
            }
            Err(CheckpointError::Missing { .. }) => assert_eq!(confirmed_best, 0),
            Err(error) => panic!("best after {operations} operations: {error}"),
        }
        // Opening cleans up; the next run continues from there and ends with the same version.
        drop(Checkpoint::open_or_create(&path).unwrap());
        for folder in [path.clone(), path.join("best")] {
            assert_eq!(left_over(&folder), Vec::<String>::new(), "{operations}");
        }
        train(&path).2.unwrap();
        check_version(&ReadCheckpoint::open(&path).unwrap());
        // A crash right after a commit may prevent the preserved copy, but every existing copy is complete.
        for epoch in 1..=3 {
            let preserved = path.join(format!("epoch_{epoch}"));
            if preserved.exists() {
                let reader = ReadCheckpoint::open(&preserved).unwrap();
                assert_eq!(reader.version(), epoch);
                check_version(&reader);
            }
        }
    }
    assert!(crashes > 50, "only {crashes} operations");
}

#[test]
fn what_is_written_during_a_commit_belongs_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    write(&checkpoint, 0, 1).unwrap();
    write(&checkpoint, 1, 1).unwrap();
    checkpoint.begin(run_info(1), 0).unwrap();
    assert!(checkpoint.begin(run_info(1), 0).is_err(), "one at a time");
    write(&checkpoint, 0, 2).unwrap();
    let late = numbers(1, 7, 7, 4);
    let rows = PartitionRows {
        rows: 7,
        dim: 4,
        embeddings: &|first, out| out.copy_from_slice(&late.embeddings[4 * first..][..out.len()]),
        optimizer: Default::default(),
        state: &|first, out| out.copy_from_slice(&late.state[first..][..out.len()]),
        rounding: None,
    };
    checkpoint
        .write_rows("e", 1, &rows, TargetCommit::InProgress)
        .unwrap();
    assert!(checkpoint.commit_has_partition("e", 1) && !checkpoint.commit_has_partition("e", 2));
    while checkpoint.commit_step().unwrap().is_none() {}
    let reader = ReadCheckpoint::open(folder.path()).unwrap();
    let partition = |reader: &ReadCheckpoint, p| reader.read_partition("e", p).unwrap();
    assert_eq!(partition(&reader, 0), Some(numbers(0, 1, 7, 4)));
    assert_eq!(partition(&reader, 1), Some(late.clone()));
    let latest = checkpoint.read_partition("e", 0).unwrap();
    assert_eq!(latest, Some(numbers(0, 2, 7, 4)));
    assert_eq!(checkpoint.commit(run_info(2)).unwrap(), 2);
    let reader = ReadCheckpoint::open(folder.path()).unwrap();
    assert_eq!(partition(&reader, 0), Some(numbers(0, 2, 7, 4)));
    assert_eq!(partition(&reader, 1), Some(late));
}

#[test]
fn after_a_failed_write_nothing_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    write(&checkpoint, 0, 1).unwrap();
    checkpoint.commit(run_info(1)).unwrap();
    faults::fail_after(0);
    let error = write(&checkpoint, 0, 2).unwrap_err();
    assert!(faults::recover());
    assert!(
        error.is_io() && error.to_string().contains("free some space"),
        "{error}"
    );
    write(&checkpoint, 0, 3).unwrap();
    let error = checkpoint.commit(run_info(2)).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Refused { .. }) && error.is_io(),
        "{error}"
    );
    drop(checkpoint);
    let reader = ReadCheckpoint::open(folder.path()).unwrap();
    assert_eq!(
        reader.read_partition("e", 0).unwrap(),
        Some(numbers(0, 1, 7, 4))
    );
}
