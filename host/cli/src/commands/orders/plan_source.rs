//! Settings that orders plan for: grids, buffers, sizes and rates.

use std::path::Path;

use pbg_config::Config;
use pbg_core::strategy::Pass;
use pbg_lab::grid::{GraphSizes, Skew};
use pbg_lab::stall::DeviceRates;
use pbg_model::ResolvedConfig;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::load;
use crate::options::{ConfigArgs, OverrideArgs};
use crate::terminal::Terminal;
use pbg_session::orders::OrderLoader;

/// Maximum number of partitions of a side; plugins cannot plan for more buckets.
const MAX_PARTITIONS: i64 = 4096;

/// Maximum exponent of the shares of partitions: beyond it, the first one has nearly everything.
const MAX_SKEW: f64 = 10.0;

/// Options of a grid without a dataset.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "A grid without a dataset")]
pub(super) struct GridArgs {
    /// Number of partitions; several numbers are compared one after the other.
    #[arg(long, short, value_name = "P,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MAX_PARTITIONS))]
    pub(super) partitions: Vec<u32>,
    /// Number of partitions of the right side, which then has different entities, as in a graph of users and items.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u32).range(1..=MAX_PARTITIONS))]
    pub(super) rhs_partitions: Option<u32>,
    /// Number of entities, over all partitions [default: as in Freebase86m].
    #[arg(long, value_name = "N")]
    pub(super) entities: Option<u64>,
    /// Number of edges, over all buckets [default: as in Freebase86m].
    #[arg(long, value_name = "N")]
    pub(super) edges: Option<u64>,
    /// Inequality of the buckets: partition `k` of either side, from 1, has edges in proportion to `k^-S`, so the first
    /// bucket has the most. 0: all have the same number.
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = exponent)]
    pub(super) skew: f64,
    /// Inequality of the partitions: partition `k` has entities in proportion to `k^-S`.
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = exponent)]
    pub(super) entity_skew: f64,
    /// Numbers per embedding [default: 100].
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) dimension: Option<u64>,
}

/// Speeds of training and of the disk.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Rates for the prediction of stalls")]
pub(super) struct RateArgs {
    /// Edges trained per second.
    #[arg(long, value_name = "N", default_value_t = 400_000.0, value_parser = positive)]
    edges_per_second: f64,
    /// Megabytes (10^6 bytes) that the disk reads per second.
    #[arg(long, value_name = "MB", default_value_t = 400.0, value_parser = positive)]
    read_mbps: f64,
    /// Megabytes that the disk writes per second.
    #[arg(long, value_name = "MB", default_value_t = 400.0, value_parser = positive)]
    write_mbps: f64,
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=MAX_SKEW).contains(&number) => Ok(number),
        _ => Err(format!("not a number between 0 and {MAX_SKEW}")),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("not a positive number".to_owned()),
    }
}

impl RateArgs {
    /// Returns the rates in edges and bytes per second.
    pub(super) fn rates(&self) -> DeviceRates {
        DeviceRates {
            edges: self.edges_per_second,
            read: self.read_mbps * 1e6,
            write: self.write_mbps * 1e6,
        }
    }
}

impl GridArgs {
    fn sizes(&self) -> GraphSizes {
        let freebase = GraphSizes::default();
        GraphSizes {
            entities: self.entities.unwrap_or(freebase.entities),
            edges: self.edges.unwrap_or(freebase.edges),
            dimension: self.dimension.unwrap_or(freebase.dimension),
            skew: Skew {
                edges: self.skew,
                entities: self.entity_skew,
            },
        }
    }

    /// Checks that there is enough memory to plan `passes` passes over a grid of `partitions`.
    fn require(&self, partitions: Option<u32>, passes: u64) -> Result<()> {
        let lhs = partitions.unwrap_or(1);
        let grid = [lhs, self.rhs_partitions.unwrap_or(lhs)];
        Ok(pbg_train::require_plans(grid, passes)?)
    }

    /// Returns the pass over a grid of `partitions`.
    fn pass(&self, partitions: u32, buffer: u32, seed: u64) -> Pass {
        self.sizes()
            .pass(partitions, self.rhs_partitions, buffer, seed)
    }
}

/// Source of passes.
pub(super) enum PassSource {
    /// A configuration and its dataset.
    Config(Box<ResolvedConfig>),
    /// A grid without a dataset.
    Grid(GridArgs),
}

