//! The page of one training run.

use pbg_core::event::GroupSeconds;
use pbg_core::strategy::Pass;

use super::comparison::PageError;
use super::{bytes, number};
use crate::figure;
use crate::page::Page;
use crate::run::{EpochRow, RunReport};
use crate::table;

/// Heads of the table of epochs, in the order of [`row`].
pub const HEADS: [&str; 9] = [
    "epoch",
    "edges",
    "loss",
    "held-out MRR",
    "seconds",
    "edges/s",
    "stalled",
    "read",
    "written",
];

/// The page; `first` is the run's first pass, where its dataset is at hand.
///
/// # Errors
/// When the data cannot be put into the page.
pub fn page(report: &RunReport, first: Option<&Pass>) -> Result<String, PageError> {
    let mut page = Page::new("Training run");
    let mut summary = report.summary.clone();
    if let Some(plan) = report.plans.last() {
        let cost = format!(
            "{} loads per pass, {} after the buffer is full",
            plan.cost.loads, plan.cost.swaps
        );
        summary.push(("bucket order".to_owned(), format!("{}: {cost}", plan.order)));
    }
    if let Some(peak) = report.peak_bytes() {
        summary.push(("memory, measured".to_owned(), bytes(peak as f64)));
    }
    if !report.epochs.is_empty() {
        summary.push(("order and sampler".to_owned(), calls(report)));
    }
    summary.extend(groups(report));
    page.summary(&summary);
    page.download("run.csv", &table::run_csv(report)?);
    if report.buckets.is_empty() {
        page.text("Nothing has been trained yet.");
        return Ok(page.render()?);
    }
    page.figure(figure::run_loss(report));
    figure::run_quality(report)
        .into_iter()
        .for_each(|figure| page.figure(figure));
    page.figure(figure::run_speed(report));
    if !report.epochs.is_empty() {
        page.figure(figure::run_stalls(report));
    }
    let lanes = figure::run_lanes(report);
    let together = lanes.is_some();
    lanes.into_iter().for_each(|figure| page.figure(figure));
    let measured = first.and_then(|first| Some((report.last_pass(first)?, first.shared)));
    match measured {
        Some((pass, shared)) if !pass.replay.loads.is_empty() => {
            page.figure(figure::run_buffer(&pass, shared));
            if !pass.as_replayed {
                page.text("The buffer loaded another number of partitions in this pass than the replayed plan says.");
            }
        }
        Some(_) => page.text("No partition was loaded in the last pass: all are in the buffer."),
        None if together => {}
        None => page.text(
            "There is no complete pass, or its dataset is not there, so the buffer is not shown.",
        ),
    }
    page.heading("Epochs");
    let head = HEADS.map(str::to_owned);
    page.table(&head, &report.epochs.iter().map(row).collect::<Vec<_>>());
    Ok(page.render()?)
}

/// Where the time of each group of the pipeline went, in words.
#[must_use]
pub fn groups(report: &RunReport) -> Vec<(String, String)> {
    let words = |times: GroupSeconds| {
        let seconds = |seconds: f64| format!("{seconds:.2} s");
        let text = format!(
            "busy {}, waited {} for what comes in, {} for room for what goes out",
            seconds(times.busy),
            seconds(times.input),
            seconds(times.output)
        );
        (format!("{} group", times.group), text)
    };
    report.groups().into_iter().map(words).collect()
}

/// What the strategies that choose cost, in words.
#[must_use]
pub fn calls(report: &RunReport) -> String {
    let percent = report.calls_share() * 100.0;
    if percent < 0.01 {
        "less than 0.01 % of training".to_owned()
    } else {
        format!("{percent:.2} % of training")
    }
}

/// An epoch in words.
#[must_use]
pub fn row(epoch: &EpochRow) -> Vec<String> {
    let edges = epoch.stats.count as f64;
    vec![
        (epoch.epoch + 1).to_string(),
        number(edges),
        format!("{:.5}", epoch.stats.mean_loss()),
        epoch
            .eval_before
            .map_or("-".to_owned(), |eval| format!("{:.4}", eval.mrr)),
        number(epoch.seconds),
        number((edges / epoch.seconds.max(1e-9)).round()),
        number(epoch.io.stood_still()),
        bytes(epoch.io.bytes_read as f64),
        bytes(epoch.io.bytes_written as f64),
    ]
}
