//! The pages that `pbg-host` writes.

pub mod comparison;
pub mod map;
pub mod model_contents;
pub mod run;
pub mod study;

/// Formats a number for a table: three decimals below ten, one below a thousand, none above.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        x if x == x.trunc() && x < 1e15 => format!("{value:.0}"),
        x if x < 10.0 => format!("{value:.3}"),
        x if x < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats bytes with units of powers of 1024.
pub(crate) fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (value, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!(
        "{} {}",
        number((value * 1000.0).round() / 1000.0),
        units[unit]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 42.0, 1.23456, 123.456, 12_345.6].map(number),
            ["0", "42", "1.235", "123.5", "12346"]
        );
        assert_eq!(
            [512.0, 1536.0, 1e12].map(bytes),
            ["512 B", "1.500 KiB", "931.3 GiB"]
        );
    }
}
