//! Export of the model's parameters: operators of relations and global embeddings.

use std::path::PathBuf;

use super::export::Export;
use super::{ExportError, ExportFormat, npy, parquet, safetensors, tsv};
use pbg_checkpoint::Tensor;
use pbg_checkpoint::tensors::put_numbers;
use pbg_files::ChecksummedFile;

/// Suffix of the names of optimizer accumulators, which are not exported.
const ACCUMULATOR: &str = ".adagrad";

impl Export<'_> {
    /// Writes all parameters, and the names of relations in the order of their ids.
    pub(super) fn parameters(&self) -> Result<Vec<PathBuf>, ExportError> {
        let tensors = self.model.iter();
        let tensors = tensors.filter(|tensor| !tensor.name.ends_with(ACCUMULATOR));
        let tensors: Vec<&Tensor> = tensors.collect();
        let mut written = match self.options.format {
            _ if tensors.is_empty() => Vec::new(),
            ExportFormat::Npy => self.parameter_arrays(&tensors)?,
            ExportFormat::Safetensors => {
                vec![self.write("parameters.safetensors", |path| {
                    Ok(safetensors::parameters(path, &tensors)?)
                })?]
            }
            ExportFormat::Parquet => {
                vec![self.write("parameters.parquet", |path| {
                    parquet::parameters(path, &tensors)
                })?]
            }
            ExportFormat::Tsv => vec![self.parameter_lines(&tensors)?],
        };
        let names = self.dataset.relation_names();
        let known = self.earlier.map(|ids| ids.relations.total() as usize);
        let known = &names[..known.unwrap_or(names.len()).min(names.len())];
        let list = "relations.names.json";
        written.push(self.names(list, &mut |put| known.iter().try_for_each(|name| put(name)))?);
        Ok(written)
    }

    /// Writes one array per parameter. The file is named after the parameter, with `.` for `/`.
    fn parameter_arrays(&self, tensors: &[&Tensor]) -> Result<Vec<PathBuf>, ExportError> {
        let mut written = Vec::new();
        for tensor in tensors {
            let is_other = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-');
            let name = tensor.name.replace(is_other, ".");
            written.push(self.write(&format!("{name}.npy"), |path| {
                let mut array = npy::create(path, &tensor.shape)?;
                put_numbers(&mut array, &tensor.values)?;
                array.finish(true)?;
                Ok(())
            })?);
        }
        Ok(written)
    }

    /// Writes one line per parameter: name, shape as `AxB`, and numbers.
    fn parameter_lines(&self, tensors: &[&Tensor]) -> Result<PathBuf, ExportError> {
        self.write("parameters.tsv", |path| {
            let mut file = ChecksummedFile::unfinished(path)?;
            for tensor in tensors {
                let mut line = Vec::new();
                tsv::put_text(&mut line, &tensor.name)?;
                let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
                line.push(b'\t');
                line.extend_from_slice(shape.join("x").as_bytes());
                tsv::put_numbers(&mut line, &tensor.values);
                line.push(b'\n');
                file.put(&line)?;
            }
            file.finish(true)?;
            Ok(())
        })
    }
}
