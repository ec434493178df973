//! Damage is detected, reported with the file's name, and never read as data.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use pbg_config::Config;
use pbg_core::graph::{Bucket, EdgeColumns};
use tempfile::TempDir;

use pbg_dataset::*;
use pbg_files::sealed_json;
use pbg_import::{self as import, ImportOptions};

/// Creates a folder with a small dataset that has a file of each kind.
fn dataset() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    imported(
        folder.path(),
        "a,r,b,0.5\nb,s,c,1\nc,r,a,2\nn,of,a,1\n",
        false,
    );
    folder
}

/// Imports edges into the dataset in `folder`; `fresh` discards the previous content.
fn imported(folder: &Path, edges: &str, fresh: bool) {
    let text = "dataset = 'd'\ncheckpoint_path = 'c'\ndimension = 2\nentities.e.num_partitions = 2\n\
                entities.f = { num_partitions = 1, featurized = true }\n\
                relations = [{ name = 'of', lhs = 'f', rhs = 'e' }, { name = '*', lhs = 'e', rhs = 'e' }]";
    let config = Config::parse(text, "pbg.toml", &[]).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let edges = format!("lhs,rel,rhs,weight\n{edges}");
    let sets = [("train".to_owned(), vec![file("edges.csv", &edges)])];
    let options = ImportOptions {
        target: folder.join("data"),
        fresh,
        features: vec![("f".to_owned(), file("words.tsv", "n\tx y\n"))],
        ..ImportOptions::default()
    };
    import::run(&config.graph_schema(), &sets, &options, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
}

fn read_all(path: &Path) -> Result<Vec<EdgeColumns>, String> {
    let text = |e: DatasetError| e.to_string();
    let dataset = Dataset::open(path).map_err(text)?;
    dataset.entity_names("e").map_err(text)?;
    dataset.entity_names("f").map_err(text)?;
    dataset.features("f").map_err(text)?;
    let edges = dataset.edge_set("train").map_err(text)?;
    let (lhs, rhs) = edges.grid();
    let buckets = (0..lhs).flat_map(|l| (0..rhs).map(move |r| Bucket::new(l, r)));
    let read = |bucket| edges.read(bucket, 0..edges.bucket_len(bucket));
    buckets
        .map(|bucket| read(bucket).map_err(|e| e.to_string()))
        .collect()
}

const FILES: [&str; 7] = [
    "manifest.json",
    "entities_e.arrow",
    "entities_f.arrow",
    "relations.arrow",
    "edges_train.arrow",
    "features_f.arrow",
    "feature_names_f.arrow",
];

#[test]
fn every_flipped_byte() {
    let folder = dataset();
    let data = folder.path().join("data");
    assert_eq!(
        read_all(&data)
            .unwrap()
            .iter()
            .map(EdgeColumns::len)
            .sum::<usize>(),
        4
    );
    for name in FILES {
        let path = data.join(name);
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            let error = read_all(&data).unwrap_err();
            assert!(error.contains(name), "byte {at} of {name}: {error}");
        }
        fs::write(&path, &bytes).unwrap();
    }
    read_all(&data).unwrap();
}

#[test]
fn truncated_and_missing_files() {
    let folder = dataset();
    let data = folder.path().join("data");
    for name in FILES {
        let path = data.join(name);
        let bytes = fs::read(&path).unwrap();
        for length in [0, 1, 8, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            let error = read_all(&data).unwrap_err();
            assert!(
                error.contains(name) && error.contains("import the edges again"),
                "{error}"
            );
        }
        fs::remove_file(&path).unwrap();
        let error = read_all(&data).unwrap_err();
        assert!(error.contains(name), "{error}");
        fs::write(&path, &bytes).unwrap();
    }
}

/// Changes the manifest and seals it again, as an attacker could.
fn forge(data: &Path, change: impl Fn(&mut DatasetManifest)) {
    let path = data.join(MANIFEST);
    let mut manifest: DatasetManifest = sealed_json::read(&path, manifest::FORMAT).unwrap().body;
    change(&mut manifest);
    fs::write(
        &path,
        sealed_json::seal(manifest::FORMAT, &manifest).unwrap(),
    )
    .unwrap();
}

#[test]
fn manifests_that_lie() {
    let lies: [fn(&mut DatasetManifest); 9] = [
        |m| m.entities.get_mut("e").unwrap().counts = vec![1, 2],
        |m| m.entities.get_mut("e").unwrap().counts = vec![3],
        |m| m.entities.get_mut("e").unwrap().file = "../elsewhere".to_owned(),
        |m| {
            m.entities
                .get_mut("f")
                .unwrap()
                .features
                .as_mut()
                .unwrap()
                .count = 1
        },
        |m| m.edge_sets.get_mut("train").unwrap().batches[0].rows = u64::MAX,
        |m| m.edge_sets.get_mut("train").unwrap().batches[0].length = u64::MAX,
        |m| m.edge_sets.get_mut("train").unwrap().batches[0].bucket.lhs = 9,
        |m| m.edge_sets.get_mut("train").unwrap().batches.reverse(),
        |m| m.relations.count = 7,
    ];
    for (at, lie) in lies.into_iter().enumerate() {
        let folder = dataset();
        let data = folder.path().join("data");
        assert_eq!(
            Dataset::open(&data).unwrap().manifest().entities["e"].counts,
            [2, 1]
        );
        forge(&data, lie);
        assert!(read_all(&data).is_err(), "lie {at}");
    }
}

/// A dataset that another import has replaced is reported as such, not as damaged.
#[test]
fn a_dataset_that_was_imported_anew_is_not_damaged() {
    let folder = dataset();
    let data = folder.path().join("data");
    let opened = Dataset::open(&data).unwrap();
    let read = |edges: &EdgeSet| -> Result<(), EdgeReadError> {
        let (lhs, rhs) = edges.grid();
        let buckets = (0..lhs).flat_map(|l| (0..rhs).map(move |r| Bucket::new(l, r)));
        let mut buckets = buckets.map(|bucket| edges.read(bucket, 0..edges.bucket_len(bucket)));
        buckets.try_for_each(|read| read.map(drop))
    };
    let edges = opened.edge_set("train").unwrap();
    // Names and edges have the same sizes as before.
    imported(
        folder.path(),
        "x,r,y,5.5\ny,s,z,3\nz,r,x,4\nn,of,x,7\n",
        true,
    );
    let error = opened.entity_names("e").unwrap_err();
    assert!(matches!(error, DatasetError::Replaced { .. }), "{error}");
    let other = match opened.edge_set("train") {
        Ok(edges) => read(&edges).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    for said in [error.to_string(), other] {
        let expected = format!("the dataset {} was imported again", data.display());
        assert!(said.starts_with(&expected), "{said}");
    }
    // Files that were already open stay readable.
    read(&edges).unwrap();
}

#[test]
fn what_is_no_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let error = Dataset::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("is not a dataset") && error.contains("pbg-host import"),
        "{error}"
    );
    let error = Dataset::open(&folder.path().join("nowhere"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not a dataset"), "{error}");
    let newer = sealed_json::ManifestFormat {
        name: "pbg-host dataset",
        version: 9,
        oldest: 1,
    };
    let sealed = sealed_json::seal(newer, &serde_json::json!({})).unwrap();
    fs::write(folder.path().join(MANIFEST), sealed).unwrap();
    let error = Dataset::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("`pbg-host dataset 9`") && error.contains("import"),
        "{error}"
    );
}
