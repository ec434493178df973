//! Settings that all runs of a study must share, although a single run may change them when it resumes.

use std::collections::BTreeMap;

use pbg_config::Config;
use pbg_core::strategy::StrategyId;
use pbg_model::ResolvedConfig;
use pbg_report::provenance::BuildIdentity;

use crate::{processor, provenance};

/// Keys that change neither results nor times: a study sets them, or compares their content in another way.
const NEUTRAL: [&str; 6] = [
    // The checksums of the data are compared instead.
    "dataset",
    // Every run has its own folder.
    "checkpoint_path",
    // A study may go on with more epochs.
    "num_epochs",
    // The checksums of the plugins are compared instead.
    "plugins.pins",
    // A run ends with the first failure of its order.
    "plugins.on_fault",
    // Nothing is validated.
    "validation",
];

/// Returns everything that may change results or times and that the training hash of `config` does not contain: the other
/// keys, the plugins, the program and the processor.
pub(super) fn of_run(
    resolved: &ResolvedConfig,
    config: &Config,
    plugins: &[(&str, StrategyId)],
    program: &BuildIdentity,
) -> BTreeMap<String, String> {
    let mut settings = config.keys_outside_training_hash();
    settings.retain(|key, _| {
        let is_about = |neutral: &str| {
            let rest = key.strip_prefix(neutral);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !NEUTRAL.into_iter().any(is_about)
    });
    let execution = &config.execution;
    // A default counts as the value that it stands for.
    let derived = [
        ("workers", resolved.settings().workers),
        ("execution.partitions_ahead", execution.partitions_ahead()),
        ("execution.buckets_ahead", execution.buckets_ahead()),
        ("execution.batches_ahead", execution.batches_ahead()),
    ];
    settings.extend(derived.map(|(key, value)| (key.to_owned(), value.to_string())));
    settings.extend(plugins.iter().map(|(slot, plugin)| {
        let shown = provenance::identity(plugin).to_string();
        ((*slot).to_owned(), shown)
    }));
    settings.extend([
        ("program".to_owned(), program.to_string()),
        ("processor".to_owned(), processor::description()),
    ]);
    settings
}
