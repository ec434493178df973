//! The runs of a study, each with a folder, trained epoch by epoch.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use pbg_config::{Config, OnFault, ValidationConfig};
use pbg_core::event::{Event, EventLine};
use pbg_core::strategy::{Loss as _, StrategyId};
use pbg_files as files;
use pbg_lab::stall::LoadPolicy;
use pbg_lab::study::{EpochMeasurements, SeedRun};
use pbg_model::{AllowedChanges, ResolvedConfig};
use pbg_query::EvalOptions;
use pbg_train::RunOutcome;

use super::epoch_bytes::EpochBytes;
use super::{disk_limit, run_settings};
use crate::failure::{Failure, Result};
use crate::interrupt::StopHandle;
use crate::kind::FailureKind;
use crate::plugins::{self, LoadedStrategies, StrategyOverrides};
use crate::terminal::Terminal;
use crate::{format, metrics};
use pbg_report::provenance::BuildIdentity;
use pbg_report::run::RunReport;
use pbg_session::orders::{self, OrderSpec};

/// Settings shared by all runs of a study.
pub(super) struct Runs<'a> {
    pub(super) resolved: &'a ResolvedConfig,
    pub(super) ranking: &'a EvalOptions,
    pub(super) allowed: AllowedChanges,
    pub(super) folder: &'a Path,
    pub(super) keep_checkpoints: bool,
    pub(super) program: &'a BuildIdentity,
    pub(super) watch: &'a StopHandle,
    pub(super) terminal: Terminal,
}

/// Which of the runs of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeedRunName {
    pub(super) seed: u64,
    /// Number among the runs with this seed, from 1.
    pub(super) repeat: u32,
}

impl Display for SeedRunName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "seed {}", self.seed)?;
        match self.repeat {
            1 => Ok(()),
            repeat => write!(out, ", run {repeat}"),
        }
    }
}

impl SeedRunName {
    /// Returns the name of the folder of the run.
    fn folder(self) -> String {
        match self.repeat {
            1 => format!("seed-{}", self.seed),
            repeat => format!("seed-{}-run-{repeat}", self.seed),
        }
    }
}

/// Slot of bucket orders.
pub(super) const ORDER: &str = "bucket order";

const RESULT: &str = "result.json";
const METRICS: &str = "metrics.jsonl";
const CONFIGURATION: &str = "configuration.toml";

/// Maximum size in bytes of the result of a run, and of its configuration.
const RESULT_BYTES: u64 = 64 << 20;

