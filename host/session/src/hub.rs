//! Export of a model as a folder for a model hub: its description without paths of this machine, and its card.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pbg_checkpoint::ReadCheckpoint;
use pbg_checkpoint::manifest::RunInfo;
use pbg_config::Config;
use pbg_core::event::{Event, RankStats};
use pbg_core::model::{Comparator, Operator};
use pbg_dataset::Dataset;
use pbg_export::hub::{self, HubContents};
use pbg_files::FileError;
use pbg_model::{ResolvedConfig, StoredModel, TrainedModel};
use pbg_query::{CALIBRATION, Calibration};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::stored_run::METRICS;
use crate::{metrics, model_summary};

/// Names of the summary that say where something is on this machine.
const OF_THIS_MACHINE: [&str; 2] = ["dataset", "partitions in the buffer"];

/// Writes a trained model as a folder for a model hub to `out`, and returns the files that it consists of. With
/// `overwrite`, an earlier export in `out` is replaced.
///
/// # Errors
/// When the model is damaged, `out` contains something else, or a file cannot be written.
pub fn export_to_hub(
    resolved: &ResolvedConfig,
    model: &TrainedModel<'_>,
    out: &Path,
    overwrite: bool,
) -> Result<Vec<PathBuf>> {
    let checkpoint = &model.checkpoint;
    let config = portable(StoredModel::config_of(checkpoint)?);
    let text = config.to_toml();
    let text = text.map_err(|error| Failure::new(FailureKind::Internal, error))?;
    // The folder is read with this text.
    Config::parse(&text, "the configuration of the export", &[])?;
    let run = RunInfo {
        config: text,
        dataset_path: Some(hub::NAMES.to_owned()),
        ..checkpoint.run().clone()
    };
    let card = Card {
        title: title(out, resolved.config()),
        dataset: model.dataset,
        config: &config,
        validated: validation_of(checkpoint),
    };
    let contents = HubContents {
        run,
        card: card.text(),
        beside: vec![(CALIBRATION, calibration_of(resolved, checkpoint.path())?)],
        overwrite,
    };
    Ok(hub::write(model.dataset, checkpoint, contents, out)?)
}

/// Returns the content of the model's calibration. One of an earlier version is left out, since it does not
/// belong to these embeddings.
fn calibration_of(resolved: &ResolvedConfig, folder: &Path) -> Result<Option<Vec<u8>>> {
    // A damaged one is an error here.
    if Calibration::find(folder)?.is_none() || Calibration::of(resolved).is_err() {
        return Ok(None);
    }
    let path = folder.join(CALIBRATION);
    let content = std::fs::read(&path).map_err(|e| FileError::new("read", &path, e));
    content
        .map(Some)
        .map_err(|error| Failure::new(FailureKind::Io, error))
}

/// Removes from a configuration what belongs to this machine and this run: paths, addresses of other machines, the
/// processor, and parameters and rights of plugins, which may contain paths.
fn portable(mut config: Config) -> Config {
    hub::NAMES.clone_into(&mut config.dataset);
    ".".clone_into(&mut config.checkpoint_path);
    config.distributed_init_method = None;
    config.distributed = Default::default();
    (config.num_machines, config.num_partition_servers) = (1, 0);
    (config.execution, config.workers) = (Default::default(), None);
    config.plugins = Default::default();
    config.forget_parameters_of_formulas();
    for name in [
        &mut config.bucket_order,
        &mut config.relation_sampler,
        &mut config.negative_sampler,
        &mut config.loss_fn,
        &mut config.lr_schedule.decay,
    ] {
        *name = file_name(name);
    }
    let names = operator_names(&config);
    let renamed = |name: &String| names.get(name).unwrap_or(name).clone();
    for relation in &mut config.relations {
        relation.operator = renamed(&relation.operator);
    }
    config.comparator = renamed(&config.comparator);
    let formulas = config.formulas.iter();
    config.formulas = formulas
        .map(|(name, formula)| (renamed(name), formula.clone()))
        .collect();
    config
}

/// Whether a name means an operator or a comparator of the program, whatever formulas there are.
fn is_built_in(name: &str) -> bool {
    Operator::built_in(name).is_some() || Comparator::built_in(name).is_some()
}

/// Returns a name without folders for each operator or comparator that is named by its path, different from those of all others.
fn operator_names(config: &Config) -> BTreeMap<String, String> {
    let used = config.relations.iter().map(|relation| &relation.operator);
    let used: BTreeSet<&String> = used.chain(config.formulas.keys()).collect();
    let (short, long): (Vec<&String>, Vec<&String>) =
        used.into_iter().partition(|name| **name == file_name(name));
    let mut taken: BTreeSet<String> = short.into_iter().cloned().collect();
    let mut names = BTreeMap::new();
    for name in long {
        let file = file_name(name);
        let numbered = (2..).map(|number| format!("{number}-{file}"));
        let free = std::iter::once(file.clone())
            .chain(numbered)
            .find(|name| !is_built_in(name) && !taken.contains(name));
        let free = free.unwrap_or(file);
        taken.insert(free.clone());
        names.insert(name.clone(), free);
    }
    names
}

/// Returns the file name of a plugin that is named by its path, and other names as they are.
fn file_name(name: &str) -> String {
    let file = Path::new(name).file_name();
    file.map_or_else(
        || name.to_owned(),
        |file| file.to_string_lossy().into_owned(),
    )
}

