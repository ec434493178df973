//! Damage is detected, reported with the file's name, and never read as data.

use super::*;
use pbg_files::sealed_json;

/// Returns a folder with a commit of one partition and a model.
fn committed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    write(&checkpoint, 0, 1).unwrap();
    write_model(&checkpoint, 1).unwrap();
    checkpoint.commit(run_info(1)).unwrap();
    folder
}

fn read_all(folder: &Path) -> Result<(), CheckpointError> {
    let reader = ReadCheckpoint::open(folder)?;
    reader.read_partition("e", 0)?;
    reader.model()?;
    let writer = Checkpoint::open_or_create(folder)?;
    writer.read_partition("e", 0)?;
    writer.model()?;
    Ok(())
}

const FILES: [&str; 3] = [
    "manifest.json",
    "embeddings_e_0.v1.safetensors",
    "model.v1.safetensors",
];

#[test]
fn every_flipped_byte() {
    let folder = committed();
    read_all(folder.path()).unwrap();
    for name in FILES {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            let error = read_all(folder.path()).unwrap_err().to_string();
            assert!(error.contains(name), "byte {at} of {name}: {error}");
        }
        fs::write(&path, &bytes).unwrap();
    }
    read_all(folder.path()).unwrap();
}

#[test]
fn truncated_and_missing_files() {
    let folder = committed();
    for name in FILES {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for length in [0, 1, 7, 8, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            let error = read_all(folder.path()).unwrap_err();
            assert!(
                matches!(error, CheckpointError::Damaged { .. }),
                "{name}, {length}: {error}"
            );
            assert!(error.to_string().contains(name), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(read_all(folder.path()).is_err(), "{name}");
        fs::write(&path, &bytes).unwrap();
    }
    read_all(folder.path()).unwrap();
}

#[test]
fn advice_names_what_is_there() {
    let folder = committed();
    let damage = || {
        fs::write(folder.path().join(MANIFEST), "no manifest").unwrap();
        read_all(folder.path()).unwrap_err().to_string()
    };
    let manifest = fs::read(folder.path().join(MANIFEST)).unwrap();
    let error = damage();
    assert!(error.contains("no other version was kept"), "{error}");
    for kept in ["best", "epoch_3", "epoch_12"] {
        fs::create_dir(folder.path().join(kept)).unwrap();
        fs::write(folder.path().join(kept).join(MANIFEST), &manifest).unwrap();
        let (error, kept) = (damage(), folder.path().join(kept));
        let advice = format!("the version in {} was kept", kept.display());
        assert!(error.contains(&advice), "{error}");
    }
}

#[test]
fn a_lost_manifest_does_not_cost_the_embeddings() {
    let folder = committed();
    let checkpoint = Checkpoint::open_or_create(folder.path()).unwrap();
    write(&checkpoint, 0, 2).unwrap();
    checkpoint.commit(run_info(2)).unwrap();
    drop(checkpoint);
    fs::remove_file(folder.path().join(MANIFEST)).unwrap();
    let error = Checkpoint::open_or_create(folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "is not a complete checkpoint: it has no manifest.json, but files of one, such as embeddings_e_0.v2"
        ),
        "{error}"
    );
    assert!(folder.path().join("embeddings_e_0.v2.safetensors").exists());
}

#[test]
fn other_peoples_folders_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["notes.txt", "model.txt", "notes.v7.safetensors", "x.tmp"] {
        fs::write(folder.path().join(name), "mine").unwrap();
    }
    drop(Checkpoint::open_or_create(folder.path()).unwrap());
    for name in ["notes.txt", "model.txt", "notes.v7.safetensors", "x.tmp"] {
        assert_eq!(
            fs::read_to_string(folder.path().join(name)).unwrap(),
            "mine"
        );
    }
    let dataset = sealed_json::seal(pbg_dataset::manifest::FORMAT, &json!({})).unwrap();
    fs::write(folder.path().join(MANIFEST), dataset).unwrap();
    let error = Checkpoint::open_or_create(folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("pbg-host dataset 1") && error.contains("pbg-host checkpoint 1"),
        "{error}"
    );
}

#[test]
fn headers_that_lie() {
    let folder = committed();
    let path = folder.path().join("lies.safetensors");
    let lies = [
        r#"{"embeddings":{"dtype":"F32","shape":[18446744073709551615,9],"data_offsets":[0,8]}}"#,
        r#"{"embeddings":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}}"#,
        r#"{"embeddings":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        r#"{"embeddings":[]}"#,
        "[]",
    ];
    for text in lies {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&[0; 8]);
        fs::write(&path, &bytes).unwrap();
        let summary = FileSummary {
            size: bytes.len() as u64,
            crc32: crc32fast::hash(&bytes),
        };
        let file = files::open(&path).unwrap();
        let error = PartitionData::default()
            .read(&file, &path, summary)
            .unwrap_err();
        assert!(matches!(error, CheckpointError::Damaged { .. }), "{text}");
        if !text.contains("\"a\"") {
            assert!(tensors::read(&file, &path, summary).is_err(), "{text}");
        }
    }
}
