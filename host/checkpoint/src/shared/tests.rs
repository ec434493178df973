//! Tests of commits by several trainers.

use pbg_ledger::{CheckpointCut, CutOrigin};

use super::*;
use crate::{Checkpoint, PartitionRows, ReadCheckpoint};

fn rows(value: f32) -> PartitionRows<'static> {
    let fill: &'static (dyn Fn(usize, &mut [f32]) + Sync) =
        Box::leak(Box::new(move |_: usize, out: &mut [f32]| out.fill(value)));
    PartitionRows {
        rows: 2,
        dim: 3,
        embeddings: fill,
        optimizer: Default::default(),
        state: fill,
        rounding: None,
    }
}

fn manifest(version: u64, files: &[(String, FileSummary)]) -> CheckpointManifest {
    let begun = CutOrigin {
        incarnation: Token(7),
        revision: 3,
        token: Token(1),
        number: 4,
    };
    let begun = Some(begun);
    CheckpointManifest {
        version,
        files: files.iter().cloned().collect(),
        cut: Some(CheckpointCut { version, begun }),
        ..CheckpointManifest::default()
    }
}

#[test]
fn what_several_commit_one_goes_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let open = |token| SharedCheckpoint::open(folder.path(), Token(token)).unwrap();
    let (one, two) = (open(1), open(2));
    assert!(
        Checkpoint::open_or_create(folder.path())
            .unwrap_err()
            .is_locked()
    );
    let first = one.write_partition("e", 0, 1, &rows(1.0)).unwrap();
    let second = two.write_partition("e", 0, 1, &rows(2.0)).unwrap();
    assert_ne!(first.id, second.id);
    let model = two.write_model(1, &[]).unwrap();
    let manifest = manifest(1, &[manifest_entry("e", 0, &second), model]);
    two.publish(&manifest).unwrap();
    two.publish(&manifest).unwrap_err();
    assert_eq!(one.newest().unwrap().as_ref(), Some(&manifest));
    assert_eq!(ledger_file(&manifest, "e", 0), Some(second));
    assert!(one.has_presence(Token(2)).unwrap() && !one.has_presence(Token(3)).unwrap());
    one.remove_presence(Token(1)).unwrap();
    drop((one, two));

    // A single trainer that continues finds the version, although it has not replaced `manifest.json`.
    let alone = Checkpoint::open_or_create(folder.path()).unwrap();
    assert_eq!(alone.version(), 1);
    let data = alone.read_partition("e", 0).unwrap().unwrap();
    assert_eq!(data.embeddings[..], [2.0; 6]);
    let read = ReadCheckpoint::open(folder.path()).unwrap();
    assert_eq!(read.version(), 1);
    assert!(!folder.path().join("manifest.v1.json").exists());
    assert_eq!(names::entries(folder.path()).unwrap().len(), 5);
}

#[test]
fn a_version_that_is_not_whole_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
    let file = trainer.write_partition("e", 0, 1, &rows(1.0)).unwrap();
    let whole = manifest(1, &[manifest_entry("e", 0, &file)]);
    trainer.publish(&whole).unwrap();
    trainer.make_current(&whole).unwrap();
    let mut lacks = file;
    lacks.id.version = 9;
    let broken = manifest(2, &[manifest_entry("e", 0, &lacks)]);
    trainer.publish(&broken).unwrap();
    assert_eq!(trainer.newest().unwrap(), Some(whole));
    std::fs::write(folder.path().join("manifest.v3.json"), "{").unwrap();
    assert_eq!(trainer.newest().unwrap().unwrap().version, 1);
}

#[test]
fn a_manifest_with_impossible_numbers_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
    let mut other_cut = manifest(1, &[]);
    other_cut.cut = manifest(2, &[]).cut;
    let mut far = manifest(2, &[]);
    far.told = [(Token(1), u64::MAX)].into();
    for damaged in [other_cut, far, manifest(u64::MAX, &[])] {
        trainer.publish(&damaged).unwrap();
        assert_eq!(trainer.newest().unwrap(), None, "{damaged:?}");
    }
}

#[test]
fn parameters_larger_than_those_of_the_run_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
    let model = trainer.write_model(1, &[]).unwrap();
    let size = model.1.size;
    let manifest = manifest(1, &[model]);
    trainer.read_model(&manifest, size).unwrap();
    let refused = trainer.read_model(&manifest, size - 1).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("at most"), "{text}");
}