/// Returns the name of the model: that of the folder `out`, or otherwise of the checkpoint.
fn title(out: &Path, config: &Config) -> String {
    let named = [out, Path::new(&config.checkpoint_path)]
        .into_iter()
        .find_map(|path| path.file_name());
    named.map_or_else(
        || "model".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Ranks of validation edges.
struct Validation {
    edges: String,
    ranks: RankStats,
}

/// Returns the ranks of a checkpoint, if its last epoch was validated and the events of its run can be read.
fn validation_of(checkpoint: &ReadCheckpoint) -> Option<Validation> {
    let lines = metrics::read(&checkpoint.path().join(METRICS)).ok()?;
    let (mut trained, mut found) = (0, None);
    for line in lines {
        match line.event {
            Event::EpochFinished { epoch, .. } => trained = epoch + 1,
            Event::Validated {
                epochs,
                edges,
                ranks,
                ..
            } => found = Some((epochs, Validation { edges, ranks })),
            Event::Committed { version, .. } if version >= checkpoint.version() => break,
            _ => {}
        }
    }
    found
        .filter(|(epochs, _)| *epochs == trained)
        .map(|(_, validation)| validation)
}

/// Card of a model in Markdown, with the metadata that hubs read.
struct Card<'a> {
    title: String,
    dataset: &'a Dataset,
    config: &'a Config,
    validated: Option<Validation>,
}

impl Card<'_> {
    fn text(&self) -> String {
        let mut text = self.metadata();
        let counts = self.dataset.manifest();
        let entities: u64 = counts.entities.values().map(|info| info.total()).sum();
        let relations = match counts.relations.count {
            1 => "1 relation".to_owned(),
            count => format!("{count} relations"),
        };
        let title = plain(&self.title);
        let version = env!("CARGO_PKG_VERSION");
        let _written = write!(
            text,
            "\n# {title}\n\nEmbeddings of {entities} entities and {relations}, trained with pbg-host {version}.\n\n## Data\n\n\
             | entity type | entities | numbers per embedding |\n|---|---:|---:|\n"
        );
        for (name, info) in &counts.entities {
            let dimension = self.config.entity_dimension(name);
            let _written = writeln!(text, "| {} | {} | {dimension} |", plain(name), info.total());
        }
        text.push_str("\nThe edges are not part of this model.\n\n## Model\n\n| | |\n|---|---|\n");
        let facts = model_summary::model_summary(self.config, None);
        let facts = facts
            .into_iter()
            .filter(|(name, _)| !OF_THIS_MACHINE.contains(&name.as_str()));
        for (name, value) in facts {
            let _written = writeln!(text, "| {} | {} |", plain(&name), plain(&value));
        }
        if let Some(Validation { edges, ranks }) = &self.validated {
            let how = match self.config.validation_filter().is_empty() {
                true => "Ranks",
                false => "Filtered ranks",
            };
            let among = match self.config.validation.candidates {
                Some(count) => format!("{count} random entities"),
                None => "all entities".to_owned(),
            };
            let _written = write!(
                text,
                "\n## Figures\n\n{how} among {among}, both sides, edge set {} ({} edges):\n\n\
                 | MRR | Hits@1 | Hits@3 | Hits@10 |\n|---:|---:|---:|---:|\n| {:.4} | {:.4} | {:.4} | {:.4} |\n",
                plain(edges),
                ranks.count,
                ranks.mrr,
                ranks.hits_at_1,
                ranks.hits_at_3,
                ranks.hits_at_10
            );
        }
        text.push_str(USE);
        text
    }

    /// Returns the metadata at the beginning of the card, in YAML.
    fn metadata(&self) -> String {
        let mut text = hub::CARD_BEGINNING.to_owned();
        text.push_str(
            "pipeline_tag: graph-ml\ntags:\n- graph-embeddings\n- knowledge-graph-embeddings\n- link-prediction\n",
        );
        if let Some(Validation { edges, ranks }) = &self.validated {
            let _written = write!(
                text,
                "model-index:\n- name: {}\n  results:\n  - task:\n      type: link-prediction\n    dataset:\n      name: {1}\n      \
                 type: {1}\n    metrics:\n",
                quoted(&self.title),
                quoted(edges)
            );
            for (name, value) in [("mrr", ranks.mrr), ("hits@10", ranks.hits_at_10)] {
                let _written = writeln!(text, "    - type: {name}\n      value: {value:.4}");
            }
        }
        text.push_str("---\n");
        text
    }
}

/// How to use an exported model.
const USE: &str = r#"
## Use

```
pip install pbg-host
```

```python
import pbg_host

model = pbg_host.Model("FOLDER")  # this folder
model.neighbors("ENTITY")
model.predict(head="ENTITY", relation="RELATION")
model.embeddings()
```

On the command line, `pbg-host predict FOLDER --head ENTITY --relation RELATION`; `pbg-host export FOLDER --format npy --out ARRAYS`
writes arrays with names for other tools.
"#;

/// Returns a text that Markdown shows as it is, also in a table.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' => {
                shown.extend(['\\', letter])
            }
            letter if letter.is_control() => shown.push(' '),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Returns a text as a string of YAML; every string of JSON is one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
