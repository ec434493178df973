//! Import: from edges as text or tables to a dataset.
//!
//! The edges are read once (and once more where their names turn out not to fit in memory): a reader cuts the files into blocks, workers parse them and replace
//! names by provisional numbers, and the calling thread collects the results in the order of the
//! files and spills them to disk. When all names are known they get their partitions and
//! offsets, by a shuffle that depends on nothing but names and seed, and the spilled edges are
//! sorted by bucket. Neither the number of threads nor their timing leaves a trace in the result, nor does it matter
//! whether names were in memory or on the disk ([`on_disk`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pbg_core::graph::Schema;

use crate::dataset::manifest::{EntityType, Manifest};
use crate::dataset::{Dataset, Staging, write};
use crate::files;

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
mod inputs;
mod intern;
mod memory;
mod ntriples;
mod on_disk;
mod pipeline;
mod pipes;
mod reading;
mod relations;
mod report;
mod source;
mod spill;
pub mod spool;
mod table;
mod target;
mod text;
mod types;
mod worker;

pub use columns::Columns;
pub use error::ImportError;
pub use format::{Comments, OnBadLine, Separator, TextOptions};
pub use memory::LEAST as LEAST_MEMORY;
pub use report::{ImportReport, MOST_OVER_MEAN, SetReport, SkippedLines, TypeReport};

use inputs::Inputs;

/// Where an import writes, and how it works.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Folder of the dataset.
    pub target: PathBuf,
    /// Decides which partition an entity is in.
    pub seed: u64,
    /// What the columns of the files are. Default: the names of tables with a header; `lhs, rel,
    /// rhs` for those without.
    pub columns: Option<Columns>,
    /// How text is written. Default: as its first lines show.
    pub text: TextOptions,
    /// What to do about lines that are not edges.
    pub on_bad_line: OnBadLine,
    /// Worker threads. Default: one per core.
    pub threads: Option<usize>,
    /// Bytes that names and buffers may take together, at least [`LEAST_MEMORY`]. Names that do not fit are sorted on the
    /// disk. Default: `names_memory`, and 256 MiB of buffers.
    pub memory: Option<u64>,
    /// Bytes that names may take where `memory` does not say so. Default: what they need.
    pub names_memory: Option<u64>,
    /// Where the names of entities are. Default: in files where the edges are more than [`LARGE`], else in memory.
    pub names_in: Option<NamesIn>,
    /// Entities in fewer edges are left out, with their edges.
    pub entity_min_count: u32,
    /// Relations with fewer edges are left out, with their edges.
    pub relation_min_count: u32,
    /// A dataset whose ids are kept. Default: the one in the target folder, if there is one.
    pub dictionary: Option<PathBuf>,
    /// Forget the dataset in the target folder instead of keeping its ids and edge sets.
    pub fresh: bool,
    /// Files with the features of the entities of featurized types.
    pub features: Vec<(String, PathBuf)>,
    /// The edge sets that will be trained: what others have besides is counted.
    pub trained: Vec<String>,
}

/// Where an import keeps the names of entities while it numbers them. The dataset is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesIn {
    /// In memory; if they do not fit, the import begins anew with names in files.
    Memory,
    /// In files beside the target, which take about what the edges take as text. For many names this is the faster way:
    /// the table of each file's names fits the processor's cache.
    Files,
}

/// Bytes of all files of edges from which on names are in files.
pub const LARGE: u64 = 256 << 20;

/// How far an import is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// What comes through a pipe is copied to a file.
    Spooling {
        /// The pipe.
        path: PathBuf,
        /// Bytes copied so far.
        bytes: u64,
    },
    /// What files are read as. This comes before anything is read.
    ReadAs {
        /// The files, how their edges are written, and the first edge of the first file.
        what: String,
    },
    /// Edges are read.
    Reading {
        /// Edge set.
        set: String,
        /// Bytes of all files read so far, as they lie on the disk.
        bytes: u64,
        /// Bytes of all files.
        total_bytes: u64,
        /// Edges read so far.
        edges: u64,
    },
    /// Names do not fit in memory: reading begins anew, with names on the disk.
    NamesToDisk {
        /// Why.
        why: String,
    },
    /// Names on the disk get their numbers.
    Numbering {
        /// Bytes of names that have theirs.
        bytes: u64,
        /// Bytes of all names, as often as they occur.
        total_bytes: u64,
    },
    /// Edges get the numbers of their names.
    Joining {
        /// Edge set.
        set: String,
        /// Its edges that have theirs.
        edges: u64,
        /// All its edges.
        total_edges: u64,
    },
    /// Entities get their places.
    Assigning {
        /// Entities of all types.
        entities: u64,
    },
    /// What held-out edges have that no trained edge has is counted.
    Counting {
        /// Edges looked at so far.
        edges: u64,
        /// All edges.
        total_edges: u64,
    },
    /// The edges of a set are sorted by bucket and written.
    Writing {
        /// Edge set.
        set: String,
        /// Its edges written so far.
        edges: u64,
        /// All its edges.
        total_edges: u64,
    },
}

