//! Bucket orders to compare: standard ones or files, with parameters.

use std::collections::BTreeMap;
use std::path::Path;

use pbg_config::Config;
use pbg_core::strategy::BucketOrder;
use pbg_lab::comparison::NamedOrder;
use pbg_lab::stall::DeviceRates;
use pbg_wasm::{Limits, LoadedPlugin, PluginSlot, PluginSource, Sandbox, standard_plugins};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::front::FrontEnd;
use crate::kind::FailureKind;
use crate::plugins;

/// Bucket order as the command line names it: `beta`, `my_order.wasm`, `beta:assignment=random`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderSpec {
    /// Text as it was written.
    pub label: String,
    /// Name or file.
    pub plugin: String,
    /// Parameters.
    pub parameters: BTreeMap<String, Value>,
}

/// Parses `NAME|FILE[:KEY=VALUE,...]`. A URL is returned whole: no order is loaded from one, and the loader says so.
pub fn parse_order(text: &str) -> Result<OrderSpec, String> {
    let whole = |plugin: &str| OrderSpec {
        label: text.to_owned(),
        plugin: plugin.to_owned(),
        parameters: BTreeMap::new(),
    };
    let parts = text.split_once(':').filter(|_| !Path::new(text).exists());
    let Some((plugin, list)) = parts.filter(|(_, list)| !list.starts_with("//")) else {
        return Ok(whole(text));
    };
    let mut wanted = whole(plugin);
    for pair in list.split(',') {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("`{pair}` is not KEY=VALUE"))?;
        // A value that is not a number, Boolean or list is a text.
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        wanted.parameters.insert(key.to_owned(), value);
    }
    Ok(wanted)
}

/// Ensures that no order is given twice, since its figures would be those of one order under two rows.
///
/// # Errors
/// When two orders are the same plugin with the same parameters.
pub fn require_distinct(orders: &[OrderSpec]) -> Result<()> {
    for (at, order) in orders.iter().enumerate() {
        let is_same = |other: &&OrderSpec| {
            (&other.plugin, &other.parameters) == (&order.plugin, &order.parameters)
        };
        let Some(first) = orders.iter().take(at).find(is_same) else {
            continue;
        };
        let text = match first.label == order.label {
            true => format!("--order {} is given twice", order.label),
            false => format!(
                "--order {} and --order {} are the same order",
                first.label, order.label
            ),
        };
        let help = "give each order once, with other parameters if you compare them: `beta:assignment=random`";
        return Err(Failure::message(FailureKind::Usage, text).help(help));
    }
    Ok(())
}

/// Sets the parameters of the plugin in the configuration.
///
/// # Errors
/// When the plugin cannot be loaded, so that its name is not known.
pub fn set_parameters(config: &mut Config, wanted: &OrderSpec, front: &dyn FrontEnd) -> Result<()> {
    if wanted.parameters.is_empty() {
        return Ok(());
    }
    let sandbox = plugins::sandbox(config, None, front)?;
    let name = open(&sandbox, wanted)?.id().name;
    let parameters = config.plugins.params.entry(name).or_default();
    parameters.extend(wanted.parameters.clone());
    Ok(())
}

/// Opens the plugin of an order, which may be in the folders of the user's own plugins.
fn open(sandbox: &Sandbox, wanted: &OrderSpec) -> Result<LoadedPlugin> {
    let source = plugins::search_path().resolve_for(&wanted.plugin, PluginSlot::BucketOrder)?;
    Ok(sandbox.open(source)?)
}

/// Loader of bucket orders.
pub struct OrderLoader {
    sandbox: Sandbox,
    config: Option<Config>,
    rates: DeviceRates,
}

impl OrderLoader {
    /// Creates a loader with the limits and parameters of `config`, if there is one. Orders with parameters for rates
    /// receive those that stalls are predicted for, unless others are set.
    ///
    /// # Errors
    /// When the machine does not support the sandbox.
    pub fn new(config: Option<Config>, rates: DeviceRates, front: &dyn FrontEnd) -> Result<Self> {
        Self::with_limits(config, Limits::default(), rates, front)
    }

    /// Creates a loader as [`OrderLoader::new`] does, with `limits` if there is no configuration.
    ///
    /// # Errors
    /// As for [`OrderLoader::new`].
    pub fn with_limits(
        config: Option<Config>,
        limits: Limits,
        rates: DeviceRates,
        front: &dyn FrontEnd,
    ) -> Result<Self> {
        let sandbox = match &config {
            Some(config) => plugins::sandbox(config, None, front)?,
            None => plugins::cached(limits, front)?,
        };
        let log = front.plugin_detail();
        Ok(Self {
            sandbox: sandbox.with_log(log),
            config,
            rates,
        })
    }

