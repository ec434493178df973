//! Assignment of the vectors of a file to rows of tables by their names.

use std::hash::{DefaultHasher, Hash, Hasher};

use pbg_dataset::Dataset;
use pbg_model::error::RunError;
use pbg_model::layout::TypeLayout;
use pbg_vectors::{VectorError, VectorFile};

/// Row of a file for a row of a table without a vector.
pub(super) const NO_VECTOR: u32 = u32::MAX;

/// Bytes of names of a dataset that are compared with the names of a file at a time. The file's names are read once for
/// each such part.
const PART_BYTES: usize = 64 << 20;

/// Largest number of bytes that the comparison takes. Growing vectors are copied.
pub(super) const MATCHING_BYTES: u64 = 3 * PART_BYTES as u64;

/// Returns the row of `file` for each row of the tables of a type, in global order.
///
/// # Errors
/// When a name of the dataset occurs twice in the file, no name occurs in both, or something cannot be read.
pub(super) fn by_name(
    file: &VectorFile,
    dataset: &Dataset,
    layout: &TypeLayout,
) -> Result<Vec<u32>, RunError> {
    let rows = in_parts(file, dataset, layout, PART_BYTES)?;
    if rows.iter().all(|&row| row == NO_VECTOR) {
        return Err(no_match(file, dataset, layout)?.into());
    }
    Ok(rows)
}

/// Describes a file whose names are all other names than those of the dataset, with an example of each.
fn no_match(
    file: &VectorFile,
    dataset: &Dataset,
    layout: &TypeLayout,
) -> Result<VectorError, RunError> {
    let keep = |first: &mut Option<String>, name: &str| {
        let excerpt = || name.chars().take(80).collect::<String>();
        first.get_or_insert_with(|| excerpt().escape_debug().to_string());
    };
    let (mut in_file, mut in_dataset) = (None, None);
    file.visit_names(&mut |_, name| {
        keep(&mut in_file, name);
        Ok(())
    })?;
    dataset.visit_rows(&layout.name, &mut |_, _, name| keep(&mut in_dataset, name))?;
    let shown =
        |name: Option<String>| name.map_or_else(|| "no names".to_owned(), |n| format!("`{n}`"));
    Ok(VectorError::content(
        file.path(),
        format!(
            "none of its names is that of an entity of type `{}`: the file has names such as {}, the dataset such as {}; \
             name its vectors as the edges name the entities",
            layout.name,
            shown(in_file),
            shown(in_dataset)
        ),
    ))
}

fn in_parts(
    file: &VectorFile,
    dataset: &Dataset,
    layout: &TypeLayout,
    part_bytes: usize,
) -> Result<Vec<u32>, RunError> {
    let total: u64 = layout.rows.iter().sum();
    let mut rows = vec![NO_VECTOR; total as usize];
    let mut names = NamePart::default();
    let mut matched = Ok(());
    dataset.visit_rows(&layout.name, &mut |_, _, name| {
        if matched.is_err() {
            return;
        }
        names.push(name);
        if names.bytes() >= part_bytes {
            matched = names.find_in(file, &mut rows);
            names.clear();
        }
    })?;
    matched?;
    names.find_in(file, &mut rows)?;
    Ok(rows)
}

/// Consecutive names of a dataset.
#[derive(Default)]
struct NamePart {
    text: String,
    entries: Vec<NameEntry>,
    /// Number of names before this part.
    before: usize,
}

struct NameEntry {
    hash: u64,
    /// Place of the name in the text.
    start: u32,
    length: u32,
    /// Number of the name in this part.
    number: u32,
}

impl NamePart {
    fn bytes(&self) -> usize {
        self.text.len() + self.entries.len() * size_of::<NameEntry>()
    }

    fn push(&mut self, name: &str) {
        self.entries.push(NameEntry {
            hash: hash(name),
            start: self.text.len() as u32,
            length: name.len() as u32,
            number: self.entries.len() as u32,
        });
        self.text.push_str(name);
    }

    fn clear(&mut self) {
        self.before += self.entries.len();
        self.entries.clear();
        self.text.clear();
    }

