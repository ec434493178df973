//! Fuzzing of plugins that are nearly components.

use pbg_fuzz::bytes;
use pbg_wasm::{Limits, PluginSource, Sandbox, standard_plugins};

use crate::{fuzz, turn};

#[test]
fn components() {
    let turn = turn();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    // The smallest plugins, in which most changes hit something that matters.
    let mut models: Vec<&[u8]> = standard_plugins()
        .iter()
        .map(|plugin| plugin.bytes)
        .collect();
    models.sort_by_key(|bytes| bytes.len());
    models.truncate(4);
    fuzz(turn, "components", 150, 1 << 30, |dice, _| {
        let (model, other) = (*dice.pick(&models), *dice.pick(&models));
        let changed = bytes(dice, model, other);
        let source = PluginSource::Bytes {
            label: "fuzz".to_owned(),
            bytes: changed,
        };
        match sandbox.open(source) {
            Ok(plugin) => !plugin.inspection().metadata.name.is_empty(),
            Err(error) => error.to_string().is_empty(),
        }
    });
}
