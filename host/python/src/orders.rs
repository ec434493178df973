//! Comparison of bucket orders without training.

use std::collections::BTreeMap;

use pbg_core::graph::Bucket;
use pbg_lab::analysis::Analysis;
use pbg_lab::comparison::{NamedOrder, OrderComparison, compare};
use pbg_lab::grid::GraphSizes;
use pbg_lab::stall::DeviceRates;
use pbg_lab::structure::cell;
use pbg_model::ResolvedConfig;
use pbg_session::orders::{OrderLoader, OrderSpec, parse_order};
use pbg_session::{Failure, FailureKind, Result};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::{self, Config};
use crate::errors::usage;
use crate::front::work;
use crate::function::FunctionOrder;

/// Orders and grid of a comparison, in the JSON form of the package.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    orders: Vec<Order>,
    partitions: Option<u32>,
    rhs_partitions: Option<u32>,
    buffer: Option<u32>,
    seeds: Vec<u64>,
    machines: Vec<u32>,
    entities: Option<u64>,
    edges: Option<u64>,
    dimension: Option<u64>,
    edges_per_second: Option<f64>,
    read_bytes_per_second: Option<f64>,
    write_bytes_per_second: Option<f64>,
}

/// An order: its name as on the command line, and parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    name: String,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
}

impl Order {
    fn wanted(self) -> Result<OrderSpec> {
        let mut wanted = parse_order(&self.name).map_err(usage)?;
        wanted.parameters.extend(self.parameters);
        Ok(wanted)
    }
}

impl Setting {
    fn rates(&self) -> DeviceRates {
        let usual = DeviceRates::default();
        DeviceRates {
            edges: self.edges_per_second.unwrap_or(usual.edges),
            read: self.read_bytes_per_second.unwrap_or(usual.read),
            write: self.write_bytes_per_second.unwrap_or(usual.write),
        }
    }

    /// Returns the first pass of a configuration, or a pass over a grid of these sizes; one for each seed.
    fn passes(&self, config: Option<&Config>) -> Result<Vec<(u64, pbg_core::strategy::Pass)>> {
        let seeds = self.seeds.iter().copied();
        if let Some(config) = config {
            let resolved = ResolvedConfig::new(config.config.clone())?;
            let pass = |seed| {
                let buffer = self.buffer.unwrap_or(config.config.buffer_partitions);
                let changed = resolved.with(|c| (c.seed, c.buffer_partitions) = (seed, buffer))?;
                Ok((seed, pbg_train::first_pass(&changed)?))
            };
            return seeds.map(pass).collect();
        }
        let partitions = self.partitions.unwrap_or(1);
        let grid = [partitions, self.rhs_partitions.unwrap_or(partitions)];
        pbg_train::require_plans(grid, self.seeds.len() as u64)?;
        let buffer = self.buffer.unwrap_or((partitions / 4).max(2));
        let usual = GraphSizes::default();
        let sizes = GraphSizes {
            skew: usual.skew,
            entities: self.entities.unwrap_or(usual.entities),
            edges: self.edges.unwrap_or(usual.edges),
            dimension: self.dimension.unwrap_or(usual.dimension),
        };
        let pass = |seed| sizes.pass(partitions, self.rhs_partitions, buffer, seed);
        Ok(seeds.map(|seed| (seed, pass(seed))).collect())
    }
}

/// Compares orders on a configuration or on a grid; setting and comparison are JSON.
#[pyfunction]
pub(crate) fn compare_orders(
    py: Python<'_>,
    config: Option<&Config>,
    setting: &str,
    functions: Vec<Bound<'_, FunctionOrder>>,
) -> PyResult<String> {
    let functions = functions.iter().map(Bound::get);
    let functions = functions.map(|f| (f.name().to_owned(), Ok(f.order(py))));
    let functions: Vec<NamedOrder> = functions.collect();
    work(py, |front| {
        let mut setting: Setting = serde_json::from_str(setting).map_err(usage)?;
        let rates = setting.rates();
        let wanted = std::mem::take(&mut setting.orders).into_iter();
        let wanted: Vec<OrderSpec> = wanted.map(Order::wanted).collect::<Result<_>>()?;
        let own = config.map(|config| config.config.clone());
        let loader = OrderLoader::new(own, rates, front)?;
        let passes = setting.passes(config)?;
        let named = wanted
            .iter()
            .map(|wanted| Ok((wanted.label.clone(), Ok(loader.load(wanted)?))));
        let mut orders: Vec<NamedOrder> = named.collect::<Result<_>>()?;
        orders.extend(functions);
        // By default, all standard orders are compared.
        if orders.is_empty() {
            orders = loader.orders(&[]);
        }
        let case = compare(&mut orders, &passes, &rates, &setting.machines, &mut |_| ());
        let cases = case.into_iter().collect();
        config::json(&OrderComparison { rates, cases })
    })
}

/// Returns the plan of one order with its analysis; setting and plan are JSON.
#[pyfunction]
pub(crate) fn plan_order(
    py: Python<'_>,
    config: Option<&Config>,
    setting: &str,
    function: Option<&FunctionOrder>,
) -> PyResult<String> {
    let function = function.map(|function| function.order(py));
    work(py, |front| {
        let mut setting: Setting = serde_json::from_str(setting).map_err(usage)?;
        let rates = setting.rates();
        let own = config.map(|config| config.config.clone());
        let mut order = match (function, setting.orders.pop()) {
            (Some(function), _) => function,
            (None, Some(wanted)) => OrderLoader::new(own, rates, front)?.load(&wanted.wanted()?)?,
            (None, None) => return Err(usage("no order is named")),
        };
        let passes = setting.passes(config)?;
        let Some((_, pass)) = passes.first() else {
            return Err(usage("no seed is named"));
        };
        let plan = order
            .plan(pass)
            .map_err(|error| Failure::new(FailureKind::Plugin, error))?;
        let analysis = Analysis::new(pass, &plan, &rates);
        let edges = |&bucket: &Bucket| pass.edges.get(cell(pass, bucket)).copied().unwrap_or(0);
        let buckets = plan
            .iter()
            .map(|b| [u64::from(b.lhs), u64::from(b.rhs), edges(b)]);
        let buckets: Vec<_> = buckets.collect();
        config::json(&json!({ "plan": buckets, "analysis": analysis }))
    })
}
