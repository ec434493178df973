//! HTML page of a training run.

use pbg_core::event::GroupSeconds;
use pbg_core::plan::PlanCost;
use pbg_core::strategy::Pass;

use super::comparison::PageError;
use super::model_contents::ModelContents;
use super::{bytes, number};
use crate::figure;
use crate::page::Page;
use crate::run::{EpochRow, RunReport};
use crate::table;

/// Returns the HTML page of a run. `first` is the first pass of the run, or `None` without its dataset; `known` are the
/// contents that need the model.
///
/// # Errors
/// When the data cannot be written.
pub fn page(
    report: &RunReport,
    first: Option<&Pass>,
    known: &ModelContents,
) -> Result<String, PageError> {
    let mut page = Page::new("Training run");
    let mut summary = report.summary.clone();
    summary.extend(order(report).map(|order| ("bucket order".to_owned(), order)));
    if let Some(peak) = report.peak_bytes() {
        summary.push(("measured memory".to_owned(), bytes(peak as f64)));
    }
    if !report.epochs.is_empty() {
        summary.push(("order and sampler".to_owned(), calls(report)));
    }
    summary.extend(groups(report));
    page.summary(&summary);
    page.download("run.csv", &table::run_csv(report)?);
    known.append_to(&mut page);
    if *known != ModelContents::default() {
        page.heading("Training");
    }
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
                page.text("The number of partitions loaded in this pass differs from that of the replayed plan.");
            }
        }
        Some(_) => page.text("No partition was loaded in the last pass: all are in the buffer."),
        None if together => {}
        None => page
            .text("The buffer is not shown: no pass is complete, or the dataset is not available."),
    }
    page.heading("Epochs");
    let (head, rows) = epochs(report);
    page.table(&head, &rows);
    Ok(page.render()?)
}

/// Describes how long each group of the training pipeline was busy and waited.
#[must_use]
pub fn groups(report: &RunReport) -> Vec<(String, String)> {
    let words = |times: GroupSeconds| {
        let seconds = |seconds: f64| format!("{seconds:.2} s");
        let text = format!(
            "busy {}, waited {} for input, {} for room for output",
            seconds(times.busy),
            seconds(times.input),
            seconds(times.output)
        );
        (format!("{} group", times.group), text)
    };
    report.groups().into_iter().map(words).collect()
}

/// Describes the partition loads of the bucket order in its first pass, as `check` predicts them. Adds those of the
/// last pass if they differ, because that pass started with partitions in the buffer.
#[must_use]
pub fn order(report: &RunReport) -> Option<String> {
    let last = report.plans.last()?;
    let first = report.plans.iter().find(|plan| plan.order == last.order)?;
    let PlanCost { loads, swaps, .. } = first.cost;
    let plural = if loads == 1 { "" } else { "s" };
    let mut text = format!(
        "{}: {loads} partition load{plural} per pass ({swaps} after the buffer is full)",
        last.order
    );
    let later = (last.cost.loads, last.cost.swaps);
    if later != (loads, swaps) {
        let (loads, swaps) = later;
        text.push_str(&format!(
            "; {loads} ({swaps}) in the last pass, which started with partitions in the buffer"
        ));
    }
    Some(text)
}

/// Describes the share of training that calls of the bucket order and the relation sampler took.
#[must_use]
pub fn calls(report: &RunReport) -> String {
    let percent = report.calls_share() * 100.0;
    if percent < 0.01 {
        "less than 0.01 % of training".to_owned()
    } else {
        format!("{percent:.2} % of training")
    }
}

/// Returns the header and the rows of the table of epochs. The columns for held-out and validation edges are left out
/// if none were ranked.
#[must_use]
pub fn epochs(report: &RunReport) -> (Vec<String>, Vec<Vec<String>>) {
    let mrr = |ranks: Option<f64>| ranks.map_or("-".to_owned(), |mrr| format!("{mrr:.4}"));
    type Column<'c> = (&'c str, &'c dyn Fn(&EpochRow) -> String);
    let held_out = |epoch: &EpochRow| mrr(epoch.eval_before.map(|ranks| ranks.mrr));
    let validated = |epoch: &EpochRow| {
        let of_epoch = |(epochs, _): &&(u32, _)| *epochs == epoch.epoch + 1;
        let ranks = report.validation.iter().find(of_epoch);
        mrr(ranks.map(|(_, ranks)| ranks.mrr))
    };
    let columns: [Column<'_>; 10] = [
        ("epoch", &|epoch| (epoch.epoch + 1).to_string()),
        ("edges", &|epoch| number(epoch.stats.count as f64)),
        ("loss", &|epoch| format!("{:.5}", epoch.stats.mean_loss())),
        ("held-out MRR", &held_out),
        ("validation MRR", &validated),
        ("seconds", &|epoch| number(epoch.seconds)),
        ("edges/s", &|epoch| {
            number((epoch.stats.count as f64 / epoch.seconds.max(1e-9)).round())
        }),
        ("stalled", &|epoch| number(epoch.io.waited())),
        ("read", &|epoch| bytes(epoch.io.bytes_read as f64)),
        ("written", &|epoch| bytes(epoch.io.bytes_written as f64)),
    ];
    let wanted = |name| match name {
        "held-out MRR" => report
            .epochs
            .iter()
            .any(|epoch| epoch.eval_before.is_some()),
        "validation MRR" => !report.validation.is_empty(),
        _ => true,
    };
    let columns: Vec<Column<'_>> = columns
        .into_iter()
        .filter(|(name, _)| wanted(*name))
        .collect();
    let head = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let row = |epoch| columns.iter().map(|(_, cell)| cell(epoch)).collect();
    (head, report.epochs.iter().map(row).collect())
}
