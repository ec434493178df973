//! Datasets and checkpoints with correct checksums and wrong contents.

use std::fs;
use std::path::{Path, PathBuf};

use pbg_files::sealed_json::{self, ManifestFormat};
use pbg_fuzz::{Dice, bytes, json};
use serde_json::Value;

/// Returns the files of a folder that the manifest names, and the manifest.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e != "jsonl" && e != "toml")
        })
        .collect();
    files.sort();
    files
}

/// Changes a file below `folder`: its bytes, with or without correcting the checksums, or values of its manifest, which
/// is sealed again.
pub(crate) fn disturb(dice: &mut Dice, folder: &Path, format: ManifestFormat) {
    let all = files(folder);
    let path = dice.pick(&all);
    let other = fs::read(dice.pick(&all)).unwrap();
    let manifest = folder.join("manifest.json");
    if dice.below(3) == 0 {
        let mut body = body(&manifest);
        json(dice, &mut body);
        return seal(&manifest, format, &body);
    }
    let before = fs::read(path).unwrap();
    let after = bytes(dice, &before, &other);
    fs::write(path, &after).unwrap();
    if *path != manifest && dice.below(4) != 0 {
        let mut body = body(&manifest);
        vouch(
            &mut body,
            path.file_name().unwrap().to_str().unwrap(),
            &after,
        );
        seal(&manifest, format, &body);
    }
}

/// Returns the fields of a manifest without its frame.
fn body(manifest: &Path) -> Value {
    let text = fs::read_to_string(manifest).unwrap();
    let mut body: Value = serde_json::from_str(&text).unwrap();
    let fields = body.as_object_mut().unwrap();
    for frame in ["format", "format_version", "crc32"] {
        fields.remove(frame);
    }
    body
}

fn seal(manifest: &Path, format: ManifestFormat, body: &Value) {
    // A body that is no longer an object cannot be sealed.
    let text = match body {
        Value::Object(_) => sealed_json::seal(format, body).unwrap(),
        other => other.to_string().into_bytes(),
    };
    fs::write(manifest, text).unwrap();
}

/// Writes the file's current size and checksums into the manifest.
fn vouch(body: &mut Value, name: &str, bytes: &[u8]) {
    let sum = |bytes: &[u8]| Value::from(crc32fast::hash(bytes));
    if let Some(file) = body["files"].get_mut(name) {
        file["size"] = Value::from(bytes.len());
        file["crc32"] = sum(bytes);
    }
    let sets = body.get_mut("edge_sets").and_then(Value::as_object_mut);
    for set in sets.into_iter().flat_map(|sets| sets.values_mut()) {
        if set["file"] != name {
            continue;
        }
        let mut frame = bytes.to_vec();
        for batch in set["batches"].as_array_mut().into_iter().flatten().rev() {
            let number = |key: &str| batch[key].as_u64().unwrap_or(0) as usize;
            let (from, length) = (number("offset"), number("length"));
            if let Some(part) = bytes.get(from..from.saturating_add(length)) {
                batch["crc32"] = sum(part);
                if from + length <= frame.len() {
                    frame.drain(from..from + length);
                }
            }
        }
        set["frame_crc32"] = sum(&frame);
    }
}
