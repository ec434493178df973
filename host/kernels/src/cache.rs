//! The size of the processor's second-level cache.

use std::sync::OnceLock;

/// Size that is assumed where the system does not report one. The smallest on servers of the last ten years is half of
/// it.
const USUAL: usize = 1 << 20;

/// Returns the size of a core's second-level cache in bytes.
#[must_use]
pub fn second_level_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let path = "/sys/devices/system/cpu/cpu0/cache/index2/size";
        std::fs::read_to_string(path)
            .ok()
            .and_then(|text| parse(&text))
            .unwrap_or(USUAL)
    })
}

/// Parses a size such as `1024K`, as the Linux kernel writes it.
fn parse(text: &str) -> Option<usize> {
    let kibibytes: usize = text.trim().strip_suffix('K')?.parse().ok()?;
    (kibibytes > 0).then_some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse("1024K\n"), Some(1 << 20));
        for text in ["", "K", "0K", "1M", "a lot"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(second_level_bytes() > 0);
    }
}
