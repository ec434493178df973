//! HTML page of a comparison of bucket orders without training.

use std::collections::BTreeMap;

use pbg_lab::replay::BufferReplay;
use pbg_lab::stall::{DeviceRates, LoadPolicy, PassTimeline};

use super::{bytes, number};
use crate::columns::COLUMNS;
use crate::figure::{self, Figure, Timeline};
use crate::page::Page;
use crate::provenance::Provenance;
use crate::table;
use pbg_lab::analysis::Analysis;
use pbg_lab::comparison::{ComparisonCase, OrderComparison, OrderResult};
use pbg_lab::published;

/// Largest number of orders whose buffer is drawn over time. Those with the fewest swaps are drawn.
const TIMELINES: usize = 8;

/// Key of the column of swaps.
const SWAPS: &str = "swaps";

/// Error of generating a page.
pub type PageError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the HTML page of a comparison.
///
/// The figures of a single grid show the last case whose grid is small enough to draw each bucket.
///
/// # Errors
/// When the data cannot be written.
pub fn page(comparison: &OrderComparison, provenance: &Provenance) -> Result<String, PageError> {
    let mut page = Page::new("Bucket orders compared");
    page.text(
        "Partition loads of each bucket order, counted from its plan with Belady's eviction; nothing was trained. \
         Hover over a figure for its values; the camera above it downloads it as SVG.",
    );
    page.download(
        "orders.csv",
        &table::comparison_csv(comparison, provenance)?,
    );
    if let Some(case) = focus(comparison).filter(|_| comparison.cases.len() > 1) {
        page.text(&format!(
            "Figures that show a single grid show {}; for another one, compare it alone. The tables have all.",
            case.title()
        ));
    }
    figures(comparison)
        .into_iter()
        .for_each(|figure| page.figure(figure));
    if let Some(case) = focus(comparison) {
        page.heading("The buffer over time");
        page.text(
            "Predicted at the given rates, with prefetch: missing partitions of the next bucket are read while other \
             buckets are trained, and evicted partitions are written while it is trained.",
        );
        for index in 0..case.orders.len().min(TIMELINES) {
            page.figure(buffer(case, index, &comparison.rates));
        }
    }
    for case in &comparison.cases {
        page.heading(&case.title());
        tables(&mut page, case);
    }
    page.text(&spread_caption(comparison));
    sources(&mut page, comparison);
    page.heading("What the columns mean");
    let meanings = COLUMNS
        .iter()
        .map(|column| (name(column.key), column.meaning.to_owned()));
    page.summary(&meanings.collect::<Vec<_>>());
    page.heading("Where these results come from");
    page.summary(&provenance.summary());
    page.json("configuration.json", &provenance.configuration)?;
    Ok(page.render()?)
}

/// Returns the figures of a comparison, except those of the buffer over time.
#[must_use]
pub fn figures(comparison: &OrderComparison) -> Vec<Figure> {
    let mut figures = figure::swaps_by_buffer(comparison);
    figures.extend(figure::swaps_by_partitions(comparison));
    let series = figure::Series::of(comparison);
    if let Some(case) = focus(comparison) {
        figures.push(figure::overview(case, &series));
        figures.push(figure::misses(case, &series));
        figures.extend(figure::grids(case));
        figures.push(figure::bias(case, &series));
        figures.push(figure::stalls(case, &comparison.rates));
    }
    figures
}

/// Returns the case of the figures of a single grid: the last one that is small enough, otherwise the first one.
fn focus(comparison: &OrderComparison) -> Option<&ComparisonCase> {
    let mut cases = comparison
        .cases
        .iter()
        .filter(|case| !case.orders.is_empty());
    let small = |case: &&ComparisonCase| case.pass.buckets() <= figure::MOST_BUCKETS;
    cases.clone().rfind(small).or_else(|| cases.next())
}

/// Returns the figure of the buffer over time for one order.
fn buffer(case: &ComparisonCase, index: usize, rates: &DeviceRates) -> Figure {
    let entry = &case.orders[index];
    let replay = BufferReplay::new(&case.pass, &entry.plan, case.buffer);
    let clock = PassTimeline::new(&case.pass, &entry.plan, &replay, rates, LoadPolicy::Ahead);
    figure::timeline(&Timeline {
        id: format!("buffer-{index}"),
        title: format!("{}: {}", entry.order, case.title()),
        caption: format!(
            "Each bar is a partition in a slot, coloured by its number. Training waits {:.0} s of {:.0} s.",
            clock.stalled(),
            clock.seconds()
        ),
        stalls: clock.stalls().collect(),
        end: clock.seconds(),
        transfers: &clock.transfers,
        replay: &replay,
        shared: case.shared,
    })
}

/// Appends the table of a case, and the reasons of orders that are not in it.
fn tables(page: &mut Page, case: &ComparisonCase) {
    // Measured and published swaps stand side by side.
    let others = || COLUMNS.iter().filter(|column| column.key != SWAPS);
    let mut head = ["order", SWAPS, "published swaps"]
        .map(str::to_owned)
        .to_vec();
    head.extend(others().map(|column| name(column.key)));
    let rows = case.orders.iter().map(|entry| {
        let figures = others().map(|column| {
            let values: Option<Vec<f64>> = entry
                .seeds
                .iter()
                .map(|seed| (column.value)(&seed.analysis))
                .collect();
            let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
            match values.map(mean) {
                None => "-".to_owned(),
                Some(mean) if column.key.starts_with("bytes") => bytes(mean),
                Some(mean) => number(mean),
            }
        });
        let published = entry
            .published
            .map_or_else(|| "-".to_owned(), |value| value.swaps.to_string());
        let first = [entry.order.clone(), swaps(entry), published];
        first.into_iter().chain(figures).collect()
    });
    page.table(&head, &rows.collect::<Vec<Vec<String>>>());
    for refused in &case.refused {
        page.text(&format!(
            "{} is left out: {}",
            refused.order, refused.reason
        ));
    }
}

/// Returns the mean swaps of an order, with their range in parentheses if the seeds differ.
pub(crate) fn swaps(entry: &OrderResult) -> String {
    let figure = |analysis: &Analysis| analysis.swaps as f64;
    let mean = number(entry.mean(figure));
    match entry.spread(figure) {
        Some((low, high)) => format!("{mean} ({}–{})", number(low), number(high)),
        None => mean,
    }
}

/// Returns what the figures of the tables are with regard to the seeds.
pub(crate) fn spread_caption(comparison: &OrderComparison) -> String {
    let seeds: Vec<String> = comparison.seeds().iter().map(u64::to_string).collect();
    match seeds.as_slice() {
        [] | [_] => format!(
            "Plans of one seed ({}); those of orders with random choices differ with others.",
            seeds.join("")
        ),
        several => format!(
            "Means over the plans of {} seeds ({}), in parentheses the range of the swaps where they differ.",
            several.len(),
            several.join(", ")
        ),
    }
}

/// Appends the sources of the published values in the tables.
fn sources(page: &mut Page, comparison: &OrderComparison) {
    let entries = comparison.cases.iter().flat_map(|case| &case.orders);
    let published = entries.filter_map(|entry| Some((entry.order.clone(), entry.published?)));
    let sources: BTreeMap<String, String> = published
        .map(|(order, value)| (order, published::citation(value.source).to_owned()))
        .collect();
    if !sources.is_empty() {
        page.heading("Sources of the published swaps");
        page.summary(&sources.into_iter().collect::<Vec<_>>());
    }
}

/// Converts a key such as `bytes_read` to `bytes read`.
fn name(key: &str) -> String {
    key.replace('_', " ")
}
