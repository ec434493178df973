//! What several trainers keep in a folder of an object store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use pbg_checkpoint::shared::{ledger_file, manifest_entry};
use pbg_checkpoint::{
    CheckpointManifest, PartitionData, PartitionRows, ReadCheckpoint, SharedCheckpoint,
};
use pbg_files::FileSummary;
use pbg_files::remote::{self, Patience};
use pbg_ledger::{CheckpointCut, CutOrigin, PartitionFile, Token};

use crate::object_store::TestStore;
use crate::unreliable_store::{Troubles, UnreliableStore};

/// Folders of one store. A process opens URLs in one way, so there is one test, with a folder for each of its parts.
struct Folders {
    troubles: Arc<Troubles>,
}

impl Folders {
    fn open(&self, name: &str, token: u64) -> SharedCheckpoint {
        SharedCheckpoint::open(&url(name), Token(token)).unwrap()
    }

    fn set(&self, loses_answers: bool, lists_late: bool) {
        let set = [
            (&self.troubles.loses_answers, loses_answers),
            (&self.troubles.lists_late, lists_late),
        ];
        for (flag, value) in set {
            flag.store(value, Ordering::Relaxed);
        }
    }

    /// Names of all objects of a folder.
    fn names(&self, name: &str) -> Vec<String> {
        let folder = remote::open_folder(url(name).to_str().unwrap(), Patience::Long).unwrap();
        let listed = folder.list().unwrap().into_iter();
        listed.map(|file| file.name).collect()
    }
}

fn url(name: &str) -> PathBuf {
    PathBuf::from(format!("s3://tests/{name}"))
}

#[test]
fn trainers_share_a_folder_in_an_object_store() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    let unreliable = UnreliableStore::new(cache.path(), store.environment());
    let folders = Folders {
        troubles: Arc::clone(&unreliable.troubles),
    };
    remote::register_stores(unreliable);
    what_several_commit_everyone_reads(&folders);
    an_incomplete_version_does_not_count(&folders);
    garbage_is_removed_and_the_rest_stays(&folders);
    metrics_of_a_version_survive_a_late_trainer(&folders);
    events_are_read_as_they_were_written(&folders);
    lost_answers_and_old_listings_change_nothing(&folders);
    one_of_eight_publishes_a_version(&folders);
    versions_are_preserved(&folders);
    // Nothing is left behind on this machine once the trainers are gone.
    let left = std::fs::read_dir(cache.path()).unwrap().flatten();
    let left: Vec<String> = left
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(
        left.iter().any(|name| name.starts_with("several-")),
        "{left:?}"
    );
    assert!(!left.iter().any(|name| name.contains(".out-")), "{left:?}");
}

fn what_several_commit_everyone_reads(folders: &Folders) {
    let (one, two) = (folders.open("several", 1), folders.open("several", 2));
    assert_eq!(one.newest().unwrap(), None);
    let first = write(&one, 0, 1, 1.0);
    let second = write(&two, 0, 1, 2.0);
    assert_ne!(first.id, second.id);
    let model = two.write_model(1, &[]).unwrap();
    let manifest = manifest(1, &[manifest_entry("e", 0, &second), model]);
    two.publish(&manifest).unwrap();
    // Before it is made current, the others find it.
    assert_eq!(one.newest().unwrap().as_ref(), Some(&manifest));
    one.make_current(&manifest).unwrap();
    assert_eq!(one.newest().unwrap().as_ref(), Some(&manifest));
    assert_eq!(ledger_file(&manifest, "e", 0), Some(second));
    let mut data = PartitionData::default();
    one.read_partition_into("e", 0, &second, &mut data).unwrap();
    assert_eq!(data.embeddings[..], [2.0; 6]);
    assert_eq!(one.missing("e", 0, &first).unwrap(), None);
    let other = PartitionFile {
        size: first.size + 1,
        ..first
    };
    assert!(one.missing("e", 0, &other).unwrap().is_some());
    assert!(one.has_presence(Token(2)).unwrap() && !one.has_presence(Token(3)).unwrap());
    assert_eq!(one.present_trainers().unwrap(), [Token(1), Token(2)]);
    one.remove_presence(Token(1)).unwrap();
    assert!(!two.has_presence(Token(1)).unwrap());
    // Readers copy it.
    let read = ReadCheckpoint::open(&url("several")).unwrap();
    assert_eq!(read.version(), 1);
}

fn an_incomplete_version_does_not_count(folders: &Folders) {
    let trainer = folders.open("incomplete", 1);
    let file = write(&trainer, 0, 1, 1.0);
    let complete = manifest(1, &[manifest_entry("e", 0, &file)]);
    trainer.publish(&complete).unwrap();
    trainer.make_current(&complete).unwrap();
    let mut lacks = file;
    lacks.id.version = 9;
    trainer
        .publish(&manifest(2, &[manifest_entry("e", 0, &lacks)]))
        .unwrap();
    assert_eq!(trainer.newest().unwrap(), Some(complete));
    let folder = remote::open_folder("s3://tests/incomplete", Patience::Long).unwrap();
    folder.put("manifest.v3.json", b"{").unwrap();
    assert_eq!(trainer.newest().unwrap().unwrap().version, 1);
    // The current manifest is another matter: without it nobody knows what there is.
    folder.put("manifest.json", b"{").unwrap();
    let error = trainer.newest().unwrap_err().to_string();
    assert!(
        error.contains("s3://tests/incomplete/manifest.json"),
        "{error}"
    );
}

