//! Processor time and memory of other processes, as reported by the system.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Ticks of processor time per second; Linux reports this constant to all programs.
const TICKS: f64 = 100.0;

/// Interval between two measurements of memory.
const SAMPLING_INTERVAL: Duration = Duration::from_millis(100);

/// Resources used by programs.
pub(super) struct ResourceUsage {
    pub(super) cpu_seconds: f64,
    pub(super) seconds: f64,
    /// Peak memory of all programs together.
    pub(super) peak_bytes: u64,
}

/// Runs programs in parallel until all have ended. Their output goes to the files `NAME-0.log`, `NAME-1.log`, ... in
/// `folder`.
pub(super) fn run(
    folder: &Path,
    name: &str,
    commands: impl Iterator<Item = Command>,
) -> Result<ResourceUsage> {
    let before = cpu_seconds_of_ended_children()?;
    let started = Instant::now();
    let mut programs = Vec::new();
    for (rank, mut command) in commands.enumerate() {
        let log = folder.join(format!("{name}-{rank}.log"));
        let out =
            fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let err = out.try_clone().context("cannot share a file")?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        programs.push((child.context("cannot start a program")?, log));
    }
    let ended = AtomicBool::new(false);
    let (results, peak_bytes) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = 0;
            while !ended.load(Ordering::Relaxed) {
                let looking = Instant::now();
                peak = peak.max(bytes_of_descendants());
                // Measuring many large processes is slow, and must not take a core from the measured programs.
                thread::sleep(SAMPLING_INTERVAL.max(20 * looking.elapsed()));
            }
            peak
        });
        let results: Vec<_> = programs
            .iter_mut()
            .map(|(child, log)| wait(child, log))
            .collect();
        ended.store(true, Ordering::Relaxed);
        (results, watch.join().unwrap_or_default())
    });
    results.into_iter().collect::<Result<()>>()?;
    Ok(ResourceUsage {
        cpu_seconds: cpu_seconds_of_ended_children()? - before,
        seconds: started.elapsed().as_secs_f64(),
        peak_bytes,
    })
}

fn wait(child: &mut Child, log: &Path) -> Result<()> {
    let status = child.wait().context("cannot wait for a program")?;
    match status.success() {
        true => Ok(()),
        false => bail!(
            "a program failed ({status})\nwhat to do: read {}",
            log.display()
        ),
    }
}

/// Returns the processor time of ended children, and of the ended children for which those have waited.
pub(super) fn cpu_seconds_of_ended_children() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let fields = fields(&text);
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let ticks = ticks(13).zip(ticks(14)).map(|(user, system)| user + system);
    Ok(ticks.context("/proc/self/stat has no times of children")? / TICKS)
}

/// Returns the memory of all descendants of this process; shared pages count once.
pub(super) fn bytes_of_descendants() -> u64 {
    let mut parents = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        let stat = fs::read_to_string(entry.path().join("stat")).ok();
        if let (Some(pid), Some(stat)) = (pid, stat)
            && let Some(parent) = fields(&stat)
                .get(1)
                .and_then(|field| field.parse::<u32>().ok())
        {
            parents.insert(pid, parent);
        }
    }
    let is_ours = |pid: &u32| {
        let mut at = *pid;
        while let Some(&parent) = parents.get(&at) {
            if parent == process::id() {
                return true;
            }
            at = parent;
        }
        false
    };
    parents
        .keys()
        .filter(|pid| is_ours(pid))
        .map(|pid| proportional_bytes(*pid))
        .sum()
}

/// Returns the fields of a `stat` line after the name, which may contain spaces.
fn fields(stat: &str) -> Vec<&str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().collect()
}

fn proportional_bytes(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1024 * kib.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_take_time_and_memory() {
        let before = cpu_seconds_of_ended_children().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
            .spawn()
            .unwrap();
        assert!(bytes_of_descendants() > 0);
        child.wait().unwrap();
        assert!(cpu_seconds_of_ended_children().unwrap() > before);
    }
}