    /// Loads a bucket order.
    ///
    /// # Errors
    /// When it cannot be loaded, is not a bucket order, or refuses its parameters.
    pub fn load(&self, wanted: &OrderSpec) -> Result<Box<dyn BucketOrder>> {
        let plugin = open(&self.sandbox, wanted)?;
        self.configure(plugin, wanted)
    }

    fn configure(&self, plugin: LoadedPlugin, wanted: &OrderSpec) -> Result<Box<dyn BucketOrder>> {
        let kind = plugin.inspection().kind;
        if kind != PluginSlot::BucketOrder {
            let text = format!("{}: is a {kind}, not a bucket order", wanted.label);
            return Err(Failure::message(FailureKind::Plugin, text));
        }
        let declared = &plugin.inspection().metadata.parameters;
        let rates = [
            ("read_bytes_per_second", self.rates.read),
            ("write_bytes_per_second", self.rates.write),
            ("edges_per_second", self.rates.edges),
        ];
        let mut parameters: Map<String, Value> = rates
            .into_iter()
            .filter(|(name, _)| declared.iter().any(|parameter| parameter.name == *name))
            .map(|(name, rate)| (name.to_owned(), rate.into()))
            .collect();
        let configured = self.config.as_ref();
        let configured = configured.and_then(|c| c.plugins.params.get(&plugin.id().name));
        parameters.extend(configured.cloned().into_iter().flatten());
        parameters.extend(wanted.parameters.clone());
        Ok(Box::new(plugin.into_order(&parameters.into())?))
    }

    /// Returns the requested orders, in the same sequence; without any, all standard orders. For an order that cannot
    /// be loaded, returns the reason instead.
    pub fn orders(&self, wanted: &[OrderSpec]) -> Vec<NamedOrder> {
        if wanted.is_empty() {
            return self.standard();
        }
        let load = |wanted: &OrderSpec| {
            let order = self.load(wanted).map_err(|failure| reason(&failure));
            (wanted.label.clone(), order)
        };
        wanted.iter().map(load).collect()
    }

    /// Returns all standard orders except those that read files, which need a grant and a file.
    fn standard(&self) -> Vec<NamedOrder> {
        let mut orders = Vec::new();
        for standard in standard_plugins()
            .iter()
            .filter(|s| s.kind == PluginSlot::BucketOrder)
        {
            let wanted = OrderSpec {
                label: standard.name.to_owned(),
                plugin: standard.name.to_owned(),
                parameters: BTreeMap::new(),
            };
            let order = match self.sandbox.open(PluginSource::Standard(standard)) {
                Ok(plugin) if reads_files(&plugin) => continue,
                Ok(plugin) => self.configure(plugin, &wanted),
                Err(error) => Err(error.into()),
            };
            let order = order.map_err(|failure| reason(&failure));
            orders.push((wanted.label, order));
        }
        orders
    }
}

fn reads_files(plugin: &LoadedPlugin) -> bool {
    let mut imports = plugin.inspection().imports.iter();
    imports.any(|import| import.contains("/files"))
}

/// Joins the lines of a failure.
fn reason(failure: &Failure) -> String {
    let lines = failure.lines().into_iter().map(|(_, text)| text);
    lines.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_with_parameters() {
        let order = parse_order("beta:assignment=random,levels=2").unwrap();
        assert_eq!(order.plugin, "beta");
        assert_eq!(order.parameters["assignment"], Value::from("random"));
        assert_eq!(order.parameters["levels"], Value::from(2));
        assert_eq!(parse_order("dir/my.wasm").unwrap().plugin, "dir/my.wasm");
        assert!(parse_order("beta:assignment").is_err());
    }

    #[test]
    fn a_url_is_no_name_with_parameters() {
        for url in [
            "oci://ghcr.io/me/mine:1.0",
            "https://a.b/c.wasm",
            "s3://a/b:levels=2",
        ] {
            assert_eq!(parse_order(url).unwrap().plugin, url);
        }
        let order = parse_order("from_file:path=s3://a/b").unwrap();
        assert_eq!(order.plugin, "from_file");
        assert_eq!(order.parameters["path"], Value::from("s3://a/b"));
    }
}