fn garbage_is_removed_and_the_rest_stays(folders: &Folders) {
    let trainer = folders.open("garbage", 1);
    let [old, kept, newest] = [1, 1, 2].map(|version| write(&trainer, 0, version, 1.0));
    let models = [1, 2].map(|version| trainer.write_model(version, &[]).unwrap());
    let before = manifest(1, &[manifest_entry("e", 0, &kept)]);
    let now = manifest(2, &[manifest_entry("e", 0, &newest), models[1].clone()]);
    let listed = trainer.list().unwrap();
    assert_eq!(listed.len(), 5);
    let later = write(&trainer, 0, 2, 1.0);
    trainer
        .remove_garbage(&listed, &[&before, &now], |_, _, _| true, |_| false)
        .unwrap();
    let name = |file: &PartitionFile| manifest_entry("e", 0, file).0;
    let mut expected = [
        name(&kept),
        name(&newest),
        name(&later),
        models[1].0.clone(),
    ];
    expected.sort_unstable();
    assert_eq!(trainer.list().unwrap(), expected);
    assert!(trainer.missing("e", 0, &old).unwrap().is_some());
}

fn metrics_of_a_version_survive_a_late_trainer(folders: &Folders) {
    let (early, late) = (folders.open("metrics", 1), folders.open("metrics", 2));
    let commit = |trainer: &SharedCheckpoint, version, before: Option<&_>, lines: &[u8]| {
        let mut manifest = manifest(version, &[]);
        let mut metrics = trainer
            .begin_metrics(manifest.cut.unwrap(), before)
            .unwrap();
        metrics.put(lines).unwrap();
        manifest.metrics_length = metrics.finish().unwrap();
        trainer.publish(&manifest).unwrap();
        manifest
    };
    let shown = || {
        let mut text = String::new();
        let mut lines = early.read_metrics().unwrap();
        while let Some(line) = lines.next_line().unwrap() {
            text.push_str(std::str::from_utf8(line).unwrap());
        }
        text
    };
    let first = commit(&early, 1, None, b"a\n");
    early.make_current(&first).unwrap();
    early.append_metrics(&first, b"b\n").unwrap();
    early.append_metrics(&first, b"b\n").unwrap();
    assert_eq!(shown(), "a\nb\n");
    // A trainer that leaves makes the version current once more.
    early.make_current(&first).unwrap();
    assert_eq!(shown(), "a\nb\n");
    let second = commit(&early, 2, Some(&first), b"b\nc\n");
    early.make_current(&second).unwrap();
    assert_eq!(shown(), "a\nb\nc\n");
    // A trainer that was paused before it made version 1 current.
    late.make_current(&first).unwrap();
    late.append_metrics(&first, b"x\n").unwrap();
    assert_eq!(early.newest().unwrap().unwrap().version, 2);
    assert_eq!(shown(), "a\nb\nc\n");
    // Even if it replaced the lines that readers see, the next version begins with those of version 2.
    let folder = remote::open_folder("s3://tests/metrics", Patience::Long).unwrap();
    folder.put("metrics.jsonl", b"a\n").unwrap();
    let third = commit(&early, 3, Some(&second), b"d\n");
    late.make_current(&third).unwrap();
    assert_eq!(shown(), "a\nb\nc\nd\n");
    let names = folders.names("metrics");
    let metrics = names.iter().filter(|name| name.starts_with("metrics."));
    assert_eq!(metrics.count(), 2, "{names:?}");
}

fn events_are_read_as_they_were_written(folders: &Folders) {
    let trainer = folders.open("events", 1);
    let line = [&[b'x'; 8191][..], b"\n"].concat();
    let megabyte = line.repeat(128);
    let first = trainer.append_events(b"first\n").unwrap();
    for _ in 0..5 {
        trainer.append_events(&megabyte).unwrap();
    }
    let all = trainer.append_events(b"last\n").unwrap();
    assert_eq!(all, 6 + (5 << 20) + 5);
    let other = folders.open("events", 2);
    let lines = 5 * 128 + 1;
    assert_eq!(read(&other, 0, all), (lines + 1, b"last\n".to_vec(), 0));
    assert_eq!(read(&other, first, all), (lines, b"last\n".to_vec(), 0));
    assert_eq!(read(&other, all, all), (0, Vec::new(), 0));
    assert_eq!(read(&other, first, all + 9).2, 9);
    assert_eq!(other.event_writers().unwrap(), [Token(1)]);
    // Events that two checkpoints contain go, and the rest is read as before.
    other
        .trim_events(&[(Token(1), first + (2 << 20) - 1)].into())
        .unwrap();
    assert_eq!(read(&other, first + (1 << 20), all).0, lines - 128);
    assert_eq!(read(&other, first, all).2, all - first);
    assert_eq!(folders.names("events").len(), 7 - 2 + 2);
    other.remove_events(Token(1)).unwrap();
    assert!(other.event_writers().unwrap().is_empty());
    assert_eq!(read(&other, 0, 8), (0, Vec::new(), 8));
}

