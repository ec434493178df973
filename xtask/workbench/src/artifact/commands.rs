//! Commands of `pbg-host`, and what they print.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use xtask::repo::Repo;
use xtask::step;

/// Returns the program with the words of `arguments`.
pub(super) fn pbg_host(repo: &Repo, arguments: &str) -> Command {
    let mut command = repo.run_program();
    command.current_dir(&repo.root);
    command.args(arguments.split_whitespace());
    command
}

/// Runs the program and returns what it prints.
pub(super) fn printed(command: &mut Command) -> Result<String> {
    step::output(command, "see the message above")
}

/// Orders of one case of a comparison.
pub(super) struct ComparedCase(Value);

/// Compares orders on one grid with one buffer.
pub(super) fn compared(repo: &Repo, folder: &Path, arguments: &str) -> Result<ComparedCase> {
    let path = folder.join("compared.json");
    let mut command = pbg_host(repo, &format!("orders compare {arguments}"));
    printed(command.arg("--json").arg(&path))?;
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let json: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a comparison", path.display()))?;
    Ok(ComparedCase(json["cases"][0].clone()))
}

impl ComparedCase {
    /// Returns the names of the orders.
    pub(super) fn orders(&self) -> Vec<String> {
        let orders = self.0["orders"].as_array().into_iter().flatten();
        orders
            .filter_map(|order| order["order"].as_str())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the lower bound of the swaps.
    pub(super) fn lower_bound(&self) -> Result<u64> {
        self.0["lower_bound"]
            .as_u64()
            .context("the comparison has no lower bound")
    }

    /// Returns the mean over the seeds of a figure of an order.
    pub(super) fn mean(&self, order: &str, figure: &str) -> Result<f64> {
        self.mean_of(order, |seed| seed[figure].as_f64())
            .with_context(|| format!("the comparison has no {figure} of {order}"))
    }

    /// The same for a figure of a simulation of several trainers.
    pub(super) fn mean_together(&self, order: &str, trainers: u64, figure: &str) -> Result<f64> {
        let of = |seed: &Value| {
            let mut costs = seed["together"].as_array()?.iter();
            costs.find(|cost| cost["trainers"].as_u64() == Some(trainers))?[figure].as_f64()
        };
        self.mean_of(order, of).with_context(|| {
            format!("the comparison has no {figure} of {order} with {trainers} trainers")
        })
    }

    fn mean_of(&self, order: &str, figure: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
        let mut orders = self.0["orders"].as_array()?.iter();
        let order = orders.find(|entry| entry["order"] == order)?;
        let seeds = order["seeds"].as_array()?;
        let figures: Vec<f64> = seeds.iter().map(figure).collect::<Option<_>>()?;
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    }
}
