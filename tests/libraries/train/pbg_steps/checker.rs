//! Compares numbers and remembers those that differ.

pub(crate) struct Checker<'a> {
    pub(crate) case: &'a str,
    pub(crate) step: usize,
    pub(crate) failures: Vec<String>,
    pub(crate) compared: usize,
}

impl Checker<'_> {
    pub(crate) fn close(&mut self, what: &str, found: f64, expected: f64) {
        self.compared += 1;
        let close = (found - expected).abs() <= 1e-6 + 1e-4 * expected.abs();
        if !close {
            self.failures.push(format!(
                "{} step {}: {what}: {found} instead of {expected}",
                self.case, self.step
            ));
        }
    }

    pub(crate) fn all_close(&mut self, what: &str, found: &[f32], expected: &[f32]) {
        assert_eq!(
            found.len(),
            expected.len(),
            "{} step {}: {what}",
            self.case,
            self.step
        );
        for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
            self.close(&format!("{what}[{i}]"), f64::from(f), f64::from(e));
        }
    }
}

impl Checker<'_> {
    /// Compares rows; each number must be as close as the largest number of its row.
    pub(crate) fn rows_close(&mut self, what: &str, found: &[f32], expected: &[Vec<f32>]) {
        for (i, expected) in expected.iter().enumerate() {
            let largest = expected
                .iter()
                .fold(0.0_f64, |a, &e| a.max(f64::from(e).abs()));
            let found = &found[i * expected.len()..];
            for (&e, &f) in expected.iter().zip(found) {
                // Compared at the magnitude of the largest number.
                let difference = f64::from(f) - f64::from(e);
                self.close(&format!("{what}[{i}]"), largest + difference, largest);
            }
        }
    }

    /// Compares counts of violators. A drawn negative that is the true entity ties with the positive, and rounding
    /// decides whether it counts as above, so the counts may differ by the number of ties.
    pub(crate) fn violators(
        &mut self,
        side: &str,
        found: u64,
        expected: f64,
        positives: &[f32],
        negatives: &[Vec<f32>],
    ) {
        let tie = |p: f32, n: f32| (p - n).abs() <= 1e-5 * (1.0 + p.abs());
        let rows = positives.iter().zip(negatives);
        let ties: usize = rows
            .map(|(&p, row)| row.iter().filter(|&&n| tie(p, n)).count())
            .sum();
        self.compared += 1;
        if (found as f64 - expected).abs() > ties as f64 {
            let (case, step) = (self.case, self.step);
            self.failures.push(format!(
                "{case} step {step}: violators_{side}: {found} instead of {expected} +- {ties}"
            ));
        }
    }
}
