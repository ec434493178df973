//! Creates strategies from plugins with their configured parameters.

use std::sync::Arc;

use pbg_config::Config;
use pbg_core::model::Comparator;
use pbg_core::strategy::{
    BucketOrder, Loss, NegativeSampler, RateSchedule, SamplerFactory, ScoreBlock,
};
use pbg_train::NegativeStrategy;
use pbg_wasm::{LoadedLoss, LoadedPlugin, PluginSlot};
use serde_json::{Map, Value};

use crate::failure::Result;

/// Creates a bucket order with its configured parameters.
pub(super) fn order(plugin: LoadedPlugin, config: &Config) -> Result<Box<dyn BucketOrder>> {
    let parameters = parameters(config, &plugin);
    Ok(Box::new(plugin.into_order(&parameters)?))
}

/// Creates a sampler with its configured parameters.
pub(super) fn sampler(plugin: LoadedPlugin, config: &Config) -> Result<Box<dyn SamplerFactory>> {
    let parameters = parameters(config, &plugin);
    Ok(Box::new(plugin.into_sampler(&parameters)?))
}

/// Creates a negative sampler with its configured parameters.
pub(super) fn negatives(plugin: LoadedPlugin, config: &Config) -> Result<Box<dyn NegativeSampler>> {
    let parameters = parameters(config, &plugin);
    Ok(Box::new(plugin.into_negatives(&parameters)?))
}

/// Creates a negative sampler or selector with its configured parameters.
pub(super) fn negative_strategy(plugin: LoadedPlugin, config: &Config) -> Result<NegativeStrategy> {
    if plugin.inspection().kind != PluginSlot::NegativeSelector {
        return negatives(plugin, config).map(NegativeStrategy::Distribution);
    }
    let parameters = parameters(config, &plugin);
    let selector = plugin.into_selector(&parameters)?;
    Ok(NegativeStrategy::Selection(Arc::new(selector)))
}

/// Creates a learning rate schedule with its configured parameters.
pub(super) fn schedule(plugin: LoadedPlugin, config: &Config) -> Result<Box<dyn RateSchedule>> {
    let parameters = parameters(config, &plugin);
    Ok(Box::new(plugin.into_schedule(&parameters)?))
}

/// Creates a loss with its configured parameters. Warnings are added to `warnings`.
pub(super) fn loss(
    plugin: LoadedPlugin,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Box<dyn Loss>> {
    let parameters = loss_parameters(config, &plugin, warnings);
    Ok(match plugin.into_loss(&parameters)? {
        LoadedLoss::Traced(graph) => pbg_train::traced(graph),
        LoadedLoss::Computed(code) => Box::new(code),
    })
}

/// Returns a warning if a formula does not suit the configured comparator. A loss that computes in the guest is not
/// checked, since its log would show the call.
pub(super) fn cosine_warning(loss: &dyn Loss, config: &Config) -> Option<String> {
    let formula = loss.worker().formula().is_some();
    let odd = formula && config.comparator == Comparator::Cos.name() && stays_large(loss);
    odd.then(|| {
        format!(
            "loss_fn: {} with comparator cos: scores stay within -1 to 1, so the loss cannot get small; use comparator \
             dot",
            loss.id().name
        )
    })
}

/// Whether the best scores between -1 and 1 leave more than a third of the loss of equal scores. A loss that fails here
/// reports the failure when it is trained.
fn stays_large(loss: &dyn Loss) -> bool {
    let mut losses = [0.0; 2];
    let evaluated = loss.worker().evaluate(&mut ScoreBlock {
        positive: &[1.0, 0.0],
        negative: &mut [-1.0, 0.0],
        columns: 1,
        positive_gradient: &mut [0.0; 2],
        loss: &mut losses,
    });
    let [best, equal] = losses;
    evaluated.is_ok() && 3.0 * best > equal
}

/// Returns the configured parameters of `plugin`.
pub(super) fn parameters(config: &Config, plugin: &LoadedPlugin) -> Value {
    let given = config.plugins.params.get(&plugin.id().name);
    Map::from_iter(given.cloned().into_iter().flatten()).into()
}

/// Returns the configured parameters of the loss, including PBG's key `margin`.
fn loss_parameters(config: &Config, plugin: &LoadedPlugin, warnings: &mut Vec<String>) -> Value {
    const MARGIN: &str = "margin";
    let mut given = parameters(config, plugin);
    let (Some(margin), Some(object)) = (config.margin, given.as_object_mut()) else {
        return given;
    };
    let mut declared = plugin.inspection().metadata.parameters.iter();
    if declared.any(|parameter| parameter.name == MARGIN) {
        // The decimal value is used: 0.1 and not the f64 nearest to its f32.
        let written = margin.to_string().parse().unwrap_or(f64::from(margin));
        object.entry(MARGIN).or_insert(written.into());
    } else {
        warnings.push(format!(
            "margin: the loss {} has no such parameter",
            plugin.id()
        ));
    }
    given
}
