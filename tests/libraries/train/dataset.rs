//! Datasets that several suites train on.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pbg_config::Config;
use pbg_import::{self as import, ImportOptions};

/// Values of files, each with the name of the edge set or entity type.
pub(crate) type Files<F> = Vec<(String, F)>;

/// Imports edge sets, and features of entity types, into the folder `data` of `folder`.
pub(crate) fn import_into(
    folder: &Path,
    config: &Config,
    sets: &Files<Vec<PathBuf>>,
    features: Files<PathBuf>,
) {
    let options = ImportOptions {
        target: folder.join("data"),
        seed: config.seed,
        features,
        ..ImportOptions::default()
    };
    let mut go_on = |_| ControlFlow::Continue(());
    import::run(&config.graph_schema(), sets, &options, &mut go_on).expect("an import");
}