impl Runs<'_> {
    /// Returns a run of an order, after training its missing epochs.
    pub(super) fn run(&self, wanted: &OrderSpec, name: SeedRunName) -> Result<SeedRun> {
        let folder = self.folder.join(name_of(&wanted.label)).join(name.folder());
        let checkpoint = folder.join("checkpoint");
        let mut config = self.resolved.config().clone();
        config.seed = name.seed;
        // A fallback to another order would falsify the result.
        config.plugins.on_fault = OnFault::End;
        // Every order gets the same budget, so validation must not stop a run early.
        config.validation = ValidationConfig::default();
        // Epochs are trained one by one, each as the last of a run.
        config.fix_lr_schedule();
        config.bucket_order.clone_from(&wanted.plugin);
        config.checkpoint_path = checkpoint.display().to_string();
        orders::set_parameters(&mut config, wanted, &self.terminal)?;
        let epochs = config.num_epochs;
        let plugins = self.plugins_of(&config)?;
        let mut settings = run_settings::of_run(self.resolved, &config, &plugins, self.program);
        settings.insert("ranked edges".to_owned(), self.ranked_edges());
        let expected = SeedRun {
            seed: name.seed,
            repeat: name.repeat,
            fingerprint: config.training_hash(),
            data: self.data(),
            settings,
            epochs: Vec::new(),
        };
        remove_remains(&checkpoint)?;
        let mut run = self.load_or_create(&folder, &config, expected)?;
        let label = format!("{}, {name}", wanted.label);
        let done = run.epochs.len() as u32;
        if done >= epochs {
            self.terminal
                .print_line(format_args!("{label}: already finished"));
            // The metrics are in this folder only if the checkpoint was to be removed.
            if folder.join(METRICS).exists() && checkpoint.exists() {
                self.finish(&checkpoint)?;
            }
            run.epochs.truncate(epochs as usize);
            return Ok(run);
        }
        if done > 0 && !checkpoint.exists() {
            let text = format!(
                "{label}: {done} epochs are finished, but the checkpoint to resume from was not kept"
            );
            let help = format!(
                "--keep-checkpoints keeps checkpoints; remove {} to start again",
                folder.display()
            );
            return Err(Failure::message(FailureKind::Checkpoint, text).help(help));
        }
        let resolved = self.resolved.with(|changed| *changed = config)?;
        for epoch in done..epochs {
            self.epoch(&resolved, epoch, &mut run, &label)?;
            if epoch + 1 == epochs && !self.keep_checkpoints {
                keep_metrics(&folder, &checkpoint)?;
            }
            store(&folder, &run)?;
        }
        self.finish(&checkpoint)?;
        Ok(run)
    }

    fn data(&self) -> BTreeMap<String, String> {
        let mut ranked = self.ranking.filter.clone();
        ranked.push(self.ranking.edges.clone());
        self.resolved.data(&ranked)
    }

    /// Returns the run as earlier processes have stored it, with the checksums of the current data; `expected` if there is
    /// none. `config` is the configuration of the run.
    fn load_or_create(&self, folder: &Path, config: &Config, expected: SeedRun) -> Result<SeedRun> {
        let Some(run) = read(&folder.join(RESULT))? else {
            // A run that does not say how it was configured could not be compared.
            store_configuration(folder, config)?;
            return Ok(expected);
        };
        let mut changes = match run.fingerprint == expected.fingerprint {
            true => Vec::new(),
            false => other_keys(folder, config),
        };
        changes.extend(run.other_settings(&expected.settings));
        if !changes.is_empty() {
            let text = format!(
                "{} contains a run with other settings: {}",
                folder.display(),
                changes.join("; ")
            );
            let help = "they change results or times; choose another folder with --study, or remove this one";
            return Err(Failure::message(FailureKind::Checkpoint, text).help(help));
        }
        self.compare_data(folder, &run, &expected.data)?;
        Ok(SeedRun {
            data: expected.data,
            ..run
        })
    }

    /// Checks that a run was trained on the current data, unless the user allows changes.
    fn compare_data(
        &self,
        folder: &Path,
        run: &SeedRun,
        data: &BTreeMap<String, String>,
    ) -> Result<()> {
        let changes = run.other_data(data);
        if changes.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{} contains a run on other data: {}",
            folder.display(),
            changes.join("; ")
        );
        if self.allowed.data_change {
            self.terminal.warn(text);
            return Ok(());
        }
        let help = "`--allow-data-change` resumes it anyway; or choose another folder with --study, or remove this one";
        Err(Failure::message(FailureKind::Checkpoint, text).help(help))
    }

    /// Trains one epoch and ranks the edges after it.
    fn epoch(
        &self,
        resolved: &ResolvedConfig,
        epoch: u32,
        run: &mut SeedRun,
        label: &str,
    ) -> Result<()> {
        let started = pbg_clock::now();
        let resolved = resolved.with(|config| config.num_epochs = epoch + 1)?;
        let config = resolved.config();
        let filled = self.strategies(config)?;
        let mut disk = EpochBytes::default();
        let mut emit = |event: Event| {
            disk.observe(&event);
            filled.log.show(|line| self.terminal.detail(line));
        };
        let (stop, strategies) = (&self.watch.stop, filled.strategies);
        match pbg_train::train(&resolved, strategies, self.allowed, stop, &mut emit)? {
            RunOutcome::Finished { .. } => {}
            RunOutcome::Interrupted { .. } => {
                self.watch.wait_for_message();
                self.terminal
                    .print_line("stopped; the same command resumes from here");
                return Err(Failure::message(FailureKind::Interrupted, "interrupted"));
            }
        }
        // The same edges for all runs, whatever their seed.
        let seed = self.resolved.config().seed;
        let progress = &mut |_, _| ();
        let report = pbg_query::evaluate_with_seed(&resolved, self.ranking, seed, progress)?;
        let ranks = report.ranks();
        let path = Path::new(&config.checkpoint_path).join(METRICS);
        let lines = metrics::read(&path)?;
        let events = lines.iter().map(|line| &line.event);
        let measured = EpochMeasurements {
            mrr: ranks.mrr,
            hits_at_10: ranks.hits_at_10,
            disk: disk.of_epoch(epoch, &lines),
            predicted_stall: predicted_stall(&resolved, epoch, &lines)?,
        };
        if !run.add_epoch(epoch, events, &measured) {
            let text = format!("{} does not contain epoch {}", path.display(), epoch + 1);
            return Err(Failure::message(FailureKind::Checkpoint, text));
        }
        if let Some(point) = run.epochs.last() {
            self.terminal.print_line(format_args!(
                "{label}: epoch {}/{}  loss {}  MRR {:.4}  {} of {} swaps predicted  {}",
                epoch + 1,
                self.resolved.config().num_epochs,
                format::loss(point.loss),
                point.mrr,
                point.swaps(),
                point.predicted_swaps,
                format::duration(started.elapsed()),
            ));
        }
        Ok(())
    }

    /// Removes the checkpoint of a finished run, whose result and metrics are kept.
    fn finish(&self, checkpoint: &Path) -> Result<()> {
        if self.keep_checkpoints {
            return Ok(());
        }
        let aside = files::staged_name(checkpoint);
        fs::rename(checkpoint, &aside)
            .map_err(|error| Failure::io("cannot remove", checkpoint, error))?;
        remove_remains(checkpoint)
    }

    fn strategies(&self, config: &Config) -> Result<LoadedStrategies> {
        let (own, stop) = (StrategyOverrides::default(), &self.watch.stop);
        plugins::fill(config, own, None, Some(stop), &self.terminal)
    }

    /// Returns the plugins of the runs of an order by their slots.
    pub(super) fn plugins(&self, wanted: &OrderSpec) -> Result<Vec<(&'static str, StrategyId)>> {
        let mut config = self.resolved.config().clone();
        config.bucket_order.clone_from(&wanted.plugin);
        orders::set_parameters(&mut config, wanted, &self.terminal)?;
        self.plugins_of(&config)
    }

    fn plugins_of(&self, config: &Config) -> Result<Vec<(&'static str, StrategyId)>> {
        let strategies = self.strategies(config)?.strategies;
        let mut plugins = vec![
            (ORDER, strategies.order.id().clone()),
            ("loss", strategies.loss.id().clone()),
        ];
        // Dynamic relations are not sampled.
        if !config.dynamic_relations {
            plugins.push(("relation sampler", strategies.sampler.id().clone()));
        }
        let negatives = strategies.negatives.iter();
        plugins.extend(negatives.map(|chosen| (chosen.kind(), chosen.id().clone())));
        let schedule = strategies.schedule.iter();
        plugins.extend(schedule.map(|schedule| ("learning rate schedule", schedule.id().clone())));
        Ok(plugins)
    }

    /// Describes which edges are ranked after each epoch.
    fn ranked_edges(&self) -> String {
        let edges = &self.ranking.edges;
        match self.ranking.limit {
            None => format!("all of {edges}"),
            Some(limit) => format!(
                "{limit} of {edges}, drawn with the seed {}",
                self.resolved.config().seed
            ),
        }
    }
}

