//! Main memory that this process occupies and may occupy.

use std::fs;
use std::path::Path;

/// Returns the peak main memory of the process in bytes, where the system reports it (Linux, `VmHWM` in `proc(5)`).
#[must_use]
pub fn peak_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// Bytes of addresses of a thread's stack and its guard pages.
const STACK: u64 = (2 << 20) + (64 << 10);

/// How a run or a query needs less memory.
const SMALLER_PARTS: &str = "`pbg-host check` and `eval --check` list its parts; to need less, lower `buffer_partitions`, `workers`, the number \
     of negatives or `batch_size`, or use more partitions (fewer, if the plan of a pass is the largest part)";

/// How the parameters of operators and features need less memory.
pub const FEWER_PARAMETERS: &str =
    "use operators with fewer parameters, fewer relations, or a lower `dimension`";

/// The needed memory exceeds the available memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} takes up to {} of memory, but only {} are left {limit}; {remedy}",
    binary_size(*needed), binary_size(*available)
)]
pub struct NotEnoughMemory {
    /// What needs the memory.
    pub what: &'static str,
    /// Largest number of bytes that it needs.
    pub needed: u64,
    /// Number of available bytes.
    pub available: u64,
    /// Origin of the limit: the machine, the control group, or `ulimit -v`.
    pub limit: &'static str,
    /// How to need less.
    pub remedy: &'static str,
}

/// Adds up components of memory. The sum saturates at the largest number.
#[must_use]
pub fn total(parts: &[(String, u64)]) -> u64 {
    sum(parts.iter().map(|(_, bytes)| *bytes))
}

/// Adds up bytes. The sum saturates at the largest number.
pub fn sum(bytes: impl IntoIterator<Item = u64>) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}

/// Refuses to start `what`, which needs `needed` bytes in all and uses `threads` threads, if fewer bytes are available.
/// The memory that the process occupies already is part of `needed`.
///
/// # Errors
/// When too little memory is available.
pub fn require(what: &'static str, needed: u64, threads: usize) -> Result<(), NotEnoughMemory> {
    let occupied = kibibytes("/proc/self/status", "VmRSS:").unwrap_or(0);
    let stacks = threads as u64 * STACK;
    compare(what, needed, occupied, stacks, SMALLER_PARTS)
}

/// Refuses to start `what`, which needs `needed` bytes in addition to the memory that the process occupies already, if
/// fewer are available. `remedy` says how to need less.
///
/// # Errors
/// When too little memory is available.
pub fn require_more(
    what: &'static str,
    needed: u64,
    remedy: &'static str,
) -> Result<(), NotEnoughMemory> {
    compare(what, needed, 0, 0, remedy)
}

/// Compares `needed` with the memory left by the machine, the control group and `ulimit -v`. `occupied` is the part of
/// `needed` that is allocated already; `stacks` is the size of thread stacks, which need addresses but hardly any
/// memory.
fn compare(
    what: &'static str,
    needed: u64,
    occupied: u64,
    stacks: u64,
    remedy: &'static str,
) -> Result<(), NotEnoughMemory> {
    let left = [
        (free_on_machine(), 0, "on this machine"),
        (group_bytes(), 0, "in this control group"),
        (
            address_bytes(),
            stacks,
            "of the address space that this process may have (ulimit -v)",
        ),
    ];
    for (bytes, besides, limit) in left {
        let needed = needed.saturating_add(besides);
        let available = bytes.map(|bytes| bytes.saturating_add(occupied));
        if let Some(available) = available.filter(|&available| available < needed) {
            return Err(NotEnoughMemory {
                what,
                needed,
                available,
                limit,
                remedy,
            });
        }
    }
    Ok(())
}

/// Returns the bytes that an import may use for names by default: three quarters of the free memory.
#[must_use]
pub fn default_name_bytes() -> Option<u64> {
    free_bytes().map(|bytes| bytes / 4 * 3)
}

/// Returns the bytes that this process may still allocate, where the system reports them.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    let all = [free_on_machine(), group_bytes(), address_bytes()];
    all.into_iter().flatten().min()
}

/// Formats a number of bytes in MiB, GiB or TiB.
#[must_use]
pub fn binary_size(bytes: u64) -> String {
    let gibibytes = bytes as f64 / f64::from(1 << 30);
    match bytes >> 30 {
        0 => format!("{:.0} MiB", gibibytes * 1024.0),
        1..1024 => format!("{gibibytes:.1} GiB"),
        _ => format!("{:.1} TiB", gibibytes / 1024.0),
    }
}

