//! Counts of instructions: the work of `xtask-guard` under callgrind, compared with the counts in `benches/guard.json`.
//!
//! Counts hardly depend on the machine, unlike times. Valgrind emulates AVX2 but not AVX-512, so all processors with
//! AVX2 take the same code. The compiler and the packages are pinned.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::repo::Repo;
use crate::step;
use crate::threads::join;

/// Package of the program whose instructions are counted.
const PROGRAM: &str = "xtask-guard";
/// File of the recorded counts, in the repository.
const RECORD: &str = "benches/guard.json";
/// Largest difference from the recorded count, in percent.
const TOLERANCE: f64 = 3.0;
const RECORD_AGAIN: &str = "`cargo xtask bench guard --record` writes the new counts";

/// Settings with which the C library copies and fills memory by vectors. With `rep movsb` and `rep stosb`, which it
/// prefers on some processors, every byte would count as an instruction.
const NO_STRING_INSTRUCTIONS: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// Instructions by case.
type Counts = BTreeMap<String, u64>;

/// Counts the instructions of all cases, prints them, and compares them with the recorded ones.
///
/// # Errors
/// When a count differs by more than 3 % from the recorded one, or this machine cannot count.
pub fn run(repo: &Repo, record: bool) -> Result<()> {
    if let Some(reason) = refusal() {
        bail!("{reason}");
    }
    step::announce("building the program whose instructions are counted");
    let mut cargo = repo.cargo("build");
    cargo.args(["--release", "--package", PROGRAM]);
    step::run(&mut cargo, "see the messages above")?;
    count_and_compare(repo, record)
}

/// Counts with the program as it is built, or says why this machine cannot count.
pub(crate) fn test(repo: &Repo) -> Result<()> {
    match refusal() {
        Some(reason) => {
            step::announce(&format!("instructions are not counted: {reason}"));
            Ok(())
        }
        None => count_and_compare(repo, false),
    }
}

/// Returns the reason for which this machine cannot count, if any.
fn refusal() -> Option<&'static str> {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |feature: &str| processor.split_whitespace().any(|word| word == feature);
    if !(has("avx2") && has("fma")) {
        return Some("the counts are those of processors with AVX2 and FMA");
    }
    let valgrind = step::succeeds(Command::new("valgrind").arg("--version"));
    (!valgrind).then_some("valgrind is missing; install the package valgrind")
}

fn count_and_compare(repo: &Repo, record: bool) -> Result<()> {
    let counts = count(repo)?;
    let path = repo.root.join(RECORD);
    if record {
        let text = serde_json::to_string_pretty(&counts)? + "\n";
        fs::write(&path, text).with_context(|| format!("cannot write {RECORD}"))?;
        print(&counts, &counts);
        return Ok(());
    }
    let text = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {RECORD}\nwhat to do: {RECORD_AGAIN}"))?;
    let recorded = serde_json::from_str(&text).with_context(|| RECORD.to_owned())?;
    print(&counts, &recorded);
    let differences = differences(&counts, &recorded);
    ensure!(
        differences.is_empty(),
        "{}\nwhat to do: find out which change of the code causes it (callgrind_annotate shows the functions). If it is \
         worth it, or if fewer instructions are needed than before, {RECORD_AGAIN}",
        differences.join("\n")
    );
    Ok(())
}

/// Counts the instructions of all cases, on all cores.
fn count(repo: &Repo) -> Result<Counts> {
    let program = repo.target.join("release").join(PROGRAM);
    let folder = repo.target.join("guard");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let hint = "see the message above";
    let list = step::output(Command::new(&program).arg("list"), hint)?;
    step::output(Command::new(&program).arg("prepare").arg(&folder), hint)?;
    let cases: Vec<&str> = list.lines().collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut counts = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            counts.push(((*case).to_owned(), count_case(&program, &folder, case)?));
        }
        Ok(counts)
    };
    thread::scope(|threads| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..cores).map(|_| threads.spawn(worker)).collect();
        let counts: Result<Vec<_>> = workers.into_iter().map(join).collect();
        Ok(counts?.into_iter().flatten().collect())
    })
}

/// Counts the instructions of one case.
fn count_case(program: &Path, folder: &Path, case: &str) -> Result<u64> {
    let profile: PathBuf = folder.join(format!("{case}.callgrind"));
    let mut valgrind = Command::new("valgrind");
    valgrind.env("GLIBC_TUNABLES", NO_STRING_INSTRUCTIONS);
    valgrind.args(["--quiet", "--tool=callgrind"]);
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    valgrind.arg(program).args(["run", case]).arg(folder);
    step::output(&mut valgrind, "see the output of valgrind above")?;
    let text = fs::read_to_string(&profile).with_context(|| profile.display().to_string())?;
    total(&text).with_context(|| format!("{} has no total", profile.display()))
}

/// Returns the sum of all instructions in a file of callgrind.
fn total(profile: &str) -> Option<u64> {
    let line = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns a description of each case whose count is not about the recorded one.
fn differences(counts: &Counts, recorded: &Counts) -> Vec<String> {
    let mut found = Vec::new();
    for (case, &count) in counts {
        match recorded.get(case) {
            None => found.push(format!("{case}: {RECORD} has no count")),
            Some(&before) => {
                let change = percent(count, before);
                if change.abs() > TOLERANCE {
                    found.push(format!(
                        "{case}: {count} instructions instead of {before} ({change:+.1} %)"
                    ));
                }
            }
        }
    }
    let gone = recorded.keys().filter(|case| !counts.contains_key(*case));
    found.extend(
        gone.map(|case| format!("{case}: {RECORD} has a count, but there is no such case")),
    );
    found
}

/// Returns the change from `before` to `count` in percent.
fn percent(count: u64, before: u64) -> f64 {
    100.0 * (count as f64 / before as f64 - 1.0)
}

fn print(counts: &Counts, recorded: &Counts) {
    for (case, &count) in counts {
        let change = recorded.get(case).map(|&before| percent(count, before));
        let change = change.map_or(String::new(), |change| format!("{change:>+8.2} %"));
        println!(
            "{case:<16} {:>10.2} million instructions{change}",
            count as f64 / 1e6
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter()
            .map(|&(case, count)| (case.to_owned(), count))
            .collect()
    }

    #[test]
    fn more_than_three_percent_in_either_direction_is_a_difference() {
        let recorded = counts(&[("step", 1_000_000)]);
        for (count, differs) in [
            (1_000_000, false),
            (1_029_000, false),
            (971_000, false),
            (1_040_000, true),
            (960_000, true),
        ] {
            let found = differences(&counts(&[("step", count)]), &recorded);
            assert_eq!(!found.is_empty(), differs, "{count}: {found:?}");
        }
        assert_eq!(
            differences(&counts(&[("step", 1_040_000)]), &recorded),
            ["step: 1040000 instructions instead of 1000000 (+4.0 %)"]
        );
    }

    #[test]
    fn cases_that_are_new_or_gone_are_differences() {
        let found = differences(&counts(&[("new", 5)]), &counts(&[("old", 5)]));
        let expected = [
            "new: benches/guard.json has no count",
            "old: benches/guard.json has a count, but there is no such case",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn totals_are_read_as_callgrind_writes_them() {
        let profile = "# callgrind format\nevents: Ir\n\nfn=(1) main\n16 400\n\ntotals: 12345\n";
        assert_eq!(total(profile), Some(12345));
        assert_eq!(total("events: Ir\n"), None);
    }
}