/// Predicts for how long the passes of an epoch wait for partitions, if the configuration limits the disk.
fn predicted_stall(
    resolved: &ResolvedConfig,
    epoch: u32,
    lines: &[EventLine],
) -> Result<Option<f64>> {
    let execution = &resolved.config().execution;
    let Some(disk) = disk_limit::rates(execution) else {
        return Ok(None);
    };
    let loading = match execution.partitions_ahead() {
        0 => LoadPolicy::OnDemand,
        _ => LoadPolicy::Ahead,
    };
    let first = pbg_train::first_pass(resolved)?;
    let report = RunReport::new(Vec::new(), lines);
    Ok(report.predicted_stall(&first, epoch, &disk, loading))
}

/// Ensures that the orders have different folders, since runs of one would be taken for those of another.
///
/// # Errors
/// When two labels become one name, as those of two files of one name do.
pub(super) fn require_own_folders(orders: &[OrderSpec]) -> Result<()> {
    for (at, order) in orders.iter().enumerate() {
        let name = name_of(&order.label);
        let mut earlier = orders.iter().take(at);
        if let Some(other) = earlier.find(|other| name_of(&other.label) == name) {
            let text = format!(
                "--order {} and --order {} would both have the folder {name} of the study",
                other.label, order.label
            );
            let help = "give one of the files another name, or train them in two studies";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
    }
    Ok(())
}

/// Converts a label to the name of a folder.
fn name_of(label: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '=');
    let file = Path::new(label)
        .file_name()
        .map_or(label.into(), |name| name.to_string_lossy());
    file.chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect()
}

