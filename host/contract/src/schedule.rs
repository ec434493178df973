//! Checks of a learning rate schedule.

use std::fmt::Write as _;
use std::time::Duration;

use pbg_core::strategy::{RateSchedule, SchedulePosition, StrategyError, check_factor};

use crate::finding::ContractReport;
use crate::timing::{Timing, time};

/// Instance of a schedule under test, or the reason why it could not be created.
pub type ScheduleInstance = Result<Box<dyn RateSchedule>, String>;

/// Epochs of warm-ups, of runs, and passes of an epoch that are tried.
const RUNS: [(f64, u32, u32); 6] = [
    (0.0, 1, 1),
    (0.0, DRAWN, 1),
    (0.0, 7, 4),
    (0.0, 500, 1),
    (2.5, 10, 4),
    (2.5, 500, 1),
];
/// Epochs of the run whose factors are drawn.
const DRAWN: u32 = 40;
/// Number of rows of the drawing.
const HEIGHT: u32 = 8;

/// Returns the positions of the passes of a run, its first moment and its end.
fn positions(start: f64, epochs: u32, passes: u32) -> Vec<SchedulePosition> {
    let end = f64::from(epochs);
    let middles = (0..epochs * passes).map(|n| (f64::from(n) + 0.5) / f64::from(passes));
    let middles = middles.filter(|epoch| *epoch >= start);
    let all = std::iter::once(start).chain(middles).chain([end]);
    all.map(|epoch| SchedulePosition { epoch, start, end })
        .collect()
}

/// Returns the factors of the run that is drawn, or what is wrong with them.
///
/// # Errors
/// The first failure.
pub fn drawn_factors(schedule: &mut dyn RateSchedule) -> Result<Vec<f64>, String> {
    let positions = positions(0.0, DRAWN, 1).into_iter();
    positions.map(|position| ask(schedule, position)).collect()
}

/// Checks a schedule in short and long runs, with and without a warm-up.
pub fn check_schedule(create: impl Fn() -> ScheduleInstance) -> ContractReport {
    let mut report = ContractReport::default();
    let Some(mut schedule) = report.unless_broken("factors", create()) else {
        return report;
    };
    let positions: Vec<_> = RUNS
        .iter()
        .flat_map(|&(start, epochs, passes)| positions(start, epochs, passes))
        .collect();
    let asked = positions.iter().map(|at| ask(schedule.as_mut(), *at));
    let asked: Result<Vec<f64>, String> = asked.collect();
    let Some(factors) = report.unless_broken("factors", asked) else {
        return report;
    };
    let (lowest, highest) = bounds(&factors);
    report.add_promise(
        "factors",
        Ok(format!(
            "{} factors in runs of 1 to 500 epochs, with and without a warm-up: from {} to {}",
            factors.len(),
            short(lowest),
            short(highest)
        )),
    );
    report.add_promise(
        "deterministic",
        again(&create, schedule.as_mut(), &positions, &factors),
    );
    if highest > 1.0 {
        report.add_note(
            "above 1",
            format_args!("learning rates rise to {highest} times the configured ones"),
        );
    }
    if highest == 0.0 {
        report.add_note("zero", "all factors are 0, so nothing would be trained");
    }
    if let Some(factors) = report.unless_broken("curve", drawn_factors(schedule.as_mut())) {
        report.add_note("curve", drawing(&factors));
    }
    report
}

fn ask(schedule: &mut dyn RateSchedule, position: SchedulePosition) -> Result<f64, String> {
    let factor = schedule.factor(position).map_err(|fault| {
        let told = format!("{}: {}", fault.function, fault.reason);
        // The sandbox names the position itself where the factor is wrong.
        match fault.reason.contains(&position.to_string()) {
            true => told,
            false => format!("{position}: {told}"),
        }
    })?;
    check_factor(position, factor).map_err(|broken| broken.to_string())?;
    Ok(factor)
}

/// Checks that the same position has the same factor, whatever was asked before.
fn again(
    create: &impl Fn() -> ScheduleInstance,
    schedule: &mut dyn RateSchedule,
    positions: &[SchedulePosition],
    factors: &[f64],
) -> Result<String, String> {
    let mut fresh = create()?;
    for (position, before) in positions.iter().zip(factors).rev() {
        for (which, factor) in [
            ("asked again", ask(schedule, *position)?),
            ("asked of another instance", ask(fresh.as_mut(), *position)?),
        ] {
            if factor.to_bits() != before.to_bits() {
                return Err(format!(
                    "{position}: the factor was {before}, and is {factor} when {which}; it may depend on the arguments and \
                     the configuration alone"
                ));
            }
        }
    }
    Ok(format!("the same factors again, {} times", factors.len()))
}

fn bounds(factors: &[f64]) -> (f64, f64) {
    let lowest = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = factors.iter().copied().fold(0.0, f64::max);
    (lowest, highest)
}

/// Draws the factors of a run, of which the first and the last are those of its first moment and its end.
fn drawing(factors: &[f64]) -> String {
    let (_, highest) = bounds(factors);
    let (Some(first), Some(last)) = (factors.first(), factors.last()) else {
        return String::new();
    };
    let mut text = format!(
        "of a run of {DRAWN} epochs, which begins with the factor {} and ends with {}",
        short(*first),
        short(*last)
    );
    let passes = &factors[1..factors.len() - 1];
    for level in (1..=HEIGHT).rev() {
        let filled = passes.iter().map(|factor| {
            let share = if highest > 0.0 { factor / highest } else { 0.0 };
            let reaches = (share * f64::from(HEIGHT)).round() >= f64::from(level);
            if reaches { '#' } else { ' ' }
        });
        let filled: String = filled.collect();
        let label = match level == HEIGHT {
            true => short(highest),
            false => String::new(),
        };
        let _written = write!(text, "\n{label:>8} |{}", filled.trim_end());
    }
    let _written = write!(
        text,
        "\n{:>8} +{}\nepoch     1{DRAWN:>width$}",
        0,
        "-".repeat(passes.len()),
        width = passes.len() - 1
    );
    text
}

