//! Tables of results as CSV.

use crate::columns::COLUMNS;
use crate::provenance::{self, Provenance};
use crate::run::{BucketRow, RunReport};
use pbg_lab::comparison::OrderComparison;
use pbg_lab::study::{EpochPoint, Study};

/// Returns a row per case, order and seed; an order that failed has a reason instead of figures.
///
/// # Errors
/// When the rows cannot be written.
pub fn comparison_csv(
    comparison: &OrderComparison,
    provenance: &Provenance,
) -> Result<String, csv::Error> {
    let mut head = vec![
        "lhs_partitions",
        "rhs_partitions",
        "shared",
        "buffer",
        "order",
        "seed",
        "planning_seconds",
    ];
    head.extend(COLUMNS.iter().map(|column| column.key));
    head.extend(["published_swaps", "published_source"]);
    head.extend(provenance::COLUMNS);
    head.push("refused");
    write(&head, |rows| {
        for case in &comparison.cases {
            let place = [
                case.lhs_partitions.to_string(),
                case.rhs_partitions.to_string(),
                case.shared.to_string(),
                case.buffer.to_string(),
            ];
            for entry in &case.orders {
                for seed in &entry.seeds {
                    let mut row = place.to_vec();
                    row.extend([entry.order.clone(), seed.seed.to_string()]);
                    row.push(seed.planning_seconds.to_string());
                    row.extend(COLUMNS.iter().map(|column| {
                        (column.value)(&seed.analysis).map_or(String::new(), |x| x.to_string())
                    }));
                    row.extend(match entry.published {
                        Some(value) => [value.swaps.to_string(), value.source.to_owned()],
                        None => [String::new(), String::new()],
                    });
                    row.extend(provenance.cells(&entry.order));
                    row.push(String::new());
                    rows.push(row);
                }
            }
            for refused in &case.refused {
                let mut row = place.to_vec();
                row.push(refused.order.clone());
                row.resize(head.len() - 1, String::new());
                row.push(refused.reason.clone());
                rows.push(row);
            }
        }
    })
}

/// Writes a table with a header.
fn write(head: &[&str], fill: impl FnOnce(&mut Vec<Vec<String>>)) -> Result<String, csv::Error> {
    let mut rows = Vec::new();
    fill(&mut rows);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head)?;
    for row in rows {
        writer.write_record(row)?;
    }
    text(writer)
}

/// Returns the text that was written.
pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Name of a column, and the function that formats its cells.
type Column<T> = (&'static str, fn(&T) -> String);

/// Columns of a study after those for the order and the seed.
const EPOCH_COLUMNS: [Column<EpochPoint>; 22] = [
    ("epoch", |point| point.epoch.to_string()),
    ("edges", |point| point.edges.to_string()),
    ("seconds", |point| point.seconds.to_string()),
    ("stall_seconds", |point| point.stall_seconds.to_string()),
    ("predicted_stall_seconds", |point| {
        optional(point.predicted_stall_seconds)
    }),
    ("commit_seconds", |point| point.commit_seconds.to_string()),
    ("io_bytes", |point| point.io_bytes().to_string()),
    ("bytes_read", |point| point.bytes_read.to_string()),
    ("bytes_written", |point| point.bytes_written.to_string()),
    ("bytes_evicted", |point| {
        point.disk.stored.evicted.to_string()
    }),
    ("bytes_committed", |point| {
        point.disk.stored.committed.to_string()
    }),
    ("process_read", |point| {
        optional(point.disk.process.map(|io| io.read))
    }),
    ("process_written", |point| {
        optional(point.disk.process.map(|io| io.written))
    }),
    ("device_read", |point| {
        optional(point.disk.process.map(|io| io.device_read))
    }),
    ("device_written", |point| {
        optional(point.disk.process.map(|io| io.device_written))
    }),
    ("loss", |point| point.loss.to_string()),
    ("mrr", |point| point.mrr.to_string()),
    ("hits_at_10", |point| point.hits_at_10.to_string()),
    ("predicted_swaps", |point| point.predicted_swaps.to_string()),
    ("performed_swaps", |point| point.swaps().to_string()),
    ("predicted_loads", |point| point.predicted_loads.to_string()),
    ("performed_loads", |point| point.loads.to_string()),
];

/// Formats a value that may be unknown.
fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns a row per order, seed and epoch of a study.
///
/// # Errors
/// When the rows cannot be written.
pub fn study_csv(study: &Study, provenance: &Provenance) -> Result<String, csv::Error> {
    let head = [
        &["order", "seed", "run"][..],
        &EPOCH_COLUMNS.map(|(name, _)| name),
        &provenance::COLUMNS,
    ]
    .concat();
    write(&head, |rows| {
        for order in &study.orders {
            for run in &order.runs {
                rows.extend(run.epochs.iter().map(|point| {
                    let run = [
                        order.order.clone(),
                        run.seed.to_string(),
                        run.repeat.to_string(),
                    ];
                    let cells = EPOCH_COLUMNS.map(|(_, cell)| cell(point));
                    let origin = provenance.cells(&order.order);
                    run.into_iter()
                        .chain(cells)
                        .chain(origin)
                        .collect::<Vec<_>>()
                }));
            }
        }
    })
}

/// Columns of the buckets of a run.
const BUCKET_COLUMNS: [Column<BucketRow>; 15] = [
    ("epoch", |row| row.pass.epoch.to_string()),
    ("edge_set", |row| row.pass.edge_set.to_string()),
    ("edge_chunk", |row| row.pass.edge_chunk.to_string()),
    ("lhs", |row| row.bucket.lhs.to_string()),
    ("rhs", |row| row.bucket.rhs.to_string()),
    ("edges", |row| row.stats.count.to_string()),
    ("loss", |row| row.stats.mean_loss().to_string()),
    ("regularization", |row| row.stats.reg.to_string()),
    ("held_out_mrr", |row| {
        row.eval_before
            .map_or(String::new(), |eval| eval.mrr.to_string())
    }),
    ("seconds", |row| row.seconds.to_string()),
    ("stall_seconds", |row| row.io.waited().to_string()),
    ("partition_loads", |row| row.io.loads.to_string()),
    ("bytes_read", |row| row.io.bytes_read.to_string()),
    ("bytes_written", |row| row.io.bytes_written.to_string()),
    ("trainer", |row| row.trainer.clone().unwrap_or_default()),
];

/// Returns a row per trained bucket of a run.
///
/// # Errors
/// When the rows cannot be written.
pub fn run_csv(report: &RunReport) -> Result<String, csv::Error> {
    write(&BUCKET_COLUMNS.map(|(name, _)| name), |rows| {
        let cells = |row| Vec::from(BUCKET_COLUMNS.map(|(_, cell)| cell(row)));
        rows.extend(report.buckets.iter().map(cells));
    })
}
