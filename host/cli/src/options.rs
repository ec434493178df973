//! Options shared by several commands, and parsers of their values.

use std::path::PathBuf;

use clap::Args;
use pbg_config::split_override;
use pbg_core::model::Comparator;
use pbg_model::AllowedChanges;
use pbg_query::IndexQueryOptions;

/// Arguments that name a configuration and change its keys.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file [default: pbg.toml in the working folder], or the folder of a checkpoint, to use the
    /// configuration that trained it.
    #[arg(value_name = "CONFIG|CHECKPOINT")]
    pub(crate) config: Option<PathBuf>,
    /// Options that change the configuration.
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}

/// Arguments that name a trained model, by its configuration, its checkpoint, or both.
#[derive(Debug, Args)]
pub(crate) struct TrainedArgs {
    /// Configuration file, or the folder of a checkpoint [default: the configuration of --checkpoint, otherwise
    /// pbg.toml in the working folder]. Keys that the file does not set have the values with which the model was
    /// trained.
    #[arg(value_name = "CONFIG|CHECKPOINT")]
    pub(crate) config: Option<PathBuf>,
    /// Options that name the checkpoint or change the configuration.
    #[command(flatten)]
    pub(crate) options: TrainedOptions,
}

/// The options of [`TrainedArgs`].
#[derive(Clone, Debug, Args)]
pub(crate) struct TrainedOptions {
    /// Checkpoint [default: `checkpoint_path` of the configuration]; it contains the configuration that trained it.
    #[arg(long, value_name = "FOLDER", display_order = 899)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Use the model with the highest validation MRR, which `validation.early_stop` keeps in the folder `best`, instead
    /// of the last model.
    #[arg(long, display_order = 899)]
    pub(crate) best: bool,
    /// Options that change the configuration.
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}

/// Options that allow differences from the run that trained a checkpoint.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct AllowArgs {
    /// Resume from a checkpoint that was trained with other plugins, or with other parameters of the same plugins.
    #[arg(long)]
    allow_plugin_change: bool,
    /// Resume from a checkpoint that was trained on other edges. An interrupted epoch starts again, and earlier ranks
    /// of validation edges are discarded if these edges changed.
    #[arg(long)]
    allow_data_change: bool,
}

impl AllowArgs {
    /// Returns the options as the training loop expects them.
    pub(crate) const fn allowed(self) -> AllowedChanges {
        AllowedChanges {
            plugin_change: self.allow_plugin_change,
            data_change: self.allow_data_change,
        }
    }
}

/// Options for answering questions with an index.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct IndexArgs {
    /// Answer with the index that `pbg-host index` built: nearly the same answers without scoring all entities. If
    /// there are so many questions that scoring all entities is faster, the program does that and prints a note.
    #[arg(long)]
    index: bool,
    /// Beam width of the search over the index in each partition: a wider beam finds more answers and is slower
    /// [default: the width that found 95 % when the index was built; if none did, all entities are scored]. If given,
    /// the index is always searched.
    #[arg(long, value_name = "N", requires = "index", value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
}

impl IndexArgs {
    /// Returns the options as questions expect them; `None` without `--index`.
    pub(crate) fn index_options(self) -> Option<IndexQueryOptions> {
        self.index
            .then_some(IndexQueryOptions { width: self.width })
    }
}

/// Comparator of embeddings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ComparatorArg {
    /// Inner product.
    Dot,
    /// Inner product of the normalised embeddings.
    Cos,
    /// Minus the Euclidean distance.
    L2,
    /// Minus the squared Euclidean distance.
    SquaredL2,
    /// Minus the sum of absolute differences.
    L1,
    /// Minus the sum of the moduli of complex differences.
    ComplexL1,
}

impl From<ComparatorArg> for Comparator {
    fn from(comparing: ComparatorArg) -> Self {
        match comparing {
            ComparatorArg::Dot => Self::Dot,
            ComparatorArg::Cos => Self::Cos,
            ComparatorArg::L2 => Self::L2,
            ComparatorArg::SquaredL2 => Self::SquaredL2,
            ComparatorArg::L1 => Self::L1,
            ComparatorArg::ComplexL1 => Self::ComplexL1,
        }
    }
}

/// Comparator of embeddings for which there can be an index.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum IndexedComparatorArg {
    /// Inner product.
    Dot,
    /// Inner product of the normalised embeddings.
    Cos,
    /// Minus the Euclidean distance.
    L2,
    /// Minus the squared Euclidean distance.
    SquaredL2,
}

impl From<IndexedComparatorArg> for Comparator {
    fn from(comparing: IndexedComparatorArg) -> Self {
        match comparing {
            IndexedComparatorArg::Dot => Self::Dot,
            IndexedComparatorArg::Cos => Self::Cos,
            IndexedComparatorArg::L2 => Self::L2,
            IndexedComparatorArg::SquaredL2 => Self::SquaredL2,
        }
    }
}

/// Options that change keys of a configuration.
#[derive(Clone, Debug, Args)]
pub(crate) struct OverrideArgs {
    /// Set a key of the configuration, as in `--set num_epochs=10` or `--set entities.user.num_partitions=4`; can be
    /// repeated. Paths given here are relative to the working folder, paths in the file to the folder of the file.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = split_override, display_order = 900)]
    pub(crate) set: Vec<(String, String)>,
}

/// Parses a number of bytes: `4096`, `64K`, `512M` or `512MiB`, `2G`, where `K` is 1024 bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return Err("not a size such as 512M or 2G".to_owned()),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: Option<f64> = digits.parse().ok().filter(|_| plain);
    let number = number.ok_or("not a size such as 512M or 2G")?;
    let bytes = number * 1024_f64.powi(power);
    if !(1.0..=1e18).contains(&bytes) {
        return Err("outside the range of memory sizes".to_owned());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("4096", 4096),
            ("64k", 64 << 10),
            ("512M", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("2TB", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in [
            "", "M", "-1M", "1e3M", "12 X", "0", "inf", "nan", "9999999T",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
