//! Prints a comparison of orders to the terminal.

use std::io::{self, Write};

use comfy_table::Table;
use pbg_lab::analysis::Analysis;
use pbg_lab::cluster_simulation::PassCost;
use pbg_lab::comparison::{ComparisonCase, OrderComparison, OrderResult};

use crate::{format, tables};

/// Header of a column, and the function that formats its cells.
type Column = (&'static str, fn(&OrderResult) -> String);

const COLUMNS: [Column; 13] = [
    ("order", |e| e.order.clone()),
    ("swaps", |e| with_range(e, |a| a.swaps as f64)),
    ("ratio", |e| {
        if e.seeds.iter().any(|seed| seed.analysis.ratio().is_none()) {
            return "-".to_owned();
        }
        format!("{:.2}", e.mean(|a| a.ratio().unwrap_or(1.0)))
    }),
    ("read", |e| size(e, |a| a.bytes_read)),
    ("written", |e| size(e, |a| a.bytes_written)),
    ("final", |e| size(e, |a| a.bytes_final)),
    ("reuse", |e| format!("{:.1}", e.mean(|a| a.reuse_distance))),
    ("pairs/swap", |e| {
        format!("{:.2}", e.mean(|a| a.new_pairs_per_swap))
    }),
    ("buckets/state", |e| {
        format!(
            "{:.1} ({:.0})",
            e.mean(|a| a.states.mean),
            e.mean(|a| a.states.max as f64)
        )
    }),
    ("bias", |e| {
        format!(
            "{:.2} ({:.2})",
            e.mean(|a| a.bias.mean),
            e.mean(|a| a.bias.max)
        )
    }),
    ("stall", |e| format::seconds(e.mean(|a| a.stall_on_demand))),
    ("prefetched", |e| format::seconds(e.mean(|a| a.stall_ahead))),
    ("planned in", |e| {
        let sum: f64 = e.seeds.iter().map(|seed| seed.planning_seconds).sum();
        format!("{:.2} s", sum / e.seeds.len().max(1) as f64)
    }),
];

/// Meaning of the column headers.
const LEGEND: &str = "\
swaps          partition loads into a full buffer; ratio: divided by their lower bound
read           bytes of partitions that enter the buffer in a pass, with its first fill
written        bytes of trained partitions that leave the buffer; final: of those in it at the end, for the checkpoint
reuse          number of other partitions used between two uses of a partition, mean
pairs/swap     pairs of partitions that are in the buffer together for the first time, per swap, mean
buckets/state  buckets trained between swaps, mean (maximum)
bias           largest minus smallest fraction of its own buckets that a partition has finished, mean (maximum)
published      swaps that the source of an order states; docs/orders.bib has the sources
rounds         of several machines, where a bucket takes one round; ideal: without waiting for each other
stall          time that training waits for the disk at the given rates; prefetched: with prefetching";

/// Prints all cases.
pub(super) fn print(out: &mut dyn Write, comparison: &OrderComparison) -> io::Result<()> {
    for case in &comparison.cases {
        writeln!(
            out,
            "{}: at least {}",
            case.title(),
            format::plural(case.lower_bound, "swap")
        )?;
        if !case.orders.is_empty() {
            writeln!(out, "{}", table(case))?;
        }
        print_published(out, case)?;
        if case.orders.iter().any(|entry| !entry.trainers().is_empty()) {
            writeln!(out, "{}", together(case))?;
        }
        for entry in &case.orders {
            if let Some(fault) = &entry.together_fault {
                writeln!(
                    out,
                    "{} cannot pick buckets for several trainers: {fault}",
                    entry.order
                )?;
            }
        }
        for refused in &case.refused {
            writeln!(out, "{} is left out: {}", refused.order, refused.reason)?;
        }
        writeln!(out)?;
    }
    let rates = comparison.rates;
    writeln!(out, "{LEGEND}")?;
    let seeds: Vec<String> = comparison.seeds().iter().map(u64::to_string).collect();
    match seeds.as_slice() {
        [] => {}
        [seed] => writeln!(
            out,
            "seed           {seed}; --seeds N shows how much orders with random choices vary"
        )?,
        several => writeln!(
            out,
            "seeds          {}; figures are means over them, swaps also with their range",
            several.join(", ")
        )?,
    }
    writeln!(
        out,
        "rates          {} edges/s, reads {}B/s, writes {}B/s",
        format::count(rates.edges),
        format::count(rates.read),
        format::count(rates.write),
    )
}

/// Prints the swaps that the sources of the orders state.
fn print_published(out: &mut dyn Write, case: &ComparisonCase) -> io::Result<()> {
    let known = case.orders.iter().filter_map(|entry| {
        let value = entry.published?;
        Some(format!(
            "{} {} ({})",
            entry.order, value.swaps, value.source
        ))
    });
    let known: Vec<String> = known.collect();
    if known.is_empty() {
        return Ok(());
    }
    writeln!(out, "published swaps: {}", known.join(", "))
}

fn table(case: &ComparisonCase) -> Table {
    let rows = case.orders.iter();
    let rows = rows.map(|entry| COLUMNS.map(|(_, value)| value(entry)));
    tables::markdown(COLUMNS.map(|(head, _)| head), rows, 1)
}

/// Returns the table of rounds of several trainers as means over the seeds, the fewest rounds first.
fn together(case: &ComparisonCase) -> Table {
    let header = [
        "order",
        "machines",
        "rounds",
        "ideal",
        "busy",
        "read",
        "written",
        "each reads",
        "each writes",
    ];
    let mut rows: Vec<TogetherRow> = Vec::new();
    for entry in &case.orders {
        for trainers in entry.trainers() {
            let mean = |figure: fn(&PassCost) -> f64| {
                entry.mean_together(trainers, figure).unwrap_or_default()
            };
            let (rounds, read) = (mean(|c| c.rounds as f64), mean(|c| c.bytes_read as f64));
            let written = mean(|c| c.bytes_written as f64);
            let each = |bytes: f64| format::bytes((bytes / f64::from(trainers.max(1))) as u64);
            let cells = [
                entry.order.clone(),
                trainers.to_string(),
                tenths(rounds),
                tenths(mean(|c| c.ideal as f64)),
                format!("{:.1} %", mean(PassCost::busy) * 100.0),
                format::bytes(read as u64),
                format::bytes(written as u64),
                each(read),
                each(written),
            ];
            rows.push(TogetherRow {
                trainers,
                rounds,
                read,
                cells,
            });
        }
    }
    rows.sort_by(|a, b| {
        let trainers = a.trainers.cmp(&b.trainers);
        let by_rounds = trainers.then(a.rounds.total_cmp(&b.rounds));
        by_rounds.then(a.read.total_cmp(&b.read))
    });
    tables::markdown(header, rows.into_iter().map(|row| row.cells), 1)
}

/// Row of the table of several trainers, with the figures by which it is sorted.
struct TogetherRow {
    trainers: u32,
    rounds: f64,
    read: f64,
    cells: [String; 9],
}

/// Formats a number with one decimal, unless it is whole.
fn tenths(value: f64) -> String {
    if value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Formats the mean, followed by the range over seeds if they differ.
fn with_range(entry: &OrderResult, figure: fn(&Analysis) -> f64) -> String {
    let mean = entry.mean(figure);
    match entry.spread(figure) {
        Some((low, high)) => format!("{mean:.0} ({low:.0}-{high:.0})"),
        None => format!("{mean:.0}"),
    }
}

fn size(entry: &OrderResult, figure: fn(&Analysis) -> u64) -> String {
    format::bytes(entry.mean(|analysis| figure(analysis) as f64) as u64)
}
