//! HTML page of a study: bucket orders compared by training with each.

use super::comparison::PageError;
use super::{bytes, number};
use crate::figure::{self, Figure};
use crate::page::Page;
use crate::provenance::Provenance;
use crate::table;
use pbg_lab::differences::{FEWEST_SEEDS, FIGURES, OrderDifference};
use pbg_lab::study::{EpochPoint, OrderRuns, Study, mean_and_deviation, pooled_deviation};

/// Headers of the table of results, for the cells that [`row`] returns.
pub const HEADERS: [&str; 11] = [
    "order",
    "MRR",
    "Hits@10",
    "loss",
    "swaps predicted",
    "swaps performed",
    "read and written",
    "seconds",
    "stall",
    "stall predicted",
    "commits",
];

/// Returns the HTML page of a study.
///
/// # Errors
/// When the data cannot be written.
pub fn page(study: &Study, provenance: &Provenance) -> Result<String, PageError> {
    let mut page = Page::new("Bucket orders compared by training");
    page.text(
        "The same data, model and budget with each order. Hover over a figure for its values; the camera above it \
         downloads it as SVG.",
    );
    page.summary(&study.setting);
    page.download("study.csv", &table::study_csv(study, provenance)?);
    let head = HEADERS.map(str::to_owned);
    page.table(&head, &study.orders.iter().map(row).collect::<Vec<_>>());
    page.text(&caption(study));
    for table in statistics(study) {
        page.heading(&table.title);
        page.table(&table.head, &table.rows);
        page.text(&table.caption);
    }
    figures(study)
        .into_iter()
        .for_each(|figure| page.figure(figure));
    page.heading("Where these results come from");
    page.summary(&provenance.summary());
    page.json("configuration.json", &provenance.configuration)?;
    Ok(page.render()?)
}

/// Returns the explanation of the table of results.
#[must_use]
pub fn caption(study: &Study) -> String {
    let shown = match study.orders.iter().map(|order| order.seeds().count()).max() {
        None | Some(0 | 1) => "of one seed, so without a deviation",
        _ => "as mean and standard deviation over the seeds",
    };
    format!(
        "Results after the last epoch, {shown}; every run ranks the same edges. Swaps (predicted from the plans and performed \
         by the buffer), bytes (of partitions that entered and left the buffer), seconds and stalls (waits for partitions and edges; \
         predicted ones for a limited disk) are totals of all epochs, as are the seconds of waiting for commits."
    )
}

/// Returns the figures of a study.
#[must_use]
pub fn figures(study: &Study) -> Vec<Figure> {
    let mut figures = Vec::from_iter(figure::differences(study));
    figures.extend([figure::mrr(study), figure::loss(study)]);
    figures
}

/// Returns the table row with the results of an order. MRR, Hits@10 and loss are from the last epoch; the other numbers
/// are totals of all epochs, as means over the seeds. ` (differs)` marks loads that the plans did not predict.
#[must_use]
pub fn row(order: &OrderRuns) -> Vec<String> {
    // A point of a run has the totals of bytes, seconds and stalls up to its epoch, but the swaps of its epoch alone.
    let last = |figure: fn(&EpochPoint) -> f64| mean_and_deviation(&order.last(figure));
    let with_deviation = |(mean, deviation): (f64, f64)| match order.seeds().count() {
        0 | 1 => format!("{mean:.4}"),
        _ => format!("{mean:.4} ± {deviation:.4}"),
    };
    let mean_total = |figure: fn(&EpochPoint) -> u64| {
        let of = |run: &pbg_lab::study::SeedRun| run.epochs.iter().map(figure).sum::<u64>() as f64;
        mean_and_deviation(&order.seeds().map(of).collect::<Vec<_>>()).0
    };
    let differs = order.mispredicted_epochs().next().is_some();
    vec![
        order.order.clone(),
        with_deviation(last(|point| point.mrr)),
        with_deviation(last(|point| point.hits_at_10)),
        with_deviation(last(|point| point.loss)),
        number(mean_total(|point| point.predicted_swaps)),
        number(mean_total(EpochPoint::swaps)) + if differs { " (differs)" } else { "" },
        bytes(last(|point| point.io_bytes() as f64).0),
        number(last(|point| point.seconds).0),
        number(last(|point| point.stall_seconds).0),
        predicted_stall(order),
        number(last(|point| point.commit_seconds).0),
    ]
}

/// Formats the predicted stalls of an order, if its disk was limited.
fn predicted_stall(order: &OrderRuns) -> String {
    let points = order.seeds().filter_map(|run| run.epochs.last());
    let seconds: Vec<f64> = points
        .filter_map(|point| point.predicted_stall_seconds)
        .collect();
    match seconds.is_empty() {
        true => NONE.to_owned(),
        false => number(mean_and_deviation(&seconds).0),
    }
}

/// Table with a title and an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticsTable {
    /// Title.
    pub title: String,
    /// Headers of the columns.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
    /// Explanation below the table.
    pub caption: String,
}

