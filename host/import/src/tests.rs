//! Imports of small files, as a user would run them.

mod bad_input;
mod formats;
mod on_disk;
mod rdf;
mod rdf_errors;
mod reading;
mod round_trip;
mod stable_ids;
mod turtle;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pbg_config::Config;
use pbg_core::graph::Bucket;
use tempfile::TempDir;

use super::{ImportError, ImportOptions, ImportReport, run};
use pbg_dataset::Dataset;

/// Folder with input files, and the configuration of a dataset to import.
struct Workshop {
    folder: TempDir,
    config: Config,
    options: ImportOptions,
}

/// Edge by its names, with the bits of its weight.
type NamedEdge = (String, String, String, Option<u32>);

impl Workshop {
    /// Creates a workshop with the entity type `e` in `partitions` partitions, and any relations.
    fn new(partitions: u32) -> Self {
        Self::with_config(&format!(
            "entities.e.num_partitions = {partitions}\n\
             relations = [{{ name = '*', lhs = 'e', rhs = 'e' }}]"
        ))
    }

    fn with_config(text: &str) -> Self {
        let text = format!("dataset = 'd'\ncheckpoint_path = 'c'\ndimension = 8\n{text}");
        Self {
            folder: tempfile::tempdir().unwrap(),
            config: Config::parse(&text, "pbg.toml", &[]).unwrap(),
            options: ImportOptions {
                threads: Some(2),
                ..ImportOptions::default()
            },
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn target(&self) -> PathBuf {
        match self.options.target.as_os_str().is_empty() {
            true => self.path("data"),
            false => self.options.target.clone(),
        }
    }

    fn import(&self, sets: &[(&str, &[&Path])]) -> Result<ImportReport, ImportError> {
        let sets: Vec<_> = sets
            .iter()
            .map(|(name, files)| {
                (
                    (*name).to_owned(),
                    files.iter().map(|f| f.to_path_buf()).collect(),
                )
            })
            .collect();
        let options = ImportOptions {
            target: self.target(),
            ..self.options.clone()
        };
        run(&self.config.graph_schema(), &sets, &options, &mut |_| {
            ControlFlow::Continue(())
        })
    }

    fn import_text(&self, name: &str, content: impl AsRef<[u8]>) -> Result<Dataset, ImportError> {
        let file = self.file(name, content);
        self.import(&[("train", &[&file])])?;
        Ok(self.dataset())
    }

    fn dataset(&self) -> Dataset {
        Dataset::open(&self.target()).unwrap()
    }

    /// Returns whether there is nothing but `data` and the files that the test created.
    fn is_tidy(&self) -> bool {
        fs::read_dir(self.folder.path()).unwrap().all(|entry| {
            !entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with('.')
        })
    }
}

/// Returns all edges of a set by name, sorted; checks that each is in its bucket.
fn named_edges(dataset: &Dataset, set: &str) -> Vec<NamedEdge> {
    let mut named = Vec::new();
    let dictionaries: BTreeMap<_, _> = dataset
        .manifest()
        .entities
        .keys()
        .map(|name| (name.clone(), dataset.dictionary(name).unwrap()))
        .collect();
    let edges = dataset.edge_set(set).unwrap();
    let (lhs_partitions, rhs_partitions) = edges.grid();
    for lhs in 0..lhs_partitions {
        for rhs in 0..rhs_partitions {
            let bucket = Bucket::new(lhs, rhs);
            let read = edges.read(bucket, 0..edges.bucket_len(bucket)).unwrap();
            for i in 0..read.len() {
                let relation = &dataset.relations()[read.rel[i] as usize];
                let name = |of_type: &str, partition, offset| {
                    let id = pbg_dataset::EntityId { partition, offset };
                    dictionaries[of_type].name_of(id).unwrap().to_owned()
                };
                named.push((
                    name(&relation.lhs, lhs, read.lhs[i]),
                    relation.name.clone(),
                    name(&relation.rhs, rhs, read.rhs[i]),
                    read.weight.as_ref().map(|w| w[i].to_bits()),
                ));
            }
        }
    }
    assert_eq!(named.len() as u64, edges.len());
    named.sort();
    named
}

fn edge(lhs: &str, rel: &str, rhs: &str) -> NamedEdge {
    (lhs.to_owned(), rel.to_owned(), rhs.to_owned(), None)
}
