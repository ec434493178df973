//! Fuzzing of every file of a dataset, and of its manifest.

use std::fs;
use std::path::Path;

use pbg_core::graph::Bucket;
use pbg_dataset::Dataset;
use pbg_files::sealed_json::ManifestFormat;

use crate::forge::disturb;
use crate::{fuzz, imports, turn};

const FORMAT: ManifestFormat = ManifestFormat {
    name: "pbg-host dataset",
    version: 1,
    oldest: 1,
};

/// Reads everything in the dataset; returns whether all of it was readable.
pub(crate) fn read(path: &Path) -> bool {
    let Ok(dataset) = Dataset::open(path) else {
        return false;
    };
    let mut whole = true;
    for (name, info) in &dataset.manifest().entities {
        whole &= dataset.dictionary(name).is_ok_and(|dictionary| {
            for global in 0..dictionary.len() {
                let id = dictionary.id(global);
                let same = dictionary.name(global) == dictionary.name_of(id);
                assert!(same && dictionary.global(id) == Some(global));
            }
            dictionary.find("ann").is_some() || name != "person"
        });
        whole &= dataset.entity_names(name).is_ok() && dataset.find(name, "ann").is_ok();
        if info.featurized {
            whole &= dataset.features(name).is_ok_and(|features| {
                let words = features.names().len() as u32;
                (0..features.len() as u32).all(|at| features.of(at).iter().all(|&w| w < words))
            });
        }
    }
    for name in dataset.manifest().edge_sets.keys() {
        let Ok(edges) = dataset.edge_set(name) else {
            whole = false;
            continue;
        };
        let (lhs, rhs) = edges.grid();
        let grid = (0..lhs.min(64)).flat_map(|l| (0..rhs.min(64)).map(move |r| Bucket::new(l, r)));
        for bucket in grid {
            let length = edges.bucket_len(bucket);
            whole &= edges
                .read(bucket, 0..length)
                .is_ok_and(|read| read.len() as u64 == length);
        }
    }
    whole
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn datasets() {
    let turn = turn();
    let place = tempfile::tempdir().unwrap();
    let (edges, features) = (place.path().join("e.tsv"), place.path().join("f.tsv"));
    fs::write(&edges, imports::EDGES.replace('\n', "\t1.5\n")).unwrap();
    fs::write(&features, imports::FEATURES).unwrap();
    let data = place.path().join("data");
    let columns = "lhs,rel,rhs,weight".parse().expect("columns");
    assert!(imports::run(&data, edges, features, Some(columns)));
    assert!(read(&data));
    fuzz(turn, "datasets", 1200, 256 << 20, |dice, place| {
        let copied = place.join("data");
        copy(&data, &copied);
        disturb(dice, &copied, FORMAT);
        read(&copied)
    });
}
