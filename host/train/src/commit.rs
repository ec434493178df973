//! When a run commits, what it writes, and what it checks before it goes on from a commit.

use std::time::{Duration, Instant};

use pbg_config::Config;
use pbg_core::event::Resumed;
use pbg_core::strategy::{Loss as _, StrategyId};
use pbg_kernels::params::Params;
use pbg_store::checkpoint::manifest::RunInfo;
use pbg_store::checkpoint::{Checkpoint, Tensor, TensorRef};

use crate::error::RunError;
use crate::resolved::Resolved;
use crate::run::Strategies;
use crate::state::{RunState, dictionaries};

/// Ending of the name of a parameter's accumulators.
const ACCUMULATOR: &str = ".adagrad";

/// The commits of one run.
pub(crate) struct Commits {
    interval: Duration,
    last: Instant,
    config: Config,
    dataset: String,
    strategies: Vec<StrategyId>,
    allowed: Allowed,
}

/// What may differ from what trained a checkpoint that is gone on from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// The strategies and their parameters.
    pub plugin_change: bool,
}

/// What the strategies of a checkpoint are, in their order.
const SLOTS: [&str; 3] = ["bucket order", "relation sampler", "loss"];

impl Commits {
    pub(crate) fn new(resolved: &Resolved, strategies: &Strategies, allowed: Allowed) -> Self {
        let config = resolved.config();
        let ids = [
            strategies.order.id(),
            strategies.sampler.id(),
            strategies.loss.id(),
        ];
        Self {
            interval: Duration::try_from_secs_f64(config.checkpoint_interval)
                .unwrap_or(Duration::MAX),
            last: Instant::now(),
            config: config.clone(),
            dataset: dictionaries(config, resolved.dataset()),
            strategies: ids.into_iter().cloned().collect(),
            allowed,
        }
    }

    /// Whether the last commit is older than `checkpoint_interval`.
    pub(crate) fn due(&self) -> bool {
        self.last.elapsed() >= self.interval
    }

    /// The state to go on from, with `params` as they were; a fresh one before the first commit.
    pub(crate) fn resume(
        &self,
        checkpoint: &Checkpoint,
        params: &mut Params,
    ) -> Result<(RunState, Option<Resumed>), RunError> {
        let Some(run) = checkpoint.run() else {
            return Ok((RunState::default(), None));
        };
        self.check(checkpoint, run)?;
        read_model(checkpoint.model()?, params)?;
        let state: RunState = serde_json::from_value(run.state.clone()).map_err(|e| {
            let path = checkpoint.path().display();
            RunError::Mismatch(format!(
                "{path}: the position in its manifest cannot be read: {e}"
            ))
        })?;
        let resumed = Resumed {
            pass: state.schedule.pass(),
            done: state.schedule.done() as u64,
            version: checkpoint.version(),
        };
        Ok((state, Some(resumed)))
    }

    fn check(&self, checkpoint: &Checkpoint, run: &RunInfo) -> Result<(), RunError> {
        let path = checkpoint.path().display();
        if run.config_hash != self.config.training_hash() {
            let differences =
                match Config::parse(&run.config, "the checkpoint's configuration", &[]) {
                    Ok(old) if self.allowed.plugin_change => {
                        old.differences_beside_strategies(&self.config)
                    }
                    Ok(old) => old.training_differences(&self.config),
                    Err(_) => vec!["keys that this version does not know".to_owned()],
                };
            if !differences.is_empty() {
                return Err(RunError::Mismatch(format!(
                    "{path} was trained with another configuration; what differs: {}. Set them back, or choose \
                     another checkpoint_path (and init_path to start from these embeddings)",
                    differences.join(", ")
                )));
            }
        }
        if run.dataset != self.dataset {
            return Err(RunError::Mismatch(format!(
                "{path} was trained on a dataset with other entities or relations ({}, now {}); choose another \
                 checkpoint_path, or import with the old dictionary",
                run.dataset, self.dataset
            )));
        }
        if self.allowed.plugin_change {
            return Ok(());
        }
        let strategies = run.strategies.iter().zip(&self.strategies);
        let different: Vec<String> = SLOTS
            .iter()
            .zip(strategies)
            .filter(|(_, (old, new))| old != new)
            .map(|(slot, (old, new))| format!("the {slot} was {}, is {}", named(old), named(new)))
            .collect();
        if different.is_empty() {
            return Ok(());
        }
        Err(RunError::Mismatch(format!(
            "{path} was trained with other plugins: {}; `--allow-plugin-change` goes on all the same",
            different.join("; ")
        )))
    }

    /// Writes the parameters and makes everything written so far the new version.
    pub(crate) fn commit(
        &mut self,
        checkpoint: &mut Checkpoint,
        params: &Params,
        state: &RunState,
    ) -> Result<u64, RunError> {
        write_model(checkpoint, params)?;
        let state = serde_json::to_value(state)
            .map_err(|e| RunError::Mismatch(format!("the position cannot be written: {e}")))?;
        let version = checkpoint.commit(RunInfo {
            config: self
                .config
                .to_toml()
                .map_err(|e| RunError::Config(e.to_string()))?,
            config_hash: self.config.training_hash(),
            dataset: self.dataset.clone(),
            strategies: self.strategies.clone(),
            state,
        })?;
        self.last = Instant::now();
        Ok(version)
    }
}

/// A strategy with enough of its hash to tell two files of one name apart.
fn named(id: &StrategyId) -> String {
    match id.sha256.get(..12) {
        Some(start) => format!("{id} (sha256 {start}...)"),
        None => id.to_string(),
    }
}

fn write_model(checkpoint: &mut Checkpoint, params: &Params) -> Result<(), RunError> {
    let owned: Vec<Tensor> = params
        .tensors()
        .iter()
        .flat_map(|tensor| {
            let accumulator = format!("{}{ACCUMULATOR}", tensor.name);
            [
                Tensor {
                    name: tensor.name.clone(),
                    shape: tensor.shape.clone(),
                    values: tensor.to_vec(),
                },
                Tensor {
                    name: accumulator,
                    shape: tensor.shape.clone(),
                    values: tensor.adagrad_to_vec(),
                },
            ]
        })
        .collect();
    let tensors: Vec<TensorRef<'_>> = owned
        .iter()
        .map(|t| TensorRef {
            name: &t.name,
            shape: &t.shape,
            values: &t.values,
        })
        .collect();
    Ok(checkpoint.write_model(&tensors)?)
}

/// Sets `params` to what a checkpoint holds.
pub(crate) fn read_model(tensors: Vec<Tensor>, params: &mut Params) -> Result<(), RunError> {
    let find = |name: &str| tensors.iter().find(|t| t.name == name);
    for tensor in tensors.iter().filter(|t| !t.name.ends_with(ACCUMULATOR)) {
        let adagrad = find(&format!("{}{ACCUMULATOR}", tensor.name)).map(|t| t.values.as_slice());
        params
            .set(&tensor.name, &tensor.values, adagrad)
            .map_err(|e| {
                RunError::Mismatch(format!("the checkpoint does not fit the model: {e}"))
            })?;
    }
    Ok(())
}
