//! Fuzzing of the graphs of an index, and of its manifest.

use std::fs;
use std::path::Path;

use pbg_checkpoint::index::{FORMAT, IndexBuild, IndexError, OpenIndexFiles, TypeIndex};
use pbg_files::FileSummary;

use crate::forge::disturb;
use crate::{fuzz, turn};

/// Reads everything in the index.
fn read(folder: &Path) -> Result<(), IndexError> {
    let Some(opened) = OpenIndexFiles::find(folder)? else {
        return Ok(());
    };
    let graphs = opened.manifest().types.values().flat_map(|of| &of.graphs);
    for info in graphs {
        let graph = opened.graph(info).expect("it is open");
        assert_eq!(graph.sums()?.len(), info.rows as usize);
        let (mut bytes, mut links) = (Vec::new(), Vec::new());
        for entity in 0..info.points {
            graph.links(entity, &mut bytes, &mut links)?;
            assert!(links.iter().all(|&link| link < info.points));
        }
    }
    Ok(())
}

fn write(folder: &Path) {
    let mut building = IndexBuild::begin(folder, "dot").unwrap();
    let links = [vec![1, 2], vec![0, 3], vec![], vec![2]];
    let embeddings = FileSummary { size: 1, crc32: 2 };
    let graphs = [0, 1].map(|partition| {
        let written = building.write("person", partition, (1, &links), &[1, 2, 3], embeddings);
        written.unwrap()
    });
    let of_type = TypeIndex {
        graphs: graphs.to_vec(),
        ..TypeIndex::default()
    };
    building.set("person", of_type);
    building.commit().unwrap();
}

#[test]
fn indexes() {
    let turn = turn();
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("index_dot");
    write(&whole);
    read(&whole).unwrap();
    fuzz(turn, "indexes", 1500, 64 << 20, |dice, place| {
        let copied = place.join("index_dot");
        fs::create_dir_all(&copied).unwrap();
        for entry in fs::read_dir(&whole).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copied.join(path.file_name().unwrap())).unwrap();
        }
        disturb(dice, &copied, FORMAT);
        match read(&copied) {
            Ok(()) => true,
            Err(error) => error.to_string().is_empty(),
        }
    });
}
