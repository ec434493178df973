//! Options of an export.

use std::str::FromStr;

/// Format of exported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// NumPy arrays, with names in JSON files next to them.
    Npy,
    /// Safetensors, with names in JSON files next to them.
    Safetensors,
    /// Parquet with a name and a list of numbers per row.
    Parquet,
    /// Text lines with a name and numbers, separated by tabs.
    Tsv,
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "npy" => Ok(Self::Npy),
            "safetensors" => Ok(Self::Safetensors),
            "parquet" => Ok(Self::Parquet),
            "tsv" => Ok(Self::Tsv),
            _ => Err(format!(
                "unknown format `{name}`: use npy, safetensors, parquet, tsv or hub"
            )),
        }
    }
}

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Format of all files.
    pub format: ExportFormat,
    /// Whether files of an earlier export are replaced.
    pub overwrite: bool,
}