/// Formats a factor with three significant digits.
fn short(factor: f64) -> String {
    if factor != 0.0 && factor < 1e-3 {
        return format!("{factor:.2e}");
    }
    let digits = if factor < 10.0 { 3 } else { 1 };
    let text = format!("{factor:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Times one call of `factor`.
///
/// # Errors
/// The first error of the schedule.
pub fn bench_schedule(
    schedule: &mut dyn RateSchedule,
    budget: Duration,
) -> Result<Timing, StrategyError> {
    let positions = positions(0.0, DRAWN, 1);
    let mut next = 0;
    time(budget, || {
        let position = positions[next % positions.len()];
        next += 1;
        schedule.factor(position).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingOutcome;
    use pbg_core::strategy::{FaultCause, StrategyId};

    /// Schedule that is a function of the position and of the number of earlier calls.
    struct Fixed(StrategyId, fn(SchedulePosition, u32) -> f64, u32);

    impl RateSchedule for Fixed {
        fn id(&self) -> &StrategyId {
            &self.0
        }

        fn factor(&mut self, position: SchedulePosition) -> Result<f64, StrategyError> {
            self.2 += 1;
            Ok((self.1)(position, self.2))
        }
    }

    /// Schedule whose calls fail for a reason.
    struct Failing(StrategyId, &'static str);

    impl RateSchedule for Failing {
        fn id(&self) -> &StrategyId {
            &self.0
        }

        fn factor(&mut self, _: SchedulePosition) -> Result<f64, StrategyError> {
            Err(StrategyError {
                strategy: id(),
                function: "factor",
                reason: self.1.into(),
                cause: FaultCause::Strategy,
            })
        }
    }

    fn id() -> StrategyId {
        StrategyId {
            name: "fixed".to_owned(),
            version: "1".to_owned(),
            sha256: String::new(),
        }
    }

    fn checked(factor: fn(SchedulePosition, u32) -> f64) -> ContractReport {
        check_schedule(|| Ok(Box::new(Fixed(id(), factor, 0))))
    }

    fn found(report: &ContractReport, promise: &str) -> (FindingOutcome, String) {
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| finding.promise == promise);
        let found = found.unwrap_or_else(|| panic!("{report:?}"));
        (found.outcome, found.detail.clone())
    }

    #[test]
    fn a_schedule_is_drawn() {
        let report = checked(|position, _| 1.0 - position.epoch / position.end);
        assert_eq!(report.broken(), 0, "{report:?}");
        let (_, curve) = found(&report, "curve");
        assert!(
            curve.contains("begins with the factor 1 and ends with 0"),
            "{curve}"
        );
        let lines: Vec<&str> = curve.lines().collect();
        // The highest factor is that of the beginning; 7.5 eighths of it are reached until epoch 3.
        assert_eq!(lines[1], "       1 |###", "{curve}");
        assert_eq!(lines[8].len(), 10 + 38, "{curve}");
        assert_eq!(lines[9], format!("       0 +{}", "-".repeat(40)));
        assert_eq!(lines[10], format!("epoch     1{:>39}", 40));
        assert!(!report.findings().iter().any(|f| f.promise == "above 1"));
    }

    #[test]
    fn unusual_factors_are_notes_and_others_broken_promises() {
        let high = checked(|_, _| 3.0);
        let text = "learning rates rise to 3 times the configured ones";
        assert_eq!(
            found(&high, "above 1"),
            (FindingOutcome::Note, text.to_owned())
        );
        assert_eq!(found(&checked(|_, _| 0.0), "zero").0, FindingOutcome::Note);
        for (factor, shown) in [
            ((|_, _| f64::NAN) as fn(SchedulePosition, u32) -> f64, "NaN"),
            (|_, _| -0.5, "-0.5"),
            (|_, _| 1e6, "1000000"),
            (|at, _| 1.0 / (at.epoch - at.start), "inf"),
        ] {
            let (outcome, text) = found(&checked(factor), "factors");
            assert_eq!(outcome, FindingOutcome::Broken, "{text}");
            assert!(text.contains(shown) && text.contains("epoch 0"), "{text}");
        }
    }

    #[test]
    fn a_position_is_named_once() {
        for (reason, expected) in [
            (
                "at epoch 0 of a schedule from 0 to 1, it is -1",
                "factor: at epoch 0 of a schedule from 0 to 1, it is -1",
            ),
            (
                "it trapped",
                "epoch 0 of a schedule from 0 to 1: factor: it trapped",
            ),
        ] {
            let report = check_schedule(|| Ok(Box::new(Failing(id(), reason))));
            let (outcome, text) = found(&report, "factors");
            assert_eq!((outcome, &text[..]), (FindingOutcome::Broken, expected));
        }
    }

    #[test]
    fn a_schedule_that_counts_its_calls_is_found() {
        let (outcome, text) = found(&checked(|_, call| f64::from(call % 7)), "deterministic");
        assert_eq!(outcome, FindingOutcome::Broken);
        assert!(text.contains("asked again"), "{text}");
    }

    #[test]
    fn factors_are_short() {
        let shown = [0.0, 1.0, 0.12345, 12.0, 250.0, 1e-7].map(short);
        assert_eq!(shown, ["0", "1", "0.123", "12", "250", "1.00e-7"]);
    }
}
