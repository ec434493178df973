use super::*;
use crate::row_sum;

const SOME: FileSummary = FileSummary { size: 9, crc32: 7 };

fn built(folder: &Path) -> IndexManifest {
    let mut building = IndexBuild::begin(folder, "dot").unwrap();
    let links = [vec![1, 2], vec![0], vec![]];
    let sums = [row_sum(&[1.0, 2.0]), row_sum(&[3.0, 4.0]), 0];
    let graph = building.write("city", 0, (1, &links), &sums, SOME).unwrap();
    let graphs = vec![graph];
    let of_type = TypeIndex {
        graphs,
        ..TypeIndex::default()
    };
    building.set("city", of_type);
    building.commit().unwrap()
}

fn all_of(folder: &Path) -> Result<Vec<Vec<u32>>, IndexError> {
    let opened = OpenIndexFiles::find(folder)?.expect("an index");
    let graph = opened.graph(&opened.manifest().types["city"].graphs[0]);
    let graph = graph.expect("the index has the graph");
    assert_eq!(graph.sums()?.len(), 3);
    let (mut bytes, mut links) = (Vec::new(), Vec::new());
    let list = |entity| {
        graph
            .links(entity, &mut bytes, &mut links)
            .map(|()| links.clone())
    };
    (0..graph.info().points).map(list).collect()
}

#[test]
fn what_was_built_is_read_and_replaces_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read(folder.path()).unwrap(), None);
    for version in 1..=3 {
        let manifest = built(folder.path());
        assert_eq!(manifest.version, version);
        assert_eq!(read(folder.path()).unwrap(), Some(manifest));
        assert_eq!(
            all_of(folder.path()).unwrap(),
            [vec![1, 2], vec![0], vec![]]
        );
        // The manifest and one graph.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn what_is_read_is_of_one_build() {
    let folder = tempfile::tempdir().unwrap();
    built(folder.path());
    let opened = OpenIndexFiles::find(folder.path())
        .unwrap()
        .expect("an index");
    for _ in 0..2 {
        built(folder.path());
        let graph = opened.graph(&opened.manifest().types["city"].graphs[0]);
        let graph = graph.expect("the open index keeps its graph");
        assert_eq!(graph.sums().unwrap().len(), 3);
        assert!(folder.path().join(&graph.info().file).exists());
    }
    drop(opened);
    built(folder.path());
    // The manifest and one graph.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn what_is_not_committed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = built(folder.path());
    let mut building = IndexBuild::begin(folder.path(), "dot").unwrap();
    building
        .write("city", 0, (0, &[vec![]]), &[1], SOME)
        .unwrap();
    drop(building);
    assert_eq!(read(folder.path()).unwrap(), Some(manifest));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn two_builds_at_once_are_one_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let first = IndexBuild::begin(folder.path(), "dot").unwrap();
    let second =
        IndexBuild::begin(folder.path(), "dot").expect_err("the index is already being built");
    assert!(matches!(second, IndexError::Busy { .. }), "{second}");
    drop(first);
    built(folder.path());
}

#[test]
fn every_changed_byte_and_every_cut_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = built(folder.path());
    let name = manifest.files.keys().next().unwrap();
    for name in [name.as_str(), MANIFEST] {
        let path = folder.path().join(name);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            let error = all_of(folder.path()).expect_err("damage").to_string();
            assert!(error.contains(name), "byte {at}: {error}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(all_of(folder.path()).is_err(), "{name} cut at {at}");
        }
        fs::write(&path, &whole).unwrap();
    }
}
