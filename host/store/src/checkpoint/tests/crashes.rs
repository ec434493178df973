//! A crash at any operation leaves the old version or the new one, whole.

use super::*;
use crate::files::faults;

/// Three commits of a small run; tells which version was confirmed last.
fn train(path: &Path) -> (u64, Result<(), CheckpointError>) {
    let mut confirmed = 0;
    let mut run = || {
        let mut checkpoint = Checkpoint::open_or_create(path)?;
        confirmed = checkpoint.version();
        while checkpoint.version() < 3 {
            let step = checkpoint.version() + 1;
            for partition in 0..3 {
                // One partition stays clean in every second pass.
                if partition < 2 || step % 2 == 1 {
                    write(&checkpoint, partition, step)?;
                    write(&checkpoint, partition, step)?;
                }
            }
            write_model(&checkpoint, step)?;
            checkpoint.append_metrics(&json!({ "step": step }))?;
            confirmed = checkpoint.commit(run_info(step))?;
            checkpoint.preserve(step as u32)?;
        }
        Ok(())
    };
    let result = run();
    (confirmed, result)
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

#[test]
fn at_every_operation() {
    let mut crashes = 0;
    for operations in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        faults::fail_after(operations);
        let (confirmed, result) = train(&path);
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
        // The next run goes on from there to the same end, and clears up.
        train(&path).1.unwrap();
        check_version(&ReadCheckpoint::open(&path).unwrap());
        let staged = |folder: &Path| {
            fs::read_dir(folder).unwrap().any(|e| {
                e.unwrap()
                    .file_name()
                    .to_string_lossy()
                    .ends_with(files::STAGED_SUFFIX)
            })
        };
        assert!(!staged(&path));
        // A crash right behind a commit costs its copy; what copies there are, are whole.
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
fn after_a_failed_write_nothing_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
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
