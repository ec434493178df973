//! Input and output of this process, as the system counts it.

use std::fs;

use pbg_core::event::ProcessIo;

/// Returns what the process has read and written so far, where the system reports it (Linux, `/proc/self/io` in `proc(5)`).
#[must_use]
pub fn so_far() -> Option<ProcessIo> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(ProcessIo {
        read: value("rchar:")?,
        written: value("wchar:")?,
        device_read: value("read_bytes:")?,
        device_written: value("write_bytes:")?,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_a_file_is_counted() {
        let before = so_far().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![1_u8; 100_000]).unwrap();
        let since = so_far().unwrap().since(&before);
        assert!(since.written >= 100_000, "{since:?}");
    }
}