/// Returns the memory that new processes can use without swapping, and the free swap space, in bytes.
fn free_on_machine() -> Option<u64> {
    let of = |name| kibibytes("/proc/meminfo", name);
    Some(of("MemAvailable:")? + of("SwapFree:").unwrap_or(0))
}

/// Returns the bytes left by the control group and its ancestors. The page cache counts as free.
fn group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, files) = if controllers.is_empty() {
            ("/sys/fs/cgroup", UNIFIED)
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", LEGACY)
        } else {
            return None;
        };
        least_left(Path::new(root), path, files)
    };
    groups.lines().filter_map(of_line).min()
}

/// Names of the files with a group's limit and usage, and the prefix of the page cache's line in its statistics.
type GroupFiles = [&'static str; 3];
const UNIFIED: GroupFiles = ["memory.max", "memory.current", "file "];
const LEGACY: GroupFiles = [
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_cache ",
];

/// Limit from which on a group of the first version has none: the largest number of pages, in bytes.
const UNLIMITED: u64 = 1 << 62;

/// Returns the smallest number of bytes that the group `path` below `root` and its ancestors leave.
fn least_left(root: &Path, path: &str, [limit, usage, cache]: GroupFiles) -> Option<u64> {
    let folder = root.join(path.trim_start_matches('/'));
    let folders = folder.ancestors().take_while(|f| f.starts_with(root));
    let left = folders.filter_map(|folder| {
        let number = |name| -> Option<u64> {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse().ok()
        };
        let allowed = number(limit).filter(|allowed| *allowed < UNLIMITED)?;
        // The system adds the statistics up when they are read, which takes long.
        let statistics = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let mut lines = statistics.lines();
        let cached = lines.find_map(|line| line.strip_prefix(cache)?.trim().parse::<u64>().ok());
        let used = number(usage)?.saturating_sub(cached.unwrap_or(0));
        Some(allowed.saturating_sub(used))
    });
    left.min()
}

/// Whether the address space of this process is limited (`ulimit -v`).
#[must_use]
pub fn addresses_are_limited() -> bool {
    address_limit().is_some()
}

/// Returns the bytes that `ulimit -v` leaves.
fn address_bytes() -> Option<u64> {
    let mapped = kibibytes("/proc/self/status", "VmSize:")?;
    Some(address_limit()?.saturating_sub(mapped))
}

/// Returns the limit of `ulimit -v` in bytes.
fn address_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Reads a number from a file of `proc(5)`, in bytes.
fn kibibytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_occupies_some_memory() {
        assert!(peak_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn more_than_there_is_is_refused() {
        assert_eq!(require("nothing", 0, 1), Ok(()));
        let error = require("everything", u64::MAX, 1).unwrap_err();
        assert!(error.available > 1 << 20);
        let text = error.to_string();
        assert!(
            text.contains("everything takes up to 16777216.0 TiB"),
            "{text}"
        );
    }

    #[test]
    fn sizes_have_the_unit_that_keeps_them_short() {
        assert_eq!(binary_size(512 << 20), "512 MiB");
        assert_eq!(binary_size(3 << 29), "1.5 GiB");
        assert_eq!(binary_size(1023 << 30), "1023.0 GiB");
        assert_eq!(binary_size(300_170 << 30), "293.1 TiB");
    }

    #[test]
    fn a_group_leaves_what_the_tightest_above_it_leaves() {
        let root = tempfile::tempdir().unwrap();
        let write = |folder: &str, name: &str, text: &str| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        };
        write("a/b", "memory.max", "max\n");
        write("a/b", "memory.current", "1000\n");
        write("a", "memory.max", "5000\n");
        write("a", "memory.current", "3000\n");
        write("a", "memory.stat", "anon 1\nfile 500\nfile_mapped 9\n");
        write("", "memory.max", "9000\n");
        write("", "memory.current", "3000\n");
        assert_eq!(least_left(root.path(), "/a/b", UNIFIED), Some(2500));
        assert_eq!(least_left(root.path(), "/", UNIFIED), Some(6000));
        assert_eq!(least_left(root.path(), "/", LEGACY), None);
    }
}