#[test]
fn garbage_goes_and_what_is_kept_stays() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
    let write = |version| {
        trainer
            .write_partition("e", 0, version, &rows(1.0))
            .unwrap()
    };
    let (old, kept, newest) = (write(1), write(1), write(2));
    let models = [1, 2].map(|version| trainer.write_model(version, &[]).unwrap());
    let before = manifest(1, &[manifest_entry("e", 0, &kept)]);
    let now = manifest(2, &[manifest_entry("e", 0, &newest), models[1].clone()]);
    let name = |file: &PartitionFile| manifest_entry("e", 0, file).0;
    // What trainers have left that died while they wrote.
    let incomplete = [Token(8), Token(9)].map(names::staged_manifest);
    let half = name(&old) + STAGED_SUFFIX;
    for name in incomplete.iter().chain([&half]) {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    let listed = trainer.list().unwrap();
    assert_eq!(listed.len(), 8);
    let later = write(2);
    let (is_garbage, is_gone) = (|_: &str, _, _| true, |writer| writer == Token(9));
    trainer
        .remove_garbage(&listed, &[&before, &now], is_garbage, is_gone)
        .unwrap();
    let mut expected = [
        name(&kept),
        name(&newest),
        name(&later),
        models[1].0.clone(),
        incomplete[0].clone(),
    ];
    expected.sort_unstable();
    assert_eq!(trainer.list().unwrap(), expected);
    assert!(!folder.path().join(name(&old)).exists());
}

#[test]
fn a_name_is_taken_once_in_a_folder_without_links_too() {
    let folder = tempfile::tempdir().unwrap();
    let [staged, path] = ["staged", "named"].map(|name| folder.path().join(name));
    fs::write(&staged, "whole").unwrap();
    copy_to_new(&staged, &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    fs::write(&staged, "other").unwrap();
    copy_to_new(&staged, &path).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert!(has_no_links(&io::Error::from_raw_os_error(1)));
    let taken = fs::hard_link(&staged, &path).unwrap_err();
    assert!(!has_no_links(&taken));
}

#[test]
fn what_is_known_behind_a_version_is_no_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
    let mut first = manifest(1, &[]);
    let write =
        |manifest: &CheckpointManifest, before: Option<&CheckpointManifest>, lines: &[u8]| {
            let cut = manifest.cut.unwrap();
            let mut metrics = trainer.begin_metrics(cut, before).unwrap();
            metrics.put(lines).unwrap();
            metrics.finish().unwrap()
        };
    first.metrics_length = write(&first, None, b"a\n");
    trainer.publish(&first).unwrap();
    trainer.make_current(&first).unwrap();
    trainer.append_metrics(&first, b"b\n").unwrap();
    // Lines are appended only once, and only to the metrics of their own version.
    trainer.append_metrics(&first, b"b\n").unwrap();
    let metrics = || fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    assert_eq!(metrics(), "a\nb\n");
    let mut second = manifest(2, &[]);
    second.metrics_length = write(&second, Some(&first), b"b\nc\n");
    trainer.publish(&second).unwrap();
    trainer.make_current(&second).unwrap();
    trainer.append_metrics(&first, b"x\n").unwrap();
    assert_eq!(metrics(), "a\nb\nc\n");
}

/// Events of a long run without a checkpoint: a reader that stopped early would lose the rest.
#[test]
fn all_that_was_told_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
    let line = [&[b'x'; 8191][..], b"\n"].concat();
    let megabyte = line.repeat(128);
    let first = trainer.append_events(b"first\n").unwrap();
    for _ in 0..70 {
        trainer.append_events(&megabyte).unwrap();
    }
    let all = trainer.append_events(b"last\n").unwrap();
    assert!(all > 70 << 20);
    let read = |from, to| {
        let mut told = trainer.read_events(Token(1), from, to).unwrap();
        let (mut count, mut last) = (0, Vec::new());
        while let Some(line) = told.next_line().unwrap() {
            count += 1;
            last = line.to_vec();
        }
        (count, last, told.lost())
    };
    let lines = 70 * 128 + 1;
    assert_eq!(read(0, all), (lines + 1, b"last\n".to_vec(), 0));
    assert_eq!(read(first, all), (lines, b"last\n".to_vec(), 0));
    assert_eq!(read(all, all), (0, Vec::new(), 0));
    // Bytes that the ledger records and the file lacks, counted in whole lines.
    assert_eq!(read(first, all + 9).2, 9);
    assert_eq!(read(all - 3, all - 1).2, 2);
    let none = trainer.read_events(Token(2), 5, 8).unwrap();
    assert_eq!(none.lost(), 3);
}