/// Returns the tables of bytes, and of differences, certainties and repeated runs, as far as the study has enough runs for
/// them.
#[must_use]
pub fn statistics(study: &Study) -> Vec<StatisticsTable> {
    [
        counted_bytes(study),
        differences(study),
        certainties(study),
        repeats(study),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the table of bytes by what counts them.
fn counted_bytes(study: &Study) -> Option<StatisticsTable> {
    type CountedBytes = (&'static str, fn(&EpochPoint) -> Option<u64>);
    const COLUMNS: [CountedBytes; 8] = [
        ("read", |p| Some(p.bytes_read)),
        ("written", |p| Some(p.bytes_written)),
        ("evictions", |p| Some(p.disk.stored.evicted)),
        ("commits", |p| Some(p.disk.stored.committed)),
        ("process read", |p| p.disk.process.map(|io| io.read)),
        ("process wrote", |p| p.disk.process.map(|io| io.written)),
        ("disk read", |p| p.disk.process.map(|io| io.device_read)),
        ("disk wrote", |p| p.disk.process.map(|io| io.device_written)),
    ];
    let row = |order: &OrderRuns| {
        let cells = COLUMNS.map(|(_, figure)| {
            let points = order.seeds().filter_map(|run| run.epochs.last());
            let values: Vec<f64> = points
                .filter_map(|point| Some(figure(point)? as f64))
                .collect();
            match values.is_empty() {
                true => NONE.to_owned(),
                false => bytes(mean_and_deviation(&values).0),
            }
        });
        std::iter::once(order.order.clone()).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = study.orders.iter().map(row).collect();
    (!rows.is_empty()).then(|| StatisticsTable {
        title: "Bytes by what counts them".to_owned(),
        head: heads("order", COLUMNS.map(|(name, _)| name)),
        rows,
        caption: "Totals of all epochs, mean over the seeds. Read and written: partitions that entered the buffer, and trained ones \
                  that left it, as the plans say. Evictions: of the latter, what no commit had written yet. Commits: what commits wrote. \
                  Process: everything that system calls of training read and wrote, also edges and partitions that are read again \
                  when an epoch begins; of a process that was stopped, until its last commit. Disk: bytes that the system fetched from the device, and bytes that it was asked to write there."
            .to_owned(),
    })
}

/// Returns the table of differences to the first order.
fn differences(study: &Study) -> Option<StatisticsTable> {
    let first = study.orders.first();
    let baseline = &first.filter(|order| order.seeds().count() > 1)?.order;
    let rows: Vec<Vec<String>> = FIGURES
        .iter()
        .flat_map(|figure| {
            let differences = study.differences(figure.of).into_iter();
            differences.map(|difference| difference_row(figure.name, &difference))
        })
        .collect();
    let mut caption = "Mean difference between runs of the same seed after the last epoch, and its 95 % interval (studentized \
                       bootstrap over the seeds)."
        .to_owned();
    if rows.iter().any(|row| row.iter().any(|cell| cell == NONE)) {
        caption.push_str(&format!(
            " Without an interval, the seeds are too few or too equal for one; it takes at least {FEWEST_SEEDS}."
        ));
    }
    if disagree(study) {
        caption.push_str(DISAGREEMENT);
    }
    (!rows.is_empty()).then(|| StatisticsTable {
        title: format!("Difference to {baseline}"),
        head: heads(
            "order",
            ["figure", "difference", "95 % from", "to", "seeds"],
        ),
        rows,
        caption,
    })
}

/// Why an interval and a certainty may disagree.
const DISAGREEMENT: &str = " Interval and certainty (below) do not say the same here, since they ask different questions. The certainty asks how \
     often random signs would give so large a mean: if all seeds agree, it is as high as their number allows, however much \
     they vary. The interval asks how far the true mean may be, and a seed whose difference is much larger or smaller than \
     the others widens it. Trust neither alone; more seeds bring them together.";

/// Returns whether the interval of a difference in MRR contains 0 although the signs are as certain as an interval of 95 %
/// would be, or as the seeds allow, or the other way round.
fn disagree(study: &Study) -> bool {
    let differences = study.differences(|point| point.mrr);
    differences.iter().any(|difference| {
        let Some([low, high]) = difference.interval else {
            return false;
        };
        let seeds = i32::try_from(difference.seeds.len()).unwrap_or(i32::MAX);
        let doubt = difference.certainty.min(1.0 - difference.certainty);
        // One of two sides has half of what an interval leaves out.
        let is_certain = doubt <= 0.025_f64.max(0.5_f64.powi(seeds));
        is_certain == (low <= 0.0 && high >= 0.0)
    })
}

/// Cell without a value.
const NONE: &str = "-";

fn difference_row(figure: &str, difference: &OrderDifference) -> Vec<String> {
    let end = |place: usize| {
        let value = difference
            .interval
            .and_then(|ends| ends.get(place).copied());
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:+.4}"))
    };
    vec![
        difference.order.clone(),
        figure.to_owned(),
        format!("{:+.4}", difference.mean),
        end(0),
        end(1),
        difference.seeds.len().to_string(),
    ]
}

fn heads<'a>(first: &str, others: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let others = others.into_iter().map(str::to_owned);
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// Returns the table of certainties that the order of a row has a higher MRR than the order of a column.
fn certainties(study: &Study) -> Option<StatisticsTable> {
    let seeds = study
        .orders
        .iter()
        .map(|order| order.seeds().count())
        .min()?;
    if seeds < 2 || study.orders.len() < 2 {
        return None;
    }
    let names: Vec<&str> = study
        .orders
        .iter()
        .map(|order| order.order.as_str())
        .collect();
    let cell = |certainty: Option<f64>| {
        certainty.map_or_else(
            || NONE.to_owned(),
            |share| format!("{:.1} %", share * 100.0),
        )
    };
    let certainties = study.certainties(|point| point.mrr);
    let rows = names.iter().zip(certainties).map(|(name, row)| {
        let cells = row.into_iter().map(cell);
        std::iter::once((*name).to_owned()).chain(cells).collect()
    });
    let most = 100.0 * (1.0 - 0.5_f64.powi(i32::try_from(seeds).unwrap_or(i32::MAX)));
    let mut caption = format!(
        "Certainty that the order of the row has a higher MRR than that of the column: 100 % minus the p-value of an exact \
         one-sided test that flips the signs of the differences of each seed. {seeds} seeds allow at most {most:.1} %, even if \
         all agree."
    );
    let pairs = names.len() * (names.len() - 1) / 2;
    if pairs > 1 {
        caption.push_str(&format!(
            " That is the certainty about one pair chosen beforehand. About the best of {pairs} pairs, the doubt (100 % minus the \
             certainty) is up to {pairs} times as large (Bonferroni)."
        ));
    }
    Some(StatisticsTable {
        title: "Who has the higher MRR".to_owned(),
        head: heads("order", names.iter().copied()),
        rows: rows.collect(),
        caption,
    })
}

/// Returns the table of the deviations between runs of one seed, which differ with several workers.
fn repeats(study: &Study) -> Option<StatisticsTable> {
    let repeated: Vec<&OrderRuns> = study
        .orders
        .iter()
        .filter(|order| order.repeated(|point| point.mrr).len() > 1)
        .collect();
    let row = |name: &str, orders: &[&OrderRuns]| {
        let runs = |order: &&OrderRuns| order.repeated(|point| point.mrr).len();
        let count: usize = orders.iter().map(runs).sum();
        let deviations = FIGURES.map(|figure| {
            let samples: Vec<Vec<f64>> = orders.iter().map(|o| o.repeated(figure.of)).collect();
            format!("{:.4}", pooled_deviation(&samples))
        });
        let first = [name.to_owned(), count.to_string()];
        first.into_iter().chain(deviations).collect()
    };
    let mut rows: Vec<Vec<String>> = repeated.iter().map(|o| row(&o.order, &[*o])).collect();
    if rows.len() > 1 {
        rows.push(row("all, pooled", &repeated));
    }
    (!rows.is_empty()).then(|| StatisticsTable {
        title: "Runs of one seed".to_owned(),
        head: heads("order", ["runs", "MRR", "Hits@10", "loss"]),
        rows,
        caption: "Standard deviation between runs of the first seed: what the workers alone change. A difference of this size \
                  between two runs says nothing about their orders."
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use pbg_lab::study::{EpochPoint, SeedRun};

    use super::*;

    /// Returns a study of two orders whose MRR differ by these values, one for each seed.
    fn study(differences: &[f64]) -> Study {
        let order = |name: &str, mrr: &dyn Fn(f64) -> f64| OrderRuns {
            order: name.to_owned(),
            runs: { differences.iter().zip(0..) }
                .map(|(&difference, seed)| SeedRun {
                    seed,
                    epochs: vec![EpochPoint {
                        mrr: mrr(difference),
                        ..EpochPoint::default()
                    }],
                    ..SeedRun::default()
                })
                .collect(),
        };
        Study {
            setting: Vec::new(),
            orders: vec![
                order("random", &|_| 0.2),
                order("beta", &|difference| 0.2 + difference),
            ],
        }
    }

    #[test]
    fn a_page_says_why_interval_and_certainty_disagree() {
        let caption = |differences: &[f64]| {
            let tables = statistics(&study(differences));
            let mut tables = tables.into_iter();
            let found = tables.find(|table| table.title.starts_with("Difference"));
            found.unwrap().caption
        };
        // All are positive, but resamples without the last one hardly vary.
        let agreeing = [0.001, 0.0011, 0.0012, 0.0009, 0.03];
        let found = &study(&agreeing).differences(|point| point.mrr)[0];
        let [low, high] = found.interval.unwrap();
        assert!(
            low < 0.0 && high > 0.0 && found.certainty > 0.96,
            "{found:?}"
        );
        assert!(caption(&agreeing).contains("different questions"));
        let clear = caption(&[0.010, 0.011, 0.012, 0.009, 0.011]);
        assert!(!clear.contains("different questions"), "{clear}");
        let none = caption(&[0.010, -0.011, 0.012, -0.009, -0.002]);
        assert!(!none.contains("different questions"), "{none}");
    }
}
