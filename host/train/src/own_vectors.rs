//! Vectors from the user's files, with which embeddings start (`entities.T.init`).

mod matching;

use std::collections::BTreeMap;
use std::path::Path;

use pbg_checkpoint::PartitionData;
use pbg_checkpoint::manifest::RunInfo;
use pbg_config::Config;
use pbg_core::event::Event;
use pbg_dataset::Dataset;
use pbg_model::error::RunError;
use pbg_model::layout::{Layout, TableKey, TypeLayout};
use pbg_model::resolved::ResolvedConfig;
use pbg_vectors::{BUFFER_BYTES, VectorError, VectorFile};

use self::matching::{MATCHING_BYTES, NO_VECTOR};

/// Vectors of the entity types whose configuration names a file. Which vector belongs to which row is decided once; the
/// vectors themselves are read partition by partition.
#[derive(Debug, Default)]
pub struct OwnVectors {
    types: BTreeMap<usize, TypeVectors>,
}

/// Vectors of one entity type.
#[derive(Debug)]
struct TypeVectors {
    file: VectorFile,
    /// Row of the file for each row of the tables, in global order, or [`NO_VECTOR`].
    rows: Vec<u32>,
    /// Index of the first row of each partition.
    starts: Vec<usize>,
    found: VectorsFound,
}

/// Number of vectors that belong to rows of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VectorsFound {
    entity_type: String,
    file: String,
    vectors: u64,
    taken: u64,
    rows: u64,
    by_name: bool,
    frozen: bool,
}

impl OwnVectors {
    /// Opens the files, matches them to the rows of the tables, and checks every vector that is taken.
    ///
    /// # Errors
    /// When a file cannot be read or does not fit the type.
    pub fn open(resolved: &ResolvedConfig) -> Result<Self, RunError> {
        let mut types = BTreeMap::new();
        let layouts = resolved.blueprint().layout.types.iter().enumerate();
        for (index, layout) in layouts {
            let entity = &resolved.config().entities[&layout.name];
            if let Some(path) = &entity.init {
                let names = entity.init_names.as_deref().map(Path::new);
                let file = VectorFile::open(Path::new(path), names)?;
                let vectors = TypeVectors::new(file, layout, resolved.dataset())?;
                types.insert(index, vectors);
            }
        }
        Ok(Self { types })
    }

    /// Returns the indices of the types that have vectors.
    pub(crate) fn types(&self) -> impl Iterator<Item = usize> + '_ {
        self.types.keys().copied()
    }

    /// Returns an event for each type, which says how many rows start from a vector.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let event = |vectors: &TypeVectors| {
            let found = vectors.found.clone();
            Event::VectorsRead {
                entity_type: found.entity_type,
                file: found.file,
                vectors: found.vectors,
                taken: found.taken,
                rows: found.rows,
                by_name: found.by_name,
                frozen: found.frozen,
            }
        };
        self.types.values().map(event).collect()
    }

    /// Overwrites the rows of a partition that have a vector, and resets the state of their optimizer.
    ///
    /// # Errors
    /// When the file can no longer be read.
    pub(crate) fn fill(
        &self,
        (type_index, partition): TableKey,
        data: &mut PartitionData,
    ) -> Result<(), RunError> {
        match self.types.get(&type_index) {
            Some(vectors) => vectors.fill(partition as usize, data),
            None => Ok(()),
        }
    }
}

