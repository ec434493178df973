//! Formats numbers, sizes and durations for people.

use std::time::Duration;

/// Formats `1234567` as `1.23 M`; numbers below ten thousand are not scaled.
pub(crate) fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", " k", " M", " G", " T"], 10_000.0)
}

/// Formats `1234567` bytes as `1.18 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    scaled(
        n as f64,
        1024.0,
        &[" B", " KiB", " MiB", " GiB", " TiB", " PiB"],
        1024.0,
    )
}

/// Divides `n` by `base` until it is below `base`; does not scale `n` below `from`.
fn scaled(n: f64, base: f64, units: &[&str], from: f64) -> String {
    if n < from {
        return format!("{n:.0}{}", units[0]);
    }
    let (mut value, mut unit) = (n, 0);
    while value >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let decimals = usize::from(value < 10.0) + usize::from(value < 100.0);
    format!("{value:.decimals$}{}", units[unit])
}

/// Formats 3723 seconds as `1:02:03`, 63 seconds as `1:03`, and less than a minute as `3.2 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!(
            "{}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        ),
    }
}

/// Formats seconds as [`duration`] does; negative and non-finite numbers count as 0.
pub(crate) fn seconds(time: f64) -> String {
    duration(Duration::try_from_secs_f64(time).unwrap_or_default())
}

/// Formats a loss with five significant digits.
pub(crate) fn loss(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() || magnitude == 0.0 {
        format!("{value}")
    } else if !(1e-4..1e6).contains(&magnitude) {
        format!("{value:.4e}")
    } else {
        let digits = magnitude.log10().floor() as i32;
        format!("{value:.*}", usize::try_from(4 - digits).unwrap_or(0))
    }
}

/// Formats a count with its noun: `1 load`, `2 loads`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let check = |n: f64, text: &str| assert_eq!(count(n), text);
        check(0.0, "0");
        check(9_999.0, "9999");
        check(12_345.0, "12.3 k");
        check(1_234_567.0, "1.23 M");
        check(272_115.0, "272 k");
        check(2.5e9, "2.50 G");
    }

    #[test]
    fn sizes() {
        let check = |n: u64, text: &str| assert_eq!(bytes(n), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1.00 KiB");
        check(23_592_960, "22.5 MiB");
        check(u64::MAX, "16384 PiB");
    }

    #[test]
    fn times() {
        let check = |s: f64, text: &str| assert_eq!(seconds(s), text);
        check(3.21, "3.2 s");
        check(63.9, "1:03");
        check(3723.0, "1:02:03");
        check(-1.0, "0.0 s");
        check(f64::NAN, "0.0 s");
    }

    #[test]
    fn losses() {
        let check = |x: f64, text: &str| assert_eq!(loss(x), text);
        check(8.405_123, "8.4051");
        check(0.081_234, "0.081234");
        check(123.456_78, "123.46");
        check(0.0, "0");
        check(1.5e-7, "1.5000e-7");
        check(2.5e7, "2.5000e7");
    }
}
