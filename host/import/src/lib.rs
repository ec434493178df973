//! Import of edges, as text or tables, into a dataset.
//!
//! The edges are read once, and once more if their names do not fit in memory. A reader thread divides the files into
//! blocks; worker threads parse them and replace names with provisional numbers; the calling thread collects the
//! results in the order of the files and spills them to disk. When all names are known, they get their partitions and
//! offsets by a shuffle that depends only on names and seed, and the spilled edges are sorted by bucket. The result
//! depends neither on the number of threads and their timing, nor on whether names were in memory or on disk
//! ([`on_disk`]).
//!
//! [`run`] is the import; [`columns`] is the meaning of columns, [`spool`] stores edges that a program passes in memory,
//! and [`generate`] writes random graphs. Invariant: the dataset is replaced at the end, as a whole, or not at all.
//! This crate knows the schema of the graph, but not the configuration of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pbg_core::graph::Schema;

use pbg_dataset::manifest::{DatasetManifest, EntityType, RelationsInfo};
use pbg_dataset::{Dataset, Staging, write};
use pbg_files::{self as files, remote};

mod assign;
mod block;
mod bucketize;
mod cast;
pub mod columns;
mod counting;
mod csv;
mod detect;
mod error;
mod features;
mod format;
pub mod generate;
mod inputs;
mod intern;
mod job;
mod memory;
mod name_index;
mod on_disk;
mod opening;
mod options;
mod pipeline;
mod pipes;
mod progress;
mod rdf;
mod reading;
mod relations;
mod report;
mod shorten;
mod source;
mod spill;
pub mod spool;
mod table;
mod target;
mod text;
mod types;
mod worker;

pub use columns::ColumnSpec;
pub use error::ImportError;
pub use format::{Comments, OnBadLine, Separator, TextOptions};
pub use memory::LEAST as LEAST_MEMORY;
pub use options::{ImportOptions, LARGE, NameStorage};
pub use progress::ImportProgress;
pub use rdf::{BlankNodes, Literals, Prefix, RdfOptions, RdfSyntax};
pub use report::{ImportReport, MOST_OVER_MEAN, SetReport, SkippedLines, TypeReport};

use inputs::InputFiles;
use job::ImportJob;
use progress::report_progress;

/// Callback that receives the progress of an import and can stop it.
type Progress<'p> = dyn FnMut(ImportProgress) -> ControlFlow<()> + 'p;

/// Imports edge sets, given by name and files. `progress` is called from time to time on the calling thread, and can
/// stop the import.
///
/// The dataset is created in a folder next to the target and replaces the target at the end. After an error the target
/// is unchanged. Only one import at a time can write to a target.
///
/// # Errors
/// When the configuration, a file or the target is invalid, or the disk is full.
pub fn run(
    schema: &Schema,
    sets: &[(String, Vec<PathBuf>)],
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport, ImportError> {
    check_sets(sets)?;
    check_target(&options.target)?;
    let inputs = InputFiles::find(sets, options, progress)?;
    let mut read_as = Vec::new();
    let mut progress = |event: ImportProgress| {
        if let ImportProgress::ReadAs { what } = &event {
            // If reading starts again, the same files are reported again.
            if read_as.contains(what) {
                return ControlFlow::Continue(());
            }
            read_as.push(what.clone());
        }
        progress(event)
    };
    let name_storage = options.name_storage.unwrap_or_else(|| {
        match inputs.bytes() > LARGE && types::only_in_memory(schema).is_none() {
            true => NameStorage::Files,
            false => NameStorage::Memory,
        }
    });
    let staging = target::begin(&options.target)?;
    let run_with = |storage, progress: &mut Progress<'_>| {
        run_with(storage, schema, &inputs, options, &staging, progress)
    };
    let report = match run_with(name_storage, &mut progress) {
        Err(ImportError::Names(why)) if types::only_in_memory(schema).is_none() => {
            report_progress(&mut progress, ImportProgress::NamesToDisk { why })?;
            run_with(NameStorage::Files, &mut progress)
        }
        result => result,
    }?;
    inputs.discard_copies()?;
    Ok(ImportReport { read_as, ..report })
}