fn read(path: &Path) -> Result<Option<SeedRun>> {
    match files::read(path, RESULT_BYTES) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| {
            let text = format!("{} is not the result of a run", path.display());
            Failure::new(FailureKind::Checkpoint, error).context(text)
        }),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Failure::new(FailureKind::Io, error)),
    }
}

/// Keeps the metrics of a checkpoint that will be removed.
fn keep_metrics(folder: &Path, checkpoint: &Path) -> Result<()> {
    let kept = folder.join(METRICS);
    let staged = files::staged_name(&kept);
    files::remove(&staged)
        .and_then(|()| files::link_or_copy(&checkpoint.join(METRICS), &staged))
        .and_then(|()| files::rename(&staged, &kept))
        .and_then(|()| files::sync_folder_of(&kept))
        .map_err(|error| Failure::new(FailureKind::Io, error))
}

/// Removes the remains of a checkpoint whose removal was interrupted.
fn remove_remains(checkpoint: &Path) -> Result<()> {
    files::remove_folder(&files::staged_name(checkpoint))
        .map_err(|error| Failure::io("cannot remove", checkpoint, error))
}

/// Describes the keys by which `config` differs from the configuration of the run in `folder`, which is another one.
fn other_keys(folder: &Path, config: &Config) -> Vec<String> {
    let path = folder.join(CONFIGURATION);
    let text = files::read(&path, RESULT_BYTES).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let trained = text.and_then(|text| Config::parse(&text, &path.display().to_string(), &[]).ok());
    let differences = trained.map(|trained| config.training_differences(&trained));
    match differences {
        Some(some) if !some.is_empty() => some.iter().map(ToString::to_string).collect(),
        _ => vec!["a configuration that it has not recorded".to_owned()],
    }
}

/// Writes the configuration of a run, which tells a later command what differs.
fn store_configuration(folder: &Path, config: &Config) -> Result<()> {
    let text = config.to_toml();
    let text = text.map_err(|error| Failure::new(FailureKind::Internal, error))?;
    replace(folder, CONFIGURATION, text.as_bytes())
}

fn store(folder: &Path, run: &SeedRun) -> Result<()> {
    let text =
        serde_json::to_vec_pretty(run).map_err(|e| Failure::new(FailureKind::Internal, e))?;
    replace(folder, RESULT, &text)
}

/// Replaces a file of a run atomically: even after a crash it has either the old content or the new one.
fn replace(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Failure::io("cannot create", folder, error))?;
    let path = folder.join(name);
    files::replace(&path, content).map_err(|error| Failure::io("cannot write", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_names_that_stay_in_the_folder() {
        assert_eq!(name_of("beta:assignment=random"), "beta-assignment=random");
        assert_eq!(name_of("../../x/my order.wasm"), "my-order-wasm");
        assert_eq!(name_of(".."), "--");
    }
}
