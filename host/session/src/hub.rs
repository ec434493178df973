//! Export of a model as a folder for a model hub: its description without paths of this machine, and its card.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pbg_checkpoint::manifest::RunInfo;
use pbg_config::Config;
use pbg_core::event::{Event, RankStats};
use pbg_dataset::Dataset;
use pbg_export::hub::{self, HubContents};
use pbg_model::{ResolvedConfig, StoredModel, TrainedModel};

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
    let run = RunInfo {
        config: text,
        dataset_path: Some(hub::NAMES.to_owned()),
        ..checkpoint.run().clone()
    };
    let card = Card {
        title: title(out, resolved.config()),
        dataset: model.dataset,
        config: &config,
        validated: last_validation(checkpoint.path()),
    };
    let contents = HubContents {
        run,
        card: card.text(),
        overwrite,
    };
    Ok(hub::write(model.dataset, checkpoint, contents, out)?)
}

/// Removes from a configuration what only this machine has: paths, addresses of other machines, and rights and
/// checksums of plugins.
fn portable(mut config: Config) -> Config {
    hub::NAMES.clone_into(&mut config.dataset);
    ".".clone_into(&mut config.checkpoint_path);
    config.distributed_init_method = None;
    config.distributed = Default::default();
    config.plugins.grants.clear();
    config.plugins.pins.clear();
    for name in [
        &mut config.bucket_order,
        &mut config.relation_sampler,
        &mut config.negative_sampler,
        &mut config.loss_fn,
    ] {
        *name = without_folder(name);
    }
    for relation in &mut config.relations {
        relation.operator = without_folder(&relation.operator);
    }
    let formulas = std::mem::take(&mut config.formulas);
    config.formulas = formulas
        .into_iter()
        .map(|(name, formula)| (without_folder(&name), formula))
        .collect();
    config
}

/// Returns the file name of a plugin that is named by its path, and other names as they are.
fn without_folder(name: &str) -> String {
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

/// Returns the name of the edge set and the ranks of the last validation of a run; `None` if there was none or its
/// events cannot be read.
fn last_validation(folder: &Path) -> Option<(String, RankStats)> {
    let lines = metrics::read(&folder.join(METRICS)).ok()?;
    lines.into_iter().rev().find_map(|line| match line.event {
        Event::Validated { edges, ranks, .. } => Some((edges, ranks)),
        _ => None,
    })
}

/// Card of a model in Markdown, with the metadata that hubs read.
struct Card<'a> {
    title: String,
    dataset: &'a Dataset,
    config: &'a Config,
    validated: Option<(String, RankStats)>,
}

impl Card<'_> {
    fn text(&self) -> String {
        let mut text = self.metadata();
        let counts = self.dataset.manifest();
        let entities: u64 = counts.entities.values().map(|info| info.total()).sum();
        let relations = counts.relations.count;
        let (title, dimension) = (plain(&self.title), self.config.dimension);
        let version = env!("CARGO_PKG_VERSION");
        let _written = write!(
            text,
            "\n# {title}\n\nEmbeddings of {entities} entities and {relations} relations, with {dimension} numbers each, trained with \
             pbg-host {version}.\n\n## Data\n\n| entity type | entities |\n|---|---:|\n"
        );
        for (name, info) in &counts.entities {
            let _written = writeln!(text, "| {} | {} |", plain(name), info.total());
        }
        text.push_str("\nThe edges are not part of this model.\n\n## Model\n\n| | |\n|---|---|\n");
        let facts = model_summary::model_summary(self.config, None);
        let facts = facts
            .into_iter()
            .filter(|(name, _)| !OF_THIS_MACHINE.contains(&name.as_str()));
        for (name, value) in facts {
            let _written = writeln!(text, "| {} | {} |", plain(&name), plain(&value));
        }
        if let Some((edges, ranks)) = &self.validated {
            let _written = write!(
                text,
                "\n## Figures\n\nFiltered ranks among all entities, both sides, edge set `{}` ({} edges):\n\n\
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
        if let Some((edges, ranks)) = &self.validated {
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
model.predict("ENTITY", "RELATION")
model.embeddings()
```

On the command line, `pbg-host predict FOLDER --head ENTITY --relation RELATION`. Without pbg-host, `embeddings_*.safetensors` are
read by the package safetensors; row by row, their names are in `dataset/entities_*.arrow`, sorted by partition and offset.
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
