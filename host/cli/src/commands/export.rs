//! `pbg-host export`.

use std::path::PathBuf;

use indicatif::ProgressBar;
use pbg_export::{self as export, ExportFormat, ExportOptions};
use pbg_model::TrainedModel;
use pbg_session::hub;

use crate::failure::Result;
use crate::options::TrainedArgs;
use crate::terminal::{self, Terminal};
use crate::{bars, load, model_notes};

/// Export embeddings and relation parameters to formats that other tools read.
///
/// Writes one table per entity type, with rows in the order of the dataset's dictionary, and the
/// parameters of the relations. `npy` and `safetensors` store the names in a separate JSON file;
/// `parquet` and `tsv` store them in the same file. Global embeddings are added to the rows. `hub` writes a
/// folder to upload to a model hub, which `Model(FOLDER)` in Python and all commands read: the checkpoint
/// with the names, without edges and paths, and a card. Prints the paths of the files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host export pbg.toml --format npy --out embeddings
  pbg-host export pbg.toml --format parquet --out embeddings --overwrite
  pbg-host export pbg.toml --format tsv --out embeddings
  pbg-host export pbg.toml --format hub --out fb15k237-complex")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Format of the files.
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// Folder for the files, created if it does not exist; or the URL of a folder in an object store.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Replace the files of an earlier export.
    #[arg(long)]
    overwrite: bool,
}

/// Format of exported files.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// NumPy arrays.
    Npy,
    /// Safetensors.
    Safetensors,
    /// Parquet: a name and a list of numbers per row.
    Parquet,
    /// Text: a name and numbers per line, separated by tabs.
    Tsv,
    /// A folder for a model hub: a checkpoint that all commands read, without edges, and a card that describes it.
    Hub,
}

impl Format {
    /// Returns the format of tables; `None` for a folder for a model hub.
    const fn of_tables(self) -> Option<ExportFormat> {
        match self {
            Self::Npy => Some(ExportFormat::Npy),
            Self::Safetensors => Some(ExportFormat::Safetensors),
            Self::Parquet => Some(ExportFormat::Parquet),
            Self::Tsv => Some(ExportFormat::Tsv),
            Self::Hub => None,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When there is no checkpoint, the checkpoint does not belong to the dataset, or a file cannot be written.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let model = TrainedModel::open(&resolved)?;
    let overwrite = args.overwrite;
    let written = match args.format.of_tables() {
        None => hub::export_to_hub(&resolved, &model, &args.out, overwrite)?,
        Some(format) => {
            let bar = terminal.shown(ProgressBar::new(1));
            let written = export::run(
                model.dataset,
                &model.checkpoint,
                model.earlier.as_ref(),
                &args.out,
                &ExportOptions { format, overwrite },
                &mut |done, of| bars::advance(&bar, done, of),
            );
            bar.finish_and_clear();
            written?
        }
    };
    model_notes::warn_about_missing_rows(&model.missing, &resolved, terminal);
    terminal::print(|out| {
        written
            .iter()
            .try_for_each(|path| writeln!(out, "{}", path.display()))
    })
}