    /// Enters the rows of a file whose names are in this part.
    fn find_in(&mut self, file: &VectorFile, rows: &mut [u32]) -> Result<(), VectorError> {
        self.entries.sort_unstable_by_key(|entry| entry.hash);
        let mut twice = None;
        file.visit_names(&mut |row, name| {
            if let Some(number) = self.number(name) {
                let known = &mut rows[self.before + number];
                if *known != NO_VECTOR {
                    twice.get_or_insert_with(|| {
                        let shown: String = name.chars().take(80).collect();
                        format!(
                            "vectors {} and {} have the same name `{}`; leave one of them out",
                            *known + 1,
                            row + 1,
                            shown.escape_debug()
                        )
                    });
                }
                *known = row as u32;
            }
            Ok(())
        })?;
        match twice {
            Some(what) => Err(VectorError::content(file.path(), what)),
            None => Ok(()),
        }
    }

    /// Returns the number of a name in this part.
    fn number(&self, name: &str) -> Option<usize> {
        let hash = hash(name);
        let first = self.entries.partition_point(|entry| entry.hash < hash);
        let same = self.entries[first..]
            .iter()
            .take_while(|entry| entry.hash == hash);
        let text = |entry: &NameEntry| &self.text[entry.start as usize..][..entry.length as usize];
        let mut found = same.filter(|entry| text(entry) == name);
        found.next().map(|entry| entry.number as usize)
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::path::Path;

    use pbg_config::Config;
    use pbg_import::ImportOptions;
    use pbg_model::layout::Layout;
    use proptest::prelude::*;

    use super::*;

    const ENTITIES: usize = 40;

    /// Imports a cycle of entities in three partitions into a folder.
    fn dataset(folder: &Path) -> (Dataset, TypeLayout) {
        let text = "dataset = 'd'\ncheckpoint_path = 'c'\ndimension = 1\nentities.e.num_partitions = 3\n\
                    relations = [{ name = '*', lhs = 'e', rhs = 'e' }]";
        let config = Config::parse(text, "test", &[]).unwrap();
        let edges = (0..ENTITIES).map(|at| format!("n{at}\tr\tn{}\n", (at + 1) % ENTITIES));
        let file = folder.join("edges.tsv");
        fs::write(&file, edges.collect::<String>()).unwrap();
        let options = ImportOptions {
            target: folder.join("data"),
            ..ImportOptions::default()
        };
        let sets = [("train".to_owned(), vec![file])];
        let mut go_on = |_| ControlFlow::Continue(());
        pbg_import::run(&config.graph_schema(), &sets, &options, &mut go_on).unwrap();
        let dataset = Dataset::open(&options.target).unwrap();
        let rows = |name: &str| {
            let info = &dataset.manifest().entities[name];
            info.counts.iter().map(|&count| u64::from(count)).collect()
        };
        let layout = Layout::new(&config, rows).types.remove(0);
        (dataset, layout)
    }

    fn file(folder: &Path, names: &[usize]) -> VectorFile {
        let mut header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 1), }}",
            names.len()
        );
        header.push_str(&" ".repeat(118 - header.len()));
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + 4 * names.len(), 0);
        let (path, beside) = (folder.join("v.npy"), folder.join("v.txt"));
        fs::write(&path, bytes).unwrap();
        let lines = names.iter().map(|name| format!("n{name}\n"));
        fs::write(&beside, lines.collect::<String>()).unwrap();
        VectorFile::open(&path, Some(&beside)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Every entity gets the row of its name, whatever the order of the file and the size of the parts.
        #[test]
        fn parts_of_names_change_nothing(
            order in Just((0..ENTITIES + 9).collect::<Vec<usize>>()).prop_shuffle(),
            kept in 1..ENTITIES + 9,
            part_bytes in prop::sample::select(vec![1_usize, 60, 300, 1 << 20]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (dataset, layout) = dataset(folder.path());
            let vectors = file(folder.path(), &order[..kept]);
            let rows = in_parts(&vectors, &dataset, &layout, part_bytes).unwrap();
            let names = dataset.entity_names("e").unwrap();
            for (name, row) in names.iter().zip(&rows) {
                let place = order[..kept].iter().position(|at| format!("n{at}") == *name);
                prop_assert_eq!(*row, place.map_or(NO_VECTOR, |place| place as u32), "{}", name);
            }
        }
    }

    #[test]
    fn a_name_that_occurs_twice_is_refused_unless_no_entity_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let (dataset, layout) = dataset(folder.path());
        let matched = |names: &[usize]| by_name(&file(folder.path(), names), &dataset, &layout);
        assert!(matched(&[3, 99, 99]).is_ok());
        let error = matched(&[3, 5, 3]).unwrap_err().to_string();
        assert!(
            error.contains("vectors 1 and 3 have the same name `n3`"),
            "{error}"
        );
    }
}
