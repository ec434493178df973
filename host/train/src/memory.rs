//! How much main memory this process has occupied.

use std::fs;

/// The most bytes of main memory that the process has occupied so far, where the system tells
/// (Linux, `VmHWM` in `proc(5)`).
pub(crate) fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_occupies_some_memory() {
        assert!(super::peak_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