/// Imports edge sets: name and files of each. `progress` is called now and then on the calling
/// thread, and may end the import.
///
/// The dataset is made in a folder beside the target that replaces it at the end; after an error
/// the target is as it was. One import at a time works on a target.
///
/// # Errors
/// When something is wrong with configuration, files or target, or the disk is full.
pub fn run(
    schema: &Schema,
    sets: &[(String, Vec<PathBuf>)],
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport, ImportError> {
    check_sets(sets)?;
    let inputs = Inputs::find(sets, options, progress)?;
    let mut read_as = Vec::new();
    let mut progress = |event: ImportProgress| {
        if let ImportProgress::ReadAs { what } = &event {
            // Reading that begins anew tells it once more.
            if read_as.contains(what) {
                return ControlFlow::Continue(());
            }
            read_as.push(what.clone());
        }
        progress(event)
    };
    let names_in = options.names_in.unwrap_or_else(|| {
        match inputs.bytes() > LARGE && types::only_in_memory(schema).is_none() {
            true => NamesIn::Files,
            false => NamesIn::Memory,
        }
    });
    let staging = target::begin(&options.target)?;
    let report = match run_with(
        names_in,
        schema,
        &inputs,
        (options, &staging),
        &mut progress,
    ) {
        Err(ImportError::Names { what }) if types::only_in_memory(schema).is_none() => {
            tell(&mut progress, ImportProgress::NamesToDisk { why: what })?;
            let how = (options, &staging);
            run_with(NamesIn::Files, schema, &inputs, how, &mut progress)
        }
        result => result,
    }?;
    Ok(ImportReport { read_as, ..report })
}

fn run_with(
    names_in: NamesIn,
    schema: &Schema,
    inputs: &Inputs,
    (options, staging): (&ImportOptions, &Staging),
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport, ImportError> {
    if names_in == NamesIn::Files
        && let Some(why) = types::only_in_memory(schema)
    {
        let what = format!("names can only be in memory, not on the disk, where {why}");
        return Err(ImportError::usage(what));
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or_else(cores).max(1);
    let memory = memory::Memory::new(options, threads)?;
    let old = previous(staging.target(), options)?;
    let types = types::Types::new(schema, old.as_ref(), (options, names_in))?;
    let relations = relations::RelationTable::new(schema, &types, old.as_ref())?;
    staging.make_new()?;
    let folder = staging.new_folder();
    let job = ImportJob {
        schema,
        options,
        inputs,
        names_in,
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

/// What all steps of an import share.
struct ImportJob<'a> {
    schema: &'a Schema,
    options: &'a ImportOptions,
    inputs: &'a Inputs,
    names_in: NamesIn,
    /// Files that names on the disk are divided over.
    shards: usize,
    types: &'a types::Types,
    relations: &'a relations::RelationTable,
    /// The dataset whose ids are kept.
    old: Option<&'a Dataset>,
    folder: &'a Path,
    threads: usize,
    memory: memory::Memory,
}

impl ImportJob<'_> {
    /// Reads all edges, and numbers names on the disk.
    fn read(
        &self,
        progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<(pipeline::Edges, Option<on_disk::Numbered>), ImportError> {
        if self.names_in == NamesIn::Memory {
            let edges = pipeline::read_all(self, None, progress)?;
            return Ok((edges, None));
        }
        if let Some(old) = self.old {
            on_disk::scatter_known(self, old)?;
        }
        let mut shards = on_disk::Shards::create(self)?;
        let edges = pipeline::read_all(self, Some(&mut shards), progress)?;
        let (spills, numbered) = on_disk::number_all(self, edges.spills, shards, progress)?;
        let skipped = edges.skipped;
        Ok((pipeline::Edges { spills, skipped }, Some(numbered)))
    }

    /// What the hashes that shuffle entities begin with, by type.
    fn shuffling_seeds(&self) -> Vec<u64> {
        let seed = |entity_type: &str| assign::shuffling_seed(self.options.seed, entity_type);
        let types = self.types.names.iter();
        types.map(|names| seed(&names.entity_type)).collect()
    }

    /// Everything after reading: places, dictionaries, relations, sorted edges.
    fn write(
        &self,
        edges: pipeline::Edges,
        numbered: Option<&on_disk::Numbered>,
        progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<(Manifest, ImportReport), ImportError> {
        let mut report = ImportReport::default();
        let mut manifest = Manifest {
            dynamic_relations: self.schema.dynamic_relations,
            entities: BTreeMap::new(),
            relations: self.relations.place(self.options.relation_min_count),
            edge_sets: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        report.dropped_relations = self.relations.dropped();
        report.relations = u64::from(manifest.relations.count);
        let path = self.folder.join(&manifest.relations.file);
        let summary = write::relations(&path, &self.relations.listed())?;
        manifest
            .files
            .insert(manifest.relations.file.clone(), summary);

        let places = self.place_entities(numbered)?;
        let entities = places.iter().map(assign::Places::total).sum();
        tell(progress, ImportProgress::Assigning { entities })?;
        self.write_entities((&places, numbered), &mut manifest, &mut report)?;
        if numbered.is_some() {
            on_disk::forget(self)?;
        }
        for (spill, skipped) in edges.spills.into_iter().zip(edges.skipped) {
            let dropped_from = spill.edges;
            let (info, summary) = bucketize::run(self, &spill, &places, progress)?;
            report.sets.push(SetReport {
                name: spill.set.clone(),
                edges: info.edges,
                dropped: dropped_from - info.edges,
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

    /// The places of the entities of every type.
    fn place_entities(
        &self,
        numbered: Option<&on_disk::Numbered>,
    ) -> Result<Vec<assign::Places>, ImportError> {
        let types = self.types.names.iter().enumerate();
        let place = |(index, names): (usize, &types::Names)| match numbered {
            None => assign::Places::new(self, index),
            Some(numbered) => {
                let new = numbered.total(index).new;
                assign::Places::ranked(&names.known_counts, new, &names.entity_type)
            }
        };
        types.map(place).collect()
    }

    /// Writes dictionaries, and the features that some entities have.
    fn write_entities(
        &self,
        (places, numbered): (&[assign::Places], Option<&on_disk::Numbered>),
        manifest: &mut Manifest,
        report: &mut ImportReport,
    ) -> Result<(), ImportError> {
        for (index, (names, places)) in self.types.names.iter().zip(places).enumerate() {
            let name = names.entity_type.clone();
            let file = format!("entities_{name}.arrow");
            let path = self.folder.join(&file);
            let (summary, names_crc32) = match numbered {
                Some(numbered) => {
                    on_disk::write_dictionary(self, (index, places), numbered, &path)?
                }
                None => {
                    let names = names.interner.read();
                    let listed = places.order().iter().map(|&id| names.name(id));
                    write::dictionary(&path, listed, &places.counts)?
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
                    counts: places.counts.clone(),
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
                counts: places.counts.clone(),
            });
        }
        Ok(())
    }

    /// Ids are stable, so the edge sets that were not imported again are still right.
    fn keep_sets(
        &self,
        old: &Dataset,
        manifest: &mut Manifest,
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

/// The dataset whose ids are kept.
fn previous(target: &Path, options: &ImportOptions) -> Result<Option<Dataset>, ImportError> {
    if let Some(dictionary) = &options.dictionary {
        return Ok(Some(Dataset::open(dictionary)?));
    }
    if options.fresh || !Dataset::is_at(target) {
        return Ok(None);
    }
    match Dataset::open(target) {
        Ok(dataset) => Ok(Some(dataset)),
        Err(error) => Err(ImportError::Previous { error }),
    }
}

fn check_sets(sets: &[(String, Vec<PathBuf>)]) -> Result<(), ImportError> {
    let mut names = BTreeSet::new();
    if sets.is_empty() {
        return Err(ImportError::usage(
            "no edges to import: name a set and its files",
        ));
    }
    for (name, files) in sets {
        types::check_name("edge set", name)?;
        if !names.insert(name) {
            return Err(ImportError::usage(format!(
                "the edge set `{name}` is named twice"
            )));
        }
        if files.is_empty() {
            return Err(ImportError::usage(format!(
                "the edge set `{name}` has no file"
            )));
        }
    }
    Ok(())
}

fn tell(
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    event: ImportProgress,
) -> Result<(), ImportError> {
    if progress(event).is_break() {
        Err(ImportError::Cancelled)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