fn run_with(
    name_storage: NameStorage,
    schema: &Schema,
    inputs: &InputFiles,
    options: &ImportOptions,
    staging: &Staging,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport, ImportError> {
    if name_storage == NameStorage::Files
        && let Some(why) = types::only_in_memory(schema)
    {
        let what = format!("names cannot be on disk, only in memory, because {why}");
        return Err(ImportError::usage(what));
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or_else(cores).max(1);
    let memory = memory::MemoryBudget::new(options, threads)?;
    let old = previous(staging.target(), options)?;
    let types = types::Types::new(schema, old.as_ref(), options, name_storage)?;
    let relations = relations::RelationTable::new(schema, &types, old.as_ref())?;
    staging.make_new()?;
    let folder = staging.new_folder();
    let job = ImportJob {
        schema,
        options,
        inputs,
        name_storage,
        shards: on_disk::shards(inputs.bytes(), old.as_ref()),
        types: &types,
        relations: &relations,
        old: old.as_ref(),
        folder: &folder,
        threads,
        memory,
    };
    memory.check_names(&types)?;

    let (edges, numbered) = job.read(progress)?;
    let (manifest, mut report) = job.write(edges, numbered.as_ref(), progress)?;
    counting::count(&job, &manifest, &mut report, progress)?;
    target::complete(staging, &manifest)?;
    Ok(ImportReport {
        path: options.target.clone(),
        ..report
    })
}

/// Edges of each set that were read, and its skipped lines.
type SpilledEdges = Vec<(spill::Spill, SkippedLines)>;

impl ImportJob<'_> {
    /// Reads all edges, and numbers the names if they are on disk.
    fn read(
        &self,
        progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<(SpilledEdges, Option<on_disk::Numbering>), ImportError> {
        if self.name_storage == NameStorage::Memory {
            let edges = pipeline::read_all(self, None, progress)?;
            return Ok((edges, None));
        }
        if let Some(old) = self.old {
            on_disk::scatter_known(self, old)?;
        }
        let mut shards = on_disk::Shards::create(self)?;
        let edges = pipeline::read_all(self, Some(&mut shards), progress)?;
        let (edges, numbered) = on_disk::number_all(self, edges, shards, progress)?;
        Ok((edges, Some(numbered)))
    }

    /// Does everything after reading: assigns partitions, writes dictionaries and relations, and sorts edges.
    fn write(
        &self,
        edges: SpilledEdges,
        numbered: Option<&on_disk::Numbering>,
        progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<(DatasetManifest, ImportReport), ImportError> {
        let relations = self.relations.place(self.options.relation_min_count);
        let mut report = ImportReport {
            dropped_relations: relations.dropped,
            relations: relations.list.len() as u64,
            ..ImportReport::default()
        };
        let file = "relations.arrow".to_owned();
        let summary = write::relations(&self.folder.join(&file), &relations.list)?;
        let mut manifest = DatasetManifest {
            dynamic_relations: self.schema.dynamic_relations,
            entities: BTreeMap::new(),
            files: BTreeMap::from([(file.clone(), summary)]),
            relations: RelationsInfo {
                file,
                count: relations.list.len() as u32,
            },
            edge_sets: BTreeMap::new(),
        };

        let places = self.place_entities(numbered)?;
        let entities = places.iter().map(assign::Assignment::total).sum();
        report_progress(progress, ImportProgress::Assigning { entities })?;
        self.write_entities(&places, numbered, &mut manifest, &mut report)?;
        if numbered.is_some() {
            on_disk::forget(self)?;
        }
        for (spill, skipped) in edges {
            let ids = &relations.ids;
            let (info, summary) = bucketize::run(self, &spill, &places, ids, progress)?;
            report.sets.push(SetReport {
                name: spill.set.clone(),
                edges: info.edges,
                dropped: spill.edges - info.edges,
                skipped,
            });
            manifest.files.insert(info.file.clone(), summary);
            manifest.edge_sets.insert(spill.set.clone(), info);
        }
        if let Some(old) = self.old.filter(|_| self.options.dictionary.is_none()) {
            self.keep_sets(old, &mut manifest, &mut report)?;
        }
        Ok((manifest, report))
    }

    /// Assigns partitions and offsets to the entities of every type.
    fn place_entities(
        &self,
        numbered: Option<&on_disk::Numbering>,
    ) -> Result<Vec<assign::Assignment>, ImportError> {
        let types = self.types.names.iter().enumerate();
        let place = |(index, names): (usize, &types::TypeNames)| match numbered {
            None => assign::Assignment::new(self, index),
            Some(numbered) => {
                let new = numbered.total(index).new;
                assign::Assignment::ranked(&names.known_counts, new, &names.entity_type)
            }
        };
        types.map(place).collect()
    }

    /// Writes dictionaries and features.
    fn write_entities(
        &self,
        places: &[assign::Assignment],
        numbered: Option<&on_disk::Numbering>,
        manifest: &mut DatasetManifest,
        report: &mut ImportReport,
    ) -> Result<(), ImportError> {
        for (index, (names, places)) in self.types.names.iter().zip(places).enumerate() {
            let name = names.entity_type.clone();
            let file = format!("entities_{name}.arrow");
            let path = self.folder.join(&file);
            let (summary, names_crc32) = match numbered {
                Some(numbered) => on_disk::write_dictionary(self, index, places, numbered, &path)?,
                None => {
                    let names = names.interner.read();
                    let listed = places.order().iter().map(|&id| names.name(id));
                    write::dictionary(&path, listed, places.counts())?
                }
            };
            manifest.files.insert(file.clone(), summary);
            let features = features::import(self, index, places, manifest, report)?;
            let entity = &self.schema.entities[&name];
            manifest.entities.insert(
                name.clone(),
                EntityType {
                    file,
                    num_partitions: entity.num_partitions,
                    counts: places.counts().to_vec(),
                    names_crc32,
                    featurized: entity.featurized,
                    features,
                },
            );
            let (absent, dropped) = match numbered.map(|numbered| numbered.total(index)) {
                Some(counts) => (counts.absent, counts.dropped),
                None => (names.absent(), names.len() as u64 - places.total()),
            };
            report.types.push(TypeReport {
                name,
                entities: places.total(),
                known: names.known_total(),
                absent,
                dropped,
                counts: places.counts().to_vec(),
            });
        }
        Ok(())
    }

    /// Keeps the edge sets of the previous dataset that were not imported again. They remain valid because ids are
    /// stable.
    fn keep_sets(
        &self,
        old: &Dataset,
        manifest: &mut DatasetManifest,
        report: &mut ImportReport,
    ) -> Result<(), ImportError> {
        for (name, info) in &old.manifest().edge_sets {
            if manifest.edge_sets.contains_key(name) {
                continue;
            }
            let from = old.path().join(&info.file);
            files::link_or_copy(&from, &self.folder.join(&info.file))?;
            let summary = old.manifest().files[&info.file];
            manifest.files.insert(info.file.clone(), summary);
            manifest.edge_sets.insert(name.clone(), info.clone());
            report.kept_sets.push(name.clone());
        }
        Ok(())
    }
}

/// Opens the dataset whose ids are kept, if any.
fn previous(target: &Path, options: &ImportOptions) -> Result<Option<Dataset>, ImportError> {
    if let Some(dictionary) = &options.dictionary {
        return Ok(Some(Dataset::open(dictionary)?));
    }
    if options.fresh || !Dataset::exists(target) {
        return Ok(None);
    }
    Dataset::open(target)
        .map(Some)
        .map_err(ImportError::Previous)
}

/// Checks that an import can write its dataset to `target`.
///
/// # Errors
/// When it is in an object store.
pub fn check_target(target: &Path) -> Result<(), ImportError> {
    if remote::as_url(target).is_none() {
        return Ok(());
    }
    let target = target.display();
    Err(ImportError::usage(format!(
        "an import writes to a local folder, and {target} is in an object store; name a folder as `dataset`, and copy it \
         there afterwards"
    )))
}

fn check_sets(sets: &[(String, Vec<PathBuf>)]) -> Result<(), ImportError> {
    let mut names = BTreeSet::new();
    if sets.is_empty() {
        let what = "no edges to import: name a set and its files";
        return Err(ImportError::usage(what));
    }
    for (name, files) in sets {
        types::check_name("edge set", name)?;
        let wrong = |what: &str| ImportError::usage(format!("the edge set `{name}` {what}"));
        if !names.insert(name) {
            return Err(wrong("is named twice"));
        }
        if files.is_empty() {
            return Err(wrong("has no file"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
