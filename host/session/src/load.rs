//! Loads a configuration that the user names: reads it, applies overrides, and checks it.

mod model_choice;
mod values;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_checkpoint::ReadCheckpoint;
use pbg_config::Config;
use pbg_core::model::{Operator, Precision};
use pbg_dataset::Dataset;
use pbg_files::remote;
use pbg_model::{ResolvedConfig, StoredModel};

use crate::failure::{Failure, Result};
use crate::front::FrontEnd;
use crate::kind::FailureKind;
use crate::plugins;

pub use values::overrides;

/// Name of the default configuration file.
pub const DEFAULT_NAME: &str = "pbg.toml";
/// Limit of a configuration's size in bytes, in case another file is named by mistake.
const MAX_BYTES: u64 = 64 << 20;

/// Changes to a configuration: keys and values in the form that `--set` takes.
pub type ConfigOverrides = [(String, String)];

/// Returns whether a user who names `path` names a folder, here or in an object store.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() || remote::as_url(path).is_some()
}

/// Text of a configuration with its origin.
struct ConfigText {
    origin: String,
    text: String,
    /// Folder that its relative paths are relative to.
    folder: PathBuf,
}

/// Reads the configuration at `path`, and warns about unusual settings. If `path` is the folder of a checkpoint,
/// returns the configuration that trained it.
///
/// # Errors
/// When the file does not exist, cannot be read, or contains an error.
pub fn config(
    path: Option<&Path>,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<Config> {
    if let Some(folder) = path.filter(|path| is_folder(path)) {
        return Ok(asked_of_checkpoint(folder, overrides, front)?.config);
    }
    with_formulas(parse(&read(path)?, overrides, None, front)?, None, front)
}

/// Reads the configuration as [`config()`] does, without the formulas of the plugins that it names, some of which
/// other plugins may replace ([`plugins::given_formulas`] loads the rest, and checks the parameters of all).
///
/// # Errors
/// As for [`config()`].
pub fn without_formulas(
    path: Option<&Path>,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<Config> {
    match path.filter(|path| is_folder(path)) {
        // A checkpoint has its formulas.
        Some(folder) => Ok(of_checkpoint(folder, overrides, front)?.0.config),
        None => parse(&read(path)?, overrides, None, front),
    }
}

/// Returns the configuration that consists of `overrides` only. Paths are relative to the working folder.
///
/// # Errors
/// When the configuration contains an error.
pub fn of_values(overrides: &ConfigOverrides, front: &dyn FrontEnd) -> Result<Config> {
    with_formulas(of_values_without_formulas(overrides, front)?, None, front)
}

/// Returns the configuration as [`of_values`] does, without formulas, as [`without_formulas`] does.
///
/// # Errors
/// As for [`of_values`].
pub fn of_values_without_formulas(
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<Config> {
    parse(&ConfigText::none(), overrides, None, front)
}

/// Trained model that the user named: its configuration, and the version of its checkpoint that the configuration
/// belongs to, held open.
#[derive(Debug)]
pub struct LoadedModel {
    /// The configuration.
    pub config: Config,
    version: Option<Arc<ReadCheckpoint>>,
}

impl LoadedModel {
    /// Returns the version of the checkpoint, if there is one.
    #[must_use]
    pub fn version(&self) -> Option<Arc<ReadCheckpoint>> {
        self.version.clone()
    }

    /// Opens the dataset. From then on, everything is read from the held version of the checkpoint.
    ///
    /// # Errors
    /// As for [`ResolvedConfig::new`].
    pub fn resolve(self) -> Result<ResolvedConfig> {
        Ok(ResolvedConfig::with_version(self.config, self.version)?)
    }
}

/// Returns the configuration for querying a trained model: that of its checkpoint, changed by the named configuration
/// and the overrides. `checkpoint` replaces the checkpoint's folder in the configuration. With `best`, the model with
/// the highest validation MRR is used instead of the run's last one.
///
/// # Errors
/// As for [`config()`], and when a checkpoint is named that cannot be read.
pub fn trained(
    named: Option<&Path>,
    checkpoint: Option<&Path>,
    best: bool,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<LoadedModel> {
    let folder = named.filter(|path| is_folder(path));
    match (named, folder, checkpoint) {
        (None, _, Some(folder)) | (_, Some(folder), None) => {
            return asked_of_checkpoint(
                &model_choice::model_folder(folder, best, front)?,
                overrides,
                front,
            );
        }
        (_, Some(folder), Some(other)) => {
            let text = format!(
                "{} and {} are both folders of checkpoints",
                folder.display(),
                other.display()
            );
            let help =
                "name only one of them; `--checkpoint` is for a configuration in another file";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        _ => (),
    }
    if let Some(path) = named.filter(|path| !is_folder(path) && !path.exists()) {
        let text = format!("there is no file or folder {}", path.display());
        let help = "name the folder of a checkpoint, or the configuration of the run that made it";
        return Err(Failure::message(FailureKind::Config, text).help(help));
    }
    as_trained(&read(named)?, checkpoint, best, overrides, front)
}

/// Returns the configuration as [`trained`] does, for a configuration that consists of `overrides` only.
///
/// # Errors
/// As for [`trained`].
pub fn trained_of_values(
    best: bool,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<LoadedModel> {
    as_trained(&ConfigText::none(), None, best, overrides, front)
}

fn as_trained(
    text: &ConfigText,
    checkpoint: Option<&Path>,
    best: bool,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<LoadedModel> {
    let mut config = parse(text, overrides, None, front)?;
    let folder = checkpoint.unwrap_or(config.checkpoint_path.as_ref());
    let folder = model_choice::model_folder(folder, best, front)?;
    if let Some(folder) = folder.to_str() {
        folder.clone_into(&mut config.checkpoint_path);
    }
    // If there is no checkpoint, the command reports it when it opens it.
    let (mut version, mut trained) = (None, None);
    if let Ok(stored) = StoredModel::open(Path::new(&config.checkpoint_path)) {
        // Of a checkpoint in an object store, this is the local copy.
        let checkpoint = match remote::as_url(Path::new(&config.checkpoint_path)) {
            Some(_) => stored.config.checkpoint_path.clone(),
            None => config.checkpoint_path,
        };
        config = parse(text, overrides, Some(&stored.config), front)?;
        config.checkpoint_path = checkpoint;
        (version, trained) = (Some(stored.version), Some(stored.config));
    }
    // The checkpoint has the formulas of its plugins, whose files may be gone.
    let config = with_formulas(config, trained.as_ref(), front)?;
    Ok(LoadedModel { config, version })
}

/// Returns the configuration as [`of_checkpoint`] does, and checks that its parameters of plugins have an effect.
fn asked_of_checkpoint(
    folder: &Path,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<LoadedModel> {
    let (loaded, trained) = of_checkpoint(folder, overrides, front)?;
    plugins::require_effect(&loaded.config, Some(&trained), front)?;
    Ok(loaded)
}

/// Returns the configuration that trained the checkpoint in `folder`, changed by `overrides`, and the same unchanged.
fn of_checkpoint(
    folder: &Path,
    overrides: &ConfigOverrides,
    front: &dyn FrontEnd,
) -> Result<(LoadedModel, Config)> {
    let stored = StoredModel::open(folder).map_err(|error| {
        let inside = folder.join(DEFAULT_NAME);
        let failure = Failure::from(error);
        match inside.is_file() {
            true => failure.help(format!("did you mean {}?", inside.display())),
            false => failure,
        }
    })?;
    let text = stored
        .config
        .to_toml()
        .map_err(|error| Failure::new(FailureKind::Checkpoint, error))?;
    let origin = format!("the configuration in {}", folder.display());
    let files = plugins::search_path().files();
    let installed = plugins::installed(&files);
    let mut config = Config::parse_with(&text, &origin, overrides, &installed)?;
    name_files(&mut config, &files);
    require_libtorch(&config, front)?;
    plugins::load_formulas(&mut config, front)?;
    // An error in the path of the overrides is reported when the dataset is opened.
    let named = overrides.iter().any(|(key, _)| key == "dataset");
    if named || Dataset::exists(Path::new(&config.dataset)) {
        let version = Some(stored.version);
        return Ok((LoadedModel { config, version }, stored.config));
    }
    let text = format!(
        "the dataset that {} was trained on is neither next to it nor at {}",
        folder.display(),
        config.dataset
    );
    Err(Failure::message(FailureKind::Data, text).help("give its folder: `--set dataset=FOLDER`"))
}

/// Parses a configuration, resolves paths and names, and ensures that libtorch is available if it is needed. Keys that
/// the text omits have the values of `trained`. Formulas of plugins are not loaded.
fn parse(
    text: &ConfigText,
    overrides: &ConfigOverrides,
    trained: Option<&Config>,
    front: &dyn FrontEnd,
) -> Result<Config> {
    let ConfigText {
        origin,
        text,
        folder,
    } = text;
    let files = plugins::search_path().files();
    let installed = plugins::installed(&files);
    let mut config = match trained {
        Some(trained) => Config::parse_for(trained, text, origin, overrides, &installed)?,
        None => Config::parse_with(text, origin, overrides, &installed)?,
    };
    config.resolve_paths(folder, overrides, &installed)?;
    name_files(&mut config, &files);
    require_libtorch(&config, front)?;
    // Warnings were shown when the text was parsed by itself.
    let warnings = trained.map_or_else(|| config.warnings(), |_| Vec::new());
    for warning in warnings {
        front.warn(&format_args!("{origin}: {warning}"));
    }
    Ok(config)
}

/// Loads the formulas of the plugins that `config` names and whose formulas it does not contain, and checks that
/// parameters of plugins have an effect. `trained` is the configuration that other formulas come from.
fn with_formulas(
    mut config: Config,
    trained: Option<&Config>,
    front: &dyn FrontEnd,
) -> Result<Config> {
    plugins::load_formulas(&mut config, front)?;
    plugins::require_effect(&config, trained, front)?;
    Ok(config)
}

/// Ensures that libtorch is available if `config` needs it.
///
/// # Errors
/// When libtorch is not available.
fn require_libtorch(config: &Config, front: &dyn FrontEnd) -> Result<()> {
    let execution = &config.execution;
    if execution.precision == Precision::Bf16 {
        return front.require_libtorch("execution.precision = \"bf16\"", "fp32 works without it");
    }
    if execution.device != "cpu" {
        let what = format!("execution.device = {:?}", execution.device);
        return front.require_libtorch(&what, "\"cpu\" works without it");
    }
    Ok(())
}

impl ConfigText {
    /// Returns an empty text: the overrides are the whole configuration.
    fn none() -> Self {
        Self {
            origin: "configuration".to_owned(),
            text: String::new(),
            folder: PathBuf::new(),
        }
    }
}

/// Replaces bare names of plugins that are not standard ones by their files. Operators and a comparator whose
/// formulas are known need none.
fn name_files(config: &mut Config, files: &[PathBuf]) {
    for slot in [
        &mut config.bucket_order,
        &mut config.relation_sampler,
        &mut config.negative_sampler,
        &mut config.loss_fn,
    ] {
        name_file(slot, files);
    }
    for relation in &mut config.relations {
        let name = &relation.operator;
        if Operator::built_in(name).is_none() && !config.formulas.contains_key(name) {
            name_file(&mut relation.operator, files);
        }
    }
    if config.comparator_to_load().is_some() {
        name_file(&mut config.comparator, files);
    }
    if config.lr_schedule.plugin().is_some() {
        name_file(&mut config.lr_schedule.decay, files);
    }
}

/// Replaces the bare name of a plugin by its file, unless it is a standard one.
fn name_file(strategy: &mut String, files: &[PathBuf]) {
    let standard = pbg_wasm::standard_plugins()
        .iter()
        .any(|plugin| plugin.name == strategy);
    let mut files = files
        .iter()
        .filter(|file| plugins::plugin_name(file).as_ref() == Some(strategy));
    if let Some(file) = files.next().and_then(|file| file.to_str())
        && !standard
    {
        *strategy = file.to_owned();
    }
}

fn read(path: Option<&Path>) -> Result<ConfigText> {
    let named = path.is_some();
    let path = path.unwrap_or(Path::new(DEFAULT_NAME)).to_owned();
    match text_of(&path) {
        Ok(text) => Ok(ConfigText {
            origin: path.display().to_string(),
            text,
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !named => {
            let text =
                format!("no configuration is named, and the working folder has no {DEFAULT_NAME}");
            let help = format!(
                "`pbg-host config default > {DEFAULT_NAME}` writes one to start from, \
                 or name yours: `pbg-host train CONFIG`"
            );
            Err(Failure::message(FailureKind::Config, text).help(help))
        }
        Err(error) => {
            let text = format!("cannot read the configuration {}", path.display());
            let missing = error.kind() == io::ErrorKind::NotFound;
            let failure = Failure::new(FailureKind::Config, error).context(text);
            Err(match missing {
                true => failure.help(format!(
                    "`pbg-host config default > {}` writes one to start from",
                    path.display()
                )),
                false => failure,
            })
        }
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other(
            "it is not a regular file but a pipe or a device; write the configuration to a file",
        ));
    }
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "more than {MAX_BYTES} bytes, too large for a configuration"
        )));
    }
    Ok(text)
}