impl PassSource {
    /// Returns the grid if one is given, otherwise the configuration.
    ///
    /// # Errors
    /// When the configuration cannot be read or does not match its dataset, or both are given.
    pub(super) fn new(config: &ConfigArgs, grid: &GridArgs, terminal: Terminal) -> Result<Self> {
        if grid.partitions.is_empty() {
            let GridArgs {
                rhs_partitions,
                entities,
                edges,
                dimension,
                skew,
                entity_skew,
                ..
            } = grid;
            let alone = rhs_partitions.is_some()
                || entities.is_some()
                || edges.is_some()
                || dimension.is_some()
                || *skew > 0.0
                || *entity_skew > 0.0;
            if alone {
                let text = "a grid without a dataset needs --partitions";
                return Err(Failure::message(FailureKind::Usage, text));
            }
            if config.config.is_none() && !Path::new(load::DEFAULT_NAME).exists() {
                let text = "there is neither a configuration nor a grid to plan for";
                let help = "give a configuration, or a grid: --partitions 16 --buffer 4";
                return Err(Failure::message(FailureKind::Usage, text).help(help));
            }
            let resolved = ResolvedConfig::new(load::config(config, terminal)?)?;
            return Ok(Self::Config(Box::new(resolved)));
        }
        let OverrideArgs { set } = &config.overrides;
        if config.config.is_some() || !set.is_empty() {
            let text = "--partitions cannot be combined with a configuration";
            let help = "the dataset of a configuration defines its grid";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        Ok(Self::Grid(grid.clone()))
    }

    /// Returns the configuration, if there is one.
    pub(super) fn config(&self) -> Option<&Config> {
        match self {
            Self::Config(resolved) => Some(resolved.config()),
            Self::Grid(_) => None,
        }
    }

    /// Returns a loader of orders, with the configuration's settings of plugins and with `limits`.
    ///
    /// # Errors
    /// When a limit is invalid, or the machine does not support the sandbox.
    pub(super) fn loader(
        &self,
        limits: &LimitArgs,
        rates: DeviceRates,
        terminal: &Terminal,
    ) -> Result<OrderLoader> {
        let mut config = self.config().cloned();
        if let Some(config) = &mut config {
            limits.apply(&mut config.plugins.limits)?;
        }
        OrderLoader::with_limits(config, limits.limits()?, rates, terminal)
    }

    /// Returns the default seed.
    pub(super) fn seed(&self) -> u64 {
        self.config().map_or(0, |config| config.seed)
    }

    /// Returns the numbers of partitions of the grids; a single `None` for a configuration.
    pub(super) fn grids(&self) -> Vec<Option<u32>> {
        match self {
            Self::Config(_) => vec![None],
            Self::Grid(grid) => grid.partitions.iter().copied().map(Some).collect(),
        }
    }

    /// Returns the default sizes of the buffer: the configured one, or a quarter of the grid's partitions.
    pub(super) fn buffers(&self, partitions: Option<u32>) -> Vec<u32> {
        match self {
            Self::Config(resolved) => vec![resolved.config().buffer_partitions],
            Self::Grid(_) => vec![(partitions.unwrap_or(2) / 4).max(2)],
        }
    }

    /// Returns the passes of one case, one per seed.
    ///
    /// # Errors
    /// When the dataset cannot be read.
    pub(super) fn passes(
        &self,
        partitions: Option<u32>,
        buffer: u32,
        seeds: u64,
    ) -> Result<Vec<(u64, Pass)>> {
        if let Self::Grid(grid) = self {
            grid.require(partitions, seeds)?;
        }
        let numbers = (0..seeds).map(|n| self.seed().wrapping_add(n));
        numbers
            .map(|seed| Ok((seed, self.pass(partitions, buffer, seed)?)))
            .collect()
    }

    /// Returns the pass with one seed.
    ///
    /// # Errors
    /// When the dataset cannot be read.
    pub(super) fn pass(&self, partitions: Option<u32>, buffer: u32, seed: u64) -> Result<Pass> {
        match self {
            Self::Grid(grid) => {
                grid.require(partitions, 1)?;
                Ok(grid.pass(partitions.unwrap_or(1), buffer, seed))
            }
            Self::Config(resolved) => {
                let resolved = resolved
                    .with(|config| (config.seed, config.buffer_partitions) = (seed, buffer))?;
                Ok(pbg_train::first_pass(&resolved)?)
            }
        }
    }
}
