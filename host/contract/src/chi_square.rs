//! Pearson's chi-square of draws and their probabilities.

/// Standard normal quantile of the error probability of one test, 1 in 10 million.
pub(crate) const QUANTILE: f64 = 5.2;

/// Returns Pearson's chi-square and its degrees of freedom; `None` if there is only one class, which leaves nothing to
/// compare. Entities that are expected less than five times are pooled.
///
/// # Errors
/// Names an entity that was drawn although its probability is 0.
pub(crate) fn chi_square(
    drawn: &[u64],
    probabilities: &[f64],
) -> Result<Option<(f64, u32)>, String> {
    let draws: u64 = drawn.iter().sum();
    let (mut chi, mut cells) = (0.0, 0);
    let (mut rare, mut rarely) = (0.0, 0);
    let mut add = |seen: u64, expected: f64| {
        chi += (seen as f64 - expected).powi(2) / expected;
        cells += 1;
    };
    for (entity, (&seen, &probability)) in drawn.iter().zip(probabilities).enumerate() {
        let expected = probability * draws as f64;
        if probability == 0.0 && seen > 0 {
            return Err(format!(
                "entity {entity} has probability 0, but was drawn {seen} times"
            ));
        }
        if expected >= 5.0 {
            add(seen, expected);
        } else {
            rare += expected;
            rarely += seen;
        }
    }
    if rare >= 5.0 {
        add(rarely, rare);
    }
    Ok(match cells {
        0 | 1 => None,
        cells => Some((chi, cells - 1)),
    })
}

/// Returns the value that chi-square exceeds with the error probability of [`QUANTILE`] (Wilson, Hilferty 1931).
pub(crate) fn chi_square_limit(degrees: u32) -> f64 {
    let degrees = f64::from(degrees);
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + QUANTILE * spread.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of draws.
    const DRAWS: u64 = 200_000;

    #[test]
    fn other_frequencies_are_found() {
        let probabilities = vec![0.25; 4];
        let drawn = |first: u64| {
            let rest = (DRAWS - first) / 3;
            [first, rest, rest, rest]
        };
        let compared = |first| chi_square(&drawn(first), &probabilities).unwrap().unwrap();
        let (chi, degrees) = compared(50_000);
        assert!(chi < chi_square_limit(degrees), "{chi}");
        let (chi, degrees) = compared(52_000);
        assert!(chi > chi_square_limit(degrees), "{chi}");
        assert!(chi_square(&[1, 2], &[1.0, 0.0]).is_err());
        // Four draws of the second are expected, and none happened.
        let rare = [1.0 - 4.0 / DRAWS as f64, 4.0 / DRAWS as f64];
        assert_eq!(chi_square(&[DRAWS, 0], &rare), Ok(None));
    }

    /// The approximation is close for many degrees of freedom and too large for few.
    #[test]
    fn the_limit_is_near_the_quantile() {
        // Quantiles of the chi-square distribution at 1 - 1e-7.
        for (degrees, quantile, tolerance) in
            [(1, 28.37, 0.2), (20, 71.59, 0.02), (59, 133.72, 0.01)]
        {
            let ratio = chi_square_limit(degrees) / quantile;
            assert!(
                (1.0..1.0 + tolerance).contains(&ratio),
                "{degrees}: {ratio}"
            );
        }
    }
}
