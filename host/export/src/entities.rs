//! Export of the embeddings of entity types.

use std::path::PathBuf;

use pbg_core::model::EmbeddingFormat;
use pbg_dataset::manifest::EntityType;
use pbg_files::ChecksummedFile;

use super::embedding_file::EmbeddingFile;
use super::export::Export;
use super::rows::RowStream;
use super::{ExportError, ExportFormat, npy, parquet, safetensors, tsv};

/// Consumer of a name.
type NameSink<'a> = dyn FnMut(&str) -> Result<(), ExportError> + 'a;

/// Producer that passes names to a consumer, one after the other.
type NameSource<'a> = dyn FnMut(&mut NameSink<'_>) -> Result<(), ExportError> + 'a;

impl Export<'_> {
    /// Writes the embeddings of an entity type. Returns the files written.
    pub(super) fn entities(
        &self,
        entity_type: &str,
        info: &EntityType,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<PathBuf>, ExportError> {
        let stem = match info.featurized {
            true => format!("features_{entity_type}"),
            false => format!("entities_{entity_type}"),
        };
        let format = self.options.format;
        let file = match format {
            ExportFormat::Npy => format!("{stem}.npy"),
            ExportFormat::Safetensors => format!("{stem}.safetensors"),
            ExportFormat::Parquet => format!("{stem}.parquet"),
            ExportFormat::Tsv => format!("{stem}.tsv"),
        };
        let all = (0..info.num_partitions).map(|p| self.rows(entity_type, info, p));
        let all = all.sum();
        let written = self.write(&file, |path| {
            let first = self.partition(entity_type, info, 0, None)?;
            let shape = [all, first.dim];
            let file: Box<dyn EmbeddingFile> = match format {
                ExportFormat::Npy => Box::new(npy::create(path, &shape)?),
                ExportFormat::Safetensors => {
                    let tensor = ("embeddings", EmbeddingFormat::F32, &shape[..]);
                    Box::new(safetensors::create(path, &[tensor])?)
                }
                ExportFormat::Parquet => Box::new(parquet::ParquetWriter::create(path, first.dim)?),
                ExportFormat::Tsv => Box::new(tsv::TsvWriter::create(path, first.dim)?),
            };
            let mut rows = RowStream::new(self, entity_type, info, first, file);
            self.visit_names(entity_type, info, &mut |partition, name| {
                rows.put(partition, name, progress)
            })?;
            rows.finish(progress)
        })?;
        let mut files = vec![written];
        if matches!(format, ExportFormat::Npy | ExportFormat::Safetensors) {
            let names = format!("{stem}.names.json");
            files.push(self.names(&names, &mut |put| {
                self.visit_names(entity_type, info, &mut |_, name| put(name))
            })?);
        }
        Ok(files)
    }

    /// Writes the names that `visit` yields as a JSON list, which can represent any name.
    pub(super) fn names(
        &self,
        file: &str,
        visit: &mut NameSource<'_>,
    ) -> Result<PathBuf, ExportError> {
        self.write(file, |path| {
            let mut file = ChecksummedFile::unfinished(path)?;
            let mut before = "[\n";
            visit(&mut |name| {
                file.put(before.as_bytes())?;
                before = ",\n";
                let text = serde_json::Value::from(name).to_string();
                Ok(file.put(text.as_bytes())?)
            })?;
            let is_empty = before == "[\n";
            file.put(if is_empty { b"[]\n" } else { b"\n]\n" })?;
            file.finish(true)?;
            Ok(())
        })
    }
}
