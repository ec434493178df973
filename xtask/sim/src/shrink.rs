//! Finds a simpler run that violates something too: with fewer kinds of faults, and a shorter time of disturbances.

use anyhow::Result;
use pbg_sim::{SimFault, SimOptions, SimOutcome};

/// Number of times that the time of disturbances is halved.
const HALVINGS: usize = 6;

/// Returns options whose run violates something as well, after leaving out what is not needed for that. `outcome` is
/// that of `options`.
///
/// # Errors
/// When a run cannot be simulated.
pub(crate) fn shrink(
    options: &SimOptions,
    outcome: &SimOutcome,
    simulate: impl Fn(&SimOptions) -> Result<SimOutcome>,
) -> Result<SimOptions> {
    let (mut smallest, mut disturbed) = (options.clone(), outcome.disturbed);
    for _ in 0..HALVINGS {
        let mut shorter = smallest.clone();
        shorter.disturbed = Some(disturbed / 2);
        if simulate(&shorter)?.violation.is_none() {
            break;
        }
        (smallest, disturbed) = (shorter, disturbed / 2);
    }
    for fault in SimFault::ALL {
        let mut simpler = smallest.clone();
        if simpler.without.insert(fault) && simulate(&simpler)?.violation.is_some() {
            smallest = simpler;
        }
    }
    Ok(smallest)
}

/// Returns the command that shows the run of `options`.
pub(crate) fn command(options: &SimOptions) -> String {
    let without: Vec<String> = options.without.iter().map(SimFault::to_string).collect();
    let mut command = format!(
        "cargo run --release -p xtask-sim -- --seed {} --verbose",
        options.seed
    );
    if !without.is_empty() {
        command += &format!(" --without {}", without.join(","));
    }
    if let Some(disturbed) = options.disturbed {
        command += &format!(" --disturbed {}", disturbed.as_secs_f64());
    }
    command
}
