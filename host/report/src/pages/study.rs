//! HTML page of a study: bucket orders compared by training with each.

use super::comparison::PageError;
use super::{bytes, number};
use crate::figure;
use crate::page::Page;
use crate::table;
use pbg_lab::study::{EpochPoint, OrderRuns, Study, mean_and_deviation};

/// Headers of the table of results, for the cells that [`row`] returns.
pub const HEADERS: [&str; 9] = [
    "order",
    "MRR",
    "Hits@10",
    "loss",
    "swaps predicted",
    "swaps performed",
    "read and written",
    "seconds",
    "stall",
];

/// Returns the HTML page of a study.
///
/// # Errors
/// When the data cannot be written.
pub fn page(study: &Study) -> Result<String, PageError> {
    let mut page = Page::new("Bucket orders compared by training");
    page.text(
        "The same data, model and budget with each order. Hover over a figure for its values; the camera above it \
         downloads it as SVG.",
    );
    page.summary(&study.setting);
    page.download("study.csv", &table::study_csv(study)?);
    let head = HEADERS.map(str::to_owned);
    page.table(&head, &study.orders.iter().map(row).collect::<Vec<_>>());
    page.text(
        "Results after the last epoch, as mean and standard deviation over the seeds. Swaps (predicted from the plans and \
         performed by the buffer), bytes, seconds and stalls are totals of all epochs.",
    );
    page.figure(figure::mrr(study));
    page.figure(figure::loss(study));
    Ok(page.render()?)
}

/// Returns the table row with the results of an order. MRR, Hits@10 and loss are from the last epoch; the other numbers
/// are totals of all epochs, as means over the seeds. ` (differs)` marks loads that the plans did not predict.
#[must_use]
pub fn row(order: &OrderRuns) -> Vec<String> {
    // A point of a run has the totals of bytes, seconds and stalls up to its epoch, but the swaps of its epoch alone.
    let last = |figure: fn(&EpochPoint) -> f64| mean_and_deviation(&order.last(figure));
    let with_deviation = |(mean, deviation): (f64, f64)| format!("{mean:.4} ± {deviation:.4}");
    let mean_total = |figure: fn(&EpochPoint) -> u64| {
        let of = |run: &pbg_lab::study::SeedRun| run.epochs.iter().map(figure).sum::<u64>() as f64;
        mean_and_deviation(&order.runs.iter().map(of).collect::<Vec<_>>()).0
    };
    let differs = order.mispredicted_epochs().next().is_some();
    vec![
        order.order.clone(),
        with_deviation(last(|point| point.mrr)),
        with_deviation(last(|point| point.hits_at_10)),
        with_deviation(last(|point| point.loss)),
        number(mean_total(|point| point.predicted_swaps)),
        number(mean_total(EpochPoint::swaps)) + if differs { " (differs)" } else { "" },
        bytes(last(|point| point.io_bytes as f64).0),
        number(last(|point| point.seconds).0),
        number(last(|point| point.stall_seconds).0),
    ]
}
