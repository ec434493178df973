//! Options that several commands share, and how their values are read.

use std::path::PathBuf;

use clap::Args;
use pbg_config::split_override;
use pbg_core::model::Comparator;
use pbg_train::{Allowed, WithIndex};

/// Which configuration, and what to change in it.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration [default: pbg.toml of the working folder], or the folder of a checkpoint, which stands for the
    /// configuration that trained it.
    #[arg(value_name = "CONFIG|CHECKPOINT")]
    pub(crate) config: Option<PathBuf>,
    /// Options that change it.
    #[command(flatten)]
    pub(crate) overrides: Overrides,
}

/// Which trained model: by its configuration, by its checkpoint, or by both.
#[derive(Debug, Args)]
pub(crate) struct TrainedArgs {
    /// Configuration [default: that of --checkpoint, otherwise pbg.toml of the working folder]. What
    /// it says nothing about is as it was trained. Or the folder of a checkpoint, which needs no other.
    #[arg(value_name = "CONFIG|CHECKPOINT")]
    pub(crate) config: Option<PathBuf>,
    /// Options that name the checkpoint or change the configuration.
    #[command(flatten)]
    pub(crate) which: TrainedOptions,
}

/// The options of [`TrainedArgs`].
#[derive(Clone, Debug, Args)]
pub(crate) struct TrainedOptions {
    /// Checkpoint [default: that of the configuration]; it brings along the configuration that
    /// trained it.
    #[arg(long, value_name = "FOLDER", display_order = 899)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Use the model with the highest validation MRR, which `validation.early_stop` keeps in the folder `best`, instead of
    /// the last one.
    #[arg(long, display_order = 899)]
    pub(crate) best: bool,
    /// Options that change the configuration.
    #[command(flatten)]
    pub(crate) overrides: Overrides,
}

/// What may differ from what trained a checkpoint.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct AllowArgs {
    /// Go on from a checkpoint that other plugins trained, or the same ones with other parameters.
    #[arg(long)]
    allow_plugin_change: bool,
    /// Go on from a checkpoint that was trained on other edges. An epoch that was interrupted begins
    /// again, and earlier ranks of validation edges are forgotten if those changed.
    #[arg(long)]
    allow_data_change: bool,
}

impl AllowArgs {
    /// As the training loop takes it.
    pub(crate) const fn allowed(self) -> Allowed {
        Allowed {
            plugin_change: self.allow_plugin_change,
            data_change: self.allow_data_change,
        }
    }
}

/// Whether answers come by an index.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct IndexArgs {
    /// Answer by the index that `pbg-host index` built: nearly the same answers without a look at all entities. Where so
    /// many questions are asked at once that such a look takes less, it is made, and said.
    #[arg(long)]
    index: bool,
    /// Entities that a walk over the index keeps in view in each partition: more find more, slowly [default: as many as
    /// found 95 % when the index was built; where none did, all entities are looked at]. With it the index is walked in
    /// any case.
    #[arg(long, value_name = "N", requires = "index", value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
}

impl IndexArgs {
    /// As questions take it.
    pub(crate) fn chosen(self) -> Option<WithIndex> {
        self.index.then_some(WithIndex { width: self.width })
    }
}

/// What embeddings are compared with.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Comparing {
    /// Inner product.
    Dot,
    /// Inner product of the normalised embeddings.
    Cos,
    /// Minus the Euclidean distance.
    L2,
    /// Minus the squared Euclidean distance.
    SquaredL2,
}

impl From<Comparing> for Comparator {
    fn from(comparing: Comparing) -> Self {
        match comparing {
            Comparing::Dot => Self::Dot,
            Comparing::Cos => Self::Cos,
            Comparing::L2 => Self::L2,
            Comparing::SquaredL2 => Self::SquaredL2,
        }
    }
}

/// Changes to a configuration.
#[derive(Clone, Debug, Args)]
pub(crate) struct Overrides {
    /// Change a key of the configuration, as in `--set num_epochs=10` or
    /// `--set entities.user.num_partitions=4`; can be repeated. Paths are relative to the working
    /// folder, while those in the file are relative to the file.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = split_override, display_order = 900)]
    pub(crate) set: Vec<(String, String)>,
}

/// Reads a number of bytes: `4096`, `64K`, `512M` or `512MiB`, `2G`, with 1024 bytes to the `K`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return Err("not a size, as 512M or 2G are".to_owned()),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: Option<f64> = digits.parse().ok().filter(|_| plain);
    let number = number.ok_or("not a size, as 512M or 2G are")?;
    let bytes = number * 1024_f64.powi(power);
    if !(1.0..=1e18).contains(&bytes) {
        return Err("not a size that memory can have".to_owned());
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