impl TypeVectors {
    fn new(file: VectorFile, layout: &TypeLayout, dataset: &Dataset) -> Result<Self, RunError> {
        let wrong = |what: String| VectorError::content(file.path(), what);
        if file.dimension() != layout.dimension {
            return Err(wrong(format!(
                "its vectors have {} numbers, but the dimension of the entity type `{}` is {}; set `dimension` or \
                 `entities.{}.dimension` to {0}, or choose another file",
                file.dimension(),
                layout.name,
                layout.dimension,
                layout.name
            ))
            .into());
        }
        if file.rows() >= u64::from(NO_VECTOR) {
            return Err(wrong(format!(
                "it has {} vectors; at most {} are possible",
                file.rows(),
                NO_VECTOR - 1
            ))
            .into());
        }
        let of_type: u64 = layout.rows.iter().sum();
        let rows = match file.has_names() {
            true => matching::by_name(&file, dataset, layout)?,
            false if file.rows() == of_type => (0..file.rows() as u32).collect(),
            false => {
                return Err(wrong(format!(
                    "it has {} vectors without names, but the entity type `{}` has {of_type} entities; name the file \
                     with their names as `entities.{}.init_names`",
                    file.rows(),
                    layout.name,
                    layout.name
                ))
                .into());
            }
        };
        let mut starts = vec![0];
        starts.extend(layout.rows.iter().scan(0, |end, &rows| {
            *end += rows as usize;
            Some(*end)
        }));
        let found = VectorsFound {
            entity_type: layout.name.clone(),
            file: file.path().display().to_string(),
            vectors: file.rows(),
            taken: rows.iter().filter(|&&row| row != NO_VECTOR).count() as u64,
            rows: of_type,
            by_name: file.has_names(),
            frozen: layout.frozen,
        };
        let vectors = Self {
            file,
            rows,
            starts,
            found,
        };
        vectors.check_numbers()?;
        Ok(vectors)
    }

    /// Reads all vectors that are taken once, so that a number that is not finite is found before training begins.
    fn check_numbers(&self) -> Result<(), RunError> {
        let mut taken = self.rows.clone();
        taken.retain(|&row| row != NO_VECTOR);
        taken.sort_unstable();
        let mut taken = taken.into_iter().map(u64::from);
        Ok(self.file.visit_rows(&mut taken, &mut |_, _| {})?)
    }

    fn fill(&self, partition: usize, data: &mut PartitionData) -> Result<(), RunError> {
        let rows = &self.rows[self.starts[partition]..self.starts[partition + 1]];
        let mut taken: Vec<(u32, u32)> = rows
            .iter()
            .zip(0..)
            .filter(|&(&row, _)| row != NO_VECTOR)
            .map(|(&row, offset)| (row, offset))
            .collect();
        taken.sort_unstable();
        let width = data.optimizer.state_width(data.dim);
        let mut offsets = taken.iter().map(|&(_, offset)| offset as usize);
        let mut wanted = taken.iter().map(|&(row, _)| u64::from(row));
        self.file.visit_rows(&mut wanted, &mut |_, vector| {
            if let Some(offset) = offsets.next() {
                data.embeddings[offset * data.dim..][..data.dim].copy_from_slice(vector);
                data.state[offset * width..][..width].fill(0.0);
            }
        })?;
        Ok(())
    }
}

/// Returns an event for each file of vectors that the configuration names and `run`, which has begun, was not told. Its
/// checkpoint has all embeddings, so the file is not read.
#[must_use]
pub fn ignored(resolved: &ResolvedConfig, run: &RunInfo) -> Vec<Event> {
    let Ok(began) = Config::parse(&run.config, "the checkpoint", &[]) else {
        return Vec::new();
    };
    let file = |config: &Config, name: &str| config.entities.get(name)?.init.clone();
    let config = resolved.config();
    let changed = config.entities.keys().filter_map(|name| {
        let now = file(config, name)?;
        (file(&began, name).as_ref() != Some(&now)).then(|| Event::VectorsIgnored {
            entity_type: name.clone(),
            file: now,
        })
    });
    changed.collect()
}

/// Returns an upper bound of the memory for vectors from files, in bytes.
pub(crate) fn bytes(resolved: &ResolvedConfig) -> u64 {
    let layout: &Layout = &resolved.blueprint().layout;
    let has_file = |of: &&TypeLayout| resolved.config().entities[&of.name].init.is_some();
    let (mut kept, mut passing) = (0_u64, 0_u64);
    for of_type in layout.types.iter().filter(has_file) {
        let rows: u64 = of_type.rows.iter().sum();
        let largest = of_type.rows.iter().max().copied().unwrap_or(0);
        kept = kept.saturating_add(4 * rows);
        // The rows in the order of the file, and what is read.
        let reading = 4 * rows.max(2 * largest) + 4 * BUFFER_BYTES as u64;
        passing = passing.max(reading).max(MATCHING_BYTES);
    }
    kept.saturating_add(passing)
}