/// Returns the number of lines of the first trainer's events, the last one, and how many bytes are lost.
fn read(reader: &SharedCheckpoint, from: u64, to: u64) -> (usize, Vec<u8>, u64) {
    let mut told = reader.read_events(Token(1), from, to).unwrap();
    let (mut count, mut last) = (0, Vec::new());
    while let Some(line) = told.next_line().unwrap() {
        count += 1;
        last = line.to_vec();
    }
    (count, last, told.lost())
}

fn lost_answers_and_old_listings_change_nothing(folders: &Folders) {
    let (one, two) = (folders.open("troubled", 1), folders.open("troubled", 2));
    folders.set(true, true);
    let mut last = None;
    for version in 1..=3 {
        one.create_presence(Token(1)).unwrap();
        let file = write(&one, 0, version, version as f32);
        let told = one
            .append_events(format!("{version}\n").as_bytes())
            .unwrap();
        assert_eq!(told, 2 * version);
        let manifest = manifest(version, &[manifest_entry("e", 0, &file)]);
        one.publish(&manifest).unwrap();
        assert_eq!(two.newest().unwrap().as_ref(), Some(&manifest));
        one.make_current(&manifest).unwrap();
        assert_eq!(two.newest().unwrap().as_ref(), Some(&manifest));
        last = Some(manifest);
    }
    assert_eq!(read(&two, 0, 6), (3, b"3\n".to_vec(), 0));
    assert_eq!(read(&two, 4, 6), (1, b"3\n".to_vec(), 0));
    folders.set(false, false);
    assert_eq!(two.newest().unwrap(), last);
    assert_eq!(read(&two, 0, 6), (3, b"3\n".to_vec(), 0));
}

fn one_of_eight_publishes_a_version(folders: &Folders) {
    for lost in [false, true] {
        let name = format!("race_{lost}");
        folders.set(lost, false);
        let published = |token| {
            let trainer = folders.open(&name, token);
            let mut manifest = manifest(1, &[]);
            manifest.metrics_length = token;
            trainer.publish(&manifest).is_ok().then_some(token)
        };
        let published: Vec<u64> = thread::scope(|scope| {
            let racing = [1, 2, 3, 4, 5, 6, 7, 8].map(|token| {
                let published = &published;
                scope.spawn(move || published(token))
            });
            racing
                .into_iter()
                .filter_map(|one| one.join().unwrap())
                .collect()
        });
        folders.set(false, false);
        let [winner] = published[..] else {
            panic!("{published:?}")
        };
        let newest = folders.open(&name, 9).newest().unwrap().unwrap();
        assert_eq!(newest.metrics_length, winner);
    }
}

fn versions_are_preserved(folders: &Folders) {
    let trainer = folders.open("preserved", 1);
    for version in 1..=2 {
        let file = write(&trainer, 0, version, version as f32);
        let manifest = manifest(version, &[manifest_entry("e", 0, &file)]);
        trainer.publish(&manifest).unwrap();
        trainer.make_current(&manifest).unwrap();
        trainer.preserve_best(&manifest).unwrap();
        trainer.preserve(&manifest, version as u32).unwrap();
    }
    for (name, version) in [("best", 2), ("epoch_1", 1), ("epoch_2", 2)] {
        let kept = ReadCheckpoint::open(&url("preserved").join(name)).unwrap();
        assert_eq!(kept.version(), version, "{name}");
        let inside = format!("{name}/embeddings_e_0.");
        let names = folders.names("preserved");
        let files = names.iter().filter(|object| object.starts_with(&inside));
        assert_eq!(files.count(), 1, "{names:?}");
    }
}

fn write(trainer: &SharedCheckpoint, partition: u32, version: u64, value: f32) -> PartitionFile {
    let fill = move |_: usize, out: &mut [f32]| out.fill(value);
    let rows = PartitionRows {
        rows: 2,
        dim: 3,
        embeddings: &fill,
        optimizer: Default::default(),
        state: &fill,
        rounding: None,
    };
    trainer
        .write_partition("e", partition, version, &rows)
        .unwrap()
}

fn manifest(version: u64, files: &[(String, FileSummary)]) -> CheckpointManifest {
    let begun = Some(CutOrigin {
        incarnation: Token(7),
        revision: 3,
        token: Token(1),
        number: 4,
    });
    CheckpointManifest {
        version,
        files: files.iter().cloned().collect(),
        cut: Some(CheckpointCut { version, begun }),
        ..CheckpointManifest::default()
    }
}
