//! File of vectors in one of the formats.

use std::path::{Path, PathBuf};

use pbg_files as files;

use crate::names::{NameVisitor, VectorNames};
use crate::parquet::ParquetVectors;
use crate::raw::{RawArray, read_first};
use crate::{VectorError, npy, parquet, safetensors};

/// First bytes of a file by which its format is recognised.
const RECOGNISED_BY: usize = 16;

/// Largest dimension of vectors, as of embeddings.
const MAX_DIMENSION: usize = 65536;

/// Vectors of entities, `[rows, dimension]`, and where the names of the rows are.
#[derive(Debug)]
pub struct VectorFile {
    path: PathBuf,
    numbers: Numbers,
    names: Option<VectorNames>,
}

#[derive(Debug)]
enum Numbers {
    Raw(RawArray),
    Parquet(ParquetVectors),
}

impl VectorFile {
    /// Opens a file, and detects its format from the first bytes. `names` is a file with the name of each row; without
    /// it, a Parquet file may have them itself.
    ///
    /// # Errors
    /// When a file cannot be read, or is not an array of vectors.
    pub fn open(path: &Path, names: Option<&Path>) -> Result<Self, VectorError> {
        let file = files::open(path)?;
        let first = read_first(&file, path, RECOGNISED_BY)?;
        let numbers = if first.starts_with(npy::MAGIC) {
            Numbers::Raw(npy::open(file, path)?)
        } else if first.starts_with(parquet::MAGIC) {
            Numbers::Parquet(ParquetVectors::open(path)?)
        } else if safetensors::is_likely(&first) {
            Numbers::Raw(safetensors::open(file, path)?)
        } else {
            let what = "it is not an npy, safetensors or Parquet file; save the vectors with `numpy.save`, for instance";
            return Err(VectorError::content(path, what));
        };
        if let Some(names) = names {
            files::size(names)?;
        }
        let opened = Self {
            path: path.to_owned(),
            numbers,
            names: names.map(VectorNames::new),
        };
        opened.check_size()?;
        Ok(opened)
    }

    fn check_size(&self) -> Result<(), VectorError> {
        let dimension = self.dimension();
        if !(1..=MAX_DIMENSION).contains(&dimension) {
            let what = format!(
                "its vectors have {dimension} numbers; from 1 to {MAX_DIMENSION} are possible"
            );
            return Err(VectorError::content(&self.path, what));
        }
        if let Numbers::Raw(array) = &self.numbers {
            let size = files::size(&self.path)?;
            let end = array
                .bytes()
                .and_then(|bytes| bytes.checked_add(array.start));
            if end.is_none_or(|end| end > size) {
                let what = format!(
                    "it ends too early: {} vectors of {dimension} numbers do not fit into its {size} bytes; fetch it again",
                    array.rows
                );
                return Err(VectorError::content(&self.path, what));
            }
        }
        Ok(())
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of vectors.
    #[must_use]
    pub fn rows(&self) -> u64 {
        match &self.numbers {
            Numbers::Raw(array) => array.rows,
            Numbers::Parquet(file) => file.rows,
        }
    }

    /// Returns the number of numbers of a vector.
    #[must_use]
    pub fn dimension(&self) -> usize {
        match &self.numbers {
            Numbers::Raw(array) => array.dimension,
            Numbers::Parquet(file) => file.dimension,
        }
    }

    /// Returns whether the rows have names.
    #[must_use]
    pub fn has_names(&self) -> bool {
        let in_file = matches!(&self.numbers, Numbers::Parquet(file) if file.names.is_some());
        self.names.is_some() || in_file
    }

    /// Calls `visit` with row and name of every vector, in the order of the rows. Without names, it does nothing.
    ///
    /// # Errors
    /// When names cannot be read, are not as many as the vectors, or `visit` fails.
    pub fn visit_names(&self, visit: &mut NameVisitor<'_>) -> Result<(), VectorError> {
        let (count, path) = match (&self.names, &self.numbers) {
            (Some(names), _) => (names.visit(visit)?, names.path()),
            (None, Numbers::Parquet(file)) => match file.names {
                Some(column) => (file.visit_names(column, visit)?, self.path.as_path()),
                None => return Ok(()),
            },
            (None, Numbers::Raw(_)) => return Ok(()),
        };
        if count == self.rows() {
            return Ok(());
        }
        let what = format!(
            "it has {count} names, but {} has {} vectors",
            self.path.display(),
            self.rows()
        );
        Err(VectorError::content(path, what))
    }

    /// Calls `visit` with row and vector of each of the rows `wanted`, which must ascend and be rows of the file.
    ///
    /// # Errors
    /// When the file cannot be read, or a number is not finite in single precision.
    pub fn visit_rows(
        &self,
        wanted: &mut dyn Iterator<Item = u64>,
        visit: &mut dyn FnMut(u64, &[f32]),
    ) -> Result<(), VectorError> {
        let mut visit = |row: u64, vector: &[f32]| {
            if let Some(at) = vector.iter().position(|number| !number.is_finite()) {
                let what = format!(
                    "row {}: number {} of its vector is {}, but only finite numbers can be trained with",
                    row + 1,
                    at + 1,
                    vector[at]
                );
                return Err(VectorError::content(&self.path, what));
            }
            visit(row, vector);
            Ok(())
        };
        match &self.numbers {
            Numbers::Raw(array) => array.visit(&self.path, wanted, &mut visit),
            Numbers::Parquet(file) => file.visit(wanted, &mut visit),
        }
    }
}
