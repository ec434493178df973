//! Report of a run from the folder of its checkpoint.

use std::path::Path;
use std::sync::Arc;

use pbg_checkpoint::{CheckpointError, ReadCheckpoint};
use pbg_config::Config;
use pbg_core::strategy::Pass;
use pbg_model::{ResolvedConfig, RunError, StoredModel};
use pbg_report::run::RunReport;

use crate::failure::Result;
use crate::front::FrontEnd;
use crate::{metrics, model_summary};

/// Name of the file in a checkpoint with the events of its run.
pub const METRICS: &str = "metrics.jsonl";

/// Run in the folder of a checkpoint.
#[derive(Debug)]
pub struct StoredRun {
    /// Report of its events.
    pub report: RunReport,
    /// Its first pass, if the dataset can be read.
    pub first_pass: Option<Pass>,
}

impl StoredRun {
    /// Reads the run in `folder`, and facts about its model from the version `held`, or otherwise from the last one.
    ///
    /// # Errors
    /// When there are no events, or the events or the checkpoint cannot be read.
    pub fn read(
        folder: &Path,
        held: Option<Arc<ReadCheckpoint>>,
        front: &dyn FrontEnd,
    ) -> Result<Self> {
        let events = metrics::read(&folder.join(METRICS))?;
        let known = RunFacts::read(folder, held, front)?;
        Ok(Self {
            report: RunReport::new(known.summary, &events),
            first_pass: known.first_pass,
        })
    }
}

/// Facts about a run that its checkpoint contains.
#[derive(Default)]
struct RunFacts {
    summary: Vec<(String, String)>,
    first_pass: Option<Pass>,
}

impl RunFacts {
    /// Reads the facts from the version `held`, or otherwise from the last one; empty before the first commit.
    fn read(path: &Path, held: Option<Arc<ReadCheckpoint>>, front: &dyn FrontEnd) -> Result<Self> {
        let mut known = Self::default();
        known.fact("run", path.display());
        let opened = match held {
            Some(held) => Ok(held),
            None => ReadCheckpoint::open(path).map(Arc::new),
        };
        let checkpoint = match opened {
            Ok(checkpoint) => checkpoint,
            Err(CheckpointError::Missing { .. }) => return Ok(known),
            Err(error) => return Err(RunError::from(error).into()),
        };
        known.fact("checkpoint version", checkpoint.version());
        let run = checkpoint.run();
        for strategy in &run.strategies {
            let sum = strategy.sha256.get(..12).unwrap_or("built in");
            known.fact("strategy", format_args!("{strategy} ({sum})"));
        }
        // The path of the dataset is relative to the checkpoint, not to the working folder.
        // After the bucket order and the relation sampler.
        let loss = run.strategies.get(2).map(|loss| loss.name.as_str());
        match StoredModel::config_of(&checkpoint) {
            Ok(config) => known.configured(&config, loss, front),
            Err(error) => front.warn(&error),
        }
        Ok(known)
    }

    fn configured(&mut self, config: &Config, loss: Option<&str>, front: &dyn FrontEnd) {
        for (what, plugin) in config.formula_builders() {
            let sum = plugin.sha256.get(..12).unwrap_or("checksum not recorded");
            self.fact("strategy", format_args!("{plugin} ({what}, {sum})"));
        }
        self.summary
            .extend(model_summary::model_summary(config, loss));
        self.fact("seed", config.seed);
        let needs = ResolvedConfig::new(config.clone()).and_then(|resolved| {
            self.first_pass = pbg_train::first_pass(&resolved).ok();
            pbg_train::check(&resolved, None)
        });
        match needs {
            Ok(needs) => {
                let memory = pbg_model::memory::total(&needs.memory);
                self.fact("maximum memory", pbg_model::memory::binary_size(memory));
            }
            Err(error) => front.warn(&error),
        }
    }

    fn fact(&mut self, name: &str, value: impl std::fmt::Display) {
        self.summary.push((name.to_owned(), value.to_string()));
    }
}
