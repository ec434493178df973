//! Assignment of plugins to the slots of a run, and of the fallbacks that replace them when they fail.

use std::collections::BTreeSet;

use pbg_config::{
    Config, DEFAULT_LOSS, DEFAULT_NEGATIVES, DEFAULT_ORDER, DEFAULT_SAMPLER, OnFault,
};
use pbg_core::nearest::nearest;
use pbg_core::strategy::{BucketOrder, Loss, StrategyId};
use pbg_wasm::{LoadedPlugin, PluginPath, PluginSlot, Sandbox};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::plugins::StrategyOverrides;

/// Source of plugins: the search path for their files, and the sandbox that opens them.
pub(super) struct PluginSources {
    pub(super) path: PluginPath,
    pub(super) sandbox: Sandbox,
}

impl PluginSources {
    /// Opens a plugin that may be of any kind.
    fn open(&self, name: &str) -> Result<LoadedPlugin> {
        Ok(self.sandbox.open(self.path.resolve(name)?)?)
    }

    /// Opens a plugin that is to fill `slot`.
    fn open_for(&self, name: &str, slot: PluginSlot) -> Result<LoadedPlugin> {
        Ok(self.sandbox.open(self.path.resolve_for(name, slot)?)?)
    }
}

/// Occupant of a slot.
pub(super) enum Occupant<T> {
    Plugin(Box<LoadedPlugin>),
    /// A strategy that is not a component.
    Own(StrategyId, T),
}

impl<T> Occupant<T> {
    fn plugin(&self) -> Option<&LoadedPlugin> {
        match self {
            Self::Plugin(plugin) => Some(plugin),
            Self::Own(..) => None,
        }
    }

    fn id(&self) -> StrategyId {
        match self {
            Self::Plugin(plugin) => plugin.id(),
            Self::Own(id, _) => id.clone(),
        }
    }
}

/// Occupants of a run's slots.
pub(super) struct Slots {
    pub(super) order: Occupant<Box<dyn BucketOrder>>,
    pub(super) sampler: LoadedPlugin,
    pub(super) negatives: LoadedPlugin,
    /// Learning rate schedule, if it is a plugin.
    pub(super) schedule: Option<LoadedPlugin>,
    pub(super) loss: Occupant<Box<dyn Loss>>,
}

impl Slots {
    /// Returns the strategies that `given` contains or names, and those of `config` for the remaining slots.
    ///
    /// # Errors
    /// When a plugin cannot be opened, fits no slot, or its slot is taken already.
    pub(super) fn new(
        source: &PluginSources,
        config: &Config,
        given: StrategyOverrides<'_>,
    ) -> Result<Self> {
        let order = given.order;
        let mut order = order.map(|order| Occupant::Own(order.id().clone(), order));
        let loss = given.loss;
        let mut loss = loss.map(|loss| Occupant::Own(loss.id().clone(), loss));
        let mut sampler: Option<LoadedPlugin> = None;
        let mut negatives: Option<LoadedPlugin> = None;
        for name in given.named {
            let plugin = source.open(name)?;
            match plugin.inspection().kind {
                PluginSlot::BucketOrder => take(&mut order, plugin, name)?,
                PluginSlot::RelationSampler if config.dynamic_relations => {
                    let text = format!(
                        "--plugin {name}: is a relation sampler, which `dynamic_relations` does not use: batches mix \
                         relations"
                    );
                    return Err(Failure::message(FailureKind::Usage, text));
                }
                PluginSlot::RelationSampler => match &sampler {
                    Some(first) => return Err(second(&plugin, &first.id(), name)),
                    None => sampler = Some(plugin),
                },
                PluginSlot::NegativeSampler | PluginSlot::NegativeSelector => match &negatives {
                    Some(first) => return Err(second(&plugin, &first.id(), name)),
                    None => negatives = Some(plugin),
                },
                PluginSlot::TracedLoss | PluginSlot::ComputedLoss => take(&mut loss, plugin, name)?,
                other => {
                    let text =
                        format!("plugin {name}: is a {other}, for which a run has no slot yet");
                    return Err(Failure::message(FailureKind::Plugin, text));
                }
            }
        }
        Ok(Self {
            order: match order {
                Some(order) => order,
                None => Occupant::Plugin(Box::new(
                    source.open_for(&config.bucket_order, PluginSlot::BucketOrder)?,
                )),
            },
            sampler: match sampler {
                Some(sampler) => sampler,
                None => source.open_for(&config.relation_sampler, PluginSlot::RelationSampler)?,
            },
            negatives: match negatives {
                Some(negatives) => negatives,
                None => source.open_for(&config.negative_sampler, PluginSlot::NegativeSampler)?,
            },
            schedule: match config.lr_schedule.plugin() {
                Some(name) => Some(source.open_for(name, PluginSlot::RateSchedule)?),
                None => None,
            },
            loss: match loss {
                Some(loss) => loss,
                None => Occupant::Plugin(Box::new(
                    source.open_for(&config.loss_fn, PluginSlot::TracedLoss)?,
                )),
            },
        })
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        let ids = [
            self.order.id(),
            self.sampler.id(),
            self.negatives.id(),
            self.loss.id(),
        ];
        let schedule = self.schedule.iter().map(LoadedPlugin::id);
        let ids = ids.into_iter().chain(schedule);
        ids.map(|id| id.name).collect()
    }
}

