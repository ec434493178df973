//! The page of a study, which compares orders by training.

use super::comparison::PageError;
use super::{bytes, number};
use crate::figure;
use crate::page::Page;
use crate::table;
use pbg_lab::study::{EpochPoint, OrderRuns, Study, mean_and_deviation};

/// Headers of the table of results, in the order of [`row`].
pub const HEADS: [&str; 9] = [
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
    let head = HEADS.map(str::to_owned);
    page.table(&head, &study.orders.iter().map(row).collect::<Vec<_>>());
    page.text(
        "Results after the last epoch, as mean and standard deviation over the seeds. Swaps (predicted from the plans and \
         performed by the buffer), bytes, seconds and stalls are totals of all epochs.",
    );
    page.figure(figure::mrr(study));
    page.figure(figure::loss(study));
    Ok(page.render()?)
}

/// Returns the cells of the results of an order.
#[must_use]
pub fn row(order: &OrderRuns) -> Vec<String> {
    let last = |figure: fn(&EpochPoint) -> f64| mean_and_deviation(&order.last(figure));
    let spread = |(mean, deviation): (f64, f64)| format!("{mean:.4} ± {deviation:.4}");
    let sums = |figure: fn(&EpochPoint) -> u64| {
        let of = |run: &pbg_lab::study::SeedRun| run.epochs.iter().map(figure).sum::<u64>() as f64;
        mean_and_deviation(&order.runs.iter().map(of).collect::<Vec<_>>()).0
    };
    let surprised = order.mispredicted_epochs().next().is_some();
    vec![
        order.order.clone(),
        spread(last(|point| point.mrr)),
        spread(last(|point| point.hits_at_10)),
        spread(last(|point| point.loss)),
        number(sums(|point| point.predicted_swaps)),
        number(sums(EpochPoint::swaps)) + if surprised { " (differs)" } else { "" },
        bytes(last(|point| point.io_bytes as f64).0),
        number(last(|point| point.seconds).0),
        number(last(|point| point.stall_seconds).0),
    ]
}
