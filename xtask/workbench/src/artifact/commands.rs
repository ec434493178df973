//! Commands of `pbg-host`, and what they print.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use xtask::repo::Repo;

/// Longest time that a command may take. The whole study takes 30 minutes on two cores.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Returns the program with the words of `arguments`.
pub(super) fn pbg_host(repo: &Repo, arguments: &str) -> Command {
    let mut command = repo.run_program();
    command.current_dir(&repo.root);
    command.args(arguments.split_whitespace());
    command
}

/// Runs the program and returns what it prints.
///
/// # Errors
/// When it fails, or takes longer than [`LONGEST`]; it is then ended.
pub(super) fn printed(command: &mut Command) -> Result<String> {
    printed_within(command, LONGEST)
}

fn printed_within(command: &mut Command, longest: Duration) -> Result<String> {
    let arguments: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let shown = format!("pbg-host {}", arguments.join(" "));
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = piped
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let said = child.stdout.take().map(read_aside);
    let told = child.stderr.take().map(read_aside);
    let (said, told) = said.zip(told).context("a pipe is missing")?;
    // The pipe ends when the program does.
    let Ok(said) = said.recv_timeout(longest) else {
        let _gone = child.kill();
        child.wait()?;
        bail!(
            "`{shown}` took longer than {} minutes and was ended\nwhat to do: run it alone; on a busy machine, make the \
             parts one by one with `--only`",
            longest.as_secs().div_ceil(60)
        );
    };
    let status = child.wait()?;
    if !status.success() {
        let told = told.recv().unwrap_or_default();
        bail!("`{shown}` failed ({status})\n{}", told.trim());
    }
    Ok(said)
}

/// Reads a pipe to its end on a thread.
fn read_aside(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sent, received) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _partial = pipe.read_to_end(&mut bytes);
        // Nobody waits for it any more if the program took too long.
        let _unheard = sent.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    received
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let mut quick = Command::new("echo");
        assert_eq!(
            printed_within(quick.arg("here"), LONGEST).unwrap(),
            "here\n"
        );
        let mut wrong = Command::new("ls");
        let error = printed_within(wrong.arg("/no/such/file"), LONGEST).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
        let mut endless = Command::new("sleep");
        let error = printed_within(endless.arg("600"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("took longer"), "{error}");
    }
}