fn take<T>(slot: &mut Option<Occupant<T>>, plugin: LoadedPlugin, name: &str) -> Result<()> {
    match slot {
        Some(first) => Err(second(&plugin, &first.id(), name)),
        None => {
            *slot = Some(Occupant::Plugin(Box::new(plugin)));
            Ok(())
        }
    }
}

/// Returns the failure that a slot is given twice.
fn second(plugin: &LoadedPlugin, first: &StrategyId, name: &str) -> Failure {
    let role = plugin.inspection().kind.role();
    let text = format!("--plugin {name}: a run has only one {role}, and {first} is already given");
    Failure::message(FailureKind::Usage, text)
}

/// Fallback of each slot, if there is one.
#[derive(Default)]
pub(super) struct FallbackPlugins {
    pub(super) order: Option<LoadedPlugin>,
    pub(super) sampler: Option<LoadedPlugin>,
    pub(super) negatives: Option<LoadedPlugin>,
    pub(super) loss: Option<LoadedPlugin>,
}

impl FallbackPlugins {
    /// Opens the fallbacks of `used`, if `config` enables fallbacks.
    ///
    /// # Errors
    /// When a fallback that a plugin names cannot be opened, or is of another kind.
    pub(super) fn new(source: &PluginSources, config: &Config, used: &Slots) -> Result<Self> {
        match config.plugins.on_fault {
            OnFault::End => Ok(Self::default()),
            OnFault::Fallback => Ok(Self {
                order: standby(source, used.order.plugin(), DEFAULT_ORDER)?,
                sampler: standby(source, Some(&used.sampler), DEFAULT_SAMPLER)?,
                negatives: standby(source, Some(&used.negatives), DEFAULT_NEGATIVES)?,
                loss: standby(source, used.loss.plugin(), DEFAULT_LOSS)?,
            }),
        }
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        let plugins = [&self.order, &self.sampler, &self.negatives, &self.loss].into_iter();
        plugins.flatten().map(|plugin| plugin.id().name).collect()
    }
}

/// Opens the fallback that `used` names, or else the default of its key; `None` if that is the plugin itself. Without a
/// plugin, opens the default.
fn standby(
    source: &PluginSources,
    used: Option<&LoadedPlugin>,
    default: &str,
) -> Result<Option<LoadedPlugin>> {
    let Some(used) = used else {
        return source.open(default).map(Some);
    };
    let named = used.inspection().metadata.fallback.as_deref();
    let opened = source.open_for(named.unwrap_or(default), used.inspection().kind);
    let standby = opened.map_err(|failure| match named {
        Some(_) => failure.context(format!("the fallback that {} names", used.id())),
        None => failure,
    })?;
    let kind = standby.inspection().kind;
    let wanted = match used.inspection().kind {
        // Only a distribution can replace a selector: negatives of the bucket in training go on as uniform draws.
        PluginSlot::NegativeSelector => PluginSlot::NegativeSampler,
        other => other,
    };
    if kind.role() != wanted.role() || kind == PluginSlot::NegativeSelector {
        let (names, id) = (used.id(), standby.id());
        let text = format!("the fallback that {names} names: {id} is a {kind}, not a {wanted}");
        return Err(Failure::message(FailureKind::Plugin, text));
    }
    Ok(Some(standby).filter(|standby| standby.id() != used.id()))
}

/// Returns warnings about configuration entries for plugins that are not used, or only as fallbacks.
///
/// # Errors
/// When an entry is a pin, because the pinned plugin does not run, or sets parameters of a name that no plugin has.
pub(super) fn unused(
    config: &Config,
    used: &BTreeSet<String>,
    standbys: &BTreeSet<String>,
    installed: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let plugins = &config.plugins;
    let known = |name: &String| used.contains(name) || standbys.contains(name);
    if let Some(pin) = plugins.pins.iter().find(|pin| !known(&pin.plugin)) {
        let name = &pin.plugin;
        let text =
            format!("plugins.pins: {name} is pinned, but this run uses no plugin of that name");
        let help = format!(
            "it uses {}",
            used.iter().cloned().collect::<Vec<_>>().join(", ")
        );
        return Err(Failure::message(FailureKind::Config, text).help(help));
    }
    let exists = |name: &String| known(name) || installed.contains(name);
    if let Some(name) = plugins.params.keys().find(|name| !exists(name)) {
        let text = format!(
            "plugins.params: {name} is not a plugin of this run, and no plugin of that name is installed"
        );
        let names = used.iter().chain(installed).map(String::as_str);
        let failure = Failure::message(FailureKind::Config, text);
        return Err(match nearest(name, names) {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None => failure,
        });
    }
    let params = plugins.params.keys().map(|name| ("plugins.params", name));
    let grants = plugins
        .grants
        .iter()
        .map(|grant| ("plugins.grants", &grant.plugin));
    Ok(params
        .chain(grants)
        .filter(|(_, name)| !used.contains(*name))
        .map(|(key, name)| match standbys.contains(name) {
            true => format!("{key}: {name} is used only if another plugin fails"),
            false => format!("{key}: {name} is not a plugin of this run"),
        })
        .collect())
}
